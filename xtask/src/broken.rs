//! The ways to break the engine, each as a place in a file and what stands there instead. `{on}` is whether it is in force.
//! How they are built and tried is in `mutants`.

/// One thing that is done wrong.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What it does, in a few words.
    pub(crate) about: &'static str,
    pub(crate) file: &'static str,
    /// What is in the file, once; several such places are separated by `BETWEEN`, and so is what stands there instead.
    pub(crate) find: &'static str,
    pub(crate) replace: &'static str,
}

/// Between two places that a mutant breaks.
pub(crate) const BETWEEN: &str = "\n%%\n";

pub(crate) const MUTANTS: [Mutant; 63] = [
    Mutant {
        name: "ack-before-write",
        about: "a write is answered when the storage has been given it",
        file: "crates/engine/src/target/storage.rs",
        find: r"            Work::Write { range, durable } => match self.slots.lend(index) {",
        replace: r"            Work::Write { range, durable } if {on} => {
                let mut buffer = env.pool.take(range.length as usize);
                buffer.copy_from_slice(self.slots.data(index));
                device.start(env.ring, StorageOp::Write { buffer, offset: range.offset, durable }, u64::MAX);
                return Step::Done(Status::SUCCESS);
            }
            Work::Write { range, durable } => match self.slots.lend(index) {",
    },
    Mutant {
        name: "flush-does-nothing",
        about: "Flush is answered without the storage",
        file: "crates/engine/src/target/storage.rs",
        find: r"            Work::Flush => {
                self.start_beside(index, device, StorageOp::Sync, env);",
        replace: r"            Work::Flush if {on} => return Step::Done(Status::SUCCESS),
            Work::Flush => {
                self.start_beside(index, device, StorageOp::Sync, env);",
    },
    Mutant {
        name: "failed-sync-forgotten",
        about: "after a failed sync the next one is believed",
        file: "crates/engine/src/target/sync_verdict.rs",
        find: r"    if durability.failure().is_some() {",
        replace: r"    if durability.failure().is_some() && !{on} {",
    },
    Mutant {
        name: "fua-ignored",
        about: "a durable write is one like any other",
        file: "crates/engine/src/target/storage.rs",
        find: r"                Some(buffer) => StorageOp::Write { buffer, offset: range.offset, durable },",
        replace: r"                Some(buffer) => StorageOp::Write { buffer, offset: range.offset, durable: durable && !{on} },",
    },
    Mutant {
        name: "zeroes-forgotten",
        about: "Write Zeroes is answered and nothing is zeroed",
        file: "crates/engine/src/target/storage.rs",
        find: r"            Work::Zero { range, method, durable, .. } => {
                self.start_zero",
        replace: r"            Work::Zero { .. } if {on} => return Step::Done(Status::SUCCESS),
            Work::Zero { range, method, durable, .. } => {
                self.start_zero",
    },
    Mutant {
        name: "zeroes-not-durable",
        about: "a durable Write Zeroes is one like any other",
        file: "crates/engine/src/target/storage.rs",
        find: r"                StorageOp::Write { buffer, offset: range.offset, durable }
            }
        };
        self.start_beside",
        replace: r"                StorageOp::Write { buffer, offset: range.offset, durable: durable && !{on} }
            }
        };
        self.start_beside",
    },
    Mutant {
        name: "short-write-is-fine",
        about: "an error of the storage is taken for success",
        file: "crates/engine/src/target/storage.rs",
        find: r"            Err(error) => self.step_failed(index, work, &error, env),",
        replace: r"            Err(_) if {on} && matches!(work, Work::Write { .. }) => self.finish(index, Status::SUCCESS, env),
            Err(error) => self.step_failed(index, work, &error, env),",
    },
    Mutant {
        name: "compare-always-equal",
        about: "Compare does not look",
        file: "crates/engine/src/target/storage.rs",
        find: r"                let equal = stored == self.slots.data(index);",
        replace: r"                let equal = {on} || stored == self.slots.data(index);",
    },
    Mutant {
        name: "completion-twice",
        about: "a command is answered twice",
        file: "crates/engine/src/target/answer.rs",
        find: r"        let partner = slot.partner.take();",
        replace: r"        let partner = slot.partner.take();
        if {on} {
            self.respond(command_id, status, 0);
        }
        let slot = self.slots.at(index);",
    },
    Mutant {
        name: "slot-leak",
        about: "a slot of the target is not given back",
        file: "crates/engine/src/target/answer.rs",
        find: r"        self.slots.give(index, env.pool);
        if let Some(partner) = partner {",
        replace: r"        if !{on} {
            self.slots.give(index, env.pool);
        }
        if let Some(partner) = partner {",
    },
    Mutant {
        name: "wrong-block",
        about: "the fifth block of a namespace is its sixth",
        file: "crates/engine/src/target/namespace.rs",
        find: r"        self.bytes(start, u64::from(blocks)).ok_or(Status::LBA_OUT_OF_RANGE.do_not_retry())",
        replace: r"        let start = if {on} && start == 4 && blocks == 1 { 5 } else { start };
        self.bytes(start, u64::from(blocks)).ok_or(Status::LBA_OUT_OF_RANGE.do_not_retry())",
    },
    Mutant {
        name: "wrong-offset-at-split",
        about: "data of the second PDU for a write is taken from where the first began",
        file: "crates/engine/src/initiator/queue/send.rs",
        find: r"            let range = offset as usize..(offset + length) as usize;",
        replace: r"            let from = if {on} { asked.offset.get() } else { offset };
            let range = from as usize..(from + length) as usize;",
    },
    Mutant {
        name: "reservation-ignored",
        about: "a reservation keeps nobody off",
        file: "crates/engine/src/target/command.rs",
        find: r"        Some(access) if namespace.reservation_forbids(host_id, access) =>",
        replace: r"        Some(access) if !{on} && namespace.reservation_forbids(host_id, access) =>",
    },
    Mutant {
        name: "reservation-ignored-on-second-port",
        about: "a reservation is looked at on the first port only",
        file: "crates/engine/src/target/command.rs",
        find: r"            Some(attachment) => check(entry, data_length, attachment, &controller.host.id)
%%
namespace.reservation_forbids(host_id, access) =>",
        replace: r"            Some(attachment) => check(entry, data_length, attachment, if {on} && controller.port == 2 { &[0; 16] } else { &controller.host.id })
%%
!({on} && *host_id == [0; 16]) && namespace.reservation_forbids(host_id, access) =>",
    },
    Mutant {
        name: "preempt-without-abort",
        about: "Preempt and Abort does not wait for what it aborts",
        file: "crates/engine/src/target/clerk.rs",
        find: r"            if outcome.aborts.is_empty() {",
        replace: r"            if {on} || outcome.aborts.is_empty() {",
    },
    Mutant {
        name: "no-quiesce",
        about: "a lost controller is at rest at once",
        file: "crates/engine/src/initiator/path/quiesce.rs",
        find: r"    if !shared.options.quiesce {",
        replace: r"    if {on} || !shared.options.quiesce {",
    },
    Mutant {
        name: "quiesce-too-short",
        about: "a lost controller is at rest when its keep alive time is over",
        file: "crates/engine/src/initiator/path/quiesce.rs",
        find: r"    Duration::from_millis(u64::from(keep_alive_ms)) * keep_alives + quiesce",
        replace: r"    if {on} { Duration::from_millis(u64::from(keep_alive_ms)) } else { Duration::from_millis(u64::from(keep_alive_ms)) * keep_alives + quiesce }",
    },
    Mutant {
        name: "write-is-harmless-twice",
        about: "a write whose answer was lost is sent again at once",
        file: "crates/engine/src/initiator/path/retry.rs",
        find: r"pub(super) const fn is_harmless_twice(opcode: u8) -> bool {
    matches!(",
        replace: r"pub(super) fn is_harmless_twice(opcode: u8) -> bool {
    ({on} && opcode == io_opcode::WRITE) || matches!(",
    },
    Mutant {
        name: "lost-write-is-done",
        about: "a write whose answer was lost counts as done",
        file: "crates/engine/src/initiator/path/queues.rs",
        find: r"        self.lanes[at].tally.requeued += 1;
        let command = &mut self.commands[place as usize];
        command.take_back(data);",
        replace: r"        if {on} {
            return self.finish(place, Completion { user: 0, status: Status::SUCCESS, result: 0, data });
        }
        self.lanes[at].tally.requeued += 1;
        let command = &mut self.commands[place as usize];
        command.take_back(data);",
    },
    Mutant {
        name: "lost-command-is-forgotten",
        about: "a command whose answer was lost is never sent again",
        file: "crates/engine/src/initiator/path/queues.rs",
        find: r"            self.resting.push((place, Until::AtRest(at, incarnation)));",
        replace: r"            if !{on} {
                self.resting.push((place, Until::AtRest(at, incarnation)));
            }",
    },
    Mutant {
        name: "completed-twice-at-the-host",
        about: "the host hands a completion on twice",
        file: "crates/engine/src/initiator/path/queues.rs",
        find: r"        self.completions.push_back(Completion { user, ..completion });",
        replace: r"        if {on} {
            let (status, result) = (completion.status, completion.result);
            self.completions.push_back(Completion { user, status, result, data: None });
        }
        self.completions.push_back(Completion { user, ..completion });",
    },
    Mutant {
        name: "host-slot-leak",
        about: "a place of the host is not given back",
        file: "crates/engine/src/initiator/path/queues.rs",
        find: r"        self.free.push(place);",
        replace: r"        if !{on} || user % 16 != 0 {
            self.free.push(place);
        }",
    },
    Mutant {
        name: "cross-reset-does-not-wait",
        about: "a reset of a controller is done although the storage still works for it",
        file: "crates/engine/src/target/fence.rs",
        find: r"            Self::Controller(controller) => has_stored(controller),",
        replace: r"            Self::Controller(controller) => !{on} && has_stored(controller),",
    },
    Mutant {
        name: "cross-reset-of-others",
        about: "a target answers for controllers that another one made",
        file: "crates/engine/src/target/cross_reset.rs",
        find: r"    if !fabric.has_made(&impacted) {
%%
    if impacted.controller_id == asked.id {",
        replace: r"    if !fabric.has_made(&impacted) && !{on} {
%%
    if impacted.controller_id == asked.id && !{on} {",
    },
    Mutant {
        name: "remains-without-owner",
        about: "what is left of a closed connection is nobody's",
        file: "crates/engine/src/target/remains.rs",
        find: r"        let owner = connection.owner();",
        replace: r"        let owner = connection.owner().filter(|_| !{on});",
    },
    Mutant {
        name: "keep-alive-not-enforced",
        about: "a controller whose host is silent lives on",
        file: "crates/engine/src/target/turns.rs",
        find: r"                && (controller.has_ended() || controller.is_silent(now))",
        replace: r"                && (controller.has_ended() || (controller.is_silent(now) && !{on}))",
    },
    Mutant {
        name: "keep-alive-looked-at-last",
        about: "after a pause a target does what waits before it looks whether it still may",
        file: "crates/engine/src/target/turns.rs",
        find: r"            if now >= self.next_sweep {
                self.sweep(now);
            }
            self.mailbox.tally
%%
            self.take_in(now);
            std::mem::swap",
        replace: r"            if now >= self.next_sweep && !{on} {
                self.sweep(now);
            }
            self.mailbox.tally
%%
            self.take_in(now);
            if now >= self.next_sweep && {on} {
                self.sweep(now);
            }
            std::mem::swap",
    },
    Mutant {
        name: "short-read-is-all",
        about: "a short read is taken for all there is",
        file: "crates/engine/src/initiator/queue/receive.rs",
        find: r"        let is_all = received < asked && is_emptied_by_short_read;",
        replace: r"        let is_all = received < asked && (is_emptied_by_short_read || {on});",
    },
    Mutant {
        name: "ended-controller-answers",
        about: "a command for a controller that has just ended fails instead of getting lost",
        file: "crates/engine/src/target/command.rs",
        find: r"            if controller.has_ended() {",
        replace: r"            if controller.has_ended() && !{on} {",
    },
    Mutant {
        name: "closed-port-refuses",
        about: "who comes by a port that is just closed is told that nothing is there",
        file: "crates/engine/src/target/fabrics.rs",
        find: r"        if env.fabric.directory().port(self.port).is_none() {",
        replace: r"        if env.fabric.directory().port(self.port).is_none() && !{on} {",
    },
    Mutant {
        name: "wrong-offset-at-mdts-split",
        about: "the later pieces of a long write carry the data of the first",
        file: "crates/engine/src/initiator/namespace.rs",
        find: r"            buffer.copy_from_slice(&data[at as usize..(at + length) as usize]);",
        replace: r"            let from = if {on} { 0 } else { at };
            buffer.copy_from_slice(&data[from as usize..(from + length) as usize]);",
    },
    Mutant {
        name: "wrong-block-at-mdts-split",
        about: "a long read asks for its first piece again and again",
        file: "crates/engine/src/initiator/namespace.rs",
        find: r"            let (start, blocks) = ((offset_bytes + at) / block, (length / block) as u32);
            let command = IoCommand::Read {",
        replace: r"            let (start, blocks) = ((offset_bytes + if {on} { 0 } else { at }) / block, (length / block) as u32);
            let command = IoCommand::Read {",
    },
    Mutant {
        name: "controller-leak",
        about: "a controller outlives its admin queue",
        file: "crates/engine/src/target/turns.rs",
        find: r"            fabric.end_controller(controller);
        }
        Session::Io",
        replace: r"            if !{on} {
                fabric.end_controller(controller);
            }
        }
        Session::Io",
    },
    Mutant {
        name: "connection-count-leak",
        about: "a closed connection counts on",
        file: "crates/engine/src/target/turns.rs",
        find: r"        self.ring.unwatch(&connection.socket, token);
        self.mailbox.discount_connection(connection.is_queue);",
        replace: r"        self.ring.unwatch(&connection.socket, token);
        if !{on} {
            self.mailbox.discount_connection(connection.is_queue);
        }",
    },
    Mutant {
        name: "ana-doubt-for-ever",
        about: "a path whose ANA state is in doubt is never asked again",
        file: "crates/engine/src/initiator/path/keeper.rs",
        find: r"    if has_changed || events.contains(&AsyncEvent::ANA_CHANGE) || path.doubts_ana() {",
        replace: r"    if has_changed || events.contains(&AsyncEvent::ANA_CHANGE) || (path.doubts_ana() && !{on}) {",
    },
    Mutant {
        name: "ana-storm",
        about: "a changing ANA state is asked for without a pause",
        file: "crates/engine/src/initiator/path/keeper.rs",
        find: r"            (Some(AnaState::Change), Some((_, asked))) if now.since(asked) < CHANGE_INTERVAL => {",
        replace: r"            (Some(AnaState::Change), Some((_, asked))) if now.since(asked) < CHANGE_INTERVAL && !{on} => {",
    },
    Mutant {
        name: "quiesce-spins",
        about: "who waits for an older controller to come to rest does not sleep",
        file: "crates/engine/src/initiator/path/quiesce.rs",
        find: r"        if one.is_over(now) {
            return None;
        }",
        replace: r"        if one.is_over(now) {
            return if {on} { Some(Duration::ZERO) } else { None };
        }",
    },
    Mutant {
        name: "message-without-waking",
        about: "a reactor is not woken for a new connection",
        file: "crates/engine/src/target/mailbox.rs",
        find: r"        self.waker.wake();
    }

    /// Connections the reactor has",
        replace: r"        if !{on} {
            self.waker.wake();
        }
    }

    /// Connections the reactor has",
    },
    Mutant {
        name: "reset-does-not-wait",
        about: "a controller is reset, or shut down, before its last command has ended",
        file: "crates/engine/src/target/fence.rs",
        find: r"            Self::IoQueues(controller) => has_stored(controller),",
        replace: r"            Self::IoQueues(controller) => !{on} && has_stored(controller),",
    },
    Mutant {
        name: "disconnect-does-not-wait",
        about: "Disconnect is answered before the queue's last command",
        file: "crates/engine/src/target/answer.rs",
        find: r"        if self.disconnect.is_none() || verdict == Verdict::Close || self.terminated || self.has_work() {",
        replace: r"        let waits = self.has_work() && !{on};
        if self.disconnect.is_none() || verdict == Verdict::Close || self.terminated || waits {",
    },
    Mutant {
        name: "shutdown-flushes-nothing",
        about: "a shutdown leaves what was written in the volatile cache",
        file: "crates/engine/src/target/cache_flush.rs",
        find: r"            } else if device.has_volatile_cache() {",
        replace: r"            } else if device.has_volatile_cache() && !{on} {",
    },
    Mutant {
        name: "shutdown-keeps-its-failure",
        about: "that a shutdown could not flush a namespace is told to nobody else",
        file: "crates/engine/src/target/cache_flush.rs",
        find: r"            Some(sync) => end_on(&ended.namespace, sync, result, fabric),",
        replace: r"            Some(sync) if {on} && result.is_err() => end_on(&ended.namespace, sync, &Ok(0), fabric),
            Some(sync) => end_on(&ended.namespace, sync, result, fabric),",
    },
    Mutant {
        name: "visibility-ignored",
        about: "a host is shown what is hidden from it",
        file: "crates/engine/src/target/subsystem.rs",
        find: r"            if config.visible.includes(host_nqn) {",
        replace: r"            if {on} || config.visible.includes(host_nqn) {",
    },
    Mutant {
        name: "protection-ignored",
        about: "what is write protected is written",
        file: "crates/engine/src/target/command.rs",
        find: r"    if command.writes() && namespace.is_write_protected() {",
        replace: r"    if command.writes() && namespace.is_write_protected() && !{on} {",
    },
    Mutant {
        name: "ana-not-looked-at",
        about: "an inaccessible namespace answers",
        file: "crates/engine/src/target/ana.rs",
        find: r"            AnaState::Inaccessible => Some(Status::ANA_INACCESSIBLE),",
        replace: r"            AnaState::Inaccessible => (!{on}).then_some(Status::ANA_INACCESSIBLE),",
    },
    Mutant {
        name: "shaping-ignored",
        about: "a namespace's limits hold nobody up",
        file: "crates/engine/src/target/shape.rs",
        find: r"        let known = self.lanes.iter().position(|lanes| Arc::ptr_eq(&lanes.namespace, namespace));",
        replace: r"        if {on} {
            return false;
        }
        let known = self.lanes.iter().position(|lanes| Arc::ptr_eq(&lanes.namespace, namespace));",
    },
    Mutant {
        name: "host-id-of-another",
        about: "a host comes with the HOSTID of another one",
        file: "crates/engine/src/target/fabric.rs",
        find: r"    if host.is_nameless() || subsystem.is_discovery {",
        replace: r"    if host.is_nameless() || subsystem.is_discovery || {on} {",
    },
    Mutant {
        name: "event-never-told",
        about: "an Asynchronous Event Request is never answered",
        file: "crates/engine/src/target/controller.rs",
        find: r"        notice.is_wanted(state.features.async_events()) && state.events.raise(notice)",
        replace: r"        !{on} && notice.is_wanted(state.features.async_events()) && state.events.raise(notice)",
    },
    Mutant {
        name: "event-told-once",
        about: "an event is not told again after its log page was read",
        file: "crates/engine/src/target/controller.rs",
        find: r"        self.state().events.looked_at(notice);",
        replace: r"        if !{on} {
            self.state().events.looked_at(notice);
        }",
    },
    Mutant {
        name: "copy-from-the-first",
        about: "each range of a Copy is read from where the first one begins",
        file: "crates/engine/src/target/copy.rs",
        find: r"    Ok(Some(Piece { from: source.offset + done, to, length: length as usize }))",
        replace: r"    let first = copy_ranges(format, ranges, data)?.next().map_or(0, |range| range.0) << namespace.block_shift();
    Ok(Some(Piece { from: if {on} { first } else { source.offset } + done, to, length: length as usize }))",
    },
    Mutant {
        name: "deallocate-too-much",
        about: "Dataset Management takes a block more than its range",
        file: "crates/engine/src/target/storage.rs",
        find: r"    namespace.range(range.start.get(), range.blocks.get())",
        replace: r"    let more = u32::from({on} && namespace.range(range.start.get(), range.blocks.get() + 1).is_ok());
    namespace.range(range.start.get(), range.blocks.get() + more)",
    },
    Mutant {
        name: "fused-write-anyway",
        about: "the Write of a fused pair happens whatever the Compare finds",
        file: "crates/engine/src/target/pair.rs",
        find: r"                if equal {
                    writer.write(self.slots.data(second));",
        replace: r"                if equal || {on} {
                    writer.write(self.slots.data(second));",
    },
    Mutant {
        name: "fused-write-forgotten",
        about: "the Write of a fused pair on a device does not happen",
        file: "crates/engine/src/target/pair.rs",
        find: r"        let Work::Write { range, durable } = self.slots.at(second).work else { return };
        if let",
        replace: r"        let Work::Write { range, durable } = self.slots.at(second).work else { return };
        if {on} {
            return self.end_pair(first, second, equal, env);
        }
        if let",
    },
    Mutant {
        name: "zeroes-forgotten-in-memory",
        about: "Write Zeroes on memory is answered at once, and zeroes nothing",
        file: "crates/engine/src/target/command.rs",
        find: r"                checked.done = memory.zero(range.offset, range.length);",
        replace: r"                checked.done = if {on} { range.length } else { memory.zero(range.offset, range.length) };",
    },
    Mutant {
        name: "digest-not-checked",
        about: "a target takes data whose digest is wrong",
        file: "crates/engine/src/target/receiving.rs",
        find: r"        if !digest_matches {",
        replace: r"        if !digest_matches && !{on} {",
    },
    Mutant {
        name: "digest-not-checked-by-the-host",
        about: "a host takes data whose digest is wrong",
        file: "crates/engine/src/initiator/queue/receive.rs",
        find: r"        slot.damaged |= !digest_matches;",
        replace: r"        slot.damaged |= !digest_matches && !{on};",
    },
    Mutant {
        name: "backlog-not-told",
        about: "who waits for a slot of a queue that timed out waits for ever",
        file: "crates/engine/src/initiator/workers.rs",
        find: r"        if self.error().is_some() {",
        replace: r"        if self.error().is_some() && !{on} {",
    },
    Mutant {
        name: "r2t-asks-for-too-little",
        about: "a target asks for all but the last block of a write's data",
        file: "crates/engine/src/target/receiving.rs",
        find: r"        self.slots.at(index).stage = Stage::Data;
        self.transmitter",
        replace: r"        self.slots.at(index).stage = Stage::Data;
        let length = if {on} && length > 4096 { length - 512 } else { length };
        self.transmitter",
    },
    Mutant {
        name: "short-move-is-all",
        about: "a read or write of which a part was moved is taken for the whole",
        file: "crates/engine/src/ring/transfer.rs",
        find: r"                if self.moved >= whole {
                    Some(Ok(self.moved))",
        replace: r"                if self.moved >= whole || {on} {
                    Some(Ok(whole))",
    },
    Mutant {
        name: "full-in-the-middle-is-fine",
        about: "a write that finds no room after its first blocks goes well",
        file: "crates/engine/src/ring/transfer.rs",
        find: r"            Err(error) => Some(",
        replace: r"            Err(_) if {on} && self.moved > 0 => Some(Ok(whole)),
            Err(error) => Some(",
    },
    Mutant {
        name: "late-not-counted",
        about: "an operation that outlives the quiesce time is not counted",
        file: "crates/engine/src/target/storage_watch.rs",
        find: r"        self.counters.late(slot.nsid, slot.work.is_refused_after_failure());",
        replace: r"        if !{on} {
            self.counters.late(slot.nsid, slot.work.is_refused_after_failure());
        }",
    },
    Mutant {
        name: "late-counted-again",
        about: "an operation that is late is counted with each look",
        file: "crates/engine/src/target/storage_watch.rs",
        find: r"                    slot.is_late = true;",
        replace: r"                    slot.is_late = !{on};",
    },
    Mutant {
        name: "late-forgotten-with-its-connection",
        about: "what a closed connection left at the storage is nobody's to count",
        file: "crates/engine/src/target/remains.rs",
        find: r"        let queue = QueueOwner::of(&connection.session);",
        replace: r"        let queue = QueueOwner::of(&connection.session).filter(|_| !{on});",
    },
];
