//! Calls about listeners. A gateway's addresses are its own: a listener is a subsystem at one of them.

use std::net::IpAddr;

use ceph_nvmeof::{
    AddressFamily, AnaGroupState, AnaInfo, AnaState, CreateListenerReq, DeleteListenerReq,
    GatewayListenerInfo, GatewayListenersInfo, ListListenersReq, ListenerInfo, ListenersInfo, ReqStatus,
    ShowGatewayListenersInfoReq,
};
use engine::address::{HostAddress, NetAddress};
use engine::target::{
    AnaGroupConfig, GroupState, HostKeyConfig, NO_PORT, NetworkMask, PortConfig, SubsystemConfig, TlsUse,
};
use gateway::GroupStatus;
use libc::{EADDRINUSE, EADDRNOTAVAIL, EEXIST, EINVAL, ENODEV, ENOENT, ENOTEMPTY, EOPNOTSUPP, EPERM};
use serde::Deserialize;
use serde_json::json;

use super::failed::Failed;
use super::gateway::host_name;
use super::native::{Native, of_subsystem};

/// Port of a listener for which no other is given, and of a secure one.
const SERVICE: u32 = 4420;
const SECURE_SERVICE: u32 = 4421;

#[derive(Deserialize)]
struct AnaGroups {
    ana_groups: Vec<AnaGroupConfig>,
}

/// Listener of a gateway, with its port, as a call may name it.
pub(super) struct PortListener {
    /// The number of its port.
    port: u16,
    pub(super) listener: ListenerInfo,
}

/// Listeners of all gateways of the group at which a subsystem is found, or could be.
pub(super) struct GroupListeners {
    own: String,
    pub(super) is_group: bool,
    pub(super) all: Vec<PortListener>,
}

impl GroupListeners {
    pub(super) async fn find(native: &Native, subsystem: &SubsystemConfig) -> Result<Self, Failed> {
        let group = native.group().await?;
        let own = host_name(group.as_ref());
        let ports = native.ports().await?;
        let ports = ports.iter().filter(|port| !port.discovery_only);
        let mut all: Vec<PortListener> = ports.map(|port| port_listener(port, &own, subsystem)).collect();
        all.extend(group.iter().flat_map(|group| listeners_of_others(group, subsystem)));
        Ok(Self { own, is_group: group.is_some(), all })
    }

    /// Listeners of a gateway at this address; of all gateways for `*`.
    fn at<'a>(
        &'a self,
        host_name: &'a str,
        traddr: &'a str,
        trsvcid: u32,
    ) -> impl Iterator<Item = &'a PortListener> {
        let is_it = move |known: &&PortListener| {
            let is_host = host_name == "*" || known.listener.host_name == host_name;
            is_host && is_at(&known.listener, traddr, trsvcid)
        };
        self.all.iter().filter(is_it)
    }
}

pub(super) async fn create(native: Native, request: CreateListenerReq) -> Result<ReqStatus, Failed> {
    let (traddr, trsvcid) = (&request.traddr, service(request.trsvcid, request.secure()));
    let doing = format!("Failure adding {} listener at {traddr}:{trsvcid}", request.nqn);
    let failed = |failed: Failed| failed.amid(&doing);
    let subsystem = native.subsystem(&request.nqn, ENOENT).await.map_err(failed)?;
    if request.secure() && subsystem.allow_any_host {
        let what = "Secure channel is only allowed for subsystems in which \"allow any host\" is off";
        return Err(failed(Failed::new(EINVAL, what)));
    }
    let listeners = GroupListeners::find(&native, &subsystem).await?;
    let is_own = request.host_name == listeners.own;
    if !is_own && request.verify_host_name() {
        let what = format!("Gateway's host name must match current host ({})", listeners.own);
        return Err(failed(Failed::new(ENODEV, what)));
    }
    let there: Vec<&PortListener> = listeners.at(&request.host_name, traddr, trsvcid).collect();
    if request.secure() && there.iter().any(|known| !known.listener.secure()) {
        return Err(failed(in_clear()));
    }
    let new: Vec<u16> = match there.is_empty() {
        false => {
            let new = there.iter().filter(|known| !is_found_at(&subsystem, known));
            new.map(|known| known.port).collect()
        }
        true if !is_own => {
            let what = format!("gateway {} does not listen there", request.host_name);
            return Err(failed(Failed::new(ENODEV, what)));
        }
        true if listeners.is_group => {
            let what = "this gateway does not listen there; its addresses are its own, and `selvedge serve -a` gives them";
            return Err(failed(Failed::new(EADDRNOTAVAIL, what)));
        }
        true => vec![listen(&native, traddr, trsvcid, request.secure()).await.map_err(failed)?],
    };
    if new.is_empty() {
        let what = format!("Subsystem already listens on address {traddr}:{trsvcid}");
        return Err(failed(Failed::new(EEXIST, what)));
    }
    // Found at all ports, it is found at one that is new.
    if !subsystem.ports.is_empty() {
        let known = subsystem.ports.iter().copied().filter(|port| *port != NO_PORT);
        let ports: Vec<u16> = known.chain(new).collect();
        find_at(&native, &subsystem, &ports).await.map_err(failed)?;
    }
    Ok(ReqStatus::default())
}

/// Has a subsystem found at these ports, unless another call has changed its ports or networks.
async fn find_at(native: &Native, seen: &SubsystemConfig, ports: &[u16]) -> Result<(), Failed> {
    let body = json!({ "ports": ports, "seen": { "ports": seen.ports, "networks": seen.networks } });
    native.ask("PATCH", &of_subsystem(&seen.nqn), Some(body)).await?;
    Ok(())
}

/// A secure listener is wanted where hosts without TLS are let in.
pub(super) fn in_clear() -> Failed {
    let what = "connections there need not be TLS; give its hosts keys with `selvedge host set-key`, or the port \
                `tls = \"required\"`";
    Failed::new(EOPNOTSUPP, what)
}

/// Has the target listen on another address: the number of its port.
pub(super) async fn listen(
    native: &Native,
    traddr: &str,
    trsvcid: u32,
    is_secure: bool,
) -> Result<u16, Failed> {
    let what = || format!("Address {traddr} is not available as an address");
    let service = u16::try_from(trsvcid).map_err(|_| Failed::new(EINVAL, "no such port"))?;
    let written = traddr.parse::<HostAddress>().ok().filter(|written| written.port().is_none());
    let address = written.and_then(|written| written.literal(service));
    let address = address.ok_or_else(|| Failed::new(EADDRNOTAVAIL, what()))?;
    let mut body = json!({ "address": address });
    if is_secure {
        body["tls"] = "required".into();
    }
    let added = native.ask("POST", "/v1/ports", Some(body)).await;
    let added = added.map_err(|refused| match refused.status {
        409 if !refused.is_outdated => Failed::new(EADDRINUSE, refused.what),
        _ => refused.into(),
    })?;
    let id = added["id"].as_u64().and_then(|id| u16::try_from(id).ok());
    id.ok_or_else(|| Failed::new(EINVAL, "the port has no number"))
}

pub(super) async fn delete(native: Native, request: DeleteListenerReq) -> Result<ReqStatus, Failed> {
    let (nqn, traddr, trsvcid) = (&request.nqn, &request.traddr, service(request.trsvcid, false));
    let doing = format!("Failed to delete listener {traddr}:{trsvcid} from {nqn}");
    let failed = |failed: Failed| failed.amid(&doing);
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(failed)?;
    if request.host_name == "*" && !request.force() {
        let what = "Must use the \"--force\" parameter when setting the host name to \"*\".";
        return Err(failed(Failed::new(EINVAL, what)));
    }
    let listeners = GroupListeners::find(&native, &subsystem).await?;
    let found: Vec<&PortListener> = listeners
        .at(&request.host_name, traddr, trsvcid)
        .filter(|known| is_found_at(&subsystem, known))
        .collect();
    if found.is_empty() {
        return Err(failed(Failed::new(ENOENT, "Listener not found")));
    }
    // Also where the subsystem is found everywhere: without the listener, it would be found there by its network.
    if let Some(network) = found.iter().find_map(|known| network_of(&subsystem, &known.listener.traddr)) {
        let what = format!(
            "Listener was created automatically for network mask {network} of the subsystem, which has to be deleted instead"
        );
        return Err(failed(Failed::new(EINVAL, what)));
    }
    let there: Vec<u16> = found.iter().map(|known| known.port).collect();
    // Who uses another gateway's is not known here.
    if !request.force() && request.host_name != listeners.own {
        let what = format!(
            "Gateway's host name must match current host ({}). You can continue to delete the listener by adding the \
             `--force` parameter.",
            listeners.own
        );
        return Err(failed(Failed::new(ENOENT, what)));
    }
    if !request.force() && has_hosts_at(&native, nqn, &there).await.map_err(failed)? {
        let what = format!(
            "There are active connections for {traddr}:{trsvcid}. Deleting the listener terminates active connections. You \
             can continue to delete the listener by adding the `--force` parameter."
        );
        return Err(failed(Failed::new(ENOTEMPTY, what)));
    }
    let mut left = match subsystem.ports.is_empty() {
        true => listeners.all.iter().map(|known| known.port).collect(),
        false => subsystem.ports.clone(),
    };
    left.retain(|port| !there.contains(port));
    if left.is_empty() {
        left.push(NO_PORT);
    }
    find_at(&native, &subsystem, &left).await.map_err(failed)?;
    Ok(ReqStatus::default())
}

/// True if hosts use a subsystem of this target by one of these ports.
async fn has_hosts_at(native: &Native, nqn: &str, ports: &[u16]) -> Result<bool, Failed> {
    let connections = native.ask("GET", "/v1/connections", None).await?;
    let mut controllers = connections["controllers"].as_array().into_iter().flatten();
    let is_here = |controller: &serde_json::Value| {
        let port = controller["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        controller["subsystem"] == nqn && port.is_some_and(|port| ports.contains(&port))
    };
    Ok(controllers.any(is_here))
}

pub(super) async fn list(native: Native, request: ListListenersReq) -> Result<ListenersInfo, Failed> {
    let subsystem = native.subsystem(&request.subsystem, ENOENT).await;
    let subsystem = subsystem.map_err(|failed| failed.amid("Failure listing listeners"))?;
    let listeners = GroupListeners::find(&native, &subsystem).await?;
    let found = listeners.all.into_iter().filter(|known| is_found_at(&subsystem, known));
    Ok(ListenersInfo { listeners: found.map(|known| known.listener).collect(), ..ListenersInfo::default() })
}

pub(super) async fn of_gateway(
    native: Native,
    request: ShowGatewayListenersInfoReq,
) -> Result<GatewayListenersInfo, Failed> {
    let nqn = &request.subsystem_nqn;
    let failed = |failed: Failed| failed.amid("Failure listing gateway listeners");
    let subsystem = native.subsystem(nqn, ENODEV).await.map_err(failed)?;
    let groups = native.ask("GET", &format!("{}/ana-groups", of_subsystem(nqn)), None).await;
    let groups = groups.map_err(|refused| failed(refused.into()))?;
    let groups: AnaGroups =
        serde_json::from_value(groups).map_err(|error| failed(Failed::new(EINVAL, error.to_string())))?;
    let own = host_name(native.group().await?.as_ref());
    let states = |_: &ListenerInfo| {
        let state =
            |group: &AnaGroupConfig| AnaGroupState { grp_id: group.id, state: state(group.state) as i32 };
        groups.ana_groups.iter().map(state).collect()
    };
    let listeners = listeners_of(&native.ports().await?, &own, &subsystem);
    let gw_listeners = listeners
        .into_iter()
        .map(|listener| GatewayListenerInfo { lb_states: states(&listener), listener: Some(listener) })
        .collect();
    Ok(GatewayListenersInfo { gw_listeners, ..GatewayListenersInfo::default() })
}

/// Refuses the states that Ceph's monitors set at its own gateways. Here the gateways agree on
/// them.
pub(super) async fn set_ana_state(_: Native, _: AnaInfo) -> Result<ReqStatus, Failed> {
    Err(Failed::new(EPERM, "ANA states follow from which gateway serves what, which the gateways agree on"))
}

const fn state(state: GroupState) -> AnaState {
    match state {
        GroupState::Optimized => AnaState::Optimized,
        GroupState::NonOptimized => AnaState::NonOptimized,
        _ => AnaState::Inaccessible,
    }
}

/// Listeners of a subsystem at this gateway.
pub(super) fn listeners_of(
    ports: &[PortConfig],
    own: &str,
    subsystem: &SubsystemConfig,
) -> Vec<ListenerInfo> {
    ports
        .iter()
        .filter(|port| subsystem.is_on(port))
        .map(|port| port_listener(port, own, subsystem).listener)
        .collect()
}

/// Listener of a subsystem at a port of this gateway.
fn port_listener(port: &PortConfig, own: &str, subsystem: &SubsystemConfig) -> PortListener {
    let listener = ListenerInfo {
        host_name: own.to_owned(),
        trtype: "TCP".to_owned(),
        adrfam: family(&traddr(port)) as i32,
        traddr: traddr(port),
        trsvcid: port.address.port().into(),
        secure: Some(is_secure(port, subsystem)),
        active: Some(true),
        manual: Some(!is_automatic(subsystem, &traddr(port))),
    };
    PortListener { port: port.id, listener }
}

fn is_found_at(subsystem: &SubsystemConfig, known: &PortListener) -> bool {
    subsystem.ports.is_empty() || subsystem.ports.contains(&known.port) || !known.listener.manual()
}

/// True if a subsystem is found at an address because of its networks.
fn is_automatic(subsystem: &SubsystemConfig, traddr: &str) -> bool {
    !subsystem.ports.is_empty() && network_of(subsystem, traddr).is_some()
}

/// Network of a subsystem that has this address.
fn network_of(subsystem: &SubsystemConfig, traddr: &str) -> Option<NetworkMask> {
    let address: IpAddr = traddr.parse().ok()?;
    subsystem.networks.iter().copied().find(|network| network.contains(address))
}

/// True if a subsystem's connections have to be TLS on a port.
fn is_secure(port: &PortConfig, subsystem: &SubsystemConfig) -> bool {
    port.tls.map_or_else(|| is_keyed(subsystem), |tls| tls == TlsUse::Required)
}

fn is_keyed(subsystem: &SubsystemConfig) -> bool {
    subsystem.host_keys.iter().any(HostKeyConfig::has_tls_key)
}

/// Listeners of the group's other gateways, as they have registered.
fn listeners_of_others(group: &GroupStatus, subsystem: &SubsystemConfig) -> Vec<PortListener> {
    let others = group.gateways.iter().filter(|gateway| gateway.name != group.gateway);
    let listeners = others.flat_map(|gateway| {
        let known = gateway.listeners.iter().zip(&gateway.ports).filter(|(_, port)| **port != NO_PORT);
        known.map(|(listener, port)| PortListener {
            port: *port,
            listener: ListenerInfo {
                host_name: gateway.name.clone(),
                trtype: "TCP".to_owned(),
                adrfam: family(&listener.address) as i32,
                traddr: listener.address.clone(),
                trsvcid: listener.service.into(),
                secure: Some(is_keyed(subsystem)),
                active: Some(gateway.is_well),
                manual: Some(!is_automatic(subsystem, &listener.address)),
            },
        })
    });
    listeners.collect()
}

/// Port of a listener that a call names. For 0, which some clients send for a port that is not given, it is the default.
pub(super) fn service(trsvcid: Option<u32>, is_secure: bool) -> u32 {
    let default = if is_secure { SECURE_SERVICE } else { SERVICE };
    trsvcid.filter(|service| *service != 0).unwrap_or(default)
}

fn traddr(port: &PortConfig) -> String {
    port.advertise.clone().unwrap_or_else(|| canonical_host(&port.address))
}

fn family(traddr: &str) -> AddressFamily {
    if traddr.contains(':') { AddressFamily::Ipv6 } else { AddressFamily::Ipv4 }
}

/// An address as a record of it has it; an IPv4 address that is mapped into IPv6 is one of IPv4.
fn canonical_host(address: &NetAddress) -> String {
    match address.interface() {
        Some(_) => address.host(),
        None => address.ip().to_canonical().to_string(),
    }
}

/// An address without the brackets that people write round it before a port.
fn unescaped(traddr: &str) -> String {
    traddr.parse::<HostAddress>().map_or_else(|_| traddr.to_owned(), |written| written.host())
}

/// True if a listener accepts connections to this address. A listener on all of the machine's
/// addresses does, and for a wildcard address each listener does.
fn is_at(listener: &ListenerInfo, traddr: &str, trsvcid: u32) -> bool {
    let is_any =
        |text: &str| text.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_unspecified());
    let (known, asked) = (listener.traddr.as_str(), unescaped(traddr));
    listener.trsvcid == trsvcid && (known == asked || is_any(known) || is_any(&asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_without_a_port_has_the_default_one() {
        let services = |is_secure| [None, Some(0), Some(4430)].map(|given| service(given, is_secure));
        assert_eq!([services(false), services(true)], [[4420, 4420, 4430], [4421, 4421, 4430]]);
    }
}
