//! `selvedge subsystem`: adds, removes, lists, shows and changes subsystems of a running target.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chart::units;
use engine::target::{StorageConfig, SubsystemConfig};
use hyper::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ask::{client, done, tell};
use super::namespace::table;
use super::namespace_states::States;
use crate::control::client::encode;
use crate::failure::Failure;
use crate::flags::subsystem::{SubsystemAction, SubsystemSettings};
use crate::report::table::{Side, Table};
use crate::spec::absolute;
use crate::spec::size::Size;

/// Does what was typed.
pub(super) fn run(action: &SubsystemAction) -> Result<(), Failure> {
    match action {
        SubsystemAction::Add { nqn, allow_any_host, allow_hosts, settings, control } => {
            let mut body = body(settings);
            body.insert("nqn".into(), json!(nqn.as_str()));
            body.insert("allow_any_host".into(), json!(allow_any_host));
            let hosts: Vec<&str> = allow_hosts.iter().map(|host| host.as_str()).collect();
            body.insert("hosts".into(), json!(hosts));
            let json: Value = client(control)?.change(Method::POST, "/v1/subsystems", &body.into())?;
            let hint = if *allow_any_host || !allow_hosts.is_empty() {
                ""
            } else {
                "; no host may use it yet: `selvedge host allow` lets one in"
            };
            done(control, format!("subsystem {nqn} is added{hint}"), &json)
        }
        SubsystemAction::Remove { nqn, control } => {
            client(control)?.delete(&path(nqn))?;
            done(control, format!("subsystem {nqn} is removed"), &json!({ "removed": nqn.as_str() }))
        }
        SubsystemAction::List { control } => {
            let json: Value = client(control)?.get("/v1/subsystems")?;
            tell(control, overview(&subsystems(&json)?), &json)
        }
        SubsystemAction::Show { nqn, control } => {
            let client = client(control)?;
            let (mut json, states): (Value, _) = (client.get(&path(nqn))?, States::of(&client)?);
            let config = SubsystemConfig::deserialize(&json).map_err(Failure::failed)?;
            states.add_to(nqn, &mut json["namespaces"]);
            tell(control, describe(&config, &states), &json)
        }
        SubsystemAction::Set { nqn, no_storage, all_ports, settings, control } => {
            let mut body = body(settings);
            if *no_storage {
                body.insert("storage".into(), Value::Null);
            }
            if *all_ports {
                body.insert("ports".into(), json!([]));
            }
            if body.is_empty() {
                return Err(Failure::usage("no setting is given: add one, such as --serial TEXT"));
            }
            let json: Value = client(control)?.change(Method::PATCH, &path(nqn), &body.into())?;
            done(control, format!("subsystem {nqn} is changed"), &json)
        }
    }
}

fn path(nqn: &str) -> String {
    format!("/v1/subsystems/{}", encode(nqn))
}

/// All subsystems in an answer.
pub(super) fn subsystems(json: &Value) -> Result<Vec<SubsystemConfig>, Failure> {
    let list = json.get("subsystems").cloned().unwrap_or_default();
    serde_json::from_value(list).map_err(Failure::failed)
}

fn body(settings: &SubsystemSettings) -> Map<String, Value> {
    let mut body = Map::new();
    for (name, text) in [("serial", &settings.serial), ("model", &settings.model)] {
        if let Some(text) = text {
            body.insert(name.into(), json!(text));
        }
    }
    if let (Some(directory), Some(Size(max))) = (&settings.storage, settings.storage_max) {
        let mut storage = json!({ "directory": absolute(directory), "bytes_max": max });
        if let Some(Size(max)) = settings.storage_max_per_host {
            storage["bytes_max_per_host"] = json!(max);
        }
        if let Some(max) = settings.storage_namespaces_per_host {
            storage["namespaces_max_per_host"] = json!(max);
        }
        body.insert("storage".into(), storage);
    }
    if !settings.ports.is_empty() {
        body.insert("ports".into(), json!(settings.ports));
    }
    if let Some(quiesce) = settings.command_quiesce {
        let (quiesce, fixed_ms) = quiesce.to_engine();
        body.insert("command_quiesce".into(), json!(quiesce));
        body.insert("command_quiesce_ms".into(), json!(fixed_ms));
    }
    body
}

/// Describes the hosts that may use a subsystem.
fn access(config: &SubsystemConfig) -> String {
    match config.hosts.len() {
        _ if config.allow_any_host => "any".to_owned(),
        number => number.to_string(),
    }
}

fn overview(subsystems: &[SubsystemConfig]) -> String {
    let columns = [
        ("subsystem", Side::Left),
        ("serial", Side::Left),
        ("hosts", Side::Right),
        ("namespaces", Side::Right),
    ];
    let mut table = Table::new(&columns);
    for config in subsystems {
        let number = config.namespaces.len().to_string();
        table.row(vec![config.nqn.clone(), config.serial.clone(), access(config), number]);
    }
    table.to_string()
}

/// Returns bytes and number of namespaces that each host has created in the subsystem.
fn used_by_hosts<'a>(
    config: &'a SubsystemConfig,
    storage: &StorageConfig,
) -> BTreeMap<&'a str, (u64, usize)> {
    let mut used = BTreeMap::new();
    for namespace in &config.namespaces {
        if let (Some(owner), Some(bytes)) = (&namespace.owner, namespace.bytes_in(storage)) {
            let (sum, count): &mut (u64, usize) = used.entry(owner.nqn.as_str()).or_default();
            *sum = sum.saturating_add(bytes);
            *count += 1;
        }
    }
    used
}

fn describe(config: &SubsystemConfig, states: &States) -> String {
    let mut text = format!("{}\n  serial     {}\n  model      {}\n", config.nqn, config.serial, config.model);
    let ports: Vec<String> = config.ports.iter().map(ToString::to_string).collect();
    let ports = if ports.is_empty() { "all".to_owned() } else { ports.join(", ") };
    let hosts = if config.allow_any_host {
        "any".to_owned()
    } else if config.hosts.is_empty() {
        "none yet".to_owned()
    } else {
        config.hosts.join(", ")
    };
    // Writing to a text cannot fail.
    let _ = writeln!(text, "  ports      {ports}\n  hosts      {hosts}");
    if let Some(quiesce) = states.quiesce(&config.nqn) {
        let _ = writeln!(text, "  quiesce    {quiesce}");
    }
    if let Some(storage) = &config.storage {
        let _ = writeln!(
            text,
            "  storage    {}, at most {}; for one host {} and {}",
            storage.directory.display(),
            Size(storage.bytes_max),
            Size(storage.host_bytes_max()),
            units::plural(storage.host_namespaces_max().into(), "namespace")
        );
        for (host, (bytes, count)) in used_by_hosts(config, storage) {
            let _ = writeln!(text, "             {host} has {} in {count}", Size(bytes));
        }
    }
    text + &table(config, states, 2)
}
