//! An upgrade of `serve`, from the process of a target (the old process) to the one that takes its
//! place (the new process). They talk over a Unix socket beside the control socket. The old process
//! hands over what it has open first, so that the new one can prepare. Which of them serves, and
//! when, is decided by `engine::hand_over`. Socket, channel and processes are `administration`'s.

mod handed_ceph;
mod new_process;
mod old_process;
mod program_state;
mod release;
mod take_over;

pub(crate) use new_process::NewProcess;
pub(crate) use old_process::{OldProcess, place_of};
