//! Ways to break a gateway that goes on in another process, or a group whose gateways have different versions; the test that has
//! to fail then is named beside each.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

pub(crate) const RULES: [Rule; 7] = [
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
    rule(
        Mutant {
            name: "replaced-by-itself",
            about: "a gateway that has begun anew without knowing it takes itself for another one, and ends",
            file: "crates/gateway/src/decision.rs",
            find: r"        Some(record) if view.tried.contains(&record.epoch) =>",
            replace: r"        Some(record) if view.tried.contains(&record.epoch) && !{on} =>",
        },
        "decision::tests::who_has_begun_anew_without_knowing_it_is_not_another_one",
    ),
    rule(
        Mutant {
            name: "group-stays-where-nobody-is",
            about: "a gateway that no host reaches keeps its group",
            file: "crates/gateway/src/decision.rs",
            find: r"    if !view.has_lease || !state.is_drained(me) && is_found(state, view, me) {",
            replace: r"    if !view.has_lease || !state.is_drained(me) && is_found(state, view, me) || {on} {",
        },
        "decision::tests::a_group_goes_where_hosts_are_once_its_images_are_given_back",
    ),
    rule(
        Mutant {
            name: "drained-and-serves",
            about: "a load-balancing group goes to a drained gateway while another is well",
            file: "crates/gateway/src/decision.rs",
            find: r"        let (is_drained, is_deserted) = (state.is_drained(name), is_deserted(view, name));",
            replace: r"        let (is_drained, is_deserted) = (state.is_drained(name) && !{on}, is_deserted(view, name));",
        },
        "decision::tests::nothing_goes_to_a_drained_gateway_while_another_is_well",
    ),
];

const fn rule(mutant: Mutant, test: &'static str) -> Rule {
    Rule { mutant, package: "gateway", program: None, test }
}
