//! Who has changed what, and who has failed to come in: a log that shows when something was taken out of it.

mod audit_log;
mod record;
mod tail;
mod verification;

pub use audit_log::{AuditLog, NAME, head_in};
pub use record::{Event, Kind};
pub(in crate::control) use tail::Tail;
pub use verification::{Verified, verify, verify_text};
