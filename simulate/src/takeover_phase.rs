//! How far the takeover of an image is: what mishaps are aimed at, and what the table of coverage has a column for.

/// A stretch of a takeover, from one state of the group or the cluster to the next.
///
/// Two phases are left out, since no mishap can come then: before the group serves anything it has
/// no owners, and a scene begins when all gateways know of its images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The owner serves it.
    Served,
    /// The owner is stopped or gone, which the others have not noticed.
    OwnerGone,
    /// Another gateway has it, and the former owner is not fenced.
    GivenUp,
    /// The former owner is fenced, and the lock is free.
    Fenced,
    /// The new owner has the lock, and does not serve it.
    FencedLocked,
    /// The owner has released it for another one, which has no lock.
    HandedOver,
    /// The next owner has the lock, and does not serve it.
    HandedOverLocked,
    /// The image has no owner. It is not moved to another group then, which its owner alone does:
    /// that cell of the table counts only mishaps of another image.
    Unowned,
}

impl Phase {
    pub(crate) const ALL: [Self; 8] = [
        Self::Served,
        Self::OwnerGone,
        Self::GivenUp,
        Self::Fenced,
        Self::FencedLocked,
        Self::HandedOver,
        Self::HandedOverLocked,
        Self::Unowned,
    ];

    /// Name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::OwnerGone => "owner gone, not given up",
            Self::GivenUp => "given up, not fenced",
            Self::Fenced => "fenced, not locked",
            Self::FencedLocked => "fenced, locked, not served",
            Self::HandedOver => "handed over, not locked",
            Self::HandedOverLocked => "handed over, locked, not served",
            Self::Unowned => "without an owner",
        }
    }
}
