//! Renewal of a queue's TLS keys before its present ones are used up. Where the target takes
//! KeyUpdates, they are replaced on the connection. Elsewhere the queue is given nothing more to
//! do; when all that was under way is answered, its connection ends in good order, and another one
//! with keys of its own is made for the same queue. No command is on its way meanwhile, so none can
//! be lost or take effect twice, and the association goes on. Any failure closes the queue, as it
//! does elsewhere.

use std::io;

use nvme::tcp::{Receiver, Role};
use secure_channel::RecordLimit;

use super::open::{connect, unsettled};
use super::{Queue, QueueState};
use crate::initiator::TlsKeys;
use crate::limits::{BUFFER_LENGTH_MAX, RECEIVE_BUDGET};
use crate::ring::{self, Moment, Ring, SpanMut};

/// Part of its records by which a queue takes its keys for used up earlier, at most, so that those
/// that began together do not all reconnect at once.
const SOONER: u64 = 8;

impl Queue {
    /// The target is known to take new TLS keys on a connection.
    pub(in crate::initiator) const fn use_key_updates(&mut self) {
        self.options.takes_key_updates = true;
    }

    /// Number of records after which its keys are used up.
    pub(super) fn renewal(&self) -> RecordLimit {
        let limit = self.options.tls.as_ref().map_or_else(TlsKeys::usual_renewal, |keys| keys.renew_after);
        let sooner = ring::random() % (limit.records() / SOONER).max(1);
        RecordLimit::new(limit.records() - sooner).unwrap_or(limit)
    }

    /// Replaces keys that were used as often as they should be, in both directions, before the target has to end the queue.
    pub(super) fn renew_keys(&mut self) {
        let Some(secure) = &mut self.secure else { return };
        if !secure.is_worn() {
            return;
        }
        let may_update = self.options.tls.as_ref().is_none_or(|keys| keys.by_key_updates);
        if self.options.takes_key_updates && may_update {
            if secure.renew() {
                tracing::debug!(queue = self.options.queue_id, "replacing the TLS keys of a queue");
            }
        } else if self.options.queue_id > 0 && self.state == QueueState::Live {
            // The end of an admin queue would be that of the association: it goes on as long as its keys can be used at all.
            self.is_worn = true;
        }
    }

    /// True if its keys are used up, and nothing is under way.
    pub(super) fn is_done_with_keys(&self) -> bool {
        let is_idle = self.outstanding() == 0 && self.transmitter.is_empty() && self.exchange.is_none();
        self.is_worn && is_idle && !self.blocked && self.state == QueueState::Live
    }

    /// Ends the connection in good order, so that another one can be made.
    pub(super) fn end_connection(&mut self, ring: &mut Ring) {
        tracing::debug!(
            queue = self.options.queue_id,
            "TLS keys are used up, and the target cannot replace them; reconnecting the queue"
        );
        self.say_goodbye();
        if let Some(socket) = &self.socket {
            socket.shut_down_sending();
        }
        self.state = QueueState::Ending;
        self.connect_deadline = ring.now().after(self.options.connect_timeout);
        self.await_end(ring);
    }

    /// Waits until the target has closed the connection: before, the queue is still there, and no other one of its number is
    /// taken. All commands are answered, so that nothing it may still say is of any use.
    pub(super) fn await_end(&mut self, ring: &mut Ring) {
        let mut sink = [0; 4096];
        for _ in 0..RECEIVE_BUDGET {
            let Some(socket) = &self.socket else { return };
            match socket.receive(&mut [SpanMut::new(&mut sink)]) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.more = false;
                    return;
                }
                // In whatever way it has ended.
                Ok(0) | Err(_) => return self.reconnect(ring),
            }
        }
        self.more = true;
    }

    fn reconnect(&mut self, ring: &mut Ring) {
        if let Some(socket) = self.socket.take() {
            ring.unwatch(&socket, self.token);
        }
        self.pending = match connect(ring, self.token, &self.options) {
            Ok(pending) => Some(pending),
            Err(error) => return self.shut(ring, error),
        };
        (self.state, self.secure, self.is_worn) = (QueueState::Connecting, None, false);
        self.recall_offer();
        self.receiver = Receiver::new(Role::Host, BUFFER_LENGTH_MAX as u32);
        self.transmitter = self.slots.transmitter();
        self.negotiated = unsettled();
        (self.incoming, self.data_length_last) = (None, 0);
        (self.blocked, self.more, self.is_at_end) = (true, false, false);
        (self.exchange_at, self.scan_at) = (None, Moment(0));
        self.connect_deadline = ring.now().after(self.options.connect_timeout);
    }
}
