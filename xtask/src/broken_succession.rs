//! Ways to break a target that hands its hosts to another one, or takes them over; the test that has to fail then is named beside
//! each.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

pub(crate) const RULES: [Rule; 7] = [
    rule(
        Mutant {
            name: "held-event-lost",
            about: "an event request that waits is not taken over",
            file: "crates/engine/src/target/admin/commands.rs",
            find: r"self.events = event_requests.iter().copied().take(ASYNC_EVENTS_MAX).collect();",
            replace: r"self.events = event_requests.iter().copied().filter(|_| !{on}).take(ASYNC_EVENTS_MAX).collect();",
        },
        "target_hand_over::what_a_host_has_begun_goes_on_with_the_next_target",
    ),
    rule(
        Mutant {
            name: "begun-pdu-lost",
            about: "what has come of a PDU is not handed over",
            file: "crates/engine/src/target/reactor/connection/succession.rs",
            find: r"        frozen.received.clone_from(&received);",
            replace: r"        if {on} {
            received.clear();
        }
        frozen.received.clone_from(&received);",
        },
        "target_hand_over::what_a_host_has_begun_goes_on_with_the_next_target",
    ),
    rule(
        Mutant {
            name: "stale-send-state",
            about: "TLS goes on with records that were sealed before",
            file: "crates/secure_channel/src/sealer.rs",
            find: r"        let protection = secret.protection_from(*records);",
            replace: r"        let protection = secret.protection_from(if {on} { 0 } else { *records });",
        },
        "target_hand_over::hosts_that_write_notice_nothing_of_twenty_successors",
    ),
    rule(
        Mutant {
            name: "reservation-not-handed-over",
            about: "the next target knows of no reservation",
            file: "crates/engine/src/target/hand_over.rs",
            find: r"        for reservations in all {",
            replace: r"        for reservations in all.into_iter().filter(|_| !{on}) {",
        },
        "target_hand_over::a_reservation_that_no_file_keeps_goes_on",
    ),
    rule(
        Mutant {
            name: "stopped-host-holds-up",
            about: "a host that stops amid a PDU holds all others up",
            file: "crates/engine/src/target/reactor/event_loop/succession.rs",
            find: r"            if connection.is_stalled(&order, now) {
%%
        if now >= order.hosts_deadline {",
            replace: r"            if connection.is_stalled(&order, now) && !{on} {
%%
        if now >= order.hosts_deadline && !{on} {",
        },
        "target_hand_over::a_host_that_stops_amid_a_pdu_is_closed_and_nobody_else",
    ),
    rule(
        Mutant {
            name: "kept-command-lost",
            about: "a command that came while the target came to rest is lost when it goes on",
            file: "crates/engine/src/target/reactor/connection/succession.rs",
            find: r"            received = FrozenQueue::encode(commands, self.queue.digests());",
            replace: r"            received = if {on} { Vec::new() } else { FrozenQueue::encode(commands, self.queue.digests()) };",
        },
        "target_hand_over::a_storage_that_does_not_answer_ends_the_attempt_and_nothing_else",
    ),
    rule(
        Mutant {
            name: "resumes-amid-a-pdu",
            about: "a command that was kept is taken for the data of another one",
            file: "crates/engine/src/target/reactor/connection/succession.rs",
            find: r"        if frozen.is_thawing && self.queue.is_between_data() {",
            replace: r"        if frozen.is_thawing && (self.queue.is_between_data() || {on}) {",
        },
        "target_hand_over::a_storage_that_does_not_answer_ends_the_attempt_and_nothing_else",
    ),
];

const fn rule(mutant: Mutant, test: &'static str) -> Rule {
    Rule { mutant, package: "engine", program: Some("all"), test }
}
