//! `target.toml`: a target with its ports, subsystems and namespaces in a file. Every mistake in it is reported
//! with the file, the line and what is allowed. What the parts mean is `config::target`'s.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use engine::backend::RbdConfig;
use engine::ring::Engine;
use engine::target::{
    AnaGroupConfig, CommandQuiesce, FabricConfig, GroupState, KnownHost, NamespaceConfig, PortConfig,
    QosConfig, ReferralConfig, SubsystemConfig, Visibility, WriteProtection,
};
use engine::transport::Transport;
use nvme::discovery::Nqn;
use serde::Deserialize;
use toml::Spanned;

use super::ceph::{self, CephSpec};
use super::connection::resolve;
use super::namespace::{self, BackendSpec, NamespaceSpec};
use super::quotas::QuotaSpec;
use super::reactors::ReactorSpec;
use super::size::Size;
use super::storage_table::StorageTable;
use super::target::{Asked, MODEL, ServeConfig, check_congestion, check_serial, check_subsystem_nqn};
use crate::failure::Failure;

/// The port of NVMe/TCP that IANA assigned.
pub(crate) const SERVICE_DEFAULT: u16 = 4420;
/// The port of NVMe/TCP discovery services that IANA assigned.
pub(crate) const DISCOVERY_SERVICE_DEFAULT: u16 = 8009;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetTable {
    reactors: Option<ReactorSpec>,
    engine: Option<EngineName>,
    poll_us: Option<u64>,
    bdevs_per_cluster: Option<Spanned<i64>>,
    ceph_timeout_ms: Option<Spanned<i64>>,
    #[serde(default)]
    quotas: QuotaSpec,
    discovery_nqn: Option<Spanned<String>>,
    #[serde(default)]
    port: Vec<Spanned<PortTable>>,
    #[serde(default)]
    referral: Vec<ReferralTable>,
    #[serde(default)]
    subsystem: Vec<Spanned<SubsystemTable>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum EngineName {
    Auto,
    IoUring,
    Epoll,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PortTable {
    id: Option<Spanned<u16>>,
    address: Spanned<String>,
    service: Option<Spanned<i64>>,
    advertise: Option<String>,
    #[serde(default)]
    discovery_only: bool,
    #[serde(default)]
    transport: Transport,
    congestion: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferralTable {
    address: String,
    service: Option<u16>,
    nqn: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubsystemTable {
    nqn: Spanned<String>,
    serial: Option<Spanned<String>>,
    model: Option<String>,
    allow_any_host: Option<bool>,
    hosts: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    ports: Vec<u16>,
    storage: Option<StorageTable>,
    command_quiesce_ms: Option<u16>,
    #[serde(default)]
    command_quiesce: CommandQuiesce,
    #[serde(default)]
    ana_group: Vec<AnaGroupTable>,
    #[serde(default)]
    namespace: Vec<Spanned<NamespaceTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnaGroupTable {
    id: u32,
    #[serde(default)]
    state: GroupState,
    #[serde(default)]
    ports: BTreeMap<String, GroupState>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamespaceTable {
    nsid: Option<u32>,
    memory: Option<Size>,
    null: Option<Size>,
    file: Option<PathBuf>,
    block_device: Option<PathBuf>,
    rbd: Option<Spanned<String>>,
    conf: Option<Spanned<PathBuf>>,
    id: Option<Spanned<String>>,
    size: Option<Spanned<Size>>,
    block: Option<Spanned<Size>>,
    uuid: Option<Spanned<String>>,
    write_delay: Option<Spanned<String>>,
    shared: Option<Spanned<bool>>,
    ana_group: Option<u32>,
    visible_to: Option<Vec<Spanned<String>>>,
    hidden_from: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    qos: QosTable,
    #[serde(default)]
    write_protection: WriteProtection,
    #[serde(default)]
    host_write_protection: WriteProtection,
    #[serde(default)]
    protected_by_host: bool,
    #[serde(default)]
    created_by_host: bool,
    owner: Option<KnownHost>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct QosTable {
    read_iops: Option<u64>,
    write_iops: Option<u64>,
    iops: Option<u64>,
    read_bytes: Option<Size>,
    write_bytes: Option<Size>,
    bytes: Option<Size>,
}

impl From<QosTable> for QosConfig {
    fn from(table: QosTable) -> Self {
        let bytes = |size: Option<Size>| size.map(|size| size.0);
        Self {
            read_iops: table.read_iops,
            write_iops: table.write_iops,
            iops: table.iops,
            read_bytes: bytes(table.read_bytes),
            write_bytes: bytes(table.write_bytes),
            bytes: bytes(table.bytes),
        }
    }
}

/// What is wrong, and which bytes of the file it concerns.
struct Mistake {
    what: String,
    span: Option<Range<usize>>,
}

impl Mistake {
    fn at(span: Range<usize>) -> impl FnOnce(String) -> Mistake {
        move |what| Mistake { what, span: Some(span) }
    }
}

/// Reads and checks the file.
pub(crate) fn read(path: &Path) -> Result<ServeConfig, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?;
    read_text(&text, path)
}

/// Reads and checks what is in the file.
pub(crate) fn read_text(text: &str, path: &Path) -> Result<ServeConfig, Failure> {
    parse(text).map_err(|mistake| {
        let line = mistake.span.map_or(String::new(), |span| format!(":{}", line_of(text, span.start)));
        Failure::usage(format!("{}{line}: {}", path.display(), mistake.what))
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

fn parse(text: &str) -> Result<ServeConfig, Mistake> {
    let table: TargetTable = toml::from_str(text)
        .map_err(|error| Mistake { what: error.message().to_owned(), span: error.span() })?;
    if table.port.is_empty() {
        return Err(nothing("no port to listen on: add a [[port]] with an address"));
    }
    if table.subsystem.is_empty() {
        return Err(nothing("no subsystem to serve: add a [[subsystem]] with an nqn"));
    }
    let mut fabric = FabricConfig::default();
    let mut taken: Vec<u16> =
        table.port.iter().filter_map(|p| p.get_ref().id.as_ref()).map(|id| *id.get_ref()).collect();
    for entry in &table.port {
        fabric.ports.push(port(entry, &mut taken)?);
    }
    for entry in &table.subsystem {
        let subsystem = subsystem(entry, &fabric.ports)?;
        if fabric.subsystem(&subsystem.nqn).is_some() {
            let what = format!("subsystem {} is there twice", subsystem.nqn);
            return Err(Mistake { what, span: Some(entry.get_ref().nqn.span()) });
        }
        fabric.subsystems.push(subsystem);
    }
    fabric.referrals = table.referral.iter().map(referral).collect::<Result<Vec<_>, _>>()?;
    fabric.discovery_nqn = optional_nqn(table.discovery_nqn.as_ref())?;
    // What is left to be wrong is between the parts, and its message names them.
    fabric.check().map_err(|error| nothing(&error.to_string()))?;
    table.quotas.check().map_err(|what| nothing(&what))?;
    let engine = match table.engine {
        None | Some(EngineName::Auto) => Engine::Automatic,
        Some(EngineName::IoUring) => Engine::IoUring,
        Some(EngineName::Epoll) => Engine::Epoll,
    };
    Ok(ServeConfig {
        fabric,
        reactors: table.reactors,
        engine,
        poll_us_max: table.poll_us,
        ceph: ceph_spec(table.bdevs_per_cluster.as_ref(), table.ceph_timeout_ms.as_ref())?,
        quotas: table.quotas,
    })
}

fn ceph_spec(images: Option<&Spanned<i64>>, time_ms: Option<&Spanned<i64>>) -> Result<CephSpec, Mistake> {
    let checked = |value: Option<&Spanned<i64>>, check: fn(i64) -> Result<u64, String>| {
        value.map(|value| check(*value.get_ref()).map_err(Mistake::at(value.span()))).transpose()
    };
    Ok(CephSpec {
        bdevs_per_cluster: checked(images, ceph::check_bdevs_per_cluster)?,
        timeout_ms: checked(time_ms, ceph::check_timeout_ms)?,
    })
}

fn nothing(what: &str) -> Mistake {
    Mistake { what: what.to_owned(), span: None }
}

/// A port. Without a number of its own it gets the lowest that no port has.
fn port(entry: &Spanned<PortTable>, taken: &mut Vec<u16>) -> Result<PortConfig, Mistake> {
    let table = entry.get_ref();
    let service = match &table.service {
        Some(service) => u16::try_from(*service.get_ref()).map_err(|_| Mistake {
            what: format!("service {} is no port: ports are 0 to 65535", service.get_ref()),
            span: Some(service.span()),
        })?,
        None => SERVICE_DEFAULT,
    };
    let address = resolve(table.address.get_ref(), service).map_err(Mistake::at(table.address.span()))?;
    if let Some(congestion) = &table.congestion {
        check_congestion(Some(congestion.get_ref())).map_err(Mistake::at(congestion.span()))?;
    }
    let id = match &table.id {
        Some(id) => *id.get_ref(),
        None => {
            let id = (1..u16::MAX).find(|id| !taken.contains(id)).unwrap_or(u16::MAX);
            taken.push(id);
            id
        }
    };
    Ok(PortConfig {
        advertise: table.advertise.clone(),
        discovery_only: table.discovery_only,
        transport: table.transport,
        congestion: table.congestion.as_ref().map(|name| name.get_ref().clone()),
        ..PortConfig::new(id, address)
    })
}

fn referral(table: &ReferralTable) -> Result<ReferralConfig, Mistake> {
    Ok(ReferralConfig {
        address: table.address.clone(),
        service: table.service.unwrap_or(DISCOVERY_SERVICE_DEFAULT).to_string(),
        nqn: optional_nqn(table.nqn.as_ref())?,
    })
}

fn subsystem(entry: &Spanned<SubsystemTable>, ports: &[PortConfig]) -> Result<SubsystemConfig, Mistake> {
    let table = entry.get_ref();
    let nqn = parse_nqn(&table.nqn)?;
    check_subsystem_nqn(&nqn).map_err(Mistake::at(table.nqn.span()))?;
    let serial = match &table.serial {
        Some(serial) => check_serial(serial.get_ref()).map_err(Mistake::at(serial.span()))?,
        // The target's to give, which need not run on the machine where the file is read.
        None => String::new(),
    };
    let ana_groups = table.ana_group.iter().map(|group| ana_group(group, entry.span()));
    let ana_groups = ana_groups.collect::<Result<Vec<_>, _>>()?;
    let (allow_any_host, hosts) = access(entry, ports)?;
    Ok(SubsystemConfig {
        allow_any_host,
        hosts,
        ana_groups,
        storage: table.storage.as_ref().map(StorageTable::to_engine),
        command_quiesce_ms: table.command_quiesce_ms,
        command_quiesce: table.command_quiesce,
        ports: table.ports.clone(),
        ..SubsystemConfig::new(&nqn, &serial, table.model.as_deref().unwrap_or(MODEL))
            .with(namespaces(entry)?)
    })
}

/// Who may use a subsystem. "Nobody yet" is said in full, since otherwise it is a mistake.
fn access(entry: &Spanned<SubsystemTable>, ports: &[PortConfig]) -> Result<(bool, Vec<String>), Mistake> {
    let table = entry.get_ref();
    let hosts = table.hosts.iter().flatten().map(parse_nqn).collect::<Result<Vec<_>, _>>()?;
    let names = hosts.iter().map(ToString::to_string).collect();
    match (table.allow_any_host, &table.hosts) {
        (Some(false), None) => {
            let what = "nobody may use this subsystem: name its hosts, or set allow_any_host = true; \
                        hosts = [] says that there are none yet";
            Err(Mistake { what: what.to_owned(), span: Some(entry.span()) })
        }
        (Some(any_host), _) => Ok((any_host, names)),
        (None, _) => {
            let asked = Asked { any_host: false, hosts };
            let any_host = asked.allows_any_host(ports).map_err(|()| Mistake {
                what:
                    "a port can be reached from other machines: name the hosts that may use this subsystem, \
                       or set allow_any_host = true"
                        .to_owned(),
                span: Some(entry.span()),
            })?;
            Ok((any_host, names))
        }
    }
}

fn ana_group(table: &AnaGroupTable, span: Range<usize>) -> Result<AnaGroupConfig, Mistake> {
    let mut ports = BTreeMap::new();
    for (port, state) in &table.ports {
        let id = port.parse().map_err(|_| Mistake {
            what: format!("ANA group {}: `{port}` is no port number", table.id),
            span: Some(span.clone()),
        })?;
        ports.insert(id, *state);
    }
    Ok(AnaGroupConfig { id: table.id, state: table.state, ports })
}

fn namespaces(entry: &Spanned<SubsystemTable>) -> Result<Vec<NamespaceConfig>, Mistake> {
    let tables = &entry.get_ref().namespace;
    let specs = tables.iter().map(namespace_spec).collect::<Result<Vec<_>, _>>()?;
    let mut namespaces = namespace::to_engine(&specs).map_err(Mistake::at(entry.span()))?;
    for (config, table) in namespaces.iter_mut().zip(tables) {
        let span = table.span();
        let table = table.get_ref();
        config.ana_group = table.ana_group.unwrap_or(config.ana_group);
        config.qos = table.qos.into();
        config.write_protection = table.write_protection;
        config.protected_by_host = table.protected_by_host;
        config.created_by_host = table.created_by_host;
        config.owner.clone_from(&table.owner);
        config.visible = match (&table.visible_to, &table.hidden_from) {
            (None, None) => Visibility::default(),
            (Some(hosts), None) => Visibility::Only(names(hosts)?),
            (None, Some(hosts)) => Visibility::AllExcept(names(hosts)?),
            (Some(_), Some(_)) => {
                let what = "visible_to and hidden_from contradict each other: keep one".to_owned();
                return Err(Mistake { what, span: Some(span) });
            }
        };
    }
    Ok(namespaces)
}

fn names(hosts: &[Spanned<String>]) -> Result<Vec<String>, Mistake> {
    hosts.iter().map(|host| parse_nqn(host).map(|nqn| nqn.to_string())).collect()
}

fn optional_nqn(name: Option<&Spanned<String>>) -> Result<Option<String>, Mistake> {
    name.map(|name| parse_nqn(name).map(|nqn| nqn.to_string())).transpose()
}

fn parse_nqn(name: &Spanned<String>) -> Result<Nqn, Mistake> {
    let what = |error| format!("`{}`: {error}", name.get_ref());
    Nqn::new(name.get_ref()).map_err(|error| Mistake { what: what(error), span: Some(name.span()) })
}

fn namespace_spec(entry: &Spanned<NamespaceTable>) -> Result<NamespaceSpec, Mistake> {
    let table = entry.get_ref();
    let size = table.size.as_ref().map(|size| *size.get_ref());
    let mut backends = Vec::new();
    backends.extend(table.memory.map(BackendSpec::Memory));
    backends.extend(table.null.map(BackendSpec::Null));
    backends.extend(table.file.clone().map(|path| BackendSpec::File { path, size }));
    backends.extend(table.block_device.clone().map(BackendSpec::Block));
    backends.extend(image(table)?.map(BackendSpec::Rbd));
    if backends.len() != 1 {
        let what = "a namespace has exactly one of memory, null, file, block_device and rbd".to_owned();
        return Err(Mistake { what, span: Some(entry.span()) });
    }
    let backend = backends.remove(0);
    if let (Some(size), false) = (&table.size, matches!(backend, BackendSpec::File { .. })) {
        let what =
            "size goes with file only; memory and null are given theirs directly, and an image has its own";
        let what = what.to_owned();
        return Err(Mistake { what, span: Some(size.span()) });
    }
    let block_size = match &table.block {
        Some(block) => namespace::check_block_size(block.get_ref().0).map_err(Mistake::at(block.span()))?,
        None => namespace::BLOCK_SIZE_DEFAULT,
    };
    let uuid = match &table.uuid {
        Some(uuid) => Some(namespace::parse_uuid(uuid.get_ref()).map_err(Mistake::at(uuid.span()))?),
        None => None,
    };
    let write_delay_ms = match &table.write_delay {
        Some(delay) if !matches!(backend, BackendSpec::File { .. } | BackendSpec::Block(_)) => {
            let what = "write_delay goes with file and block_device only".to_owned();
            return Err(Mistake { what, span: Some(delay.span()) });
        }
        Some(delay) => namespace::parse_write_delay(delay.get_ref()).map_err(Mistake::at(delay.span()))?,
        None => 0,
    };
    let shared = match &table.shared {
        Some(shared) if !matches!(backend, BackendSpec::File { .. } | BackendSpec::Block(_)) => {
            let what = "shared goes with file and block_device only".to_owned();
            return Err(Mistake { what, span: Some(shared.span()) });
        }
        shared => shared.as_ref().is_some_and(|shared| *shared.get_ref()),
    };
    let host_write_protection = table.host_write_protection;
    let nsid = table.nsid;
    let spec =
        NamespaceSpec { backend, nsid, block_size, uuid, write_delay_ms, shared, host_write_protection };
    spec.check().map_err(Mistake::at(entry.span()))?;
    Ok(spec)
}

/// The image of a Ceph cluster, if that is where the blocks are.
fn image(table: &NamespaceTable) -> Result<Option<RbdConfig>, Mistake> {
    let spans = [table.conf.as_ref().map(Spanned::span), table.id.as_ref().map(Spanned::span)];
    let Some(path) = &table.rbd else {
        return match spans.into_iter().flatten().next() {
            Some(span) => Err(Mistake { what: "conf and id go with rbd only".to_owned(), span: Some(span) }),
            None => Ok(None),
        };
    };
    let image = RbdConfig {
        conf: table.conf.as_ref().map(|conf| conf.get_ref().clone()),
        id: table.id.as_ref().map(|id| ceph::user(id.get_ref())),
        ..ceph::parse_image(path.get_ref()).map_err(Mistake::at(path.span()))?
    };
    let wrong = |(field, what)| Mistake { what: format!("{field}: {what}"), span: Some(path.span()) };
    ceph::check_image(&image).map_err(wrong)?;
    Ok(Some(image))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::backend::BackendConfig;

    const WHOLE: &str = r#"
reactors = "0,1"
engine = "epoll"
bdevs_per_cluster = 8
ceph_timeout_ms = 0

[[port]]
address = "127.0.0.1"
service = 4421
advertise = "10.0.2.2"

[[subsystem]]
nqn = "nqn.2026-01.io.selvedge:a"
serial = "A1"
hosts = ["nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd"]

[[subsystem.namespace]]
nsid = 3
memory = "1g"
block = 512

[[subsystem.namespace]]
file = "disk.img"
size = "16m"
uuid = "11111111-2222-3333-4444-555555555555"

[[subsystem.namespace]]
rbd = "rbd/space/disk@monday"
conf = "other.conf"
id = "gateway"
"#;

    fn mistake(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target.toml");
        std::fs::write(&path, text).unwrap();
        match read(&path) {
            Err(Failure::Usage(what)) => what[what.find("target.toml").unwrap()..].to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_whole_file_is_read() {
        let config = parse(WHOLE).unwrap_or_else(|mistake| panic!("{}", mistake.what));
        assert_eq!(config.reactors, Some(ReactorSpec::Cpus(vec![0, 1])));
        assert_eq!(config.engine, Engine::Epoll);
        let fabric = &config.fabric;
        assert_eq!(fabric.ports[0].address.to_string(), "127.0.0.1:4421");
        assert_eq!((fabric.ports[0].id, fabric.ports[0].advertise.as_deref()), (1, Some("10.0.2.2")));
        let subsystem = &fabric.subsystems[0];
        assert!(!subsystem.allow_any_host && subsystem.hosts.len() == 1);
        assert_eq!(subsystem.namespaces[0].block_size, 512);
        let nsids: Vec<u32> = subsystem.namespaces.iter().map(|n| n.nsid).collect();
        assert_eq!(nsids, [3, 1, 2]);
        assert_eq!((config.ceph.bdevs_per_cluster, config.ceph.timeout_ms), (Some(8), Some(0)));
        let BackendConfig::Rbd(image) = &subsystem.namespaces[2].backend else { panic!("an image") };
        assert_eq!(
            (ceph::image_path(image).as_str(), image.id.as_deref()),
            ("rbd/space/disk@monday", Some("gateway"))
        );
        assert!(image.conf.as_ref().is_some_and(|conf| conf.is_absolute() && conf.ends_with("other.conf")));
        let BackendConfig::File { path, .. } = &subsystem.namespaces[1].backend else { panic!("a file") };
        assert!(path.is_absolute() && path.ends_with("disk.img"));
    }

    #[test]
    fn mistakes_name_the_line() {
        let port = "[[port]]\naddress = \"127.0.0.1\"\n";
        let subsystem = "[[subsystem]]\nnqn = \"nqn.a\"\n";
        let namespace = "[[subsystem.namespace]]\n";
        let cases = [
            ("reactors = 1\nreactor = 2\n".to_owned(), 2, "expected one of"),
            ("reactors = \n".to_owned(), 1, ""),
            ("reactors = 0\n".to_owned(), 1, "1 to 1024"),
            ("engine = \"fast\"\n".to_owned(), 1, "io_uring"),
            ("\n[[port]]\naddress = \"nowhere.invalid\"\n".to_owned() + subsystem, 3, "nowhere.invalid"),
            ("\n[[port]]\nservice = 4420\n".to_owned(), 2, "address"),
            (format!("{port}service = 70000\n{subsystem}"), 3, "65535"),
            (format!("{port}{subsystem}serial = \"\"\n"), 5, "20 printable"),
            (format!("{port}[[subsystem]]\nnqn = \"iqn.a\"\n"), 4, "nqn."),
            (format!("{port}{subsystem}{subsystem}"), 6, "twice"),
            (format!("{port}{subsystem}allow_any_host = false\n"), 3, "nobody may use"),
            (format!("{port}{subsystem}{namespace}memory = \"1x\"\n"), 6, "not a size"),
            (format!("{port}{subsystem}{namespace}nsid = 1\n"), 5, "exactly one of"),
            (format!("{port}{subsystem}{namespace}memory = \"1m\"\nnull = \"1m\"\n"), 5, "exactly one of"),
            (format!("{port}{subsystem}{namespace}memory = \"1m\"\nsize = \"1m\"\n"), 7, "file only"),
            (format!("{port}{subsystem}{namespace}memory = \"1m\"\nblock = 1024\n"), 7, "512 and 4096"),
            (format!("{port}{subsystem}{namespace}memory = \"1m\"\nuuid = \"x\"\n"), 7, "not a UUID"),
            (
                format!("{port}{subsystem}{namespace}null = \"1m\"\nwrite_delay = \"1s\"\n"),
                7,
                "with file and",
            ),
            (format!("{port}{subsystem}{namespace}file = \"x\"\nwrite_delay = \"1h\"\n"), 7, "60000ms"),
            ("bdevs_per_cluster = 0\n".to_owned() + port + subsystem, 1, "1 to 1024"),
            ("ceph_timeout_ms = -1\n".to_owned() + port + subsystem, 1, "0 for none"),
            (format!("{port}{subsystem}{namespace}rbd = \"disk\"\n"), 6, "POOL/IMAGE"),
            (format!("{port}{subsystem}{namespace}memory = \"1m\"\nid = \"a\"\n"), 7, "with rbd only"),
            (format!("{port}{subsystem}{namespace}rbd = \"a/b\"\nsize = \"1m\"\n"), 7, "has its own"),
            (format!("{port}{subsystem}{namespace}rbd = \"a/b\"\nshared = true\n"), 7, "with file and"),
            (format!("{port}{subsystem}command_quiesce_ms = 65536\n"), 5, "u16"),
            (format!("{port}{subsystem}command_quiesce = \"soon\"\n"), 5, "`auto`"),
            (format!("[[port]]\naddress = \"0.0.0.0\"\n{subsystem}"), 3, "allow_any_host"),
        ];
        for (text, line, expected) in cases {
            let what = mistake(&text);
            assert!(what.starts_with(&format!("target.toml:{line}: ")), "{text}\n{what}");
            assert!(what.contains(expected), "{text}\n{what}");
        }
    }

    #[test]
    fn an_empty_file_says_what_is_missing() {
        assert!(mistake("").contains("[[port]]"));
        assert!(mistake("[[port]]\naddress = \"127.0.0.1\"\n").contains("[[subsystem]]"));
    }
}
