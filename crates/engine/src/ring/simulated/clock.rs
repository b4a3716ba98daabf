//! The clocks of a simulation: both are its virtual time.

use std::time::{Duration, SystemTime};

use super::scheduler;
use crate::ring::Moment;

/// The virtual time.
pub fn now() -> Moment {
    scheduler::with_if(|world| world.now).unwrap_or_default()
}

/// The time of day.
pub fn wall_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(now().0)
}
