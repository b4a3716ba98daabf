//! `/v1/subsystems/{nqn}/namespaces`. What is done to the images of Ceph clusters below them is `images`'.

use engine::backend::BackendConfig;
use engine::limits::NAMESPACES_MAX;
use engine::target::{FabricConfig, NamespaceConfig, SubsystemConfig, free_nsid};
use serde::Serialize;

use super::ask::{Answer, Ask, encode};
use super::bodies::NamespaceBody;
use super::guard::Permissions;
use super::images::{self, Image};
use super::patches::NamespacePatch;
use super::refusal::Refusal;
use super::subsystems::{change, named, named_mut};
use crate::spec::size::Size;

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Namespaces {
    namespaces: Vec<NamespaceConfig>,
}

pub(super) fn gone(nsid: u32) -> Refusal {
    Refusal::not_found(format!("there is no namespace {nsid}"))
}

pub(super) fn list(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let fabric = ask.administration.shown();
    Answer::with(&Namespaces { namespaces: named(&fabric, ask.part("nqn"))?.namespaces.clone() })
}

pub(super) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(find(&ask.administration.shown(), ask.part("nqn"), ask.number("nsid")?)?)
}

/// The namespace with this identifier.
pub(super) fn find<'a>(
    fabric: &'a FabricConfig,
    nqn: &str,
    nsid: u32,
) -> Result<&'a NamespaceConfig, Refusal> {
    let mut namespaces = named(fabric, nqn)?.namespaces.iter();
    namespaces.find(|namespace| namespace.nsid == nsid).ok_or_else(|| gone(nsid))
}

/// The identifier for a new namespace.
pub(super) fn choose(subsystem: &SubsystemConfig, asked: Option<u32>) -> Result<u32, Refusal> {
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

/// Adds a namespace, whose image is made first if that is asked for.
pub(super) fn add(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let mut body: NamespaceBody = ask.body()?;
    if let Some(membership) = ask.administration.membership() {
        body.prefer_group(membership.group_with_fewest());
    }
    let nqn = ask.part("nqn");
    let add = |fabric: &mut FabricConfig| {
        let subsystem = named_mut(fabric, nqn)?;
        let config = body.clone().into_config(choose(subsystem, body.nsid())?)?;
        subsystem.namespaces.push(config.clone());
        Ok(config)
    };
    let made = if body.is_on_image() { prepare_image(ask, &body, add)? } else { None };
    let changed = ask.administration.change(Permissions::default(), add);
    let (config, _) = changed.inspect_err(|_| {
        if let Some(image) = &made {
            image.undo();
        }
    })?;
    let location = format!("/v1/subsystems/{}/namespaces/{}", encode(nqn), config.nsid);
    Answer::created(location, find(&ask.administration.shown(), nqn, config.nsid)?)
}

/// Makes the image of a namespace to come, or sees that it is there. Where the namespace could not be added anyway, no
/// cluster is asked.
fn prepare_image(
    ask: &Ask<'_>,
    body: &NamespaceBody,
    add: impl Fn(&mut FabricConfig) -> Result<NamespaceConfig, Refusal>,
) -> Result<Option<Image>, Refusal> {
    let mut planned = None;
    ask.administration.rehearse(Permissions::default(), |fabric| {
        planned = Some(add(fabric)?);
        Ok(())
    })?;
    let Some(config) = planned else { return Ok(None) };
    let BackendConfig::Rbd(image) = &config.backend else { return Ok(None) };
    images::check_free(&ask.administration.fabric(), image)?;
    let Some(create) = body.create_image() else { return images::check(&config).map(|()| None) };
    let image = Image::reach(image)?;
    image.create(create.size.0, &create.new_image())?;
    Ok(Some(image))
}

pub(super) fn patch(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let (nqn, nsid) = (ask.part("nqn"), ask.number("nsid")?);
    let mut body: NamespacePatch = ask.body()?;
    let permissions = Permissions { shrink: body.shrink };
    // An image's size is its cluster's matter, which does not belong to what is served.
    let served = find(&ask.administration.fabric(), nqn, nsid).cloned();
    let resized = served.ok().filter(|config| matches!(config.backend, BackendConfig::Rbd(_)));
    let size = resized.as_ref().and_then(|_| body.size.take());
    let edit = |fabric: &mut FabricConfig| {
        let subsystem = named_mut(fabric, nqn)?;
        let namespace = subsystem.namespaces.iter_mut().find(|n| n.nsid == nsid);
        let namespace = namespace.ok_or_else(|| gone(nsid))?;
        body.apply(namespace)
    };
    let about_body = |mut refusal: Refusal| {
        // The body is a namespace, and not the configuration that it stands in.
        refusal.field = refusal.field.and_then(|field| field.rsplit('.').next().map(str::to_owned));
        refusal
    };
    let task = match (&resized, size) {
        (Some(config), Some(Size(bytes))) => {
            // What else is asked for must not fail after this, which cannot be taken back.
            ask.administration.rehearse(permissions, edit).map_err(about_body)?;
            images::resize(ask, config, bytes, body.shrink)?
        }
        _ => None,
    };
    ask.administration.change(permissions, edit).map_err(about_body)?;
    task.map_or_else(|| show(ask), |task| Answer::begun(&task))
}

/// Opens a namespace's file or device anew, after it has failed.
pub(super) fn reopen(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let (nqn, nsid) = (ask.part("nqn"), ask.number("nsid")?);
    let config = find(&ask.administration.fabric(), nqn, nsid)?.clone();
    ask.administration.reopen(nqn, nsid)?;
    Answer::with(&config)
}

/// Removes a namespace, and its image if that is asked for.
pub(super) fn remove(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let nsid = ask.number("nsid")?;
    let afterwards = images::afterwards(ask)?;
    let image = afterwards.map(|afterwards| images::removable(ask, afterwards)).transpose()?;
    change(ask, |subsystem| {
        let at = subsystem.namespaces.iter().position(|n| n.nsid == nsid).ok_or_else(|| gone(nsid))?;
        subsystem.namespaces.remove(at);
        Ok(())
    })?;
    let task = match (image, afterwards) {
        (Some(image), Some(afterwards)) => images::remove(ask, image, afterwards)?,
        _ => None,
    };
    task.map_or_else(|| Ok(Answer::done()), |task| Answer::begun(&task))
}
