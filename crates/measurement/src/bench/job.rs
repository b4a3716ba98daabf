//! Job of a workload: the next command, and the effect of its completion. It owns its order, its
//! ledger and its numbers; queues, buffers and the clock belong to the worker that runs it.

use std::sync::Arc;

use nvme::Status;

use super::histogram::Tallies;
use super::ledger::Ledger;
use super::slot_sequence::{Random, SlotSequence};
use super::stamp::{self, Corruption, Expected};
use super::state::Recorder;
use crate::failure::Failure;
use crate::workload::{Fitted, Workload};

/// Corruptions that are kept to be shown; all are counted.
const CORRUPTIONS_KEPT: usize = 8;

/// Commands of a job that wait for others on their slots. A write on a lost path may keep its slot for
/// a minute: the job goes on with other slots meanwhile, until it comes upon as many that wait.
const STALLED_MAX: usize = 64;
/// Commands that are drawn at once to find one that need not wait: on a range of few slots all may.
const DRAWS_MAX: usize = 8;

/// A kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Flush,
}

/// A command of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    pub(crate) operation: Operation,
    /// Counted within the job's own region.
    slot: u64,
    /// Byte offset in the namespace.
    pub position: u64,
    generation: u64,
    expected: Expected,
    submitted_ns: u64,
    /// Time at which it was due, if a rate is set.
    due_ns: Option<u64>,
}

impl Io {
    /// Returns the time since submission.
    pub const fn latency_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.submitted_ns)
    }
}

/// A command before it begins.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    operation: Operation,
    slot: u64,
    /// Time at which it is due, if a rate is set.
    due_ns: Option<u64>,
}

/// Next action of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This command.
    Io(Io),
    /// To be asked again at this time, in nanoseconds.
    At(u64),
    /// To see completions first.
    Completions,
    /// No further action.
    Done,
}

/// Stage of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Working,
    /// The last writes are made durable.
    Flushing,
    /// From this slot on.
    ReadingBack(u64),
    Done,
}

/// Result of verification.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Stamped blocks that were written.
    pub written: u64,
    /// Reads whose data was checked, while the workload ran.
    pub checked: u64,
    /// Blocks read back after the workload.
    pub(crate) read_back: u64,
    /// Blocks that were wrong.
    pub corrupt: u64,
    /// The first of them.
    pub corruptions: Vec<Corruption>,
}

impl Verified {
    pub(crate) fn merge(&mut self, other: &Verified) {
        self.written += other.written;
        self.checked += other.checked;
        self.read_back += other.read_back;
        self.corrupt += other.corrupt;
        let room = CORRUPTIONS_KEPT.saturating_sub(self.corruptions.len());
        self.corruptions.extend(other.corruptions.iter().take(room));
    }
}

/// A job.
#[derive(Debug)]
pub struct Job {
    workload: Workload,
    unit: usize,
    writer: u64,
    /// Start of the range in bytes; first slot and number of slots of the job's own part.
    start: u64,
    first: u64,
    slots: u64,
    reads: SlotSequence,
    writes: SlotSequence,
    mix: Random,
    ledger: Option<Ledger>,
    recorder: Option<Arc<Recorder>>,
    stage: Stage,
    outstanding: u32,
    /// Commands the workload has issued, and how many it shall issue at most.
    issued: u64,
    limit: Option<u64>,
    finishing: bool,
    read_back: bool,
    /// Commands that wait for others on their slots, the oldest first.
    stalled: Vec<Drawn>,
    writes_unflushed: u32,
    flush_outstanding: bool,
    /// Times for a rate: due time of the first command, and offset of this job, by which jobs do not
    /// send at the same moment.
    started_ns: Option<u64>,
    phase_ns: u64,
    /// Start and end of counting, in nanoseconds.
    pub(crate) counted_ns: (Option<u64>, Option<u64>),
    pub tallies: Tallies,
    pub verified: Verified,
}

impl Job {
    /// Job `number` of `fitted`. With verifying, it keeps to a region of its own.
    pub fn new(fitted: &Fitted, number: u32, writer: u64, recorder: Option<Arc<Recorder>>) -> Self {
        let workload = fitted.workload.clone();
        let (start, slots) = fitted.part(number);
        // Jobs that have ranges of their own need no regions of one.
        let shares = workload.verify && fitted.increment == 0;
        let (first, slots) = if shares { region(fitted, number) } else { (0, slots) };
        let ledger = (workload.verify && workload.writes()).then(|| Ledger::new(slots, writer));
        let mut seeds = Random::new(workload.seed.wrapping_add(u64::from(number) << 32));
        let reads = SlotSequence::new(slots, workload.random, seeds.next());
        // Random reads and writes share one order, so that together they visit each slot once in a pass.
        let writes = if workload.random { reads.clone() } else { SlotSequence::new(slots, false, 0) };
        // What the ramp does is not part of the work.
        let limit = (workload.once && workload.ramp.is_zero()).then_some(slots);
        Self {
            unit: fitted.unit_bytes as usize,
            writer,
            start,
            first,
            slots,
            reads,
            writes,
            mix: Random::new(seeds.next()),
            ledger,
            recorder,
            stage: Stage::Working,
            outstanding: 0,
            issued: 0,
            limit,
            finishing: false,
            read_back: true,
            stalled: Vec::with_capacity(STALLED_MAX),
            writes_unflushed: 0,
            flush_outstanding: false,
            started_ns: None,
            phase_ns: phase_ns(&workload, number),
            counted_ns: (None, None),
            tallies: Tallies::default(),
            verified: Verified::default(),
            workload,
        }
    }

    /// A job that only reads back what `ledger` says of its region.
    pub(crate) fn checking(fitted: &Fitted, number: u32, ledger: impl FnOnce(u64, u64) -> Ledger) -> Self {
        let mut job = Self::new(fitted, number, 0, None);
        job.ledger = Some(ledger(job.first, job.slots));
        job.stage = Stage::ReadingBack(0);
        job
    }

    /// Starts counting at `now_ns`, forgetting what was before.
    pub(crate) fn begin_counting(&mut self, now_ns: u64) {
        self.tallies = Tallies::default();
        self.counted_ns = (Some(now_ns), None);
        // What is under way counts when it ends, and so is part of the work.
        let commands = self.outstanding.saturating_sub(u32::from(self.flush_outstanding));
        let under_way = u64::from(commands) + self.stalled.len() as u64;
        self.limit = self.workload.once.then(|| self.issued + self.slots.saturating_sub(under_way));
    }

    /// Ends the workload: nothing new begins. Commands under way still count, and counting lasts until
    /// the last of them has ended: a stall at the end would be left out of the latencies otherwise.
    pub const fn finish(&mut self) {
        self.finishing = true;
    }

    /// Ends everything, reading back included.
    pub(crate) fn abandon(&mut self) {
        self.finish();
        self.read_back = false;
        if matches!(self.stage, Stage::ReadingBack(_)) {
            self.stage = Stage::Done;
        }
    }

    /// True once the workload has ended; reading back may remain.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted_ns.1.is_some()
    }

    /// True while commands that end are part of the measurement.
    pub(crate) fn is_counting(&self) -> bool {
        self.stage == Stage::Working && self.counted_ns.0.is_some() && !self.is_counted()
    }

    fn end_counting(&mut self, now_ns: u64) {
        if self.counted_ns.0.is_some() && self.counted_ns.1.is_none() {
            self.counted_ns.1 = Some(now_ns);
        }
    }

    /// Returns the next action at `now_ns`.
    pub fn next(&mut self, now_ns: u64) -> Next {
        if self.outstanding >= self.workload.depth {
            return Next::Completions;
        }
        let next = match self.stage {
            Stage::Working => self.next_work(now_ns),
            Stage::Flushing => Next::Completions,
            Stage::ReadingBack(from) => self.next_read_back(from),
            Stage::Done if self.outstanding > 0 => Next::Completions,
            Stage::Done => Next::Done,
        };
        match next {
            Next::Io(io) => {
                self.outstanding += 1;
                Next::Io(Io { submitted_ns: now_ns, ..io })
            }
            other => other,
        }
    }

    fn next_work(&mut self, now_ns: u64) -> Next {
        let is_all_issued = self.limit.is_some_and(|limit| self.issued >= limit);
        if self.finishing || is_all_issued && self.stalled.is_empty() {
            return self.next_after_work(now_ns);
        }
        if self.is_flush_due() {
            return self.begin_flush();
        }
        for at in 0..self.stalled.len() {
            let drawn = self.stalled[at];
            if self.is_behind_write(drawn, at) {
                continue;
            }
            if let Some(io) = self.begin_drawn(drawn) {
                self.stalled.remove(at);
                return Next::Io(io);
            }
        }
        for _ in 0..DRAWS_MAX {
            if self.stalled.len() >= STALLED_MAX || self.limit.is_some_and(|limit| self.issued >= limit) {
                break;
            }
            let due_ns = self.rate_due(now_ns);
            if let Some(due_ns) = due_ns.filter(|due_ns| *due_ns > now_ns) {
                return Next::At(due_ns);
            }
            let (operation, slot) = self.draw();
            // In a run without an end, what waits already is not drawn again.
            let is_stalled = |drawn: &Drawn| (drawn.operation, drawn.slot) == (operation, slot);
            if self.limit.is_none() && self.stalled.iter().any(is_stalled) {
                continue;
            }
            self.issued += 1;
            let drawn = Drawn { operation, slot, due_ns };
            if !self.is_behind_write(drawn, self.stalled.len())
                && let Some(io) = self.begin_drawn(drawn)
            {
                return Next::Io(io);
            }
            self.stalled.push(drawn);
        }
        Next::Completions
    }

    /// True for a read of a slot for which a write is among the first `count` that wait: on a range of few slots, reads that
    /// pass it would keep it waiting forever.
    fn is_behind_write(&self, drawn: Drawn, count: usize) -> bool {
        let is_before = |other: &Drawn| other.operation == Operation::Write && other.slot == drawn.slot;
        drawn.operation == Operation::Read && self.stalled.iter().take(count).any(is_before)
    }

    fn begin_drawn(&mut self, drawn: Drawn) -> Option<Io> {
        let io = self.begin(drawn.operation, drawn.slot)?;
        Some(Io { due_ns: drawn.due_ns, ..io })
    }

    /// The time of the next command, where a rate is set.
    fn rate_due(&mut self, now_ns: u64) -> Option<u64> {
        let rate = self.workload.rate_iops?;
        let started_ns = *self.started_ns.get_or_insert(now_ns);
        let after_ns = u128::from(self.issued) * 1_000_000_000 / u128::from(rate);
        Some(started_ns + self.phase_ns + after_ns as u64)
    }

    fn draw(&mut self) -> (Operation, u64) {
        let reads = match self.workload.read_percent {
            100 => true,
            0 => false,
            percent => self.mix.next() % 100 < u64::from(percent),
        };
        match (reads, self.workload.random) {
            (true, _) => (Operation::Read, self.reads.next()),
            (false, true) => (Operation::Write, self.reads.next()),
            (false, false) => (Operation::Write, self.writes.next()),
        }
    }

    /// The command on `slot`, or nothing while another one there forbids it.
    fn begin(&mut self, operation: Operation, slot: u64) -> Option<Io> {
        let position = self.position(slot);
        let (generation, expected) = match (operation, &mut self.ledger) {
            (Operation::Read, Some(ledger)) => (0, ledger.begin_read(slot)?),
            (Operation::Read, None) if self.workload.verify => (0, Expected::AnyStamp),
            (Operation::Write, Some(ledger)) => (ledger.begin_write(slot)?, Expected::Anything),
            _ => (0, Expected::Anything),
        };
        if operation == Operation::Write {
            self.writes_unflushed += 1;
        }
        Some(Io { operation, slot, position, generation, expected, submitted_ns: 0, due_ns: None })
    }

    fn position(&self, slot: u64) -> u64 {
        self.start + (self.first + slot) * u64::from(self.workload.block_bytes)
    }

    fn is_flush_due(&self) -> bool {
        let every = self.workload.flush_every;
        every > 0 && self.writes_unflushed >= every && !self.flush_outstanding
    }

    fn begin_flush(&mut self) -> Next {
        self.flush_outstanding = true;
        self.writes_unflushed = 0;
        if let Some(ledger) = &mut self.ledger {
            ledger.begin_flush();
        }
        let expected = Expected::Anything;
        let operation = Operation::Flush;
        let (slot, position, generation) = (0, 0, 0);
        Next::Io(Io { operation, slot, position, generation, expected, submitted_ns: 0, due_ns: None })
    }

    /// Waits for what is outstanding, makes the last writes durable, and turns to reading back.
    fn next_after_work(&mut self, now_ns: u64) -> Next {
        if self.outstanding > 0 {
            return Next::Completions;
        }
        self.end_counting(now_ns);
        let keeps = self.workload.flush_every > 0 || self.recorder.is_some();
        let unflushed = self.ledger.as_ref().map_or(self.writes_unflushed > 0, Ledger::has_unflushed);
        if keeps && unflushed {
            self.stage = Stage::Flushing;
            return self.begin_flush();
        }
        self.turn_to_reading_back()
    }

    fn turn_to_reading_back(&mut self) -> Next {
        if self.ledger.is_some() && self.read_back {
            self.stage = Stage::ReadingBack(0);
            self.next_read_back(0)
        } else {
            self.stage = Stage::Done;
            Next::Done
        }
    }

    fn next_read_back(&mut self, from: u64) -> Next {
        let written = self.ledger.as_ref().and_then(|l| (from..l.slots()).find(|slot| l.is_written(*slot)));
        let Some(slot) = written else {
            self.stage = Stage::Done;
            return if self.outstanding > 0 { Next::Completions } else { Next::Done };
        };
        self.stage = Stage::ReadingBack(slot + 1);
        self.begin(Operation::Read, slot).map_or(Next::Completions, Next::Io)
    }

    /// True if the job's writes have Force Unit Access.
    pub(crate) const fn forces_unit_access(&self) -> bool {
        self.workload.force_unit_access
    }

    /// Makes the data that a write sends.
    pub(crate) fn fill(&self, io: &Io, data: &mut [u8]) {
        if self.workload.verify {
            stamp::fill(data, self.unit, io.position, io.generation, self.writer);
        }
    }

    /// Records a command's end.
    ///
    /// # Errors
    /// When the command failed, or data read while the workload runs is wrong.
    pub fn complete(&mut self, io: &Io, status: Status, data: &[u8], now_ns: u64) -> Result<(), Failure> {
        self.outstanding -= 1;
        if !status.is_success() {
            return Err(self.status_failure(io, status));
        }
        let counts = self.is_counting();
        let latency_ns = io.latency_ns(now_ns);
        if counts {
            let bytes = u64::from(self.workload.block_bytes);
            match io.operation {
                Operation::Read => self.tallies.read.add(bytes, latency_ns),
                Operation::Write => self.tallies.write.add(bytes, latency_ns),
                Operation::Flush => self.tallies.flush.add(0, latency_ns),
            }
            if let Some(due_ns) = io.due_ns {
                self.tallies.response.add(bytes, now_ns.saturating_sub(due_ns));
            }
        }
        match io.operation {
            Operation::Read => self.complete_read(io, data),
            Operation::Write => {
                self.complete_write(io);
                Ok(())
            }
            Operation::Flush => self.complete_flush(),
        }
    }

    fn status_failure(&self, io: &Io, status: Status) -> Failure {
        match io.operation {
            Operation::Flush => Failure::failed(format!("a flush failed: {status}")),
            operation => Failure::failed(format!(
                "a {} of {} bytes at offset {} failed: {status}",
                if operation == Operation::Read { "read" } else { "write" },
                self.workload.block_bytes,
                io.position
            )),
        }
    }

    fn complete_read(&mut self, io: &Io, data: &[u8]) -> Result<(), Failure> {
        if let Some(ledger) = &mut self.ledger {
            ledger.end_read(io.slot);
        }
        let working = self.stage == Stage::Working;
        match stamp::check(data, self.unit, io.position, io.expected) {
            Ok(()) if io.expected == Expected::Anything => {}
            Ok(()) if working => self.verified.checked += 1,
            Ok(()) => self.verified.read_back += 1,
            Err(corruption) => {
                self.verified.corrupt += 1;
                if self.verified.corruptions.len() < CORRUPTIONS_KEPT {
                    self.verified.corruptions.push(corruption);
                }
                // A workload goes no further on wrong data; reading back goes on, to tell how much is wrong.
                if working {
                    return Err(Failure::failed(format!("wrong data {corruption}")));
                }
            }
        }
        Ok(())
    }

    fn complete_write(&mut self, io: &Io) {
        if let Some(ledger) = &mut self.ledger {
            ledger.end_write(io.slot, self.workload.flush_every > 0 || self.recorder.is_some());
            self.verified.written += 1;
        }
    }

    fn complete_flush(&mut self) -> Result<(), Failure> {
        self.flush_outstanding = false;
        if let Some(ledger) = &mut self.ledger {
            let (first, recorder) = (self.first, &self.recorder);
            ledger.end_flush(|written| match recorder {
                Some(recorder) => recorder
                    .flushed(written.iter().map(|&(slot, generation)| (first + slot, generation)).collect()),
                None => Ok(()),
            })?;
        }
        if self.stage == Stage::Flushing {
            self.stage = Stage::Working;
        }
        Ok(())
    }

    /// The newest submitted generation of each slot of the range that this job wrote.
    pub(crate) fn submitted(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let written = self.ledger.iter().flat_map(Ledger::submitted);
        written.map(|(slot, generation)| (self.first + slot, generation))
    }
}

/// Returns the delay of this job's first command after that of the first job, if a rate is set.
fn phase_ns(workload: &Workload, number: u32) -> u64 {
    let Some(rate) = workload.rate_iops else { return 0 };
    (u128::from(number) * 1_000_000_000 / u128::from(rate) / u128::from(workload.jobs.max(1))) as u64
}

/// The part of the range that belongs to job `number` alone: first slot and number of slots.
fn region(fitted: &Fitted, number: u32) -> (u64, u64) {
    let (jobs, slots) = (u128::from(fitted.workload.jobs), u128::from(fitted.slots));
    let border = |number: u32| (slots * u128::from(number) / jobs) as u64;
    (border(number), border(number + 1) - border(number))
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
