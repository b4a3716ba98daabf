//! Entries of nvme-cli's config.json: added to what is there, and taken out again. What a file has besides stays in it. Reading
//! one for this program's own connections is `config::nvme_cli`'s.

use engine::address::{HostAddress, NetAddress};
use serde_json::{Map, Value, json};

/// Path at which nvme-cli reads it.
pub const CONFIG_JSON: &str = "/etc/nvme/config.json";
/// The port where an entry has none.
const SERVICE: &str = "4420";
/// Fields that identify a port of a subsystem.
const IDENTITY: [&str; 5] = ["transport", "traddr", "trsvcid", "host_traddr", "host_iface"];
/// Settings that are as the last `connect` had them. Others, and secrets, stay where it had none.
const SETTINGS: [&str; 16] = [
    "nr_io_queues",
    "nr_write_queues",
    "nr_poll_queues",
    "queue_size",
    "keep_alive_tmo",
    "reconnect_delay",
    "ctrl_loss_tmo",
    "fast_io_fail_tmo",
    "tos",
    "tclass",
    "duplicate_connect",
    "disable_sqflow",
    "hdr_digest",
    "data_digest",
    "tls",
    "concat",
];

/// A subsystem at one address, as a host connects to it.
pub struct PortEntry {
    pub hostnqn: String,
    pub hostid: String,
    pub nqn: String,
    /// By the names of libnvme's doc/config-schema.json.
    pub port: Map<String, Value>,
}

/// Filter of entries.
pub struct Wanted<'a> {
    /// Of this subsystem; of all without one.
    pub nqn: Option<&'a str>,
    /// At these addresses; port 0 is any. At all where there is none.
    pub addresses: &'a [NetAddress],
}

impl Wanted<'_> {
    /// True if an address matches.
    pub fn has_address(&self, address: &NetAddress) -> bool {
        self.addresses.is_empty() || self.addresses.iter().any(|wanted| wanted.fits(address))
    }

    fn has_port(&self, port: &Value) -> bool {
        let text = |name: &str| port.get(name).and_then(scalar);
        if text("transport").as_deref().is_some_and(|transport| transport != "tcp") {
            return false;
        }
        let traddr = text("traddr").and_then(|traddr| traddr.parse::<HostAddress>().ok());
        let service = text("trsvcid").as_deref().unwrap_or(SERVICE).parse().ok();
        match traddr.zip(service).and_then(|(traddr, service)| traddr.literal(service)) {
            Some(address) => self.has_address(&address),
            None => self.addresses.is_empty(),
        }
    }
}

/// A text, which libnvme takes as a number, too.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The text of a file with this entry in it, beside all that it had.
///
/// # Errors
/// When it is not a config.json.
pub fn merge(text: Option<&str>, entry: &PortEntry) -> Result<String, String> {
    let mut root = read(text)?;
    let hosts = hosts(&mut root)?;
    let host = found_or_added(
        hosts,
        "hostnqn",
        &entry.hostnqn,
        || json!({"hostnqn": entry.hostnqn, "hostid": entry.hostid}),
    )?;
    let subsystems = list(host, "subsystems")?;
    let subsystem = found_or_added(subsystems, "nqn", &entry.nqn, || json!({"nqn": entry.nqn}))?;
    let ports = list(subsystem, "ports")?;
    let identity = |port: &Map<String, Value>| {
        IDENTITY.map(|name| match (name, port.get(name).and_then(scalar)) {
            ("trsvcid", None) => SERVICE.to_owned(),
            (_, value) => value.unwrap_or_default(),
        })
    };
    let wanted = identity(&entry.port);
    let is_it = |port: &Value| port.as_object().is_some_and(|port| identity(port) == wanted);
    match ports.iter_mut().find(|port| is_it(port)).and_then(Value::as_object_mut) {
        Some(known) => {
            known.retain(|name, _| !SETTINGS.contains(&name.as_str()));
            known.extend(entry.port.clone());
        }
        None => ports.push(Value::Object(entry.port.clone())),
    }
    Ok(written(&root))
}

/// The text of a file without these entries, and how many there were: no text where nothing is left that means anything.
///
/// # Errors
/// When it is not a config.json.
pub fn remove(text: &str, wanted: &Wanted<'_>) -> Result<(Option<String>, usize), String> {
    let mut root = read(Some(text))?;
    let mut count = 0;
    let hosts = hosts(&mut root)?;
    // Fields that an administrator has added to an entry outlive its last port, and so do unchanged entries.
    let mut left = Vec::with_capacity(hosts.len());
    for mut host in std::mem::take(hosts) {
        let taken = taken_out_of_host(&mut host, wanted)?;
        count += taken;
        if taken == 0 || !is_bare(&host, &["hostnqn", "hostid"], "subsystems") {
            left.push(host);
        }
    }
    *hosts = left;
    let is_empty = hosts.is_empty() && root.as_object().is_none_or(|object| object.len() == 1);
    Ok(((!is_empty).then(|| written(&root)), count))
}

/// Takes the ports out of a host's subsystems; how many there were.
fn taken_out_of_host(host: &mut Value, wanted: &Wanted<'_>) -> Result<usize, String> {
    let Some(host) = host.as_object_mut().filter(|host| host.contains_key("subsystems")) else {
        return Ok(0);
    };
    let subsystems = list(host, "subsystems")?;
    let (mut left, mut count) = (Vec::with_capacity(subsystems.len()), 0);
    for mut subsystem in std::mem::take(subsystems) {
        let taken = taken_out(&mut subsystem, wanted)?;
        count += taken;
        if taken == 0 || !is_bare(&subsystem, &["nqn"], "ports") {
            left.push(subsystem);
        }
    }
    *subsystems = left;
    Ok(count)
}

/// Takes the ports out of a subsystem; how many there were.
fn taken_out(subsystem: &mut Value, wanted: &Wanted<'_>) -> Result<usize, String> {
    let Some(subsystem) = subsystem.as_object_mut() else { return Ok(0) };
    let nqn = subsystem.get("nqn").and_then(Value::as_str);
    if wanted.nqn.is_some_and(|wanted| nqn != Some(wanted)) || !subsystem.contains_key("ports") {
        return Ok(0);
    }
    let ports = list(subsystem, "ports")?;
    let before = ports.len();
    ports.retain(|port| !wanted.has_port(port));
    Ok(before - ports.len())
}

/// True if the value has only its name and an empty list.
fn is_bare(value: &Value, names: &[&str], rest: &str) -> bool {
    let Some(object) = value.as_object() else { return false };
    object.iter().all(|(name, value)| match value {
        Value::Array(list) if name == rest => list.is_empty(),
        _ => names.contains(&name.as_str()),
    })
}

fn read(text: Option<&str>) -> Result<Value, String> {
    let text = text.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("[]");
    // The error itself may have a piece of a secret in it.
    serde_json::from_str(text).map_err(|error| {
        format!("it is not a config.json of nvme-cli (line {}, column {})", error.line(), error.column())
    })
}

/// libnvme writes a list; its schema has an object with one.
fn hosts(root: &mut Value) -> Result<&mut Vec<Value>, String> {
    match root {
        Value::Array(hosts) => Ok(hosts),
        Value::Object(object) => list(object, "hosts"),
        _ => Err("it is not a config.json of nvme-cli: it has no list of hosts".to_owned()),
    }
}

fn list<'a>(object: &'a mut Map<String, Value>, name: &str) -> Result<&'a mut Vec<Value>, String> {
    let list = object.entry(name).or_insert_with(|| json!([]));
    list.as_array_mut().ok_or_else(|| format!("it is not a config.json of nvme-cli: `{name}` is not a list"))
}

fn found_or_added<'a>(
    list: &'a mut Vec<Value>,
    name: &str,
    wanted: &str,
    make: impl FnOnce() -> Value,
) -> Result<&'a mut Map<String, Value>, String> {
    let is_it = |value: &Value| value.get(name).and_then(Value::as_str) == Some(wanted);
    let at = list.iter().position(is_it).unwrap_or_else(|| {
        list.push(make());
        list.len() - 1
    });
    list[at].as_object_mut().ok_or_else(|| format!("its {name} {wanted} is not an object"))
}

fn written(root: &Value) -> String {
    format!("{root:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(nqn: &str, more: &Value) -> PortEntry {
        let mut port = json!({"transport": "tcp", "traddr": "10.0.0.2", "trsvcid": "4420"});
        let more = more.as_object().unwrap().clone();
        port.as_object_mut().unwrap().extend(more);
        PortEntry {
            hostnqn: "nqn.host".to_owned(),
            hostid: "id".to_owned(),
            nqn: nqn.to_owned(),
            port: port.as_object().unwrap().clone(),
        }
    }

    fn merged(text: Option<&str>, entry: &PortEntry) -> Value {
        serde_json::from_str(&merge(text, entry).unwrap()).unwrap()
    }

    fn removed(text: &str, nqn: Option<&str>, addresses: &[&str]) -> (Option<Value>, usize) {
        let addresses: Vec<NetAddress> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let (left, count) = remove(text, &Wanted { nqn, addresses: &addresses }).unwrap();
        (left.map(|text| serde_json::from_str(&text).unwrap()), count)
    }

    const THEIRS: &str = r#"[{"hostnqn": "nqn.host", "hostsymname": "a", "x": {"y": [1]}, "subsystems": [
        {"nqn": "nqn.a", "application": "other", "ports": [
            {"transport": "tcp", "traddr": "10.0.0.2", "tos": 1, "dhchap_key": "DHHC-1:k:", "new": true},
            {"transport": "rdma", "traddr": "10.0.0.2", "trsvcid": "4420"}]}]},
        {"hostnqn": "nqn.other"}]"#;

    #[test]
    fn an_entry_is_made_where_nothing_is() {
        for text in [None, Some(""), Some("[]")] {
            let made = merged(text, &entry("nqn.a", &json!({"nr_io_queues": 4})));
            assert_eq!(
                made,
                json!([{"hostnqn": "nqn.host", "hostid": "id", "subsystems": [{"nqn": "nqn.a", "ports": [
                    {"transport": "tcp", "traddr": "10.0.0.2", "trsvcid": "4420", "nr_io_queues": 4}]}]}])
            );
            assert_eq!(removed(&made.to_string(), Some("nqn.a"), &[]), (None, 1));
        }
        assert_eq!(
            merged(Some("{\"hosts\": []}"), &entry("nqn.a", &json!({})))["hosts"][0]["hostnqn"],
            "nqn.host"
        );
    }

    #[test]
    fn what_is_there_stays() {
        let made = merged(Some(THEIRS), &entry("nqn.a", &json!({"queue_size": 64})));
        let ports = &made[0]["subsystems"][0]["ports"];
        assert_eq!(ports.as_array().unwrap().len(), 2, "the service is 4420 where none is said");
        assert_eq!(
            ports[0],
            json!({"transport": "tcp", "traddr": "10.0.0.2", "trsvcid": "4420", "queue_size": 64,
                "dhchap_key": "DHHC-1:k:", "new": true})
        );
        assert_eq!((&made[0]["x"], &made[1]["hostnqn"]), (&json!({"y": [1]}), &json!("nqn.other")));
        let other = merged(Some(THEIRS), &entry("nqn.b", &json!({})));
        assert_eq!(
            other[0]["subsystems"][0],
            serde_json::from_str::<Value>(THEIRS).unwrap()[0]["subsystems"][0]
        );
        let again = merge(Some(&other.to_string()), &entry("nqn.b", &json!({}))).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), other, "twice is once");
        let (left, count) = removed(&other.to_string(), Some("nqn.b"), &[]);
        assert_eq!(count, 1);
        assert_eq!(left, Some(serde_json::from_str(THEIRS).unwrap()));
    }

    #[test]
    fn entries_go_by_name_and_address() {
        let two = merge(Some(THEIRS), &entry("nqn.a", &json!({"trsvcid": "4421"}))).unwrap();
        let count = |nqn, addresses: &[&str]| removed(&two, nqn, addresses).1;
        assert_eq!(count(Some("nqn.a"), &[]), 2);
        assert_eq!(count(Some("nqn.b"), &[]), 0);
        assert_eq!(count(None, &["10.0.0.2:0"]), 2);
        assert_eq!(count(None, &["10.0.0.2:4421"]), 1);
        assert_eq!(count(None, &["[::ffff:10.0.0.2]:4420"]), 1);
        assert_eq!(count(None, &["10.0.0.3:0"]), 0);
        let (left, _) = removed(&two, Some("nqn.a"), &[]);
        let subsystem = &left.unwrap()[0]["subsystems"][0];
        assert_eq!(subsystem["application"], "other");
        assert_eq!(subsystem["ports"][0]["transport"], "rdma");
    }

    #[test]
    fn a_port_as_a_number_is_the_same_port() {
        let theirs = THEIRS.replacen(r#""tos": 1"#, r#""trsvcid": 4420, "tos": 1"#, 1);
        let made = merged(Some(&theirs), &entry("nqn.a", &json!({})));
        assert_eq!(made[0]["subsystems"][0]["ports"].as_array().unwrap().len(), 2, "it is not added again");
        assert_eq!(removed(&theirs, None, &["10.0.0.2:4420"]).1, 1);
        assert_eq!(removed(&theirs, None, &["10.0.0.2:4421"]).1, 0);
    }

    #[test]
    fn another_file_is_refused() {
        for wrong in ["{", "7", r#"[{"hostnqn": "nqn.host", "subsystems": {}}]"#] {
            assert!(merge(Some(wrong), &entry("nqn.a", &json!({}))).is_err(), "{wrong}");
        }
        let secret = r#"[{"dhchap_key": "DHHC-1:secret"#;
        assert!(!merge(Some(secret), &entry("nqn.a", &json!({}))).unwrap_err().contains("DHHC"));
    }
}
