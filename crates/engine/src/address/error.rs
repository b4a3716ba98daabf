//! Reasons for which an address is refused: a mistake of its writer, or a name or interface that this machine lacks.

use std::io;
use std::net::IpAddr;

use super::PORT_DEFAULT;

/// Reason for which an address cannot be read, or not be used for its purpose.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// Text that no interface can have as its name.
    #[error("`{0}` is not the name of an interface")]
    Interface(String),
    /// The same in an address.
    #[error("`{text}`: `{name}` is not the name of an interface")]
    InterfaceWithin {
        /// The address.
        text: String,
        /// The interface.
        name: String,
    },
    /// Host name in place of an IP address.
    #[error("`{0}` is not an IP address")]
    NotIp(String),
    /// Bracket without its counterpart.
    #[error("`{0}` has a bracket that is not closed")]
    OpenBracket(String),
    /// Text between a closing bracket and the port.
    #[error("`{0}`: write [ADDRESS]:PORT")]
    AfterBracket(String),
    /// Text in brackets that is not an IP address.
    #[error("`{0}` is not an IP address, and brackets are for IPv6 addresses")]
    InBrackets(String),
    /// Text with several colons that is not an IPv6 address.
    #[error("`{0}` is not an IPv6 address; with a port it is written in brackets, as in [::1]:{port}", port = PORT_DEFAULT)]
    NotIpv6(String),
    /// Interface of an address that has none.
    #[error("`{0}` has an interface, and only IPv6 addresses have one")]
    NeedlessInterface(String),
    /// Port that is not a number.
    #[error("`{text}`: `{port}` is not a port, which is a number from 1 to 65535")]
    Port {
        /// The address.
        text: String,
        /// The port.
        port: String,
    },
    /// Port above the highest.
    #[error("`{text}`: port {port} is above 65535")]
    PortMax {
        /// The address.
        text: String,
        /// The port.
        port: String,
    },
    /// Text that neither an address nor a host can have.
    #[error("`{0}` is neither an IP address nor a host name")]
    Name(String),
    /// Port 0 of an address to connect to.
    #[error("`{0}`: port 0 cannot be connected to; ports are 1 to 65535")]
    PortZero(String),
    /// Service of a discovery service that is not a port.
    #[error("`{0}` is not a port of a discovery service, which is 1 to 65535")]
    DiscoveryPort(String),
    /// Name that the system cannot look up.
    #[error("`{name}` is neither an IP address nor a name that can be looked up: {reason}")]
    Unknown {
        /// The name.
        name: String,
        /// Reason of the system.
        reason: String,
    },
    /// Name without an address.
    #[error("the name `{0}` has no address")]
    NoAddress(String),
    /// Name whose addresses are other machines'.
    #[error("the name `{0}` has no address of this machine")]
    Elsewhere(String),
    /// Link-local address without its interface.
    #[error("`{0}` is a link-local address: add its interface, as in {0}%eth0")]
    NoInterface(IpAddr),
    /// Interface that is not there.
    #[error("`{address}`: {source}")]
    Unusable {
        /// The address.
        address: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Interface of this machine in an address for hosts.
    #[error("`{address}`: hosts have interfaces of their own; write the address without {interface}")]
    InterfaceForHosts {
        /// The address.
        address: String,
        /// The interface.
        interface: String,
    },
    /// Any address of a machine, as an address for hosts.
    #[error("`{0}` is any address of a machine: name one that hosts can reach")]
    Unspecified(String),
    /// Port of an address for hosts, which learn it elsewhere.
    #[error("`{0}`: write it without a port; hosts learn that of the listener")]
    PortForHosts(String),
}
