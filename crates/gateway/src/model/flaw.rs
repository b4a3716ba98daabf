//! Flaws of a made-up world of gateways, each of which its checks have to notice.

/// What is broken on purpose, so that it is known that breaking is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// Connections that should be on the blocklist are not.
    NoBlocklist,
    /// Changes of the state happen whatever it has become.
    NoVersion,
    /// Images are let go of later than is said.
    LateRelease,
    /// A gateway that was given up makes new connections all the same.
    AnyConnection,
    /// Hosts are told that a dead gateway is at rest before its connections are on the blocklist.
    RestBeforeFence,
    /// Hosts are told so by a state that is older than their question.
    RestByOldState,
    /// A gateway gives a group away while commands on its images may be carried out late.
    HandOverOfLate,
    /// A gateway is removed with its load-balancing group, before its connections are on the blocklist.
    RemovalBeforeFence,
    /// A load-balancing group is dissolved by whoever removes its gateway, and not by its owner.
    DissolvedUnderOwner,
    /// A process says `Go` before the locks of its images are given back.
    LockedAtGo,
    /// What the next process has connected is not written down before it is used.
    UnnotedSuccessor,
}
