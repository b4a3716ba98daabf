//! Calls about what a namespace is like: its size, its limits, its load-balancing group, the hosts that see it.

use ceph_nvmeof::{
    NamespaceAddHostReq, NamespaceChangeLoadBalancingGroupReq, NamespaceChangeLocationReq,
    NamespaceChangeVisibilityReq, NamespaceDeleteHostReq, NamespaceResizeReq, NamespaceSetAutoResizeReq,
    NamespaceSetQosReq, NamespaceSetRbdTrashImageReq, ReqStatus,
};
use engine::limits::HOSTS_MAX;
use engine::target::Visibility;
use gateway::GroupStatus;
use libc::{EACCES, EAGAIN, EBUSY, EEXIST, EINVAL, ENODEV, ENOENT};
use serde_json::{Value, json};

use super::failed::{Failed, check_room};
use super::namespaces::{check_group, check_location, find_namespace};
use super::native::{Native, again};

const MIB: u64 = 1 << 20;
/// Result of a resize whose second change fails.
const FOLLOWS: &str =
    "it has the size, and follows its image until `namespace set_auto_resize` says no again";

pub(super) async fn resize(native: Native, request: NamespaceResizeReq) -> Result<ReqStatus, Failed> {
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let doing = format!("Failure resizing namespace {nsid} on {nqn}");
    let failed = |failed| invalid(failed).amid(&doing);
    let namespace = find_namespace(&native, nqn, nsid, &doing).await?;
    let mut change = json!({});
    // It comes in MiB, and 0 is the size that the image has.
    if request.new_size > 0 {
        change["size"] = request.new_size.saturating_mul(MIB).into();
    }
    if namespace.disable_auto_resize {
        // Another gateway may see only the last of the two changes, and its hosts would keep the former size.
        let known = native.group().await?;
        if let Some(owner) = owner_elsewhere(known.as_ref(), namespace.ana_group) {
            return Err(Failed::new(EINVAL, at_its_owner(owner)).amid(&doing));
        }
        change["disable_auto_resize"] = false.into();
    }
    native.patch_namespace(nqn, nsid, change).await.map_err(failed)?;
    if namespace.disable_auto_resize {
        // Hosts have learnt of this size, and learn of no later one. The whole call would not do this once more.
        let held = again(|| native.patch_namespace(nqn, nsid, json!({ "disable_auto_resize": true }))).await;
        held.map_err(|error| {
            let what = format!("{FOLLOWS}: {}", error.what);
            failed(Failed { what, is_outdated: false, ..error })
        })?;
    }
    Ok(ReqStatus::default())
}

/// Refuses a call without a namespace as the calls do that move namespaces or show them to hosts; the others have EINVAL for it.
fn check_given(nsid: u32, doing: &str) -> Result<(), Failed> {
    if nsid == 0 { Err(Failed::new(ENODEV, "No namespace ID was given").amid(doing)) } else { Ok(()) }
}

/// Turns "try again" into "invalid", unless another change came first: a conflict is one with what the namespace is.
fn invalid(failed: Failed) -> Failed {
    let is_conflict = failed.errno == EAGAIN && !failed.is_outdated;
    if is_conflict { Failed { errno: EINVAL, ..failed } } else { failed }
}

pub(super) async fn set_qos(native: Native, request: NamespaceSetQosReq) -> Result<ReqStatus, Failed> {
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let doing = format!("Failure setting QOS limits for namespace {nsid} on {nqn}");
    find_namespace(&native, nqn, nsid, &doing).await?;
    // What is not given stays, and 0 takes a limit away.
    let limit = |wanted: u64| if wanted == 0 { Value::Null } else { wanted.into() };
    let mib = |wanted: u64| limit(wanted.saturating_mul(MIB));
    let wanted = [
        ("iops", request.rw_ios_per_second.map(limit)),
        ("bytes", request.rw_mbytes_per_second.map(mib)),
        ("read_bytes", request.r_mbytes_per_second.map(mib)),
        ("write_bytes", request.w_mbytes_per_second.map(mib)),
    ];
    let wanted = wanted.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?)));
    let qos = Value::Object(wanted.collect());
    let patched = native.patch_namespace(nqn, nsid, json!({ "qos": qos })).await;
    patched.map_err(|failed| invalid(failed).amid(doing))?;
    Ok(ReqStatus::default())
}

pub(super) async fn change_group(
    native: Native,
    request: NamespaceChangeLoadBalancingGroupReq,
) -> Result<ReqStatus, Failed> {
    let (nqn, nsid, group) = (&request.subsystem_nqn, request.nsid, request.anagrpid);
    let doing = format!("Failure changing load balancing group for namespace with ID {nsid} in {nqn}");
    check_given(nsid, &doing)?;
    let namespace = find_namespace(&native, nqn, nsid, &doing).await?;
    check_group(&native, group).await.map_err(|failed| failed.amid(&doing))?;
    // The gateway that serves it has to release its image first.
    let known = native.group().await?;
    if let Some(owner) = owner_elsewhere(known.as_ref(), namespace.ana_group) {
        return Err(Failed::new(EEXIST, at_its_owner(owner)).amid(doing));
    }
    let patched = native.patch_namespace(nqn, nsid, json!({ "ana_group": group })).await;
    patched.map_err(|failed| invalid(failed).amid(doing))?;
    Ok(ReqStatus::default())
}

/// The gateway that serves a load-balancing group, if it is another one than this.
fn owner_elsewhere(known: Option<&GroupStatus>, group: u32) -> Option<&str> {
    let owned = known?.load_balancing_groups.iter().find(|owned| owned.id == group)?;
    owned.owner.as_deref().filter(|_| !owned.is_served_here)
}

fn at_its_owner(owner: &str) -> String {
    format!("it is owned by gateway {owner} so try this command from it")
}

pub(super) async fn change_visibility(
    native: Native,
    request: NamespaceChangeVisibilityReq,
) -> Result<ReqStatus, Failed> {
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let doing = format!("Failure changing visibility for namespace {nsid} in {nqn}");
    check_given(nsid, &doing)?;
    let namespace = find_namespace(&native, nqn, nsid, &doing).await?;
    let visible = match (&namespace.visible, request.auto_visible) {
        (Visibility::AllExcept(_), true) | (Visibility::Only(_), false) => return Ok(ReqStatus::default()),
        (Visibility::Only(hosts), true) if !hosts.is_empty() && !request.force() => {
            let what = "hosts were added to it, whose list would be lost; use the --force parameter";
            return Err(Failed::new(EBUSY, what).amid(doing));
        }
        (_, true) => json!({ "all_except": [] }),
        (_, false) => only(&[]),
    };
    let shown = show_to(&native, (nqn, nsid), &namespace.visible, &visible).await;
    shown.map_err(|failed| invalid(failed).amid(doing))?;
    Ok(ReqStatus::default())
}

/// Has other hosts see a namespace, unless another call has changed which do.
async fn show_to(
    native: &Native,
    (nqn, nsid): (&str, u32),
    seen: &Visibility,
    wanted: &Value,
) -> Result<(), Failed> {
    native.patch_namespace(nqn, nsid, json!({ "visible": wanted, "seen": { "visible": seen } })).await
}

pub(super) async fn add_host(native: Native, request: NamespaceAddHostReq) -> Result<ReqStatus, Failed> {
    let (nqn, nsid, host) = (&request.subsystem_nqn, request.nsid, &request.host_nqn);
    let doing = format!("Failure adding host {host} to namespace {nsid} on {nqn}");
    let known = hosts(&native, nqn, nsid, host, &doing).await?;
    if !known.contains(host) {
        check_room(known.len(), HOSTS_MAX, "hosts").map_err(|failed| failed.amid(&doing))?;
    }
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(|failed| failed.amid(&doing))?;
    if !request.force() && !subsystem.lets_in(host) {
        let what =
            "Host is not allowed to access the subsystem, use the \"force\" parameter to add the host anyway";
        return Err(Failed::new(EACCES, what).amid(doing));
    }
    if !known.contains(host) {
        let wanted = only(&[&known[..], std::slice::from_ref(host)].concat());
        let shown = show_to(&native, (nqn, nsid), &Visibility::Only(known), &wanted).await;
        shown.map_err(|failed| invalid(failed).amid(doing))?;
    }
    Ok(ReqStatus::default())
}

pub(super) async fn delete_host(
    native: Native,
    request: NamespaceDeleteHostReq,
) -> Result<ReqStatus, Failed> {
    let (nqn, nsid, host) = (&request.subsystem_nqn, request.nsid, &request.host_nqn);
    let doing = format!("Failure deleting host {host} from namespace {nsid} on {nqn}");
    let known = hosts(&native, nqn, nsid, host, &doing).await?;
    if !known.contains(host) {
        return Err(Failed::new(ENODEV, "Host is not found in namespace's host list").amid(doing));
    }
    let left: Vec<String> = known.iter().filter(|known| *known != host).cloned().collect();
    let shown = show_to(&native, (nqn, nsid), &Visibility::Only(known), &only(&left)).await;
    shown.map_err(|failed| invalid(failed).amid(doing))?;
    Ok(ReqStatus::default())
}

/// The hosts that see a namespace which not all see.
async fn hosts(
    native: &Native,
    nqn: &str,
    nsid: u32,
    host: &str,
    doing: &str,
) -> Result<Vec<String>, Failed> {
    if host == "*" {
        return Err(Failed::new(EINVAL, "Host NQN can't be \"*\"").amid(doing));
    }
    match find_namespace(native, nqn, nsid, doing).await?.visible {
        Visibility::Only(hosts) => Ok(hosts),
        Visibility::AllExcept(_) => Err(Failed::new(EINVAL, "Namespace is visible to all hosts").amid(doing)),
    }
}

fn only(hosts: &[String]) -> Value {
    json!({ "only": hosts })
}

pub(super) async fn set_trash(
    native: Native,
    request: NamespaceSetRbdTrashImageReq,
) -> Result<ReqStatus, Failed> {
    let (nqn, nsid, wanted) = (&request.subsystem_nqn, request.nsid, request.trash_image);
    let doing = format!("Failure setting RBD trash image flag for namespace {nsid} in {nqn}");
    let namespace = find_namespace(&native, nqn, nsid, &doing).await?;
    if namespace.trash_image != wanted {
        let patched = native.patch_namespace(nqn, nsid, json!({ "trash_image": wanted })).await;
        patched.map_err(|failed| invalid(failed).amid(doing))?;
    }
    Ok(ReqStatus::default())
}

pub(super) async fn set_auto_resize(
    native: Native,
    request: NamespaceSetAutoResizeReq,
) -> Result<ReqStatus, Failed> {
    let (nqn, nsid, disable) = (&request.subsystem_nqn, request.nsid, !request.auto_resize);
    let doing = format!("Failure setting auto resize flag for namespace {nsid} in {nqn}");
    let namespace = find_namespace(&native, nqn, nsid, &doing).await?;
    if namespace.disable_auto_resize != disable {
        let patched = native.patch_namespace(nqn, nsid, json!({ "disable_auto_resize": disable })).await;
        patched.map_err(|failed| invalid(failed).amid(doing))?;
    }
    Ok(ReqStatus::default())
}

pub(super) async fn change_location(
    native: Native,
    request: NamespaceChangeLocationReq,
) -> Result<ReqStatus, Failed> {
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let doing = format!("Failure changing location for namespace {nsid} in {nqn}");
    check_given(nsid, &doing)?;
    let namespace = find_namespace(&native, nqn, nsid, &doing).await?;
    let location = Some(request.location()).filter(|location| !location.is_empty());
    if namespace.location.as_deref() == location {
        return Ok(ReqStatus::default());
    }
    check_location(&native, request.location()).await.map_err(|failed| failed.amid(&doing))?;
    let known = native.group().await?;
    let group = namespace.ana_group;
    let owner = owner_elsewhere(known.as_ref(), group);
    if let Some(owner) = owner.filter(|_| moves(known.as_ref(), group, location)) {
        return Err(Failed::new(EEXIST, at_its_owner(owner)).amid(doing));
    }
    let patched = native.patch_namespace(nqn, nsid, json!({ "location": location })).await;
    patched.map_err(|failed| invalid(failed).amid(doing))?;
    Ok(ReqStatus::default())
}

/// True if a namespace in this load-balancing group goes to another one when it is to prefer this location.
fn moves(known: Option<&GroupStatus>, group: u32, location: Option<&str>) -> bool {
    let mut groups = known.into_iter().flat_map(|known| &known.load_balancing_groups);
    let present = groups.find(|present| present.id == group);
    location.is_some() && present.is_some_and(|present| present.location.as_deref() != location)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_that_serves_a_namespace_is_named_by_the_others() {
        let group = |id: u32, owner: Option<&str>, is_served_here: bool| {
            json!({
                "id": id, "preferred": "a", "owner": owner, "state": "serving", "namespaces": 1,
                "is_served_here": is_served_here,
            })
        };
        let known = json!({
            "group": "rbd/gw", "gateway": "a", "has_lease": true, "version": 1, "gateways": [],
            "load_balancing_groups": [group(1, Some("a"), true), group(2, Some("b"), false), group(3, None, false)],
        });
        let known: GroupStatus = serde_json::from_value(known).unwrap();
        let owners = [1, 2, 3, 4].map(|group| owner_elsewhere(Some(&known), group));
        assert_eq!(owners, [None, Some("b"), None, None]);
        assert_eq!(owner_elsewhere(None, 1), None);
    }

    #[test]
    fn a_namespace_moves_when_its_group_is_at_another_location() {
        let group = |id: u32, location: Option<&str>| {
            json!({
                "id": id, "preferred": "a", "location": location, "owner": "a", "state": "serving", "namespaces": 1,
                "is_served_here": true,
            })
        };
        let known = json!({
            "group": "rbd/gw", "gateway": "a", "has_lease": true, "version": 1, "gateways": [],
            "load_balancing_groups": [group(1, Some("east")), group(2, Some("west")), group(3, None)],
        });
        let known: GroupStatus = serde_json::from_value(known).unwrap();
        let moved = |location| [1, 2, 3, 4].map(|group| moves(Some(&known), group, location));
        assert_eq!(moved(Some("east")), [false, true, true, false]);
        assert_eq!(moved(None), [false; 4]);
    }
}
