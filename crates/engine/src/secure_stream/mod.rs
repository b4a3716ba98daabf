//! TLS between a socket and a queue, once a handshake has left both keys: records that have come are opened where they stand,
//! and what is to be sent is sealed on its way into the space that is sent from. What is in them is the queue's, and the
//! handshake is somebody else's.

mod inbound;
mod outbound;

use secure_channel::{DirectionState, Peer, PskIdentity, RecordLimit, Suite, TrafficSecret};

pub use inbound::{Inbound, Piece};
pub use outbound::{Outbound, Sealing};

/// What a stream is protected by, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protection {
    /// The cipher suite.
    pub suite: Suite,
    /// The identity of the key that both ends have.
    pub identity: PskIdentity,
    /// How both ends have derived it.
    pub derivation: secure_channel::Derivation,
}

/// How far both directions of a stream are, between two records that were sent.
#[derive(Debug)]
pub struct StreamState {
    /// The key of what goes.
    pub sending: DirectionState,
    /// The key of what comes.
    pub receiving: DirectionState,
    /// What has come of the next record.
    pub begun: Vec<u8>,
    /// How often the peer had changed its key when it was asked to last.
    pub asked: Option<u64>,
}

/// Both directions of a stream.
#[derive(Debug)]
pub struct SecureStream {
    /// What comes.
    pub inbound: Inbound,
    /// What goes.
    pub outbound: Outbound,
    /// The records after which a key should be replaced, in either direction.
    limit: RecordLimit,
    /// How often the peer had changed its key when it was asked to last.
    asked: Option<u64>,
}

impl SecureStream {
    /// One that begins with these secrets, for sending and for receiving.
    pub fn new(
        (sending, receiving): (&TrafficSecret, &TrafficSecret),
        peer: Peer,
        limit: RecordLimit,
    ) -> Self {
        let (inbound, outbound) = (Inbound::new(receiving, peer), Outbound::new(sending, limit));
        Self { inbound, outbound, limit, asked: None }
    }

    /// One that another process had.
    pub fn going_on(state: StreamState, peer: Peer, limit: RecordLimit) -> Self {
        let StreamState { sending, receiving, begun, asked } = state;
        let inbound = Inbound::going_on(&receiving, peer, begun);
        Self { inbound, outbound: Outbound::going_on(&sending, limit), limit, asked }
    }

    /// What another process needs to go on with it; `None` as long as none can.
    pub fn state(&self) -> Option<StreamState> {
        let (receiving, begun) = self.inbound.state()?;
        Some(StreamState { sending: self.outbound.state()?, receiving, begun, asked: self.asked })
    }

    /// Whether a key of either direction has been used as often as it should be.
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
