//! Limits on operations and bytes, as schedules without locks.

mod shaper;

pub(crate) use shaper::{Backlog, Cost, Direction, Shaper, ShaperView};
