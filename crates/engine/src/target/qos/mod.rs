//! Limits on operations and bytes, as schedules without locks.

mod shaper;

pub(crate) use shaper::{Cost, Direction, Lane, Shaper, ShaperView};
