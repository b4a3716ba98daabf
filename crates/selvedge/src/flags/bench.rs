//! The flags of `bench`: connection options as nvme-cli has them, workload options as fio has them.

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
use crate::spec::extent::Extent;
use crate::spec::fio_numbers;
use crate::spec::size::{Size, parse_time};

/// What is read and written, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
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

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    /// For people
    #[default]
    Normal,
    /// For programs: the names in it stay
    Json,
    /// For programs that read what `fio --output-format=json` prints
    FioJson,
}

/// I/O queues of each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoQueues {
    /// This number.
    Count(u16),
    /// Those that trials show to be best.
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

/// Bytes of a command as fio has them: the one size of a list, too.
fn block_size(text: &str) -> Result<Size, String> {
    let size = fio_numbers::same_for_all(text);
    size.ok_or_else(|| format!("`{text}`: all commands have one size"))?.parse()
}

/// Something that is done or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    #[default]
    Off,
}

/// How data is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyMethod {
    /// Position, write count, writer and a CRC32C in every block
    Crc32c,
}

#[derive(Debug, Args)]
#[command(after_help = "Jobs and queues:
  Each job has --iodepth commands outstanding, and a thread of its own. Job j
  uses the queues j, j+numjobs, and so on; where there are fewer queues than
  jobs, the jobs of one queue share its thread. With --verify each job keeps
  to its own part of the range; without, all jobs use all of it.

Queues and the NIC:
  --match-hw-queues asks for as many I/O queues as the interface to the target
  has (and the machine CPUs), -i N for no more than N of them. It chooses
  source ports so that the NIC's hash gives each its own receive queue, and
  keeps each worker on the CPU that serves the queue. It needs no root and
  changes nothing; `selvedge tune` does that.
  -i auto begins with that number, runs short trials of this very workload,
  and takes more while the 99th percentile falls and CPUs are left, else fewer.
  A workload that writes does so in the trials too.

Writing:
  A workload that writes destroys what is there. Where data is found, somebody
  has to agree first: on the terminal, or with --destroy-data.

Verifying:
  --verify stamps every block that is written with its position, a count of
  its writes, the writer and a checksum, and checks each read exactly; after
  a workload that writes, everything written is read back. With --rw read or
  randread, it checks that blocks which an earlier run stamped are whole and
  in their place.
  --verify-state FILE keeps a record of what was acknowledged before each
  completed Flush (see --fsync). After the target has died and come back,
  --verify-only --verify-state FILE checks that nothing of it is lost or torn.

Job files:
  JOB_FILE is a job file of fio. Its sections run one after the other where
  stonewall stands between them, else at the same time. Options typed here win
  over those in the file. Options that would change the result and cannot be
  had are named with their line, and nothing runs unless --ignore-unsupported
  is given; those that mean nothing here (direct, ioengine, filename, ...) are
  named in a note, also where they are typed here. Where sections have different files, --nsid names as many
  namespaces, in the order in which the files appear.

Examples:
  T='-a 127.0.0.1'
  selvedge bench $T --rw randread --bs 4k --iodepth 32 --numjobs 4 --runtime 10
  selvedge bench $T --rw randread --iodepth 32 --runtime 1m --top -o json > run.json
  selvedge bench $T --rw randread --iodepth 32 --numjobs 8 --runtime 10 \\
      --match-hw-queues
  selvedge bench $T --rw randread --iodepth 32 --numjobs 8 --runtime 10 -i auto
  selvedge bench $T --rw randwrite --size 256m --verify
  selvedge bench $T --rw randwrite --size 64m --runtime 30 --fsync 32 \\
      --verify-state state.jsonl
  selvedge bench $T --verify-only --verify-state state.jsonl
  selvedge bench job.fio $T --runtime 10 --output-format=fio-json")]
pub(crate) struct BenchFlags {
    /// Run the jobs of this file of fio's, see below
    #[arg(value_name = "JOB_FILE")]
    pub(crate) job_file: Option<PathBuf>,

    /// Run without the options of fio's that cannot be had
    #[arg(long, help_heading = "This program's own options")]
    pub(crate) ignore_unsupported: bool,

    /// NQN of the subsystem [default: the only one that the target shows]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<Nqn>,

    /// Namespace to use; of a job file with several files, a list with one namespace for each in their order
    #[arg(long, value_name = "N[,N]", default_value = "1", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..0xffff_fffe))]
    pub(crate) nsid: Vec<u32>,

    /// Write to the namespace although it has data; without this a person is asked, and a program refused
    #[arg(long, help_heading = "This program's own options")]
    pub(crate) destroy_data: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    /// I/O queues of each path, each a connection, or `auto` to find the best number [default: one per job]
    #[arg(short = 'i', long, visible_alias = "queues-per-path", value_name = "N")]
    pub(crate) nr_io_queues: Option<IoQueues>,

    /// No more I/O queues than the NIC has, each on a receive queue of its own, its worker on the CPU that serves it
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub(crate) match_hw_queues: Option<Switch>,

    /// Length of each trial of -i auto, the first third of which is not counted [default: 3]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "This program's own options")]
    pub(crate) auto_trial: Option<Duration>,

    /// Entries of each queue [default: 128, or more where --iodepth needs it]
    #[arg(short = 'Q', long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub(crate) queue_size: Option<u16>,

    #[command(flatten)]
    pub(crate) paths: PathFlags,

    /// Send a write whose answer was lost again at once. UNSAFE: the first one may still come, and undo a newer write;
    /// it is here to show just that
    #[arg(long, help_heading = "Path options, as nvme-cli and the Linux kernel have them")]
    pub(crate) no_quiesce: bool,

    #[command(flatten)]
    pub(crate) workload: WorkloadFlags,

    #[command(flatten)]
    pub(crate) fio: FioOptions,

    /// What carries this side's I/O
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "This program's own options")]
    pub(crate) engine: EngineFlag,

    /// Longest time this side polls before sleeping, in microseconds; 0 never polls [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    #[arg(help_heading = "This program's own options")]
    pub(crate) poll_us: Option<u64>,

    /// Show a full-screen view while it runs: paths, connections, workers
    #[arg(long, help_heading = "This program's own options")]
    pub(crate) top: bool,

    /// Write the results to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// How to print the results
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "normal", help_heading = "Output")]
    pub(crate) output_format: BenchFormat,
}

impl BenchFlags {
    /// The namespace of a workload, or of the first file of a job file.
    pub(crate) fn first_nsid(&self) -> u32 {
        self.nsid.first().copied().unwrap_or(1)
    }

    /// The flags of a line that another command has made up, `bench` first.
    ///
    /// # Errors
    /// The option, and what it takes.
    pub(crate) fn of_line(line: Vec<String>) -> Result<Self, String> {
        let command = Self::augment_args(Command::new("bench"));
        let flags = command.try_get_matches_from(line).and_then(|matches| Self::from_arg_matches(&matches));
        flags.map_err(|error| {
            let text = error.to_string();
            let lines =
                text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
            let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
            lines.join(" ").trim_start_matches("error: ").to_owned()
        })
    }
}

/// Several paths, and connections that are lost.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Path options, as nvme-cli and the Linux kernel have them")]
pub(crate) struct PathFlags {
    /// Which path a command takes: numa, round-robin, queue-depth, latency
    #[arg(long, value_name = "POLICY", default_value = "latency")]
    pub(crate) iopolicy: IoPolicy,

    /// Seconds between attempts to connect a lost path again; the first follows at once [default: 10]
    #[arg(short = 'c', long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) reconnect_delay: Option<u32>,

    /// Seconds after which a lost path is given up, -1 for never [default: 600; of bench with
    /// one path and without -c, 0]
    #[arg(short = 'l', long, value_name = "SECONDS", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i32).range(-1..))]
    pub(crate) ctrl_loss_tmo: Option<i32>,

    /// Seconds after which commands fail while no path is there, -1 for never [default: -1]
    #[arg(long = "fast_io_fail_tmo", alias = "fast-io-fail-tmo", value_name = "SECONDS")]
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..))]
    pub(crate) fast_io_fail_tmo: Option<i32>,

    /// Congestion control of the connections by its name in the kernel, or auto to follow each connection's path
    /// [default: system, the kernel's own]
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,

    /// With -t mptcp: set the addresses and limits that MPTCP needs with `ip mptcp`, as root, and undo it at the end
    #[arg(long)]
    pub(crate) configure_mptcp: bool,
}

/// The workload.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload options, as fio has them")]
pub(crate) struct WorkloadFlags {
    /// What to do
    #[arg(
        long = "rw",
        visible_alias = "readwrite",
        value_name = "KIND",
        required_unless_present_any = ["verify_only", "job_file"]
    )]
    pub(crate) kind: Option<Kind>,

    /// Size of each command's data [default: 4k]
    #[arg(long, value_name = "SIZE", value_parser = block_size)]
    pub(crate) bs: Option<Size>,

    /// Commands each job keeps outstanding [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) iodepth: Option<u32>,

    /// Number of jobs [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) numjobs: Option<u32>,

    /// Bytes of the namespace to use, or a share of it such as 50% [default: all from --offset on]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Extent>,

    /// Where in the namespace to begin, also as a share of it [default: 0]
    #[arg(long, value_name = "SIZE")]
    pub(crate) offset: Option<Extent>,

    /// How much further each job begins than the one before [default: 0]
    #[arg(long = "offset_increment", alias = "offset-increment", value_name = "SIZE")]
    pub(crate) offset_increment: Option<Extent>,

    /// Run for this long, starting over at the end of the range [default: until each job has done --size once]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) runtime: Option<Duration>,

    /// Use all of --runtime; without it, a job of a job file ends after --size, as in fio
    #[arg(long = "time_based", alias = "time-based", value_name = "0|1", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "0", default_missing_value = "1", hide_default_value = true, value_parser = fio_numbers::flag)]
    #[arg(action = ArgAction::Set)]
    pub(crate) time_based: bool,

    /// Run for this long before measuring begins [default: 0]
    #[arg(long = "ramp_time", alias = "ramp-time", value_name = "TIME", value_parser = parse_time)]
    pub(crate) ramp_time: Option<Duration>,

    /// How many of 100 commands are reads, where both are done [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    pub(crate) rwmixread: Option<u8>,

    /// Commands per second that each job does at most
    #[arg(long = "rate_iops", alias = "rate-iops", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) rate_iops: Option<u64>,

    /// Flush after every N writes of a job, 0 for never [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) fsync: Option<u32>,

    /// Seed of the random order [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) randseed: Option<u64>,

    /// Check all data, see below
    #[arg(long, value_name = "METHOD", num_args = 0..=1, require_equals = true, default_missing_value = "crc32c")]
    pub(crate) verify: Option<VerifyMethod>,

    /// Keep a record of acknowledged writes in this file, see below
    #[arg(long, value_name = "FILE", conflicts_with = "job_file")]
    pub(crate) verify_state: Option<PathBuf>,

    /// Write nothing; check a namespace against the record in --verify-state
    #[arg(long, requires = "verify_state")]
    #[arg(conflicts_with_all = ["kind", "size", "offset", "offset_increment", "runtime", "rate_iops", "fsync", "verify"])]
    pub(crate) verify_only: bool,
}

#[cfg(test)]
impl BenchFlags {
    /// The flags in `arguments`, for tests.
    pub(crate) fn of(arguments: &str) -> Self {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            flags: BenchFlags,
        }
        Only::parse_from(std::iter::once("test").chain(arguments.split_whitespace())).flags
    }
}
