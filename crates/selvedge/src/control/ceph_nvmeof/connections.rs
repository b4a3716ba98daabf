//! Calls about hosts that are connected.

use ceph_nvmeof::{Connection, ConnectionsInfo, ListConnectionsReq};
use engine::target::{PortConfig, SubsystemConfig};
use libc::ENODEV;
use serde::Deserialize;

use super::failed::Failed;
use super::hosts::host_of;
use super::listeners::listeners_of;
use super::native::Native;

/// Address of a host that is not connected.
const NOWHERE: &str = "<n/a>";

/// A controller, as the control API shows it.
#[derive(Deserialize)]
struct Controller {
    cntlid: u16,
    subsystem: String,
    host_nqn: String,
    port: u16,
    ending: bool,
    queues: Vec<Queue>,
}

#[derive(Deserialize)]
struct Queue {
    id: u16,
    tls: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Controllers {
    controllers: Vec<Controller>,
}

pub(super) async fn list(native: Native, request: ListConnectionsReq) -> Result<ConnectionsInfo, Failed> {
    let nqn = &request.subsystem;
    let failed = |failed: Failed| failed.amid("Failure listing connections");
    let subsystem = native.subsystem(nqn, ENODEV).await.map_err(failed)?;
    let shown = native.ask("GET", "/v1/connections", None).await.map_err(|refused| failed(refused.into()))?;
    let shown: Controllers =
        serde_json::from_value(shown).map_err(|error| failed(Failed::new(libc::EIO, error.to_string())))?;
    let ports = native.ports().await?;
    let is_its = |controller: &&Controller| controller.subsystem == *nqn && !controller.ending;
    let connected: Vec<&Controller> = shown.controllers.iter().filter(is_its).collect();
    let is_away = |host: &&String| !connected.iter().any(|controller| controller.host_nqn == **host);
    let away = subsystem.hosts.iter().filter(is_away).map(|host| away(&subsystem, host));
    let here = connected.iter().map(|controller| here(&subsystem, &ports, controller));
    let connections = here.chain(away).collect();
    Ok(ConnectionsInfo { subsystem_nqn: nqn.clone(), connections, ..ConnectionsInfo::default() })
}

fn here(subsystem: &SubsystemConfig, ports: &[PortConfig], controller: &Controller) -> Connection {
    let port: Vec<PortConfig> = ports.iter().filter(|port| port.id == controller.port).cloned().collect();
    let listener = listeners_of(&port, "", subsystem).pop().unwrap_or_default();
    let host = host_of(subsystem, &controller.host_nqn);
    let queues = controller.queues.iter().filter(|queue| queue.id > 0).count();
    Connection {
        nqn: controller.host_nqn.clone(),
        traddr: listener.traddr,
        trsvcid: listener.trsvcid,
        trtype: "TCP".to_owned(),
        adrfam: listener.adrfam,
        connected: true,
        qpairs_count: i32::try_from(queues).unwrap_or(i32::MAX),
        controller_id: controller.cntlid.into(),
        secure: Some(controller.queues.iter().any(|queue| queue.tls.is_some())),
        use_psk: host.use_psk,
        use_dhchap: host.use_dhchap,
    }
}

fn away(subsystem: &SubsystemConfig, host: &str) -> Connection {
    let keys = host_of(subsystem, host);
    Connection {
        nqn: host.to_owned(),
        traddr: NOWHERE.to_owned(),
        trtype: "TCP".to_owned(),
        qpairs_count: -1,
        controller_id: -1,
        secure: Some(false),
        use_psk: keys.use_psk,
        use_dhchap: keys.use_dhchap,
        ..Connection::default()
    }
}
