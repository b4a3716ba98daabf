//! Calls about the hosts that may use a subsystem.

use ceph_nvmeof::{
    AddHostReq, ChangeHostKeyReq, ControllerKeyOrigin, Host, HostsInfo, ListHostsReq, RemoveHostReq,
    ReqStatus, SetKeepHostConnectedReq,
};
use engine::limits::HOSTS_MAX;
use engine::target::{HostKeyConfig, SubsystemConfig, Visibility};
use libc::{EACCES, EBUSY, EEXIST, EINVAL, EKEYREJECTED, ENODEV, ENOENT, ENOKEY};
use serde_json::{Value, json};

use super::super::ask::encode;
use super::controllers::{controllers_of, is_connected};
use super::failed::{Failed, check_room};
use super::native::{Native, of_subsystem};

/// Every host.
const ANY: &str = "*";
const NEEDS_KEY: &str = "Host must have a DH-HMAC-CHAP key if the subsystem or the controller has one";
/// Key that stays.
const EXISTING: &str = "-";

pub(super) async fn add(native: Native, request: AddHostReq) -> Result<ReqStatus, Failed> {
    let (nqn, host) = (&request.subsystem_nqn, &request.host_nqn);
    let doing = if host == ANY {
        format!("Failure allowing open host access to {nqn}")
    } else {
        format!("Failure adding host {host} to {nqn}")
    };
    let failed = |failed: Failed| failed.amid(&doing);
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(failed)?;
    let (psk, secret) = (given(&request.psk), given(&request.dhchap_key));
    let own_controller_key = given(&request.dhchap_ctrlr_key);
    let controller_key = subsystem.dhchap_ctrl_secret_sealed.is_some();
    let is_keyed = secret.is_some() || own_controller_key.is_some();
    if host == ANY {
        check_keyless(&subsystem).map_err(failed)?;
        for (is_given, errno, name) in
            [(psk.is_some(), EINVAL, "PSK"), (is_keyed, EACCES, "DH-HMAC-CHAP key")]
        {
            if is_given {
                let what = format!("{name} is only allowed for specific hosts");
                return Err(failed(Failed::new(errno, what)));
            }
        }
        if subsystem.allow_any_host {
            return Err(failed(Failed::new(EEXIST, "Open host access is already allowed")));
        }
        return open(&native, nqn, true).await.map_err(failed);
    }
    if is_keyed {
        check_closed(&subsystem).map_err(failed)?;
    }
    if subsystem.hosts.contains(host) {
        return Err(failed(Failed::new(EEXIST, "Host is already added")));
    }
    check_room(subsystem.hosts.len(), HOSTS_MAX, "hosts").map_err(failed)?;
    if controller_key && own_controller_key.is_some() {
        let what = "A controller key of a host and a DH-HMAC-CHAP key of its subsystem exclude each other";
        return Err(failed(Failed::new(EKEYREJECTED, what)));
    }
    if (controller_key || own_controller_key.is_some()) && secret.is_none() {
        return Err(failed(Failed::new(ENOKEY, NEEDS_KEY)));
    }
    let mut body = json!({ "nqn": host });
    for (name, key) in
        [("dhchap_secret", secret), ("dhchap_ctrl_secret", own_controller_key), ("tls_key", psk)]
    {
        if let Some(key) = key {
            body["key"][name] = key.into();
        }
    }
    let path = format!("{}/hosts", of_subsystem(nqn));
    if let Err(refused) = native.ask("POST", &path, Some(body)).await {
        let now = native.subsystem(nqn, ENOENT).await;
        let is_there = now.is_ok_and(|subsystem| subsystem.hosts.contains(host));
        return Err(failed(refused.of_addition(is_there)));
    }
    Ok(ReqStatus::default())
}

/// Refuses to let every host into a subsystem whose hosts have keys: under another name, they would not need them.
fn check_keyless(subsystem: &SubsystemConfig) -> Result<(), Failed> {
    if subsystem.dhchap_ctrl_secret_sealed.is_some() {
        let what = "Can't allow any host access on a subsystem having a DH-HMAC-CHAP key";
        return Err(Failed::new(EACCES, what));
    }
    match subsystem.host_keys.iter().find(|key| key.has_secret()) {
        None => Ok(()),
        Some(key) => {
            let what = "Can't allow any host access on a subsystem with a host that has a DH-HMAC-CHAP key";
            Err(Failed::new(EACCES, format!("{what}, like host {}", key.host)))
        }
    }
}

/// Refuses a key for a subsystem that lets in every host, also without it.
pub(super) fn check_closed(subsystem: &SubsystemConfig) -> Result<(), Failed> {
    if !subsystem.allow_any_host {
        return Ok(());
    }
    let what = "DH-HMAC-CHAP keys are not allowed on a subsystem that is open for all hosts; remove the open access first";
    Err(Failed::new(EACCES, what))
}

pub(super) async fn remove(native: Native, request: RemoveHostReq) -> Result<ReqStatus, Failed> {
    let (nqn, host) = (&request.subsystem_nqn, &request.host_nqn);
    let doing = if host == ANY {
        format!("Failure disabling open host access to {nqn}")
    } else {
        format!("Failure removing host {host} access from {nqn}")
    };
    let failed = |failed: Failed| failed.amid(&doing);
    if host == ANY && request.keep_connections() {
        return Err(failed(Failed::new(EINVAL, "Connections can only be kept for specific hosts")));
    }
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(failed)?;
    // Requests of version 1.5 have neither field, and its gateways remove a host that is connected or in a list with success.
    let is_older = request.force.is_none() && request.keep_connections.is_none();
    let user = namespace_of(&subsystem, host).filter(|_| !is_older);
    if let (Some(nsid), false) = (user, request.force()) {
        let what = format!(
            "The list of hosts of namespace {nsid} relies on it. Either change the list or use the '--force' command line option"
        );
        return Err(failed(Failed::new(EACCES, what)));
    }
    if host == ANY {
        open(&native, nqn, false).await.map_err(failed)?;
        return still_used(&doing, false, user);
    }
    if !subsystem.hosts.contains(host) {
        return Err(failed(Failed::new(ENOENT, "Host is not found")));
    }
    let was_connected = !is_older && is_connected(&controllers_of(&native).await.map_err(failed)?, nqn, host);
    let keep = request.keep_connections();
    let path = format!("{}/hosts/{}?with_key=true&keep_connections={keep}", of_subsystem(nqn), encode(host));
    native.ask("DELETE", &path, None).await.map_err(|refused| failed(refused.into()))?;
    still_used(&doing, was_connected, user)
}

/// The answer to a removal that has succeeded: clients learn by EBUSY that a host was connected, or is in a list.
fn still_used(doing: &str, was_connected: bool, user: Option<u32>) -> Result<ReqStatus, Failed> {
    let what = match (was_connected, user) {
        (false, None) => return Ok(ReqStatus::default()),
        (true, _) => {
            "it is removed; it was connected, and connects again only if it is added again".to_owned()
        }
        (false, Some(nsid)) => {
            format!("it is removed, and is still in the list of hosts of namespace {nsid}")
        }
    };
    Err(Failed::new(EBUSY, what).amid(doing))
}

/// A namespace whose list has a host that may use the subsystem as this one, or because any host may.
fn namespace_of(subsystem: &SubsystemConfig, host: &str) -> Option<u32> {
    let is_listed = |listed: &String| match host {
        ANY => subsystem.allow_any_host && !subsystem.hosts.contains(listed),
        host => listed == host,
    };
    let mut namespaces = subsystem.namespaces.iter();
    let uses =
        |visible: &Visibility| matches!(visible, Visibility::Only(hosts) if hosts.iter().any(is_listed));
    namespaces.find(|namespace| uses(&namespace.visible)).map(|namespace| namespace.nsid)
}

/// Accepts what ceph-nvmeof's gateways say to each other when a host is removed and keeps its connections, and when it is to keep
/// none. Here the configuration of all gateways says so.
pub(super) async fn set_keep_connected(
    native: Native,
    request: SetKeepHostConnectedReq,
) -> Result<ReqStatus, Failed> {
    let (nqn, host) = (&request.subsystem_nqn, &request.host_nqn);
    let subsystem = native.subsystem(nqn, ENOENT).await;
    let doing = format!("Failure keeping the connections of host {host} to {nqn}");
    subsystem.map_err(|failed| failed.amid(doing))?;
    Ok(ReqStatus::default())
}

async fn open(native: &Native, nqn: &str, is_open: bool) -> Result<ReqStatus, Failed> {
    native.ask("PATCH", &of_subsystem(nqn), Some(json!({ "allow_any_host": is_open }))).await?;
    Ok(ReqStatus::default())
}

pub(super) async fn change_key(native: Native, request: ChangeHostKeyReq) -> Result<ReqStatus, Failed> {
    let (nqn, host) = (&request.subsystem_nqn, &request.host_nqn);
    let doing = format!("Failure changing DH-HMAC-CHAP key for host {host} on subsystem {nqn}");
    let failed = |failed: Failed| failed.amid(&doing);
    let change = KeyChange::of(&request);
    if change.keeps_secret && change.keeps_controller_key {
        return Ok(ReqStatus::default());
    }
    if host == ANY {
        return Err(failed(Failed::new(EINVAL, "Host NQN can't be '*'")));
    }
    let subsystem = native.subsystem(nqn, ENODEV).await.map_err(failed)?;
    change.check(&subsystem, host).map_err(failed)?;
    if !subsystem.hosts.contains(host) {
        return Err(failed(Failed::new(ENODEV, "Can't find host on subsystem")));
    }
    let path = format!("{}/host_keys/{}", of_subsystem(nqn), encode(host));
    native.ask("PATCH", &path, Some(change.body())).await.map_err(|refused| failed(refused.into()))?;
    Ok(ReqStatus::default())
}

/// Change of the keys of a host, each of which is replaced, taken away, or stays.
struct KeyChange<'a> {
    secret: Option<&'a str>,
    keeps_secret: bool,
    controller_key: Option<&'a str>,
    keeps_controller_key: bool,
    /// True if the client is of a version without controller keys of hosts.
    is_older: bool,
}

impl<'a> KeyChange<'a> {
    fn of(request: &'a ChangeHostKeyReq) -> Self {
        let (secret, controller_key) = (given(&request.dhchap_key), given(&request.dhchap_ctrlr_key));
        let keeps_secret = secret == Some(EXISTING);
        let is_older = request.dhchap_ctrlr_key.is_none() && !keeps_secret;
        let keeps_controller_key = controller_key == Some(EXISTING) || is_older && secret.is_some();
        Self { secret, keeps_secret, controller_key, keeps_controller_key, is_older }
    }

    /// Refuses keys that do not go together.
    fn check(&self, subsystem: &SubsystemConfig, host: &str) -> Result<(), Failed> {
        let known = subsystem.host_keys.iter().find(|key| key.host == host);
        let has_secret = match self.keeps_secret {
            true => known.is_some_and(HostKeyConfig::has_secret),
            false => self.secret.is_some(),
        };
        let has_controller_key = match self.keeps_controller_key {
            true => known.is_some_and(HostKeyConfig::has_controller_secret),
            false => self.controller_key.is_some(),
        };
        let subsystem_key = subsystem.dhchap_ctrl_secret_sealed.is_some();
        if (has_controller_key || subsystem_key) && !has_secret {
            return Err(Failed::new(ENOKEY, NEEDS_KEY));
        }
        if subsystem_key && !self.keeps_controller_key && !self.is_older {
            let what =
                "A controller key of a host can't be changed while the subsystem has a DH-HMAC-CHAP key";
            return Err(Failed::new(EINVAL, what));
        }
        if has_secret || has_controller_key { check_closed(subsystem) } else { Ok(()) }
    }

    /// The request for it: without a secret, the host need not authenticate from now on.
    fn body(&self) -> Value {
        let mut body = json!({});
        if !self.keeps_secret {
            body["dhchap_secret"] = json!(self.secret);
        }
        if !self.keeps_controller_key {
            body["dhchap_ctrl_secret"] = json!(self.controller_key);
        }
        body
    }
}

/// A key that a call has; an empty one is none.
pub(super) fn given(key: &Option<String>) -> Option<&str> {
    key.as_deref().filter(|key| !key.is_empty())
}

pub(super) async fn list(native: Native, request: ListHostsReq) -> Result<HostsInfo, Failed> {
    let subsystem = native.subsystem(&request.subsystem, ENODEV).await;
    let subsystem = subsystem.map_err(|failed| failed.amid("Failure listing hosts"))?;
    Ok(HostsInfo {
        allow_any_host: subsystem.allow_any_host,
        hosts: subsystem.hosts.iter().map(|host| host_of(&subsystem, host)).collect(),
        subsystem_nqn: request.subsystem,
        ..HostsInfo::default()
    })
}

/// A host, with the keys that it has.
pub(super) fn host_of(subsystem: &SubsystemConfig, host: &str) -> Host {
    let key = subsystem.host_keys.iter().find(|key| key.host == host);
    let origin = if key.is_some_and(HostKeyConfig::has_controller_secret) {
        ControllerKeyOrigin::HostSpecific
    } else if subsystem.dhchap_ctrl_secret_sealed.is_some() {
        ControllerKeyOrigin::SubsystemImplicit
    } else {
        ControllerKeyOrigin::NoKey
    };
    Host {
        nqn: host.to_owned(),
        use_psk: Some(key.is_some_and(HostKeyConfig::has_tls_key)),
        use_dhchap: Some(key.is_some_and(HostKeyConfig::has_secret)),
        dhchap_controller_origin: Some(origin as i32),
        ..Host::default()
    }
}
