//! `target.toml`: a target with its ports, subsystems and namespaces in a file. It is the configuration's own structs that are
//! read; here is what a file has besides: lines for its mistakes, lists that are named in the singular, paths from the working
//! directory, and how the target runs.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use engine::address::{AddressError, HostAddress, NetAddress};
use engine::ring::Engine;
use engine::target::FabricConfig;
use schemars::JsonSchema;
use secure_channel::RecordLimit;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::former_names::{self, tables};
use super::target::{ServeConfig, is_loopback};
use crate::failure::Failure;
use crate::spec::ceph::{self, CephSpec};
use crate::spec::quotas::QuotaSpec;
use crate::spec::reactors::ReactorSpec;
use crate::spec::{absolute, namespace};

/// Tables of the configuration; the others say how the target runs.
const FABRIC: [&str; 4] = ["ports", "subsystems", "referrals", "discovery_nqn"];

/// Settings of the process: reactors, engine and the like.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunTable {
    /// Number of reactors, the threads that serve, or a list of CPUs for one reactor each (`"0,1"`); by default
    /// one for each CPU that the process may use.
    #[schemars(with = "Option<Reactors>")]
    reactors: Option<ReactorSpec>,
    /// I/O interface; by default io_uring where the kernel offers it, else epoll.
    engine: Option<EngineName>,
    /// Longest time to poll before sleeping, in microseconds; 0 never polls. At most 50 on epoll and with one
    /// CPU. [default: 200]
    poll_us: Option<u64>,
    /// Number of images that share one connection to their Ceph cluster. [default: 32]
    #[schemars(with = "Option<u64>")]
    bdevs_per_cluster: Option<Spanned<i64>>,
    /// Time-out of an operation in a Ceph cluster, in milliseconds; 0 waits forever. [default: 30000]
    #[schemars(with = "Option<u64>")]
    ceph_timeout_ms: Option<Spanned<i64>>,
    #[serde(default)]
    quotas: QuotaSpec,
}

/// A number, or a list of CPUs as text.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code, reason = "its schema is what counts")]
enum Reactors {
    Count(u64),
    Cpus(String),
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EngineName {
    Auto,
    IoUring,
    Epoll,
}

/// An error, with the bytes of the file that it concerns.
pub struct Mistake {
    pub what: String,
    pub span: Option<Range<usize>>,
}

impl Mistake {
    pub fn at<E: fmt::Display>(span: Range<usize>) -> impl FnOnce(E) -> Mistake {
        move |what| Mistake { what: what.to_string(), span: Some(span) }
    }
}

impl From<toml::de::Error> for Mistake {
    fn from(error: toml::de::Error) -> Self {
        Self { what: in_words(error.message()), span: error.span() }
    }
}

/// A message of the parser with words for Rust's types.
fn in_words(message: &str) -> String {
    let Some((fault, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let expected = match expected {
        "u8" => "a whole number up to 255",
        "u16" => "a whole number up to 65535",
        "u32" | "u64" | "usize" | "i64" => "a whole number",
        "struct variant BackendConfig::Memory" | "struct variant BackendConfig::Null" => {
            "a table, as in { size = \"1g\" }"
        }
        "struct variant BackendConfig::File" | "struct variant BackendConfig::Block" => {
            "a table, as in { path = \"/srv/disk.img\" }"
        }
        "a sequence" => "a list",
        other if other.starts_with("struct ") || other == "a map" => "a table",
        other => other,
    };
    format!("{fault}, expected {expected}")
}

/// Reads and checks the file.
pub fn read(path: &Path) -> Result<ServeConfig, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?;
    read_text(&text, path)
}

/// Reads and checks what is in the file.
pub fn read_text(text: &str, path: &Path) -> Result<ServeConfig, Failure> {
    parse(text).map_err(|mistake| {
        let line = mistake.span.map_or(String::new(), |span| format!(":{}", line_of(text, span.start)));
        Failure::usage(format!("{}{line}: {}", path.display(), mistake.what))
    })
}

pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

fn parse(text: &str) -> Result<ServeConfig, Mistake> {
    let mut run = DeTable::parse(text)?;
    former_names::replace(run.get_mut())?;
    let mut fabric = DeTable::new();
    for name in FABRIC {
        if let Some(value) = run.get_mut().remove(name) {
            fabric.insert(Spanned::new(value.span(), name.into()), value);
        }
    }
    let fabric = Spanned::new(run.span(), fabric);
    let run = RunTable::deserialize(Deserializer::from(run))?;
    let fabric = read_fabric(fabric)?;
    run.quotas.check().map_err(|what| nothing(&what))?;
    let engine = match run.engine {
        None | Some(EngineName::Auto) => Engine::Automatic,
        Some(EngineName::IoUring) => Engine::IoUring,
        Some(EngineName::Epoll) => Engine::Epoll,
    };
    Ok(ServeConfig {
        fabric,
        reactors: run.reactors,
        engine,
        poll_us_max: run.poll_us,
        ceph: ceph_spec(run.bdevs_per_cluster.as_ref(), run.ceph_timeout_ms.as_ref())?,
        quotas: run.quotas,
        tls_record_limit: RecordLimit::default(),
    })
}

fn read_fabric(mut table: Spanned<DeTable<'_>>) -> Result<FabricConfig, Mistake> {
    give_access(table.get_mut())?;
    let places = Spanned::new(table.span(), DeValue::Table(table.get_ref().clone()));
    let fabric = FabricConfig::deserialize(Deserializer::from(table))?;
    if fabric.ports.is_empty() {
        return Err(nothing("no port to listen on: add a [[port]] with an address"));
    }
    for (at, subsystem) in fabric.subsystems.iter().enumerate() {
        let wrong = |field: &str, what| Mistake {
            what,
            span: span_of(&places, &format!("subsystems[{at}].{field}")),
        };
        if fabric.subsystems[..at].iter().any(|other| other.nqn == subsystem.nqn) {
            return Err(wrong("nqn", format!("subsystem {} is given twice", subsystem.nqn)));
        }
        for (number, namespace) in subsystem.namespaces.iter().enumerate() {
            namespace::check(namespace)
                .map_err(|(field, what)| wrong(&format!("namespaces[{number}].{field}"), what))?;
        }
    }
    check_advertised(&fabric, &places)?;
    if let Some(text) = fabric.former_texts().first() {
        return Err(Mistake { what: text.reason(), span: span_of(&places, &text.path) });
    }
    let mut fabric = fabric.numbered();
    from_root(&mut fabric);
    // What is left to be wrong is between the parts, and its message names them.
    fabric.check().map_err(|error| nothing(&error.to_string()))?;
    Ok(fabric)
}

/// Checks the addresses that hosts are sent to.
fn check_advertised(fabric: &FabricConfig, places: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    let wrong = |path: String| {
        move |what: AddressError| Mistake { what: what.to_string(), span: span_of(places, &path) }
    };
    for (at, port) in fabric.ports.iter().enumerate() {
        if let Some(advertise) = &port.advertise {
            HostAddress::advertised(advertise).map_err(wrong(format!("ports[{at}].advertise")))?;
        }
    }
    for (at, referral) in fabric.referrals.iter().enumerate() {
        referral.check().map_err(wrong(format!("referrals[{at}].address")))?;
    }
    Ok(())
}

/// Bytes of a setting such as `subsystems[0].nqn`; if it is not in the file, those of the table
/// that it would be in.
fn span_of(root: &Spanned<DeValue<'_>>, path: &str) -> Option<Range<usize>> {
    let mut place = root;
    for step in path.split(['.', '[']) {
        let next = match step.strip_suffix(']') {
            Some(number) => {
                place.get_ref().as_array().and_then(|items| items.get(number.parse::<usize>().ok()?))
            }
            None => place.get_ref().as_table().and_then(|table| table.get(step)),
        };
        let Some(next) = next else { break };
        place = next;
    }
    Some(place.span())
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

/// Sets the access of subsystems without one in the file: every host if only this machine reaches
/// the port, unless the list of hosts is there and empty. "No host yet" has to be written in full, since otherwise it is a
/// mistake.
fn give_access(fabric: &mut DeTable<'_>) -> Result<(), Mistake> {
    let addresses = tables(fabric, "ports");
    let addresses = addresses.iter().filter_map(|(port, _)| port.get("address")?.get_ref().as_str());
    let is_local = addresses
        .map(str::parse::<NetAddress>)
        .all(|address| address.is_ok_and(|address| is_loopback(address.ip())));
    for (subsystem, span) in tables(fabric, "subsystems") {
        let said = subsystem.get("allow_any_host").and_then(|any| any.get_ref().as_bool());
        let hosts =
            subsystem.get("hosts").map(|hosts| hosts.get_ref().as_array().is_none_or(|h| !h.is_empty()));
        let what = match (said, hosts) {
            (Some(false), None) => {
                "no host may use this subsystem: name its hosts, or set allow_any_host = true; \
                 hosts = [] says that there are none yet"
            }
            (Some(_), _) | (None, Some(true)) => continue,
            (None, Some(false)) if is_local => continue,
            (None, None) if is_local => {
                if !subsystem.contains_key("allow_any_host") {
                    let name = Spanned::new(span.clone(), "allow_any_host".into());
                    subsystem.insert(name, Spanned::new(span, DeValue::Boolean(true)));
                }
                continue;
            }
            (None, _) => {
                "a port can be reached from other machines: name the hosts that may use this subsystem, \
                 or set allow_any_host = true"
            }
        };
        return Err(Mistake { what: what.to_owned(), span: Some(span) });
    }
    Ok(())
}

/// Begins all paths at the root.
fn from_root(fabric: &mut FabricConfig) {
    for subsystem in &mut fabric.subsystems {
        if let Some(storage) = &mut subsystem.storage {
            storage.directory = absolute(&storage.directory);
        }
        for key in &mut subsystem.host_keys {
            key.files_mut().for_each(|file| *file = absolute(file));
        }
        subsystem.namespaces.iter_mut().for_each(namespace::from_root);
    }
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
        assert_eq!(config.of_process(), ["reactors", "engine", "bdevs_per_cluster", "ceph_timeout_ms"]);
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
            (format!("{port}[[subsystem]]\nnqn = \"nqn.a,nqn.b\"\n"), 4, "comma or a space"),
            (format!("{port}{subsystem}model = \"\\u001B\"\n"), 5, "control characters"),
            (format!("{port}{subsystem}{subsystem}"), 6, "twice"),
            (format!("{port}{subsystem}allow_any_host = false\n"), 3, "no host may use"),
            (format!("{port}{subsystem}{namespace}memory = \"1x\"\n"), 6, "not a size"),
            (format!("{port}{subsystem}{namespace}nsid = 1\n"), 5, "exactly one of"),
            (format!("{port}{subsystem}{namespace}memory = \"1m\"\nnull = \"1m\"\n"), 5, "exactly one of"),
            (
                format!("{port}{subsystem}{namespace}backend.null.size = 512\nbackend.memory.size = 512\n"),
                5,
                "exactly one of",
            ),
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
            (
                format!("{port}{subsystem}command_quiesce_ms = 65536\n"),
                5,
                "expected a whole number up to 65535",
            ),
            (
                format!("{port}{subsystem}{namespace}backend.memory = \"1g\"\n"),
                6,
                "expected a table, as in { size",
            ),
            (
                format!("{port}{subsystem}{namespace}memory = \"1m\"\nqos = {{ iops = \"5k\" }}\n"),
                7,
                "expected a whole number",
            ),
            (format!("{port}{subsystem}hosts = \"nqn.b\"\n"), 5, "expected a list"),
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
    fn an_empty_list_of_hosts_lets_no_host_in() {
        for (list, is_open) in [("", true), ("hosts = []\n", false), ("hosts = [\"nqn.b\"]\n", false)] {
            let text = format!("[[port]]\naddress = \"127.0.0.1\"\n[[subsystem]]\nnqn = \"nqn.a\"\n{list}");
            let config = parse(&text).unwrap_or_else(|mistake| panic!("{}", mistake.what));
            assert_eq!(config.fabric.subsystems[0].allow_any_host, is_open, "{list}");
        }
    }

    #[test]
    fn an_empty_file_says_what_is_missing() {
        assert!(mistake("").contains("[[port]]"));
    }

    #[test]
    fn a_new_installation_serves_nothing_yet() {
        let config = parse("[[port]]\naddress = \"127.0.0.1\"\n");
        let config = config.unwrap_or_else(|mistake| panic!("{}", mistake.what));
        assert_eq!((config.fabric.ports.len(), config.fabric.subsystems.len()), (1, 0));
        assert_eq!(config.of_process(), [""; 0]);
    }
}
