//! An upgrade of `attach`: the process that serves disks, and the one that goes on in its place. They talk as the two processes of
//! a target do (`crate::succession`). The former offers its sockets; the next one connects to the targets by itself, and says when
//! it is ready. The former then ends what was asked for, so that nothing of it is on its way to a target, hands over how its
//! clients are, and says `Go`. Before that word it may go on itself, and after it only where the next one has died.

mod disk_group;
mod predecessor;
mod successor;
mod words;

pub(super) use disk_group::{DiskGroup, GroupServer};
pub(super) use predecessor::{Predecessor, Registration};
pub(super) use successor::{Inheritance, Successor};
pub(super) use words::{HandedState, Word};
