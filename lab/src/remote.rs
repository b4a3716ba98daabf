//! A namespace of an NVMe/TCP target over one queue on the caller's own thread: one command, or one fused pair, at a time,
//! with its status and its time. It keeps out what is read and written.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use engine::initiator::{ConnectOptions, Controller, Data, Queue, QueueState, Request};
use engine::limits::{POLL_USUAL_US, RECEIVE_LENGTH};
use engine::ring::{Buffer, Event, Readiness, Ring, RingOptions};
use nvme::io::{Fused, IoCommand};
use nvme::{Status, SubmissionEntry};

/// Queue of a target.
pub(crate) struct Remote {
    ring: Ring,
    queue: Queue,
    /// Keeps the association alive.
    _controller: Controller,
    nsid: u32,
    block_bytes: u64,
    size_bytes: u64,
    buffer: Option<Buffer>,
    scratch: Vec<u8>,
    events: Vec<Event>,
}

impl Remote {
    /// Namespace `nsid` of `nqn`.
    ///
    /// # Errors
    /// What could not be connected, and why.
    pub(crate) fn connect(address: SocketAddr, nqn: &str, nsid: u32) -> Result<Remote, String> {
        let controller = Controller::connect(ConnectOptions::new(address, nqn)).map_err(|e| e.to_string())?;
        let info = controller.namespace(nsid).map_err(|error| error.to_string())?;
        let options = RingOptions { poll_us_max: POLL_USUAL_US, ..RingOptions::default() };
        let mut ring = Ring::new(options).map_err(|error| error.to_string())?;
        let queue =
            Queue::open(&mut ring, 0, &controller.queue_options(1)).map_err(|error| error.to_string())?;
        let mut remote = Remote {
            ring,
            queue,
            nsid,
            block_bytes: info.block_size.into(),
            size_bytes: info.size_bytes(),
            _controller: controller,
            buffer: None,
            scratch: vec![0; RECEIVE_LENGTH],
            events: Vec::new(),
        };
        while remote.queue.state() != QueueState::Live {
            remote.step()?;
        }
        Ok(remote)
    }

    pub(crate) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Fills `data` from `offset` on, and says how long the command itself took.
    ///
    /// # Errors
    /// The target does not do it.
    pub(crate) fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<Duration, String> {
        let (start, blocks) = self.blocks(offset, data.len())?;
        let buffer = self.take_buffer(data.len());
        let command = IoCommand::Read { start, blocks, force_unit_access: false };
        let took = self.run(&command, Data::Receive(buffer))?;
        let buffer = self.buffer.as_ref().ok_or("a read came back without its data")?;
        data.copy_from_slice(buffer);
        Ok(took)
    }

    /// Writes `data` from `offset` on, and says how long the command itself took.
    ///
    /// # Errors
    /// The target does not do it.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<Duration, String> {
        let (start, blocks) = self.blocks(offset, data.len())?;
        let mut buffer = self.take_buffer(data.len());
        buffer.copy_from_slice(data);
        let command = IoCommand::Write { start, blocks, force_unit_access: false };
        self.run(&command, Data::Send(buffer))
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// The target does not do it.
    pub(crate) fn flush(&mut self) -> Result<Duration, String> {
        self.run(&IoCommand::Flush, Data::None)
    }

    /// Writes `new` from `offset` on if `old` is there, as one operation. The statuses of both commands.
    ///
    /// # Errors
    /// The connection is lost, or the two do not have the same length, in whole blocks.
    pub(crate) fn compare_and_write(
        &mut self,
        offset: u64,
        old: &[u8],
        new: &[u8],
    ) -> Result<[Status; 2], String> {
        let (start, blocks) = self.blocks(offset, old.len())?;
        if old.len() != new.len() {
            return Err(format!("{} bytes are compared and {} written", old.len(), new.len()));
        }
        let sent = |bytes: &[u8]| {
            let mut buffer = Buffer::zeroed(bytes.len());
            buffer.copy_from_slice(bytes);
            Data::Send(buffer)
        };
        let compare = IoCommand::Compare { start, blocks }.encode_fused(self.nsid, Fused::First);
        let write = IoCommand::Write { start, blocks, force_unit_access: false };
        self.submit(compare, sent(old), 0)?;
        self.submit(write.encode_fused(self.nsid, Fused::Second), sent(new), 1)?;
        self.queue.flush(&mut self.ring);
        let mut statuses = [None; 2];
        loop {
            while let Some(ended) = self.queue.pop() {
                let completion = ended.answer().map_err(|lost| lost.error.to_string())?;
                statuses[completion.user as usize] = Some(completion.status);
            }
            if let [Some(first), Some(second)] = statuses {
                return Ok([first, second]);
            }
            self.step()?;
        }
    }

    fn blocks(&self, offset: u64, length: usize) -> Result<(u64, u32), String> {
        let length = length as u64;
        if !offset.is_multiple_of(self.block_bytes) || !length.is_multiple_of(self.block_bytes) {
            return Err(format!(
                "{length} bytes at {offset} are not whole blocks of {} bytes",
                self.block_bytes
            ));
        }
        Ok((offset / self.block_bytes, (length / self.block_bytes) as u32))
    }

    /// The buffer of the last command, if it is large enough.
    fn take_buffer(&mut self, length: usize) -> Buffer {
        match self.buffer.take() {
            Some(mut buffer) if buffer.capacity() >= length => {
                buffer.set_length(length);
                buffer
            }
            _ => Buffer::zeroed(length),
        }
    }

    fn submit(&mut self, entry: SubmissionEntry, data: Data, user: u64) -> Result<(), String> {
        self.queue.submit(Request { entry, data, user }).map_err(|_| "the queue takes no command".to_owned())
    }

    /// Sends a command and waits for its completion: the time between is what a bench would call its latency.
    fn run(&mut self, command: &IoCommand, data: Data) -> Result<Duration, String> {
        let began = Instant::now();
        self.submit(command.encode(self.nsid), data, 0)?;
        self.queue.flush(&mut self.ring);
        loop {
            if let Some(ended) = self.queue.pop() {
                let completion = ended.answer().map_err(|lost| lost.error.to_string())?;
                let took = began.elapsed();
                self.buffer = completion.data;
                let success = completion.status.is_success();
                return if success {
                    Ok(took)
                } else {
                    Err(format!("the target says {}", completion.status))
                };
            }
            self.step()?;
        }
    }

    /// Waits until something happens to the queue, and takes it in.
    fn step(&mut self) -> Result<(), String> {
        if let Some(error) = self.queue.error() {
            return Err(error.to_string());
        }
        let now = self.ring.now();
        let timeout = self.queue.next_deadline().map(|deadline| deadline.since(now));
        self.ring.wait(timeout, &mut self.events).map_err(|error| error.to_string())?;
        for event in self.events.drain(..) {
            if let Event::Ready { readiness, .. } = event {
                self.queue.on_ready(&mut self.ring, &mut self.scratch, readiness);
            }
        }
        while self.queue.has_more() {
            self.queue.on_ready(&mut self.ring, &mut self.scratch, Readiness::READABLE);
        }
        self.queue.flush(&mut self.ring);
        let now = self.ring.now();
        self.queue.on_time(&mut self.ring, now);
        Ok(())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.queue.close(&mut self.ring);
    }
}
