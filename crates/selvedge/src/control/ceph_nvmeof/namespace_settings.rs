//! Calls about what a namespace is like: its size, its limits, who sees it, what was done with it.

use std::time::SystemTime;

use ceph_nvmeof::{
    NamespaceAddHostReq, NamespaceChangeLoadBalancingGroupReq, NamespaceChangeVisibilityReq,
    NamespaceDeleteHostReq, NamespaceGetIoStatsReq, NamespaceIoError, NamespaceIoStatsInfo,
    NamespaceResizeReq, NamespaceSetQosReq, NamespaceSetRbdTrashImageReq, ReqStatus,
};
use engine::target::{Metrics, NamespaceMetrics, Operation, Visibility};
use gateway::LoadBalancingStatus;
use libc::{EBUSY, EEXIST, EINVAL, ENODEV, EOPNOTSUPP};
use serde_json::{Value, json};

use super::failed::Failed;
use super::namespaces::{bdev_name, check_group, find_namespace};
use super::native::Native;

/// Ticks in a second: one is a nanosecond.
const TICK_RATE: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

pub(super) async fn resize(native: Native, request: NamespaceResizeReq) -> Result<ReqStatus, Failed> {
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let doing = format!("Failure resizing namespace {nsid} on {nqn}");
    if request.new_size == 0 {
        return Err(Failed::new(EINVAL, "New size must be positive").amid(doing));
    }
    find_namespace(&native, nqn, nsid, &doing).await?;
    // It comes in MiB.
    let size = request.new_size.saturating_mul(MIB);
    let resized = native.patch_namespace(nqn, nsid, json!({ "size": size })).await;
    resized.map_err(|failed| invalid(failed).amid(doing))?;
    Ok(ReqStatus::default())
}

/// Turns "exists already" into "invalid", since a setting cannot exist already.
fn invalid(failed: Failed) -> Failed {
    if failed.errno == EEXIST { Failed { errno: EINVAL, ..failed } } else { failed }
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
    let namespace = find_namespace(&native, nqn, nsid, &doing).await?;
    check_group(&native, group).await.map_err(|failed| failed.amid(&doing))?;
    // The gateway that serves it has to release its image first.
    let known = native.group().await?;
    let is_its = |known: &&LoadBalancingStatus| known.id == namespace.ana_group;
    let owned = known.as_ref().and_then(|known| known.load_balancing_groups.iter().find(is_its));
    if let Some(owner) = owned.filter(|owned| !owned.is_served_here).and_then(|owned| owned.owner.as_ref()) {
        let what = format!("it is owned by gateway {owner} so try this command from it");
        return Err(Failed::new(EEXIST, what).amid(doing));
    }
    let patched = native.patch_namespace(nqn, nsid, json!({ "ana_group": group })).await;
    patched.map_err(|failed| invalid(failed).amid(doing))?;
    Ok(ReqStatus::default())
}

pub(super) async fn change_visibility(
    native: Native,
    request: NamespaceChangeVisibilityReq,
) -> Result<ReqStatus, Failed> {
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let doing = format!("Failure changing visibility for namespace {nsid} in {nqn}");
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
    let patched = native.patch_namespace(nqn, nsid, json!({ "visible": visible })).await;
    patched.map_err(|failed| invalid(failed).amid(doing))?;
    Ok(ReqStatus::default())
}

pub(super) async fn add_host(native: Native, request: NamespaceAddHostReq) -> Result<ReqStatus, Failed> {
    let (nqn, nsid, host) = (&request.subsystem_nqn, request.nsid, &request.host_nqn);
    let doing = format!("Failure adding host {host} to namespace {nsid} on {nqn}");
    let mut hosts = hosts(&native, nqn, nsid, host, &doing).await?;
    if !hosts.contains(host) {
        hosts.push(host.clone());
        let patched = native.patch_namespace(nqn, nsid, json!({ "visible": only(&hosts) })).await;
        patched.map_err(|failed| invalid(failed).amid(doing))?;
    }
    Ok(ReqStatus::default())
}

pub(super) async fn delete_host(
    native: Native,
    request: NamespaceDeleteHostReq,
) -> Result<ReqStatus, Failed> {
    let (nqn, nsid, host) = (&request.subsystem_nqn, request.nsid, &request.host_nqn);
    let doing = format!("Failure deleting host {host} from namespace {nsid} on {nqn}");
    let mut hosts = hosts(&native, nqn, nsid, host, &doing).await?;
    if !hosts.contains(host) {
        return Err(Failed::new(ENODEV, "Host is not found in namespace's host list").amid(doing));
    }
    hosts.retain(|known| known != host);
    let patched = native.patch_namespace(nqn, nsid, json!({ "visible": only(&hosts) })).await;
    patched.map_err(|failed| invalid(failed).amid(doing))?;
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
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let doing = format!("Failure setting the RBD trash image flag for namespace {nsid} on {nqn}");
    find_namespace(&native, nqn, nsid, &doing).await?;
    if request.trash_image {
        let what =
            "images stay when their namespaces go; `selvedge namespace remove --trash-image` has one moved";
        return Err(Failed::new(EOPNOTSUPP, what).amid(doing));
    }
    Ok(ReqStatus::default())
}

pub(super) async fn io_stats(
    native: Native,
    request: NamespaceGetIoStatsReq,
) -> Result<NamespaceIoStatsInfo, Failed> {
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let doing = format!("Failure getting IO stats for namespace {nsid} on {nqn}");
    let namespace = find_namespace(&native, nqn, nsid, &doing).await?;
    let metrics = native.metrics().await?;
    let of_subsystem = metrics.subsystems.iter().find(|subsystem| subsystem.nqn == *nqn);
    let counted = of_subsystem.and_then(|of| of.namespaces.iter().find(|counted| counted.nsid == nsid));
    let counted = counted.ok_or_else(|| Failed::new(ENODEV, "nothing is counted of it").amid(doing))?;
    Ok(NamespaceIoStatsInfo {
        subsystem_nqn: nqn.clone(),
        nsid,
        uuid: namespace.uuid.map(|uuid| uuid.to_string()),
        bdev_name: bdev_name(&namespace),
        ..stats(&metrics, counted)
    })
}

fn stats(metrics: &Metrics, counted: &NamespaceMetrics) -> NamespaceIoStatsInfo {
    // Commands, bytes and nanoseconds.
    let of = |operation: Operation| {
        let known = counted.operations.iter().find(|known| known.operation == operation);
        known.map_or((0, 0, 0), |known| (known.commands(), known.bytes, known.latency.sum_ns))
    };
    let (read, write) = (of(Operation::Read), of(Operation::Write));
    let (unmap, copy) = (of(Operation::DatasetManagement), of(Operation::Copy));
    let since = SystemTime::now().duration_since(metrics.started).unwrap_or_default();
    let errors: u64 = counted.errors.iter().map(|error| error.commands).sum();
    NamespaceIoStatsInfo {
        tick_rate: TICK_RATE,
        ticks: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        num_read_ops: read.0,
        bytes_read: read.1,
        read_latency_ticks: read.2,
        num_write_ops: write.0,
        bytes_written: write.1,
        write_latency_ticks: write.2,
        num_unmap_ops: unmap.0,
        unmap_latency_ticks: unmap.2,
        copy_latency_ticks: copy.2,
        io_error: Vec::from_iter((errors > 0).then(|| NamespaceIoError {
            name: "failed commands".to_owned(),
            value: u32::try_from(errors).unwrap_or(u32::MAX),
        })),
        ..NamespaceIoStatsInfo::default()
    }
}
