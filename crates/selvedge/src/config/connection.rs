//! Validated parameters of connections to a target: addresses, host identity, secrets. Connecting is the engine's.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use engine::address::{HostAddress, InterfaceName, NetAddress};
use engine::initiator::{ConnectOptions, HostIdentity, HostSecrets, PathOptions, Volume};
use engine::transport::Transport;
use nvme::discovery::{DISCOVERY_NQN, Nqn};
use nvme::tcp::Digests;

use super::nvme_cli::{self, KnownHost, Meant};
use super::tls::{Tls, TlsChoice};
use crate::failure::Failure;
use crate::flags::connection::ConnectionFlags;
use crate::probe::{Probe, probe};
use crate::spec::secret;

/// Connections to a target: its addresses, and the identity of this host.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) address: SocketAddr,
    /// All addresses, where the target has several.
    path_addresses: Vec<PathAddress>,
    transport: Transport,
    host: HostIdentity,
    pub(crate) digests: Digests,
    tos: Option<u8>,
    tclass: Option<u8>,
    keep_alive_ms: Option<u32>,
    secrets: Secrets,
    tls: Tls,
    /// True if a TLS key is derived from the authentication, regardless of a file.
    concat: bool,
}

/// The secrets of this host.
#[derive(Clone, Debug)]
enum Secrets {
    /// For all subsystems.
    Same(Option<Arc<HostSecrets>>),
    /// As a file has them.
    Known(Arc<KnownHost>),
}

/// Address of the target for one path, and the source of connections to it.
#[derive(Clone, Debug)]
struct PathAddress {
    address: SocketAddr,
    host_traddr: Option<IpAddr>,
    host_iface: Option<String>,
}

/// Oftener, a host with a hundred queues would do little else.
const REAUTH_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The secrets in the files that the flags name.
fn secrets(flags: &ConnectionFlags) -> Result<Option<Arc<HostSecrets>>, String> {
    let Some(file) = &flags.dhchap_secret_file else { return Ok(None) };
    let controller_secret = flags.dhchap_ctrl_secret_file.as_deref().map(secret::read).transpose()?;
    let (secret, reauth_interval) = (secret::read(file)?, flags.reauth_interval);
    Ok(Some(Arc::new(HostSecrets { secret, controller_secret, reauth_interval })))
}

/// This host as the file that the flags name has it, if they name one.
fn known_host(
    path_addresses: &[PathAddress],
    flags: &ConnectionFlags,
) -> Result<Option<Arc<KnownHost>>, String> {
    let Some(file) = &flags.config else { return Ok(None) };
    let addresses: Vec<SocketAddr> = path_addresses.iter().map(|path| path.address).collect();
    let (host, reauth_interval) = (flags.hostnqn.as_ref(), flags.reauth_interval);
    let meant = Meant { host, addresses: &addresses, reauth_interval, tls: TlsChoice::of(flags) };
    nvme_cli::read(file, &meant).map(|known| Some(Arc::new(known)))
}

impl Connection {
    /// Checks the flags; a name is looked up here.
    pub(crate) fn new(flags: &ConnectionFlags) -> Result<Self, Failure> {
        refuse_tclass(flags).map_err(Failure::usage)?;
        Self::to_discover(flags)
    }

    /// The same for addresses that a discovery service may replace by others, also of another family.
    pub(crate) fn to_discover(flags: &ConnectionFlags) -> Result<Self, Failure> {
        let path_addresses = path_addresses(flags)?;
        Self::to(path_addresses, flags).map_err(Failure::usage)
    }

    fn to(path_addresses: Vec<PathAddress>, flags: &ConnectionFlags) -> Result<Self, String> {
        let address = path_addresses[0].address;
        if flags.reauth_interval.is_some_and(|interval| interval < REAUTH_INTERVAL_MIN) {
            return Err(format!("--reauth-interval: at least {} s", REAUTH_INTERVAL_MIN.as_secs()));
        }
        warn_of_service(&path_addresses, flags);
        let known = known_host(&path_addresses, flags)?;
        let tls = Tls::of(flags, known.as_ref())?;
        let mut host = match (&known, &flags.hostnqn) {
            (Some(known), _) => known.identity.clone(),
            (None, Some(nqn)) => HostIdentity::from_nqn(nqn.as_str()),
            (None, None) => HostIdentity::of_this_machine(),
        };
        if let Some(id) = &flags.hostid {
            let id = engine::target::parse_uuid(id).map_err(|error| format!("--hostid: {error}"))?;
            host.id = id.into_bytes();
        }
        let keep_alive_ms = match flags.keep_alive_tmo {
            Some(seconds) => Some(keep_alive_ms(seconds)?),
            None => None,
        };
        Ok(Self {
            address,
            path_addresses,
            transport: flags.transport.into(),
            host,
            digests: Digests { header: flags.hdr_digest, data: flags.data_digest },
            tos: flags.tos,
            tclass: flags.tclass,
            keep_alive_ms,
            tls: if flags.concat { Tls::Same(None) } else { tls },
            concat: flags.concat,
            secrets: match known {
                Some(known) => Secrets::Known(known),
                None => Secrets::Same(secrets(flags)?),
            },
        })
    }

    /// The same, where only one address makes sense.
    pub(crate) fn one(flags: &ConnectionFlags) -> Result<Self, Failure> {
        let connection = Self::to_discover(flags)?;
        match connection.path_addresses.len() {
            1 => Ok(connection),
            count => Err(Failure::usage(format!("this command takes one --traddr, not {count}"))),
        }
    }

    /// The same for each address by itself.
    pub(crate) fn each(&self) -> impl Iterator<Item = Self> + '_ {
        self.path_addresses.iter().map(|path| Self {
            address: path.address,
            path_addresses: vec![path.clone()],
            ..self.clone()
        })
    }

    /// The name of this host.
    pub(crate) fn host_nqn(&self) -> &str {
        &self.host.nqn
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

    /// Opens a namespace over all of the addresses, for a short look at it: a path that is lost is not connected again.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn volume(&self, nqn: &Nqn, nsid: u32) -> Result<Volume, Failure> {
        let paths = self.paths(nqn).into_iter().map(|path| ConnectOptions { io_queues: 1, ..path });
        let options = PathOptions::new(paths.collect(), nsid);
        let options = PathOptions { controller_loss: Some(Duration::ZERO), ..options };
        Volume::connect(options).map_err(Failure::failed)
    }

    /// All addresses.
    pub(crate) fn socket_addresses(&self) -> Vec<SocketAddr> {
        self.path_addresses.iter().map(|path| path.address).collect()
    }

    /// All addresses, for people.
    pub(crate) fn addresses(&self) -> String {
        self.path_addresses
            .iter()
            .map(|path| NetAddress::from(path.address).to_string())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Options for a subsystem by each of the addresses.
    pub(crate) fn paths(&self, nqn: &Nqn) -> Vec<ConnectOptions> {
        let options = |path: &PathAddress| ConnectOptions {
            address: path.address,
            host_traddr: path.host_traddr,
            host_iface: path.host_iface.clone(),
            secrets: self.secrets_for(nqn.as_str(), path.address),
            tls: self.tls.keys_for(nqn.as_str(), path.address),
            concat: self.concatenates(nqn.as_str(), path.address),
            ..self.subsystem(nqn)
        };
        self.path_addresses.iter().map(options).collect()
    }

    /// The same host at another address, as the discovery log names it.
    pub(crate) fn at(&self, address: SocketAddr) -> Self {
        let path = PathAddress { address, ..self.path_addresses[0].clone() };
        Self { address, path_addresses: vec![path], ..self.clone() }
    }

    fn adopt(&self, options: ConnectOptions) -> ConnectOptions {
        ConnectOptions {
            transport: self.transport,
            host: self.host.clone(),
            host_traddr: self.path_addresses[0].host_traddr,
            host_iface: self.path_addresses[0].host_iface.clone(),
            tos: self.tos,
            tclass: self.tclass,
            digests: self.digests,
            secrets: self.secrets_for(&options.subsystem_nqn, self.address),
            tls: self.tls.keys_for(&options.subsystem_nqn, self.address),
            concat: self.concatenates(&options.subsystem_nqn, self.address),
            ..options
        }
    }

    fn concatenates(&self, nqn: &str, address: SocketAddr) -> bool {
        // A key on the command line overrides the file's TLS settings. A discovery service does not
        // authenticate.
        let by_file = match &self.tls {
            Tls::Known(host) => host.concatenates(nqn, address),
            Tls::Same(_) => false,
        };
        (self.concat || by_file) && nqn != DISCOVERY_NQN
    }

    fn secrets_for(&self, nqn: &str, address: SocketAddr) -> Option<Arc<HostSecrets>> {
        match &self.secrets {
            Secrets::Same(secrets) => secrets.clone(),
            Secrets::Known(host) => host.secrets(nqn, address),
        }
    }
}

/// Addresses of the target that the flags give, each with the source of connections to it.
fn path_addresses(flags: &ConnectionFlags) -> Result<Vec<PathAddress>, Failure> {
    let count = flags.traddr.len();
    let of = |all: &[String], at: usize, name: &str| match all.len() {
        0 => Ok(None),
        1 => Ok(Some(all[0].clone())),
        given if given == count => Ok(Some(all[at].clone())),
        given => Err(Failure::usage(format!(
            "{given} {name} for {count} --traddr: give one for all, or one for each"
        ))),
    };
    let mut path_addresses: Vec<PathAddress> = Vec::with_capacity(count);
    for (at, address) in flags.traddr.iter().enumerate() {
        let host_iface = of(&flags.host_iface, at, "--host-iface")?;
        let interface = host_iface.as_deref().map(InterfaceName::new).transpose().map_err(Failure::usage)?;
        let written: HostAddress = address.parse().map_err(Failure::usage)?;
        let found = written.on(interface).remote(flags.trsvcid).map_err(Failure::failed)?;
        let host_traddr = of(&flags.host_traddr, at, "--host-traddr")?;
        let host_traddr = host_traddr.map(|host| own_address(&host, interface)).transpose()?;
        let is_of_family =
            |address: &&SocketAddr| host_traddr.is_none_or(|host| host.is_ipv4() == address.is_ipv4());
        let found: Vec<SocketAddr> = found.iter().filter(is_of_family).copied().collect();
        if found.is_empty() {
            return Err(Failure::usage("--host-traddr and --traddr are not of one address family"));
        }
        let address = first_reachable(address, &found, host_traddr);
        let path = PathAddress { address, host_traddr, host_iface };
        let is_twice = |other: &PathAddress| {
            (other.address, other.host_traddr, &other.host_iface)
                == (path.address, path.host_traddr, &path.host_iface)
        };
        if path_addresses.iter().any(is_twice) {
            return Err(Failure::usage(format!(
                "{} is named twice: each path needs an address or an interface of its own",
                NetAddress::from(address)
            )));
        }
        path_addresses.push(path);
    }
    Ok(path_addresses)
}

/// Refuses a traffic class where all addresses are written as IPv4 addresses. The addresses of a name may change.
fn refuse_tclass(flags: &ConnectionFlags) -> Result<(), String> {
    let is_ipv4 = |text: &String| {
        let literal = text.parse::<HostAddress>().ok().and_then(|written| written.literal(flags.trsvcid));
        literal.is_some_and(|address| address.ip().is_ipv4())
    };
    if flags.tclass.is_some() && flags.traddr.iter().all(is_ipv4) {
        return Err("--tclass is for IPv6 addresses; use --tos for IPv4".to_owned());
    }
    Ok(())
}

/// Warns of a mark that no packet to these addresses has.
fn warn_of_service(path_addresses: &[PathAddress], flags: &ConnectionFlags) {
    let sends_ipv4 = |path: &PathAddress| path.address.ip().to_canonical().is_ipv4();
    if flags.tos.is_some() && !path_addresses.iter().any(sends_ipv4) {
        tracing::warn!("--tos has no effect on connections over IPv6, which have a --tclass");
    }
    if flags.tclass.is_some() && path_addresses.iter().all(|path| path.address.is_ipv4()) {
        tracing::warn!("--tclass has no effect on connections over IPv4; use --tos for them");
    }
}

fn keep_alive_ms(seconds: u32) -> Result<u32, String> {
    let max_ms = engine::limits::KEEP_ALIVE_MS_USUAL;
    let milliseconds = seconds.checked_mul(1000).filter(|milliseconds| *milliseconds <= max_ms);
    milliseconds.ok_or_else(|| format!("a keep alive time-out of {seconds} s is over {} s", max_ms / 1000))
}

/// The address of this machine that is meant by --host-traddr.
fn own_address(text: &str, interface: Option<InterfaceName>) -> Result<IpAddr, Failure> {
    let written: HostAddress = text.parse().map_err(Failure::usage)?;
    if written.port().is_some() {
        return Err(Failure::usage(format!("--host-traddr `{text}`: write it without a port")));
    }
    // Its link is that of the other end.
    match written.literal(0) {
        Some(address) => Ok(address.ip()),
        None => {
            let found = written.on(interface).local(0).map_err(Failure::failed)?;
            found
                .first()
                .map(NetAddress::ip)
                .ok_or_else(|| Failure::failed(format!("`{text}` has no address")))
        }
    }
}

/// The first of a name's addresses that can be connected to, in the order in which the system has them (RFC 8305, without races).
/// Where there is none, the first is left to fail by the command itself: a target may come up later.
pub(crate) fn first_reachable(name: &str, addresses: &[SocketAddr], source: Option<IpAddr>) -> SocketAddr {
    let first = addresses[0];
    if addresses.len() == 1 {
        return first;
    }
    let mut failed = Vec::new();
    for address in addresses {
        let reason = match probe(*address, source) {
            Probe::Reached { .. } => return *address,
            Probe::Refused { reason } => reason.to_lowercase(),
            Probe::Silent => "no answer".to_owned(),
        };
        failed.push(format!("{} ({reason})", NetAddress::from(*address)));
    }
    eprintln!("selvedge: {name} cannot be reached at any of its addresses: {}", failed.join(", "));
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_may_have_ports() {
        let nqn = Nqn::new("nqn.a").unwrap();
        let at = |arguments: &str| {
            Connection::new(&ConnectionFlags::of(arguments)).map(|all| all.paths(&nqn)[0].address)
        };
        assert_eq!(at("-a localhost:4421").unwrap().port(), 4421);
        assert!(at("-a localhost:4421").unwrap().ip().is_loopback());
        assert_eq!(at("-a [::1]:1").unwrap().to_string(), "[::1]:1");
        assert_eq!(at("-a localhost -w 127.0.0.1").unwrap().to_string(), "127.0.0.1:4420");
        let scoped = at("-a fe80::1%lo").unwrap();
        assert_eq!(at("-a fe80::1 -f lo").unwrap(), scoped);
        assert_eq!(at("-a [fe80::1%lo]:4420").unwrap(), scoped);
        for wrong in ["-a 127.0.0.1:0", "-a 127.0.0.1 -s 0", "-a 127.0.0.1:70000", "-a fe80::1", "-a host:"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_addresses_of_a_name_are_tried() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let mut other = there;
        other.set_ip("127.0.0.9".parse().unwrap());
        assert_eq!(first_reachable("name", &[other, there], None), there);
        drop(listener);
        assert_eq!(first_reachable("name", &[other, there], None), other, "none is there");
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
    fn several_addresses_are_paths() {
        let nqn = Nqn::new("nqn.a").unwrap();
        let paths =
            |arguments: &str| Connection::new(&ConnectionFlags::of(arguments)).map(|all| all.paths(&nqn));
        let two = paths("-a 127.0.0.1,127.0.0.2:4421 -s 4420 -w 127.0.0.9").unwrap();
        let addresses: Vec<String> = two.iter().map(|path| path.address.to_string()).collect();
        assert_eq!(addresses, ["127.0.0.1:4420", "127.0.0.2:4421"]);
        assert!(two.iter().all(|path| path.host_traddr == Some("127.0.0.9".parse().unwrap())));
        assert_eq!(paths("-a 127.0.0.1 -a [::1]:1 -t mptcp").unwrap()[1].transport, Transport::Mptcp);
        assert_eq!(
            paths("-a 127.0.0.1 -a 127.0.0.1 -f eth0,eth1").unwrap()[1].host_iface.as_deref(),
            Some("eth1")
        );
        for wrong in ["-a 127.0.0.1 -a 127.0.0.1", "-a 127.0.0.1,127.0.0.2,127.0.0.3 -f eth0,eth1"] {
            assert!(matches!(paths(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
        assert!(Connection::one(&ConnectionFlags::of("-a 127.0.0.1,127.0.0.2")).is_err());
    }

    #[test]
    fn marks_reach_every_path() {
        let flags = ConnectionFlags::of("-a 127.0.0.1 -a [::1]:1 -T 40 --tclass 72");
        let connection = Connection::new(&flags).unwrap();
        let paths = connection.paths(&Nqn::new("nqn.a").unwrap());
        let marks: Vec<_> = paths.iter().map(|path| (path.tos, path.tclass)).collect();
        assert_eq!(marks, [(Some(40), Some(72)); 2]);
        let discovery = connection.discovery();
        assert_eq!((discovery.tos, discovery.tclass), (Some(40), Some(72)));
    }

    #[test]
    fn contradictions_are_usage_errors() {
        for arguments in [
            "-a ::1 -w 127.0.0.1",
            "-a 127.0.0.1 -k 4000000",
            "-a 127.0.0.1 -I 12",
            "-a 127.0.0.1 --tclass 8",
        ] {
            let flags = ConnectionFlags::of(arguments);
            assert!(matches!(Connection::new(&flags), Err(Failure::Usage(_))), "{arguments}");
        }
    }

    #[test]
    fn marks_of_another_family_are_kept_where_addresses_may_change() {
        let marks = |connection: Result<Connection, Failure>| {
            let connection = connection.expect("no contradiction");
            (connection.discovery().tos, connection.discovery().tclass)
        };
        assert_eq!(marks(Connection::new(&ConnectionFlags::of("-a ::1 --tos 8"))), (Some(8), None));
        let by_name = ConnectionFlags::of("-a localhost -w 127.0.0.1 --tclass 8");
        assert_eq!(marks(Connection::new(&by_name)), (None, Some(8)));
        let by_address = ConnectionFlags::of("-a 127.0.0.1 --tclass 8");
        assert_eq!(marks(Connection::to_discover(&by_address)), (None, Some(8)));
        assert_eq!(marks(Connection::one(&by_address)), (None, Some(8)));
    }
}
