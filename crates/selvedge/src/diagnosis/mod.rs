//! What is wrong with a target, from what it says of itself: two looks at it as plain data, and rules that each name one
//! cause from them. `doctor` judges by them together with its rules about machines, and so does a target for its own console.
//! It sends no requests, and changes nothing.

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
