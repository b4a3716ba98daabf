//! `selvedge host`, `ana`, `connection`, `status` and `openapi`: the small commands that ask a running target.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chart::units;
use engine::limits::SECRET_FILE_BYTES_MAX;
use engine::secret_file;
use hyper::Method;
use nvme::discovery::Nqn;
use serde_json::{Map, Value, json};

use super::ask::{cell, client, done, items, tell};
use super::namespace_states::storage;
use crate::control::client::{Client, encode};
use crate::control::host_keys::{HostKeyBody, Plain};
use crate::control::openapi;
use crate::failure::Failure;
use crate::flags::control::{
    ANA_STATES, AnaAction, ConnectedAction, ControlFlags, HostAction, HostKeyFlags, StatusFlags,
};
use crate::report;
use crate::report::duration::duration;
use crate::report::table::{Side, Table};
use crate::report::utc;
use crate::spec::absolute;

/// A table of the fields with these names.
pub(super) fn table(rows: &[Value], names: &[&str]) -> Table {
    let columns: Vec<(&str, Side)> = names.iter().map(|name| (*name, Side::Left)).collect();
    let mut table = Table::new(&columns);
    for row in rows {
        table.row(names.iter().map(|name| cell(row, name)).collect());
    }
    table
}

fn subsystem(nqn: &str) -> String {
    format!("/v1/subsystems/{}", encode(nqn))
}

/// Runs `selvedge host`.
pub(super) fn host(action: &HostAction) -> Result<(), Failure> {
    match action {
        HostAction::Allow { subsystem: nqn, host: Some(host), control, .. } => {
            let body = json!({ "nqn": host.as_str() });
            let path = format!("{}/hosts", subsystem(nqn));
            let client = client(control)?;
            let json: Value = client.change(Method::POST, &path, &body)?;
            let text = if is_open(&client.get(&path)?) {
                format!(
                    "host {host} is added to the list of {nqn}, which has no effect yet: {}",
                    every_host(nqn)
                )
            } else {
                format!("host {host} may use {nqn}")
            };
            done(control, text, &json)
        }
        HostAction::Deny { subsystem: nqn, host: Some(host), keep_connections, control, .. } => {
            let client = client(control)?;
            let path = format!("{}/hosts", subsystem(nqn));
            let query = if *keep_connections { "?keep_connections=true" } else { "" };
            client.delete(&format!("{path}/{}{query}", encode(host)))?;
            let text = if is_open(&client.get(&path)?) {
                format!(
                    "host {host} is removed from the list of {nqn}, and may use it all the same: {}",
                    every_host(nqn)
                )
            } else {
                format!("host {host} is removed from the list of {nqn}")
            };
            done(control, text, &json!({ "removed": host.as_str() }))
        }
        HostAction::Allow { subsystem: nqn, host: None, control, .. } => {
            let body = json!({ "allow_any_host": true });
            let json: Value = client(control)?.change(Method::PATCH, &subsystem(nqn), &body)?;
            done(control, format!("every host may use {nqn}"), &json)
        }
        HostAction::Deny { subsystem: nqn, host: None, control, .. } => {
            let body = json!({ "allow_any_host": false });
            let json: Value = client(control)?.change(Method::PATCH, &subsystem(nqn), &body)?;
            done(control, format!("only the hosts on its list may use {nqn}"), &json)
        }
        HostAction::SetKey { subsystem: nqn, host, key, control } => {
            let body = serde_json::to_value(host_key_body(key)?).map_err(Failure::failed)?;
            let json: Value = client(control)?.change(Method::PUT, &host_key(nqn, host), &body)?;
            let text = match (&key.dhchap_secret_file, &key.tls_key_file) {
                (Some(_), None) if key.tls_concat => {
                    format!("host {host} has to authenticate to {nqn} with --concat, which makes its TLS key")
                }
                (Some(_), None) => format!("host {host} has to authenticate to {nqn}"),
                (Some(_), Some(_)) => {
                    format!("host {host} has to authenticate to {nqn}, and has a TLS key for it")
                }
                (None, _) => format!("host {host} has a TLS key for {nqn}"),
            };
            done(control, text, &json)
        }
        HostAction::RemoveKey { subsystem: nqn, host, control } => {
            client(control)?.delete(&host_key(nqn, host))?;
            let text = format!("host {host} need not authenticate to {nqn}, and has no TLS key for it");
            done(control, text, &json!({ "removed": host.as_str() }))
        }
        HostAction::List { subsystem: nqn, control } => list_hosts(nqn.as_ref(), control),
    }
}

/// The named subsystem, or the only one of the target.
fn or_only(named: Option<&Nqn>, client: &Client) -> Result<Nqn, Failure> {
    if let Some(nqn) = named {
        return Ok(nqn.clone());
    }
    let json: Value = client.get("/v1/subsystems")?;
    let names: Vec<String> = items(&json, "subsystems").iter().map(|known| cell(known, "nqn")).collect();
    match names.as_slice() {
        [only] => only.parse().map_err(Failure::failed),
        [] => Err(Failure::failed("the target has no subsystem")),
        several => Err(Failure::usage(format!("name one of {}", several.join(", ")))),
    }
}

/// Access of every host to a subsystem, be it on the list or not.
fn is_open(hosts: &Value) -> bool {
    hosts.get("allow_any_host") == Some(&Value::Bool(true))
}

/// Command that makes a list count.
fn every_host(nqn: &Nqn) -> String {
    format!("every host may use it, until `selvedge host deny {nqn} --any`")
}

/// The hosts of a subsystem, each with what it shows who it is by.
fn list_hosts(nqn: Option<&Nqn>, control: &ControlFlags) -> Result<(), Failure> {
    let client = client(control)?;
    let nqn = &or_only(nqn, &client)?;
    let json: Value = client.get(&format!("{}/hosts", subsystem(nqn)))?;
    let status: Value = client.get("/v1/status")?;
    let mut text = String::new();
    if is_open(&json) {
        text += "any host\n";
    }
    let has = |host: &Value, kind: &str| {
        let mut keys = items(&json, "host_keys").iter().filter(|key| key["host"] == *host);
        keys.any(|key| ["file", "sealed"].iter().any(|how| key.get(format!("{kind}_{how}")).is_some()))
    };
    let age = |host: &Value, kind: &str| {
        let mut keys = items(&status, "host_keys").iter().filter(|key| key["subsystem"] == nqn.as_str());
        let key = keys.find(|key| key["host"] == *host && key["kind"] == kind);
        key.and_then(|key| key["written_s"].as_u64()).map_or_else(String::new, written)
    };
    for host in items(&json, "hosts") {
        text += host.as_str().unwrap_or_default();
        if has(host, "dhchap_secret") {
            text += &format!("  authenticates{}", age(host, "dhchap"));
        }
        if has(host, "tls_key") {
            text += &format!("  has a TLS key{}", age(host, "tls"));
        }
        text += "\n";
    }
    if text.is_empty() {
        text += "no host yet\n";
    }
    tell(control, text, &json)
}

/// Builds the body from the flags. Files are on the target's machine, which is this one for
/// relative paths. Those with keys that the target stores are read here.
fn host_key_body(flags: &HostKeyFlags) -> Result<HostKeyBody, Failure> {
    let body = HostKeyBody {
        dhchap_hash: flags.dhchap_hash.iter().map(ToString::to_string).collect(),
        dhchap_dhgroup: flags.dhchap_dhgroup.iter().map(ToString::to_string).collect(),
        tls_concat: flags.tls_concat,
        overlap_s: flags.overlap.map_or(0, |overlap| overlap.as_secs().min(u32::MAX.into()) as u32),
        ..HostKeyBody::default()
    };
    let [secret, controller, tls] =
        [&flags.dhchap_secret_file, &flags.dhchap_ctrl_secret_file, &flags.tls_key_file]
            .map(Option::as_deref);
    for file in [secret, controller, tls].into_iter().flatten() {
        secret_file::check_name(file).map_err(Failure::usage)?;
    }
    if flags.sealed {
        return Ok(HostKeyBody {
            dhchap_secret: secret.map(plain).transpose()?,
            dhchap_ctrl_secret: controller.map(plain).transpose()?,
            tls_key: tls.map(plain).transpose()?,
            ..body
        });
    }
    Ok(HostKeyBody {
        dhchap_secret_file: secret.map(absolute),
        dhchap_ctrl_secret_file: controller.map(absolute),
        tls_key_file: tls.map(absolute),
        ..body
    })
}

fn plain(file: &Path) -> Result<Plain, Failure> {
    secret_file::text(file, SECRET_FILE_BYTES_MAX).map(Plain::new).map_err(Failure::usage)
}

/// Returns the date of a key, and its age.
fn written(written_s: u64) -> String {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let days = now_s.saturating_sub(written_s) / 86_400;
    let age = match days {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    };
    format!(" ({age}, {})", utc::date(UNIX_EPOCH + Duration::from_secs(written_s)))
}

fn host_key(nqn: &str, host: &str) -> String {
    format!("{}/host_keys/{}", subsystem(nqn), encode(host))
}

/// The states of ANA groups.
pub(super) fn ana(action: &AnaAction) -> Result<(), Failure> {
    match action {
        AnaAction::Set { subsystem: nqn, group, state, ports, control } => {
            let mut states = Map::new();
            for port in ports {
                let wrong = || {
                    Failure::usage(format!(
                        "`{port}` is not a state on a port: write N=STATE, such as 2=optimized"
                    ))
                };
                let (id, state) = port.split_once('=').ok_or_else(wrong)?;
                let id: u16 = id.parse().map_err(|_| wrong())?;
                if !ANA_STATES.contains(&state) {
                    return Err(Failure::usage(format!(
                        "`{state}` is not a state: write one of {}",
                        ANA_STATES.join(", ")
                    )));
                }
                states.insert(id.to_string(), json!(state));
            }
            let body = json!({ "state": state, "ports": states });
            let path = format!("{}/ana-groups/{group}", subsystem(nqn));
            let client = client(control)?;
            let json: Value = client.change(Method::PUT, &path, &body)?;
            let config: Value = client.get(&subsystem(nqn))?;
            let is_empty = !items(&config, "namespaces").iter().any(|known| known["ana_group"] == *group);
            let remark = if is_empty { "; no namespace is in it" } else { "" };
            done(control, format!("ANA group {group} of {nqn} is {state}{remark}"), &json)
        }
        AnaAction::List { subsystem: nqn, control } => {
            let client = client(control)?;
            let nqn = &or_only(nqn.as_ref(), &client)?;
            let json: Value = client.get(&format!("{}/ana-groups", subsystem(nqn)))?;
            let columns = [("group", Side::Right), ("state", Side::Left), ("on single ports", Side::Left)];
            let mut table = Table::new(&columns);
            for group in items(&json, "ana_groups") {
                let ports = group.get("ports").and_then(Value::as_object).into_iter().flatten();
                let ports: Vec<String> =
                    ports.map(|(port, state)| format!("{port}={}", state.as_str().unwrap_or("?"))).collect();
                table.row(vec![cell(group, "id"), cell(group, "state"), ports.join(", ")]);
            }
            tell(control, table, &json)
        }
    }
}

/// Connected hosts.
pub(super) fn connection(action: &ConnectedAction) -> Result<(), Failure> {
    match action {
        ConnectedAction::List { control } => {
            let json: Value = client(control)?.get("/v1/connections")?;
            tell(control, controllers(&json), &json)
        }
        ConnectedAction::Reset { cntlid, control } => {
            client(control)?.delete(&format!("/v1/controllers/{cntlid}"))?;
            done(control, format!("controller {cntlid} is ended"), &json!({ "reset": cntlid }))
        }
    }
}

fn controllers(json: &Value) -> String {
    let list = items(json, "controllers");
    if list.is_empty() {
        return "no host is connected\n".to_owned();
    }
    let mut columns = vec![
        ("cntlid", Side::Right),
        ("subsystem", Side::Left),
        ("host", Side::Left),
        ("port", Side::Right),
        ("queues", Side::Right),
        ("transport", Side::Left),
        ("peer", Side::Left),
    ];
    // Without authentication, the column would only take room.
    let shows_proof = list.iter().any(|controller| controller.get("authentication").is_some());
    if shows_proof {
        columns.push(("dhchap", Side::Left));
    }
    let mut table = Table::new(&columns);
    for controller in list {
        let queues = items(controller, "queues");
        let mut row = vec![
            cell(controller, "cntlid"),
            cell(controller, "subsystem"),
            cell(controller, "host_nqn"),
            cell(controller, "port"),
            queues.len().to_string(),
            carried_by(queues),
            queues.first().map_or("-".to_owned(), |queue| cell(queue, "peer")),
        ];
        if shows_proof {
            row.push(proof(&controller["authentication"]));
        }
        table.row(row);
    }
    table.to_string()
}

/// Describes the authentication of a controller's host.
fn proof(authentication: &Value) -> String {
    if authentication.is_null() {
        return "-".to_owned();
    }
    let ways = if authentication["bidirectional"] == true { "both ways" } else { "one way" };
    format!("{}, {}, {ways}", cell(authentication, "dhchap_hash"), cell(authentication, "dhchap_dhgroup"))
}

/// Describes the transport of a controller's queues, with the largest number of subflows.
fn carried_by(queues: &[Value]) -> String {
    let streams =
        || queues.iter().filter_map(|queue| queue.get("stream")).filter(|stream| stream.is_object());
    let is_mptcp = |stream: &&Value| cell(stream, "transport") == "mptcp";
    match streams().filter(is_mptcp).map(|stream| items(stream, "subflows").len()).max() {
        Some(1) => "mptcp, 1 subflow".to_owned(),
        Some(ways) => format!("mptcp, {ways} subflows"),
        None => streams().next().map_or("-".to_owned(), |stream| cell(stream, "transport")),
    }
}

/// Runs `selvedge status`.
pub(super) fn status(flags: &StatusFlags) -> Result<(), Failure> {
    let json: Value = client(&flags.control)?.get("/v1/status")?;
    let mut text = headline(&json);
    text += &confinement(&json);
    for port in items(&json, "ports") {
        let over = if cell(port, "transport") == "mptcp" { ", MPTCP" } else { "" };
        text += &format!("listening on {} (port number {}{over})\n", cell(port, "address"), cell(port, "id"));
    }
    text += &storage(&json);
    text += &controllers(&json);
    text += &format!("reactors\n{}", reactors(&json));
    text += &peculiarities(&json);
    tell(&flags.control, text, &json)
}

/// Returns the version, the uptime and the numbers of objects.
fn headline(json: &Value) -> String {
    let uptime = Duration::from_secs(json["uptime_s"].as_u64().unwrap_or_default());
    let count = |name: &str, noun: &str| units::plural(items(json, name).len() as u64, noun);
    let states = ["failed", "absent"].into_iter().filter_map(|state| {
        let number = items(json, "namespaces").iter().filter(|known| known["state"] == state).count();
        (number > 0).then(|| format!("{number} {state}"))
    });
    let states: Vec<String> = states.collect();
    let troubled = if states.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) };
    let hosts: BTreeSet<String> =
        items(json, "controllers").iter().map(|controller| cell(controller, "host_nqn")).collect();
    format!(
        "selvedge {}, up {}: {}, {}{troubled}, {} connected by {}\n",
        cell(json, "version"),
        duration(uptime),
        count("subsystems", "subsystem"),
        count("namespaces", "namespace"),
        units::plural(hosts.len() as u64, "host"),
        count("controllers", "controller"),
    )
}

/// Returns the restrictions of the process, whose details are in the JSON; empty if the target does not report them.
fn confinement(json: &Value) -> String {
    let measures = json.get("confinement").and_then(Value::as_object).into_iter().flatten();
    let measures: Vec<String> =
        measures.map(|(name, measure)| format!("{name} {}", cell(measure, "state"))).collect();
    if measures.is_empty() { String::new() } else { format!("confinement: {}\n", measures.join(", ")) }
}

/// Returns the table of reactors with their processor time.
fn reactors(json: &Value) -> Table {
    let columns = [
        ("reactor", Side::Right),
        ("kept on", Side::Left),
        ("connections", Side::Right),
        ("processor time", Side::Right),
    ];
    let mut table = Table::new(&columns).indented(2);
    for reactor in items(json, "reactors") {
        let spent_ns = reactor["cpu_time_us"].as_f64().unwrap_or_default() * 1e3;
        table.row(vec![
            cell(reactor, "number"),
            reactor["cpu"].as_u64().map_or("any CPU".to_owned(), |cpu| format!("CPU {cpu}")),
            cell(reactor, "connections"),
            units::time_ns(spent_ns),
        ]);
    }
    table
}

/// Returns deviations of hosts that were accepted; empty without any.
fn peculiarities(json: &Value) -> String {
    let seen: Vec<String> = json
        .get("peculiarities")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(kind, count)| {
            format!("  {kind}: {}\n", units::plural(count.as_u64().unwrap_or_default(), "connection"))
        })
        .collect();
    if seen.is_empty() {
        return String::new();
    }
    format!("accepted from hosts, though unusual (docs/interoperability.md)\n{}", seen.concat())
}

/// The API's document, which needs no target.
pub(super) fn openapi() -> Result<(), Failure> {
    report::print_json(&openapi::document().map_err(Failure::failed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_is_not_several() {
        let status = json!({ "peculiarities": { "first": 1, "second": 1200 } });
        assert!(peculiarities(&status).ends_with("\n  first: 1 connection\n  second: 1,200 connections\n"));
        assert_eq!(peculiarities(&json!({})), "");
    }
}
