//! Connections for the next boot, in the files that nvme-cli reads then: config.json for a subsystem that was named, and a line of
//! discovery.conf for all that a discovery service shows. Where nvme-cli 3 has its nvme-fabrics.conf, it is that for both.

use std::fs;
use std::path::{Path, PathBuf};

use engine::initiator::{ConnectOptions, HostIdentity};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::request::{Request, traddr};
use crate::config::connection::Connection;
use crate::failure::Failure;
use crate::flags::connect::{ConnectFlags, DEFAULT_KEYRING};
use crate::kernel_initiator::fabrics_conf::{FABRICS_CONF, PathEntry, sections, with_path, without_paths};
use crate::kernel_initiator::{
    CONFIG_JSON, DISCOVERY_CONF, DiscoveryLine, KeptFile, PortEntry, Wanted, fabrics_conf, merge, remove,
    with_line, without_lines,
};

/// Sees whether it can be kept.
///
/// # Errors
/// When the file would not have what it takes.
pub(super) fn check(flags: &ConnectFlags) -> Result<(), Failure> {
    let connection = &flags.connection;
    let has_secrets = connection.dhchap_secret_file.is_some()
        || connection.config.is_some()
        || connection.tls
        || connection.tls_key_file.is_some();
    let is_converted = Path::new(FABRICS_CONF).exists();
    if flags.persistent && flags.nqn.is_none() && has_secrets && !is_converted {
        return Err(Failure::usage(format!(
            "--persistent: {DISCOVERY_CONF} holds no secrets and keys; name the subsystem with -n, and {CONFIG_JSON} has it"
        )));
    }
    Ok(())
}

/// Keeps these, and says where.
///
/// # Errors
/// When the file is something else, or cannot be written: it is as before then.
pub(super) fn keep(
    flags: &ConnectFlags,
    connection: &Connection,
    requests: &[&Request],
    queues: Option<u16>,
) -> Result<PathBuf, Failure> {
    let fabrics_conf = Path::new(FABRICS_CONF);
    if fabrics_conf.exists() {
        return keep_paths(fabrics_conf, &paths(flags, connection, requests, queues));
    }
    if flags.nqn.is_none() {
        let lines: Vec<DiscoveryLine> = connection.each().map(|one| line(flags, &one, queues)).collect();
        return keep_lines(Path::new(DISCOVERY_CONF), &lines);
    }
    if flags.kernel.ctrl_loss_tmo.is_some() {
        eprintln!(
            "nvme-cli 2 does not take --ctrl-loss-tmo from {CONFIG_JSON}: a unit with `selvedge connect` has it at boot"
        );
    }
    let entries: Vec<PortEntry> = requests.iter().map(|request| entry(flags, request, queues)).collect();
    keep_entries(Path::new(CONFIG_JSON), &entries)
}

fn keep_entries(path: &Path, entries: &[PortEntry]) -> Result<PathBuf, Failure> {
    let file = lock(path)?;
    let mut text = file.text().map_err(|error| unreadable(path, error))?;
    for entry in entries {
        let merged = merge(text.as_deref(), entry).map_err(|error| unreadable(path, error))?;
        text = Some(merged);
    }
    let is_secret = |name: &str| matches!(name, "dhchap_key" | "dhchap_ctrl_key" | "tls_key");
    let has_secrets = entries.iter().any(|entry| entry.port.keys().any(|name| is_secret(name)));
    replace(&file, path, &text.unwrap_or_default(), has_secrets)
}

fn keep_lines(path: &Path, lines: &[DiscoveryLine]) -> Result<PathBuf, Failure> {
    let file = lock(path)?;
    let mut text = file.text().map_err(|error| unreadable(path, error))?;
    for line in lines {
        match with_line(text.as_deref(), line) {
            Some(added) => text = Some(added),
            None => eprintln!("{} has a line for {} already, which stays", path.display(), line.address),
        }
    }
    replace(&file, path, &text.unwrap_or_default(), false)
}

/// Keeps paths of one host in nvme-fabrics.conf, or beside it where that file is of another host.
fn keep_paths(main: &Path, (host, entries): &(HostIdentity, Vec<PathEntry>)) -> Result<PathBuf, Failure> {
    let named = |text: &str| {
        let sections = sections(text)?;
        let identity = sections.iter().find(|section| section.name == fabrics_conf::HOST);
        Ok::<_, String>(identity.and_then(|section| section.value("hostnqn")).map(ToOwned::to_owned))
    };
    let text = lock(main)?.text().map_err(|error| unreadable(main, error))?.unwrap_or_default();
    let of_main = named(&text).map_err(|error| unreadable(main, error))?;
    let of_main = of_main.unwrap_or_else(|| HostIdentity::of_this_machine().nqn);
    let id = Uuid::from_bytes(host.id);
    let path = match of_main == host.nqn {
        true => main.to_owned(),
        false => folder_beside(main).join(format!("selvedge-{id}.conf")),
    };
    let file = lock(&path)?;
    let mut text =
        file.text().map_err(|error| unreadable(&path, error))?.unwrap_or_else(|| match path == main {
            true => String::new(),
            false => format!("[Host]\nhostnqn = {}\nhostid = {id}\n", host.nqn),
        });
    for entry in entries {
        text = with_path(&text, entry).map_err(|error| unreadable(&path, error))?;
    }
    let is_secret = |key: &str| key.contains("secret") || key == "tls-key";
    let has_secrets = entries.iter().any(|entry| entry.keys.iter().any(|(key, _)| is_secret(key)));
    replace(&file, &path, &text, has_secrets)
}

/// The folder of the files of other hosts.
fn folder_beside(main: &Path) -> PathBuf {
    let mut folder = main.as_os_str().to_owned();
    folder.push(".d");
    folder.into()
}

/// The paths as nvme-fabrics.conf has them, and the host that they are of.
fn paths(
    flags: &ConnectFlags,
    connection: &Connection,
    requests: &[&Request],
    queues: Option<u16>,
) -> (HostIdentity, Vec<PathEntry>) {
    let entry = |nqn: Option<String>, path: &ConnectOptions| PathEntry {
        nqn,
        parts: parts(flags, path, queues),
        keys: keys(flags, path),
    };
    let entries = match &flags.nqn {
        Some(_) => {
            requests.iter().map(|request| entry(Some(request.nqn.to_string()), &request.path)).collect()
        }
        None => connection.each().map(|one| entry(None, &one.discovery())).collect(),
    };
    (connection.discovery().host, entries)
}

fn parts(flags: &ConnectFlags, path: &ConnectOptions, queues: Option<u16>) -> Vec<(String, String)> {
    let mut parts = vec![
        ("transport".to_owned(), "tcp".to_owned()),
        ("traddr".to_owned(), traddr(path.address)),
        ("trsvcid".to_owned(), path.address.port().to_string()),
    ];
    parts.extend(path.host_traddr.map(|host| ("host-traddr".to_owned(), host.to_string())));
    parts.extend(path.host_iface.clone().map(|name| ("host-iface".to_owned(), name)));
    let setting = |(name, value): (&str, Option<i64>)| {
        let value = value.map_or_else(|| "true".to_owned(), |value| value.to_string());
        (name.trim_start_matches('-').replace('_', "-"), value)
    };
    parts.extend(settings(flags, queues).into_iter().map(setting));
    parts
}

fn keys(flags: &ConnectFlags, path: &ConnectOptions) -> Vec<(&'static str, String)> {
    let mut keys = Vec::new();
    if let Some(secrets) = path.secrets.as_deref() {
        keys.push(("kxchap-secret", secrets.secret.reveal().to_string()));
        let of_controller = secrets.controller_secret.as_ref();
        keys.extend(of_controller.map(|secret| ("kxchap-ctrl-secret", secret.reveal().to_string())));
    }
    if let Some(key) = path.tls.as_ref().and_then(|tls| tls.keys.first()) {
        keys.push(("tls", "true".to_owned()));
        keys.push(("tls-key", key.reveal().to_string()));
        if flags.kernel.keyring != DEFAULT_KEYRING {
            keys.push(("keyring", flags.kernel.keyring.clone()));
        }
    }
    if path.concat {
        keys.push(("concat", "true".to_owned()));
    }
    keys
}

/// Entries removed from a file.
pub(in crate::commands) struct Forgotten {
    pub(in crate::commands) place: PathBuf,
    pub(in crate::commands) entries: usize,
}

/// Takes entries out of both files; of discovery.conf only by their addresses, since its lines are about no subsystem.
///
/// # Errors
/// When a file is something else, or cannot be written: it is as before then.
pub(in crate::commands) fn forget(wanted: &Wanted<'_>) -> Result<Vec<Forgotten>, Failure> {
    let mut forgotten = forget_entries(Path::new(CONFIG_JSON), wanted)?;
    if wanted.nqn.is_none() {
        forgotten.extend(forget_lines(Path::new(DISCOVERY_CONF), wanted)?);
    }
    forgotten.extend(forget_paths(Path::new(FABRICS_CONF), wanted)?);
    Ok(forgotten)
}

/// Takes paths out of nvme-fabrics.conf and the files beside it.
fn forget_paths(main: &Path, wanted: &Wanted<'_>) -> Result<Vec<Forgotten>, Failure> {
    let beside = fs::read_dir(folder_beside(main)).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        beside.filter(|file| file.extension().is_some_and(|extension| extension == "conf")).collect();
    files.sort();
    files.insert(0, main.to_owned());
    let mut forgotten = Vec::new();
    for path in files.into_iter().filter(|path| path.exists()) {
        let file = lock(&path)?;
        let text = file.text().map_err(|error| unreadable(&path, error))?.unwrap_or_default();
        let (left, entries) = without_paths(&text, wanted).map_err(|error| unreadable(&path, error))?;
        if entries == 0 {
            continue;
        }
        // Without the main file nvme-cli would convert those of version 2 again.
        match left.or_else(|| (path == main).then(String::new)) {
            Some(text) => replace(&file, &path, &text, false)?,
            None => file.remove().map(|()| path.clone()).map_err(|error| unwritable(&path, &error))?,
        };
        forgotten.push(Forgotten { place: path, entries });
    }
    Ok(forgotten)
}

fn forget_entries(path: &Path, wanted: &Wanted<'_>) -> Result<Vec<Forgotten>, Failure> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let file = lock(path)?;
    let Some(text) = file.text().map_err(|error| unreadable(path, error))? else { return Ok(Vec::new()) };
    let (left, entries) = remove(&text, wanted).map_err(|error| unreadable(path, error))?;
    if entries == 0 {
        return Ok(Vec::new());
    }
    match left {
        Some(text) => replace(&file, path, &text, false)?,
        None => file.remove().map(|()| path.to_owned()).map_err(|error| unwritable(path, &error))?,
    };
    Ok(vec![Forgotten { place: path.to_owned(), entries }])
}

fn forget_lines(path: &Path, wanted: &Wanted<'_>) -> Result<Option<Forgotten>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let file = lock(path)?;
    let text = file.text().map_err(|error| unreadable(path, error))?.unwrap_or_default();
    let (left, entries) = without_lines(&text, wanted);
    if entries == 0 {
        return Ok(None);
    }
    let place = replace(&file, path, &left, false)?;
    Ok(Some(Forgotten { place, entries }))
}

fn lock(path: &Path) -> Result<KeptFile, Failure> {
    KeptFile::lock(path).map_err(|error| unwritable(path, &error))
}

fn replace(file: &KeptFile, path: &Path, text: &str, has_secrets: bool) -> Result<PathBuf, Failure> {
    file.replace(text, has_secrets).map(|()| path.to_owned()).map_err(|error| unwritable(path, &error))
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("{}: {error}; the file is unchanged", path.display()))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", path.display()))
}

/// A controller as config.json has it.
fn entry(flags: &ConnectFlags, request: &Request, queues: Option<u16>) -> PortEntry {
    let Request { nqn, path, .. } = request;
    let mut port = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            port.insert(name.to_owned(), value);
        }
    };
    let text = |text: Option<&dyn ToString>| text.map(|text| json!(text.to_string()));
    set("transport", Some(json!("tcp")));
    set("traddr", Some(json!(traddr(path.address))));
    set("trsvcid", Some(json!(path.address.port().to_string())));
    set("host_traddr", text(path.host_traddr.as_ref().map(|host| host as &dyn ToString)));
    set("host_iface", path.host_iface.as_ref().map(|name| json!(name)));
    let secrets = path.secrets.as_deref();
    set("dhchap_key", secrets.map(|secrets| json!(*secrets.secret.reveal())));
    let of_controller = secrets.and_then(|secrets| secrets.controller_secret.as_ref());
    set("dhchap_ctrl_key", of_controller.map(|secret| json!(*secret.reveal())));
    let key = path.tls.as_ref().and_then(|tls| tls.keys.first());
    set("tls", key.map(|_| json!(true)));
    set("tls_key", key.map(|key| json!(*key.reveal())));
    let has_keyring = key.is_some() && flags.kernel.keyring != DEFAULT_KEYRING;
    set("keyring", has_keyring.then(|| json!(flags.kernel.keyring)));
    set("concat", path.concat.then_some(json!(true)));
    for (name, value) in settings(flags, queues) {
        // Names in the file have underscores.
        set(
            &name.trim_start_matches('-').replace('-', "_"),
            Some(value.map_or(json!(true), |value| json!(value))),
        );
    }
    PortEntry {
        hostnqn: path.host.nqn.clone(),
        hostid: Uuid::from_bytes(path.host.id).to_string(),
        nqn: nqn.to_string(),
        port,
    }
}

/// A discovery service as discovery.conf has it.
fn line(flags: &ConnectFlags, connection: &Connection, queues: Option<u16>) -> DiscoveryLine {
    let path = connection.discovery();
    let mut options: Vec<(&'static str, Option<String>)> = vec![
        ("--transport", Some("tcp".to_owned())),
        ("--traddr", Some(traddr(path.address))),
        ("--trsvcid", Some(path.address.port().to_string())),
    ];
    let mut set = |name: &'static str, value: Option<String>| {
        if value.is_some() {
            options.push((name, value));
        }
    };
    set("--host-traddr", path.host_traddr.map(|host| host.to_string()));
    set("--host-iface", path.host_iface.clone());
    set("--hostnqn", flags.connection.hostnqn.as_ref().map(ToString::to_string));
    set("--hostid", flags.connection.hostid.clone());
    for (name, value) in settings(flags, queues) {
        options.push((name, value.map(|value| value.to_string())));
    }
    DiscoveryLine { address: path.address.into(), options }
}

/// Returns settings that have the same names as options and in nvme-cli's files: with a number, or
/// without for a switch.
fn settings(flags: &ConnectFlags, queues: Option<u16>) -> Vec<(&'static str, Option<i64>)> {
    let (kernel, connection) = (&flags.kernel, &flags.connection);
    let numbers: [(&'static str, Option<i64>); 10] = [
        ("--nr-io-queues", queues.map(i64::from)),
        ("--nr-write-queues", kernel.nr_write_queues.map(i64::from)),
        ("--nr-poll-queues", kernel.nr_poll_queues.map(i64::from)),
        ("--queue-size", kernel.queue_size.map(i64::from)),
        ("--keep-alive-tmo", connection.keep_alive_tmo.map(i64::from)),
        ("--reconnect-delay", kernel.reconnect_delay.map(i64::from)),
        ("--ctrl-loss-tmo", kernel.ctrl_loss_tmo.map(i64::from)),
        ("--fast_io_fail_tmo", kernel.fast_io_fail_tmo.map(i64::from)),
        ("--tos", connection.tos.map(i64::from)),
        ("--tclass", connection.tclass.map(i64::from)),
    ];
    let switches = [
        ("--duplicate-connect", kernel.duplicate_connect),
        ("--disable-sqflow", kernel.disable_sqflow),
        ("--hdr-digest", connection.hdr_digest),
        ("--data-digest", connection.data_digest),
    ];
    let numbers = numbers.into_iter().filter(|(_, number)| number.is_some());
    numbers.chain(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| (name, None))).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const HOST: &str = "-q nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd";

    fn entries(arguments: &str) -> Vec<PortEntry> {
        let flags = ConnectFlags::of(&format!("{arguments} {HOST}"));
        let connection = Connection::new(&flags.connection).unwrap();
        let requests = super::super::requests(&flags, &connection).unwrap();
        requests.iter().map(|request| entry(&flags, request, flags.kernel.nr_io_queues)).collect()
    }

    #[test]
    fn entries_have_the_names_of_libnvmes_schema() {
        let all = "-a 127.0.0.1 -n nqn.a -w 127.0.0.9 -f lo -i 2 -W 3 -P 4 -Q 64 -k 30 -c 5 -l -1 --fast_io_fail_tmo 7 -T 8 -D -d -g -G";
        let made = entries(all);
        assert_eq!(
            Value::Object(made[0].port.clone()),
            json!({"transport": "tcp", "traddr": "127.0.0.1", "trsvcid": "4420", "host_traddr": "127.0.0.9",
                "host_iface": "lo", "nr_io_queues": 2, "nr_write_queues": 3, "nr_poll_queues": 4, "queue_size": 64,
                "keep_alive_tmo": 30, "reconnect_delay": 5, "ctrl_loss_tmo": -1, "fast_io_fail_tmo": 7, "tos": 8,
                "duplicate_connect": true, "disable_sqflow": true, "hdr_digest": true, "data_digest": true})
        );
        assert_eq!(made[0].hostid, "1b4e28ba-2fa1-11d2-883f-0016d3ccabcd");
    }

    #[test]
    fn what_is_kept_can_be_read_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        keep_entries(&path, &entries("-a 127.0.0.1 -a 127.0.0.2 -n nqn.a")).unwrap();
        keep_entries(&path, &entries("-a 127.0.0.1 -n nqn.b -G")).unwrap();
        // What this program reads of such a file: who the host is.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let flags = ConnectFlags::of(&format!("-a 127.0.0.1 -n nqn.a -J {}", path.display()));
        let connection = Connection::new(&flags.connection).unwrap();
        assert!(HOST.ends_with(connection.host_nqn()));
        let wanted = |nqn| Wanted { nqn, addresses: &[] };
        assert_eq!(forget_entries(&path, &wanted(Some("nqn.a"))).unwrap()[0].entries, 2);
        assert!(forget_entries(&path, &wanted(Some("nqn.a"))).unwrap().is_empty());
        assert_eq!(forget_entries(&path, &wanted(None)).unwrap()[0].entries, 1);
        assert!(!path.exists(), "nothing was in it but what was kept");
    }

    #[test]
    fn a_file_that_is_not_understood_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, "{broken").unwrap();
        let refused = keep_entries(&path, &entries("-a 127.0.0.1 -n nqn.a")).unwrap_err().line().unwrap();
        assert!(refused.contains("the file is unchanged"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{broken");
    }

    #[test]
    fn a_file_of_nvme_cli_3_is_kept_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("nvme-fabrics.conf");
        let theirs = "[Discovery Controller]\ncontroller = transport=tcp;traddr=10.0.0.9\n";
        fs::write(&main, theirs).unwrap();
        let nqn = "nqn.2026-01.org.example:a";
        let made = |arguments: &str| {
            let flags = ConnectFlags::of(arguments);
            let connection = Connection::new(&flags.connection).unwrap();
            let requests = match flags.nqn {
                Some(_) => super::super::requests(&flags, &connection).unwrap(),
                None => Vec::new(),
            };
            paths(&flags, &connection, &requests.iter().collect::<Vec<_>>(), flags.kernel.nr_io_queues)
        };
        // Another host than that of the file has a file of its own.
        let other = keep_paths(&main, &made(&format!("-a 127.0.0.1 -n {nqn} -i 2 -g {HOST}"))).unwrap();
        assert!(other.starts_with(folder.path().join("nvme-fabrics.conf.d")), "{}", other.display());
        let text = fs::read_to_string(&other).unwrap();
        let line =
            "controller = transport=tcp;traddr=127.0.0.1;trsvcid=4420;nr-io-queues=2;hdr-digest=true\n";
        assert!(
            text.starts_with("[Host]\nhostnqn = nqn.2014-08.org.nvmexpress:uuid:") && text.ends_with(line),
            "{text}"
        );
        // This host, which the file does not name.
        let own = made(&format!("-a 127.0.0.1 -a 127.0.0.2:8009 -n {nqn}"));
        assert_eq!(keep_paths(&main, &own).unwrap(), main);
        assert_eq!(keep_paths(&main, &own).unwrap(), main);
        let text = fs::read_to_string(&main).unwrap();
        assert!(text.starts_with(theirs) && text.matches("controller =").count() == 3, "{text}");
        fs::set_permissions(&main, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
        let flags = ConnectFlags::of(&format!("-a 127.0.0.1 -n {nqn} {HOST} -J {}", main.display()));
        let known = Connection::new(&flags.connection).unwrap();
        assert!(HOST.ends_with(known.host_nqn()));
        let wanted = |nqn| Wanted { nqn, addresses: &[] };
        let gone = forget_paths(&main, &wanted(Some(nqn))).unwrap();
        assert_eq!(gone.iter().map(|gone| gone.entries).collect::<Vec<_>>(), [2, 1]);
        assert!(!other.exists() && fs::read_to_string(&main).unwrap().starts_with(theirs));
        assert!(
            keep_paths(&main, &made("-a 127.0.0.1 -n mysub")).is_err(),
            "nvme-cli 3 would not read the file"
        );
    }

    #[test]
    fn lines_have_nvme_clis_options() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("discovery.conf");
        fs::write(&path, "# theirs\n").unwrap();
        let flags = ConnectFlags::of("-a 127.0.0.1 -i 2 -l -1 -g");
        let connection = Connection::new(&flags.connection).unwrap();
        let lines: Vec<DiscoveryLine> = connection.each().map(|one| line(&flags, &one, Some(2))).collect();
        let written = "# theirs\n--transport=tcp --traddr=127.0.0.1 --trsvcid=4420 --nr-io-queues=2 --ctrl-loss-tmo=-1 --hdr-digest\n";
        for _ in 0..2 {
            keep_lines(&path, &lines).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), written);
        }
        let addresses = ["127.0.0.1:0".parse().unwrap()];
        let wanted = Wanted { nqn: None, addresses: &addresses };
        assert_eq!(forget_lines(&path, &wanted).unwrap().unwrap().entries, 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), "# theirs\n");
        assert!(check(&ConnectFlags::of("-a 127.0.0.1 --persistent --tls-key-file a")).is_err());
        assert!(check(&ConnectFlags::of("-a 127.0.0.1 -n nqn.a --persistent --tls-key-file a")).is_ok());
    }
}
