//! A cause that was found: what it is, the figures that show it, the cure, what that should bring, and the commands for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The rule that found it, as in `strict-rp-filter`.
    pub rule: String,
    /// Cost, in classes.
    pub severity: Severity,
    /// Part of the throughput or time that it takes, in percent, as far as that can be estimated; 0 where it cannot.
    pub cost_percent: f64,
    /// Rank among findings of one severity whose cost is unknown, up to 1.
    #[serde(skip)]
    pub(crate) rank: f64,
    /// Subject of the finding: an interface, a namespace, a host.
    pub subject: String,
    /// The cause in a sentence.
    pub cause: String,
    /// Figures that were read, each with where.
    pub evidence: Vec<String>,
    /// Recommended remedy.
    pub cure: String,
    /// Expected effect of the remedy.
    pub expected: String,
    /// The commands for it. What has to be filled in is in capitals.
    pub commands: Vec<String>,
}

/// Maximum number of findings of one rule in a report: more of them have a common cause elsewhere.
const OF_A_RULE_MAX: usize = 8;

/// Cost of a cause, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something does not work, and this was seen to be why.
    Outage,
    /// The cause was seen to hold commands or bytes back.
    Limits,
    /// The cause was seen to make commands slower.
    Slows,
    /// The setting costs under load; that load was not seen.
    MayCost,
}

impl Severity {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Outage => "does not work",
            Self::Limits => "limits now",
            Self::Slows => "slows now",
            Self::MayCost => "may cost",
        }
    }
}

impl Finding {
    /// A cause without evidence and commands yet.
    pub fn new(severity: Severity, subject: &str, cause: String) -> Self {
        Self {
            // The rule's own name is added where the rules are asked.
            rule: String::new(),
            severity,
            cost_percent: 0.0,
            rank: 0.0,
            subject: subject.to_owned(),
            cause,
            evidence: Vec::new(),
            cure: String::new(),
            expected: String::new(),
            commands: Vec::new(),
        }
    }

    /// With the part that it takes, of 1.
    #[must_use]
    pub fn costing(self, share: f64) -> Self {
        // Whole percents: an estimate is no better.
        let cost_percent = if share.is_finite() { (share.clamp(0.0, 1.0) * 100.0).round() } else { 0.0 };
        Self { cost_percent, ..self }
    }

    /// With a place among findings whose cost is not known.
    #[must_use]
    pub fn ranked(self, rank: f64) -> Self {
        Self { rank, ..self }
    }

    /// Sort key within a severity.
    pub(crate) fn weight(&self) -> f64 {
        self.cost_percent.max(self.rank * 100.0)
    }

    /// Under the name of the rule that found it.
    #[must_use]
    pub fn of(self, rule: &str) -> Self {
        Self { rule: rule.to_owned(), ..self }
    }

    /// With a figure that was read.
    #[must_use]
    pub fn seen(mut self, evidence: String) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// With what to do, and what that should bring.
    #[must_use]
    pub fn cure(self, cure: &str, expected: &str) -> Self {
        Self { cure: cure.to_owned(), expected: expected.to_owned(), ..self }
    }

    /// With a command.
    #[must_use]
    pub fn command(mut self, command: String) -> Self {
        self.commands.push(command);
        self
    }

    /// True if two samples at different times have found the same cause.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.rule, &self.subject) == (&other.rule, &other.subject)
    }
}

/// Returns the findings of all rules, the costliest first; findings of the same cost in the order
/// of the rules.
pub fn in_order(rules: impl Iterator<Item = Vec<Finding>>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules
        .flat_map(|mut found| {
            sort(&mut found);
            found.truncate(OF_A_RULE_MAX);
            found
        })
        .collect();
    sort(&mut findings);
    findings
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by(|one, other| {
        let costs = other.weight().total_cmp(&one.weight());
        one.severity.cmp(&other.severity).then(costs)
    });
}

/// Quotes a name as one word of a shell's command line: it cannot inject a command.
pub fn word(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._:/@%+=,-".contains(letter);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_command() {
        assert_eq!(word("nqn.2026-01.org.example:a"), "nqn.2026-01.org.example:a");
        for hostile in ["", "nqn.a; rm b", "nqn.$(id)", "nqn.it's", "nqn.`id`", "a b\\"] {
            assert_eq!(shlex::split(&word(hostile)).unwrap(), [hostile]);
        }
    }

    #[test]
    fn the_worst_of_a_few_of_each_rule_comes_first() {
        let of = |severity, rank| Finding::new(severity, "a", String::new()).ranked(rank);
        let crowd = (0..20).map(|at| of(Severity::Slows, f64::from(at) / 20.0)).collect();
        let found =
            in_order([crowd, vec![of(Severity::Outage, 0.1)], vec![of(Severity::Limits, 0.9)]].into_iter());
        let ranks: Vec<f64> = found.iter().map(|finding| finding.rank).collect();
        assert_eq!(found.len(), OF_A_RULE_MAX + 2);
        assert_eq!(ranks[..4], [0.1, 0.9, 0.95, 0.9]);
    }
}
