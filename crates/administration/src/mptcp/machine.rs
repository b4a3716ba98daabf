//! The addresses, routes and MPTCP settings of this machine, as `ip -j` tells them. What is missing is `plan`'s.

use std::net::IpAddr;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ip;
use crate::failure::Failure;

/// A machine as far as MPTCP is concerned.
#[derive(Debug, Default)]
pub struct Machine {
    pub(super) interfaces: Vec<Interface>,
    /// The default routes of IPv4 and IPv6, the preferred one of each first.
    pub(super) routes: [Vec<Route>; 2],
    pub(super) limits: Limits,
    pub(super) endpoints: Vec<Endpoint>,
}

/// A network interface.
#[derive(Debug, Deserialize)]
pub(super) struct Interface {
    #[serde(rename = "ifname")]
    pub(super) name: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default, rename = "addr_info")]
    pub(super) addresses: Vec<Address>,
}

/// An address of an interface.
#[derive(Debug, Deserialize)]
pub(super) struct Address {
    #[serde(rename = "local")]
    pub(super) ip: IpAddr,
    #[serde(default)]
    scope: String,
    /// True for an address that expires soon (RFC 8981), is deprecated, or is not verified as
    /// unique.
    #[serde(default)]
    temporary: bool,
    #[serde(default)]
    deprecated: bool,
    #[serde(default)]
    tentative: bool,
    #[serde(default)]
    dadfailed: bool,
}

/// A default route.
#[derive(Debug, Deserialize)]
pub(super) struct Route {
    #[serde(default)]
    pub(super) dev: String,
    pub(super) prefsrc: Option<IpAddr>,
    #[serde(default)]
    metric: u32,
}

/// Limits of the kernel's path manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Limits {
    #[serde(default)]
    pub(super) add_addr_accepted: u8,
    #[serde(default)]
    pub(super) subflows: u8,
}

/// An address that the kernel's path manager uses.
#[derive(Debug, Deserialize)]
pub(super) struct Endpoint {
    pub(super) address: IpAddr,
    pub(super) id: u32,
    #[serde(default)]
    pub(super) signal: bool,
    #[serde(default)]
    pub(super) subflow: bool,
}

impl Machine {
    /// This machine, in this network namespace.
    pub fn look() -> Result<Self, Failure> {
        let ask = |words: &str| ip(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        Self::read(
            &ask("-j address show")?,
            [&ask("-j -4 route show default")?, &ask("-j -6 route show default")?],
            &ask("-j mptcp limits show")?,
            &ask("-j mptcp endpoint show")?,
        )
        .map_err(|reason| Failure::failed(format!("cannot parse the output of `ip`: {reason}")))
    }

    pub(super) fn read(
        addresses: &str,
        routes: [&str; 2],
        limits: &str,
        endpoints: &str,
    ) -> Result<Self, serde_json::Error> {
        let [mut ipv4, mut ipv6]: [Vec<Route>; 2] = [list(routes[0])?, list(routes[1])?];
        ipv4.sort_by_key(|route| route.metric);
        ipv6.sort_by_key(|route| route.metric);
        Ok(Self {
            interfaces: list(addresses)?,
            routes: [ipv4, ipv6],
            limits: Limits::read(limits)?,
            endpoints: list(endpoints)?,
        })
    }

    /// The addresses that other machines reach, on interfaces that are connected, each with its interface.
    pub(super) fn global_addresses(&self) -> impl Iterator<Item = (IpAddr, &Interface)> {
        let connected = self.interfaces.iter().filter(|interface| interface.is_connected());
        connected.flat_map(|interface| {
            let addresses = interface.addresses.iter().filter(|address| address.is_lasting());
            addresses.map(move |address| (address.ip, interface))
        })
    }

    /// The interface that has this address.
    pub(super) fn interface_of(&self, address: IpAddr) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.addresses.iter().any(|known| known.ip == address))
    }

    /// The number of the endpoint with this address.
    pub(super) fn endpoint_id(&self, address: IpAddr) -> Option<u32> {
        self.endpoints.iter().find(|endpoint| endpoint.address == address).map(|endpoint| endpoint.id)
    }
}

impl Interface {
    fn is_connected(&self) -> bool {
        let has = |flag| self.flags.iter().any(|known| known == flag);
        has("UP") && has("LOWER_UP") && !has("LOOPBACK")
    }
}

impl Address {
    fn is_lasting(&self) -> bool {
        self.scope == "global" && !(self.temporary || self.deprecated || self.tentative || self.dadfailed)
    }
}

impl Limits {
    /// Reads them as an object or, as `ip` of 2023 prints them even with `-j`, as words.
    fn read(text: &str) -> Result<Self, serde_json::Error> {
        let text = text.trim();
        if text.starts_with('[') {
            return Ok(list(text)?.into_iter().next().unwrap_or_default());
        }
        if text.starts_with('{') {
            return serde_json::from_str(text);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |name| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        Ok(Self {
            add_addr_accepted: number("add_addr_accepted").unwrap_or_default(),
            subflows: number("subflows").unwrap_or_default(),
        })
    }
}

/// A list of what `ip -j` prints, which prints nothing at all where there is nothing.
fn list<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, serde_json::Error> {
    if text.trim().is_empty() { Ok(Vec::new()) } else { serde_json::from_str(text) }
}
