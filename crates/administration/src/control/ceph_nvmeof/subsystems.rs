//! Calls about subsystems.

use ceph_nvmeof::{
    ChangeSubsystemKeyReq, CreateSubsystemReq, DeleteSubsystemReq, GetSubsystemsReq, Host, ListSubsystemsReq,
    ListenAddress, Namespace, ReqStatus, SubsysStatus, Subsystem, SubsystemCli, SubsystemsInfo,
    SubsystemsInfoCli,
};
use engine::limits::{NAMESPACES_MAX, SUBSYSTEMS_MAX};
use engine::target::{NO_PORT, NamespaceConfig, SubsystemConfig};
use gateway::GroupStatus;
use libc::{EBUSY, EEXIST, EINVAL, ENODEV, ENOENT};
use serde_json::json;

use super::failed::{Failed, Reply as _, check_room};
use super::hosts::{check_closed, given, host_of};
use super::listeners::listeners_of;
use super::namespaces::{bdev_name, hosts_of, is_visible_to_all, remove, trashes_image};
use super::native::{Native, Refused, again, of_subsystem, user_of_serial};
use super::networks::{self, Wanted};

/// Controllers that a gateway of a group has of its own.
const CONTROLLERS: u32 = 2048;
/// Controllers of a target without a group.
const CONTROLLERS_MAX: u32 = 65_519;

/// Answers with the name of the subsystem in any case.
pub(super) async fn create(native: Native, request: CreateSubsystemReq) -> SubsysStatus {
    let doing = format!("Failure creating subsystem {}", request.subsystem_nqn);
    let failed = |failed: Failed| failed.amid(doing.trim_end());
    let (nqn, created) = match whole_name(&native, &request).await {
        Ok(nqn) => {
            let created = again(|| create_as(&native, &request, &nqn)).await;
            (nqn, created)
        }
        Err(failed) => (request.subsystem_nqn.clone(), Err(failed)),
    };
    let outcome = created.map(|()| SubsysStatus::default()).map_err(failed);
    SubsysStatus { nqn, ..SubsysStatus::of(outcome) }
}

/// Name of a subsystem that is to be created. The group's is a part of it by default.
async fn whole_name(native: &Native, request: &CreateSubsystemReq) -> Result<String, Failed> {
    let nqn = &request.subsystem_nqn;
    if nqn.is_empty() {
        return Err(Failed::new(EINVAL, "missing subsystem NQN"));
    }
    if !request.enable_ha {
        return Err(Failed::new(EINVAL, "HA must be enabled for subsystems"));
    }
    if request.no_group_append() {
        return Ok(nqn.clone());
    }
    let group = native.group().await?;
    Ok(group.map_or_else(|| nqn.clone(), |group| format!("{nqn}.{}", group_name(&group))))
}

async fn create_as(native: &Native, request: &CreateSubsystemReq, nqn: &str) -> Result<(), Failed> {
    let subsystems = native.subsystems().await?;
    if subsystems.iter().any(|subsystem| subsystem.nqn == nqn) {
        return Err(Failed::new(EEXIST, "Subsystem already exists"));
    }
    if let Some(user) = user_of_serial(&subsystems, &request.serial_number) {
        let what = format!("Serial number {} is already used by subsystem {user}", request.serial_number);
        return Err(Failed::new(EEXIST, what));
    }
    check_room(subsystems.len(), SUBSYSTEMS_MAX, "subsystems")?;
    // It is found where listeners are created for it, and in its networks.
    let mut config = SubsystemConfig::new(nqn, "", "");
    (config.allow_any_host, config.ports) = (false, vec![NO_PORT]);
    let opened = open_networks(native, &mut config, request).await?;
    let mut body = json!({ "nqn": nqn, "ports": config.ports, "networks": config.networks });
    if !request.serial_number.is_empty() {
        body["serial"] = request.serial_number.as_str().into();
    }
    if let Err(refused) = native.ask("POST", "/v1/subsystems", Some(body)).await {
        networks::close(native, &opened).await;
        let is_there = native.subsystem(nqn, ENOENT).await.is_ok();
        return Err(refused.of_addition(is_there));
    }
    if let Some(key) = given(&request.dhchap_key)
        && let Err(refused) = set_key(native, nqn, Some(key)).await
    {
        // No host may use it yet, so its removal leaves no trace.
        let removed = native.take_back(&of_subsystem(nqn)).await;
        if let Err(left) = &removed {
            tracing::warn!(nqn, error = left.what, "a subsystem that got no key stays");
        }
        networks::close(native, &opened).await;
        let failed = Failed::from(refused);
        // The next attempt would take what stays for what another call has created.
        return Err(Failed { is_outdated: failed.is_outdated && removed.is_ok(), ..failed });
    }
    Ok(())
}

/// Gives a new subsystem the networks that a call names. Returns the numbers of ports that were opened for them.
async fn open_networks(
    native: &Native,
    config: &mut SubsystemConfig,
    request: &CreateSubsystemReq,
) -> Result<Vec<u16>, Failed> {
    if request.port() > u32::from(u16::MAX) {
        return Err(Failed::new(EINVAL, format!("{} is not a port", request.port())));
    }
    for mask in &request.network_mask {
        let network = networks::parse(mask)?;
        if !config.networks.contains(&network) {
            config.networks.push(network);
        }
    }
    let wanted = Wanted {
        service: Some(request.port()).filter(|port| *port != 0),
        is_secure: request.secure_listeners(),
    };
    networks::open(native, config, &config.networks, wanted).await
}

pub(super) async fn delete(native: Native, request: DeleteSubsystemReq) -> Result<ReqStatus, Failed> {
    let nqn = &request.subsystem_nqn;
    let failed = |failed: Failed| failed.amid(format_args!("Failure deleting subsystem {nqn}"));
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(failed)?;
    if let (Some(namespace), false) = (subsystem.namespaces.first(), request.force()) {
        let what = format!(
            "Namespace {} is still using the subsystem. Either remove it or use the '--force' command line option",
            namespace.nsid
        );
        return Err(failed(Failed::new(EBUSY, what)));
    }
    for namespace in trashed(&subsystem.namespaces, request.i_am_sure()) {
        remove(&native, nqn, namespace).await.map_err(|refused| failed(refused.into()))?;
    }
    native.ask("DELETE", &of_subsystem(nqn), None).await.map_err(|refused| failed(refused.into()))?;
    Ok(ReqStatus::default())
}

/// Namespaces whose images go to the trash with their subsystem. Without a confirmation all images stay.
fn trashed(namespaces: &[NamespaceConfig], is_confirmed: bool) -> impl Iterator<Item = &NamespaceConfig> {
    namespaces.iter().filter(move |namespace| is_confirmed && trashes_image(namespace))
}

pub(super) async fn change_key(native: Native, request: ChangeSubsystemKeyReq) -> Result<ReqStatus, Failed> {
    let nqn = &request.subsystem_nqn;
    let doing = format!("Failure changing DH-HMAC-CHAP key for subsystem {nqn}");
    let failed = |failed: Failed| failed.amid(&doing);
    let subsystem = native.subsystem(nqn, ENODEV).await.map_err(failed)?;
    let key = given(&request.dhchap_key);
    if key.is_some() {
        check_closed(&subsystem).map_err(failed)?;
        if let Some(own) = subsystem.host_keys.iter().find(|key| key.has_controller_secret()) {
            let what =
                format!("Host {} has a DH-HMAC-CHAP controller key, which has to be removed first", own.host);
            return Err(failed(Failed::new(EINVAL, what)));
        }
    }
    let has_secret =
        |host: &&String| subsystem.host_keys.iter().any(|key| key.host == **host && key.has_secret());
    if key.is_some()
        && let Some(host) = subsystem.hosts.iter().find(|host| !has_secret(host))
    {
        let what = format!(
            "Can't set a subsystem's DH-HMAC-CHAP key when it has hosts with no key, like host {host}"
        );
        return Err(failed(Failed::new(EINVAL, what)));
    }
    set_key(&native, nqn, key).await.map_err(|refused| failed(refused.into()))?;
    Ok(ReqStatus::default())
}

/// Gives a subsystem the key by which it authenticates to its hosts, or takes it away.
async fn set_key(native: &Native, nqn: &str, key: Option<&str>) -> Result<(), Refused> {
    let path = format!("{}/controller_key", of_subsystem(nqn));
    native.ask("PUT", &path, Some(json!({ "dhchap_ctrl_secret": key }))).await.map(drop)
}

pub(super) async fn list(native: Native, request: ListSubsystemsReq) -> Result<SubsystemsInfoCli, Failed> {
    let wanted = request.subsystem_nqn.filter(|nqn| !nqn.is_empty());
    let serial = request.serial_number.filter(|serial| !serial.is_empty());
    let mut subsystems = native.subsystems().await?;
    if let Some(nqn) = wanted {
        subsystems.retain(|subsystem| subsystem.nqn == nqn);
        if subsystems.is_empty() {
            return Err(Failed::new(ENODEV, "Failure listing subsystems: No such device"));
        }
    }
    subsystems.retain(|subsystem| serial.as_ref().is_none_or(|serial| subsystem.serial == *serial));
    let controllers = controllers(native.group().await?.as_ref());
    let subsystems = subsystems.iter().map(|subsystem| shown(subsystem, controllers)).collect();
    Ok(SubsystemsInfoCli { subsystems, ..SubsystemsInfoCli::default() })
}

pub(super) async fn get(native: Native, _: GetSubsystemsReq) -> SubsystemsInfo {
    // The answer has no status.
    whole(&native).await.unwrap_or_default()
}

async fn whole(native: &Native) -> Result<SubsystemsInfo, Failed> {
    let (subsystems, ports) = (native.subsystems().await?, native.ports().await?);
    let group = native.group().await?;
    let controllers = controllers(group.as_ref());
    let whole = |subsystem: &SubsystemConfig| Subsystem {
        nqn: subsystem.nqn.clone(),
        subtype: "NVMe".to_owned(),
        listen_addresses: listeners_of(&ports, "", subsystem)
            .into_iter()
            .map(|listener| ListenAddress {
                trtype: listener.trtype,
                adrfam: if listener.adrfam == 0 { "IPv4" } else { "IPv6" }.to_owned(),
                traddr: listener.traddr,
                trsvcid: listener.trsvcid.to_string(),
                transport: Some("TCP".to_owned()),
                secure: listener.secure,
            })
            .collect(),
        hosts: subsystem.hosts.iter().map(|host| host_of(subsystem, host)).collect::<Vec<Host>>(),
        allow_any_host: subsystem.allow_any_host,
        serial_number: Some(subsystem.serial.clone()),
        model_number: Some(subsystem.model.clone()),
        max_namespaces: Some(NAMESPACES_MAX),
        min_cntlid: Some(controllers.0),
        max_cntlid: Some(controllers.1),
        namespaces: subsystem
            .namespaces
            .iter()
            .map(|namespace| Namespace {
                nsid: namespace.nsid,
                name: bdev_name(namespace),
                bdev_name: Some(bdev_name(namespace)),
                nguid: namespace.uuid.map(|uuid| uuid.simple().to_string().to_uppercase()),
                uuid: namespace.uuid.map(|uuid| uuid.to_string()),
                anagrpid: Some(namespace.ana_group),
                nonce: None,
                auto_visible: Some(is_visible_to_all(namespace)),
                hosts: hosts_of(namespace),
            })
            .collect(),
        has_dhchap_key: Some(has_key(subsystem)),
        network_mask: masks(subsystem),
    };
    Ok(SubsystemsInfo { subsystems: subsystems.iter().map(whole).collect() })
}

fn shown(subsystem: &SubsystemConfig, controllers: (u32, u32)) -> SubsystemCli {
    SubsystemCli {
        nqn: subsystem.nqn.clone(),
        // Where there is one gateway alone, there is nothing that it could mean.
        enable_ha: true,
        serial_number: subsystem.serial.clone(),
        model_number: subsystem.model.clone(),
        min_cntlid: controllers.0,
        max_cntlid: controllers.1,
        namespace_count: u32::try_from(subsystem.namespaces.len()).unwrap_or(u32::MAX),
        subtype: "NVMe".to_owned(),
        max_namespaces: NAMESPACES_MAX,
        has_dhchap_key: Some(has_key(subsystem)),
        allow_any_host: Some(subsystem.allow_any_host),
        created_without_key: Some(false),
        network_mask: masks(subsystem),
    }
}

fn masks(subsystem: &SubsystemConfig) -> Vec<String> {
    subsystem.networks.iter().map(ToString::to_string).collect()
}

/// True if the subsystem authenticates to hosts.
fn has_key(subsystem: &SubsystemConfig) -> bool {
    subsystem.dhchap_ctrl_secret_sealed.is_some()
        || subsystem.host_keys.iter().any(|key| key.dhchap_ctrl_secret_file.is_some())
}

/// The first and the last identifier of this gateway's controllers.
fn controllers(group: Option<&GroupStatus>) -> (u32, u32) {
    let own = |group: &GroupStatus| {
        let own = group.gateways.iter().find(|known| known.name == group.gateway)?;
        Some(u32::from(own.number).saturating_sub(1) * CONTROLLERS)
    };
    match group.and_then(own) {
        Some(before) => (before + 1, before + CONTROLLERS),
        None => (1, CONTROLLERS_MAX),
    }
}

/// The last part of a group's place, which ceph-nvmeof calls the group.
pub(super) fn group_name(group: &GroupStatus) -> &str {
    group.group.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use engine::backend::{BackendConfig, RbdConfig};

    use super::*;

    #[test]
    fn images_go_to_the_trash_with_their_subsystem_when_that_is_confirmed() {
        let image = RbdConfig {
            pool: "rbd".to_owned(),
            namespace: String::new(),
            image: "disk".to_owned(),
            snapshot: None,
            conf: None,
            id: None,
            encryption: None,
        };
        let unmarked = NamespaceConfig::new(1, BackendConfig::Rbd(image), 4096);
        let marked = NamespaceConfig { nsid: 2, trash_image: true, ..unmarked.clone() };
        let all = [unmarked, marked];
        let nsids = |is_confirmed| trashed(&all, is_confirmed).map(|one| one.nsid).collect::<Vec<u32>>();
        assert_eq!((nsids(true), nsids(false)), (vec![2], Vec::new()));
    }
}
