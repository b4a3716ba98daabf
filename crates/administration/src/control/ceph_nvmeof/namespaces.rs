//! Calls about namespaces: which there are, new ones, and those that go.

use ceph_nvmeof::{
    ListNamespacesReq, NamespaceAddReq, NamespaceCli, NamespaceDeleteReq, NamespacesInfo, NsidStatus,
    ReqStatus,
};
use engine::backend::{BackendConfig, RbdConfig};
use engine::limits::NAMESPACES_MAX;
use engine::target::{NamespaceConfig, SubsystemConfig, Visibility};
use gateway::{GatewayStatus, Membership};
use libc::{E2BIG, EEXIST, EINVAL, ENODEV, ENOENT, EOPNOTSUPP};
use serde_json::{Value, json};

use super::failed::{Failed, check_room};
use super::native::{NamespaceSizes, Native, Refused, find, of_namespace, of_subsystem};

/// Every subsystem.
const ALL: &str = "*";
const MIB: u64 = 1 << 20;

pub(super) async fn add(native: Native, request: NamespaceAddReq) -> Result<NsidStatus, Failed> {
    let nqn = &request.subsystem_nqn;
    let number = request.nsid.map_or_else(String::new, |nsid| format!("{nsid} "));
    let failed = |failed: Failed| failed.amid(format_args!("Failure adding namespace {number}to {nqn}"));
    if nqn.is_empty() {
        return Err(failed(Failed::new(EINVAL, "missing subsystem NQN")));
    }
    let subsystems = native.subsystems().await.map_err(failed)?;
    let subsystem = subsystems.iter().find(|subsystem| subsystem.nqn == *nqn);
    let subsystem = subsystem.ok_or_else(|| failed(Failed::new(ENOENT, "No such subsystem")))?;
    check_image(&request).map_err(failed)?;
    check_location(&native, request.location()).await.map_err(failed)?;
    check_free(&subsystems, subsystem, &request).map_err(failed)?;
    if let Some(group) = request.anagrpid.filter(|group| *group != 0) {
        check_group(&native, group).await.map_err(failed)?;
    }
    let path = format!("{}/namespaces", of_subsystem(nqn));
    let create = request.create_image();
    let added = match native.ask("POST", &path, Some(body(&native, &request, create))).await {
        // An image of the same size may be there, as after an attempt whose answer was lost.
        Err(refused) if create && refused.status == 409 && !refused.is_outdated => {
            add_existing(&native, &path, &request, refused).await
        }
        added => added.map_err(without_image),
    };
    let added = added.map_err(failed)?;
    let nsid = added["nsid"].as_u64().and_then(|nsid| u32::try_from(nsid).ok());
    let nsid = nsid.ok_or_else(|| failed(Failed::new(EINVAL, "it has no number")))?;
    Ok(NsidStatus { nsid, ..NsidStatus::default() })
}

/// Adds a namespace on an image that is there, unless that has another size than was asked for.
async fn add_existing(
    native: &Native,
    path: &str,
    request: &NamespaceAddReq,
    refused: Refused,
) -> Result<Value, Failed> {
    let added = match native.ask("POST", path, Some(body(native, request, false))).await {
        Err(second) if second.is_outdated => return Err(second.into()),
        Err(_) => return Err(without_image(refused)),
        Ok(added) => added,
    };
    let Some(nsid) = added["nsid"].as_u64().and_then(|nsid| u32::try_from(nsid).ok()) else {
        return Ok(added);
    };
    let nqn = &request.subsystem_nqn;
    let size = native.sizes().await.ok().and_then(|sizes| sizes.get(&(nqn.clone(), nsid)).copied());
    if size.is_none_or(|size| size == request.size()) {
        return Ok(added);
    }
    native.take_back(&of_namespace(nqn, nsid)).await?;
    Err(without_image(refused))
}

/// Failure of an addition: ENODEV if the image is missing or in use.
fn without_image(refused: Refused) -> Failed {
    match refused.status {
        404 | 409 if !refused.is_outdated => Failed::new(ENODEV, refused.what),
        _ => refused.into(),
    }
}

fn body(native: &Native, request: &NamespaceAddReq, create: bool) -> Value {
    let (pool, rados) = place(request);
    let mut image = json!({ "pool": pool, "image": request.rbd_image_name });
    if !rados.is_empty() {
        image["namespace"] = rados.into();
    }
    // A group's images are in its cluster.
    if let Some(group) = native.administration.membership().map(Membership::spec) {
        if let Some(conf) = &group.conf {
            image["conf"] = json!(conf);
        }
        if let Some(id) = &group.id {
            image["id"] = id.as_str().into();
        }
    }
    let mut body = json!({ "backend": { "rbd": image }, "block_size": request.block_size });
    if let Some(nsid) = request.nsid.filter(|nsid| *nsid != 0) {
        body["nsid"] = nsid.into();
    }
    if let Some(uuid) = request.uuid.as_ref().filter(|uuid| !uuid.is_empty()) {
        body["uuid"] = uuid.as_str().into();
    }
    if let Some(group) = request.anagrpid.filter(|group| *group != 0) {
        body["ana_group"] = group.into();
    }
    if !request.location().is_empty() {
        body["location"] = request.location().into();
    }
    if request.no_auto_visible() {
        body["visible"] = json!({ "only": [] });
    }
    if request.read_only() {
        body["write_protection"] = "on".into();
    }
    // An image that was there before may be another program's, and stays when the namespace goes.
    let flags = [
        ("trash_image", create && request.trash_image()),
        ("disable_auto_resize", request.disable_auto_resize()),
    ];
    for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
        body[name] = true.into();
    }
    if create {
        body["create_image"] = json!({ "size": request.size(), "data_pool": request.rbd_data_pool_name });
    }
    body
}

/// The pool and the namespace in it that a request names. Clients of older versions write both as one.
fn place(request: &NamespaceAddReq) -> (&str, &str) {
    let (pool, rados) = request.rbd_pool_name.split_once('/').unwrap_or((&request.rbd_pool_name, ""));
    (pool, request.rados_namespace_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(rados))
}

fn check_image(request: &NamespaceAddReq) -> Result<(), Failed> {
    let wrong = |errno, what: &str| Err(Failed::new(errno, what));
    if request.rbd_pool_name.is_empty() || request.rbd_image_name.is_empty() {
        return wrong(ENODEV, "empty RBD pool or image name");
    }
    if request.block_size == 0 {
        return wrong(EINVAL, "block size can't be zero");
    }
    if !request.encryption_entries.is_empty() || request.encryption_algorithm() != 0 {
        let what = "keys of encrypted images come from files; `selvedge namespace add rbd:...,encryption=` names them";
        return wrong(EOPNOTSUPP, what);
    }
    if request.create_image() && request.size() == 0 {
        return wrong(EINVAL, "image size must be positive");
    }
    if request.create_image() && !request.size().is_multiple_of(MIB) {
        return wrong(EINVAL, "image size must be aligned to MiBs");
    }
    Ok(())
}

/// Refuses a number, a UUID or an image that is in use, and a namespace beyond the limit.
fn check_free(
    subsystems: &[SubsystemConfig],
    subsystem: &SubsystemConfig,
    request: &NamespaceAddReq,
) -> Result<(), Failed> {
    let taken = |what: String| Err(Failed::new(EEXIST, what));
    if let Some(nsid) = request.nsid.filter(|nsid| find(subsystem, *nsid).is_some()) {
        return taken(format!("ID {nsid} is already in use"));
    }
    let has_uuid = |uuid: &&String| {
        let known = subsystem.namespaces.iter().filter_map(|namespace| namespace.uuid);
        uuid::Uuid::parse_str(uuid).is_ok_and(|uuid| known.into_iter().any(|known| known == uuid))
    };
    if let Some(uuid) = request.uuid.as_ref().filter(has_uuid) {
        return taken(format!("UUID {uuid} is already in use"));
    }
    let (pool, rados) = place(request);
    let wanted = (pool, rados, request.rbd_image_name.as_str());
    let is_it = |namespace: &NamespaceConfig| {
        image_of(namespace).is_some_and(|image| (&*image.pool, &*image.namespace, &*image.image) == wanted)
    };
    if let Some(other) = subsystems.iter().find(|other| other.namespaces.iter().any(is_it)) {
        return taken(format!(
            "RBD image {pool}/{} is already used by a namespace in subsystem {}",
            request.rbd_image_name, other.nqn
        ));
    }
    if let Some(nsid) = request.nsid.filter(|nsid| *nsid > NAMESPACES_MAX) {
        return Err(Failed::new(E2BIG, format!("ID {nsid} is larger than {NAMESPACES_MAX}")));
    }
    let most = usize::try_from(NAMESPACES_MAX).unwrap_or(usize::MAX);
    check_room(subsystem.namespaces.len(), most, "namespaces")
}

/// Refuses a location that no gateway of the group has.
pub(super) async fn check_location(native: &Native, location: &str) -> Result<(), Failed> {
    let is_there = |gateway: &GatewayStatus| gateway.location.as_deref() == Some(location);
    if location.is_empty() || native.group().await?.is_some_and(|group| group.gateways.iter().any(is_there)) {
        return Ok(());
    }
    Err(Failed::new(ENODEV, format!("invalid location {location}: no gateway has it")))
}

/// Refuses a load-balancing group that there is not.
pub(super) async fn check_group(native: &Native, group: i32) -> Result<(), Failed> {
    let known: Vec<u32> = match native.group().await? {
        Some(known) => known.load_balancing_groups.iter().map(|group| group.id).collect(),
        None => vec![1],
    };
    if u32::try_from(group).is_ok_and(|group| known.contains(&group)) {
        return Ok(());
    }
    Err(Failed::new(ENODEV, format!("Load balancing group {group} doesn't exist")))
}

pub(super) async fn delete(native: Native, request: NamespaceDeleteReq) -> Result<ReqStatus, Failed> {
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let namespace = find_namespace(&native, nqn, nsid, &format!("Failure deleting namespace {nsid}")).await?;
    let failed = |failed: Failed| failed.amid(format_args!("Failure deleting namespace {nsid} from {nqn}"));
    if trashes_image(&namespace) && !request.i_am_sure() {
        let what = "Confirmation for trashing RBD image is needed: either use the \"--i-am-sure\" parameter, or reset the flag \
                    by `namespace set_rbd_trash_image`";
        return Err(failed(Failed::new(EINVAL, what)));
    }
    remove(&native, nqn, &namespace).await.map_err(|refused| failed(refused.into()))?;
    Ok(ReqStatus::default())
}

/// True if the image of a namespace goes to the trash with it.
pub(super) fn trashes_image(namespace: &NamespaceConfig) -> bool {
    namespace.trash_image && image_of(namespace).is_some()
}

/// Removes a namespace, and moves its image to the trash if it says so.
pub(super) async fn remove(native: &Native, nqn: &str, namespace: &NamespaceConfig) -> Result<(), Refused> {
    let query = if trashes_image(namespace) { "?trash_image=true" } else { "" };
    let path = format!("{}{query}", of_namespace(nqn, namespace.nsid));
    native.ask("DELETE", &path, None).await.map(drop)
}

/// The namespace that a call is about, or what is said where it is not there.
pub(super) async fn find_namespace(
    native: &Native,
    nqn: &str,
    nsid: u32,
    doing: &str,
) -> Result<NamespaceConfig, Failed> {
    if nsid == 0 {
        return Err(Failed::new(EINVAL, "missing ID").amid(doing));
    }
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(|failed| failed.amid(doing))?;
    find(&subsystem, nsid).cloned().ok_or_else(|| Failed::new(ENODEV, "Can't find namespace").amid(doing))
}

pub(super) async fn list(native: Native, request: ListNamespacesReq) -> Result<NamespacesInfo, Failed> {
    let wants_all = request.subsystem.is_empty() || request.subsystem == ALL;
    let mut subsystems = native.subsystems().await?;
    subsystems.retain(|subsystem| wants_all || subsystem.nqn == request.subsystem);
    if subsystems.is_empty() && !wants_all {
        return Err(Failed::new(ENODEV, "Failure listing namespaces: No such device"));
    }
    // No namespace has a UUID that is none.
    let uuid = request.uuid.as_deref().filter(|uuid| !uuid.is_empty());
    let uuid = uuid.map(|uuid| uuid::Uuid::parse_str(uuid).ok());
    let is_wanted = |namespace: &&NamespaceConfig| {
        request.nsid.is_none_or(|nsid| nsid == 0 || nsid == namespace.nsid)
            && uuid.is_none_or(|uuid| uuid.is_some() && namespace.uuid == uuid)
    };
    let sizes = native.sizes().await?;
    let of = |subsystem: &SubsystemConfig| {
        let wanted = subsystem.namespaces.iter().filter(is_wanted);
        wanted.map(|namespace| shown(subsystem, namespace, &sizes)).collect::<Vec<_>>()
    };
    let namespaces = subsystems.iter().flat_map(of).collect();
    let subsystem_nqn = if wants_all { ALL.to_owned() } else { request.subsystem };
    Ok(NamespacesInfo { subsystem_nqn, namespaces, ..NamespacesInfo::default() })
}

fn shown(subsystem: &SubsystemConfig, namespace: &NamespaceConfig, sizes: &NamespaceSizes) -> NamespaceCli {
    let image = image_of(namespace);
    let limit = |limit: Option<u64>| limit.unwrap_or_default();
    let mib = |limit: Option<u64>| limit.map_or(0, |bytes| bytes.div_ceil(MIB));
    NamespaceCli {
        nsid: namespace.nsid,
        bdev_name: bdev_name(namespace),
        rbd_image_name: image.map(|image| image.image.clone()).unwrap_or_default(),
        rbd_pool_name: image.map(|image| image.pool.clone()).unwrap_or_default(),
        load_balancing_group: namespace.ana_group,
        block_size: namespace.block_size,
        rbd_image_size: sizes.get(&(subsystem.nqn.clone(), namespace.nsid)).copied().unwrap_or_default(),
        uuid: namespace.uuid.map(|uuid| uuid.to_string()).unwrap_or_default(),
        rw_ios_per_second: limit(namespace.qos.iops),
        rw_mbytes_per_second: mib(namespace.qos.bytes),
        r_mbytes_per_second: mib(namespace.qos.read_bytes),
        w_mbytes_per_second: mib(namespace.qos.write_bytes),
        auto_visible: is_visible_to_all(namespace),
        hosts: hosts_of(namespace),
        ns_subsystem_nqn: Some(subsystem.nqn.clone()),
        trash_image: Some(namespace.trash_image),
        disable_auto_resize: Some(namespace.disable_auto_resize),
        read_only: Some(!namespace.write_protection.is_none()),
        configured_load_balancing_group: Some(namespace.ana_group),
        location: namespace.location.clone(),
        rados_namespace_name: image.map(|image| image.namespace.clone()),
        ..NamespaceCli::default()
    }
}

fn image_of(namespace: &NamespaceConfig) -> Option<&RbdConfig> {
    match &namespace.backend {
        BackendConfig::Rbd(image) => Some(image),
        _ => None,
    }
}

/// Name of the namespace's bdev, as ceph-nvmeof's tools expect one.
pub(super) fn bdev_name(namespace: &NamespaceConfig) -> String {
    namespace.uuid.map(|uuid| format!("bdev_{uuid}")).unwrap_or_default()
}

pub(super) const fn is_visible_to_all(namespace: &NamespaceConfig) -> bool {
    matches!(namespace.visible, Visibility::AllExcept(_))
}

/// Hosts that see a namespace which not all see.
pub(super) fn hosts_of(namespace: &NamespaceConfig) -> Vec<String> {
    match &namespace.visible {
        Visibility::Only(hosts) => hosts.clone(),
        Visibility::AllExcept(_) => Vec::new(),
    }
}
