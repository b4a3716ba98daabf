//! What an end of a connection finds out about the other, as an event that a simulation judges. In a real program nobody
//! listens: the log tells people, in words that may change.

/// What an end of a connection found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The other end broke the protocol, or says that this one did.
    ProtocolViolation,
    /// The connection was lost, for no reason that this end knows of.
    ConnectionLost,
}
