//! The beginning of a command: it is checked, done where it was decoded if that is possible, and has a slot else.

use std::rc::Rc;

use nvme::io::{Fused, asks_for_protection};
use nvme::tcp::{DecodeError, FatalError};
use nvme::{Status, SubmissionEntry};

use super::commands::Commands;
use super::context::{Capsule, Context};
use super::execute::{Data, Step};
use super::request::{Next, Reply, State};
use super::slots::Arriving;
use super::work::{Checked, Work, check};
use crate::backend::Backend;
use crate::target::queue::{Disconnect, Payload};
use crate::target::served::{HeldNamespace, NamespaceView, flags};
use crate::target::telemetry::Peculiarity;

impl Commands {
    /// A command, with what has come of its capsule's data.
    ///
    /// # Errors
    /// When no conforming host sends it, or the controller is gone.
    pub(crate) fn begin(
        &mut self,
        entry: &SubmissionEntry,
        capsule: Capsule<'_>,
        ctx: &mut Context<'_>,
    ) -> Result<Next, Disconnect> {
        self.taken += 1;
        let controller = &self.of.controller;
        if !controller.is_ready() {
            // The word to close this queue is on its way. An answer would tell the host that its command has failed, and
            // not that it has lost the controller and may send it elsewhere.
            if controller.has_ended() {
                return Err(Disconnect::Gone);
            }
            return Ok(Next::Reply(self.refuse(entry, Status::COMMAND_SEQUENCE_ERROR)));
        }
        let view = self.view.clone();
        let checked = match view.attachment(entry.nsid.get()) {
            Some(attachment) => check(entry, capsule.length, attachment, &controller.host.id)
                .map(|checked| (checked, attachment)),
            None => Err(Status::INVALID_NAMESPACE.do_not_retry()),
        };
        let (mut checked, attachment) = match checked {
            Ok(checked) => checked,
            Err(status) => return Ok(self.refuse_one_of_a_pair(entry, status, ctx)),
        };
        if asks_for_protection(entry) {
            ctx.seen.note(Peculiarity::ProtectionInformation);
        }
        let namespace = &*attachment.namespace;
        if let (Work::Read { range } | Work::Write { range, .. }, Backend::Memory(memory)) =
            (checked.work, &*namespace.backend)
        {
            memory.prefetch_lock(range.offset);
        }
        // Memory answers at once, and needs neither slot nor buffer unless a digest has to hold still.
        let is_immediate = !self.of.has_data_digest
            && namespace.flags() & flags::SLOW == 0
            && checked.fused == Fused::No
            && !matches!(*namespace.backend, Backend::Device(_))
            // An identifier that a command in a slot has is refused where slots are taken. Without such a command, as on a
            // queue that uses memory alone, this is one comparison.
            && !self.slots.has_command(entry.command_id.get());
        let mut done = 0;
        if is_immediate && let Some(reply) = self.answer_now(&mut checked, &mut done, &view, capsule, ctx) {
            let (nsid, operation) = (entry.nsid.get(), checked.work.operation());
            self.of.counters.done_at_once(nsid, operation, checked.length);
            return Ok(Next::Reply(reply));
        }
        self.start(&checked, done, view, ctx)
    }

    /// Does a command where it is decoded, without slot or buffer, if that is possible. `done` is what of it was done else.
    fn answer_now(
        &mut self,
        checked: &mut Checked<'_>,
        done: &mut u64,
        view: &Rc<NamespaceView>,
        capsule: Capsule<'_>,
        ctx: &mut Context<'_>,
    ) -> Option<Reply> {
        let (nsid, command_id) = (checked.entry.nsid.get(), checked.entry.command_id.get());
        let namespace = view.get(nsid)?;
        if let Work::Read { range } = checked.work {
            // Nothing is left to do: the reply says where the bytes are, and they leave from there.
            let payload = match *namespace.backend {
                Backend::Memory(_) => {
                    let holder = HeldNamespace::new(view.clone(), nsid);
                    Payload::Memory { holder, offset: range.offset }
                }
                Backend::Null(_) => Payload::Zeroes,
                Backend::Device(_) => return None,
            };
            return Some(Reply::with_data(command_id, payload, checked.length));
        }
        let mut data = match (checked.length, checked.in_capsule) {
            (0, _) => Data::None,
            (length, Some(at)) => Data::Capsule(capsule.whole?.get(at..at + length as usize)?),
            // Its data is still to be asked for.
            (_, None) => return None,
        };
        match self.turn(ctx).execute(namespace, &mut checked.work, done, &mut data) {
            Step::Done(Status::SUCCESS) => Some(Reply::new(command_id, Status::SUCCESS, 0)),
            // What fails gets a slot like any other command, and is answered from there.
            _ => None,
        }
    }

    /// Starts a command in a slot.
    fn start(
        &mut self,
        checked: &Checked<'_>,
        done: u64,
        view: Rc<NamespaceView>,
        ctx: &mut Context<'_>,
    ) -> Result<Next, Disconnect> {
        let entry = checked.entry;
        let (nsid, command_id) = (entry.nsid.get(), entry.command_id.get());
        let refused = if self.slots.has_command(command_id) {
            Err(Status::COMMAND_ID_CONFLICT)
        } else if checked.fused == Fused::Second {
            self.find_first(nsid, &checked.work).map(Some)
        } else {
            Ok(None)
        };
        let partner = match refused {
            Ok(partner) => partner,
            Err(status) => return Ok(self.refuse_one_of_a_pair(entry, status, ctx)),
        };
        let former = self.replaced_first(checked.fused, ctx);
        let shaped = view.get(nsid).is_some_and(|namespace| namespace.flags() & flags::SHAPED != 0);
        let (opcode, work, length, now) = (entry.opcode, checked.work, checked.length, ctx.now);
        let taken = self.slots.take(Arriving { command_id, opcode, nsid, view, work, length, now });
        let Some(index) = taken else {
            tracing::info!(
                peer = %self.of.peer,
                entries = self.of.entries,
                "more than twice as many commands outstanding as the queue has entries; closing the connection"
            );
            return Err(DecodeError::new(FatalError::PduSequence, 0).into());
        };
        if self.slots.are_overrun() {
            ctx.seen.note(Peculiarity::QueueOverrun);
        }
        self.join_pair(index, checked.fused, partner);
        let request = self.slots.at(index);
        request.is_admitted = !shaped;
        request.done = done;
        let next = if let Some(skip) = checked.in_capsule {
            // Its data is behind it in the stream; everything else comes when it is there.
            self.slots.set(index, State::AwaitsData { refused: None });
            let buffer = self.slots.hold(length as usize, ctx.pool);
            Next::Capsule { slot: index, skip, buffer }
        } else {
            self.go_on_without_data(index, ctx)
        };
        Ok(match (former, next) {
            (None, next) => next,
            // The first command of another pair waits for its second from here on, which cannot have answered it.
            (Some(former), Next::Nothing) => Next::Reply(former),
            (Some(former), next) => Next::After(former, Box::new(next)),
        })
    }
}
