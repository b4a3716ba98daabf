//! What packets a rule of an interface is for that names more than one flow.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packets of a rule that does not name exactly one TCP flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "for")]
pub enum RuleScope {
    /// The driver tells more than is understood here, so it may be for any packet.
    #[default]
    Unknown,
    /// Packets of another protocol than TCP.
    OtherProtocol,
    /// TCP packets with these bits of their addresses and ports, and nothing else is compared.
    Masked {
        /// The sender.
        source: MaskedEnd,
        /// The receiver.
        destination: MaskedEnd,
    },
}

/// Addresses and ports at one end of a rule's flows: bits that a mask leaves out are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MaskedEnd {
    /// The address.
    pub address: IpAddr,
    /// Bits of the address that are compared.
    pub address_mask: IpAddr,
    /// The port.
    pub port: u16,
    /// Bits of the port that are compared.
    pub port_mask: u16,
}

impl RuleScope {
    pub(crate) fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}
