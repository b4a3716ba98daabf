//! `/v1/subsystems` with their hosts and ANA groups.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::limits::ANA_GROUPS_MAX;
use engine::target::{AnaGroupConfig, GroupState, HostKeyConfig, SubsystemConfig};
use nvme::discovery::Nqn;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::administration::Permissions;
use super::ask::{Answer, Ask, encode, no_subsystem};
use super::host_keys::{self, HostKeyBody};
use super::namespaces::{check_namespace, check_path, field};
use super::patches::{Patch, patch_subsystem};
use super::refusal::Refusal;

/// A name of a host or subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Name(pub String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match Nqn::configured(&name) {
            Ok(_) => Ok(Self(name)),
            Err(error) => Err(de::Error::custom(error)),
        }
    }
}

/// A host that may use a subsystem.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Host")]
pub(crate) struct HostBody {
    pub(crate) nqn: Name,
    /// Secrets and TLS keys of the host from the first moment on, replacing those it has. No answer
    /// contains them.
    #[serde(default, skip_serializing)]
    pub(crate) key: Option<HostKeyBody>,
}

/// The states of an ANA group.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AnaStates")]
pub(crate) struct AnaGroupBody {
    pub(crate) state: GroupState,
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, GroupState>")]
    pub(crate) ports: BTreeMap<u16, GroupState>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Subsystems {
    subsystems: Vec<SubsystemConfig>,
}

/// Hosts that may use a subsystem.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Hosts {
    allow_any_host: bool,
    hosts: Vec<String>,
    /// Keys of the hosts that have to authenticate, or have a TLS key.
    host_keys: Vec<HostKeyConfig>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct AnaGroups {
    ana_groups: Vec<AnaGroupConfig>,
}

/// Checks a subsystem. Mistakes name fields under `base`.
pub(super) fn check_subsystem(subsystem: &mut SubsystemConfig, base: &str) -> Result<(), Refusal> {
    if let Some(storage) = &subsystem.storage {
        check_path(&storage.directory).map_err(|refusal| refusal.about(field(base, "storage.directory")))?;
    }
    for (at, key) in subsystem.host_keys.iter().enumerate() {
        host_keys::check(key, &field(base, format!("host_keys[{at}]")))?;
    }
    for (at, namespace) in subsystem.namespaces.iter_mut().enumerate() {
        check_namespace(namespace, &field(base, format!("namespaces[{at}]")))?;
    }
    Ok(())
}

/// Changes the subsystem that the path names.
pub(super) fn change<T>(
    ask: &Ask<'_>,
    edit: impl FnOnce(&mut SubsystemConfig) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let (outcome, _) = ask.change(Permissions::default(), |fabric| edit(ask.subsystem_mut(fabric)?))?;
    Ok(outcome)
}

pub(super) fn list(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&Subsystems { subsystems: ask.administration.shown().subsystems })
}

pub(super) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(ask.subsystem(&ask.administration.shown())?)
}

pub(super) fn add(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let mut config: SubsystemConfig = ask.body()?;
    check_subsystem(&mut config, "")?;
    config.number();
    let nqn = config.nqn.clone();
    ask.change(Permissions::default(), |fabric| {
        if fabric.subsystem(&nqn).is_some() {
            return Err(Refusal::conflict(format!("subsystem {nqn} already exists")).about("nqn"));
        }
        fabric.subsystems.push(config.clone());
        Ok(())
    })?;
    // With what was left to the target.
    let shown = ask.administration.shown();
    Answer::created(
        format!("/v1/subsystems/{}", encode(&nqn)),
        shown.subsystem(&nqn).ok_or_else(|| no_subsystem(&nqn))?,
    )
}

pub(super) fn patch(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let body: Patch<SubsystemConfig> = ask.body()?;
    change(ask, |subsystem| patch_subsystem(&body, subsystem))?;
    show(ask)
}

pub(super) fn remove(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let nqn = ask.part("nqn");
    ask.change(Permissions::default(), |fabric| {
        ask.subsystem(fabric)?;
        fabric.subsystems.retain(|subsystem| subsystem.nqn != nqn);
        Ok(())
    })?;
    Ok(Answer::done())
}

pub(super) fn hosts(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let fabric = ask.administration.fabric();
    let subsystem = ask.subsystem(&fabric)?;
    Answer::with(&Hosts {
        allow_any_host: subsystem.allow_any_host,
        hosts: subsystem.hosts.clone(),
        host_keys: subsystem.host_keys.clone(),
    })
}

pub(super) fn allow(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let HostBody { nqn, key: body } = ask.body()?;
    let host = &nqn.0;
    let key = body.as_ref().map(|body| host_keys::key_of(ask, host, body, "key")).transpose()?;
    let overlap = body.map(|body| Duration::from_secs(body.overlap_s.into()));
    ask.change(Permissions { new_secrets: overlap, ..Permissions::default() }, |fabric| {
        let subsystem = ask.subsystem_mut(fabric)?;
        if subsystem.hosts.contains(host) {
            return Err(Refusal::conflict(format!("host {host} may use it already")).about("nqn"));
        }
        subsystem.hosts.push(host.clone());
        subsystem.kept_hosts.retain(|known| known != host);
        if let Some(key) = key {
            host_keys::set(subsystem, key);
        }
        Ok(())
    })?;
    let location = format!("/v1/subsystems/{}/hosts/{}", encode(ask.part("nqn")), encode(host));
    Answer::created(location, &HostBody { nqn, key: None })
}

pub(super) fn deny(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let host = ask.part("host");
    let (with_key, keep) = (ask.flag("with_key")?, ask.flag("keep_connections")?);
    let connected = keep.then(|| connected(ask)).flatten();
    change(ask, |subsystem| {
        let (before, kept) = (subsystem.hosts.len(), subsystem.kept_hosts.len());
        subsystem.hosts.retain(|known| known != host);
        subsystem.kept_hosts.retain(|known| known != host);
        // One that has left the list already, and kept its connections, may lose them by a second request.
        let is_listed = subsystem.hosts.len() < before;
        if !is_listed && (keep || subsystem.kept_hosts.len() == kept) {
            let refusal = Refusal::not_found(format!("host {host} is not on the list"));
            return Err(if subsystem.allow_any_host {
                refusal
                    .hint("every host may use the subsystem: `host deny NQN --any` restricts it to its list")
            } else {
                refusal
            });
        }
        if with_key {
            subsystem.host_keys.retain(|known| known.host != host);
        }
        if keep {
            subsystem.kept_hosts.push(host.to_owned());
            // One without a connection has none to keep. The list would be full one day.
            let is_connected = |kept: &String| connected.as_ref().is_none_or(|known| known.contains(kept));
            subsystem.kept_hosts.retain(is_connected);
        }
        Ok(())
    })?;
    Ok(Answer::done())
}

/// Hosts with controllers of the subsystem that the path names; `None` in a group, of which this gateway knows only its own.
fn connected(ask: &Ask<'_>) -> Option<BTreeSet<String>> {
    if ask.administration.membership().is_some() {
        return None;
    }
    let nqn = ask.part("nqn");
    let controllers = ask.administration.status().controllers.into_iter();
    Some(controllers.filter(|known| known.subsystem == nqn).map(|known| known.host_nqn).collect())
}

/// Groups that have a state of their own, and those that namespaces are in.
pub(super) fn ana_groups(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let fabric = ask.administration.fabric();
    let subsystem = ask.subsystem(&fabric)?;
    let ids = group_ids(subsystem);
    Answer::with(&AnaGroups { ana_groups: ids.into_iter().map(|id| group(subsystem, id)).collect() })
}

/// Numbers of the groups that exist, in ascending order.
fn group_ids(subsystem: &SubsystemConfig) -> BTreeSet<u32> {
    let named = subsystem.ana_groups.iter().map(|group| group.id);
    subsystem.namespaces.iter().map(|namespace| namespace.ana_group).chain(named).collect()
}

/// Refuses a group that does not exist, and names those that do.
fn check_group(subsystem: &SubsystemConfig, id: u32) -> Result<(), Refusal> {
    let known = group_ids(subsystem);
    if known.contains(&id) {
        return Ok(());
    }
    let names: Vec<String> = known.iter().map(u32::to_string).collect();
    let hint = match names.as_slice() {
        [] => "it has none before its first namespace".to_owned(),
        [only] => format!("its only group is {only}"),
        several => format!("its groups are {}", several.join(", ")),
    };
    Err(Refusal::not_found(format!("there is no ANA group {id} in {}", subsystem.nqn)).hint(hint))
}

/// A group; one without a state of its own is optimized everywhere.
fn group(subsystem: &SubsystemConfig, id: u32) -> AnaGroupConfig {
    let known = subsystem.ana_groups.iter().find(|group| group.id == id).cloned();
    known.unwrap_or_else(|| AnaGroupConfig { id, state: Default::default(), ports: Default::default() })
}

fn group_id(ask: &Ask<'_>) -> Result<u32, Refusal> {
    let id = ask.number("id")?;
    if (1..=ANA_GROUPS_MAX).contains(&id) {
        Ok(id)
    } else {
        Err(Refusal::not_found(format!("ANA groups go from 1 to {ANA_GROUPS_MAX}")))
    }
}

pub(super) fn ana_group(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let fabric = ask.administration.fabric();
    let (subsystem, id) = (ask.subsystem(&fabric)?, group_id(ask)?);
    check_group(subsystem, id)?;
    Answer::with(&group(subsystem, id))
}

pub(super) fn put_ana_group(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let id = group_id(ask)?;
    let AnaGroupBody { state, ports } = ask.body()?;
    let wanted = AnaGroupConfig { id, state, ports };
    ask.change(Permissions::default(), |fabric| {
        let known: Vec<u16> = fabric.ports.iter().map(|port| port.id).collect();
        let subsystem = ask.subsystem_mut(fabric)?;
        check_group(subsystem, id)?;
        if let Some(port) = wanted.ports.keys().find(|port| !known.contains(port)) {
            let what = format!("there is no port number {port}");
            return Err(Refusal::unprocessable(what).about(format!("ports.{port}")));
        }
        subsystem.ana_groups.retain(|group| group.id != id);
        // A group that is not listed is optimized everywhere.
        if wanted != group(subsystem, id) {
            subsystem.ana_groups.push(wanted.clone());
            subsystem.ana_groups.sort_by_key(|group| group.id);
        }
        Ok(())
    })?;
    Answer::with(&wanted)
}
