//! Calls about the hosts that may use a subsystem.

use ceph_nvmeof::{AddHostReq, ChangeHostKeyReq, Host, HostsInfo, ListHostsReq, RemoveHostReq, ReqStatus};
use engine::target::{HostKeyConfig, SubsystemConfig};
use libc::{EEXIST, EINVAL, ENODEV, ENOENT, ENOKEY};
use serde_json::{Value, json};

use super::super::ask::encode;
use super::failed::Failed;
use super::native::{Native, of_subsystem};

/// Every host.
const ANY: &str = "*";
const NEEDS_KEY: &str = "Host must have a DH-HMAC-CHAP key if the subsystem has one";

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
    let controller_key = subsystem.dhchap_ctrl_secret_sealed.is_some();
    if host == ANY {
        if controller_key {
            let what = "Can't allow any host access on a subsystem having a DH-HMAC-CHAP key";
            return Err(failed(Failed::new(EINVAL, what)));
        }
        for (key, name) in [(psk, "PSK"), (secret, "DH-HMAC-CHAP key")] {
            if key.is_some() {
                return Err(failed(Failed::new(
                    EINVAL,
                    format!("{name} is only allowed for specific hosts"),
                )));
            }
        }
        if subsystem.allow_any_host {
            return Err(failed(Failed::new(EEXIST, "Open host access is already allowed")));
        }
        return open(&native, nqn, true).await.map_err(failed);
    }
    if subsystem.hosts.contains(host) {
        return Err(failed(Failed::new(EEXIST, "Host is already added")));
    }
    if controller_key && secret.is_none() {
        return Err(failed(Failed::new(ENOKEY, NEEDS_KEY)));
    }
    let mut body = json!({ "nqn": host });
    for (name, key) in [("dhchap_secret", secret), ("tls_key", psk)] {
        if let Some(key) = key {
            body["key"][name] = key.into();
        }
    }
    let path = format!("{}/hosts", of_subsystem(nqn));
    let added = native.ask("POST", &path, Some(body)).await;
    added.map_err(|refused| failed(refused.into()))?;
    Ok(ReqStatus::default())
}

pub(super) async fn remove(native: Native, request: RemoveHostReq) -> Result<ReqStatus, Failed> {
    let (nqn, host) = (&request.subsystem_nqn, &request.host_nqn);
    let doing = if host == ANY {
        format!("Failure disabling open host access to {nqn}")
    } else {
        format!("Failure removing host {host} access from {nqn}")
    };
    let failed = |failed: Failed| failed.amid(&doing);
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(failed)?;
    if host == ANY {
        return open(&native, nqn, false).await.map_err(failed);
    }
    if !subsystem.hosts.contains(host) {
        return Err(failed(Failed::new(ENOENT, "Host is not found")));
    }
    let path = format!("{}/hosts/{}?with_key=true", of_subsystem(nqn), encode(host));
    native.ask("DELETE", &path, None).await.map_err(|refused| failed(refused.into()))?;
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
    if host == ANY {
        return Err(failed(Failed::new(EINVAL, "Host NQN can't be '*'")));
    }
    let subsystem = native.subsystem(nqn, ENODEV).await.map_err(failed)?;
    let secret = given(&request.dhchap_key);
    if subsystem.dhchap_ctrl_secret_sealed.is_some() && secret.is_none() {
        return Err(failed(Failed::new(ENOKEY, NEEDS_KEY)));
    }
    if !subsystem.hosts.contains(host) {
        return Err(failed(Failed::new(ENODEV, "Can't find host on subsystem")));
    }
    let path = format!("{}/host_keys/{}", of_subsystem(nqn), encode(host));
    // Without a key, the host need not authenticate from now on.
    let mut body = json!({ "dhchap_secret": secret });
    if secret.is_none() {
        body["dhchap_ctrl_secret"] = Value::Null;
    }
    native.ask("PATCH", &path, Some(body)).await.map_err(|refused| failed(refused.into()))?;
    Ok(ReqStatus::default())
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

/// A host, with whether it has keys.
pub(super) fn host_of(subsystem: &SubsystemConfig, host: &str) -> Host {
    let key = subsystem.host_keys.iter().find(|key| key.host == host);
    Host {
        nqn: host.to_owned(),
        use_psk: Some(key.is_some_and(HostKeyConfig::has_tls_key)),
        use_dhchap: Some(key.is_some_and(HostKeyConfig::has_secret)),
    }
}
