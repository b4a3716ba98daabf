//! The clocks of the machine.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use crate::ring::Moment;

/// The time now, on the clock of all rings.
pub fn now() -> Moment {
    static START: OnceLock<Instant> = OnceLock::new();
    Moment(START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

/// The time of day.
pub fn wall_time() -> SystemTime {
    SystemTime::now()
}
