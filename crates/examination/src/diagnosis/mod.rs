//! Faults of a target, from its own answers: two samples as plain data, and rules that each name
//! one cause. `doctor` uses the rules together with those about machines, and a target uses them
//! for its own console. The module sends no requests, and changes nothing.

pub mod finding;
pub mod look;
pub mod rule;
pub mod rules;
#[cfg(any(test, feature = "testing"))]
pub mod sample;
pub mod served;

use finding::Finding;
use served::Served;

/// Returns the findings of the rules about a target, the costliest first.
pub fn findings(target: &Served) -> Vec<Finding> {
    finding::in_order(rules::ALL.iter().map(|rule| rule.findings(target)))
}
