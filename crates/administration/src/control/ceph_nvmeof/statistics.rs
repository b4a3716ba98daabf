//! Calls about what was done: by namespace, by host, and by reactor, for which ceph-nvmeof has poll groups and threads.

use std::time::SystemTime;

use ceph_nvmeof::{
    BdevIoStatsInfo, ConnectionIoStatistics, GatewayStatsInfo, GetConnectionIoStatisticsReq,
    GetGatewayStatsReq, GetThreadStatsReq, ListNamespacesIoStatsInfo, ListNamespacesIoStatsReq,
    NamespaceGetIoStatsReq, NamespaceIoError, NamespaceIoStatsInfo, PollGroupInfo, PollGroupTransportInfo,
    ReqStatus, SetGatewayIoStatsModeReq, SpdkThreadInfo, ThreadStatsInfo,
};
use engine::target::{Metrics, NamespaceConfig, NamespaceMetrics, Operation, QueueMetrics};
use libc::{EINVAL, ENODEV, ENOENT, EOPNOTSUPP};

use super::controllers::{Controller, controllers_of, is_connected};
use super::failed::Failed;
use super::namespaces::{bdev_name, find_namespace};
use super::native::Native;

/// Ticks in a second: one is a nanosecond.
const TICK_RATE: u64 = 1_000_000_000;

pub(super) async fn of_namespace(
    native: Native,
    request: NamespaceGetIoStatsReq,
) -> Result<NamespaceIoStatsInfo, Failed> {
    let (nqn, nsid) = (&request.subsystem_nqn, request.nsid);
    let doing = format!("Failure getting IO stats for namespace {nsid} on {nqn}");
    let namespace = find_namespace(&native, nqn, nsid, &doing).await?;
    let metrics = native.metrics().await?;
    let counted = counted(&metrics, nqn, nsid);
    let counted = counted.ok_or_else(|| Failed::new(ENODEV, "nothing is counted of it").amid(doing))?;
    let stats = stats(&namespace, counted);
    Ok(NamespaceIoStatsInfo {
        subsystem_nqn: nqn.clone(),
        nsid,
        uuid: namespace.uuid.map(|uuid| uuid.to_string()),
        bdev_name: stats.bdev_name,
        tick_rate: TICK_RATE,
        ticks: ticks_since(metrics.started),
        bytes_read: stats.bytes_read,
        num_read_ops: stats.num_read_ops,
        bytes_written: stats.bytes_written,
        num_write_ops: stats.num_write_ops,
        num_unmap_ops: stats.num_unmap_ops,
        read_latency_ticks: stats.read_latency_ticks,
        write_latency_ticks: stats.write_latency_ticks,
        unmap_latency_ticks: stats.unmap_latency_ticks,
        copy_latency_ticks: stats.copy_latency_ticks,
        io_error: stats.io_error,
        ..NamespaceIoStatsInfo::default()
    })
}

pub(super) async fn of_namespaces(
    native: Native,
    request: ListNamespacesIoStatsReq,
) -> Result<ListNamespacesIoStatsInfo, Failed> {
    let doing = "Failure listing IO stats for namespaces";
    let missing = |what: &str| Err(Failed::new(EINVAL, what).amid(doing));
    let nqn = request.subsystem_nqn.as_deref().filter(|nqn| !nqn.is_empty());
    let wanted = match (nqn, request.nsid.filter(|nsid| *nsid != 0)) {
        (None, None) => None,
        (Some(nqn), Some(nsid)) => {
            find_namespace(&native, nqn, nsid, doing).await?;
            Some((nqn, nsid))
        }
        (Some(_), None) => return missing("missing ID"),
        (None, Some(_)) => return missing("missing subsystem NQN"),
    };
    let subsystems = native.subsystems().await.map_err(|failed| failed.amid(doing))?;
    let metrics = native.metrics().await?;
    let all = subsystems.iter().flat_map(|subsystem| {
        let is_wanted = |namespace: &&NamespaceConfig| {
            wanted.is_none_or(|wanted| wanted == (subsystem.nqn.as_str(), namespace.nsid))
        };
        let namespaces = subsystem.namespaces.iter().filter(is_wanted);
        let shown = namespaces.filter_map(|namespace| {
            Some(stats(namespace, counted(&metrics, &subsystem.nqn, namespace.nsid)?))
        });
        shown.collect::<Vec<BdevIoStatsInfo>>()
    });
    Ok(ListNamespacesIoStatsInfo {
        tick_rate: TICK_RATE,
        ticks: ticks_since(metrics.started),
        namespaces: all.collect(),
        ..ListNamespacesIoStatsInfo::default()
    })
}

fn counted<'a>(metrics: &'a Metrics, nqn: &str, nsid: u32) -> Option<&'a NamespaceMetrics> {
    let subsystem = metrics.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)?;
    subsystem.namespace(nsid)
}

/// Work on a namespace since the gateway started. The shortest and the longest times are not kept.
fn stats(namespace: &NamespaceConfig, counted: &NamespaceMetrics) -> BdevIoStatsInfo {
    // Commands, bytes and nanoseconds.
    let of = |operation: Operation| {
        let known = counted.operations.iter().find(|known| known.operation == operation);
        known.map_or((0, 0, 0), |known| (known.commands(), known.bytes, known.latency.sum_ns))
    };
    let (read, write) = (of(Operation::Read), of(Operation::Write));
    let (unmap, copy) = (of(Operation::DatasetManagement), of(Operation::Copy));
    let errors: u64 = counted.errors.iter().map(|error| error.commands).sum();
    BdevIoStatsInfo {
        bdev_name: bdev_name(namespace),
        num_read_ops: read.0,
        bytes_read: read.1,
        read_latency_ticks: read.2,
        num_write_ops: write.0,
        bytes_written: write.1,
        write_latency_ticks: write.2,
        num_unmap_ops: unmap.0,
        unmap_latency_ticks: unmap.2,
        num_copy_ops: copy.0,
        copy_latency_ticks: copy.2,
        io_error: Vec::from_iter((errors > 0).then(|| NamespaceIoError {
            name: "failed commands".to_owned(),
            value: u32::try_from(errors).unwrap_or(u32::MAX),
        })),
        ..BdevIoStatsInfo::default()
    }
}

fn ticks_since(started: SystemTime) -> u64 {
    let since = SystemTime::now().duration_since(started).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Commands of a host on a subsystem. Their times are kept by namespace, and not by host.
pub(super) async fn of_connection(
    native: Native,
    request: GetConnectionIoStatisticsReq,
) -> Result<ConnectionIoStatistics, Failed> {
    let (nqn, host) = (&request.subsystem_nqn, &request.host_nqn);
    let doing = format!("Failure getting IO statistics for host {host} on subsystem {nqn}");
    let failed = |failed: Failed| failed.amid(&doing);
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(failed)?;
    if host == "*" {
        return Err(failed(Failed::new(EINVAL, "Must specify a specific host NQN, \"*\" is invalid")));
    }
    if !subsystem.lets_stay(host) {
        return Err(failed(Failed::new(ENODEV, "Host is not allowed to access subsystem")));
    }
    if !is_connected(&controllers_of(&native).await.map_err(failed)?, nqn, host) {
        return Err(failed(Failed::new(ENODEV, "Host is not connected")));
    }
    if request.reset() {
        let what = "counters begin with the connection, and are not reset";
        return Err(failed(Failed::new(EOPNOTSUPP, what)));
    }
    let metrics = native.metrics().await?;
    let of_host =
        metrics.controllers.iter().filter(|known| known.subsystem == *nqn && known.host_nqn == *host);
    let commands: u64 = of_host.flat_map(|known| &known.queues).map(|queue| queue.commands).sum();
    Ok(ConnectionIoStatistics {
        subsystem_nqn: nqn.clone(),
        host_nqn: host.clone(),
        total_num_ios: Some(commands),
        ..ConnectionIoStatistics::default()
    })
}

/// Statistics are always kept.
pub(super) async fn set_mode(native: Native, request: SetGatewayIoStatsModeReq) -> Result<ReqStatus, Failed> {
    native.ports().await?;
    if request.enabled {
        return Ok(ReqStatus::default());
    }
    let doing = "Failure setting gateway's IO statistics mode to \"off\"";
    Err(Failed::new(EOPNOTSUPP, "commands are always counted, at no cost to them").amid(doing))
}

pub(super) async fn of_gateway(native: Native, _: GetGatewayStatsReq) -> Result<GatewayStatsInfo, Failed> {
    let doing = "Failure getting gateway's NVMf statistics";
    let controllers = controllers_of(&native).await.map_err(|failed| failed.amid(doing))?;
    let metrics = native.metrics().await?;
    let groups = metrics.reactors.iter().map(|reactor| poll_group(reactor.number, &controllers, &metrics));
    Ok(GatewayStatsInfo {
        tick_rate: TICK_RATE,
        poll_groups: groups.collect(),
        ..GatewayStatsInfo::default()
    })
}

/// Queues that a reactor serves now, and what these have done.
fn poll_group(reactor: usize, controllers: &[Controller], metrics: &Metrics) -> PollGroupInfo {
    let (mut admin, mut io, mut pending, mut completed) = (0_u32, 0_u32, 0_u64, 0_u64);
    for controller in controllers {
        let counted = metrics.controllers.iter().find(|known| known.cntlid == controller.cntlid);
        let counted: &[QueueMetrics] = counted.map_or(&[], |known| known.queues.as_slice());
        for queue in controller.queues.iter().filter(|queue| queue.reactor == reactor) {
            if queue.queue_id == 0 {
                admin += 1;
                continue;
            }
            io += 1;
            if let Some(counted) = counted.iter().find(|counted| counted.queue_id == queue.queue_id) {
                pending += u64::from(counted.depth);
                completed += counted.commands.saturating_sub(u64::from(counted.depth));
            }
        }
    }
    PollGroupInfo {
        name: thread_name(reactor),
        admin_qpairs: admin,
        io_qpairs: io,
        current_admin_qpairs: admin,
        current_io_qpairs: io,
        pending_bdev_io: pending,
        completed_nvme_io: completed,
        transports: vec![PollGroupTransportInfo { trtype: "TCP".to_owned() }],
    }
}

fn thread_name(reactor: usize) -> String {
    format!("reactor-{reactor}")
}

pub(super) async fn of_threads(native: Native, _: GetThreadStatsReq) -> Result<ThreadStatsInfo, Failed> {
    let doing = "Failure getting SPDK thread statistics";
    native.ports().await.map_err(|failed| failed.amid(doing))?;
    let metrics = native.metrics().await?;
    let since = ticks_since(metrics.started);
    let threads = metrics.reactors.iter().map(|reactor| {
        let idle = u64::try_from(reactor.waited.as_nanos()).unwrap_or(u64::MAX);
        SpdkThreadInfo { name: thread_name(reactor.number), busy: since.saturating_sub(idle), idle }
    });
    Ok(ThreadStatsInfo { threads: threads.collect(), tick_rate: TICK_RATE, ..ThreadStatsInfo::default() })
}
