//! A report such as a sweep makes, for tests of how reports look.

use super::document::Document;

/// The report that the browser's tests see as well.
pub fn document() -> Document {
    serde_json::from_str(include_str!("../../tests/report.json")).expect("the sample is a report")
}
