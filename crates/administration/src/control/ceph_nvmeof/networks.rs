//! Calls about networks: a subsystem is found at the addresses of all gateways that are in one of its networks.

use std::net::IpAddr;

use ceph_nvmeof::{AddSubsystemNetworkReq, DelSubsystemNetworkReq, ReqStatus};
use engine::target::{NetworkMask, SettingError, SubsystemConfig};
use libc::{EADDRNOTAVAIL, EINVAL, EIO, ENOENT};
use serde_json::json;
use topology::{InterfaceAddress, Machine};

use super::failed::Failed;
use super::listeners::{GroupListeners, in_clear, listen, service};
use super::native::{Native, of_subsystem};

/// Requirements of a call on the listeners in its networks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// The port that they have, where one is given.
    pub(super) service: Option<u32>,
    pub(super) is_secure: bool,
}

pub(super) async fn add(native: Native, request: AddSubsystemNetworkReq) -> Result<ReqStatus, Failed> {
    let (nqn, mask) = (&request.subsystem_nqn, &request.network_mask);
    let doing = format!("Failure adding network {mask} for subsystem {nqn}");
    let failed = |failed: Failed| failed.amid(&doing);
    let network = parse(mask).map_err(failed)?;
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(failed)?;
    if subsystem.networks.contains(&network) {
        return Ok(ReqStatus::default());
    }
    let opened = open(&native, &subsystem, &[network], Wanted::default()).await.map_err(failed)?;
    let networks = [&subsystem.networks[..], &[network]].concat();
    if let Err(error) = set(&native, &subsystem, &networks).await {
        close(&native, &opened).await;
        return Err(failed(error));
    }
    Ok(ReqStatus::default())
}

pub(super) async fn delete(native: Native, request: DelSubsystemNetworkReq) -> Result<ReqStatus, Failed> {
    let (nqn, mask) = (&request.subsystem_nqn, &request.network_mask);
    let doing = format!("Failure deleting network {mask} for subsystem {nqn}");
    let failed = |failed: Failed| failed.amid(&doing);
    let network = parse(mask).map_err(failed)?;
    let subsystem = native.subsystem(nqn, ENOENT).await.map_err(failed)?;
    if subsystem.networks.is_empty() {
        return Err(failed(Failed::new(ENOENT, "No network mask found")));
    }
    let mut networks = subsystem.networks.clone();
    networks.retain(|known| *known != network);
    if networks != subsystem.networks {
        set(&native, &subsystem, &networks).await.map_err(failed)?;
    }
    Ok(ReqStatus::default())
}

/// Reads a network mask.
pub(super) fn parse(mask: &str) -> Result<NetworkMask, Failed> {
    if mask.is_empty() {
        return Err(Failed::new(EINVAL, "missing network mask"));
    }
    mask.parse().map_err(|error: SettingError| Failed::new(EADDRNOTAVAIL, error.to_string()))
}

/// Gives a subsystem other networks, unless another call has done that.
async fn set(native: &Native, seen: &SubsystemConfig, networks: &[NetworkMask]) -> Result<(), Failed> {
    let body = json!({ "networks": networks, "seen": { "networks": seen.networks } });
    native.ask("PATCH", &of_subsystem(&seen.nqn), Some(body)).await?;
    Ok(())
}

/// Sees that there is a listener in each network, for which a target without a group begins to listen. Returns the numbers of
/// the ports that are new.
pub(super) async fn open(
    native: &Native,
    subsystem: &SubsystemConfig,
    networks: &[NetworkMask],
    wanted: Wanted,
) -> Result<Vec<u16>, Failed> {
    let mut opened = Vec::new();
    for network in networks {
        if let Err(failed) = open_one(native, subsystem, *network, wanted, &mut opened).await {
            close(native, &opened).await;
            return Err(failed);
        }
    }
    Ok(opened)
}

async fn open_one(
    native: &Native,
    subsystem: &SubsystemConfig,
    network: NetworkMask,
    wanted: Wanted,
    opened: &mut Vec<u16>,
) -> Result<(), Failed> {
    let listeners = GroupListeners::find(native, subsystem).await?;
    let address = |traddr: &str| traddr.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    let mut there = Vec::new();
    for known in &listeners.all {
        let listener = &known.listener;
        if let Some(address) = address(&listener.traddr).filter(|address| network.contains(*address)) {
            if wanted.is_secure && !listener.secure() {
                return Err(in_clear());
            }
            there.push((address, listener.trsvcid));
        }
    }
    if !listeners.is_group {
        for address in local_addresses(network).await? {
            if !there.iter().any(|(known, _)| *known == address) {
                let service = service(wanted.service, wanted.is_secure);
                opened.push(listen(native, &address.to_string(), service, wanted.is_secure).await?);
                there.push((address, service));
            }
        }
    }
    if !there.iter().any(|(_, service)| wanted.service.is_none_or(|wanted| wanted == *service)) {
        let what = format!(
            "no listener has an address in {network}; `selvedge serve -a` gives a gateway its addresses"
        );
        return Err(Failed::new(EADDRNOTAVAIL, what));
    }
    Ok(())
}

/// This machine's addresses in a network. One that is valid on one link alone needs its interface, which a network does not name.
async fn local_addresses(network: NetworkMask) -> Result<Vec<IpAddr>, Failed> {
    let found = tokio::task::spawn_blocking(|| Machine::live().addresses()).await;
    let found = found.map_err(|error| Failed::new(EIO, error.to_string()))?;
    let found = found.map_err(|error| Failed::new(EIO, format!("the addresses of this machine: {error}")))?;
    Ok(found
        .iter()
        .filter(|own| is_usable(own) && network.contains(own.address))
        .map(|own| own.address)
        .collect())
}

/// True for an address that a stored port may have: it is valid on all links, and lasts.
fn is_usable(own: &InterfaceAddress) -> bool {
    match own.address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local() && !own.is_transient,
    }
}

/// Ends listening at ports that were added for a change that failed.
pub(super) async fn close(native: &Native, opened: &[u16]) {
    for port in opened {
        if let Err(refused) = native.ask("DELETE", &format!("/v1/ports/{port}"), None).await {
            tracing::warn!(port, error = refused.what, "a port that was added for a network stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_ports_at_addresses_that_last() {
        let is_usable = |address: &str, is_transient| {
            let (interface, address) = ("eth0".to_owned(), address.parse().unwrap());
            super::is_usable(&InterfaceAddress { interface, address, prefix_length: 64, is_transient })
        };
        assert!(is_usable("192.0.2.1", false) && is_usable("2001:db8::1", false));
        assert!(!is_usable("2001:db8::1", true), "temporary");
        assert!(!is_usable("fe80::1", false), "of one link");
    }
}
