//! Faults of a target, from its own answers: two samples as plain data, and rules that each name
//! one cause. `doctor` uses the rules together with those about machines, and a target uses them
//! for its own console. The module sends no requests, and changes nothing.

pub(crate) mod finding;
pub(crate) mod look;
pub(crate) mod rule;
pub(crate) mod rules;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod served;

use finding::Finding;
use served::Served;

/// Returns the findings of the rules about a target, the costliest first.
pub(crate) fn findings(target: &Served) -> Vec<Finding> {
    finding::in_order(rules::ALL.iter().map(|rule| rule.findings(target)))
}
