//! `selvedge import ceph-nvmeof`: the state of a group of Ceph's own gateways, from a file or from the cluster.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::ceph::{CephError, Cluster, ClusterOptions, Object, Pairs, Pool};
use engine::ring::core;
use engine::secret_file;

use super::{Found, is_there};
use crate::commands::key::write_secret;
use crate::config::ceph_nvmeof::{
    self, Choice, EncryptionKey, Imported, PAIRS_MAX, SecretFile, VERSION_KEY, saved,
};
use crate::failure::Failure;
use crate::flags::import::CephNvmeofFlags;

/// The longest that one read of the cluster may take, in milliseconds.
const OPERATION_TIMEOUT_MS: u64 = 30_000;
/// Maximum number of attempts to read a state that does not change meanwhile.
const ATTEMPTS: usize = 5;

pub(super) fn run(flags: &CephNvmeofFlags) -> Result<(), Failure> {
    // The state may have secrets in clear.
    core::forbid_core_dumps();
    let choice = choice(flags)?;
    let (place, pairs) = match (&flags.file, &flags.pool) {
        (Some(file), _) => {
            let place = file.display().to_string();
            let pairs = saved::read(&super::read(file)?);
            let pairs = pairs.map_err(|what| Failure::usage(format!("{place}: {what}")))?;
            (place, pairs)
        }
        (None, Some(pool)) => state(pool, flags)?,
        (None, None) => return Err(Failure::usage("name a file with the state, or its --pool".to_owned())),
    };
    let read = ceph_nvmeof::read(&pairs, &choice);
    let read = read.map_err(|what| Failure::usage(format!("{place}: {what}")))?;
    let Imported { fabric, secrets, losses, warnings } = read;
    let mut found = Found::new(place, fabric, &losses, &warnings).checked(&flags.result)?;
    if let Some(output) = flags.result.output.as_ref().filter(|output| !flags.result.force && output.exists())
    {
        return Err(is_there(output));
    }
    write(&secrets, choice.secret_dir.as_deref(), flags.result.force)?;
    found.secret_files = secrets.into_iter().map(|file| file.path).collect();
    found.finish(&flags.result)
}

fn choice(flags: &CephNvmeofFlags) -> Result<Choice, Failure> {
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
    };
    let encryption_key = flags.encryption_key.as_ref().map(|file| {
        let wrong = |what: String| Failure::usage(format!("--encryption-key: {what}"));
        let text = secret_file::text(file, ceph_nvmeof::KEY_FILE_BYTES_MAX);
        let text = text.map_err(|error| wrong(error.to_string()))?;
        EncryptionKey::read(&text).map_err(|what| wrong(format!("{}: {what}", file.display())))
    });
    Ok(Choice {
        gateway: flags.gateway.clone(),
        encryption_key: encryption_key.transpose()?,
        secret_dir: flags.secret_dir.as_ref().map(absolute).transpose()?,
        conf: flags.ceph_conf.as_ref().map(absolute).transpose()?,
        id: user(flags),
    })
}

/// The Ceph user; some write it with `client.`.
fn user(flags: &CephNvmeofFlags) -> Option<String> {
    flags.id.as_ref().map(|id| id.strip_prefix("client.").unwrap_or(id).to_owned())
}

/// The state of a group in its cluster, and how the object is called.
fn state(pool: &str, flags: &CephNvmeofFlags) -> Result<(String, Pairs), Failure> {
    let name = match flags.group.as_deref().filter(|group| !group.is_empty()) {
        Some(group) => format!("nvmeof.{group}.state"),
        None => "nvmeof.state".to_owned(),
    };
    let place = format!("{pool}/{name}");
    let failed = |error: CephError| Failure::failed(error.to_string());
    let options = ClusterOptions {
        conf: flags.ceph_conf.clone(),
        id: user(flags),
        operation_timeout_ms: OPERATION_TIMEOUT_MS,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::connect(&options).map_err(failed)?;
    let pool = Arc::new(Pool::open(cluster, pool, "").map_err(failed)?);
    let object = Object::new(pool, &name).map_err(failed)?;
    for _ in 0..ATTEMPTS {
        let Some(pairs) = object.all_pairs(PAIRS_MAX).map_err(failed)? else {
            return Err(Failure::failed(format!(
                "there is no object {place}; `rados -p {name} ls | grep nvmeof` shows the pool's groups",
                name = object.pool().name()
            )));
        };
        let after = object.pairs(VERSION_KEY).map_err(failed)?.unwrap_or_default();
        if after.get(VERSION_KEY) == pairs.get(VERSION_KEY) {
            return Ok((place, pairs));
        }
    }
    Err(Failure::failed(format!("{place} changed each time it was read; stop the group's gateways first")))
}

/// Writes files of secrets. An existing file is kept, unless it has the same secret.
fn write(files: &[SecretFile], folder: Option<&Path>, force: bool) -> Result<(), Failure> {
    let Some(folder) = folder.filter(|_| !files.is_empty()) else { return Ok(()) };
    let failed = |path: &Path, error: &std::io::Error| {
        Failure::failed(format!("{} cannot be written: {error}", path.display()))
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| failed(folder, &error))?;
    let (mut missing, mut former) = (Vec::new(), Vec::new());
    for file in files {
        match fs::read(&file.path) {
            Ok(there) if there.trim_ascii() == file.text.as_bytes() => continue,
            Ok(_) if !force => return Err(is_there(&file.path)),
            Ok(_) => former.push(&file.path),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&file.path, &error)),
        }
        missing.push(file);
    }
    for path in former {
        fs::remove_file(path).map_err(|error| failed(path, &error))?;
    }
    missing.into_iter().try_for_each(|file| write_secret(&file.path, &file.text))
}
