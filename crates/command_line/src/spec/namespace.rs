//! The short form of a namespace, `--namespace SPEC`, and what in a namespace does not fit together: what it says is the same
//! struct that files and requests are. It opens nothing: whether a file or device is there is for the target to find. Paths
//! begin at the root, since a configuration may be put into effect from another working directory than that of who wrote it.

use std::path::PathBuf;

use engine::backend::{BackendConfig, RbdConfig, RbdEncryption};
use engine::ceph::LuksFormat;
use engine::limits::NAMESPACES_MAX;
use engine::target::{
    BLOCK_SIZE_DEFAULT, NamespaceConfig, SettingError, WriteProtection, check_block_size, parse_uuid,
    parse_write_delay,
};
use engine::units::counted;

use super::ceph;
use super::size::Size;

/// Options that had another name: what is typed with it means the same.
const FORMER_NAMES: [(&str, &str); 3] =
    [("block", "block_size"), ("shared", "shared_storage"), ("write_delay", "write_delay_ms")];

/// Reads a namespace. One that has no number yet has the identifier 0.
pub fn parse(text: &str) -> Result<NamespaceConfig, String> {
    let (kind, rest) = text.split_once(':').ok_or_else(|| unknown_kind(text, text))?;
    let (main, options) = rest.split_once(',').map_or((rest, None), |(main, options)| (main, Some(options)));
    let backend = backend(kind, main)?.ok_or_else(|| unknown_kind(text, kind))?;
    let mut namespace = NamespaceConfig::new(0, backend, 0);
    for option in options.into_iter().flat_map(|options| options.split(',')) {
        let (key, value) = option.split_once('=').ok_or_else(|| unknown_option(kind, option))?;
        set(&mut namespace, kind, key, value)?.then_some(()).ok_or_else(|| unknown_option(kind, option))?;
    }
    namespace.default_block_size();
    check(&namespace).map_err(|(_, what)| what)?;
    from_root(&mut namespace);
    Ok(namespace)
}

/// Reads the storage; `None` if there is no backend of this kind.
fn backend(kind: &str, main: &str) -> Result<Option<BackendConfig>, String> {
    Ok(Some(match kind {
        "memory" | "null" if main.is_empty() => return Err(format!("{kind}: needs a size, as in {kind}:1g")),
        "memory" => BackendConfig::Memory { size: bytes(main)? },
        "null" => BackendConfig::Null { size: bytes(main)? },
        "file" | "block" if main.is_empty() => return Err(format!("{kind}: needs a path")),
        "file" => BackendConfig::File { path: main.into(), size: None },
        "block" => BackendConfig::Block { path: main.into() },
        "rbd" => BackendConfig::Rbd(ceph::parse_image(main)?),
        _ => return Ok(None),
    }))
}

/// Sets one option; whether there is such a one.
fn set(namespace: &mut NamespaceConfig, kind: &str, key: &str, value: &str) -> Result<bool, String> {
    let shown = |error: SettingError| error.to_string();
    match (FORMER_NAMES.iter().find(|(former, _)| *former == key).map_or(key, |(_, name)| name), kind) {
        ("block_size", _) => namespace.block_size = check_block_size(bytes(value)?).map_err(shown)?,
        ("nsid", _) => {
            let nsid = value.parse().map_err(|_| format!("`{value}` is not an nsid"))?;
            if !(1..=NAMESPACES_MAX).contains(&nsid) {
                return Err(format!("nsid must be 1 to {NAMESPACES_MAX}"));
            }
            namespace.nsid = nsid;
        }
        ("uuid", _) => namespace.uuid = Some(parse_uuid(value).map_err(shown)?),
        ("nguid", _) => namespace.nguid = Some(value.parse().map_err(shown)?),
        ("host_write_protection", _) => namespace.host_write_protection = parse_write_protection(value)?,
        ("write_delay_ms", "file" | "block") => {
            // Of milliseconds people leave out the unit, and by the former name of seconds.
            let is_bare = value.bytes().all(|byte| byte.is_ascii_digit()) && key == "write_delay_ms";
            let unit = if is_bare { "ms" } else { "" };
            namespace.write_delay_ms = parse_write_delay(&format!("{value}{unit}")).map_err(shown)?;
        }
        ("shared_storage", "file" | "block") => namespace.shared_storage = parse_shared(key, value)?,
        (key, _) => return set_backend(&mut namespace.backend, key, value),
    }
    Ok(true)
}

fn set_backend(backend: &mut BackendConfig, key: &str, value: &str) -> Result<bool, String> {
    match (backend, key) {
        (BackendConfig::File { size, .. }, "size") => *size = Some(bytes(value)?),
        (BackendConfig::Rbd(_), _) if value.is_empty() => return Ok(false),
        (BackendConfig::Rbd(RbdConfig { conf, .. }), "conf") => *conf = Some(PathBuf::from(value)),
        (BackendConfig::Rbd(RbdConfig { encryption, .. }), "luks1" | "luks2") => {
            let format = if key == "luks1" { LuksFormat::Luks1 } else { LuksFormat::Luks2 };
            *encryption = Some(Box::new(RbdEncryption { format, passphrase_file: PathBuf::from(value) }));
        }
        (BackendConfig::Rbd(RbdConfig { id, .. }), "id") => *id = Some(ceph::user(value)),
        _ => return Ok(false),
    }
    Ok(true)
}

fn unknown_kind(text: &str, kind: &str) -> String {
    if kind.contains(['/', '.']) {
        return format!("`{text}` names no backend: write file:{text}, or block:{text} for a device");
    }
    format!(
        "`{kind}` is not a namespace: write memory:SIZE, null:SIZE, file:PATH[,size=SIZE], block:PATH or \
         rbd:POOL[/NAMESPACE]/IMAGE[@SNAPSHOT][,conf=FILE][,id=NAME][,luks2=FILE]"
    )
}

fn unknown_option(kind: &str, option: &str) -> String {
    let own = match kind {
        "file" => "size=SIZE, shared_storage=yes, write_delay_ms=N, ",
        "block" => "shared_storage=yes, write_delay_ms=N, ",
        "rbd" => "conf=FILE, id=NAME, luks1=FILE or luks2=FILE, ",
        _ => "",
    };
    let is_path = matches!(kind, "file" | "block") && option.contains(['/', '.']) && !option.contains('=');
    let hint = if is_path { "; a path with a comma is for target.toml" } else { "" };
    format!(
        "`{option}` is not an option of {kind}: it takes {own}block_size=512|4096, nsid=N, uuid=UUID, \
         nguid=NGUID and host_write_protection=LEVEL{hint}"
    )
}

/// Parses a size.
fn bytes(text: &str) -> Result<u64, String> {
    text.parse::<Size>().map(|Size(bytes)| bytes).map_err(|error| error.to_string())
}

/// Parses the value of a setting for shared storage.
fn parse_shared(key: &str, text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{key}={text}: it takes yes or no")),
    }
}

/// A level of write protection by its name.
fn parse_write_protection(text: &str) -> Result<WriteProtection, String> {
    WriteProtection::named(text).ok_or_else(|| {
        format!("`{text}` is not a write protection: write none, on, until_restart or permanent")
    })
}

/// Describes the storage of a namespace in a word or a path, without its size.
pub fn describe(backend: &BackendConfig) -> String {
    match backend {
        BackendConfig::Memory { .. } => "memory".to_owned(),
        BackendConfig::Null { .. } => "null".to_owned(),
        BackendConfig::File { path, .. } => format!("file {}", path.display()),
        BackendConfig::Block { path } => format!("block device {}", path.display()),
        BackendConfig::Rbd(image) => format!("rbd {}", ceph::image_path(image)),
    }
}

/// An error, with the name of the setting.
pub type Wrong = (String, String);

/// Checks what in a namespace does not fit together, before anything is opened: for flags, files and requests alike.
pub fn check(namespace: &NamespaceConfig) -> Result<(), Wrong> {
    let is_stored = matches!(namespace.backend, BackendConfig::File { .. } | BackendConfig::Block { .. });
    for (name, is_given) in
        [("write_delay_ms", namespace.write_delay_ms > 0), ("shared_storage", namespace.shared_storage)]
    {
        if is_given && !is_stored {
            return Err((name.to_owned(), format!("{name} goes with file and block only")));
        }
    }
    check_path(&namespace.backend)?;
    let (field, size) = match &namespace.backend {
        BackendConfig::Memory { size } => ("backend.memory.size", Some(*size)),
        BackendConfig::Null { size } => ("backend.null.size", Some(*size)),
        BackendConfig::File { size, .. } => ("backend.file.size", *size),
        BackendConfig::Block { .. } => return Ok(()),
        BackendConfig::Rbd(image) => {
            return ceph::check_image(image).map_err(|(name, what)| (format!("backend.rbd.{name}"), what));
        }
    };
    let block_size = if namespace.block_size == 0 { BLOCK_SIZE_DEFAULT } else { namespace.block_size };
    let checked = size.map_or(Ok(()), |size| check_size(size, block_size).map(drop));
    checked.map_err(|what| (field.to_owned(), what))
}

/// A path in a home folder, as only a shell reads it, would be one in a folder named `~`.
fn check_path(backend: &BackendConfig) -> Result<(), Wrong> {
    let (field, path) = match backend {
        BackendConfig::File { path, .. } => ("backend.file.path", path),
        BackendConfig::Block { path } => ("backend.block.path", path),
        BackendConfig::Rbd(RbdConfig { conf: Some(conf), .. }) => ("backend.rbd.conf", conf),
        _ => return Ok(()),
    };
    if !path.starts_with("~") {
        return Ok(());
    }
    let what = "only a shell knows ~, and only where a word begins with it: write the whole path";
    Err((field.to_owned(), format!("{}: {what}", path.display())))
}

/// A size is one block at least, a whole number of them, and no more than the system can address.
pub fn check_size(bytes: u64, block_size: u32) -> Result<u64, String> {
    if bytes == 0 || !bytes.is_multiple_of(u64::from(block_size)) {
        return Err(format!(
            "a size of {} is not a whole number of {block_size}-byte blocks",
            counted(bytes, "byte")
        ));
    }
    if i64::try_from(bytes).is_err() {
        return Err(format!("a size of {bytes} bytes is more than 8 EiB"));
    }
    Ok(bytes)
}

/// The path that a backend names, with the setting that it stands in.
pub fn path_of(backend: &mut BackendConfig) -> Option<(&'static str, &mut PathBuf)> {
    match backend {
        BackendConfig::Memory { .. } | BackendConfig::Null { .. } => None,
        BackendConfig::File { path, .. } => Some(("backend.file.path", path)),
        BackendConfig::Block { path } => Some(("backend.block.path", path)),
        BackendConfig::Rbd(image) => image.conf.as_mut().map(|conf| ("backend.rbd.conf", conf)),
    }
}

/// Begins the paths of a namespace at the root.
pub fn from_root(namespace: &mut NamespaceConfig) {
    if let Some((_, path)) = path_of(&mut namespace.backend) {
        *path = super::absolute(path);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use engine::target::SubsystemConfig;

    use super::*;

    #[test]
    fn every_kind_is_read() {
        let memory = parse("memory:256m").unwrap();
        assert_eq!(memory.backend, BackendConfig::Memory { size: 256 << 20 });
        assert_eq!((memory.block_size, memory.nsid, memory.uuid), (4096, 0, None));
        assert_eq!(parse("null:1t,block_size=512").unwrap().block_size, 512);
        let file = parse("file:/tmp/disk.img,size=1g,nsid=7,block_size=4k").unwrap();
        assert_eq!(file.backend, BackendConfig::File { path: "/tmp/disk.img".into(), size: Some(1 << 30) });
        assert_eq!((file.nsid, file.write_delay_ms), (7, 0));
        let backup = parse("file:/tmp/~/disk~").unwrap();
        assert_eq!(backup.backend, BackendConfig::File { path: "/tmp/~/disk~".into(), size: None });
        assert!(parse("file:/x,shared_storage=yes").unwrap().shared_storage);
        assert!(!parse("block:/x,shared_storage=no").unwrap().shared_storage);
        let delay_ms = |text: &str| parse(&format!("file:/x,{text}")).unwrap().write_delay_ms;
        assert_eq!([delay_ms("write_delay_ms=500"), delay_ms("write_delay_ms=1.5s")], [500, 1500]);
        let image = parse(
            "rbd:rbd/space/disk@monday,id=client.gateway,conf=/etc/ceph/other.conf,block_size=512,nsid=3",
        )
        .unwrap();
        let BackendConfig::Rbd(rbd) = &image.backend else { panic!("{image:?}") };
        assert_eq!(
            (rbd.id.as_deref(), rbd.conf.as_deref()),
            (Some("gateway"), Some(Path::new("/etc/ceph/other.conf")))
        );
        assert_eq!(
            (ceph::image_path(rbd).as_str(), image.block_size, image.nsid),
            ("rbd/space/disk@monday", 512, 3)
        );
        assert_eq!(describe(&image.backend), "rbd rbd/space/disk@monday");
        let level = |text: &str| parse(text).unwrap().host_write_protection;
        assert_eq!(level("memory:1m"), WriteProtection::None);
        for name in ["until_restart", "until-restart"] {
            let spec = format!("memory:1m,host_write_protection={name}");
            assert_eq!(level(&spec), WriteProtection::UntilRestart, "{name}");
        }
        assert_eq!(parse("block:/dev/sdx").unwrap().block_size, 0, "the target asks the device");
        assert_eq!(parse("block:/dev/sdx,block_size=512").unwrap().block_size, 512);
        let uuid = "11111111-2222-3333-4444-555555555555";
        let block = parse(&format!("block:/dev/sdx,uuid={uuid}")).unwrap();
        assert_eq!(block.uuid.unwrap().to_string(), uuid);
        let named = parse("null:1g,nguid=ef90689c-6c46-d44c-89c1-4067801309a8").unwrap();
        assert_eq!(named.nguid.unwrap().to_string(), "ef90689c6c46d44c89c14067801309a8");
    }

    #[test]
    fn mistakes_say_what_is_allowed() {
        let cases = [
            ("disk", "write memory:SIZE"),
            ("disk:/x", "write memory:SIZE"),
            ("disk.img,size=1g", "write file:disk.img,size=1g, or block:"),
            ("/dev/disk/by-id/nvme-eui.1:2", "or block:/dev/disk/by-id/nvme-eui.1:2 for a device"),
            ("memory:", "memory: needs a size"),
            ("memory:lots", "not a size"),
            ("memory:1m,size=2m", "not an option of memory"),
            ("memory:1m,block=1k", "512 and 4096"),
            ("memory:1m,block_size=1k", "512 and 4096"),
            ("memory:1000", "whole number"),
            ("memory:0", "whole number"),
            ("memory:1", "a size of 1 byte is not"),
            ("file:", "needs a path"),
            ("file:~/disk.img,size=1g", "~/disk.img: only a shell knows ~"),
            ("block:~/disk", "write the whole path"),
            ("rbd:pool/image,conf=~/ceph.conf", "write the whole path"),
            ("file:/x,readonly", "size=SIZE"),
            ("file:/a,b.img,size=1m", "a path with a comma is for target.toml"),
            ("null:1g,nsid=0", "1 to 4096"),
            ("null:1m,shared=yes", "not an option of null"),
            ("file:/x,shared=true", "yes or no"),
            ("memory:1m,write_delay=1s", "not an option of memory"),
            ("file:/x,write_delay=soon", "not a time"),
            ("file:/x,write_delay=2m", "at most 60000ms"),
            ("null:1g,uuid=7", "not a UUID"),
            ("null:1g,nguid=7", "not an NGUID"),
            ("null:1g,nguid=00000000000000000000000000000000", "zeroes"),
            ("null:1g,uuid=00000000-0000-0000-0000-000000000000", "zeroes"),
            ("rbd:image", "POOL/IMAGE"),
            ("rbd:pool/image,conf=", "conf=FILE"),
            ("rbd:pool/image,size=1g", "not an option of rbd"),
            ("rbd:pool/image,shared=yes", "not an option of rbd"),
            ("memory:1m,id=gateway", "not an option of memory"),
            ("memory:1m,host_write_protection=yes", "none, on, until_restart or permanent"),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn former_names_mean_what_they_meant() {
        for (former, now) in [
            ("file:/x,shared=yes,block=512", "file:/x,shared_storage=yes,block_size=512"),
            ("file:/x,write_delay=500ms", "file:/x,write_delay_ms=500"),
            ("block:/dev/x,write_delay=2", "block:/dev/x,write_delay_ms=2000"),
            ("block:/dev/x,write_delay=1.5", "block:/dev/x,write_delay_ms=1500ms"),
        ] {
            assert_eq!(parse(former), parse(now), "{former}");
        }
    }

    #[test]
    fn namespaces_without_a_number_take_the_free_ones() {
        let specs = ["null:1m", "null:1m,nsid=1", "null:1m", "null:1m,nsid=3"].map(|s| parse(s).unwrap());
        let mut subsystem = SubsystemConfig::new("nqn.a", "", "").with(specs.into());
        subsystem.number();
        let numbers: Vec<u32> = subsystem.namespaces.iter().map(|namespace| namespace.nsid).collect();
        assert_eq!(numbers, [2, 1, 4, 3]);
    }
}
