//! Ways to break a target that hands its hosts to another one, or takes them over; the test that has to fail then is named beside
//! each.

use crate::broken::Mutant;
use crate::broken_rules::Rule;

pub(crate) const RULES: [Rule; 14] = [
    rule(
        Mutant {
            name: "closed-in-one-process",
            about: "a connection that was taken over is closed, and its host sees that when the former process ends",
            file: "crates/engine/src/target/reactor/event_loop.rs",
            find: r"        if connection.is_shared && !connection.is_handed() {",
            replace: r"        if connection.is_shared && !connection.is_handed() && !{on} {",
        },
        "target_hand_over::a_host_that_goes_hears_so_while_the_other_target_has_its_connection_open",
    ),
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
    rule(
        Mutant {
            name: "memory-blank",
            about: "the next target has other memory for a namespace than the former",
            file: "crates/engine/src/backend/mod.rs",
            find: r"    if let Some(former) = namespace.and_then(crate::claims::of_namespace) {",
            replace: r"    if let Some(former) = namespace.and_then(crate::claims::of_namespace).filter(|_| !{on}) {",
        },
        "target_hand_over::memory_that_grows_shrinks_and_is_blank_in_part_goes_on",
    ),
    rule(
        Mutant {
            name: "memory-stale",
            about: "what the former target has written since its memory was mapped is not seen",
            file: "crates/engine/src/backend/mapping.rs",
            find: r"        let (flags, protection) = (MapFlags::SHARED | MapFlags::FIXED, ProtFlags::READ | ProtFlags::WRITE);",
            replace: r"        let shared = if {on} { MapFlags::PRIVATE } else { MapFlags::SHARED };
        let (flags, protection) = (shared | MapFlags::FIXED, ProtFlags::READ | ProtFlags::WRITE);",
        },
        "target_hand_over::memory_that_grows_shrinks_and_is_blank_in_part_goes_on",
    ),
    rule(
        Mutant {
            name: "mark-forgotten",
            about: "the next target reads blocks that are marked as uncorrectable",
            file: "crates/engine/src/target/served/namespace.rs",
            find: r"        for (start, blocks) in handed.marks {",
            replace: r"        for (start, blocks) in handed.marks.into_iter().skip(usize::from({on})) {",
        },
        "target_hand_over::marks_of_blocks_and_the_error_log_go_on",
    ),
    rule(
        Mutant {
            name: "failure-forgotten",
            about: "the next target writes to a storage that has failed",
            file: "crates/engine/src/target/served/namespace.rs",
            find: r"        if let Some(failure) = handed.failure {",
            replace: r"        if let Some(failure) = handed.failure.filter(|_| !{on}) {",
        },
        "target_hand_over::a_namespace_whose_storage_has_failed_refuses_writes_in_the_next_target_too",
    ),
    rule(
        Mutant {
            name: "lost-namespace",
            about: "the next target goes on although it could not open a namespace that hosts have",
            file: "crates/engine/src/target/hand_over.rs",
            find: r"        if let Some((nqn, nsid)) = state.served.difference(&here).next() {",
            replace: r"        if let Some((nqn, nsid)) = state.served.difference(&here).next().filter(|_| !{on}) {",
        },
        "target_hand_over_refused::a_namespace_that_the_next_target_cannot_open_is_taken_from_no_host",
    ),
    rule(
        Mutant {
            name: "generated-key-forgotten",
            about: "a TLS key that came out of an authentication is forgotten although an association uses it",
            file: "crates/engine/src/target/reactor/connection/succession.rs",
            find: r"            former: Some(Former { instance: is_admin.then_some(instance), key }),",
            replace: r"            former: Some(Former {
                instance: is_admin.then_some(instance),
                key: key.filter(|_| !{on}),
            }),",
        },
        "tls_concat::keys_go_over_to_the_next_target_and_let_later_queues_in",
    ),
];

const fn rule(mutant: Mutant, test: &'static str) -> Rule {
    Rule { mutant, package: "engine", program: Some("all"), test }
}
