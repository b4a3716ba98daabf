//! `target.toml`: a target with its ports, subsystems and namespaces in a file. Every mistake in it is reported
//! with the file, the line and what is allowed. What the parts mean is `config::target`'s.

use std::ops::Range;
use std::path::{Path, PathBuf};

use engine::ring::Engine;
use nvme::discovery::Nqn;
use serde::Deserialize;
use toml::Spanned;

use super::connection::resolve;
use super::namespace::{self, BackendSpec, NamespaceSpec};
use super::reactors::ReactorSpec;
use super::size::Size;
use super::target::{
    Asked, PortSpec, ServeConfig, SubsystemSpec, check_serial, check_subsystem_nqn, default_serial,
};
use crate::failure::Failure;

/// The port of NVMe/TCP that IANA assigned.
pub(crate) const SERVICE_DEFAULT: u16 = 4420;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetTable {
    reactors: Option<ReactorSpec>,
    engine: Option<EngineName>,
    poll_us: Option<u64>,
    #[serde(default)]
    port: Vec<Spanned<PortTable>>,
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
    address: Spanned<String>,
    service: Option<Spanned<i64>>,
    advertise: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubsystemTable {
    nqn: Spanned<String>,
    serial: Option<Spanned<String>>,
    allow_any_host: Option<bool>,
    #[serde(default)]
    hosts: Vec<Spanned<String>>,
    #[serde(default)]
    namespace: Vec<Spanned<NamespaceTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamespaceTable {
    nsid: Option<u32>,
    memory: Option<Size>,
    null: Option<Size>,
    file: Option<PathBuf>,
    block_device: Option<PathBuf>,
    size: Option<Spanned<Size>>,
    block: Option<Spanned<Size>>,
    uuid: Option<Spanned<String>>,
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
    parse(&text).map_err(|mistake| {
        let line = mistake.span.map_or(String::new(), |span| format!(":{}", line_of(&text, span.start)));
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
    let ports = table.port.iter().map(port).collect::<Result<Vec<_>, _>>()?;
    let mut subsystems: Vec<SubsystemSpec> = Vec::new();
    for entry in &table.subsystem {
        let spec = subsystem(entry, &ports)?;
        if subsystems.iter().any(|other| other.nqn == spec.nqn) {
            let what = format!("subsystem {} is there twice", spec.nqn);
            return Err(Mistake { what, span: Some(entry.get_ref().nqn.span()) });
        }
        subsystems.push(spec);
    }
    let engine = match table.engine {
        None | Some(EngineName::Auto) => Engine::Automatic,
        Some(EngineName::IoUring) => Engine::IoUring,
        Some(EngineName::Epoll) => Engine::Epoll,
    };
    Ok(ServeConfig { ports, subsystems, reactors: table.reactors, engine, poll_us_max: table.poll_us })
}

fn nothing(what: &str) -> Mistake {
    Mistake { what: what.to_owned(), span: None }
}

fn port(entry: &Spanned<PortTable>) -> Result<PortSpec, Mistake> {
    let table = entry.get_ref();
    let service = match &table.service {
        Some(service) => u16::try_from(*service.get_ref()).map_err(|_| Mistake {
            what: format!("service {} is no port: ports are 0 to 65535", service.get_ref()),
            span: Some(service.span()),
        })?,
        None => SERVICE_DEFAULT,
    };
    let address = resolve(table.address.get_ref(), service).map_err(Mistake::at(table.address.span()))?;
    Ok(PortSpec { address, advertise: table.advertise.clone() })
}

fn subsystem(entry: &Spanned<SubsystemTable>, ports: &[PortSpec]) -> Result<SubsystemSpec, Mistake> {
    let table = entry.get_ref();
    let nqn = parse_nqn(&table.nqn)?;
    check_subsystem_nqn(&nqn).map_err(Mistake::at(table.nqn.span()))?;
    let serial = match &table.serial {
        Some(serial) => check_serial(serial.get_ref()).map_err(Mistake::at(serial.span()))?,
        None => default_serial(&nqn),
    };
    let any_host = table.allow_any_host.unwrap_or(false);
    if any_host && !table.hosts.is_empty() {
        let what = "allow_any_host = true and hosts contradict each other: keep one".to_owned();
        return Err(Mistake { what, span: Some(entry.span()) });
    }
    if table.allow_any_host == Some(false) && table.hosts.is_empty() {
        let what = "nobody may use this subsystem: name its hosts, or set allow_any_host = true".to_owned();
        return Err(Mistake { what, span: Some(entry.span()) });
    }
    let hosts = table.hosts.iter().map(parse_nqn).collect::<Result<Vec<_>, _>>()?;
    let access = Asked { any_host, hosts }.decide(ports).map_err(|()| Mistake {
        what: "a port can be reached from other machines: name the hosts that may use this subsystem, \
               or set allow_any_host = true"
            .to_owned(),
        span: Some(entry.span()),
    })?;
    let namespaces = table.namespace.iter().map(namespace_spec).collect::<Result<Vec<_>, _>>()?;
    namespace::number(&namespaces).map_err(Mistake::at(entry.span()))?;
    Ok(SubsystemSpec { nqn, serial, access, namespaces })
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
    if backends.len() != 1 {
        let what = "a namespace has exactly one of memory, null, file and block_device".to_owned();
        return Err(Mistake { what, span: Some(entry.span()) });
    }
    let backend = backends.remove(0);
    if let (Some(size), false) = (&table.size, matches!(backend, BackendSpec::File { .. })) {
        let what = "size goes with file only; memory and null are given theirs directly".to_owned();
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
    let spec = NamespaceSpec { backend, nsid: table.nsid, block_size, uuid };
    spec.check().map_err(Mistake::at(entry.span()))?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::target::Access;

    const WHOLE: &str = r#"
reactors = "0,1"
engine = "epoll"

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
"#;

    fn mistake(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target.toml");
        std::fs::write(&path, text).unwrap();
        match read(&path) {
            Err(Failure::Usage(what)) => what.rsplit_once('/').unwrap().1.to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_whole_file_is_read() {
        let config = parse(WHOLE).unwrap_or_else(|mistake| panic!("{}", mistake.what));
        assert_eq!(config.reactors, Some(ReactorSpec::Cpus(vec![0, 1])));
        assert_eq!(config.engine, Engine::Epoll);
        assert_eq!(config.ports[0].address.to_string(), "127.0.0.1:4421");
        assert_eq!(config.ports[0].advertise.as_deref(), Some("10.0.2.2"));
        let subsystem = &config.subsystems[0];
        assert!(matches!(&subsystem.access, Access::Hosts(hosts) if hosts.len() == 1));
        assert_eq!(subsystem.namespaces[0].block_size, 512);
        let engine = config.to_engine().unwrap();
        let nsids: Vec<u32> = engine.subsystems[0].namespaces.iter().map(|n| n.nsid).collect();
        assert_eq!(nsids, [3, 1]);
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
