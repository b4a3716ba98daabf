//! A rule about a target: one cause, and how it is seen.

use super::finding::Finding;
use super::served::Served;

/// A rule. It judges plain data, and asks nobody.
pub(crate) struct Rule {
    /// As it is called in reports; it stays.
    pub(crate) name: &'static str,
    /// What it finds.
    pub(crate) judge: fn(&Served) -> Vec<Finding>,
}

impl Rule {
    /// What it finds, under its name.
    pub(crate) fn findings(&self, target: &Served) -> Vec<Finding> {
        (self.judge)(target).into_iter().map(|finding| finding.of(self.name)).collect()
    }
}
