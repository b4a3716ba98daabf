//! An upgrade of `attach`, from the process that serves disks (the old process) to the one that takes
//! its place (the new process). Steps and decisions are the engine's `hand_over`, as for a target.
//! The old process offers its sockets; the new one connects to the targets by itself. The old one
//! then ends what was asked for, so that nothing of it is on its way to a target, and hands over the
//! state of its clients.

mod disk_group;
mod new_process;
mod old_process;
mod words;

pub(super) use disk_group::{DiskGroup, GroupServer};
pub(super) use new_process::{GroupTakeOver, NewProcess};
pub(super) use old_process::{OldProcess, Registration};
pub(super) use words::{AttachProtocol, HandedState};
