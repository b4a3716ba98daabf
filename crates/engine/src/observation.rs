//! What an end of a connection finds out about the other, as an event that a simulation judges. In a real program nobody
//! listens: the log tells people, in words that may change.

/// What an end of a connection found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The other end broke the protocol, or says that this one did.
    ProtocolViolation,
    /// A record of TLS could not be opened, or the other end says so of one: it was changed on the way, or an end is wrong.
    ChannelBroken,
    /// The connection was lost, for no reason that this end knows of.
    ConnectionLost,
    /// A host is told that nothing of a controller of another target can still take effect.
    PeerRests {
        /// The controller's identifier.
        controller_id: u16,
        /// The random number of its instance.
        random_number: u64,
    },
}
