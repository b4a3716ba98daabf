//! nvme-cli 3's nvme-fabrics.conf (INI) and the files beside it, as the hosts that a config.json has.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use engine::secret_file;
use zeroize::Zeroizing;

use super::{BYTES_MAX, Hidden, Host, Port, Subsystem, Text, Yes};
use crate::kernel_initiator::fabrics_conf::{HOST, Section, sections};

/// Keys that are of a host and a subsystem. Settings of Linux' connections are not looked at.
const KEYS: [&str; 8] = [
    "tls",
    "concat",
    "tls-key",
    "tls-key-identity",
    "kxchap-secret",
    "kxchap-ctrl-secret",
    // The names before 3.0-rc1.
    "dhchap-secret",
    "dhchap-ctrl-secret",
];

/// Values by their keys. An empty one is none, whatever an outer section says.
type Values = BTreeMap<&'static str, Zeroizing<String>>;

/// The hosts of a file and of the files in its folder, each of which is of one host. `own_nqn` is the name of one that says none.
///
/// # Errors
/// When one of them cannot be read.
pub(super) fn hosts(path: &Path, text: &str, own_nqn: &str) -> Result<Vec<Host>, String> {
    let main = sections(text)?;
    let mut found = vec![host(&main, &main, own_nqn)?];
    for file in beside(path) {
        let wrong = |error: String| format!("{}: {error}", file.display());
        let text = secret_file::text(&file, BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
        let own = sections(&text).map_err(wrong)?;
        found.push(host(&own, &main, own_nqn).map_err(wrong)?);
    }
    Ok(merged(found))
}

/// The files of other hosts, in their order.
fn beside(path: &Path) -> Vec<PathBuf> {
    let mut folder = path.as_os_str().to_owned();
    folder.push(".d");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|file| file.extension().is_some_and(|extension| extension == "conf")).collect();
    files.sort();
    files
}

/// Hosts with one name are one.
fn merged(hosts: Vec<Host>) -> Vec<Host> {
    let mut found: Vec<Host> = Vec::with_capacity(hosts.len());
    for host in hosts {
        let name = |host: &Host| host.hostnqn.as_ref().map(|Text(nqn)| nqn.clone());
        match found.iter_mut().find(|known| name(known) == name(&host)) {
            Some(known) => {
                known.hostid = known.hostid.take().or(host.hostid);
                known.dhchap_key = known.dhchap_key.take().or(host.dhchap_key);
                known.subsystems.extend(host.subsystems);
            }
            None => found.push(host),
        }
    }
    found
}

fn host(own: &[Section], main: &[Section], own_nqn: &str) -> Result<Host, String> {
    let identity = own.iter().find(|section| section.name == HOST);
    let named = |key: &str| identity.and_then(|section| section.value(key)).filter(|value| !value.is_empty());
    let of_host = identity.map(values).unwrap_or_default();
    let mut subsystems: Vec<Subsystem> = Vec::new();
    for section in own {
        let Some(nqn) = section.nqn() else { continue };
        let kind =
            format!("{} Controller Defaults", if section.is_discovery() { "Discovery" } else { "I/O" });
        // Of the main file, too, which its own overlay.
        let mut all = Values::new();
        for outer in main.iter().chain(own).filter(|section| section.name == kind) {
            all.extend(values(outer));
        }
        all.extend(of_host.clone());
        all.extend(values(section));
        let ports = ports(section, &all)?;
        match subsystems.iter_mut().find(|known| known.nqn.as_ref().is_some_and(|Text(known)| known == nqn)) {
            Some(known) => known.ports.extend(ports),
            None => subsystems.push(Subsystem {
                nqn: Some(Text(nqn.to_owned())),
                dhchap_key: hidden(&all, ["kxchap-secret", "dhchap-secret"]),
                ports,
            }),
        }
    }
    Ok(Host {
        hostnqn: Some(Text(named("hostnqn").unwrap_or(own_nqn).to_owned())),
        hostid: named("hostid").map(|id| Text(id.to_owned())),
        dhchap_key: hidden(&of_host, ["kxchap-secret", "dhchap-secret"]),
        subsystems,
    })
}

fn values(section: &Section) -> Values {
    let value = |key: &'static str| Some((key, Zeroizing::new(section.value(key)?.to_owned())));
    KEYS.into_iter().filter_map(value).collect()
}

fn hidden(values: &Values, keys: [&str; 2]) -> Option<Hidden> {
    let found = keys.iter().find_map(|key| values.get(key)).filter(|value| !value.is_empty())?;
    Some(Hidden(found.clone()))
}

/// The paths to an endpoint, with what its section says of secrets and TLS.
fn ports(section: &Section, all: &Values) -> Result<Vec<Port>, String> {
    let (tls, concat) = (yes(all, "tls")?, yes(all, "concat")?);
    let identity = all.get("tls-key-identity").filter(|value| !value.is_empty());
    let port = |path: crate::kernel_initiator::fabrics_conf::Path<'_>| Port {
        transport: path.part("transport").map(|transport| Text(transport.to_owned())),
        traddr: path.part("traddr").map(|traddr| Text(traddr.to_owned())),
        trsvcid: path.service(section).map(|service| Text(service.to_string())),
        dhchap_key: hidden(all, ["kxchap-secret", "dhchap-secret"]),
        dhchap_ctrl_key: hidden(all, ["kxchap-ctrl-secret", "dhchap-ctrl-secret"]),
        tls,
        tls_key: hidden(all, ["tls-key", "tls-key"]),
        tls_key_identity: identity.map(|identity| Text(identity.to_string())),
        concat,
    };
    Ok(section.paths().map(port).collect())
}

fn yes(values: &Values, key: &str) -> Result<Option<Yes>, String> {
    let Some(value) = values.get(key).filter(|value| !value.is_empty()) else { return Ok(None) };
    match value.to_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Ok(Some(Yes(true))),
        "0" | "no" | "n" | "false" | "f" | "off" => Ok(Some(Yes(false))),
        _ => Err(format!("{key} is neither yes nor no")),
    }
}
