//! Ways to break how a reactor goes round its connections: when it looks at what has its time, and what it forgets. Scenes find
//! out.

use crate::broken::Mutant;

pub(crate) const MUTANTS: [Mutant; 7] = [
    Mutant {
        name: "keep-alive-not-enforced",
        about: "a controller whose host is silent lives on",
        file: "crates/engine/src/target/controller/controller.rs",
        find: r"        (!timeout.is_zero()).then(",
        replace: r"        (!timeout.is_zero() && !{on}).then(",
    },
    Mutant {
        name: "keep-alive-not-noted",
        about: "a keep alive does not count as a sign of life",
        file: "crates/engine/src/target/reactor/connection/sweep.rs",
        find: r"        if self.queue.take_received_since_look() {
            commands.controller.note_received(now);",
        replace: r"        if self.queue.take_received_since_look() && !{on} {
            commands.controller.note_received(now);",
    },
    Mutant {
        name: "reactor-oversleeps",
        about: "a reactor that rests looks at keep alive timers alone",
        file: "crates/engine/src/target/reactor/event_loop/sweep.rs",
        find: r"        if self.needs_sweep() {",
        replace: r"        if self.needs_sweep() && !{on} {",
    },
    Mutant {
        name: "keep-alive-looked-at-last",
        about: "after a pause a target does what waits before it looks whether it still may",
        file: "crates/engine/src/target/reactor/event_loop.rs",
        find: r"            if now >= self.next_sweep {
                self.sweep(now);
            }
            self.mailbox.tally
%%
            self.take_in(now);",
        replace: r"            if now >= self.next_sweep && !{on} {
                self.sweep(now);
            }
            self.mailbox.tally
%%
            self.take_in(now);
            if now >= self.next_sweep && {on} {
                self.sweep(now);
            }",
    },
    Mutant {
        name: "late-forgotten-with-its-connection",
        about: "what a closed connection left at the storage is nobody's to count",
        file: "crates/engine/src/target/reactor/event_loop.rs",
        find: r"                orphaned.operation_ended(slot, (&result, buffer), &self.fabric, (&mut self.pool, now));
%%
        for left in self.orphaned.values_mut() {",
        replace: r"                let now = if {on} { Moment(0) } else { now };
                orphaned.operation_ended(slot, (&result, buffer), &self.fabric, (&mut self.pool, now));
%%
        for left in self.orphaned.values_mut().filter(|_| !{on}) {",
    },
    Mutant {
        name: "controller-leak",
        about: "a controller outlives its admin queue",
        file: "crates/engine/src/target/reactor/event_loop.rs",
        find: r"            fabric.end_controller(controller);
        }
        Role::Io",
        replace: r"            if !{on} {
                fabric.end_controller(controller);
            }
        }
        Role::Io",
    },
    Mutant {
        name: "connection-count-leak",
        about: "a closed connection counts on",
        file: "crates/engine/src/target/reactor/event_loop.rs",
        find: r"        self.ring.unwatch(connection.queue.socket(), token);
        self.mailbox.discount_connection(connection.is_queue);",
        replace: r"        self.ring.unwatch(connection.queue.socket(), token);
        if !{on} {
            self.mailbox.discount_connection(connection.is_queue);
        }",
    },
];
