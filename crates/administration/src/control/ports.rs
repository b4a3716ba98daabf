//! `/v1/ports` and `/v1/referrals`: where the target listens, and where else hosts may look.

use engine::address::HostAddress;
use engine::target::{AnaGroupConfig, FabricConfig, GroupState, PortConfig, ReferralConfig, free_port};
use serde::Serialize;

use super::administration::Permissions;
use super::ask::{Answer, Ask, encode};
use super::refusal::Refusal;

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Ports {
    ports: Vec<PortConfig>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Referrals {
    referrals: Vec<ReferralConfig>,
}

pub(super) fn list(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&Ports { ports: ask.administration.fabric().ports })
}

pub(super) fn add(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let mut body: PortConfig = ask.body()?;
    if let Some(advertise) = &body.advertise {
        let checked = HostAddress::advertised(advertise);
        body.advertise = Some(checked.map_err(|what| Refusal::unprocessable(what).about("advertise"))?);
    }
    let first = ask.administration.membership().map_or(1, |membership| *membership.port_numbers().start());
    let (id, _) = ask.change(Permissions::default(), |fabric| {
        let taken: Vec<u16> = fabric.ports.iter().map(|port| port.id).collect();
        let id = if body.id == 0 { free_port(first, &taken) } else { body.id };
        if taken.contains(&id) {
            return Err(Refusal::conflict(format!("port number {id} already exists")).about("id"));
        }
        let same = |port: &&PortConfig| port.address == body.address;
        if let Some(port) = fabric.ports.iter().find(same) {
            let what = format!("{} is port number {} already", port.address, port.id);
            return Err(Refusal::conflict(what).about("address"));
        }
        body.id = id;
        fabric.ports.push(body);
        Ok(id)
    })?;
    // The service may have been chosen by the system.
    let fabric = ask.administration.fabric();
    let port = fabric.ports.iter().find(|port| port.id == id).ok_or_else(|| gone(id))?;
    Answer::created(format!("/v1/ports/{id}"), port)
}

fn gone(id: u16) -> Refusal {
    Refusal::not_found(format!("there is no port number {id}"))
}

pub(super) fn remove(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let id: u16 = ask.number("id")?;
    ask.change(Permissions::default(), |fabric| {
        let at = fabric.ports.iter().position(|port| port.id == id).ok_or_else(|| gone(id))?;
        match user_of(fabric, id) {
            Some(PortUser::Ports(nqn)) => {
                let refusal = Refusal::conflict(format!("subsystem {nqn} is served on port number {id}"));
                return Err(refusal.hint("leave the port out of the subsystem's `ports` first"));
            }
            Some(PortUser::AnaGroup(nqn, group)) => {
                let what = format!("ANA group {group} of {nqn} has a state of its own on port number {id}");
                let hint = format!("`selvedge ana set {nqn} {group} STATE`, without this port, removes it");
                return Err(Refusal::conflict(what).hint(hint));
            }
            None => {}
        }
        forget_port(fabric, id);
        fabric.ports.remove(at);
        Ok(())
    })?;
    Ok(Answer::done())
}

/// Setting of a subsystem that names a port.
enum PortUser<'a> {
    Ports(&'a str),
    /// A state on the port that differs from the group's.
    AnaGroup(&'a str, u32),
}

/// A setting for which the port has to stay.
fn user_of(fabric: &FabricConfig, id: u16) -> Option<PortUser<'_>> {
    fabric.subsystems.iter().find_map(|subsystem| {
        if subsystem.ports.contains(&id) {
            return Some(PortUser::Ports(&subsystem.nqn));
        }
        let has_own = |group: &&AnaGroupConfig| group.ports.get(&id).is_some_and(|own| *own != group.state);
        let group = subsystem.ana_groups.iter().find(has_own)?;
        Some(PortUser::AnaGroup(&subsystem.nqn, group.id))
    })
}

/// Drops states on a port that are those of their groups anyway, and groups that then are as those that are not listed.
fn forget_port(fabric: &mut FabricConfig, id: u16) {
    for subsystem in &mut fabric.subsystems {
        let is_named = |group: &mut AnaGroupConfig| group.ports.remove(&id).is_some();
        let is_unlisted =
            |group: &AnaGroupConfig| group.ports.is_empty() && group.state == GroupState::default();
        subsystem.ana_groups.retain_mut(|group| !is_named(group) || !is_unlisted(group));
    }
}

pub(super) fn referrals(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&Referrals { referrals: ask.administration.fabric().referrals })
}

fn is_same(referral: &ReferralConfig, address: &str, service: &str) -> bool {
    referral.address == address && referral.service == service
}

pub(super) fn add_referral(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let body = ask.body::<ReferralConfig>()?.split();
    body.check().map_err(|what| Refusal::unprocessable(what).about("address"))?;
    let location = format!("/v1/referrals/{}/{}", encode(&body.address), encode(&body.service));
    ask.change(Permissions::default(), |fabric| {
        if fabric.referrals.iter().any(|known| is_same(known, &body.address, &body.service)) {
            let what = format!("{} {} is referred to already", body.address, body.service);
            return Err(Refusal::conflict(what).about("address"));
        }
        fabric.referrals.push(body.clone());
        Ok(())
    })?;
    Answer::created(location, &body)
}

pub(super) fn remove_referral(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let (address, service) = (ask.part("address"), ask.part("service"));
    ask.change(Permissions::default(), |fabric| {
        let before = fabric.referrals.len();
        fabric.referrals.retain(|referral| !is_same(referral, address, service));
        if fabric.referrals.len() == before {
            return Err(Refusal::not_found(format!("there is no referral to {address} {service}")));
        }
        Ok(())
    })?;
    Ok(Answer::done())
}

#[cfg(test)]
mod tests {
    use engine::target::SubsystemConfig;

    use super::*;

    fn group(id: u32, state: GroupState, own: GroupState) -> AnaGroupConfig {
        AnaGroupConfig { id, state, ports: [(2, own)].into() }
    }

    #[test]
    fn a_port_is_held_by_states_of_its_own_alone() {
        let mut subsystem = SubsystemConfig::new("nqn.a", "A", "Selvedge");
        subsystem.ana_groups = vec![
            group(1, GroupState::Optimized, GroupState::Optimized),
            group(2, GroupState::NonOptimized, GroupState::NonOptimized),
        ];
        let mut fabric = FabricConfig { subsystems: vec![subsystem], ..FabricConfig::default() };
        assert!(user_of(&fabric, 2).is_none());
        let mut held = fabric.clone();
        held.subsystems[0].ana_groups.push(group(3, GroupState::Optimized, GroupState::Inaccessible));
        assert!(matches!(user_of(&held, 2), Some(PortUser::AnaGroup("nqn.a", 3))));
        assert!(user_of(&held, 1).is_none());
        held.subsystems[0].ports.push(1);
        assert!(matches!(user_of(&held, 1), Some(PortUser::Ports("nqn.a"))));
        forget_port(&mut fabric, 2);
        let kept = &fabric.subsystems[0].ana_groups;
        assert!(kept.len() == 1 && kept[0].id == 2 && kept[0].ports.is_empty(), "{kept:?}");
    }
}
