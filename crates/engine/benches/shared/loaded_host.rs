//! A host on the benchmark's own thread that keeps commands outstanding, of which it reads or writes blocks at random.

use std::time::Duration;

use engine::initiator::{Data, Driver, PathQueues, Paths};
use engine::limits::{POLL_US_MAX, RECEIVE_LENGTH};
use engine::ring::{Buffer, Ring, RingOptions};
use nvme::io::IoCommand;

/// Bytes of the namespace.
pub(crate) const SPAN: u64 = 256 << 20;

/// Load, in blocks of 4096 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) blocks: u32,
    pub(crate) is_write: bool,
}

/// The host, on this thread.
pub(crate) struct Host {
    pub(crate) driver: Driver<PathQueues, ()>,
    buffers: Vec<Buffer>,
    random: u64,
}

impl Host {
    /// A host that uses these paths with up to this number of commands outstanding.
    pub(crate) fn open(paths: &Paths, depth_max: usize) -> Self {
        let options = RingOptions { poll_us_max: POLL_US_MAX, ..RingOptions::default() };
        let mut ring = Ring::new(options).expect("a ring");
        let queues = PathQueues::open(paths, &mut ring, 0, 0, 1, depth_max);
        let driver = Driver::new(ring, queues, RECEIVE_LENGTH);
        let mut host = Self { driver, buffers: Vec::new(), random: 0x9e37_79b9_7f4a_7c15 };
        while !host.driver.queues().is_ready() {
            host.driver.flush();
            host.driver.turn(None).expect("the ring works");
        }
        host
    }

    /// Writes every block once, so that every page is there.
    pub(crate) fn fill(&mut self) {
        const BLOCKS: u32 = 32;
        for start in (0..SPAN / 4096).step_by(BLOCKS as usize) {
            self.send(IoCommand::Write { start, blocks: BLOCKS, force_unit_access: false }, BLOCKS, true);
            while self.turn() == 0 {}
        }
    }

    /// Begins this number of commands.
    pub(crate) fn begin(&mut self, case: Case, depth: usize) {
        self.buffers.clear();
        (0..depth).for_each(|_| self.next(case));
    }

    /// Waits until this number of commands have ended, and begins no others.
    pub(crate) fn drain(&mut self, mut left: usize) {
        while left > 0 {
            left -= self.turn();
        }
    }

    /// Keeps as many commands outstanding as there are; how many have ended.
    pub(crate) fn run(&mut self, case: Case, duration: Duration) -> usize {
        let (began, mut ended) = (self.driver.ring().now(), 0);
        while self.driver.ring().now().since(began) < duration {
            let now = self.turn();
            (0..now).for_each(|_| self.next(case));
            ended += now;
        }
        ended
    }

    /// Sends what there is and waits for answers: how many commands have ended.
    fn turn(&mut self) -> usize {
        self.driver.flush();
        self.driver.turn(None).expect("the ring works");
        let mut ended = 0;
        while let Some(((), end)) = self.driver.pop() {
            let completion = end.answer().map_err(|lost| lost.error).expect("the target answers");
            assert!(completion.status.is_success(), "{}", completion.status);
            self.buffers.extend(completion.data);
            ended += 1;
        }
        ended
    }

    fn next(&mut self, case: Case) {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let blocks = case.blocks;
        let start = (self.random >> 33) % (SPAN / 4096 / u64::from(blocks)) * u64::from(blocks);
        let command = if case.is_write {
            IoCommand::Write { start, blocks, force_unit_access: false }
        } else {
            IoCommand::Read { start, blocks, force_unit_access: false }
        };
        self.send(command, blocks, case.is_write);
    }

    fn send(&mut self, command: IoCommand, blocks: u32, is_write: bool) {
        let length = blocks as usize * 4096;
        let buffer = self.buffers.pop().unwrap_or_else(|| Buffer::zeroed(length));
        let data = if is_write { Data::Send(buffer) } else { Data::Receive(buffer) };
        self.driver.submit(command.encode(1), data, ());
    }
}
