//! What a change makes different, setting by setting: what it is in the configuration before, and what in the one that is
//! wanted. The target names the changes; the values are in the two configurations.

use std::collections::{BTreeMap, HashMap};

use engine::target::{Change, FabricConfig};
use serde_json::{Value, json};

use crate::spec::size::Size;

/// Settings in bytes, by the ends of their names, which people read with a unit.
const SIZES: [&str; 4] = ["size", "bytes", "bytes_max", "bytes_max_per_host"];
/// Settings that keep their value if the wanted configuration leaves them out.
const KEPT: [&str; 2] = ["serial", "uuid"];

/// Adds to each change what it makes different, and to each that makes a namespace smaller that it does.
pub fn add_to(changes: &mut [Value], before: &Value, wanted: &Value) {
    add(changes, &Index::of(before), &Index::of(wanted));
}

fn add(changes: &mut [Value], before: &Index<'_>, wanted: &Index<'_>) {
    for change in changes {
        let (from, to) = (before.subject(change), wanted.subject(change));
        let (Some(from), Some(to)) = (from, to) else { continue };
        let (from, to) = (settings(&from), settings(&to));
        let names: Vec<&String> =
            from.keys().chain(to.keys().filter(|name| !from.contains_key(*name))).collect();
        let value =
            |settings: &BTreeMap<String, Value>, name: &str| settings.get(name).cloned().unwrap_or_default();
        let differences = names.into_iter().filter_map(|name| {
            let (from, to) = (value(&from, name), value(&to, name));
            let is_open = KEPT.contains(&name.as_str()) && (to.is_null() || to == "");
            (from != to && !is_open).then(|| json!({ "setting": name, "from": from, "to": to }))
        });
        let differences: Vec<Value> = differences.collect();
        if differences.iter().any(is_smaller) {
            change["shrinks"] = json!(true);
        }
        if !differences.is_empty() {
            change["differences"] = json!(differences);
        }
    }
}

/// Changes with their values before and after, for the audit log: the settings that differ, or the
/// whole object if it is added or removed.
pub(super) fn recorded(changes: &[Change], before: &FabricConfig, after: &FabricConfig) -> Vec<Value> {
    let json = |fabric| serde_json::to_value(fabric).unwrap_or_default();
    let (before, after) = (json(before), json(after));
    let mut records: Vec<Value> =
        changes.iter().map(|change| serde_json::to_value(change).unwrap_or_default()).collect();
    let (before, after) = (Index::of(&before), Index::of(&after));
    add(&mut records, &before, &after);
    for change in &mut records {
        match (before.subject(change), after.subject(change)) {
            (Some(gone), None) => change["before"] = gone,
            (None, Some(come)) => change["after"] = come,
            _ => {}
        }
    }
    records
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Objects of a list by the numbers in a field.
type Numbered<'a> = HashMap<u64, &'a Value>;

/// Objects of a configuration by their names and numbers: it may have thousands of namespaces, and a
/// change thousands of objects.
struct Index<'a> {
    config: &'a Value,
    ports: Numbered<'a>,
    subsystems: HashMap<&'a str, Subsystem<'a>>,
}

struct Subsystem<'a> {
    whole: &'a Value,
    groups: Numbered<'a>,
    namespaces: Numbered<'a>,
}

fn numbered<'a>(value: &'a Value, list: &str, field: &str) -> Numbered<'a> {
    items(value, list).iter().filter_map(|item| Some((item[field].as_u64()?, item))).collect()
}

impl<'a> Index<'a> {
    fn of(config: &'a Value) -> Self {
        let subsystems = items(config, "subsystems").iter().filter_map(|whole| {
            let groups = numbered(whole, "ana_groups", "id");
            let namespaces = numbered(whole, "namespaces", "nsid");
            Some((whole["nqn"].as_str()?, Subsystem { whole, groups, namespaces }))
        });
        Self { config, ports: numbered(config, "ports", "id"), subsystems: subsystems.collect() }
    }

    /// Object of a change; `None` for an object that is added or removed as a whole.
    fn subject(&self, change: &Value) -> Option<Value> {
        let kind = change["change"].as_str()?;
        let of = |objects: &Numbered<'_>, number: &str| {
            objects.get(&change[number].as_u64()?).map(|object| (*object).clone())
        };
        if kind.starts_with("port_") {
            return of(&self.ports, "port");
        }
        let of_config = match kind {
            "referrals_changed" => Some("referrals"),
            "discovery_nqn_changed" => Some("discovery_nqn"),
            _ => None,
        };
        if let Some(name) = of_config {
            return Some(json!({ name: self.config[name] }));
        }
        let subsystem = self.subsystems.get(change["nqn"].as_str()?)?;
        let only = |names: &[&str]| {
            let fields = names.iter().map(|name| ((*name).to_owned(), subsystem.whole[*name].clone()));
            Some(Value::Object(fields.collect()))
        };
        match kind {
            "access_changed" => {
                let keys = ["host_keys", "dhchap_ctrl_secret_sealed", "dhchap_dhgroup"];
                only(
                    &[&["allow_any_host", "hosts", "kept_hosts", "ports", "networks"][..], &keys[..]]
                        .concat(),
                )
            }
            "storage_changed" => only(&["storage"]),
            "command_quiesce_changed" => only(&["command_quiesce", "command_quiesce_ms"]),
            "queues_changed" => only(&["io_queues_max"]),
            "subsystem_replaced" => only(&["serial", "model"]),
            "ana_group_changed" => of(&subsystem.groups, "group"),
            _ => of(&subsystem.namespaces, "nsid"),
        }
    }
}

/// The settings in a part of a configuration, each by its way from there. A list is one setting.
fn settings(part: &Value) -> BTreeMap<String, Value> {
    fn collect(part: &Value, way: &str, settings: &mut BTreeMap<String, Value>) {
        match part {
            Value::Null => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    let way = if way.is_empty() { name.clone() } else { format!("{way}.{name}") };
                    collect(value, &way, settings);
                }
            }
            value => {
                settings.insert(way.to_owned(), value.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(part, "", &mut found);
    found
}

fn is_smaller(difference: &Value) -> bool {
    let is_size = difference["setting"].as_str().is_some_and(|name| name.ends_with(".size"));
    let (from, to) = (difference["from"].as_u64(), difference["to"].as_u64());
    is_size && from.zip(to).is_some_and(|(from, to)| to < from)
}

/// A difference in words.
pub fn words(difference: &Value) -> String {
    let name = difference["setting"].as_str().unwrap_or_default();
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_size = SIZES.iter().any(|size| last == *size || last.ends_with(&format!("_{size}")));
    let value = |side: &str| match &difference[side] {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if is_size => {
            number.as_u64().map_or(number.to_string(), |bytes| Size(bytes).to_string())
        }
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => {
            let items = list.iter().map(|item| item.as_str().map_or(item.to_string(), str::to_owned));
            items.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    // Where the blocks are is in its name already.
    let shown = match name.strip_prefix("backend.").and_then(|rest| rest.split_once('.')) {
        Some((_, "size")) => "size",
        _ => name,
    };
    format!("{shown}: {} → {}", value("from"), value("to"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(size: u64, hosts: &[&str]) -> Value {
        json!({
            "ports": [{ "id": 1, "address": "127.0.0.1:4420" }],
            "subsystems": [{
                "nqn": "nqn.a", "hosts": hosts, "serial": "1",
                "namespaces": [{ "nsid": 1, "uuid": "u", "backend": { "memory": { "size": size } }, "qos": { "iops": 5 } }],
                "ana_groups": [{ "id": 1, "state": "optimized" }],
            }],
        })
    }

    #[test]
    fn differences_have_the_values_before_and_after() {
        let (before, mut wanted) = (config(2 << 30, &["nqn.host:1"]), config(1 << 30, &[]));
        wanted["subsystems"][0]["ana_groups"][0]["state"] = json!("inaccessible");
        let namespace = &mut wanted["subsystems"][0]["namespaces"][0];
        (namespace["uuid"], namespace["qos"]) = (Value::Null, json!({ "write_bytes": 1 << 20 }));
        let mut changes = [
            json!({ "change": "namespace_resized", "nqn": "nqn.a", "nsid": 1 }),
            json!({ "change": "access_changed", "nqn": "nqn.a" }),
            json!({ "change": "ana_group_changed", "nqn": "nqn.a", "group": 1 }),
            json!({ "change": "namespace_added", "nqn": "nqn.a", "nsid": 2 }),
            json!({ "change": "port_changed", "port": 1 }),
        ];
        add_to(&mut changes, &before, &wanted);
        let records: Vec<Vec<String>> =
            changes.iter().map(|change| items(change, "differences").iter().map(words).collect()).collect();
        let expected = [
            &["size: 2 GiB → 1 GiB", "qos.iops: 5 → none", "qos.write_bytes: none → 1 MiB"][..],
            &["hosts: nqn.host:1 → none"],
            &["state: optimized → inaccessible"],
            &[],
            &[],
        ];
        assert_eq!(records, expected);
        assert_eq!(changes.map(|change| change["shrinks"] == true), [true, false, false, false, false]);
    }

    #[test]
    fn each_object_is_compared_with_the_one_of_its_name_and_number() {
        let many = |qos: &dyn Fn(u64) -> u64| {
            let of = |nqn: &str, more: u64| {
                let namespaces =
                    (1..=4096).map(|nsid| json!({ "nsid": nsid, "qos": { "iops": qos(nsid) + more } }));
                json!({ "nqn": nqn, "namespaces": namespaces.collect::<Vec<_>>() })
            };
            json!({ "subsystems": [of("nqn.a", 0), of("nqn.b", 10_000)] })
        };
        let changed = |nqn: &str, nsid: u64| json!({ "change": "qos_changed", "nqn": nqn, "nsid": nsid });
        let mut changes: Vec<Value> = (1..=4096).map(|nsid| changed("nqn.a", nsid)).collect();
        changes.extend([changed("nqn.b", 7), changed("nqn.b", 4097), changed("nqn.c", 7)]);
        changes.push(json!({ "change": "subsystem_added", "nqn": "nqn.a" }));
        add_to(&mut changes, &many(&|nsid| nsid), &many(&|nsid| nsid + 5000));
        let of = |number: u64| json!([{ "setting": "qos.iops", "from": number, "to": number + 5000 }]);
        for (nsid, change) in (1..=4096).zip(&changes) {
            assert_eq!(change["differences"], of(nsid));
        }
        assert_eq!(changes[4096]["differences"], of(10_007));
        assert!(changes[4097..].iter().all(|change| change["differences"].is_null()), "no such object");
    }
}
