//! `/v1/subsystems` with their hosts and ANA groups.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use engine::limits::ANA_GROUPS_MAX;
use engine::target::{AnaGroupConfig, GroupState, HostKeyConfig, SubsystemConfig};
use nvme::discovery::Nqn;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::administration::Permissions;
use super::ask::{Answer, Ask, encode, no_subsystem};
use super::namespaces::{check_namespace, check_path, field};
use super::patches::{Patch, patch_subsystem};
use super::refusal::Refusal;

/// A name of a host or subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct Name(pub(crate) String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match Nqn::new(&name) {
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
}

/// The secrets and TLS keys of a host, by files on the target's machine; one of both at least.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewHostKey")]
pub(crate) struct HostKeyBody {
    /// File with the host's secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dhchap_secret_file: Option<PathBuf>,
    /// File with the secret by which the subsystem authenticates to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dhchap_ctrl_secret_file: Option<PathBuf>,
    /// Hash functions that are taken, the preferred one first; all without any.
    #[serde(default)]
    pub(crate) dhchap_hash: Vec<String>,
    /// Groups that are taken, the preferred one first; all without any.
    #[serde(default)]
    pub(crate) dhchap_dhgroup: Vec<String>,
    /// File with the key of the host's TLS connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_key_file: Option<PathBuf>,
    /// Whether the key of the host's TLS connections comes out of its authentication (secure channel concatenation).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) tls_concat: bool,
    /// For how many seconds the secrets and keys that these replace are still accepted.
    #[serde(default)]
    pub(crate) overlap_s: u32,
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

/// Who may use a subsystem.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Hosts {
    allow_any_host: bool,
    hosts: Vec<String>,
    /// Those that have to authenticate, or have a TLS key.
    host_keys: Vec<HostKeyConfig>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct AnaGroups {
    ana_groups: Vec<AnaGroupConfig>,
}

/// Checks a subsystem. Mistakes are told with fields under `base`.
pub(super) fn check_subsystem(subsystem: &mut SubsystemConfig, base: &str) -> Result<(), Refusal> {
    if let Some(storage) = &subsystem.storage {
        check_path(&storage.directory).map_err(|refusal| refusal.about(field(base, "storage.directory")))?;
    }
    for (at, key) in subsystem.host_keys.iter().enumerate() {
        check_host_key(key, &field(base, format!("host_keys[{at}]")))?;
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
            return Err(Refusal::conflict(format!("subsystem {nqn} is there already")).about("nqn"));
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
    let body: HostBody = ask.body()?;
    let host = &body.nqn.0;
    change(ask, |subsystem| {
        if subsystem.hosts.contains(host) {
            return Err(Refusal::conflict(format!("host {host} may use it already")).about("nqn"));
        }
        subsystem.hosts.push(host.clone());
        Ok(())
    })?;
    let location = format!("/v1/subsystems/{}/hosts/{}", encode(ask.part("nqn")), encode(host));
    Answer::created(location, &body)
}

pub(super) fn deny(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let host = ask.part("host");
    change(ask, |subsystem| {
        let before = subsystem.hosts.len();
        subsystem.hosts.retain(|known| known != host);
        if subsystem.hosts.len() == before {
            return Err(Refusal::not_found(format!("host {host} is not on the list")));
        }
        Ok(())
    })?;
    Ok(Answer::done())
}

/// Gives a host secrets and TLS keys, or others. Also where nothing else changes, their files are read anew.
pub(super) fn put_host_key(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let body: HostKeyBody = ask.body()?;
    let host = ask.part("host");
    let wanted = HostKeyConfig {
        host: host.to_owned(),
        dhchap_secret_file: body.dhchap_secret_file,
        dhchap_ctrl_secret_file: body.dhchap_ctrl_secret_file,
        dhchap_hash: parsed(&body.dhchap_hash, "dhchap_hash")?,
        dhchap_dhgroup: parsed(&body.dhchap_dhgroup, "dhchap_dhgroup")?,
        tls_key_file: body.tls_key_file,
        tls_concat: body.tls_concat,
    };
    check_host_key(&wanted, "")?;
    let overlap = Duration::from_secs(body.overlap_s.into());
    ask.change(Permissions { new_secrets: Some(overlap), ..Permissions::default() }, |fabric| {
        let subsystem = ask.subsystem_mut(fabric)?;
        let before = subsystem.host_keys.iter().find(|known| known.host == host);
        before.map_or(Ok(()), |before| check_nothing_is_lost(before, &wanted))?;
        subsystem.host_keys.retain(|known| known.host != host);
        subsystem.host_keys.push(wanted.clone());
        Ok(())
    })?;
    Answer::with(&wanted)
}

/// Who adds a TLS key must not let the host in without its secret by that, nor the other way round.
fn check_nothing_is_lost(before: &HostKeyConfig, wanted: &HostKeyConfig) -> Result<(), Refusal> {
    let pairs = [
        ("dhchap_secret_file", &before.dhchap_secret_file, &wanted.dhchap_secret_file),
        ("tls_key_file", &before.tls_key_file, &wanted.tls_key_file),
    ];
    for (name, before, wanted) in pairs {
        if let (Some(file), None) = (before, wanted) {
            let what = format!("the host has a {name}, {}, which would be lost", file.display());
            return Err(Refusal::conflict(what)
                .about(name)
                .hint("name it too, or remove the host's keys first"));
        }
    }
    Ok(())
}

fn parsed<T: FromStr<Err = String>>(names: &[String], of: &str) -> Result<Vec<T>, Refusal> {
    let parse = |name: &String| name.parse().map_err(|what: String| Refusal::unprocessable(what).about(of));
    names.iter().map(parse).collect()
}

fn check_host_key(key: &HostKeyConfig, base: &str) -> Result<(), Refusal> {
    for (name, file) in key.files() {
        check_path(file).map_err(|refusal| refusal.about(field(base, name)))?;
    }
    Ok(())
}

/// Lets a host in without a secret and a TLS key again.
pub(super) fn remove_host_key(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let host = ask.part("host");
    change(ask, |subsystem| {
        let before = subsystem.host_keys.len();
        subsystem.host_keys.retain(|known| known.host != host);
        if subsystem.host_keys.len() == before {
            return Err(Refusal::not_found(format!("host {host} has no key")));
        }
        Ok(())
    })?;
    Ok(Answer::done())
}

/// Groups that have a state of their own, and those that namespaces are in.
pub(super) fn ana_groups(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let fabric = ask.administration.fabric();
    let subsystem = ask.subsystem(&fabric)?;
    let named = subsystem.ana_groups.iter().map(|group| group.id);
    let mut ids: Vec<u32> = subsystem.namespaces.iter().map(|n| n.ana_group).chain(named).collect();
    ids.sort_unstable();
    ids.dedup();
    Answer::with(&AnaGroups { ana_groups: ids.into_iter().map(|id| group(subsystem, id)).collect() })
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
    Answer::with(&group(ask.subsystem(&fabric)?, group_id(ask)?))
}

pub(super) fn put_ana_group(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let id = group_id(ask)?;
    let AnaGroupBody { state, ports } = ask.body()?;
    let wanted = AnaGroupConfig { id, state, ports };
    ask.change(Permissions::default(), |fabric| {
        let known: Vec<u16> = fabric.ports.iter().map(|port| port.id).collect();
        let subsystem = ask.subsystem_mut(fabric)?;
        if let Some(port) = wanted.ports.keys().find(|port| !known.contains(port)) {
            let what = format!("there is no port number {port}");
            return Err(Refusal::unprocessable(what).about(format!("ports.{port}")));
        }
        subsystem.ana_groups.retain(|group| group.id != id);
        // Optimized everywhere is what a group is that nobody mentions.
        if wanted != group(subsystem, id) {
            subsystem.ana_groups.push(wanted.clone());
            subsystem.ana_groups.sort_by_key(|group| group.id);
        }
        Ok(())
    })?;
    Answer::with(&wanted)
}
