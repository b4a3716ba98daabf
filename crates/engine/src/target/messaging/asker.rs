//! The sender of a request that another thread answers: a host, and its command that waits.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use nvme::Status;

use super::address::Address;
use super::mailboxes::Mailboxes;
use crate::target::config::KnownHost;
use crate::target::controller::Controller;

/// Origin of a request: the host, its controller and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskingHost {
    /// The host.
    pub known: KnownHost,
    /// The controller that was asked (CNTLID).
    pub controller: u16,
    /// The address that the command came from.
    pub address: SocketAddr,
}

impl fmt::Display for AskingHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { known: KnownHost { nqn, host_id }, controller, address } = self;
        write!(f, "{nqn} (HOSTID {host_id}, {address}, controller {controller})")
    }
}

/// The command that waits.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) mailboxes: Arc<Mailboxes>,
    /// Address of the connection.
    pub(crate) address: Address,
    pub(crate) command_id: u16,
    /// The address of its other end.
    pub(crate) peer: SocketAddr,
}

impl Asker {
    /// The host that waits at its controller.
    pub(crate) fn host(&self, controller: &Controller) -> AskingHost {
        AskingHost { known: controller.host.known(), controller: controller.id, address: self.peer }
    }

    /// Address of the connection.
    pub(crate) const fn address(&self) -> Address {
        self.address
    }

    /// Ends the reservation command in this slot of its connection, if that is still there.
    pub(crate) fn finish(&self, slot: u16, status: Status, data: Vec<u8>) {
        self.mailboxes.finish(self.address, slot, status, data);
    }

    /// Answers the admin command with data, if its connection is still there.
    pub(crate) fn answer_with(&self, data: Vec<u8>) {
        self.mailboxes.answer_with((self.address, self.command_id), data);
    }

    /// Answers the command, if its connection is still there.
    pub(crate) fn answer(&self, status: Status, result: u64) {
        self.mailboxes.answer((self.address, self.command_id), status, result);
    }
}
