//! Where a cluster is: on the loopback of this machine, or at an address of a network namespace, whose links can be cut. It
//! keeps out what a cluster is, and how a namespace comes to be.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::ports::Ports;
use crate::namespace;

/// Place of daemons and their clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(super) address: Ipv4Addr,
    /// File of the network namespace, as `nsenter` takes it, and its name.
    namespace: Option<(String, String)>,
}

impl Site {
    /// This machine's loopback.
    pub(crate) const LOOPBACK: Site = Site { address: Ipv4Addr::LOCALHOST, namespace: None };

    /// At an address that the network namespace `name` has. Going there takes root.
    pub(crate) fn inside(name: &str, address: Ipv4Addr) -> Site {
        let option = format!("--net={}/{name}", namespace::FOLDER);
        Site { address, namespace: Some((option, name.to_owned())) }
    }

    /// Prefix of a command line for a program that runs there, as the same process.
    pub(crate) fn words(&self) -> Vec<&str> {
        match &self.namespace {
            Some((option, _)) => vec!["nsenter", option, "--"],
            None => Vec::new(),
        }
    }

    /// Free ports for a cluster there; `id` says which are tried first.
    ///
    /// # Errors
    /// All have something that listens, or there is no such namespace.
    pub(super) fn free_ports(&self, id: u32) -> Result<Ports, String> {
        let address = self.address;
        match &self.namespace {
            Some((_, name)) => namespace::inside(name, move || Ports::free(address, id)),
            None => Ports::free(address, id),
        }
    }

    /// True if a process listens on this port.
    ///
    /// # Errors
    /// There is no such namespace.
    pub(super) fn answers(&self, port: u16, limit: Duration) -> Result<bool, String> {
        let address = SocketAddr::from((self.address, port));
        let connect = move || Ok(TcpStream::connect_timeout(&address, limit).is_ok());
        match &self.namespace {
            Some((_, name)) => namespace::inside(name, connect),
            None => connect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_needs_no_other_words() {
        assert!(Site::LOOPBACK.words().is_empty());
        let site = Site::inside("there", Ipv4Addr::new(10, 1, 2, 2));
        assert_eq!(site.words(), ["nsenter", "--net=/run/netns/there", "--"]);
    }
}
