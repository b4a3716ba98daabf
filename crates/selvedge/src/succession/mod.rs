//! An upgrade: the process of a target, and the one that goes on in its place. They talk over a Unix socket beside the control
//! socket. The former hands over what it has open first, so that the next one can prepare; then it brings its hosts to rest,
//! hands over how they are, and says `Go`. Before that word it may go on itself, and after it never: so that one of the two
//! serves, and never both. Where the former dies without it, the next one sees that and serves.

mod belongings;
mod channel;
mod handed_ceph;
mod heir;
mod lender;
mod new_process;
mod old_process;
mod other_process;

pub(crate) use channel::Channel;
pub(crate) use new_process::{PLACE_VARIABLE, PROCESS_VARIABLE, Successor, await_death};
pub(crate) use old_process::{Predecessor, place_of};
pub(crate) use other_process::{OtherProcess, ResumeMark, WatchedProcess};
