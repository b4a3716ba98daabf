//! Recorded reservations that no sequence of commands could have led to: of a damaged file or object, or of an earlier process.

/// Contradiction in recorded reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImpossibleState {
    /// Registrants beyond the limit.
    #[error("it has more registrants than a namespace may have")]
    Registrants,
    /// Key that stands for no registration.
    #[error("a registrant has the key 0")]
    ZeroKey,
    /// Two registrations of one host.
    #[error("a host is registered twice")]
    RegisteredTwice,
    /// Type without a specification.
    #[error("there is no reservation type {0}")]
    UnknownType(u8),
    /// Single holder of a type that all registrants hold, or no holder of another type.
    #[error("the reservation's holder does not fit its type")]
    HolderOfType,
    /// Holder without a registration.
    #[error("the holder is not registered")]
    UnknownHolder,
    /// Reservation without any registrant.
    #[error("a reservation has no holder")]
    NoHolder,
}
