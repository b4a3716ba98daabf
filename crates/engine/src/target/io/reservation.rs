//! Reservation commands: their data is taken here, and the reservation worker does them. What they mean is in
//! `target::reservation`.

use nvme::Status;
use nvme::io::IoCommand;

use super::commands::Commands;
use super::context::Context;
use super::request::{Next, Reply, Request, State};
use super::work::Work;
use crate::ring::Buffer;
use crate::target::messaging::{Job, Task};
use crate::target::queue::Payload;
use crate::target::telemetry::Stage;

impl Commands {
    /// A reservation command has its data, or needs none.
    pub(super) fn hand_to_worker(&mut self, index: u16, data: Option<Buffer>, ctx: &mut Context<'_>) -> Next {
        let handed = self.ask_worker(index, data.as_deref().unwrap_or_default(), ctx);
        match handed {
            Ok(()) => {
                // The worker has a copy of its data, and a report gets a buffer when there is something to put into it. That
                // counts already: a thousand reports of a megabyte come back at once, and wait until their host reads.
                if let Some(buffer) = data {
                    self.slots.release(buffer, ctx.pool);
                }
                self.slots.count(self.report_bytes(index));
                self.slots.set(index, State::AtWorker);
                Next::Nothing
            }
            Err(status) => self.finish(index, status, data, ctx),
        }
    }

    /// Bytes of the buffer that a command at the worker will need for its answer.
    fn report_bytes(&self, index: u16) -> usize {
        match self.slots.get(index) {
            Some(Request {
                work: Work::Reservation { command: IoCommand::ReservationReport { .. } },
                length,
                ..
            }) => Buffer::capacity_for(*length as usize),
            _ => 0,
        }
    }

    fn ask_worker(&mut self, index: u16, data: &[u8], ctx: &Context<'_>) -> Result<(), Status> {
        let controller = self.of.controller.clone();
        let request = self.slots.at(index);
        let Work::Reservation { command } = request.work else { return Err(Status::INTERNAL_ERROR) };
        let namespace = request.attachment().ok_or(Status::INVALID_NAMESPACE)?.namespace.clone();
        let command_id = request.command_id;
        if !ctx.fabric.offers_reservations_on(&namespace) {
            return Err(Status::INVALID_OPCODE.do_not_retry());
        }
        // A host without an identifier cannot be registered (RHII, Base 8.1.22).
        if controller.host.is_nameless() {
            return Err(Status::HOST_ID_NOT_INITIALIZED.do_not_retry());
        }
        let asker = self.asker(command_id, ctx);
        let task = Task::Command { namespace, command, data: data.to_vec(), slot: index };
        let share = ctx.fabric.shares.reservations.take(&controller.guest)?;
        let job = Job { controller: controller.clone(), asker, task, share };
        if let IoCommand::ReservationReport { .. } = command {
            return ctx.fabric.reservation_jobs.hand(job);
        }
        ctx.fabric.change_reservations(1, &controller, || ctx.fabric.reservation_jobs.hand(job))
    }

    /// The worker has done a command: its answer, and what is to be sent with it.
    pub(crate) fn worker_done(
        &mut self,
        index: u16,
        status: Status,
        data: &[u8],
        ctx: &mut Context<'_>,
    ) -> Next {
        if !matches!(self.slots.get(index).map(|request| &request.state), Some(State::AtWorker)) {
            return Next::Nothing;
        }
        self.slots.uncount(self.report_bytes(index));
        self.slots.at(index).goes_on_after(Stage::Storage, ctx.now);
        if self.is_stopped {
            self.slots.discard(index, ctx.pool);
            return Next::Nothing;
        }
        if !status.is_success() || data.is_empty() {
            return self.finish(index, status, None, ctx);
        }
        let Some(request) = self.slots.end(index) else { return Next::Nothing };
        let mut buffer = self.slots.hold(request.length as usize, ctx.pool);
        buffer.fill(0);
        let whole = data.len().min(buffer.len());
        buffer[..whole].copy_from_slice(&data[..whole]);
        self.count_done(&request, ctx.now);
        Next::Reply(Reply::with_data(request.command_id, Payload::Buffer(buffer), request.length))
    }
}
