//! `/v1/ports` and `/v1/referrals`: where the target listens, and where else hosts may look.

use engine::address::HostAddress;
use engine::target::{FabricConfig, PortConfig, ReferralConfig, free_port};
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
            return Err(Refusal::conflict(format!("port number {id} is there already")).about("id"));
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
        if let Some(user) = user_of(fabric, id) {
            let refusal = Refusal::conflict(format!("subsystem {user} is to be found on port number {id}"));
            return Err(refusal.hint("change the subsystem's ports, or its ANA groups, first"));
        }
        fabric.ports.remove(at);
        Ok(())
    })?;
    Ok(Answer::done())
}

/// A subsystem that names the port.
fn user_of(fabric: &FabricConfig, id: u16) -> Option<&str> {
    let user = fabric.subsystems.iter().find(|subsystem| {
        subsystem.ports.contains(&id)
            || subsystem.ana_groups.iter().any(|group| group.ports.contains_key(&id))
    });
    user.map(|subsystem| subsystem.nqn.as_str())
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
