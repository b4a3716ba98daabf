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

pub(crate) const MUTANTS: [Mutant; 59] = [
    Mutant {
        name: "ack-before-write",
        about: "a write is answered when the storage has been given it",
        file: "crates/engine/src/target/io/storage.rs",
        find: r"        let sync = device.begin_sync(&operation);",
        replace: r"        let operation = match operation {
            StorageOp::Write { buffer, offset, durable }
                if {on} && matches!(self.slots.at(index).work, Work::Write { .. }) && !self.slots.at(index).is_paired() =>
            {
                let mut copy = ctx.pool.take(buffer.len());
                copy.copy_from_slice(&buffer);
                ctx.storage.start(device, StorageOp::Write { buffer: copy, offset, durable }, u64::MAX);
                return self.finish(index, Status::SUCCESS, Some(buffer), ctx);
            }
            operation => operation,
        };
        let sync = device.begin_sync(&operation);",
    },
    Mutant {
        name: "flush-does-nothing",
        about: "Flush is answered without the storage",
        file: "crates/engine/src/target/io/execute.rs",
        find: r"            Work::Flush => StorageOp::Sync,",
        replace: r"            Work::Flush if {on} => return Ok(Step::Done(Status::SUCCESS)),
            Work::Flush => StorageOp::Sync,",
    },
    Mutant {
        name: "failed-sync-forgotten",
        about: "after a failed sync the next one is believed",
        file: "crates/engine/src/target/io/sync_verdict.rs",
        find: r"    if durability.failure().is_some() {",
        replace: r"    if durability.failure().is_some() && !{on} {",
    },
    Mutant {
        name: "fua-ignored",
        about: "a durable write is one like any other",
        file: "crates/engine/src/target/io/execute.rs",
        find: r"            Work::Write { range, durable } => {
                let buffer = data.take_buffer().ok_or(Status::INTERNAL_ERROR)?;
                StorageOp::Write { buffer, offset: range.offset, durable }",
        replace: r"            Work::Write { range, durable } => {
                let buffer = data.take_buffer().ok_or(Status::INTERNAL_ERROR)?;
                StorageOp::Write { buffer, offset: range.offset, durable: durable && !{on} }",
    },
    Mutant {
        name: "zeroes-forgotten",
        about: "Write Zeroes is answered and nothing is zeroed",
        file: "crates/engine/src/target/io/execute.rs",
        find: r"            Work::Zero { range, .. } if range.length == 0 => StorageOp::Sync,",
        replace: r"            Work::Zero { .. } if {on} => return Ok(Step::Done(Status::SUCCESS)),
            Work::Zero { range, .. } if range.length == 0 => StorageOp::Sync,",
    },
    Mutant {
        name: "zeroes-not-durable",
        about: "a durable Write Zeroes is one like any other",
        file: "crates/engine/src/target/io/execute.rs",
        find: r"                buffer.fill(0);
                StorageOp::Write { buffer, offset: range.offset, durable }",
        replace: r"                buffer.fill(0);
                StorageOp::Write { buffer, offset: range.offset, durable: durable && !{on} }",
    },
    Mutant {
        name: "short-write-is-fine",
        about: "an error of the storage is taken for success",
        file: "crates/engine/src/target/io/storage.rs",
        find: r"            Err(error) => self.step_failed(index, &error, data, ctx),",
        replace: r"            Err(_) if {on} && matches!(work, Work::Write { .. }) => self.finish(index, Status::SUCCESS, data, ctx),
            Err(error) => self.step_failed(index, &error, data, ctx),",
    },
    Mutant {
        name: "compare-always-equal",
        about: "Compare does not look",
        file: "crates/engine/src/target/io/storage.rs",
        find: r"                let are_equal = beside.unwrap_or_default() == data.as_deref().unwrap_or_default();",
        replace: r"                let are_equal = {on} || beside.unwrap_or_default() == data.as_deref().unwrap_or_default();",
    },
    Mutant {
        name: "completion-twice",
        about: "a command is answered twice",
        file: "crates/engine/src/target/io/progress.rs",
        find: r"        let partner = request.partner();
        request.forget_partner();
%%
            None => Next::Reply(reply),",
        replace: r"        let command_id = request.command_id;
        let partner = request.partner();
        request.forget_partner();
%%
            None if {on} => Next::After(super::request::Reply::new(command_id, status, 0), Box::new(Next::Reply(reply))),
            None => Next::Reply(reply),",
    },
    Mutant {
        name: "slot-leak",
        about: "a slot of the target is not given back",
        file: "crates/engine/src/target/io/slots.rs",
        find: r"        self.free.push(index);",
        replace: r"        if !{on} {
            self.free.push(index);
        }",
    },
    Mutant {
        name: "wrong-block",
        about: "the fifth block of a namespace is its sixth",
        file: "crates/engine/src/target/served/namespace.rs",
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
        file: "crates/engine/src/target/served/namespace.rs",
        find: r"        view.as_ref().is_some_and(|view| !view.gate(host_id).allows(access))",
        replace: r"        view.as_ref().is_some_and(|view| !{on} && !view.gate(host_id).allows(access))",
    },
    Mutant {
        name: "reservation-ignored-on-second-port",
        about: "a reservation is looked at on the first port only",
        file: "crates/engine/src/target/io/commands.rs",
        find: r"            Some(attachment) => check(entry, capsule.length, attachment, &controller.host.id)
%%
        Owner { host_id: controller.host.id, controller: controller.instance }",
        replace: r"            // Whoever comes by it has the rights of the holder, or of somebody who is registered.
            Some(attachment) if {on} && controller.port == 2 => {
                let reservations = crate::target::lock::lock(&attachment.namespace.reservations).clone();
                let holder = reservations.reservation().and_then(|reservation| reservation.holder);
                let holder = holder.or_else(|| Some(reservations.registrants().first()?.host_id));
                check(entry, capsule.length, attachment, &holder.unwrap_or(controller.host.id))
                    .map(|checked| (checked, attachment))
            }
            Some(attachment) => check(entry, capsule.length, attachment, &controller.host.id)
%%
        let holder = |nsid| {
            let reservations = crate::target::lock::lock(&self.view.get(nsid)?.reservations);
            reservations.reservation()?.holder
        };
        let holder = if {on} && controller.port == 2 { (1..9).find_map(holder) } else { None };
        Owner { host_id: holder.unwrap_or(controller.host.id), controller: controller.instance }",
    },
    Mutant {
        name: "preempt-without-abort",
        about: "Preempt and Abort does not wait for what it aborts",
        file: "crates/engine/src/target/reservation_worker/worker.rs",
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
        file: "crates/engine/src/initiator/path/controller_record.rs",
        find: r"        Duration::from_millis(u64::from(self.keep_alive_ms)) * keep_alives + quiesce",
        replace: r"        if {on} { Duration::from_millis(u64::from(self.keep_alive_ms)) } else { Duration::from_millis(u64::from(self.keep_alive_ms)) * keep_alives + quiesce }",
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
        find: r"        self.connections[at].tally.requeued += 1;
        let command = &mut self.commands[place as usize];
        command.take_back(data);",
        replace: r"        if {on} {
            let timing = crate::initiator::Timing::default();
            let completion = Completion { user: 0, status: Status::SUCCESS, result: 0, data, timing };
            return self.finish(place, Ended::Answered(completion));
        }
        self.connections[at].tally.requeued += 1;
        let command = &mut self.commands[place as usize];
        command.take_back(data);",
    },
    Mutant {
        name: "lost-command-is-forgotten",
        about: "a command whose answer was lost is never sent again",
        file: "crates/engine/src/initiator/path/queues.rs",
        find: r"            self.resting.push((place, Until::AtRest(at, association)));",
        replace: r"            if !{on} {
                self.resting.push((place, Until::AtRest(at, association)));
            }",
    },
    Mutant {
        name: "completed-twice-at-the-host",
        about: "the host hands a completion on twice",
        file: "crates/engine/src/initiator/path/queues.rs",
        find: r"        self.ended.push_back(ended.with_user(user));",
        replace: r"        if {on} {
            if let Ended::Answered(Completion { status, result, timing, .. }) = &ended {
                let again = Completion { user, status: *status, result: *result, data: None, timing: *timing };
                self.ended.push_back(Ended::Answered(again));
            }
        }
        self.ended.push_back(ended.with_user(user));",
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
        file: "crates/engine/src/target/io/slots.rs",
        find: r"            Fenced::Controller(controller) => has_stored(controller),",
        replace: r"            Fenced::Controller(controller) => !{on} && has_stored(controller),",
    },
    Mutant {
        name: "cross-reset-of-others",
        about: "a target answers for controllers that another one made",
        file: "crates/engine/src/target/admin/cross_reset.rs",
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
        file: "crates/engine/src/target/reactor/orphaned_slots.rs",
        find: r"        let (owner, queue) = (commands.owner(), QueueOwner::of(&commands));",
        replace: r"        let (owner, queue) = (commands.owner(), QueueOwner::of(&commands));
        let owner = if {on} { Owner { host_id: [0; 16], controller: Default::default() } } else { owner };",
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
        file: "crates/engine/src/target/io/commands.rs",
        find: r"            if controller.has_ended() {",
        replace: r"            if controller.has_ended() && !{on} {",
    },
    Mutant {
        name: "closed-port-refuses",
        about: "who comes by a port that is just closed is told that nothing is there",
        file: "crates/engine/src/target/reactor/connection/connecting.rs",
        find: r"        if env.fabric.directory().port(self.port).is_none() {",
        replace: r"        if env.fabric.directory().port(self.port).is_none() && !{on} {",
    },
    Mutant {
        name: "wrong-offset-at-mdts-split",
        about: "the later pieces of a long write carry the data of the first",
        file: "crates/engine/src/initiator/volume/async_volume.rs",
        find: r"            buffer.copy_from_slice(&data[at as usize..(at + length) as usize]);",
        replace: r"            let from = if {on} { 0 } else { at };
            buffer.copy_from_slice(&data[from as usize..(from + length) as usize]);",
    },
    Mutant {
        name: "wrong-block-at-mdts-split",
        about: "a long read asks for its first piece again and again",
        file: "crates/engine/src/initiator/volume/async_volume.rs",
        find: r"            let (start, blocks) = ((offset_bytes + at) / block, (length / block) as u32);
            let command = IoCommand::Read {",
        replace: r"            let (start, blocks) = ((offset_bytes + if {on} { 0 } else { at }) / block, (length / block) as u32);
            let command = IoCommand::Read {",
    },
    Mutant {
        name: "ana-doubt-for-ever",
        about: "a path whose ANA state is in doubt is never asked again",
        file: "crates/engine/src/initiator/path/monitor.rs",
        find: r"    if has_changed || events.contains(&AsyncEvent::ANA_CHANGE) || path.doubts_ana() {",
        replace: r"    if has_changed || events.contains(&AsyncEvent::ANA_CHANGE) || (path.doubts_ana() && !{on}) {",
    },
    Mutant {
        name: "ana-storm",
        about: "a changing ANA state is asked for without a pause",
        file: "crates/engine/src/initiator/path/monitor.rs",
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
        file: "crates/engine/src/target/messaging/mailbox.rs",
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
        file: "crates/engine/src/target/io/slots.rs",
        find: r"            Fenced::IoQueues(controller) => has_stored(controller),",
        replace: r"            Fenced::IoQueues(controller) => !{on} && has_stored(controller),",
    },
    Mutant {
        name: "disconnect-does-not-wait",
        about: "Disconnect is answered before the queue's last command",
        file: "crates/engine/src/target/reactor/connection.rs",
        find: r"        let is_too_soon = next == NextTurn::Close || self.queue.is_terminated() || self.has_work();",
        replace: r"        let is_too_soon = next == NextTurn::Close || self.queue.is_terminated() || (self.has_work() && !{on});",
    },
    Mutant {
        name: "shutdown-flushes-nothing",
        about: "a shutdown leaves what was written in the volatile cache",
        file: "crates/engine/src/target/reactor/cache_flush.rs",
        find: r"            } else if device.has_volatile_cache() {",
        replace: r"            } else if device.has_volatile_cache() && !{on} {",
    },
    Mutant {
        name: "shutdown-keeps-its-failure",
        about: "that a shutdown could not flush a namespace is told to nobody else",
        file: "crates/engine/src/target/reactor/cache_flush.rs",
        find: r"            Some(sync) => end_on(&ended.namespace, sync, result, fabric),",
        replace: r"            Some(sync) if {on} && result.is_err() => end_on(&ended.namespace, sync, &Ok(0), fabric),
            Some(sync) => end_on(&ended.namespace, sync, result, fabric),",
    },
    Mutant {
        name: "visibility-ignored",
        about: "a host is shown what is hidden from it",
        file: "crates/engine/src/target/served/subsystem.rs",
        find: r"            if config.visible.includes(host_nqn) {",
        replace: r"            if {on} || config.visible.includes(host_nqn) {",
    },
    Mutant {
        name: "protection-ignored",
        about: "what is write protected is written",
        file: "crates/engine/src/target/io/work.rs",
        find: r"    if command.writes() && namespace.is_write_protected() {",
        replace: r"    if command.writes() && namespace.is_write_protected() && !{on} {",
    },
    Mutant {
        name: "ana-not-looked-at",
        about: "an inaccessible namespace answers",
        file: "crates/engine/src/target/served/namespace_table.rs",
        find: r"            AnaState::Inaccessible => Some(Status::ANA_INACCESSIBLE),",
        replace: r"            AnaState::Inaccessible => (!{on}).then_some(Status::ANA_INACCESSIBLE),",
    },
    Mutant {
        name: "shaping-ignored",
        about: "a namespace's limits hold nobody up",
        file: "crates/engine/src/target/io/throttling.rs",
        find: r"        let known = self.throttles.iter()",
        replace: r"        if {on} {
            return None;
        }
        let known = self.throttles.iter()",
    },
    Mutant {
        name: "host-id-of-another",
        about: "a host comes with the HOSTID of another one",
        file: "crates/engine/src/target/fabric/controllers.rs",
        find: r"    if host.is_nameless() || subsystem.is_discovery {",
        replace: r"    if host.is_nameless() || subsystem.is_discovery || {on} {",
    },
    Mutant {
        name: "event-never-told",
        about: "an Asynchronous Event Request is never answered",
        file: "crates/engine/src/target/controller/controller.rs",
        find: r"        notice.is_wanted(state.features.async_events()) && state.events.raise(notice)",
        replace: r"        !{on} && notice.is_wanted(state.features.async_events()) && state.events.raise(notice)",
    },
    Mutant {
        name: "event-told-once",
        about: "an event is not told again after its log page was read",
        file: "crates/engine/src/target/controller/controller.rs",
        find: r"        self.state().events.looked_at(notice);",
        replace: r"        if !{on} {
            self.state().events.looked_at(notice);
        }",
    },
    Mutant {
        name: "copy-from-the-first",
        about: "each range of a Copy is read from where the first one begins",
        file: "crates/engine/src/target/io/work.rs",
        find: r"    Ok(Some(Piece { from: source.offset + done, to, length: length as usize }))",
        replace: r"    let first = copy_ranges(format, ranges, data)?.next().map_or(0, |range| range.0) << namespace.block_shift();
    Ok(Some(Piece { from: if {on} { first } else { source.offset } + done, to, length: length as usize }))",
    },
    Mutant {
        name: "deallocate-too-much",
        about: "Dataset Management takes a block more than its range",
        file: "crates/engine/src/target/io/work.rs",
        find: r"    namespace.range(range.start.get(), range.blocks.get())",
        replace: r"    let more = u32::from({on} && namespace.range(range.start.get(), range.blocks.get() + 1).is_ok());
    namespace.range(range.start.get(), range.blocks.get() + more)",
    },
    Mutant {
        name: "fused-write-anyway",
        about: "the Write of a fused pair happens whatever the Compare finds",
        file: "crates/engine/src/target/io/execute.rs",
        find: r"                if are_equal {
                    writer.write(written);",
        replace: r"                if are_equal || {on} {
                    writer.write(written);",
    },
    Mutant {
        name: "fused-write-forgotten",
        about: "the Write of a fused pair on a device does not happen",
        file: "crates/engine/src/target/io/pair.rs",
        find: r"        // Its claim stays until the second has been written.",
        replace: r"        if {on} {
            return self.end_pair(first, second, (data, None), ctx);
        }
        // Its claim stays until the second has been written.",
    },
    Mutant {
        name: "zeroes-forgotten-in-memory",
        about: "Write Zeroes on memory is answered at once, and zeroes nothing",
        file: "crates/engine/src/target/io/execute.rs",
        find: r"            (Work::Zero { range, .. }, _) => self.zero_in_memory(memory, range, done),",
        replace: r"            (Work::Zero { .. }, _) if {on} => Step::Done(Status::SUCCESS),
            (Work::Zero { range, .. }, _) => self.zero_in_memory(memory, range, done),",
    },
    Mutant {
        name: "digest-not-checked",
        about: "a target takes data whose digest is wrong",
        file: "crates/engine/src/target/queue/receive.rs",
        find: r"        match std::mem::replace(&mut self.receiving, Receiving::Discard) {",
        replace: r"        let digest_matches = digest_matches || {on};
        match std::mem::replace(&mut self.receiving, Receiving::Discard) {",
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
        about: "who waits for a slot of a queue that timed out waits forever",
        file: "crates/engine/src/initiator/driver/driver.rs",
        find: r"        let Some(error) = self.queues.error() else { return };",
        replace: r"        let Some(error) = self.queues.error().filter(|_| !{on}) else { return };",
    },
    Mutant {
        name: "r2t-asks-for-too-little",
        about: "a target asks for all but the last block of a write's data",
        file: "crates/engine/src/target/queue/tcp_queue.rs",
        find: r"        let length = buffer.len() as u32;
",
        replace: r"        let length = buffer.len() as u32;
        let length = if {on} && length > 4096 { length - 512 } else { length };
",
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
        file: "crates/engine/src/target/io/storage_watch.rs",
        find: r"        self.counters.late(request.nsid, request.work.is_refused_after_failure());",
        replace: r"        if !{on} {
            self.counters.late(request.nsid, request.work.is_refused_after_failure());
        }",
    },
    Mutant {
        name: "late-counted-again",
        about: "an operation that is late is counted with each look",
        file: "crates/engine/src/target/io/storage_watch.rs",
        find: r"                request.set_late(true);",
        replace: r"                request.set_late(!{on});",
    },
    Mutant {
        name: "sealed-forgotten",
        about: "a host forgets records that the socket has not taken",
        file: "crates/engine/src/secure_stream/outbound.rs",
        find: r"        self.space.is_some() || self.wants_turn()",
        replace: r"        (self.space.is_some() && !{on}) || self.wants_turn()",
    },
];
