//! Jobs against a namespace made of memory that answers in any order, loses what it may lose in a crash, and
//! can be made to lie.

use std::time::Duration;

use super::*;
use crate::bench::state::{Header, Record};
use crate::spec::extent::Extent;
use crate::workload::Geometry;

const UNIT: u32 = 512;
const BLOCK: u32 = 2048;

fn fitted(read_percent: u8, jobs: u32, slots: u64, runtime: Option<Duration>) -> Fitted {
    let workload = Workload {
        random: true,
        read_percent,
        block_bytes: BLOCK,
        depth: 8,
        jobs,
        offset: Extent::Bytes(4096),
        size: Some(Extent::Bytes(slots * u64::from(BLOCK))),
        offset_increment: Extent::ZERO,
        runtime,
        once: runtime.is_none(),
        ramp: Duration::ZERO,
        rate_iops: None,
        flush_every: 5,
        force_unit_access: false,
        seed: 3,
        verify: true,
    };
    workload.fit(Geometry { unit_bytes: UNIT, bytes: 1 << 20 }).unwrap()
}

/// A namespace with a volatile cache, whose outstanding commands end in random order.
struct Disk {
    durable: Vec<u8>,
    /// Writes that were acknowledged since the last flush, or are outstanding still.
    cache: Vec<(u64, Vec<u8>)>,
    outstanding: Vec<(Io, Vec<u8>)>,
    random: Random,
    clock_ns: u64,
}

impl Disk {
    fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        Self { durable: vec![0; 1 << 20], cache: Vec::new(), outstanding: Vec::new(), random, clock_ns: 1 }
    }

    fn contents(&self) -> Vec<u8> {
        let mut contents = self.durable.clone();
        for (position, data) in &self.cache {
            contents[*position as usize..][..data.len()].copy_from_slice(data);
        }
        contents
    }

    /// Sends what the job wants; false once it is done.
    fn send(&mut self, job: &mut Job) -> bool {
        loop {
            match job.next(self.clock_ns) {
                Next::Io(io) => {
                    let mut data = vec![0; BLOCK as usize];
                    if io.operation == Operation::Write {
                        job.fill(&io, &mut data);
                        let clashes = self.outstanding.iter().any(|(other, _)| {
                            other.operation != Operation::Flush && other.position == io.position
                        });
                        assert!(!clashes, "two commands on one slot, one of them a write");
                    }
                    self.outstanding.push((io, data));
                }
                Next::Completions => return true,
                Next::At(_) => unreachable!("no rate is set"),
                Next::Done => return false,
            }
        }
    }

    /// Ends one outstanding command, any of them.
    fn end_one(&mut self, job: &mut Job) -> Result<(), Failure> {
        if self.outstanding.is_empty() {
            return Ok(());
        }
        let index = self.random.next() as usize % self.outstanding.len();
        let (io, mut data) = self.outstanding.swap_remove(index);
        match io.operation {
            Operation::Read => {
                let contents = self.contents();
                let length = data.len();
                data.copy_from_slice(&contents[io.position as usize..][..length]);
            }
            Operation::Write => self.cache.push((io.position, data.clone())),
            Operation::Flush => {
                self.durable = self.contents();
                self.cache.clear();
            }
        }
        self.clock_ns += 1000;
        job.complete(&io, Status::SUCCESS, &data, self.clock_ns)
    }

    /// Of what was not flushed, each sector may have come through or not; outstanding writes too.
    fn crash(&mut self) {
        let outstanding = self.outstanding.drain(..).filter(|(io, _)| io.operation == Operation::Write);
        self.cache.extend(outstanding.map(|(io, data)| (io.position, data)));
        for (position, data) in std::mem::take(&mut self.cache) {
            for (index, sector) in data.chunks(UNIT as usize).enumerate() {
                if self.random.next().is_multiple_of(2) {
                    let at = position as usize + index * UNIT as usize;
                    self.durable[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
    }

    fn run(&mut self, job: &mut Job) -> Result<(), Failure> {
        while self.send(job) {
            self.end_one(job)?;
        }
        Ok(())
    }
}

#[test]
fn a_job_on_an_honest_disk_ends_and_finds_everything() {
    for seed in 0..20 {
        for read_percent in [0, 50] {
            let mut disk = Disk::new(seed);
            let mut job = Job::new(&fitted(read_percent, 1, 40, None), 0, 9, None);
            job.begin_counting(0);
            disk.run(&mut job).unwrap();
            assert_eq!(job.tallies.total().count(), 40);
            assert_eq!(job.verified.read_back, job.submitted().count() as u64);
            assert_eq!(job.verified.corrupt, 0);
            assert!(job.tallies.flush.count() > 0);
        }
    }
}

#[test]
fn jobs_that_verify_keep_to_themselves() {
    let fitted = fitted(0, 3, 40, None);
    let mut seen = Vec::new();
    for number in 0..3 {
        let mut job = Job::new(&fitted, number, 9, None);
        Disk::new(1).run(&mut job).unwrap();
        seen.extend(job.submitted().map(|(slot, _)| slot));
    }
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_lie_is_found() {
    for seed in 0..50 {
        let mut disk = Disk::new(seed);
        let mut job = Job::new(&fitted(0, 1, 40, None), 0, 9, None);
        job.begin_counting(0);
        while !matches!(job.stage, Stage::ReadingBack(_)) && disk.send(&mut job) {
            disk.end_one(&mut job).unwrap();
        }
        // One sector that was not read back yet becomes what it was before the run.
        let at = 4096 + (80 + seed as usize) * UNIT as usize;
        disk.durable = disk.contents();
        disk.cache.clear();
        disk.outstanding.iter().for_each(|(io, _)| assert_eq!(io.operation, Operation::Read));
        disk.durable[at..at + UNIT as usize].fill(0);
        disk.run(&mut job).unwrap();
        assert_eq!(job.verified.corrupt, 1, "seed {seed}");
        assert_eq!(job.verified.corruptions[0].position, at as u64);
    }
}

/// Runs until a crash, and returns the disk, the job and the record as it would be read afterwards.
fn crash_after(steps: u64, seed: u64) -> (Disk, Record) {
    let fitted = fitted(20, 1, 24, Some(Duration::from_secs(1)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let header = Header {
        offset: 4096,
        block_bytes: BLOCK,
        unit_bytes: UNIT,
        slots: fitted.slots,
        ..Header::new("nqn.a", 1, 9)
    };
    let recorder = Arc::new(Recorder::create(&path, header).unwrap());
    let mut disk = Disk::new(seed);
    let mut job = Job::new(&fitted, 0, 9, Some(recorder.clone()));
    for _ in 0..steps {
        disk.send(&mut job);
        disk.end_one(&mut job).unwrap();
    }
    recorder.end(job.submitted()).unwrap();
    disk.crash();
    (disk, Record::read(&path).unwrap())
}

fn check(disk: &mut Disk, record: &Record) -> Verified {
    let mut job = Job::checking(&fitted(100, 1, 24, None), 0, |first, slots| record.ledger(first, slots));
    disk.run(&mut job).unwrap();
    job.verified
}

#[test]
fn after_a_crash_an_honest_disk_passes() {
    for seed in 0..60 {
        let (mut disk, record) = crash_after(seed * 7, seed);
        let verified = check(&mut disk, &record);
        assert_eq!(verified.corrupt, 0, "seed {seed}: {:?}", verified.corruptions);
    }
}

#[test]
fn after_a_crash_a_lost_flush_is_found() {
    for seed in 0..60 {
        let (mut disk, record) = crash_after(200, seed);
        assert!(record.flushes > 0 && record.flushed_blocks() > 0);
        disk.durable.fill(0);
        let verified = check(&mut disk, &record);
        assert_eq!(verified.corrupt, record.flushed_blocks(), "seed {seed}");
    }
}

#[test]
fn the_error_of_a_failed_command_has_its_position() {
    let mut job = Job::new(&fitted(0, 1, 40, None), 0, 9, None);
    let Next::Io(io) = job.next(0) else { panic!("a job begins with a command") };
    let failure = job.complete(&io, Status::WRITE_FAULT, &[], 1).unwrap_err();
    let line = failure.line().unwrap();
    assert!(line.contains("a write of 2048 bytes at offset") && line.contains("Write Fault"), "{line}");
}

#[test]
fn what_a_ramp_does_is_no_part_of_the_work() {
    let mut fitted = fitted(100, 1, 40, None);
    fitted.workload.ramp = Duration::from_secs(1);
    fitted.workload.verify = false;
    let mut job = Job::new(&fitted, 0, 9, None);
    let mut disk = Disk::new(1);
    for _ in 0..100 {
        assert!(disk.send(&mut job), "a ramp goes on beyond the range");
        disk.end_one(&mut job).unwrap();
    }
    job.begin_counting(disk.clock_ns);
    disk.run(&mut job).unwrap();
    assert_eq!(job.tallies.read.count(), 40);
}

#[test]
fn a_rate_is_kept() {
    let mut fitted = fitted(100, 1, 40, None);
    fitted.workload.rate_iops = Some(1000);
    fitted.workload.verify = false;
    let mut job = Job::new(&fitted, 0, 9, None);
    assert!(matches!(job.next(5), Next::Io(_)));
    assert_eq!(job.next(5), Next::At(1_000_005));
    assert!(matches!(job.next(1_000_005), Next::Io(_)));
    assert_eq!(job.next(1_000_006), Next::At(2_000_005));
}

#[test]
fn commands_under_way_at_the_end_count_with_their_whole_time() {
    let mut fitted = fitted(0, 1, 40, Some(Duration::from_secs(1)));
    (fitted.workload.verify, fitted.workload.flush_every) = (false, 0);
    let mut job = Job::new(&fitted, 0, 9, None);
    let mut disk = Disk::new(1);
    job.begin_counting(disk.clock_ns);
    assert!(disk.send(&mut job));
    // The target stands still from here on, and the run ends meanwhile.
    let second_ns = 1_000_000_000;
    disk.clock_ns = second_ns;
    job.finish();
    assert!(disk.send(&mut job) && disk.outstanding.len() == 8, "no further command begins");
    assert!(job.is_counting());
    disk.clock_ns = 9 * second_ns;
    disk.run(&mut job).unwrap();
    assert_eq!(job.tallies.write.count(), 8);
    assert!(job.tallies.write.spread().min > 8 * second_ns, "{:?}", job.tallies.write.spread());
    assert!(job.counted_ns.1 >= Some(9 * second_ns), "the duration is that of all commands");
}

#[test]
fn a_held_block_does_not_keep_others_waiting() {
    for seed in 0..20 {
        let mut disk = Disk::new(seed);
        let mut job = Job::new(&fitted(50, 1, 40, Some(Duration::from_secs(1))), 0, 9, None);
        job.begin_counting(0);
        assert!(disk.send(&mut job));
        // A write on a lost path, which has its slot until the end.
        let is_write = |(io, _): &(Io, Vec<u8>)| io.operation == Operation::Write;
        let Some(at) = disk.outstanding.iter().position(is_write) else { continue };
        let held = disk.outstanding.swap_remove(at);
        for _ in 0..1000 {
            assert!(!disk.outstanding.is_empty(), "seed {seed}: all wait for one block");
            disk.end_one(&mut job).unwrap();
            assert!(disk.send(&mut job));
        }
        assert!(job.stalled.iter().any(|drawn| drawn.slot == held.0.slot), "the block was not wanted");
        disk.outstanding.push(held);
        job.finish();
        disk.run(&mut job).unwrap();
        assert_eq!(job.verified.corrupt, 0, "seed {seed}");
    }
}

#[test]
fn reads_of_few_slots_do_not_keep_writes_waiting() {
    for (seed, slots) in (0..20).zip([1, 2].into_iter().cycle()) {
        let mut disk = Disk::new(seed);
        let mut job = Job::new(&fitted(50, 1, slots, Some(Duration::from_secs(1))), 0, 9, None);
        job.begin_counting(0);
        for _ in 0..1000 {
            assert!(disk.send(&mut job) && !disk.outstanding.is_empty());
            disk.end_one(&mut job).unwrap();
        }
        let written = job.tallies.write.count();
        assert!(written > 200, "seed {seed}, {slots} slots: {written} of 1000 were writes");
        job.finish();
        disk.run(&mut job).unwrap();
        assert_eq!(job.verified.corrupt, 0, "seed {seed}");
    }
}
