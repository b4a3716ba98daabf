//! A queue that is left to the new process, and one that comes from the old one: between two PDUs,
//! with nothing on its way to the host.

use nvme::tcp::Digests;
use secure_channel::Peer;

use super::tcp_queue::Queue;
use crate::ring::Moment;
use crate::secure_stream::{SecureStream, StreamState};

/// State of a quiesced queue.
#[derive(Debug)]
pub(crate) struct QueueState {
    pub(crate) digests: Digests,
    pub(crate) alignment: u8,
    pub(crate) entries: u16,
    pub(crate) head: u16,
    pub(crate) has_flow_control: bool,
    /// TLS, if it is.
    pub(crate) stream: Option<StreamState>,
}

impl<H> Queue<H> {
    /// True if nothing is in transit in either direction, except perhaps the beginning of a PDU.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.receiver.is_between_data()
            && self.requested.iter().all(Option::is_none)
            && self.is_flushed()
            && self.secure.as_ref().is_none_or(|secure| secure.state().is_some())
    }

    /// True between two PDUs, or within the header of one.
    pub(crate) fn is_between_data(&self) -> bool {
        self.receiver.is_between_data()
    }

    /// True while the host owes the rest of a PDU, or data that was requested of it.
    pub(crate) fn waits_for_host(&self) -> bool {
        !self.receiver.is_between_data() || self.requested.iter().any(Option::is_some) || self.blocked
    }

    /// Removes and returns the received beginning of the next PDU's header.
    pub(crate) fn take_begun_header(&mut self) -> Vec<u8> {
        self.receiver.take_begun_header().unwrap_or_default().to_vec()
    }

    /// State of the queue, `None` while it is not quiesced.
    pub(crate) fn state(&self) -> Option<QueueState> {
        let stream = match &self.secure {
            Some(secure) => Some(secure.state()?),
            None => None,
        };
        self.is_at_rest().then_some(QueueState {
            digests: self.digests,
            alignment: self.transmitter.alignment(),
            entries: self.entries,
            head: self.head,
            has_flow_control: self.flow_control,
            stream,
        })
    }

    /// Goes on as the old process' queue, on the same socket.
    pub(crate) fn go_on(&mut self, state: QueueState, limit: secure_channel::RecordLimit) {
        let QueueState { digests, alignment, entries, head, has_flow_control, stream } = state;
        self.receiver.go_on_with(digests);
        self.transmitter.set_digests(digests);
        self.transmitter.set_alignment(alignment);
        self.digests = digests;
        self.entries = entries;
        self.head = head;
        self.flow_control = has_flow_control;
        self.secure = stream.map(|stream| Box::new(SecureStream::going_on(stream, Peer::Host, limit)));
        self.close_at(None::<Moment>);
    }
}
