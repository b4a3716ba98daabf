//! An upgrade from one process to another: they talk over a Unix socket, at which the old process waits for the new one. Which
//! of them serves, and when, is decided by `engine::hand_over`. It keeps out the state that is handed over, which is that of
//! the service: a target, or attached disks.

mod channel;
mod other_process;
mod query;
mod replacement;
mod upgrade_socket;

pub use channel::Channel;
pub use other_process::{OtherProcess, ResumeMark, WatchedProcess};
pub use query::{ANSWER, ask, await_report, runs};
pub use replacement::{PLACE_VARIABLE, PROCESS_VARIABLE, await_death, await_end, program, start};
pub use upgrade_socket::{Upgradable, UpgradeSocket};
