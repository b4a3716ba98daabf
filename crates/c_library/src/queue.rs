//! A queue of requests on one thread: a thread submits requests without waiting, and takes their completions in any order. It
//! has connections, and a ring, of its own, so that no request wakes another thread. Requests longer than one command are sent
//! as several.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::time::Duration;

use engine::initiator::{CommandQueues as _, Data, Driver, Ended, InitiatorError, PathQueues, Paths};
use engine::limits::{BUFFER_LENGTH_MAX, POLL_USUAL_US, RECEIVE_LENGTH, REQUEST_COMMANDS_MAX};
use engine::ring::{Buffer, BufferPool, Ring, RingOptions};
use nvme::Status;
use nvme::io::{IoCommand, encode_ranges};

use crate::failure::{self, Failure};
use crate::limits::QUEUE_DEPTH_MAX;
use crate::options::Options;

/// Blocks of one command (NLB is 0's based and 16 bits wide).
const BLOCKS_MAX: u64 = 1 << 16;

/// Memory of the caller's for a request's data. It stays valid until the request has completed or the queue is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerMemory(*mut u8);

impl CallerMemory {
    /// # Safety
    /// As many bytes as the request is long are valid for reads, for a write, or for writes, for a read, and no other thread
    /// changes or reads them, until the request has completed or the queue is closed.
    #[allow(unsafe_code)]
    pub(crate) const unsafe fn new(pointer: *mut u8) -> Self {
        Self(pointer)
    }

    /// Copies from `offset` on into the whole buffer.
    fn read(self, offset: u64, buffer: &mut Buffer) {
        // SAFETY: the offset is in the request, and so is its end, since pieces of a request are in it; `new` has the
        // caller's promise for its bytes. A buffer of the library's own does not overlap them.
        #[allow(unsafe_code)]
        unsafe {
            let from = self.0.cast_const().add(offset as usize);
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), buffer.len());
        }
    }

    /// Copies the whole buffer to `offset`.
    fn write(self, offset: u64, buffer: &Buffer) {
        // SAFETY: as in `read`.
        #[allow(unsafe_code)]
        unsafe {
            let to = self.0.add(offset as usize);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), to, buffer.len());
        }
    }
}

/// Work of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Read { to: CallerMemory },
    Write { from: CallerMemory, is_durable: bool },
    Flush,
    Discard,
    WriteZeroes { deallocate: bool },
}

impl Work {
    const fn name(self) -> &'static str {
        match self {
            Self::Read { .. } => "Read",
            Self::Write { .. } => "Write",
            Self::Flush => "Flush",
            Self::Discard => "Dataset Management",
            Self::WriteZeroes { .. } => "Write Zeroes",
        }
    }
}

/// A completed request, as `struct selvedge_completion` in the header has it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Value that the caller gave with the request.
    pub user: u64,
    /// 0, or a negative errno.
    pub result: i32,
    /// Status of the command that failed, type and code; 0 where there is none.
    pub status: u16,
    /// 0.
    pub reserved: u16,
}

/// A request from its submission to its completion.
#[derive(Clone, Copy, Debug)]
struct Request {
    user: u64,
    work: Work,
    offset: u64,
    length: u64,
    /// Bytes for which commands were made.
    issued: u64,
    /// Commands outstanding.
    commands: usize,
    /// The first failure: result and status.
    failed: Option<(c_int, Status)>,
}

/// A command of a request: the request's place, and the offset in it of the command's data.
#[derive(Clone, Copy, Debug)]
struct Piece {
    request: u32,
    at: u64,
}

/// The queue. It is used on the thread that has opened it: the ring takes no other's calls.
pub(crate) struct Queue {
    // The driver is closed before the controllers of `paths` are shut down: fields are dropped in this order.
    driver: Driver<PathQueues, Piece>,
    paths: Paths,
    nsid: u32,
    block_size: u32,
    depth: usize,
    buffers: BufferPool,
    requests: Vec<Option<Request>>,
    free: Vec<u32>,
    done: VecDeque<Completion>,
    /// Set if the clock was read for the requests that are being submitted.
    has_time: bool,
}

impl Queue {
    /// Connects a queue for `depth` requests, and waits until it takes them.
    ///
    /// # Errors
    /// When no path can be connected, or the namespace is missing or cannot be used.
    pub(crate) fn open(options: &Options, depth: u32) -> Result<Self, Failure> {
        if depth == 0 || depth > QUEUE_DEPTH_MAX {
            return Err(Failure::misuse(format!("a queue's depth is 1 to {QUEUE_DEPTH_MAX}, not {depth}")));
        }
        let paths = Paths::connect(options.queue(depth)?)?;
        let info = paths.namespace();
        if info.metadata_bytes > 0 || info.block_size as usize > paths.transfer_length_max() {
            let (nsid, block, metadata) = (info.nsid, info.block_size, info.metadata_bytes);
            return Err(Failure::new(
                libc::EOPNOTSUPP,
                format!(
                    "namespace {nsid} has blocks of {block} bytes and {metadata} of metadata, which are not supported"
                ),
            ));
        }
        // The thread is the caller's, and has other work than to learn how long to poll.
        let ring_options = RingOptions { poll_us_max: POLL_USUAL_US, ..RingOptions::default() };
        let mut ring = Ring::new(ring_options).map_err(|error| ring_failed(&error))?;
        let depth = depth as usize;
        let queues = PathQueues::open(&paths, &mut ring, 0, 0, 1, depth.max(REQUEST_COMMANDS_MAX));
        let mut queue = Self {
            driver: Driver::new(ring, queues, RECEIVE_LENGTH),
            paths,
            nsid: info.nsid,
            block_size: info.block_size,
            depth,
            buffers: BufferPool::new(),
            requests: vec![None; depth],
            free: (0..depth as u32).rev().collect(),
            done: VecDeque::with_capacity(depth),
            has_time: false,
        };
        queue.settle()?;
        Ok(queue)
    }

    /// Waits until all paths that are live take commands.
    fn settle(&mut self) -> Result<(), Failure> {
        loop {
            let queues = self.driver.queues();
            if let Some(error) = queues.error() {
                return Err(error.clone().into());
            }
            if queues.is_ready() && queues.is_settled() {
                return Ok(());
            }
            self.driver.flush();
            self.driver.turn(None).map_err(|error| ring_failed(&error))?;
        }
    }

    pub(crate) const fn block_size(&self) -> u32 {
        self.block_size
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.paths.size_bytes()
    }

    /// Takes a request; `flush` sends it.
    ///
    /// # Errors
    /// `EAGAIN` when as many are outstanding as the queue is deep, `EINVAL` when the range is not whole blocks of the
    /// namespace.
    pub(crate) fn submit(&mut self, work: Work, offset: u64, length: u64, user: u64) -> Result<(), Failure> {
        self.check(work, offset, length)?;
        let Some(place) = self.free.pop() else {
            return Err(Failure::new(libc::EAGAIN, format!("{} requests are outstanding", self.depth)));
        };
        if !std::mem::replace(&mut self.has_time, true) {
            self.driver.now();
        }
        // A flush has no range, and is one command all the same.
        let length = if matches!(work, Work::Flush) { 1 } else { length };
        let request = Request { user, work, offset, length, issued: 0, commands: 0, failed: None };
        self.requests[place as usize] = Some(request);
        self.issue(place);
        Ok(())
    }

    fn check(&self, work: Work, offset: u64, length: u64) -> Result<(), Failure> {
        if matches!(work, Work::Flush) {
            return Ok(());
        }
        let (block, size) = (u64::from(self.block_size), self.size_bytes());
        if length == 0 || !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
            return Err(Failure::misuse(format!(
                "offset {offset} and length {length} have to be multiples of the block size, {block}, and the length not 0"
            )));
        }
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Failure::misuse(format!("{length} bytes at {offset} exceed the namespace's {size}"))),
        }
    }

    /// Makes commands of a request, as many as it may have outstanding.
    fn issue(&mut self, place: u32) {
        let Some(Some(mut request)) = self.requests.get(place as usize).copied() else { return };
        let piece_max = self.piece_length_max(request.work);
        while request.issued < request.length
            && request.commands < REQUEST_COMMANDS_MAX
            && request.failed.is_none()
        {
            let length = piece_max.min(request.length - request.issued);
            let (command, data) = self.command(&request, length);
            let piece = Piece { request: place, at: request.issued };
            self.driver.submit(command.encode(self.nsid), data, piece);
            request.issued += length;
            request.commands += 1;
        }
        self.requests[place as usize] = Some(request);
    }

    /// The next command of a request, of this length.
    fn command(&mut self, request: &Request, length: u64) -> (IoCommand, Data) {
        let block = u64::from(self.block_size);
        let (start, blocks) = ((request.offset + request.issued) / block, (length / block) as u32);
        match request.work {
            Work::Read { .. } => {
                let command = IoCommand::Read { start, blocks, force_unit_access: false };
                (command, Data::Receive(self.buffers.take(length as usize)))
            }
            Work::Write { from, is_durable } => {
                let mut buffer = self.buffers.take(length as usize);
                from.read(request.issued, &mut buffer);
                (IoCommand::Write { start, blocks, force_unit_access: is_durable }, Data::Send(buffer))
            }
            Work::Flush => (IoCommand::Flush, Data::None),
            Work::Discard => {
                let range = encode_ranges(&[(start, blocks)]);
                let mut buffer = self.buffers.take(range.len());
                buffer.copy_from_slice(&range);
                (IoCommand::DatasetManagement { ranges: 1, deallocate: true }, Data::Send(buffer))
            }
            Work::WriteZeroes { deallocate } => {
                (IoCommand::WriteZeroes { start, blocks, force_unit_access: false, deallocate }, Data::None)
            }
        }
    }

    /// The most bytes of one command, in whole blocks.
    fn piece_length_max(&self, work: Work) -> u64 {
        let block = u64::from(self.block_size);
        let length = match work {
            Work::Flush => return 1,
            Work::Discard => return u64::from(self.paths.deallocate_limits().range_blocks) * block,
            Work::WriteZeroes { .. } => self.paths.write_zeroes_length_max(),
            Work::Read { .. } | Work::Write { .. } => {
                self.paths.transfer_length_max().min(BUFFER_LENGTH_MAX) as u64
            }
        };
        let length = length.min(BLOCKS_MAX * block);
        (length - length % block).max(block)
    }

    /// Sends all requests that were submitted.
    pub(crate) fn flush(&mut self) {
        self.driver.flush();
        self.has_time = false;
    }

    /// Sends what was submitted, and takes up to `most` completions. It waits for `least` of them, as long as requests are
    /// outstanding, and for `timeout` at most.
    ///
    /// # Errors
    /// When the ring fails: the queue can only be closed then.
    pub(crate) fn poll(
        &mut self,
        least: usize,
        most: usize,
        timeout: Option<Duration>,
        mut take: impl FnMut(usize, Completion),
    ) -> Result<usize, Failure> {
        self.flush();
        let (mut taken, mut has_turned) = (0, false);
        let mut deadline = None;
        loop {
            while taken < most
                && let Some(completion) = self.done.pop_front()
            {
                take(taken, completion);
                taken += 1;
            }
            let is_idle = self.free.len() == self.depth;
            if taken >= least.clamp(1, most.max(1)) || is_idle || (has_turned && least == 0) {
                return Ok(taken);
            }
            let now = self.driver.now();
            let wait = match timeout {
                _ if least == 0 => Some(Duration::ZERO),
                None => None,
                Some(timeout) => Some(deadline.get_or_insert_with(|| now.after(timeout)).since(now)),
            };
            if has_turned && wait == Some(Duration::ZERO) {
                return Ok(taken);
            }
            self.driver.turn(wait).map_err(|error| ring_failed(&error))?;
            has_turned = true;
            self.gather();
        }
    }

    /// Takes in commands that have ended, and makes the next ones of their requests.
    fn gather(&mut self) {
        while let Some((piece, ended)) = self.driver.pop() {
            let Some(Some(request)) = self.requests.get_mut(piece.request as usize) else { continue };
            request.commands -= 1;
            let buffer = match ended {
                Ended::Answered(completion) => {
                    if !completion.status.is_success() {
                        fail(request, &command_failed(request.work, completion.status), completion.status);
                    } else if let (Work::Read { to }, Some(buffer)) = (request.work, &completion.data) {
                        to.write(piece.at, buffer);
                    }
                    completion.data
                }
                Ended::Lost(lost) => {
                    fail(request, &lost.error, Status::SUCCESS);
                    lost.data
                }
            };
            if let Some(buffer) = buffer {
                self.buffers.give(buffer);
            }
            let request = *request;
            let is_over = request.failed.is_some() || request.issued == request.length;
            if is_over && request.commands == 0 {
                self.finish(piece.request, &request);
            } else if !is_over {
                self.issue(piece.request);
            }
        }
        self.driver.flush();
    }

    fn finish(&mut self, place: u32, request: &Request) {
        let (result, status) = request.failed.unwrap_or((0, Status::SUCCESS));
        let status = status.without_flags().bits();
        self.requests[place as usize] = None;
        self.free.push(place);
        self.done.push_back(Completion { user: request.user, result, status, reserved: 0 });
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.driver.close();
    }
}

/// Records the first failure of a request. The others of one request seldom say more.
fn fail(request: &mut Request, error: &InitiatorError, status: Status) {
    if request.failed.is_none() {
        request.failed = Some((-failure::errno(error), status));
        failure::remember(Failure::from(error.clone()));
    }
}

fn command_failed(work: Work, status: Status) -> InitiatorError {
    InitiatorError::CommandFailed { what: work.name(), status }
}

fn ring_failed(error: &std::io::Error) -> Failure {
    Failure::new(error.raw_os_error().unwrap_or(libc::EIO), format!("the queue's ring failed: {error}"))
}
