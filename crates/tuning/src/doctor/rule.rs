//! A rule about a machine: one cause, and how it is seen.

use super::case::Case;
use crate::diagnosis;
use crate::diagnosis::finding::Finding;

/// Rule about plain data: it sends no requests.
pub(crate) struct Rule {
    /// Name in reports, which stays.
    pub(crate) name: &'static str,
    /// Function that returns the findings.
    pub(crate) judge: fn(&Case) -> Vec<Finding>,
}

impl Rule {
    /// Returns the findings, under the rule's name.
    pub(crate) fn findings(&self, case: &Case) -> Vec<Finding> {
        (self.judge)(case).into_iter().map(|finding| finding.of(self.name)).collect()
    }
}

/// A rule about whatever is looked at.
pub(crate) enum AnyRule {
    /// The machine, with its network and its initiators.
    Machine(Rule),
    /// Each of the targets.
    Target(diagnosis::rule::Rule),
}

impl AnyRule {
    /// Returns the name in reports.
    #[cfg(test)]
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Machine(rule) => rule.name,
            Self::Target(rule) => rule.name,
        }
    }

    /// Returns the findings, under the rule's name.
    pub(crate) fn findings(&self, case: &Case) -> Vec<Finding> {
        match self {
            Self::Machine(rule) => rule.findings(case),
            Self::Target(rule) => case.targets.iter().flat_map(|target| rule.findings(target)).collect(),
        }
    }
}
