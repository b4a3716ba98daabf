//! Addresses as people write them, and as programs show them: a host name or an IP address, the interface of an address that is
//! valid on one link only, and a port. Names are looked up here. Connecting and listening are the ring's.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs, UdpSocket};
use std::str::FromStr;

use rustix::net::netdevice;
use rustix::net::{AddressFamily, SocketType};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

mod error;

pub use error::AddressError;

/// Port of NVMe/TCP, as IANA assigned it.
pub const PORT_DEFAULT: u16 = 4420;

/// Bytes of the longest name of an interface (IFNAMSIZ, without the ending NUL).
const INTERFACE_BYTES_MAX: usize = 15;
/// Bytes of the longest host name (RFC 1035, 2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Name of a network interface. An index for which there is no interface is kept as its digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceName {
    bytes: [u8; INTERFACE_BYTES_MAX],
    length: u8,
}

impl InterfaceName {
    /// Checks a name. Digits are an index, unless an interface has them as its name.
    ///
    /// # Errors
    /// The reason why no interface can have this name.
    pub fn new(text: &str) -> Result<Self, AddressError> {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !b"/:%[],".contains(&byte);
        if text.is_empty() || text.len() > INTERFACE_BYTES_MAX || !text.bytes().all(is_allowed) {
            return Err(AddressError::Interface(text.to_owned()));
        }
        let index = text.parse().ok().filter(|_| index_of(text).is_err());
        let name = index.and_then(name_of).map_or(Cow::Borrowed(text), Cow::Owned);
        Ok(Self::of(&name))
    }

    fn of(text: &str) -> Self {
        let mut name = Self { bytes: [0; INTERFACE_BYTES_MAX], length: 0 };
        let length = text.len().min(INTERFACE_BYTES_MAX);
        name.bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        name.length = length as u8;
        name
    }

    fn of_index(index: u32) -> Self {
        Self::of(&name_of(index).unwrap_or_else(|| index.to_string()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }

    /// Index of the interface in this network namespace.
    ///
    /// # Errors
    /// `NotFound` if there is no such interface.
    pub fn index(&self) -> io::Result<u32> {
        index_of(self.as_str()).or_else(|error| self.as_str().parse().map_err(|_| error))
    }
}

fn index_of(name: &str) -> io::Result<u32> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    netdevice::name_to_index(&socket, name)
        .map_err(|_| io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {name}")))
}

fn name_of(index: u32) -> Option<String> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
    netdevice::index_to_name(&socket, index).ok()
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// An IP address with its port, and with its interface where it is valid on one link only (RFC 4007). The interface is kept by
/// name, since an index changes when the interface or the machine comes up again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetAddress {
    ip: IpAddr,
    interface: Option<InterfaceName>,
    port: u16,
}

impl NetAddress {
    /// The IP address.
    pub const fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Sets the port.
    pub const fn set_port(&mut self, port: u16) {
        self.port = port;
    }

    /// The interface of a link-local address.
    pub const fn interface(&self) -> Option<InterfaceName> {
        self.interface
    }

    /// The address for the system's calls.
    ///
    /// # Errors
    /// When the interface is not there.
    pub fn socket_addr(&self) -> io::Result<SocketAddr> {
        match (self.ip, self.interface) {
            (IpAddr::V6(ip), Some(interface)) => {
                Ok(SocketAddrV6::new(ip, self.port, 0, interface.index()?).into())
            }
            _ => Ok(SocketAddr::new(self.ip, self.port)),
        }
    }

    /// The same, without the scope of an interface that is not there.
    pub fn to_socket_addr(self) -> SocketAddr {
        self.socket_addr().unwrap_or_else(|_| SocketAddr::new(self.ip, self.port))
    }

    /// The address without its port and without brackets, as nvme-cli and the kernel read it.
    pub fn host(&self) -> String {
        match self.interface {
            Some(interface) => format!("{}%{interface}", self.ip),
            None => self.ip.to_string(),
        }
    }

    /// True if both are the same address. One that names no interface, or port 0, fits any.
    pub fn fits(&self, other: &Self) -> bool {
        let is_same_scope = match (self.interface, other.interface) {
            (Some(own), Some(others)) => own == others,
            _ => true,
        };
        self.ip.to_canonical() == other.ip.to_canonical()
            && is_same_scope
            && (self.port == other.port || self.port == 0 || other.port == 0)
    }
}

impl From<SocketAddr> for NetAddress {
    fn from(address: SocketAddr) -> Self {
        let interface = match address {
            SocketAddr::V6(address) if address.scope_id() != 0 && is_link_local(*address.ip()) => {
                Some(InterfaceName::of_index(address.scope_id()))
            }
            _ => None,
        };
        Self { ip: address.ip(), interface, port: address.port() }
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for NetAddress {
    fn from(address: (I, u16)) -> Self {
        SocketAddr::from(address).into()
    }
}

impl PartialEq<SocketAddr> for NetAddress {
    fn eq(&self, other: &SocketAddr) -> bool {
        *self == Self::from(*other)
    }
}

impl fmt::Display for NetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            IpAddr::V4(ip) => write!(f, "{ip}:{}", self.port),
            IpAddr::V6(_) => write!(f, "[{}]:{}", self.host(), self.port),
        }
    }
}

impl fmt::Debug for NetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for NetAddress {
    type Err = AddressError;

    /// Reads an IP address; without a port it has that of NVMe/TCP.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let address: HostAddress = text.parse()?;
        address.literal(PORT_DEFAULT).ok_or_else(|| AddressError::NotIp(text.to_owned()))
    }
}

impl Serialize for NetAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NetAddress {
    /// Reads an address of this machine. A name is looked up; of several addresses it is the first that this machine has.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let address: HostAddress = text.parse().map_err(de::Error::custom)?;
        if let Some(address) = address.literal(PORT_DEFAULT) {
            return Ok(address);
        }
        let found = address.local(PORT_DEFAULT).map_err(de::Error::custom)?;
        found.first().copied().ok_or_else(|| de::Error::custom(AddressError::NoAddress(text)))
    }
}

impl schemars::JsonSchema for NetAddress {
    fn inline_schema() -> bool {
        <SocketAddr as schemars::JsonSchema>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        <SocketAddr as schemars::JsonSchema>::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <SocketAddr as schemars::JsonSchema>::json_schema(generator)
    }
}

/// An address as it is written: a name or an IP address, and perhaps a port. IPv6 addresses with a port stand in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    host: Host,
    port: Option<u16>,
}

/// A host as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Ip(IpAddr, Option<InterfaceName>),
    Name(String),
}

impl FromStr for HostAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(rest) = text.strip_prefix('[') {
            let (inside, after) =
                rest.split_once(']').ok_or_else(|| AddressError::OpenBracket(text.to_owned()))?;
            let port = match after.strip_prefix(':') {
                None if after.is_empty() => None,
                None => return Err(AddressError::AfterBracket(text.to_owned())),
                Some(digits) => Some(port(text, digits)?),
            };
            let (ip, interface) =
                ip(inside, true)?.ok_or_else(|| AddressError::InBrackets(inside.to_owned()))?;
            return Ok(Self { host: Host::Ip(ip, interface), port });
        }
        if let Some((ip, interface)) = ip(text, false)? {
            return Ok(Self { host: Host::Ip(ip, interface), port: None });
        }
        let (host, port) = match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err(AddressError::NotIpv6(text.to_owned()));
            }
            Some((host, digits)) => (host, Some(port(text, digits)?)),
            None => (text, None),
        };
        if let Some((ip, interface)) = ip(host, false)? {
            return Ok(Self { host: Host::Ip(ip, interface), port });
        }
        check_name(text, host)?;
        Ok(Self { host: Host::Name(host.to_owned()), port })
    }
}

/// An IP address with its interface, if the text is one. RFC 6874 has the percent sign of a URL's address escaped.
fn ip(text: &str, is_in_brackets: bool) -> Result<Option<(IpAddr, Option<InterfaceName>)>, AddressError> {
    let Some((ip, scope)) = text.split_once('%') else {
        return Ok(text.parse().ok().map(|ip| (ip, None)));
    };
    let Ok(ip) = ip.parse::<Ipv6Addr>() else {
        return Err(AddressError::NeedlessInterface(text.to_owned()));
    };
    let scope = match scope.strip_prefix("25") {
        Some(rest) if is_in_brackets && !rest.is_empty() => rest,
        _ => scope,
    };
    let interface = InterfaceName::new(scope)
        .map_err(|_| AddressError::InterfaceWithin { text: text.to_owned(), name: scope.to_owned() })?;
    // Other addresses are the same on all interfaces.
    Ok(Some((ip.into(), is_link_local(ip).then_some(interface))))
}

fn port(text: &str, digits: &str) -> Result<u16, AddressError> {
    let (text, port) = (text.to_owned(), digits.to_owned());
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AddressError::Port { text, port });
    }
    digits.parse().map_err(|_| AddressError::PortMax { text, port })
}

fn check_name(text: &str, name: &str) -> Result<(), AddressError> {
    let is_allowed = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '.' | '_');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_allowed) {
        return Err(AddressError::Name(text.to_owned()));
    }
    Ok(())
}

const fn is_link_local(ip: Ipv6Addr) -> bool {
    ip.is_unicast_link_local()
}

impl HostAddress {
    /// True if the host is given by a name.
    pub const fn is_name(&self) -> bool {
        matches!(self.host, Host::Name(_))
    }

    /// The port, if one is written.
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// The host without port and brackets, as nvme-cli and the kernel read it.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Ip(ip, interface) => NetAddress { ip: *ip, interface: *interface, port: 0 }.host(),
            Host::Name(name) => name.clone(),
        }
    }

    /// The same, where a link-local address without an interface is meant on this one.
    #[must_use]
    pub fn on(mut self, interface: Option<InterfaceName>) -> Self {
        if let Host::Ip(IpAddr::V6(ip), known @ None) = &mut self.host
            && is_link_local(*ip)
        {
            *known = interface;
        }
        self
    }

    /// The address, unless the host is given by a name; `port` is that of one that has none.
    pub fn literal(&self, port: u16) -> Option<NetAddress> {
        let port = self.port.unwrap_or(port);
        match self.host {
            Host::Ip(ip, interface) => Some(NetAddress { ip, interface, port }),
            Host::Name(_) => None,
        }
    }

    /// All addresses to connect to, in the order in which they are to be tried; `port` is that of one that has none.
    ///
    /// # Errors
    /// When the name cannot be looked up, the port is 0, or the interface of a link-local address is missing.
    pub fn remote(&self, port: u16) -> Result<Vec<SocketAddr>, AddressError> {
        if self.port.unwrap_or(port) == 0 {
            return Err(AddressError::PortZero(self.to_string()));
        }
        self.look_up(port)?.iter().map(|address| self.usable(address)).collect()
    }

    /// All addresses, for comparison with others; `port` is that of one that has none.
    ///
    /// # Errors
    /// When the name cannot be looked up.
    pub fn all(&self, port: u16) -> Result<Vec<NetAddress>, AddressError> {
        self.look_up(port)
    }

    /// All addresses of this machine that are meant, to listen on; `port` is that of one that has none.
    ///
    /// # Errors
    /// When the name cannot be looked up or has no address of this machine, or the interface of a link-local address is missing.
    pub fn local(&self, port: u16) -> Result<Vec<NetAddress>, AddressError> {
        let mut found = self.look_up(port)?;
        if self.is_name() {
            found.retain(is_of_this_machine);
            if found.is_empty() {
                return Err(AddressError::Elsewhere(self.host()));
            }
        }
        // The interface of a literal address may come later, with a module or a network.
        let needs_interface = |address: &&NetAddress| {
            matches!(address.ip, IpAddr::V6(ip) if is_link_local(ip)) && address.interface.is_none()
        };
        match found.iter().find(needs_interface) {
            Some(address) => Err(AddressError::NoInterface(address.ip)),
            None => Ok(found),
        }
    }

    /// Checks that hosts can be sent to it, by a record of a discovery log.
    ///
    /// # Errors
    /// When it has an interface, which means nothing on another machine, or is any address of a machine.
    pub fn check_for_hosts(&self, port: u16) -> Result<(), AddressError> {
        match self.literal(port) {
            Some(NetAddress { interface: Some(interface), .. }) => Err(AddressError::InterfaceForHosts {
                address: self.to_string(),
                interface: interface.to_string(),
            }),
            Some(address) if address.ip.is_unspecified() => Err(AddressError::Unspecified(self.to_string())),
            _ => Ok(()),
        }
    }

    /// Address that hosts are to be sent to, as a record of a discovery log has it.
    ///
    /// # Errors
    /// When it is neither an IP address nor a host name, has a port, or cannot be reached by hosts.
    pub fn advertised(text: &str) -> Result<String, AddressError> {
        let address: Self = text.parse()?;
        if address.port.is_some() {
            return Err(AddressError::PortForHosts(text.to_owned()));
        }
        address.check_for_hosts(PORT_DEFAULT)?;
        Ok(address.host())
    }

    fn usable(&self, address: &NetAddress) -> Result<SocketAddr, AddressError> {
        match (address.ip, address.interface) {
            (IpAddr::V6(ip), None) if is_link_local(ip) => Err(AddressError::NoInterface(address.ip)),
            _ => address
                .socket_addr()
                .map_err(|source| AddressError::Unusable { address: self.to_string(), source }),
        }
    }

    fn look_up(&self, port: u16) -> Result<Vec<NetAddress>, AddressError> {
        let Host::Name(name) = &self.host else { return Ok(self.literal(port).into_iter().collect()) };
        let found = (name.as_str(), self.port.unwrap_or(port)).to_socket_addrs().map_err(|error| {
            let error = error.to_string();
            let reason = error.strip_prefix("failed to lookup address information: ").unwrap_or(&error);
            AddressError::Unknown { name: name.clone(), reason: reason.to_owned() }
        })?;
        let mut distinct = Vec::new();
        for address in found.map(NetAddress::from) {
            if !distinct.contains(&address) {
                distinct.push(address);
            }
        }
        if distinct.is_empty() { Err(AddressError::NoAddress(name.clone())) } else { Ok(distinct) }
    }

    /// Address of a record of a discovery log, which was read at `reached`. A link-local address means nothing without the
    /// interface that the log came over.
    ///
    /// # Errors
    /// When the record has no such address.
    pub fn of_record(traddr: &str, trsvcid: &str, reached: SocketAddr) -> Result<SocketAddr, AddressError> {
        let record: Self = traddr.parse()?;
        let record = record.on(NetAddress::from(reached).interface());
        let service = trsvcid.parse().unwrap_or(reached.port());
        let found = record.remote(service)?;
        found.first().copied().ok_or_else(|| AddressError::NoAddress(traddr.to_owned()))
    }
}

/// True if this machine has the address: a socket can be bound to it.
fn is_of_this_machine(address: &NetAddress) -> bool {
    let free = NetAddress { port: 0, ..*address };
    address.ip.is_unspecified() || free.socket_addr().and_then(UdpSocket::bind).is_ok()
}

impl From<SocketAddr> for HostAddress {
    fn from(address: SocketAddr) -> Self {
        let NetAddress { ip, interface, port } = address.into();
        Self { host: Host::Ip(ip, interface), port: Some(port) }
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (Host::Ip(IpAddr::V6(_), _), Some(port)) => write!(f, "[{}]:{port}", self.host()),
            (_, Some(port)) => write!(f, "{}:{port}", self.host()),
            (_, None) => f.write_str(&self.host()),
        }
    }
}

#[cfg(test)]
mod tests;
