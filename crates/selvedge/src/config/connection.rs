//! Which target to connect to, and as whom, checked. Connecting is the engine's.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use engine::initiator::{ConnectOptions, HostIdentity};
use nvme::discovery::Nqn;
use nvme::tcp::Digests;

use super::namespace::parse_uuid;
use crate::failure::Failure;
use crate::flags::connection::ConnectionFlags;

/// A target, and this host as it shall appear there.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) address: SocketAddr,
    host: HostIdentity,
    host_traddr: Option<IpAddr>,
    host_iface: Option<String>,
    pub(crate) digests: Digests,
    keep_alive_ms: Option<u32>,
}

impl Connection {
    /// Checks the flags; a name is looked up here.
    pub(crate) fn new(flags: &ConnectionFlags) -> Result<Self, Failure> {
        Self::check(flags).map_err(Failure::usage)
    }

    fn check(flags: &ConnectionFlags) -> Result<Self, String> {
        let address = resolve(&flags.traddr, flags.trsvcid)?;
        let mut host = match &flags.hostnqn {
            Some(nqn) => HostIdentity::from_nqn(nqn.as_str()),
            None => HostIdentity::of_this_machine(),
        };
        if let Some(id) = &flags.hostid {
            host.id = parse_uuid(id)?.into_bytes();
        }
        let host_traddr = match &flags.host_traddr {
            Some(address) => Some(resolve(address, 0)?.ip()),
            None => None,
        };
        if host_traddr.is_some_and(|host| host.is_ipv4() != address.is_ipv4()) {
            return Err("--host-traddr and --traddr are not of one address family".into());
        }
        let keep_alive_ms = match flags.keep_alive_tmo {
            Some(seconds) => Some(keep_alive_ms(seconds)?),
            None => None,
        };
        Ok(Self {
            address,
            host,
            host_traddr,
            host_iface: flags.host_iface.clone(),
            digests: Digests { header: flags.hdr_digest, data: flags.data_digest },
            keep_alive_ms,
        })
    }

    /// Options for the discovery service.
    pub(crate) fn discovery(&self) -> ConnectOptions {
        self.adopt(ConnectOptions::discovery(self.address))
    }

    /// Options for a subsystem, with no I/O queues yet.
    pub(crate) fn subsystem(&self, nqn: &Nqn) -> ConnectOptions {
        let mut options = self.adopt(ConnectOptions::new(self.address, nqn.as_str()));
        options.io_queues = 0;
        if let Some(keep_alive_ms) = self.keep_alive_ms {
            options.keep_alive_ms = keep_alive_ms;
        }
        options
    }

    /// The same host at another address, as the discovery log names it.
    pub(crate) fn at(&self, address: SocketAddr) -> Self {
        Self { address, ..self.clone() }
    }

    fn adopt(&self, options: ConnectOptions) -> ConnectOptions {
        ConnectOptions {
            host: self.host.clone(),
            host_traddr: self.host_traddr,
            host_iface: self.host_iface.clone(),
            digests: self.digests,
            ..options
        }
    }
}

fn keep_alive_ms(seconds: u32) -> Result<u32, String> {
    let max_ms = engine::limits::KEEP_ALIVE_MS_MAX;
    let milliseconds = seconds.checked_mul(1000).filter(|milliseconds| *milliseconds <= max_ms);
    milliseconds.ok_or_else(|| format!("a keep alive time-out of {seconds} s is over {} s", max_ms / 1000))
}

/// An address from what a person writes: an IP address, with or without brackets, or a name that is looked up.
pub(crate) fn resolve(address: &str, service: u16) -> Result<SocketAddr, String> {
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, service));
    }
    let mut found = (bare, service).to_socket_addrs().map_err(|error| {
        let error = error.to_string();
        let reason = error.strip_prefix("failed to lookup address information: ").unwrap_or(&error);
        format!("`{address}` is neither an IP address nor a name that can be looked up: {reason}")
    })?;
    found.next().ok_or_else(|| format!("the name `{address}` has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        assert_eq!(resolve("10.0.0.1", 4420).unwrap().to_string(), "10.0.0.1:4420");
        assert_eq!(resolve("::1", 1).unwrap().to_string(), "[::1]:1");
        assert_eq!(resolve("[fe80::1]", 1).unwrap().to_string(), "[fe80::1]:1");
        assert!(resolve("localhost", 1).unwrap().ip().is_loopback());
        assert!(resolve("no such name", 1).unwrap_err().contains("no such name"));
    }

    #[test]
    fn flags_become_options() {
        let flags = ConnectionFlags::of(
            "-a 127.0.0.1 -s 4421 -k 30 -g -G -q nqn.2014-08.org.nvmexpress:uuid:\
             1b4e28ba-2fa1-11d2-883f-0016d3ccabcd",
        );
        let nqn = Nqn::new("nqn.a").unwrap();
        let options = Connection::new(&flags).unwrap().subsystem(&nqn);
        assert_eq!(options.address.port(), 4421);
        assert_eq!(options.keep_alive_ms, 30_000);
        assert!(options.digests.header && options.digests.data);
        assert_eq!(options.host.id[0], 0x1b);
        assert_eq!(options.io_queues, 0);
    }

    #[test]
    fn contradictions_are_usage_errors() {
        for arguments in ["-a ::1 -w 127.0.0.1", "-a 127.0.0.1 -k 4000000", "-a 127.0.0.1 -I 12"] {
            assert!(matches!(Connection::new(&ConnectionFlags::of(arguments)), Err(Failure::Usage(_))));
        }
    }
}
