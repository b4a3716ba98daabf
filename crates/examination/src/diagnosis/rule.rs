//! A rule about a target: one cause, and how it is seen.

use super::finding::Finding;
use super::served::Served;

/// Rule about plain data: it sends no requests.
pub struct Rule {
    /// Name in reports, which stays.
    pub name: &'static str,
    /// Function that returns the findings.
    pub judge: fn(&Served) -> Vec<Finding>,
}

impl Rule {
    /// Returns the findings, under the rule's name.
    pub fn findings(&self, target: &Served) -> Vec<Finding> {
        (self.judge)(target).into_iter().map(|finding| finding.of(self.name)).collect()
    }
}
