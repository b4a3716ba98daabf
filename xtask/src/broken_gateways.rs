//! Ways to break a gateway that goes on in another process, or a group whose gateways have different versions; the test that has
//! to fail then is named beside each.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

pub(crate) const RULES: [Rule; 4] = [
    rule(
        Mutant {
            name: "both-beat",
            about: "the former process of a gateway beats beside the next one",
            file: "crates/gateway/src/duty.rs",
            find: r"        if self.acts() {
            beat();",
            replace: r"        if self.acts() || {on} {
            beat();",
        },
        "duty::tests::who_rests_has_no_beat_under_way_and_begins_none",
    ),
    rule(
        Mutant {
            name: "go-amid-a-beat",
            about: "the former process of a gateway rests while a beat of it is under way",
            file: "crates/gateway/src/duty.rs",
            find: r"        drop(self.beating.lock().unwrap_or_else(PoisonError::into_inner));",
            replace: r"        if !{on} {
            drop(self.beating.lock().unwrap_or_else(PoisonError::into_inner));
        }",
        },
        "duty::tests::who_rests_has_no_beat_under_way_and_begins_none",
    ),
    rule(
        Mutant {
            name: "format-raised-early",
            about: "a group's format is raised before all gateways read it",
            file: "crates/gateway/src/negotiation.rs",
            find: r"highest.map_or(self.format, |highest| highest.max(self.format))",
            replace: r"highest.map_or(self.format, |highest| if {on} { Format(2) } else { highest.max(self.format) })",
        },
        "negotiation::tests::one_that_may_come_back_has_to_read_it_and_one_that_has_left_has_not",
    ),
    rule(
        Mutant {
            name: "format-by-another-epoch",
            about: "what a newer version has said counts for an older one of the same name",
            file: "crates/gateway/src/format.rs",
            find: r"        told.filter(|told| told.epoch == epoch).cloned()",
            replace: r"        told.filter(|told| told.epoch == epoch || {on}).cloned()",
        },
        "negotiation::tests::an_older_version_that_comes_back_by_the_name_of_a_newer_one_is_one_that_says_nothing",
    ),
];

const fn rule(mutant: Mutant, test: &'static str) -> Rule {
    Rule { mutant, package: "gateway", program: None, test }
}
