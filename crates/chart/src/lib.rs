//! Pictures for all of the project: a chart as data, and as SVG that fetches nothing and runs nothing. It keeps out what
//! was measured, and where a picture goes.

mod bars;
mod chart;
pub mod markup;
pub mod svg;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod units;

pub use bars::{Bar, Bars, Group};
pub use chart::{Axis, Chart, Drawing, Heat, Mark, Point, Scale, Series, Style, Unit};
