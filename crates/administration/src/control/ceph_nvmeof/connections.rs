//! Calls about hosts that are connected.

use ceph_nvmeof::{Connection, ConnectionsInfo, ListConnectionsReq};
use engine::target::{PortConfig, SubsystemConfig};
use libc::ENODEV;

use super::controllers::{Controller, controllers_of};
use super::failed::Failed;
use super::hosts::host_of;
use super::listeners::listeners_of;
use super::native::Native;

/// Address of a host that is not connected.
const NOWHERE: &str = "<n/a>";
/// Every subsystem.
const ALL: &str = "*";

pub(super) async fn list(native: Native, request: ListConnectionsReq) -> Result<ConnectionsInfo, Failed> {
    let wanted = &request.subsystem;
    let failed = |failed: Failed| failed.amid("Failure listing connections");
    let wants_all = wanted.is_empty() || wanted == ALL;
    let subsystems = match wants_all {
        true => native.subsystems().await.map_err(failed)?,
        false => vec![native.subsystem(wanted, ENODEV).await.map_err(failed)?],
    };
    let controllers = controllers_of(&native).await.map_err(failed)?;
    let ports = native.ports().await?;
    let connections = subsystems.iter().flat_map(|subsystem| of(subsystem, &controllers, &ports)).collect();
    let subsystem_nqn = if wants_all { ALL.to_owned() } else { wanted.clone() };
    Ok(ConnectionsInfo { subsystem_nqn, connections, ..ConnectionsInfo::default() })
}

/// Controllers of a subsystem, and hosts on its list that have none.
fn of(subsystem: &SubsystemConfig, controllers: &[Controller], ports: &[PortConfig]) -> Vec<Connection> {
    let is_its = |controller: &&Controller| controller.subsystem == subsystem.nqn && !controller.ending;
    let connected: Vec<&Controller> = controllers.iter().filter(is_its).collect();
    let is_away = |host: &&String| !connected.iter().any(|controller| controller.host_nqn == **host);
    let away = subsystem.hosts.iter().filter(is_away).map(|host| away(subsystem, host));
    connected.iter().map(|controller| here(subsystem, ports, controller)).chain(away).collect()
}

fn here(subsystem: &SubsystemConfig, ports: &[PortConfig], controller: &Controller) -> Connection {
    let port: Vec<PortConfig> = ports.iter().filter(|port| port.id == controller.port).cloned().collect();
    let listener = listeners_of(&port, "", subsystem).pop().unwrap_or_default();
    let queues = controller.queues.iter().filter(|queue| queue.queue_id > 0).count();
    Connection {
        traddr: listener.traddr,
        trsvcid: listener.trsvcid,
        adrfam: listener.adrfam,
        connected: true,
        qpairs_count: i32::try_from(queues).unwrap_or(i32::MAX),
        controller_id: controller.cntlid.into(),
        secure: Some(controller.queues.iter().any(|queue| queue.tls.is_some())),
        ..named(subsystem, &controller.host_nqn)
    }
}

fn away(subsystem: &SubsystemConfig, host: &str) -> Connection {
    Connection {
        traddr: NOWHERE.to_owned(),
        qpairs_count: -1,
        controller_id: -1,
        secure: Some(false),
        ..named(subsystem, host)
    }
}

/// The part of a connection that follows from the configuration of its host.
fn named(subsystem: &SubsystemConfig, nqn: &str) -> Connection {
    let host = host_of(subsystem, nqn);
    Connection {
        nqn: host.nqn,
        trtype: "TCP".to_owned(),
        use_psk: host.use_psk,
        use_dhchap: host.use_dhchap,
        subsystem: Some(subsystem.nqn.clone()),
        dhchap_controller_origin: host.dhchap_controller_origin,
        host_deleted: Some(subsystem.kept_hosts.iter().any(|kept| kept == nqn)),
        ..Connection::default()
    }
}
