//! The mailboxes of all reactors of a target, for broadcasts and fences.

use std::sync::{Arc, OnceLock};

use nvme::Status;

use super::abort::Abort;
use super::address::Address;
use super::fence::{Fence, Fenced, Then};
use super::mailbox::{Mailbox, Message};
use crate::target::controller::{Controller, Notice};

/// The ways to all reactors.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes(OnceLock<Vec<Arc<Mailbox>>>);

impl Mailboxes {
    /// Makes the reactors known, once they run.
    pub(crate) fn introduce(&self, reactors: Vec<Arc<Mailbox>>) {
        let _ = self.0.set(reactors);
    }

    /// All of them, by their numbers.
    pub(crate) fn all(&self) -> &[Arc<Mailbox>] {
        self.0.get().map_or(&[], |reactors| reactors)
    }

    /// Sends a message to every reactor.
    pub(crate) fn tell(&self, message: impl Fn() -> Message) {
        for reactor in self.all() {
            reactor.send(message());
        }
    }

    /// Sends a message to the reactor with this number.
    pub(crate) fn send(&self, number: usize, message: Message) {
        if let Some(reactor) = self.all().get(number) {
            reactor.send(message);
        }
    }

    /// Answers a command of a connection, if that is still there.
    pub(crate) fn answer(&self, (address, command_id): (Address, u16), status: Status, result: u64) {
        let Address { reactor, connection, serial } = address;
        self.send(reactor, Message::Answer { connection, serial, command_id, status, result });
    }

    /// Answers an admin command with data, if its connection is still there.
    pub(crate) fn answer_with(&self, (address, command_id): (Address, u16), data: Vec<u8>) {
        let Address { reactor, connection, serial } = address;
        self.send(reactor, Message::AnswerWith { connection, serial, command_id, data });
    }

    /// Ends a command that the reservation worker has done, in a slot of a connection, if that is still there.
    pub(crate) fn finish(&self, address: Address, slot: u16, status: Status, data: Vec<u8>) {
        let Address { reactor, connection, serial } = address;
        self.send(reactor, Message::Finish { connection, serial, slot, status, data });
    }

    /// Asks all reactors to pass. What makes new commands be refused or held back has to be visible before: a reactor that has
    /// passed does not look again.
    pub(crate) fn raise(&self, fenced: Fenced, then: Then) {
        let fence = Arc::new(Fence::new(fenced, then, self.all().len()));
        self.tell(|| Message::Fence(fence.clone()));
    }

    /// Asks all reactors for a command, by its controller's, its queue's and its own identifiers.
    pub(crate) fn abort(&self, command: (u16, u16, u16), asker: (Address, u16)) {
        let abort = Arc::new(Abort::new(command, asker, self.all().len()));
        self.tell(|| Message::Abort(abort.clone()));
    }

    /// Tells the controller's host that something happened, if it wants to know.
    pub(crate) fn notify(&self, controller: &Controller, notice: Notice) {
        if controller.raise(notice) {
            let id = controller.id;
            self.tell(|| Message::Events(id));
        }
    }
}
