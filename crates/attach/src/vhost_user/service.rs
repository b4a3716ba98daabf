//! What a thread does for virtqueues: it takes requests, makes commands of them as far as there is room, and answers them
//! when their commands have ended.

use engine::initiator::{Data, Ended};
use engine::ring::{Buffer, BufferPool};

use super::namespace::Namespace;
use super::requests::{Request, Requests};
use super::vring::{Next, Vring};
use super::work::{self, Failed, IO_ERROR, Kind, Work};
use crate::buffer_budget::BufferBudget;
use crate::limits::{REQUEST_COMMANDS_MAX, REQUESTS_PER_TURN, VRING_COMMANDS_MAX};
use crate::server::Tally;

/// The answer to a request that was done (VIRTIO_BLK_S_OK).
const OK: u8 = 0;

/// Everything of a thread but its virtqueues.
pub(super) struct Service {
    /// By front end.
    pub(super) namespaces: Vec<Namespace>,
    pub(super) requests: Requests,
    pub(super) pool: BufferPool,
    /// Buffers that virtqueues hold.
    pub(super) budget: BufferBudget,
    /// A virtqueue has found no room for a command.
    pub(super) is_short_of_room: bool,
    pub(super) tally: Tally,
}

impl Service {
    /// Of one of these threads.
    pub(super) fn new(namespaces: Vec<Namespace>, threads: u16) -> Self {
        Self {
            namespaces,
            requests: Requests::default(),
            pool: BufferPool::new(),
            budget: BufferBudget::of_vrings_thread(threads),
            is_short_of_room: false,
            tally: Tally::default(),
        }
    }

    /// True if virtqueues that found no room may find some.
    pub(super) fn has_room_again(&mut self) -> bool {
        let has_room =
            self.is_short_of_room && self.namespaces.iter().any(|namespace| namespace.queues.has_room());
        if has_room {
            self.is_short_of_room = false;
        }
        self.budget.take_news() || has_room
    }

    /// Takes requests of a guest, and makes commands of them. The caller notifies the guest of
    /// completions. True if it needs another turn.
    pub(super) fn serve(&mut self, vring_index: usize, vring: &mut Vring) -> bool {
        self.issue(vring);
        if vring.may_take() {
            vring.begin_taking();
        }
        for _ in 0..REQUESTS_PER_TURN {
            if !vring.listed.is_empty() || !vring.may_take() {
                return false;
            }
            let mut chain = self.requests.room();
            let (head, outcome) = match vring.next(&mut chain) {
                Next::Request(head, outcome) => (head, outcome),
                Next::Nothing => {
                    self.requests.give_room(chain);
                    return false;
                }
            };
            self.tally.requests += 1;
            let namespace = &self.namespaces[vring.front_end];
            // Without a place for its status it cannot be answered, only given back.
            if outcome.is_err() || chain.writable.bytes() == 0 {
                self.tally.errors += 1;
                self.requests.give_room(chain);
                vring.used(head, 0);
                continue;
            }
            let (work, error) =
                match Work::of(&chain, &vring.memory, &namespace.device, namespace.queues.size_bytes()) {
                    Ok(work) => (work, None),
                    Err(error) => (Work { kind: Kind::Serial, offset: 0, length: 1 }, Some(error)),
                };
            let piece_bytes = namespace.piece_bytes(work.kind);
            let request =
                Request { vring: vring_index, head, chain, work, piece_bytes, issued: 0, commands: 0, error };
            let at = self.requests.add(request);
            vring.requests += 1;
            vring.listed.push_back(at);
            self.issue(vring);
        }
        true
    }

    /// Makes commands of requests, in their order, as long as there is room for them.
    fn issue(&mut self, vring: &mut Vring) {
        while let Some(&at) = vring.listed.front() {
            if let Some(request) = self.requests.get(at).filter(|_| vring.is_abandoned) {
                request.error.get_or_insert(IO_ERROR);
            }
            if !self.issue_of(at, vring) {
                return;
            }
            vring.listed.pop_front();
            self.finish_if_over(at, vring);
        }
    }

    /// True if all commands of a request have been made.
    fn issue_of(&mut self, at: usize, vring: &mut Vring) -> bool {
        loop {
            let Some(request) = self.requests.get(at) else { return true };
            let Some((done, length)) = request.next_piece() else { return true };
            let Work { kind, offset, .. } = request.work;
            if kind == Kind::Serial {
                let serial = self.namespaces[vring.front_end].device.serial;
                request.issued = 1;
                if request.chain.writable.write(&vring.memory, 0, &serial).is_err() {
                    request.error = Some(IO_ERROR);
                }
                return true;
            }
            let namespace = &self.namespaces[vring.front_end];
            if !namespace.queues.has_room() {
                self.is_short_of_room = true;
                return false;
            }
            let data_bytes = Namespace::data_bytes(kind, length);
            let capacity = if data_bytes > 0 { Buffer::capacity_for(data_bytes) } else { 0 };
            let is_full = vring.commands >= VRING_COMMANDS_MAX || request.commands >= REQUEST_COMMANDS_MAX;
            if is_full || !vring.may_hold(capacity, &mut self.budget) {
                return false;
            }
            let data = match self.data(at, vring, (kind, done), data_bytes) {
                Ok(data) => data,
                Err(error) => {
                    self.requests.get(at).map(|request| request.error.get_or_insert(error));
                    return true;
                }
            };
            let Some(request) = self.requests.get(at) else { return true };
            request.issued += length;
            request.commands += 1;
            vring.commands += 1;
            vring.hold(capacity, &mut self.budget);
            let user = ((at as u64) << 32) | (done / request.piece_bytes);
            let kind = (kind, vring.is_write_through);
            self.namespaces[vring.front_end].submit(kind, (offset + done, length), data, user);
        }
    }

    /// Data of a command.
    fn data(
        &mut self,
        at: usize,
        vring: &Vring,
        (kind, done): (Kind, u64),
        length: usize,
    ) -> Result<Data, Failed> {
        let Some(request) = self.requests.get(at) else { return Ok(Data::None) };
        let chain = &request.chain;
        let (filled, buffer) = match kind {
            Kind::Read => return Ok(Data::Receive(self.pool.take(length))),
            Kind::Write => {
                let mut buffer = self.pool.take(length);
                let offset = work::HEADER_BYTES + done;
                (chain.readable.read(&vring.memory, offset, &mut buffer).map_err(|_| IO_ERROR), buffer)
            }
            Kind::Discard { .. } => {
                let mut buffer = self.pool.take(length);
                let namespace = &self.namespaces[vring.front_end];
                let size = namespace.queues.size_bytes();
                (Work::ranges(chain, &vring.memory, &namespace.device, size, &mut buffer), buffer)
            }
            Kind::Flush | Kind::Zeroes { .. } | Kind::Serial => return Ok(Data::None),
        };
        match filled {
            Ok(()) => Ok(Data::Send(buffer)),
            Err(error) => {
                self.pool.give(buffer);
                Err(error)
            }
        }
    }

    /// A command of the request at `at` has ended: the one for its piece `piece`.
    pub(super) fn ended(&mut self, at: usize, piece: u64, ended: Ended, vring: &mut Vring) {
        let Some(request) = self.requests.get(at) else { return };
        request.commands -= 1;
        vring.commands -= 1;
        let (outcome, buffer) = match ended.answer() {
            Ok(completion) if completion.status.is_success() => (Ok(()), completion.data),
            Ok(completion) => (Err(work::failed(completion.status)), completion.data),
            Err(lost) => (Err(IO_ERROR), lost.data),
        };
        let outcome = match (&buffer, request.work.kind) {
            (Some(buffer), Kind::Read) if outcome.is_ok() => {
                let offset = piece * request.piece_bytes;
                request.chain.writable.write(&vring.memory, offset, buffer).map_err(|_| IO_ERROR)
            }
            _ => outcome,
        };
        if let Err(error) = outcome {
            request.error.get_or_insert(error);
        }
        if let Some(buffer) = buffer {
            vring.let_go(buffer.capacity(), &mut self.budget);
            self.pool.give(buffer);
        }
        // One that is listed is answered when it is taken off the list.
        if vring.listed.front() != Some(&at) {
            self.finish_if_over(at, vring);
        }
    }

    /// Answers a request that is over, and forgets it.
    fn finish_if_over(&mut self, at: usize, vring: &mut Vring) {
        if !self.requests.get(at).is_some_and(|request| request.is_over()) {
            return;
        }
        let Some(request) = self.requests.take(at) else { return };
        vring.requests -= 1;
        self.tally.errors += u64::from(request.error.is_some());
        let writable = &request.chain.writable;
        let status = request.error.map_or(OK, |Failed(status)| status);
        let last = writable.bytes() - 1;
        let length = match (status, request.work.kind) {
            (OK, Kind::Read | Kind::Serial) => u32::try_from(writable.bytes()).unwrap_or(u32::MAX),
            _ => 1,
        };
        let written = writable.write(&vring.memory, last, &[status]);
        vring.used(request.head, if written.is_ok() { length } else { 0 });
        self.requests.give_room(request.chain);
    }
}
