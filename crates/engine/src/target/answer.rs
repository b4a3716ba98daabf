//! Answers of a connection: completions, data for the host, and what is counted and logged of either.
//! What a command comes to is decided elsewhere; when the bytes leave is the connection's.

use nvme::command::admin_opcode;
use nvme::tcp::{DataPdu, PduType, flags};
use nvme::{CompletionEntry, Status, SubmissionEntry};

use super::connection::{Connection, Environment, Payload, Session, Verdict};
use super::pair::Pair;
use super::slot::{Stage, Work};
use crate::ring::Moment;

impl Connection {
    /// Answers a command that has no slot.
    pub(super) fn respond(&mut self, command_id: u16, status: Status, result: u64) {
        let head = if self.flow_control { self.queue_head } else { 0 };
        self.transmitter.response(CompletionEntry::new(command_id, status, result, head));
    }

    /// Answers the Connect that made this queue. Without flow control, that is said here once and for all.
    pub(super) fn respond_connect(&mut self, command_id: u16, controller_id: u16) {
        const NO_FLOW_CONTROL: u16 = 0xffff;
        let head = if self.flow_control { self.queue_head } else { NO_FLOW_CONTROL };
        let result = u64::from(controller_id);
        self.transmitter.response(CompletionEntry::new(command_id, Status::SUCCESS, result, head));
    }

    /// Answers a Disconnect when all other commands have ended.
    pub(super) fn answer_disconnect(&mut self, env: &mut Environment<'_>, verdict: Verdict) -> Verdict {
        if self.disconnect.is_none() || verdict == Verdict::Close || self.terminated || self.has_work() {
            return verdict;
        }
        if let Some(command_id) = self.disconnect.take() {
            self.respond(command_id, Status::SUCCESS, 0);
        }
        self.flush_or_close(env, verdict)
    }

    /// Answers a command that failed, and writes it into the error log.
    pub(super) fn refuse(&mut self, entry: &SubmissionEntry, status: Status) {
        self.refuse_with(entry, status, 0);
    }

    /// The same, with a result that says more.
    pub(super) fn refuse_with(&mut self, entry: &SubmissionEntry, status: Status, result: u64) {
        self.note_failure(entry, status);
        self.respond(entry.command_id.get(), status, result);
    }

    /// Counts a command that failed, and writes it into the error log.
    fn note_failure(&self, entry: &SubmissionEntry, status: Status) {
        match &self.session {
            Session::New => {}
            Session::Admin { controller, .. } => controller.log_error(0, entry, status),
            Session::Io { controller, views, counters, queue_id, .. } => {
                let nsid = entry.nsid.get();
                // A Fabrics command has something else there, and a host may name whatever it likes.
                let is_named = entry.opcode != admin_opcode::FABRICS
                    && (counters.knows(nsid) || views.current().attachment(nsid).is_some());
                counters.failed(if is_named { nsid } else { 0 }, status);
                controller.log_error(*queue_id, entry, status);
            }
        }
    }

    /// Tells the queue's meter how far it is; called after each turn.
    pub(super) fn tell_meter(&self) {
        if let Session::Io { meter, .. } = &self.session {
            meter.tell(self.commands, self.slots.busy());
        }
    }

    /// Answers the command of a slot, and gives the slot back.
    pub(super) fn finish(&mut self, index: u16, status: Status, env: &mut Environment<'_>) {
        let slot = self.slots.at(index);
        let command_id = slot.command_id;
        let partner = slot.partner.take();
        let (nsid, work, length, began) = (slot.nsid, slot.work, slot.length, slot.began);
        if status.is_success() {
            self.count_done(nsid, &work, length, env.now.0.saturating_sub(began.0));
        } else {
            if self.pair == Pair::First(index) {
                self.pair = Pair::Failed;
            }
            let mut entry = SubmissionEntry::new(slot.opcode, slot.nsid);
            entry.command_id = slot.command_id.into();
            self.note_failure(&entry, status);
            if let (Session::Io { counters, .. }, Status::COMPARE_FAILURE) = (&self.session, status) {
                counters.differed(nsid, length);
            }
        }
        self.respond(command_id, status, 0);
        self.slots.give(index, env.pool);
        if let Some(partner) = partner {
            if self.slots.at(partner).stage == Stage::Storage {
                // It was waiting for this one, not for the storage.
                self.slots.at(partner).stage = Stage::Partner;
            }
            self.end_partner(partner, Status::ABORTED_FAILED_FUSED, env);
        }
        self.wake_waiting(env);
    }

    /// Answers a command that somebody else has done, with data for the host if it has any.
    pub(super) fn finish_with(&mut self, index: u16, status: Status, data: &[u8], env: &mut Environment<'_>) {
        if self.slots.get_mut(index).is_none_or(|slot| slot.stage != Stage::Clerk) {
            return;
        }
        self.slots.abandon();
        if self.terminated {
            return self.slots.give(index, env.pool);
        }
        if !status.is_success() || data.is_empty() {
            return self.finish(index, status, env);
        }
        let length = self.slots.at(index).length;
        self.slots.hold(index, env.pool);
        if let Some(buffer) = self.slots.at(index).data.as_mut() {
            buffer.fill(0);
            let whole = data.len().min(buffer.len());
            buffer[..whole].copy_from_slice(&data[..whole]);
        }
        self.send_slot(index, length, env.now);
    }

    /// Counts a command that went well: with it `length` bytes travelled, and it took so many nanoseconds.
    pub(super) fn count_done(&self, nsid: u32, work: &Work, length: u32, took_ns: u64) {
        if let Session::Io { counters, .. } = &self.session {
            counters.done(nsid, work, length, took_ns);
        }
    }

    /// Sends `length` bytes to the host, and with them the command's success.
    pub(super) fn send_data(&mut self, command_id: u16, payload: Payload, length: u32, crc: u32) {
        // Without a completion the host never learns how far its queue was read, so that flow control forbids it.
        let success = if self.flow_control { 0 } else { flags::SUCCESS };
        let pdu = DataPdu::new(PduType::DataToHost, flags::LAST | success, command_id, 0, 0, length);
        self.transmitter.data(pdu, payload, 0..length as usize, crc);
        if self.flow_control {
            self.respond(command_id, Status::SUCCESS, 0);
        }
    }

    /// Sends the first `length` bytes of a slot's buffer; the slot is given back when they have left.
    pub(super) fn send_slot(&mut self, index: u16, length: u32, now: Moment) {
        let crc = if self.digests.data {
            nvme::tcp::digest::crc32c(&self.slots.data(index)[..length as usize])
        } else {
            0
        };
        let slot = self.slots.at(index);
        slot.stage = Stage::Sending;
        let command_id = slot.command_id;
        let (nsid, work, began) = (slot.nsid, slot.work, slot.began);
        self.count_done(nsid, &work, length, now.0.saturating_sub(began.0));
        self.send_data(command_id, Payload::Slot(index), length, crc);
    }
}
