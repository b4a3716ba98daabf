//! What a namespace is made of, as `--namespace SPEC` says it and as target.toml does. It opens nothing: whether
//! a file or device is there is for the target to find.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use engine::backend::{BackendConfig, RbdConfig};
use engine::target::{NamespaceConfig, WriteProtection};
use uuid::Uuid;

use super::ceph;
use super::size::{Size, parse_time};

/// Block size where none is given: every backend can serve it, and every disk likes it.
pub(crate) const BLOCK_SIZE_DEFAULT: u32 = 4096;

/// A namespace as it was asked for; its identifier may be left to us.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamespaceSpec {
    pub(crate) backend: BackendSpec,
    pub(crate) nsid: Option<u32>,
    pub(crate) block_size: u32,
    pub(crate) uuid: Option<Uuid>,
    /// How long each write is held back before it reaches a file or block device.
    pub(crate) write_delay_ms: u32,
    /// Whether another target may serve the same file or block device.
    pub(crate) shared: bool,
    /// The highest write protection that hosts may set.
    pub(crate) host_write_protection: WriteProtection,
}

/// Where the blocks live.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BackendSpec {
    /// In this process's memory.
    Memory(Size),
    /// Nowhere: writes vanish, reads are zeroes.
    Null(Size),
    /// In a file, made `size` long if it is given.
    File { path: PathBuf, size: Option<Size> },
    /// On a block device.
    Block(PathBuf),
    /// In an image of a Ceph cluster.
    Rbd(RbdConfig),
}

impl FromStr for NamespaceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').ok_or_else(|| unknown_kind(text))?;
        let mut parts = rest.split(',');
        let main = parts.next().unwrap_or_default();
        let mut size = None;
        let mut nsid = None;
        let mut block_size = BLOCK_SIZE_DEFAULT;
        let mut uuid = None;
        let mut write_delay_ms = 0;
        let mut shared = false;
        let mut host_write_protection = WriteProtection::None;
        let (mut conf, mut id) = (None, None);
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| unknown_option(kind, part))?;
            match key {
                "size" if kind == "file" => size = Some(value.parse()?),
                "block" => block_size = check_block_size(value.parse::<Size>()?.0)?,
                "nsid" => nsid = Some(value.parse().map_err(|_| format!("`{value}` is not an nsid"))?),
                "write_delay" if matches!(kind, "file" | "block") => {
                    write_delay_ms = parse_write_delay(value)?;
                }
                "shared" if matches!(kind, "file" | "block") => shared = parse_shared(value)?,
                "uuid" => uuid = Some(parse_uuid(value)?),
                "host_write_protection" => host_write_protection = parse_write_protection(value)?,
                "conf" | "id" if kind == "rbd" && value.is_empty() => return Err(unknown_option(kind, part)),
                "conf" if kind == "rbd" => conf = Some(PathBuf::from(value)),
                "id" if kind == "rbd" => id = Some(ceph::user(value)),
                _ => return Err(unknown_option(kind, part)),
            }
        }
        let backend = match kind {
            "memory" => BackendSpec::Memory(main.parse()?),
            "null" => BackendSpec::Null(main.parse()?),
            "file" | "block" if main.is_empty() => return Err(format!("{kind}: needs a path behind it")),
            "file" => BackendSpec::File { path: main.into(), size },
            "block" => BackendSpec::Block(main.into()),
            "rbd" => BackendSpec::Rbd(RbdConfig { conf, id, ..ceph::parse_image(main)? }),
            _ => return Err(unknown_kind(kind)),
        };
        let spec =
            NamespaceSpec { backend, nsid, block_size, uuid, write_delay_ms, shared, host_write_protection };
        spec.check()?;
        Ok(spec)
    }
}

fn unknown_kind(kind: &str) -> String {
    format!(
        "`{kind}` is no namespace: write memory:SIZE, null:SIZE, file:PATH[,size=SIZE], block:PATH or \
         rbd:POOL[/NAMESPACE]/IMAGE[@SNAPSHOT][,conf=FILE][,id=NAME]"
    )
}

fn unknown_option(kind: &str, option: &str) -> String {
    let own = match kind {
        "file" => "size=SIZE, shared=yes, write_delay=TIME, ",
        "block" => "shared=yes, write_delay=TIME, ",
        "rbd" => "conf=FILE, id=NAME, ",
        _ => "",
    };
    format!(
        "`{option}` is no option of {kind}: it takes {own}block=512|4096, nsid=N, uuid=UUID and \
         host_write_protection=LEVEL"
    )
}

/// Whether storage is shared.
fn parse_shared(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("shared={text}: it takes yes or no")),
    }
}

/// A level of write protection by its name.
fn parse_write_protection(text: &str) -> Result<WriteProtection, String> {
    let all = [
        WriteProtection::None,
        WriteProtection::On,
        WriteProtection::UntilRestart,
        WriteProtection::Permanent,
    ];
    let known = all.into_iter().find(|level| level.name() == text);
    known.ok_or_else(|| format!("`{text}` is no write protection: write off, on, until-restart or permanent"))
}

/// A time for which writes are held back, in milliseconds.
pub(crate) fn parse_write_delay(text: &str) -> Result<u32, String> {
    let (delay, ms_max) = (parse_time(text)?, engine::limits::WRITE_DELAY_MS_MAX);
    match u32::try_from(delay.as_millis()) {
        Ok(delay_ms) if delay_ms <= ms_max => Ok(delay_ms),
        _ => Err(format!("writes can be held back for at most {ms_max}ms, not {text}")),
    }
}

/// The block sizes that a target offers.
pub(crate) fn check_block_size(bytes: u64) -> Result<u32, String> {
    match bytes {
        512 | 4096 => Ok(bytes as u32),
        _ => Err(format!("a block of {bytes} bytes is not offered: 512 and 4096 are")),
    }
}

/// The path from the root on: a configuration may be kept, and put into effect from another working directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    // It fails for an empty path only, which names no file anyway.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A UUID in any of its usual spellings.
pub(crate) fn parse_uuid(text: &str) -> Result<Uuid, String> {
    match Uuid::parse_str(text) {
        Ok(uuid) if uuid.is_nil() => Err("a UUID of zeroes names nothing".into()),
        Ok(uuid) => Ok(uuid),
        Err(error) => Err(format!("`{text}` is not a UUID: {error}")),
    }
}

impl NamespaceSpec {
    /// Checks what can be checked without opening anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        let nsid_max = engine::limits::NAMESPACES_MAX;
        if self.nsid.is_some_and(|nsid| nsid == 0 || nsid > nsid_max) {
            return Err(format!("nsid must be 1 to {nsid_max}"));
        }
        let size = match &self.backend {
            BackendSpec::Memory(size) | BackendSpec::Null(size) => Some(size),
            BackendSpec::File { size, .. } => size.as_ref(),
            BackendSpec::Block(_) | BackendSpec::Rbd(_) => None,
        };
        match size {
            Some(Size(bytes)) if *bytes == 0 || !bytes.is_multiple_of(u64::from(self.block_size)) => Err(
                format!("a size of {bytes} bytes is not a whole number of {}-byte blocks", self.block_size),
            ),
            _ => Ok(()),
        }
    }

    fn to_engine(&self, nsid: u32) -> NamespaceConfig {
        let backend = match &self.backend {
            BackendSpec::Memory(size) => BackendConfig::Memory { size: size.0 },
            BackendSpec::Null(size) => BackendConfig::Null { size: size.0 },
            BackendSpec::File { path, size } => {
                BackendConfig::File { path: absolute(path), size: size.map(|size| size.0) }
            }
            BackendSpec::Block(path) => BackendConfig::Block { path: absolute(path) },
            BackendSpec::Rbd(image) => BackendConfig::Rbd(ceph::with_absolute_conf(image)),
        };
        NamespaceConfig {
            uuid: self.uuid,
            write_delay_ms: self.write_delay_ms,
            shared_storage: self.shared,
            host_write_protection: self.host_write_protection,
            ..NamespaceConfig::new(nsid, backend, self.block_size)
        }
    }
}

/// One word or path that says where the blocks are.
pub(crate) fn describe(backend: &BackendConfig) -> String {
    match backend {
        BackendConfig::Memory { size } => format!("memory, {}", Size(*size)),
        BackendConfig::Null { size } => format!("null, {}", Size(*size)),
        BackendConfig::File { path, .. } => format!("file {}", path.display()),
        BackendConfig::Block { path } => format!("block device {}", path.display()),
        BackendConfig::Rbd(image) => format!("rbd {}", ceph::image_path(image)),
    }
}

/// Gives every namespace an identifier: those that were asked for stand, the others take the smallest free ones
/// in their order.
pub(crate) fn number(specs: &[NamespaceSpec]) -> Result<Vec<(u32, &NamespaceSpec)>, String> {
    let mut taken: Vec<u32> = specs.iter().filter_map(|spec| spec.nsid).collect();
    taken.sort_unstable();
    if let Some(twice) = taken.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("nsid {} is given twice", twice[0]));
    }
    let mut free = (1..).filter(|nsid| taken.binary_search(nsid).is_err());
    let numbered = specs.iter().map(|spec| (spec.nsid.or_else(|| free.next()).unwrap_or(u32::MAX), spec));
    Ok(numbered.collect())
}

/// The engine's form of all namespaces of a subsystem.
pub(crate) fn to_engine(specs: &[NamespaceSpec]) -> Result<Vec<NamespaceConfig>, String> {
    Ok(number(specs)?.into_iter().map(|(nsid, spec)| spec.to_engine(nsid)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NamespaceSpec, String> {
        text.parse()
    }

    #[test]
    fn every_kind_is_read() {
        let memory = parse("memory:256m").unwrap();
        assert_eq!(memory.backend, BackendSpec::Memory(Size(256 << 20)));
        assert_eq!((memory.block_size, memory.nsid, memory.uuid), (4096, None, None));
        assert_eq!(parse("null:1t,block=512").unwrap().block_size, 512);
        let file = parse("file:/tmp/disk.img,size=1g,nsid=7,block=4k").unwrap();
        assert_eq!(
            file.backend,
            BackendSpec::File { path: "/tmp/disk.img".into(), size: Some(Size(1 << 30)) }
        );
        assert_eq!((file.nsid, file.write_delay_ms), (Some(7), 0));
        assert!(parse("file:/x,shared=yes").unwrap().shared && !parse("block:/x,shared=no").unwrap().shared);
        assert_eq!(parse("file:/x,write_delay=500ms").unwrap().write_delay_ms, 500);
        assert_eq!(parse("block:/dev/x,write_delay=1.5").unwrap().write_delay_ms, 1500);
        let image =
            parse("rbd:rbd/space/disk@monday,id=client.gateway,conf=/etc/ceph/other.conf,block=512,nsid=3")
                .unwrap();
        let BackendSpec::Rbd(rbd) = &image.backend else { panic!("{image:?}") };
        assert_eq!(
            (rbd.id.as_deref(), rbd.conf.as_deref()),
            (Some("gateway"), Some(Path::new("/etc/ceph/other.conf")))
        );
        assert_eq!(
            (ceph::image_path(rbd).as_str(), image.block_size, image.nsid),
            ("rbd/space/disk@monday", 512, Some(3))
        );
        assert_eq!(describe(&image.to_engine(3).backend), "rbd rbd/space/disk@monday");
        let level = |text: &str| parse(text).unwrap().to_engine(1).host_write_protection;
        assert_eq!(level("memory:1m"), WriteProtection::None);
        assert_eq!(level("memory:1m,host_write_protection=until-restart"), WriteProtection::UntilRestart);
        let uuid = "11111111-2222-3333-4444-555555555555";
        let block = parse(&format!("block:/dev/sdx,uuid={uuid}")).unwrap();
        assert_eq!(block.uuid.unwrap().to_string(), uuid);
    }

    #[test]
    fn mistakes_say_what_is_allowed() {
        let cases = [
            ("disk", "write memory:SIZE"),
            ("disk:/x", "write memory:SIZE"),
            ("memory:lots", "not a size"),
            ("memory:1m,size=2m", "no option of memory"),
            ("memory:1m,block=1k", "512 and 4096"),
            ("memory:1000", "whole number"),
            ("memory:0", "whole number"),
            ("file:", "needs a path"),
            ("file:/x,readonly", "size=SIZE"),
            ("null:1g,nsid=0", "1 to 1024"),
            ("null:1m,shared=yes", "no option of null"),
            ("file:/x,shared=true", "yes or no"),
            ("memory:1m,write_delay=1s", "no option of memory"),
            ("file:/x,write_delay=soon", "not a time"),
            ("file:/x,write_delay=2m", "at most 60000ms"),
            ("null:1g,uuid=7", "not a UUID"),
            ("null:1g,uuid=00000000-0000-0000-0000-000000000000", "zeroes"),
            ("rbd:image", "POOL/IMAGE"),
            ("rbd:pool/image,conf=", "conf=FILE"),
            ("rbd:pool/image,size=1g", "no option of rbd"),
            ("rbd:pool/image,shared=yes", "no option of rbd"),
            ("memory:1m,id=gateway", "no option of memory"),
            ("memory:1m,host_write_protection=yes", "off, on, until-restart or permanent"),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn namespaces_without_a_number_take_the_free_ones() {
        let specs: Vec<_> =
            ["null:1m", "null:1m,nsid=1", "null:1m", "null:1m,nsid=3"].map(|s| parse(s).unwrap()).into();
        let numbers: Vec<u32> = number(&specs).unwrap().iter().map(|(nsid, _)| *nsid).collect();
        assert_eq!(numbers, [2, 1, 4, 3]);
        let twice = [parse("null:1m,nsid=2").unwrap(), parse("null:2m,nsid=2").unwrap()];
        assert!(number(&twice).unwrap_err().contains("nsid 2 is given twice"));
    }
}
