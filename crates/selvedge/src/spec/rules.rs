//! What in a namespace does not fit together, before anything is opened: one check for flags, files and requests, which says the
//! setting that is wrong.

use engine::backend::BackendConfig;
use engine::target::NamespaceConfig;

use super::ceph;

/// What is wrong, and with which setting.
pub(crate) type Wrong = (String, String);

/// Checks a namespace for itself.
pub(crate) fn check_namespace(namespace: &NamespaceConfig) -> Result<(), Wrong> {
    let is_stored = matches!(namespace.backend, BackendConfig::File { .. } | BackendConfig::Block { .. });
    for (name, is_given) in
        [("write_delay_ms", namespace.write_delay_ms > 0), ("shared_storage", namespace.shared_storage)]
    {
        if is_given && !is_stored {
            return Err((name.to_owned(), format!("{name} goes with file and block only")));
        }
    }
    let (field, size) = match &namespace.backend {
        BackendConfig::Memory { size } => ("backend.memory.size", Some(*size)),
        BackendConfig::Null { size } => ("backend.null.size", Some(*size)),
        BackendConfig::File { size, .. } => ("backend.file.size", *size),
        BackendConfig::Block { .. } => return Ok(()),
        BackendConfig::Rbd(image) => {
            return ceph::check_image(image).map_err(|(name, what)| (format!("backend.rbd.{name}"), what));
        }
    };
    let checked = size.map_or(Ok(()), |size| check_size(size, namespace.block_size).map(drop));
    checked.map_err(|what| (field.to_owned(), what))
}

/// A size is one block at least, a whole number of them, and no more than the system can address.
pub(crate) fn check_size(bytes: u64, block_size: u32) -> Result<u64, String> {
    if bytes == 0 || !bytes.is_multiple_of(u64::from(block_size)) {
        return Err(format!("a size of {bytes} bytes is not a whole number of {block_size}-byte blocks"));
    }
    if i64::try_from(bytes).is_err() {
        return Err(format!("a size of {bytes} bytes is more than 8 EiB"));
    }
    Ok(bytes)
}
