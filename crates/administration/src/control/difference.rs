//! What a change makes different, setting by setting: what it is in the configuration before, and what in the one that is
//! wanted. The target names the changes; the values are in the two configurations.

use std::collections::BTreeMap;

use engine::target::{Change, FabricConfig};
use serde_json::{Value, json};

use crate::spec::size::Size;

/// Settings in bytes, by the ends of their names, which people read with a unit.
const SIZES: [&str; 4] = ["size", "bytes", "bytes_max", "bytes_max_per_host"];
/// Settings that keep their value if the wanted configuration leaves them out.
const KEPT: [&str; 2] = ["serial", "uuid"];

/// Adds to each change what it makes different, and to each that makes a namespace smaller that it does.
pub fn add_to(changes: &mut [Value], before: &Value, wanted: &Value) {
    for change in changes {
        let (from, to) = (subject(change, before), subject(change, wanted));
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
    add_to(&mut records, &before, &after);
    for change in &mut records {
        match (subject(change, &before), subject(change, &after)) {
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

/// Object of a change, in a configuration; `None` for an object that is added or removed as a
/// whole.
fn subject(change: &Value, config: &Value) -> Option<Value> {
    let kind = change["change"].as_str()?;
    if kind.starts_with("port_") {
        return find(config, "ports", "id", &change["port"]).cloned();
    }
    let of_config = match kind {
        "referrals_changed" => Some("referrals"),
        "discovery_nqn_changed" => Some("discovery_nqn"),
        _ => None,
    };
    if let Some(name) = of_config {
        return Some(json!({ name: config[name] }));
    }
    let subsystem = find(config, "subsystems", "nqn", &change["nqn"])?;
    let only = |names: &[&str]| {
        let fields = names.iter().map(|name| ((*name).to_owned(), subsystem[*name].clone()));
        Some(Value::Object(fields.collect()))
    };
    match kind {
        "access_changed" => {
            let keys = ["host_keys", "dhchap_ctrl_secret_sealed", "dhchap_dhgroup"];
            only(&[&["allow_any_host", "hosts", "kept_hosts", "ports", "networks"][..], &keys[..]].concat())
        }
        "storage_changed" => only(&["storage"]),
        "command_quiesce_changed" => only(&["command_quiesce", "command_quiesce_ms"]),
        "queues_changed" => only(&["io_queues_max"]),
        "subsystem_replaced" => only(&["serial", "model"]),
        "ana_group_changed" => find(subsystem, "ana_groups", "id", &change["group"]).cloned(),
        _ => find(subsystem, "namespaces", "nsid", &change["nsid"]).cloned(),
    }
}

/// The item of a list whose field is as wanted. A subsystem may have thousands of namespaces, and
/// is not copied.
fn find<'a>(list: &'a Value, name: &str, field: &str, wanted: &Value) -> Option<&'a Value> {
    items(list, name).iter().find(|item| item[field] == *wanted)
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
}
