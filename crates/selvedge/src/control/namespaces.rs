//! `/v1/subsystems/{nqn}/namespaces`.

use engine::limits::NAMESPACES_MAX;
use engine::target::{NamespaceConfig, SubsystemConfig};
use serde::Serialize;

use super::ask::{Answer, Ask, encode};
use super::bodies::{NamespaceBody, NamespacePatch, free_nsid};
use super::guard::Permissions;
use super::refusal::Refusal;
use super::subsystems::{change, named, named_mut};

#[derive(Serialize)]
struct Namespaces {
    namespaces: Vec<NamespaceConfig>,
}

fn gone(nsid: u32) -> Refusal {
    Refusal::not_found(format!("there is no namespace {nsid}"))
}

pub(super) fn list(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let fabric = ask.administration.fabric();
    Answer::with(&Namespaces { namespaces: named(&fabric, ask.part("nqn"))?.namespaces.clone() })
}

pub(super) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let nsid = ask.number("nsid")?;
    let fabric = ask.administration.fabric();
    let subsystem = named(&fabric, ask.part("nqn"))?;
    Answer::with(subsystem.namespaces.iter().find(|n| n.nsid == nsid).ok_or_else(|| gone(nsid))?)
}

/// The identifier for a new namespace.
fn choose(subsystem: &SubsystemConfig, asked: Option<u32>) -> Result<u32, Refusal> {
    let taken: Vec<u32> = subsystem.namespaces.iter().map(|namespace| namespace.nsid).collect();
    let nsid = asked.unwrap_or_else(|| free_nsid(&taken));
    if taken.contains(&nsid) {
        return Err(Refusal::conflict(format!("namespace {nsid} is there already")).about("nsid"));
    }
    if asked.is_none() && nsid > NAMESPACES_MAX {
        return Err(Refusal::conflict(format!("all {NAMESPACES_MAX} namespaces are there already")));
    }
    Ok(nsid)
}

pub(super) fn add(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let body: NamespaceBody = ask.body()?;
    let config = change(ask, |subsystem| {
        let config = body.clone().into_config(choose(subsystem, body.nsid())?, "")?;
        subsystem.namespaces.push(config.clone());
        Ok(config)
    })?;
    let location = format!("/v1/subsystems/{}/namespaces/{}", encode(ask.part("nqn")), config.nsid);
    Answer::created(location, &config)
}

pub(super) fn patch(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let (nqn, nsid) = (ask.part("nqn"), ask.number("nsid")?);
    let body: NamespacePatch = ask.body()?;
    let permissions = Permissions { shrink: body.shrink };
    let changed = ask.administration.change(permissions, |fabric| {
        let subsystem = named_mut(fabric, nqn)?;
        let namespace = subsystem.namespaces.iter_mut().find(|n| n.nsid == nsid);
        let namespace = namespace.ok_or_else(|| gone(nsid))?;
        body.apply(namespace)?;
        Ok(namespace.clone())
    });
    let (config, _) = changed.map_err(|mut refusal| {
        // The body is a namespace, and not the configuration that it stands in.
        refusal.field = refusal.field.and_then(|field| field.rsplit('.').next().map(str::to_owned));
        refusal
    })?;
    Answer::with(&config)
}

pub(super) fn remove(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let nsid = ask.number("nsid")?;
    change(ask, |subsystem| {
        let at = subsystem.namespaces.iter().position(|n| n.nsid == nsid).ok_or_else(|| gone(nsid))?;
        subsystem.namespaces.remove(at);
        Ok(())
    })?;
    Ok(Answer::done())
}
