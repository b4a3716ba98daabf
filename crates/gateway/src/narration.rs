//! What happens in a group of gateways, in lines of the log.

use super::state::{GroupState, Life};

/// Tells what has changed.
pub(super) fn narrate(before: &GroupState, after: &GroupState) {
    for (name, gateway) in &after.gateways {
        let known = before.gateways.get(name);
        let was = known.map(|known| (known.life, known.epoch));
        if was == Some((gateway.life, gateway.epoch)) {
            continue;
        }
        match gateway.life {
            Life::Alive => tracing::info!(gateway = name, number = gateway.number, "a gateway is there"),
            Life::Dead => tracing::warn!(gateway = name, "a gateway is silent, and was given up"),
            Life::Left => tracing::info!(gateway = name, "a gateway has left"),
        }
    }
    for name in before.gateways.keys().filter(|name| !after.gateways.contains_key(*name)) {
        tracing::info!(gateway = name, "a gateway was removed from the group");
    }
    for number in before.groups.keys().filter(|number| !after.groups.contains_key(number)) {
        tracing::info!(group = number, "a load-balancing group is gone, and its namespaces are in others");
    }
    for (number, group) in &after.groups {
        let known = before.groups.get(number);
        if known.is_some_and(|known| (&known.owner, known.state) == (&group.owner, group.state)) {
            continue;
        }
        let owner = group.owner.as_ref().map_or("nobody", |owner| &owner.gateway);
        tracing::info!(group = number, owner, state = ?group.state, "a load-balancing group changes hands");
    }
    if before.format != after.format && before.version > 0 {
        tracing::info!(
            format = after.format.0,
            "all gateways of the group read a newer format, which it has now"
        );
    }
    if before.config != after.config {
        tracing::info!(version = after.version, "the group's configuration has changed");
    }
}
