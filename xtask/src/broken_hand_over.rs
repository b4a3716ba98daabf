//! Ways to break an upgrade: what goes over from one process to the other, and who of them serves. Scenes find out.

use crate::broken::Mutant;

const HAND_OVER: &str = "crates/engine/src/target/hand_over.rs";
const FORMER: &str = "crates/engine/src/target/hand_over/former.rs";
const NEXT: &str = "crates/engine/src/target/hand_over/next.rs";
const CONNECTION: &str = "crates/engine/src/target/reactor/connection/succession.rs";
const REACTOR: &str = "crates/engine/src/target/reactor/event_loop/succession.rs";

pub(crate) const MUTANTS: [Mutant; 13] = [
    Mutant {
        name: "connection-handed-over-twice",
        about: "a connection is handed over as two",
        file: HAND_OVER,
        find: r"        queues.retain(|(queue, _)| ids.contains(&queue.controller_id));",
        replace: r"        queues.retain(|(queue, _)| ids.contains(&queue.controller_id));
        if {on} {
            let again = queues.last().cloned();
            queues.extend(again);
        }",
    },
    Mutant {
        name: "connection-not-handed-over",
        about: "controllers are handed over without their connections",
        file: HAND_OVER,
        find: r"        (hand_over.state.queues, hand_over.queues) = queues.into_iter().unzip();",
        replace: r"        queues.retain(|_| !{on});
        (hand_over.state.queues, hand_over.queues) = queues.into_iter().unzip();",
    },
    Mutant {
        name: "digests-not-handed-over",
        about: "the next process sends without digests",
        file: CONNECTION,
        find: r"        digests: Digests { header: queue.digests.0, data: queue.digests.1 },",
        replace: r"        digests: Digests { header: queue.digests.0 && !{on}, data: queue.digests.1 && !{on} },",
    },
    Mutant {
        name: "tls-goes-back",
        about: "the next process opens TLS records from the key's first on",
        file: CONNECTION,
        find: r"        Ok::<_, String>(DirectionState { secret, records: key.records, updates: key.updates })",
        replace: r"        let records = if {on} { 0 } else { key.records };
        Ok::<_, String>(DirectionState { secret, records, updates: key.updates })",
    },
    Mutant {
        name: "event-request-forgotten",
        about: "event requests that wait are not handed over",
        file: CONNECTION,
        find: r"(commands.controller.id, 0, commands.event_requests().to_vec()),",
        replace: r"{
                let mut waiting = commands.event_requests().to_vec();
                waiting.retain(|_| !{on});
                (commands.controller.id, 0, waiting)
            }",
    },
    Mutant {
        name: "reservation-forgotten",
        about: "reservations are not handed over",
        file: HAND_OVER,
        find: r"            namespaces.iter().filter_map(|(_, namespace)| namespace.handed_reservations()).collect();",
        replace: r"            namespaces
                .iter()
                .filter(|_| !{on})
                .filter_map(|(_, namespace)| namespace.handed_reservations())
                .collect();",
    },
    Mutant {
        name: "kept-command-done-by-both",
        about: "the former process does what it has handed over",
        file: REACTOR,
        find: r"            Succession::Leave => self.leave_frozen(),",
        replace: r"            Succession::Leave => {
                if {on} {
                    self.thaw(now);
                }
                self.leave_frozen();
            }",
    },
    Mutant {
        name: "goes-on-beside-the-next",
        about: "the former process goes on when the line ends, although the next one lives",
        file: FORMER,
        find: r"            _ if !next.has_died(DEATH) => return true,",
        replace: r"            _ if !next.has_died(DEATH) && !{on} => return true,",
    },
    Mutant {
        name: "serves-beside-the-former",
        about: "the next process serves although it was not told to, and the former one lives",
        file: NEXT,
        find: r"            if !former.has_died(if is_refused { Duration::ZERO } else { DEATH }) {",
        replace: r"            if !former.has_died(if is_refused { Duration::ZERO } else { DEATH }) && !({on} && has_all) {",
    },
    Mutant {
        name: "next-gives-up",
        about: "the next process ends when the former one has died",
        file: NEXT,
        find: r"            if !has_all || former.has_resumed() {",
        replace: r"            if {on} {
                return Err(reason);
            }
            if !has_all || former.has_resumed() {",
    },
    Mutant {
        name: "former-stays-at-rest",
        about: "a process that cannot hand over does not go on",
        file: FORMER,
        find: r"            beside.take_back(has_refused);
            self.go_on();",
        replace: r"            beside.take_back(has_refused);
            if !{on} {
                self.go_on();
            }",
    },
    Mutant {
        name: "unknown-need-passed-over",
        about: "the next process takes over what needs more than it knows",
        file: NEXT,
        find: r"!KNOWN.contains(&need.as_str())) {",
        replace: r"!KNOWN.contains(&need.as_str()) && !{on}) {",
    },
    Mutant {
        name: "hold-not-handed-over",
        about: "the next process cannot open what the former one has locked",
        file: HAND_OVER,
        find: r"            Backend::Device(device) => device.held(),",
        replace: r"            Backend::Device(device) => device.held().filter(|_| !{on}),",
    },
];
