//! `selvedge gateways`: the group of gateways that a running target belongs to, as a table; and taking one out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use hyper::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::ask::{client, done, tell};
use crate::control::client::encode;
use crate::failure::Failure;
use crate::flags::control::{ControlFlags, GatewaysAction, GatewaysFlags};
use crate::report::table::{Side, Table};
use gateway::{GatewayStatus, GroupEvent, GroupStatus, Happening, Life, LoadBalancingStatus, Phase};

/// Maximum number of listed events; the API and the console have all.
const EVENTS_SHOWN: usize = 5;

/// Times for a drain: limit of the wait, delay of the message, and interval of checks.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);

/// Does what was typed.
pub(super) fn run(flags: &GatewaysFlags) -> Result<(), Failure> {
    match &flags.action {
        Some(GatewaysAction::Remove { name, control }) => {
            client(control)?.delete(&path(name))?;
            return done(control, format!("gateway {name} is removed"), &json!({ "removed": name }));
        }
        Some(GatewaysAction::Drain { name, force, control }) => return drain(name, *force, control),
        Some(GatewaysAction::Resume { name, control }) => {
            let json = patch(control, name, &json!({ "drained": false }))?;
            return done(control, format!("gateway {name} may serve again"), &json);
        }
        Some(GatewaysAction::Failback { name, control }) => {
            client(control)?.order(Method::POST, &format!("{}/failback", path(name)))?;
            let text = format!("gateway {name} gets its load-balancing groups back");
            return done(control, text, &json!({ "failback": name }));
        }
        None => {}
    }
    let json: Value = client(&flags.control)?.get("/v1/gateways")?;
    let status = GroupStatus::deserialize(&json).map_err(Failure::failed)?;
    tell(&flags.control, text(&status), &json)
}

fn path(name: &str) -> String {
    format!("/v1/gateways/{}", encode(name))
}

fn patch(control: &ControlFlags, name: &str, body: &Value) -> Result<Value, Failure> {
    client(control)?.change(Method::PATCH, &path(name), body)
}

/// Drains a gateway, and waits until it serves nothing.
fn drain(name: &str, is_forced: bool, control: &ControlFlags) -> Result<(), Failure> {
    let json = patch(control, name, &json!({ "drained": true, "force": is_forced }))?;
    let client = client(control)?;
    let began = Instant::now();
    let mut is_reported = false;
    loop {
        let status: GroupStatus = client.get("/v1/gateways")?;
        let served = served_by(&status, name);
        if served.is_empty() {
            return done(control, format!("gateway {name} is drained, and serves nothing"), &json);
        }
        if began.elapsed() >= DRAIN_PATIENCE {
            let what = format!("gateway {name} is drained, and still serves {served}: no other gateway can");
            return done(control, what, &json);
        }
        if began.elapsed() >= QUIET && !std::mem::replace(&mut is_reported, true) {
            eprintln!("waiting until another gateway serves {served}");
        }
        std::thread::sleep(LOOK);
    }
}

/// The load-balancing groups that a gateway serves, or is about to, in words.
fn served_by(status: &GroupStatus, name: &str) -> String {
    let its = status.load_balancing_groups.iter().filter(|group| group.owner.as_deref() == Some(name));
    let its: Vec<String> = its.map(|group| group.id.to_string()).collect();
    if its.is_empty() { String::new() } else { format!("load-balancing group {}", its.join(", ")) }
}

fn text(status: &GroupStatus) -> String {
    let lease = if status.has_lease { "" } else { ", which does not reach the objects of the group" };
    let mut text = format!("group {}, as gateway {} sees it{lease}\n", status.group, status.gateway);
    text += &gateways(&status.gateways);
    let columns = ["load-balancing group", "preferred", "served by", "namespaces"];
    let mut table = Table::new(&columns.map(|name| (name, Side::Left))).indented(2);
    for group in &status.load_balancing_groups {
        table.row(vec![
            group.id.to_string(),
            group.preferred.clone(),
            server(group),
            group.namespaces.to_string(),
        ]);
    }
    text += &table.to_string();
    for gateway in &status.gateways {
        let what = match gateway.life {
            Life::Alive => continue,
            Life::Dead => "sends no heartbeat",
            Life::Left => "has left",
        };
        let name = &gateway.name;
        text +=
            &format!("gateway {name} {what}; if it will not come back: selvedge gateways remove {name}\n");
    }
    for gateway in status.gateways.iter().filter(|gateway| gateway.is_drained) {
        let name = &gateway.name;
        text +=
            &format!("gateway {name} is drained; to let it serve again: selvedge gateways resume {name}\n");
    }
    for group in status.load_balancing_groups.iter().filter(|group| group.is_degraded) {
        let id = group.id;
        text += &format!(
            "load-balancing group {id} is degraded: it or a namespace in it is not served at its location\n"
        );
    }
    for ((host, subsystem, gateway), (groups, at)) in unreached(status) {
        text += &format!(
            "host {host} has no path to gateway {gateway}, which serves load-balancing group {groups} of {subsystem}; it is \
             connected to {at}\n"
        );
    }
    text + &lately(&status.events)
}

/// A table of the gateways, with their locations if there are any.
fn gateways(gateways: &[GatewayStatus]) -> String {
    let mut columns = vec!["gateway", "number", "state", "hosts", "connections", "listeners"];
    let has_locations = gateways.iter().any(|gateway| gateway.location.is_some());
    if has_locations {
        columns.insert(1, "location");
    }
    let columns: Vec<(&str, Side)> = columns.into_iter().map(|name| (name, Side::Left)).collect();
    let mut table = Table::new(&columns).indented(2);
    for gateway in gateways {
        let listeners = gateway.listeners.iter().map(|at| format!("{}:{}", at.address, at.service));
        let mut row = vec![
            gateway.name.clone(),
            gateway.number.to_string(),
            state(gateway).to_owned(),
            if gateway.has_hosts { "yes" } else { "none" }.to_owned(),
            gateway.connections.to_string(),
            listeners.collect::<Vec<_>>().join(" "),
        ];
        if has_locations {
            row.insert(1, gateway.location.clone().unwrap_or_else(|| "-".to_owned()));
        }
        table.row(row);
    }
    table.to_string()
}

/// The last events, as this gateway has seen them.
fn lately(events: &[GroupEvent]) -> String {
    let mut table = Table::new(&[("lately (UTC)", Side::Left), ("", Side::Left)]).indented(2);
    let last = events.get(events.len().saturating_sub(EVENTS_SHOWN)..).unwrap_or_default();
    for event in last {
        let time =
            i64::try_from(event.time_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        table.row(vec![
            time.map_or_else(String::new, |time| time.strftime("%F %T").to_string()),
            happened(event),
        ]);
    }
    if last.is_empty() { String::new() } else { table.to_string() }
}

fn happened(event: &GroupEvent) -> String {
    let gateway = event.gateway.as_deref();
    let of_gateway = |what: &str| format!("gateway {} {what}", gateway.unwrap_or("?"));
    let group = event.load_balancing_group.unwrap_or_default();
    match event.what {
        Happening::GatewayThere => of_gateway("is there"),
        Happening::GatewayGivenUp => of_gateway("sent no heartbeat; others take over its groups"),
        Happening::GatewayLeft => of_gateway("has ended in order"),
        Happening::GatewayRemoved => of_gateway("was removed from the group"),
        Happening::GatewayDrained => of_gateway("was drained"),
        Happening::GatewayResumed => of_gateway("may serve again"),
        Happening::LoadBalancingGroupGone => format!("load-balancing group {group} is gone"),
        Happening::LoadBalancingGroupMoves => match (gateway, event.state) {
            (None, _) => format!("load-balancing group {group}: not served"),
            (Some(owner), Some(Phase::Fencing)) => {
                format!("load-balancing group {group}: {owner} takes it over, once others are fenced")
            }
            (Some(owner), Some(Phase::HandingOver)) => {
                format!("load-balancing group {group}: {owner} takes it over")
            }
            (Some(owner), Some(Phase::Serving) | None) => {
                format!("load-balancing group {group}: {owner} serves it")
            }
        },
    }
}

/// Hosts, subsystems and gateways that do not meet, with the load-balancing groups and where the hosts are.
fn unreached(status: &GroupStatus) -> BTreeMap<(&str, &str, &str), (String, String)> {
    let mut all: BTreeMap<_, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    for host in &status.unreached_hosts {
        let key = (host.host.as_str(), host.subsystem.as_str(), host.gateway.as_str());
        let (groups, at) = all.entry(key).or_default();
        groups.insert(host.load_balancing_group.to_string());
        at.insert(host.connected_to.clone());
    }
    let listed = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
    all.into_iter().map(|(key, (groups, at))| (key, (listed(groups), listed(at)))).collect()
}

const fn state(gateway: &GatewayStatus) -> &'static str {
    match (gateway.life, gateway.is_well) {
        (Life::Alive, true) if gateway.is_drained => "drained",
        (Life::Alive, true) => "well",
        (Life::Alive, false) => "silent",
        (Life::Dead, _) => "given up",
        (Life::Left, _) => "left",
    }
}

fn server(group: &LoadBalancingStatus) -> String {
    let owner = group.owner.as_deref().unwrap_or("none");
    match group.state {
        Phase::Serving => owner.to_owned(),
        Phase::Fencing => format!("{owner}, once others are fenced"),
        Phase::HandingOver => format!("{owner}, in a moment"),
    }
}

#[cfg(test)]
mod tests {
    use gateway::UnreachedHost;

    use super::*;

    #[test]
    fn a_host_without_a_path_is_named_once_with_where_it_is() {
        let host = |connected_to: &str| UnreachedHost {
            host: "nqn.host".to_owned(),
            subsystem: "nqn.disks".to_owned(),
            gateway: "c".to_owned(),
            load_balancing_group: 3,
            connected_to: connected_to.to_owned(),
        };
        let status = GroupStatus {
            group: "rbd/gateways".to_owned(),
            gateway: "a".to_owned(),
            has_lease: true,
            version: 7,
            gateways: Vec::new(),
            load_balancing_groups: Vec::new(),
            unreached_hosts: vec![host("a"), host("b")],
            events: Vec::new(),
        };
        let text = text(&status);
        let line = "host nqn.host has no path to gateway c, which serves load-balancing group 3 of nqn.disks; it is connected \
                    to a, b";
        assert_eq!(text.lines().filter(|other| *other == line).count(), 1, "{text}");
    }

    #[test]
    fn locations_are_shown_where_gateways_have_them() {
        let status = |location: Value, is_degraded: bool| {
            let gateway = json!({
                "name": "a", "number": 1, "location": location, "life": "alive", "is_well": true, "has_hosts": true,
                "listeners": [], "connections": 0,
            });
            let group = json!({
                "id": 7, "preferred": "b", "location": "east", "is_degraded": is_degraded, "owner": "a",
                "state": "serving", "namespaces": 1, "is_served_here": true,
            });
            let status = json!({
                "group": "rbd/g", "gateway": "a", "has_lease": true, "version": 1, "gateways": [gateway],
                "load_balancing_groups": [group],
            });
            text(&serde_json::from_value(status).unwrap())
        };
        let (with, without) = (status(json!("west"), true), status(Value::Null, false));
        assert!(with.contains("location") && with.contains("west"), "{with}");
        assert!(with.contains("load-balancing group 7 is degraded: "), "{with}");
        assert!(!without.contains("location") && !without.contains("degraded"), "{without}");
    }

    #[test]
    fn the_last_events_are_shown() {
        let event = |second: u64, owner: Option<&str>, state| GroupEvent {
            time_ms: second * 1000,
            what: Happening::LoadBalancingGroupMoves,
            gateway: owner.map(str::to_owned),
            load_balancing_group: Some(2),
            state: Some(state),
        };
        let mut events = vec![event(0, Some("z"), Phase::Serving); EVENTS_SHOWN];
        events.extend([event(90, None, Phase::Fencing), event(93, Some("b"), Phase::Serving)]);
        let text = lately(&events);
        assert!(text.contains("1970-01-01 00:01:30  load-balancing group 2: not served"), "{text}");
        assert!(text.contains("1970-01-01 00:01:33  load-balancing group 2: b serves it"), "{text}");
        assert_eq!(text.matches("z serves it").count(), EVENTS_SHOWN - 2, "{text}");
        assert_eq!(lately(&[]), "");
    }
}
