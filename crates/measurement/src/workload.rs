//! A workload as it was asked for, checked, and then fitted onto a namespace. It makes no I/O: the `bench` module
//! turns it into jobs.

use std::path::PathBuf;
use std::time::Duration;

use engine::limits::{BUFFER_LENGTH_MAX, QUEUE_ENTRIES_MAX};
use uuid::Uuid;

use crate::failure::Failure;
use crate::fio::job_file::Job;
use crate::fio::job_options::JobOptions;
use crate::fio::typed::TypedOptions;
use crate::flags::bench::{BenchFlags, Kind, SyncMode, VerifyMethod, WorkloadFlags};
use crate::spec::extent::Extent;
use crate::spec::size::Size;

/// Entries of a queue where they suffice, as with Linux.
const QUEUE_ENTRIES_DEFAULT: u16 = 128;
/// Default size of a command in bytes, as in fio.
const BLOCK_BYTES_DEFAULT: u64 = 4096;
/// Blocks whose generation one run keeps in memory: 16 bytes each, so 1 GiB at most.
const VERIFIED_SLOTS_MAX: u64 = 64 << 20;

/// Work of the jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// True for random positions.
    pub random: bool,
    /// Reads among 100 commands.
    pub read_percent: u8,
    /// Bytes of one command's data.
    pub block_bytes: u32,
    /// Commands each job keeps outstanding.
    pub depth: u32,
    pub jobs: u32,
    pub offset: Extent,
    /// Bytes to use from `offset` on; all of them when absent.
    pub size: Option<Extent>,
    /// Distance between the beginnings of two jobs.
    pub offset_increment: Extent,
    /// Longest time to run, after the ramp.
    pub runtime: Option<Duration>,
    /// Each job is done when it has been over its range once, even if there is time left.
    pub once: bool,
    pub ramp: Duration,
    /// Commands a second that each job does at most.
    pub rate_iops: Option<u64>,
    /// Writes of a job between two flushes; 0 for no flushes.
    pub flush_every: u32,
    /// True if writes have Force Unit Access, and so are durable when acknowledged.
    pub force_unit_access: bool,
    pub seed: u64,
    pub verify: bool,
}

/// The queues to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    pub count: u16,
    pub entries: u16,
}

/// Use of the verify state by `bench`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyState {
    None,
    /// Record into this file.
    Record(PathBuf),
    /// Write nothing, check against this file.
    Check(PathBuf),
}

/// A workload on a namespace: positions are counted in slots, blocks of the workload's size from `offset` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    pub workload: Workload,
    /// Bytes of the namespace's own block.
    pub unit_bytes: u32,
    /// Offset of the first job, in bytes.
    pub offset: u64,
    /// Distance between the beginnings of two jobs, in bytes.
    pub(crate) increment: u64,
    /// Blocks of the workload's size in the first job's range, which is the others', too, if there is no increment.
    pub slots: u64,
    /// End of the namespace, in bytes.
    end: u64,
}

/// Range of a workload, before the namespace's size is known.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub offset: Extent,
    /// From there on; all there is without it.
    pub length: Option<Extent>,
    /// Number of further jobs, and distance between the beginnings of two.
    pub(crate) further: (u32, Extent),
}

impl Range {
    /// Offset and length in bytes, in a namespace of `total` bytes.
    pub fn bytes(self, total: u64) -> (u64, u64) {
        let offset = self.offset.bytes(total);
        let (jobs, increment) = self.further;
        let further = increment.bytes(total).saturating_mul(u64::from(jobs));
        let length = self.length.map_or(u64::MAX, |length| length.bytes(total)).saturating_add(further);
        (offset, length.min(total.saturating_sub(offset)))
    }
}

/// The part of a namespace that a workload needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub unit_bytes: u32,
    pub bytes: u64,
}

impl Workload {
    /// Checks the flags.
    pub fn new(flags: &BenchFlags) -> Result<(Self, VerifyState), Failure> {
        if flags.nsid.len() > 1 {
            return Err(Failure::usage(
                "--nsid: a workload uses one namespace; only a job file uses several",
            ));
        }
        // A time that is typed is meant to be used.
        let typed = TypedOptions::read(&flags.fio).map_err(Failure::usage)?;
        let time_based = WorkloadFlags { time_based: true, ..typed_workload(flags, &typed) };
        let (workload, state) = Self::check(&time_based).map_err(Failure::usage)?;
        if typed.read_only && workload.writes() {
            return Err(Failure::usage("--readonly forbids writes, and this workload does some"));
        }
        Ok((workload, state))
    }

    /// Checks a job of a job file, over whose options the flags win. `another_seed` is for a job that shall have
    /// another order in each run.
    ///
    /// # Errors
    /// What is wrong with it, without its name.
    pub fn of_job(flags: &WorkloadFlags, job: &Job, another_seed: u64) -> Result<Self, String> {
        let mut merged = over(flags, &job.options, another_seed);
        // fio passes over it where nothing is written, so that it can stand in [global].
        if matches!(merged.kind, None | Some(Kind::Read | Kind::Randread)) {
            (merged.fsync, merged.sync) = (None, None);
        }
        Self::check(&merged).map(|(workload, _)| workload)
    }

    fn check(flags: &WorkloadFlags) -> Result<(Self, VerifyState), String> {
        let state = match &flags.verify_state {
            None => VerifyState::None,
            Some(path) if flags.verify_only => VerifyState::Check(path.clone()),
            Some(path) => VerifyState::Record(path.clone()),
        };
        let read_percent = flags.rwmixread.unwrap_or(50);
        let flush_every = flags.fsync.unwrap_or(0);
        let (random, read_percent) = match flags.kind.unwrap_or(Kind::Read) {
            Kind::Read => (false, 100),
            Kind::Write => (false, 0),
            Kind::Randread => (true, 100),
            Kind::Randwrite => (true, 0),
            Kind::Readwrite => (false, read_percent),
            Kind::Randrw => (true, read_percent),
        };
        let writes = read_percent < 100;
        if matches!(state, VerifyState::Record(_)) && !writes {
            return Err("--verify-state records writes: use it with --rw write, randwrite or a mix".into());
        }
        if flush_every > 0 && !writes {
            return Err("--fsync flushes after writes, and this workload does none".into());
        }
        let force_unit_access = flags.sync.is_some_and(SyncMode::forces_unit_access);
        if force_unit_access && !writes {
            return Err("--sync makes writes durable, and this workload does none".into());
        }
        let block_bytes = match flags.bs.map_or(BLOCK_BYTES_DEFAULT, |bs| bs.0) {
            0 => return Err("--bs must be more than 0".into()),
            bytes if bytes > BUFFER_LENGTH_MAX as u64 => {
                let (bytes, most) = (Size(bytes), Size(BUFFER_LENGTH_MAX as u64));
                return Err(format!("--bs {bytes} is over the limit of {most}"));
            }
            bytes => bytes as u32,
        };
        if flags.size.is_some_and(Extent::is_zero) {
            return Err("--size must be more than 0".into());
        }
        if flags.runtime.is_some_and(|runtime| runtime.is_zero()) {
            return Err("--runtime must be more than 0".into());
        }
        if state != VerifyState::None && flags.offset_increment.is_some_and(|increment| !increment.is_zero())
        {
            return Err("--verify-state records one range, and --offset_increment makes several".into());
        }
        let workload = Self {
            random,
            read_percent,
            block_bytes,
            depth: flags.iodepth.unwrap_or(1),
            jobs: flags.numjobs.unwrap_or(1),
            offset: flags.offset.unwrap_or(Extent::ZERO),
            size: flags.size,
            offset_increment: flags.offset_increment.unwrap_or(Extent::ZERO),
            runtime: flags.runtime,
            once: flags.runtime.is_none() || !flags.time_based,
            ramp: flags.ramp_time.unwrap_or_default(),
            rate_iops: flags.rate_iops,
            flush_every,
            force_unit_access,
            seed: flags.randseed.unwrap_or(1),
            verify: flags.verify == Some(VerifyMethod::Crc32c) || state != VerifyState::None,
        };
        Ok((workload, state))
    }

    /// Range of all jobs.
    pub fn range(&self) -> Range {
        let further = (self.jobs.saturating_sub(1), self.offset_increment);
        Range { offset: self.offset, length: self.size, further }
    }

    /// True if it writes at all.
    pub const fn writes(&self) -> bool {
        self.read_percent < 100
    }

    /// Kind of the workload as fio spells it.
    pub const fn kind(&self) -> &'static str {
        match (self.random, self.read_percent) {
            (false, 100) => "read",
            (false, 0) => "write",
            (true, 100) => "randread",
            (true, 0) => "randwrite",
            (false, _) => "readwrite",
            (true, _) => "randrw",
        }
    }

    /// The queues it wants, where the flags leave it open.
    pub fn queues(&self, count: Option<u16>, entries: Option<u16>) -> Queues {
        let most = engine::limits::IO_QUEUES_MAX;
        let count = count.unwrap_or_else(|| u16::try_from(self.jobs).map_or(most, |jobs| jobs.min(most)));
        let count = count.max(1);
        let needed = outstanding_per_queue(self.jobs, self.depth, count) + 1;
        let fitting =
            u16::try_from(needed).unwrap_or(u16::MAX).clamp(QUEUE_ENTRIES_DEFAULT, QUEUE_ENTRIES_MAX);
        Queues { count, entries: entries.unwrap_or(fitting) }
    }

    /// Puts the workload onto a namespace.
    pub fn fit(self, geometry: Geometry) -> Result<Fitted, Failure> {
        let unit = u64::from(geometry.unit_bytes);
        let block = u64::from(self.block_bytes);
        if !block.is_multiple_of(unit) {
            return Err(Failure::usage(format!(
                "--bs {block} is not a multiple of the namespace's {unit}-byte blocks"
            )));
        }
        let end = geometry.bytes;
        let offset = self.offset.bytes_in_blocks(end, block);
        let increment = self.offset_increment.bytes_in_blocks(end, block);
        for (option, bytes) in [("--offset", offset), ("--offset_increment", increment)] {
            if !bytes.is_multiple_of(unit) {
                return Err(Failure::usage(format!(
                    "{option} {bytes} is not a multiple of the {unit}-byte blocks"
                )));
            }
        }
        let last = increment.saturating_mul(u64::from(self.jobs.saturating_sub(1))).saturating_add(offset);
        let (left, left_to_last) = (end.saturating_sub(offset), end.saturating_sub(last));
        let from = if increment > 0 { "the start of the last job" } else { "--offset" };
        let size = match self.size {
            None => left,
            // As in fio, a share is cut off at the end.
            Some(Extent::Percent(_)) => self.size.map_or(left, |size| size.bytes(end)).min(left),
            Some(Extent::Bytes(size)) if size > left_to_last => {
                return Err(Failure::usage(format!(
                    "the namespace has {} from {from} on, and --size asks for {}",
                    Size(left_to_last),
                    Size(size)
                )));
            }
            Some(Extent::Bytes(size)) => size,
        };
        let slots = size / block;
        for (what, bytes) in
            [(format!("the range from {from} on"), left_to_last), ("--size".to_owned(), size)]
        {
            if bytes < block {
                return Err(Failure::usage(format!(
                    "{what} has {}, less than --bs {}",
                    Size(bytes),
                    Size(block)
                )));
            }
        }
        let fitted =
            Fitted { workload: self, unit_bytes: geometry.unit_bytes, offset, increment, slots, end };
        fitted.check_verify().map_err(Failure::usage)?;
        Ok(fitted)
    }
}

impl Fitted {
    /// Offset of a job's range in bytes, and number of its slots.
    pub(crate) fn part(&self, job: u32) -> (u64, u64) {
        let start = self.offset + self.increment * u64::from(job);
        let left = self.end.saturating_sub(start) / u64::from(self.workload.block_bytes);
        (start, self.slots.min(left))
    }

    /// The ranges of its jobs, first and last byte: one where all have the same.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let jobs = if self.increment > 0 { self.workload.jobs } else { 1 };
        (0..jobs).map(|job| {
            let (start, slots) = self.part(job);
            (start, start + slots * u64::from(self.workload.block_bytes))
        })
    }

    fn check_verify(&self) -> Result<(), String> {
        let Workload { verify, jobs, block_bytes, .. } = self.workload;
        if !verify {
            return Ok(());
        }
        let (jobs, block) = (u64::from(jobs), u64::from(block_bytes));
        let is_apart = self.increment > 0;
        let kept = if is_apart { self.slots.saturating_mul(jobs) } else { self.slots };
        if self.workload.writes() && kept > VERIFIED_SLOTS_MAX {
            let most = Size(VERIFIED_SLOTS_MAX * block);
            return Err(format!("--verify keeps track of {most} at most here: add --size"));
        }
        if self.workload.writes() && is_apart && jobs > 1 && self.slots * block > self.increment {
            return Err(
                "with --verify each job needs blocks of its own: --offset_increment has to be at least \
                        --size"
                    .to_owned(),
            );
        }
        if !is_apart && self.slots < jobs {
            return Err("with --verify each job needs a block of its own: use fewer --numjobs".to_owned());
        }
        Ok(())
    }
}

/// The workload that was typed, by options of this program or of fio's.
pub fn typed_workload(flags: &BenchFlags, typed: &TypedOptions) -> WorkloadFlags {
    over(&flags.workload, &typed.options, Uuid::new_v4().as_u64_pair().1)
}

/// Flags, with what they leave open as a job of fio's has it; `another_seed` is for a job that shall have another order in
/// each run.
fn over(flags: &WorkloadFlags, options: &JobOptions, another_seed: u64) -> WorkloadFlags {
    WorkloadFlags {
        kind: flags.kind.or(options.kind),
        bs: flags.bs.or(options.bs),
        iodepth: flags.iodepth.or(options.iodepth),
        numjobs: flags.numjobs.or(options.numjobs),
        size: flags.size.or(options.size),
        offset: flags.offset.or(options.offset),
        offset_increment: flags.offset_increment.or(options.offset_increment),
        runtime: flags.runtime.or(options.runtime),
        time_based: flags.time_based || options.time_based,
        ramp_time: flags.ramp_time.or(options.ramp_time),
        rwmixread: flags.rwmixread.or(options.rwmixread),
        rate_iops: flags.rate_iops.or(options.rate_iops),
        fsync: flags.fsync.or(options.fsync),
        sync: flags.sync.or(options.sync),
        randseed: flags.randseed.or(options.randseed).or(options.another_order.then_some(another_seed)),
        verify: flags.verify.or(options.verify.then_some(VerifyMethod::Crc32c)),
        verify_state: flags.verify_state.clone(),
        verify_only: flags.verify_only,
    }
}

/// The most commands that are outstanding on one of `queues` queues when each of `jobs` jobs has `depth` of them.
pub(crate) fn outstanding_per_queue(jobs: u32, depth: u32, queues: u16) -> u32 {
    let queues = u32::from(queues.max(1));
    if queues >= jobs {
        // Job j has the queues j, j + jobs, ...; the last jobs have the fewest.
        depth.div_ceil(queues / jobs.max(1))
    } else {
        depth.saturating_mul(jobs.div_ceil(queues))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::job_file::JobFile;

    fn read(text: &str) -> Result<JobFile, crate::fio::job_file::Complaint> {
        JobFile::read(text, &|_| None)
    }

    fn workload(arguments: &str) -> Result<(Workload, VerifyState), Failure> {
        Workload::new(&BenchFlags::of(&format!("-a 127.0.0.1 -n nqn.a {arguments}")))
    }

    #[test]
    fn fios_json_plus_is_fios_json() {
        let format =
            |name: &str| BenchFlags::of(&format!("-a 127.0.0.1 -n nqn.a --rw read --output-format={name}"));
        assert_eq!(format("json+").output_format, format("fio-json").output_format);
    }

    #[test]
    fn the_kinds_are_fios() {
        for (kind, random, reads) in [
            ("read", false, 100),
            ("write", false, 0),
            ("randread", true, 100),
            ("randwrite", true, 0),
            ("rw", false, 70),
            ("readwrite", false, 70),
            ("randrw", true, 70),
        ] {
            let (workload, _) = workload(&format!("--rw {kind} --rwmixread 70")).unwrap();
            assert_eq!((workload.random, workload.read_percent), (random, reads), "{kind}");
        }
    }

    #[test]
    fn fios_spellings_are_understood() {
        let arguments = "--rw=randrw --bs=16k --iodepth=64 --numjobs=4 --runtime=10 --ramp_time=2 --rate_iops=1000 \
                         --size=1g --offset=1m --rwmixread=30 --fsync=32 --verify --randseed=7";
        let (workload, state) = workload(arguments).unwrap();
        assert_eq!(workload.block_bytes, 16 << 10);
        assert_eq!(workload.runtime, Some(Duration::from_secs(10)));
        assert_eq!(workload.ramp, Duration::from_secs(2));
        assert_eq!(workload.rate_iops, Some(1000));
        assert!(workload.verify);
        assert_eq!(state, VerifyState::None);
    }

    #[test]
    fn cloud_providers_command_lines_are_understood() {
        let line = "--name=write_throughput --numjobs=16 --size=10G --time_based --runtime=5m --ramp_time=2s \
                    --ioengine=libaio --direct=1 --verify=0 --bs=1M --iodepth=64 --rw=write --group_reporting=1 \
                    --iodepth_batch_complete_max=64";
        let (writes, _) = workload(line).unwrap();
        assert!(writes.writes() && !writes.verify);
        let line = "--filename=/dev/nvme0n1 --direct=1 --rw=randread --bs=4k --ioengine=libaio --iodepth=256 \
                    --runtime=120 --numjobs=4 --time_based --group_reporting --name=iops --eta-newline=1 --readonly";
        assert!(!workload(line).unwrap().0.writes());
        let refused = workload(&line.replace("randread", "randrw")).unwrap_err();
        assert!(refused.line().is_some_and(|what| what.contains("--readonly forbids writes")), "{refused:?}");
    }

    #[test]
    fn a_typed_time_is_used_up_and_a_files_only_if_it_says_so() {
        assert!(workload("--rw read").unwrap().0.once);
        assert!(!workload("--rw read --runtime 5").unwrap().0.once);
        let file = read("[a]\nsize=1m\nruntime=60\n[b]\nruntime=60\ntime_based\n").unwrap();
        let once = |typed: &str| -> Vec<(bool, Option<Duration>)> {
            let flags = BenchFlags::of(&format!("-a 127.0.0.1 -n nqn.a job.fio {typed}")).workload;
            let workloads = file.jobs.iter().map(|job| Workload::of_job(&flags, job, 0).unwrap());
            workloads.map(|workload| (workload.once, workload.runtime)).collect()
        };
        let minute = Some(Duration::from_secs(60));
        assert_eq!(once(""), [(true, minute), (false, minute)]);
        assert_eq!(once("--runtime 2")[0], (true, Some(Duration::from_secs(2))));
        assert_eq!(once("--time_based")[0], (false, minute));
    }

    #[test]
    fn what_is_typed_wins_over_a_file() {
        let text =
            "[a]\nrw=randwrite\nbs=8k\niodepth=4\nfsync=2\nrandrepeat=0\nverify=crc32c\n[b]\nfsync=2\n";
        let file = read(text).unwrap();
        let of = |at: usize, typed: &str| {
            let flags = BenchFlags::of(&format!("-a 127.0.0.1 -n nqn.a job.fio {typed}")).workload;
            Workload::of_job(&flags, &file.jobs[at], 77)
        };
        let alone = of(0, "").unwrap();
        assert_eq!((alone.block_bytes, alone.depth, alone.flush_every, alone.seed), (8192, 4, 2, 77));
        assert!(alone.verify && alone.random && alone.writes());
        assert!(!of(0, "--verify=0").unwrap().verify);
        let typed = of(0, "--bs 16k --iodepth 9 --randseed 5 --rw write --fsync 0").unwrap();
        assert_eq!((typed.block_bytes, typed.depth, typed.flush_every, typed.seed), (16_384, 9, 0, 5));
        assert!(!typed.random);
        let reads = of(1, "").unwrap();
        assert_eq!((reads.kind(), reads.flush_every, reads.block_bytes), ("read", 0, 4096));
        assert!(of(0, "--bs 2m").unwrap_err().contains("over the limit"));
    }

    #[test]
    fn contradictions_are_usage_errors() {
        for (arguments, expected) in [
            ("--rw read --bs 0", "--bs"),
            ("--rw read --bs 2m", "over the limit of 1 MiB"),
            ("--rw read --fsync 1", "does none"),
            ("--rw randread --sync sync", "does none"),
            ("--rw randread --verify-state s", "records writes"),
            ("--rw read --size 0", "--size"),
            ("--rw read --runtime 0", "--runtime"),
        ] {
            let error = workload(arguments).unwrap_err();
            assert!(
                matches!(&error, Failure::Usage(what) if what.contains(expected)),
                "{arguments}: {error:?}"
            );
        }
    }

    #[test]
    fn queues_follow_the_jobs() {
        let (one, _) = workload("--rw read --numjobs 4 --iodepth 32").unwrap();
        assert_eq!(one.queues(None, None), Queues { count: 4, entries: 128 });
        let (deep, _) = workload("--rw read --numjobs 4 --iodepth 256").unwrap();
        assert_eq!(deep.queues(None, None), Queues { count: 4, entries: 257 });
        assert_eq!(deep.queues(Some(8), None), Queues { count: 8, entries: 129 });
        assert_eq!(deep.queues(Some(1), None), Queues { count: 1, entries: 1024 });
        assert_eq!(deep.queues(Some(1), Some(32)), Queues { count: 1, entries: 32 });
    }

    #[test]
    fn a_workload_must_fit_its_namespace() {
        let geometry = Geometry { unit_bytes: 4096, bytes: 1 << 20 };
        let fit = |arguments: &str| workload(arguments).unwrap().0.fit(geometry);
        assert_eq!(fit("--rw read").unwrap().slots, 256);
        assert_eq!(fit("--rw read --bs 16k --offset 4k").unwrap().slots, 63);
        assert!(fit("--rw read --bs 512").is_err());
        assert!(fit("--rw read --size 2m").is_err());
        assert!(fit("--rw read --offset 1m").is_err());
        assert!(fit("--rw read --offset 1k").is_err());
        assert!(fit("--rw read --verify --numjobs 257").is_err());
    }

    /// As fio 3.33 has them on a file of 100 MiB.
    #[test]
    fn shares_and_increments_are_fios() {
        let geometry = Geometry { unit_bytes: 4096, bytes: 100 << 20 };
        let fit = |arguments: &str| workload(arguments).unwrap().0.fit(geometry);
        let parts = |arguments: &str| -> Vec<u64> {
            let fitted = fit(&format!("--rw read {arguments}")).unwrap();
            (0..fitted.workload.jobs).map(|job| fitted.part(job).1).collect()
        };
        assert_eq!(parts("--size=50%"), [12_800]);
        assert_eq!(parts("--size=50% --offset=25%"), [12_800]);
        assert_eq!(parts("--size=100% --offset=25%"), [19_200]);
        assert_eq!(parts("--offset=33% --bs=64k"), [1072]);
        assert_eq!(parts("--numjobs=2 --size=8m --offset_increment=8m"), [2048, 2048]);
        assert_eq!(parts("--numjobs=2 --offset_increment=10%"), [25_600, 23_040]);
        assert_eq!(parts("--numjobs=2 --offset_increment=8m"), [25_600, 23_552]);
        assert_eq!(parts("--numjobs=3 --offset=10% --offset_increment=10% --size=10%"), [2560; 3]);
        let fitted = fit("--rw read --numjobs 2 --offset 4m --size 1m --offset_increment 2m").unwrap();
        assert_eq!((fitted.part(0).0, fitted.part(1).0), (4 << 20, 6 << 20));
        assert_eq!(fitted.ranges().collect::<Vec<_>>(), [(4 << 20, 5 << 20), (6 << 20, 7 << 20)]);
        assert_eq!(fitted.workload.range().bytes(100 << 20), (4 << 20, 3 << 20));
        assert_eq!(
            workload("--rw write --offset 50%").unwrap().0.range().bytes(100 << 20),
            (50 << 20, 50 << 20)
        );
        for (wrong, part) in [
            (
                "--numjobs=4 --offset_increment=30m --size=20m",
                "10 MiB from the start of the last job on, and",
            ),
            (
                "--numjobs=4 --offset_increment=40m",
                "the start of the last job on has 0 bytes, less than --bs 4 KiB",
            ),
            ("--numjobs=9 --offset_increment=16777215t", "the start of the last job on has 0 bytes"),
            ("--numjobs=2 --offset_increment=5000", "--offset_increment 5000 is not a multiple"),
            ("--offset=100%", "the range from --offset on has 0 bytes, less than --bs 4 KiB"),
            ("--size=512", "--size has 512 bytes, less than --bs 4 KiB"),
        ] {
            let refused = fit(&format!("--rw read {wrong}")).unwrap_err();
            assert!(matches!(&refused, Failure::Usage(what) if what.contains(part)), "{wrong}: {refused:?}");
        }
        assert!(fit("--rw write --verify --numjobs 2 --offset_increment 1m --size 2m").is_err());
        assert!(fit("--rw write --verify --numjobs 2 --offset_increment 2m --size 2m").is_ok());
        assert!(workload("--rw write --verify-state s --offset_increment 1m").is_err());
    }
}
