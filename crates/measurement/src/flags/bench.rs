//! Flags of `bench`: connection options as nvme-cli has them, workload options as fio has them.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, Command, FromArgMatches as _, ValueEnum};
use engine::initiator::IoPolicy;
use engine::limits::IO_QUEUES_MAX;
use nvme::discovery::Nqn;

use super::EngineFlag;
use super::connection::ConnectionFlags;
use super::fio_options::FioOptions;
use super::number_error;
use crate::spec::extent::Extent;
use crate::spec::fio_numbers;
use crate::spec::size::{QuantityError, Size, parse_time};

/// Direction and order of a workload's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Sequential reads
    Read,
    /// Sequential writes
    Write,
    /// Random reads
    Randread,
    /// Random writes
    Randwrite,
    /// Sequential reads and writes, see --rwmixread
    #[value(name = "readwrite", alias = "rw")]
    Readwrite,
    /// Random reads and writes, see --rwmixread
    Randrw,
}

/// Format of printed results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BenchFormat {
    /// Text
    #[default]
    Normal,
    /// JSON; names in it are stable
    Json,
    /// JSON as `fio --output-format=json` prints it
    #[value(alias = "json+")]
    FioJson,
}

/// I/O queues of each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoQueues {
    /// Fixed number of queues.
    Count(u16),
    /// Number that short trials find to be best.
    Auto,
}

impl FromStr for IoQueues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("write 1 to {IO_QUEUES_MAX}, or auto");
        match text {
            "auto" => Ok(Self::Auto),
            _ => {
                let count = text.parse().map_err(|_| wrong())?;
                if (1..=IO_QUEUES_MAX).contains(&count) { Ok(Self::Count(count)) } else { Err(wrong()) }
            }
        }
    }
}

/// Reads the block size of all commands; a list, as fio has it, must name one size.
fn block_size(text: &str) -> Result<Size, String> {
    let size = fio_numbers::same_for_all(text);
    let size = size.ok_or_else(|| format!("`{text}`: all commands have one size"))?;
    size.parse().map_err(|error: QuantityError| error.to_string())
}

/// Switch that is on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    #[default]
    Off,
}

/// Durability of writes, as fio's `sync` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SyncMode {
    /// Durable after a Flush, where there is a volatile write cache
    #[value(alias = "0")]
    None,
    /// Durable when acknowledged, by Force Unit Access (FUA)
    #[value(alias = "1")]
    Sync,
    /// The same: a namespace has no metadata beside its blocks
    Dsync,
}

impl SyncMode {
    /// True if each write has Force Unit Access.
    pub(crate) const fn forces_unit_access(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// Method of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerifyMethod {
    /// Position, write count, writer and a CRC32C in every block
    Crc32c,
    /// No verification, also of a job file that asks for it
    #[value(name = "0")]
    Off,
}

#[derive(Debug, Args)]
#[command(after_help = "Jobs and queues:
  Each job has --iodepth commands outstanding, and a thread of its own. Job j
  uses the queues j, j+numjobs, and so on; if there are fewer queues than
  jobs, the jobs of one queue share its thread. With --verify each job uses
  its own part of the range; without, all jobs use the whole range.

Queues and the NIC:
  --match-hw-queues creates as many I/O queues as the interface to the target
  has, at most the number of CPUs; -i N lowers that limit. It chooses source
  ports by which the NIC's hash gives each connection its own receive queue,
  and pins each worker to the CPU that serves the queue. It needs no root and
  changes no setting of the machine; `selvedge tune` does that.
  -i auto starts with that number, runs short trials of this very workload,
  and adds queues while the 99th percentile falls and CPUs are left, or
  removes some. A workload that writes does so in the trials too.

Writing:
  A workload that writes destroys the data of the namespace. If the namespace
  has data, bench asks on the terminal, or requires --destroy-data.

Verifying:
  --verify stamps every written block with its position, a count of its writes,
  the writer and a checksum, and checks each read exactly; after a workload
  that writes, all written data is read back. With --rw read or randread, it
  checks the stamps of an earlier run.
  --verify-state FILE records the writes acknowledged before each completed
  Flush (see --fsync). After a crash of the target, --verify-only
  --verify-state FILE checks that no acknowledged write is lost or torn.

Job files:
  JOB_FILE is a job file of fio. Sections separated by stonewall run one after
  the other, all others at the same time. Options on the command line override
  those in the file. Unsupported options that would change the result are
  errors, with their line, unless --ignore-unsupported is given; options
  without a meaning here (direct, ioengine, filename, ...) are listed in a
  note. If sections have different files, --nsid names as many namespaces, in
  the order in which the files appear.

Examples:
  T='-a 127.0.0.1'
  selvedge bench $T --rw randread --bs 4k --iodepth 32 --numjobs 4 --runtime 10
  selvedge bench $T --rw randread --iodepth 32 --runtime 1m --top -o json > run.json
  selvedge bench $T --rw randread --iodepth 32 --numjobs 8 --runtime 10 \\
      --match-hw-queues
  selvedge bench $T --rw randread --iodepth 32 --numjobs 8 --runtime 10 -i auto
  selvedge bench -a fd00::10 --tclass 40 -f eth1 --rw randread --runtime 10
  selvedge bench $T --rw randwrite --size 256m --verify
  selvedge bench $T --rw randwrite --size 64m --runtime 30 --fsync 32 \\
      --verify-state state.jsonl
  selvedge bench $T --verify-only --verify-state state.jsonl
  selvedge bench job.fio $T --runtime 10 --output-format=fio-json")]
pub struct BenchFlags {
    /// Job file of fio, see below
    #[arg(value_name = "JOB_FILE")]
    pub job_file: Option<PathBuf>,

    /// Run without fio's options that are not supported
    #[arg(long, help_heading = "This program's own options")]
    pub ignore_unsupported: bool,

    /// NQN of the subsystem [default: the only one that the target shows]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub nqn: Option<Nqn>,

    /// Namespace ID; for a job file with several files, a list with one namespace for each in their
    /// order
    #[arg(long, value_name = "N[,N]", default_value = "1", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..0xffff_fffe))]
    pub nsid: Vec<u32>,

    /// Overwrite data of the namespace; without this, bench asks on a terminal, and refuses
    /// elsewhere
    #[arg(long, help_heading = "This program's own options")]
    pub destroy_data: bool,

    #[command(flatten)]
    pub connection: ConnectionFlags,

    /// I/O queues of each path, each a connection, or `auto` to find the best number [default: one
    /// per job]
    #[arg(short = 'i', long, visible_alias = "queues-per-path", value_name = "N")]
    pub nr_io_queues: Option<IoQueues>,

    /// Limit I/O queues to those of the NIC, each on a receive queue of its own, with its worker on
    /// the CPU that serves it
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub match_hw_queues: Option<Switch>,

    /// Duration of each trial of -i auto, whose first third is not counted [default: 3]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "This program's own options")]
    pub auto_trial: Option<Duration>,

    /// Entries of each queue [default: 128, or more where --iodepth needs it]
    #[arg(short = 'Q', long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub queue_size: Option<u16>,

    #[command(flatten)]
    pub paths: PathFlags,

    #[command(flatten)]
    pub workload: WorkloadFlags,

    #[command(flatten)]
    pub fio: FioOptions,

    /// I/O interface of this side
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "This program's own options")]
    pub engine: EngineFlag,

    /// Longest time this side polls before it sleeps, in microseconds; 0 never polls;
    /// at most 50 on epoll and with one CPU [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    #[arg(help_heading = "This program's own options")]
    pub poll_us: Option<u64>,

    /// Show a full-screen view meanwhile: paths, connections, workers
    #[arg(long, help_heading = "This program's own options")]
    pub top: bool,

    /// File for the results
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Format of the results
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "normal", help_heading = "Output")]
    pub output_format: BenchFormat,
}

impl BenchFlags {
    /// Returns the namespace of a workload, or of the first file of a job file.
    pub fn first_nsid(&self) -> u32 {
        self.nsid.first().copied().unwrap_or(1)
    }

    /// Returns the flags of a command line that another command has composed, `bench` first.
    ///
    /// # Errors
    /// Message with the option and its values.
    pub fn of_line(line: Vec<String>) -> Result<Self, String> {
        let command = Self::augment_args(Command::new("bench"));
        let flags = command.try_get_matches_from(line).and_then(|matches| Self::from_arg_matches(&matches));
        flags.map_err(|error| {
            let text = error.to_string();
            let text = number_error::reworded(&text).unwrap_or(text);
            let lines =
                text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
            let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
            lines.join(" ").trim_start_matches("error: ").to_owned()
        })
    }
}

/// Options for several paths, and for lost connections.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Path options, as nvme-cli and the Linux kernel have them")]
pub struct PathFlags {
    /// Path of each command: numa, round-robin, queue-depth, latency
    #[arg(long, value_name = "POLICY", default_value = "latency")]
    pub iopolicy: IoPolicy,

    /// Delay in seconds between attempts to reconnect a lost path; the first attempt is immediate
    /// [default: 10]
    #[arg(short = 'c', long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub reconnect_delay: Option<u32>,

    /// Time in seconds until a lost path is given up, -1 for never [default: 600; of bench with one
    /// path and without -c, 0]
    #[arg(short = 'l', long, value_name = "SECONDS", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i32).range(-1..))]
    pub ctrl_loss_tmo: Option<i32>,

    /// Time in seconds until commands fail without a path, -1 for never [default: -1]
    #[arg(short = 'F', long = "fast_io_fail_tmo", alias = "fast-io-fail-tmo", value_name = "SECONDS")]
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..))]
    pub fast_io_fail_tmo: Option<i32>,

    /// Time in seconds in which the target ends the commands of a lost host, beyond its keep alive,
    /// if it reports none (CQT): writes on a lost path wait for it [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(0..=3600))]
    pub quiesce_time: Option<u16>,

    /// Resend writes of a lost path at once, as the kernel does, and with attach, write at once
    /// although an earlier process of this host may have left controllers. UNSAFE: the first write,
    /// or one of that process, may still arrive, and undo a newer one without any error
    #[arg(long, alias = "no-quiesce", conflicts_with = "quiesce_time")]
    pub retry_at_once: bool,

    /// Congestion control by its name in the kernel, or auto to follow the path of each connection
    /// [default: system, the kernel's own]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,

    /// With -t mptcp: configure the addresses and limits of MPTCP with `ip mptcp`, as root, and
    /// restore them at the end
    #[arg(long)]
    pub configure_mptcp: bool,
}

/// Workload options.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload options, as fio has them")]
pub struct WorkloadFlags {
    /// Type of I/O
    #[arg(
        long = "rw",
        visible_alias = "readwrite",
        value_name = "KIND",
        required_unless_present_any = ["verify_only", "job_file"]
    )]
    pub kind: Option<Kind>,

    /// Data size of each command [default: 4k]
    #[arg(long, value_name = "SIZE", value_parser = block_size)]
    pub bs: Option<Size>,

    /// Commands that each job keeps outstanding [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub iodepth: Option<u32>,

    /// Number of jobs [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub numjobs: Option<u32>,

    /// Size of the range in the namespace, or a share such as 50% [default: all from --offset on]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Extent>,

    /// Start of the range in the namespace, or a share [default: 0]
    #[arg(long, value_name = "SIZE")]
    pub offset: Option<Extent>,

    /// Distance between the starts of consecutive jobs [default: 0]
    #[arg(long = "offset_increment", alias = "offset-increment", value_name = "SIZE")]
    pub offset_increment: Option<Extent>,

    /// Duration, after which no command begins; commands under way still count, with the time until
    /// they end. At the end of the range, jobs start over [default: until each job has done --size
    /// once]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub runtime: Option<Duration>,

    /// Run for all of --runtime; without it, a job of a job file ends after --size, as in fio
    #[arg(long = "time_based", alias = "time-based", value_name = "0|1", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "0", default_missing_value = "1", hide_default_value = true, value_parser = fio_numbers::flag)]
    #[arg(action = ArgAction::Set)]
    pub(crate) time_based: bool,

    /// Warm-up time before the measurement [default: 0]
    #[arg(long = "ramp_time", alias = "ramp-time", value_name = "TIME", value_parser = parse_time)]
    pub ramp_time: Option<Duration>,

    /// Share of reads in a mixed workload, in percent [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    pub rwmixread: Option<u8>,

    /// Maximum number of commands per second of each job
    #[arg(long = "rate_iops", alias = "rate-iops", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub rate_iops: Option<u64>,

    /// Number of writes of a job between Flush commands, 0 for none [default: 0]
    #[arg(long, value_name = "N")]
    pub fsync: Option<u32>,

    /// Durability of writes: sync and dsync write with FUA, as the kernel does to a device opened
    /// with O_SYNC or O_DSYNC [default: none]
    #[arg(long, value_name = "MODE")]
    pub sync: Option<SyncMode>,

    /// Seed of the random order [default: 1]
    #[arg(long, value_name = "N")]
    pub randseed: Option<u64>,

    /// Verify all data, see below
    #[arg(long, value_name = "METHOD", num_args = 0..=1, require_equals = true, default_missing_value = "crc32c")]
    pub verify: Option<VerifyMethod>,

    /// File that records acknowledged writes, see below
    #[arg(long, value_name = "FILE", conflicts_with = "job_file")]
    pub(crate) verify_state: Option<PathBuf>,

    /// Check a namespace against the record of --verify-state, without writing
    #[arg(long, requires = "verify_state")]
    #[arg(conflicts_with_all = ["kind", "size", "offset", "offset_increment", "runtime", "rate_iops", "fsync", "sync", "verify"])]
    pub(crate) verify_only: bool,
}

#[cfg(any(test, feature = "testing"))]
impl BenchFlags {
    /// The flags in `arguments`, for tests.
    pub fn of(arguments: &str) -> Self {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            flags: BenchFlags,
        }
        Only::parse_from(std::iter::once("test").chain(arguments.split_whitespace())).flags
    }
}
