//! TLS between a socket and a queue, once a handshake has left both keys: received records are
//! opened in place, and data is sealed on its way into the space that is sent from. The content is
//! the queue's, and the handshake is done elsewhere.

mod inbound;
mod outbound;

use secure_channel::{DirectionState, Peer, PskIdentity, RecordLimit, Suite, TrafficSecret};

pub use inbound::{Inbound, Piece};
pub use outbound::{Outbound, Sealing};

/// Protection of a stream, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protection {
    /// The cipher suite.
    pub suite: Suite,
    /// The identity of the key that both ends have.
    pub identity: PskIdentity,
    /// Key derivation of both ends.
    pub derivation: secure_channel::Derivation,
}

/// State of both directions of a stream, between two records that were sent.
#[derive(Debug)]
pub struct StreamState {
    /// The key of what goes.
    pub sending: DirectionState,
    /// The key of what comes.
    pub receiving: DirectionState,
    /// Bytes of the next record that have come.
    pub begun: Vec<u8>,
    /// Number of the peer's key updates when it was last asked for one.
    pub asked: Option<u64>,
}

/// Both directions of a stream.
#[derive(Debug)]
pub struct SecureStream {
    /// Receiving half.
    pub inbound: Inbound,
    /// Sending half.
    pub outbound: Outbound,
    /// The records after which a key should be replaced, in either direction.
    limit: RecordLimit,
    /// Number of the peer's key updates when it was last asked for one.
    asked: Option<u64>,
}

impl SecureStream {
    /// A stream that begins with these secrets, for sending and for receiving.
    pub fn new(
        (sending, receiving): (&TrafficSecret, &TrafficSecret),
        peer: Peer,
        limit: RecordLimit,
    ) -> Self {
        let (inbound, outbound) = (Inbound::new(receiving, peer), Outbound::new(sending, limit));
        Self { inbound, outbound, limit, asked: None }
    }

    /// A stream that another process had.
    pub fn going_on(state: StreamState, peer: Peer, limit: RecordLimit) -> Self {
        let StreamState { sending, receiving, begun, asked } = state;
        let inbound = Inbound::going_on(&receiving, peer, begun);
        Self { inbound, outbound: Outbound::going_on(&sending, limit), limit, asked }
    }

    /// State for another process that continues it; `None` as long as none can.
    pub fn state(&self) -> Option<StreamState> {
        let (receiving, begun) = self.inbound.state()?;
        Some(StreamState { sending: self.outbound.state()?, receiving, begun, asked: self.asked })
    }

    /// True if a key of either direction has been used as often as it should be.
    pub const fn is_worn(&self) -> bool {
        self.outbound.is_due() || self.inbound.records() >= self.limit.records()
    }

    /// Has both keys replaced. A peer that has not answered yet is not asked again: its records are on their way. Whether it is
    /// asked.
    pub fn renew(&mut self) -> bool {
        let asks_back = self.asked != Some(self.inbound.updates());
        if asks_back || self.outbound.is_due() {
            self.asked = Some(self.inbound.updates());
            self.outbound.update(asks_back);
        }
        asks_back
    }
}
