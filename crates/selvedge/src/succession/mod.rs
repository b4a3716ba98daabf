//! An upgrade of `serve`, from the process of a target (the old process) to the one that takes its
//! place (the new process). They talk over a Unix socket beside the control socket. The old process
//! hands over what it has open first, so that the new one can prepare. Which of them serves, and
//! when, is decided by `engine::hand_over`. Socket, channel and processes are `attach`'s too.

mod channel;
mod handed_ceph;
mod new_process;
mod old_process;
mod other_process;
mod program_state;
mod release;
mod take_over;
mod upgrade_socket;

pub(crate) use channel::Channel;
pub(crate) use new_process::{NewProcess, PLACE_VARIABLE, PROCESS_VARIABLE, await_death};
pub(crate) use old_process::{OldProcess, place_of};
pub(crate) use other_process::{OtherProcess, ResumeMark, WatchedProcess};
pub(crate) use upgrade_socket::{Upgradable, UpgradeSocket};
