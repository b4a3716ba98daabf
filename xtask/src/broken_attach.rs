//! Ways to break how a process takes over the disk of one that was killed: what it waits for, and what it finds of that one. Scenes
//! with a disk find out.

use crate::broken::Mutant;

pub(crate) const MUTANTS: [Mutant; 12] = [
    Mutant {
        name: "predecessors-forgotten",
        about: "controllers of an earlier process are not waited for",
        file: "crates/engine/src/initiator/path/quiesce.rs",
        find: r"    if shared.options.quiesce {",
        replace: r"    if shared.options.quiesce && !{on} {",
    },
    Mutant {
        name: "writes-not-held",
        about: "writes are sent while controllers of an earlier process may live",
        file: "crates/engine/src/initiator/path/queues.rs",
        find: r"        if self.is_held && !retry::is_harmless_twice(entry.opcode) {",
        replace: r"        if self.is_held && !{on} && !retry::is_harmless_twice(entry.opcode) {",
    },
    Mutant {
        name: "held-writes-forgotten",
        about: "what was held is not sent when it may be",
        file: "crates/engine/src/initiator/path/queues.rs",
        find: r"            if goes_on {
                waiting.push_back(*place);
            }",
        replace: r"            if goes_on && !({on} && matches!(until, Until::PredecessorsAtRest)) {
                waiting.push_back(*place);
            }",
    },
    Mutant {
        name: "first-predecessor-frees",
        about: "writes go on when the first of several controllers of an earlier process is at rest",
        file: "crates/engine/src/initiator/path/quiesce.rs",
        find: r"    if !all.iter().any(|one| one.of == Of::Predecessor) {",
        replace: r"    if !all.iter().any(|one| one.of == Of::Predecessor)
        || ({on} && rested.iter().any(|one| one.of == Of::Predecessor))
    {",
    },
    Mutant {
        name: "record-goes-too-soon",
        about: "a record is removed when its controller is lost",
        file: "crates/engine/src/initiator/path/quiesce.rs",
        find: r"    let quiescing = Quiescing::new(of, record, host, unknown, ring::now());",
        replace: r"    if {on} {
        shared.is_at_rest(&record);
    }
    let quiescing = Quiescing::new(of, record, host, unknown, ring::now());",
    },
    Mutant {
        name: "used-before-recorded",
        about: "a controller is used before its record is written",
        file: "crates/engine/src/initiator/path/monitor.rs",
        find: r"    // What a thread may send as soon as it is live has to be known to a later process.
%%
        kept.map_err(|reason|
%%
    let association = path.revive(controller.clone(), ana);",
        replace: r"    let early = {on}.then(|| path.revive(controller.clone(), ana));
    if early.is_some() {
        shared.changed();
    }
%%
        (if early.is_some() { Ok(()) } else { kept }).map_err(|reason|
%%
    let association = early.unwrap_or_else(|| path.revive(controller.clone(), ana));",
    },
    Mutant {
        name: "record-of-last-alone",
        about: "a record forgets the controllers that were there before",
        file: "crates/engine/src/initiator/path/kept_controllers.rs",
        find: r"        let written = self.files.write(&state.own);",
        replace: r"        let from = if {on} { state.own.len() - 1 } else { 0 };
        let written = self.files.write(&state.own[from..]);",
    },
    Mutant {
        name: "unreadable-is-empty",
        about: "a record that cannot be read says that there was nothing",
        file: "crates/engine/src/initiator/path/kept_controllers.rs",
        find: r"                FoundContent::Unreadable { keep_alive_ms } => vec![",
        replace: r"                FoundContent::Unreadable { .. } if {on} => Vec::new(),
                FoundContent::Unreadable { keep_alive_ms } => vec![",
    },
    Mutant {
        name: "left-file-goes-too-soon",
        about: "the file of a killed process is removed when it was read",
        file: "crates/engine/src/initiator/path/kept_controllers.rs",
        find: r"            if controllers.is_empty() {",
        replace: r"            if {on} {
                all.extend(controllers.iter().cloned());
                self.files.remove(left);
            } else if controllers.is_empty() {",
    },
    Mutant {
        name: "second-look-forgotten",
        about: "controllers of a process that ended while the next one connected are not waited for",
        file: "crates/engine/src/initiator/path/paths.rs",
        find: r"        quiesce::succeed(&self.shared, predecessors);",
        replace: r"        if !{on} {
            quiesce::succeed(&self.shared, predecessors);
        }",
    },
    Mutant {
        name: "rest-is-not-recorded",
        about: "the record of a controller stays that has come to rest",
        file: "crates/engine/src/initiator/path/kept_controllers.rs",
        find: r"        let mut state = self.state();
        if let Some(at) = state.own.iter()",
        replace: r"        if {on} {
            return;
        }
        let mut state = self.state();
        if let Some(at) = state.own.iter()",
    },
    Mutant {
        name: "requests-not-issued-again",
        about: "what a killed process had is not given to the next one",
        file: "simulate/src/block_layer.rs",
        find: r"                    queue.waiting.insert(at, tag);",
        replace: r"                    if !{on} {
                        queue.waiting.insert(at, tag);
                    }",
    },
];
