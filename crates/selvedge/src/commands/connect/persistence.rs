//! Connections for the next boot, in the files that nvme-cli reads then: config.json for a subsystem that was named, and a line of
//! discovery.conf for all that a discovery service shows.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::request::{Request, traddr};
use crate::config::connection::Connection;
use crate::failure::Failure;
use crate::flags::connect::{ConnectFlags, DEFAULT_KEYRING};
use crate::kernel_initiator::{
    CONFIG_JSON, DISCOVERY_CONF, DiscoveryLine, KeptFile, PortEntry, Wanted, merge, remove, with_line,
    without_lines,
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
    if flags.persistent && flags.nqn.is_none() && has_secrets {
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

/// What was taken out.
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
    Failure::failed(format!("{}: {error}; it is left as it is", path.display()))
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

/// What nvme-cli's options and files have the same names for: a number, or that it is on.
fn settings(flags: &ConnectFlags, queues: Option<u16>) -> Vec<(&'static str, Option<i64>)> {
    let (kernel, connection) = (&flags.kernel, &flags.connection);
    let numbers: [(&'static str, Option<i64>); 9] = [
        ("--nr-io-queues", queues.map(i64::from)),
        ("--nr-write-queues", kernel.nr_write_queues.map(i64::from)),
        ("--nr-poll-queues", kernel.nr_poll_queues.map(i64::from)),
        ("--queue-size", kernel.queue_size.map(i64::from)),
        ("--keep-alive-tmo", connection.keep_alive_tmo.map(i64::from)),
        ("--reconnect-delay", kernel.reconnect_delay.map(i64::from)),
        ("--ctrl-loss-tmo", kernel.ctrl_loss_tmo.map(i64::from)),
        ("--fast_io_fail_tmo", kernel.fast_io_fail_tmo.map(i64::from)),
        ("--tos", kernel.tos.map(i64::from)),
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
    use std::fs;
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
        assert!(refused.contains("left as it is"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{broken");
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
