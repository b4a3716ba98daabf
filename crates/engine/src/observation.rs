//! Findings of an end of a connection about the other, as events that a simulation judges. A real
//! program ignores them: its log is for people, in words that may change.

/// Finding of an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The other end broke the protocol, or says that this one did.
    ProtocolViolation,
    /// A record of TLS could not be opened, or the other end says so of one: it was changed on the way, or an end is wrong.
    ChannelBroken,
    /// The connection was lost, for no reason that this end knows of.
    ConnectionLost,
    /// A host learns that no command of another target's controller can still take effect.
    PeerRests {
        /// The controller's identifier.
        controller_id: u16,
        /// The random number of its instance.
        random_number: u64,
    },
}
