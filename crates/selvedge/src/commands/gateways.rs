//! `selvedge gateways`: the group of gateways that a running target belongs to, as a table; and taking one out of it.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::ask::{client, done, tell};
use crate::control::client::encode;
use crate::failure::Failure;
use crate::flags::control::{GatewaysAction, GatewaysFlags};
use crate::report::table::{Side, Table};
use gateway::{GatewayStatus, GroupStatus, Life, LoadBalancingStatus, Phase};

/// Does what was typed.
pub(super) fn run(flags: &GatewaysFlags) -> Result<(), Failure> {
    if let Some(GatewaysAction::Remove { name, control }) = &flags.action {
        client(control)?.delete(&format!("/v1/gateways/{}", encode(name)))?;
        return done(control, format!("gateway {name} is removed"), &json!({ "removed": name }));
    }
    let json: Value = client(&flags.control)?.get("/v1/gateways")?;
    let status = GroupStatus::deserialize(&json).map_err(Failure::failed)?;
    tell(&flags.control, text(&status), &json)
}

fn text(status: &GroupStatus) -> String {
    let lease = if status.has_lease { "" } else { ", which does not reach what they share" };
    let mut text = format!("group {}, as gateway {} sees it{lease}\n", status.group, status.gateway);
    let columns = ["gateway", "number", "state", "hosts", "connections", "listeners"];
    let mut table = Table::new(&columns.map(|name| (name, Side::Left))).indented(2);
    for gateway in &status.gateways {
        let listeners = gateway.listeners.iter().map(|at| format!("{}:{}", at.address, at.service));
        table.row(vec![
            gateway.name.clone(),
            gateway.number.to_string(),
            state(gateway).to_owned(),
            if gateway.has_hosts { "yes" } else { "none" }.to_owned(),
            gateway.connections.to_string(),
            listeners.collect::<Vec<_>>().join(" "),
        ]);
    }
    text += &table.to_string();
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
            Life::Dead => "was given up",
            Life::Left => "has left",
        };
        let name = &gateway.name;
        text +=
            &format!("gateway {name} {what}; if it will not come back: selvedge gateways remove {name}\n");
    }
    text
}

const fn state(gateway: &GatewayStatus) -> &'static str {
    match (gateway.life, gateway.is_well) {
        (Life::Alive, true) => "well",
        (Life::Alive, false) => "silent",
        (Life::Dead, _) => "given up",
        (Life::Left, _) => "left",
    }
}

fn server(group: &LoadBalancingStatus) -> String {
    let owner = group.owner.as_deref().unwrap_or("nobody");
    match group.state {
        Phase::Serving => owner.to_owned(),
        Phase::Fencing => format!("{owner}, once others are fenced"),
        Phase::HandingOver => format!("{owner}, in a moment"),
    }
}
