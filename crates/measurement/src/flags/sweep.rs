//! Flags of `sweep`: its own, and those of `bench`, many of which take a list here and so become
//! axes. The values of an option are those of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use serde::{Deserialize, Serialize};

use super::OutputFlags;
use super::bench::{BenchFlags, IoQueues};
use super::control::ControlTlsFlags;
use crate::spec::endpoint::Endpoint;
use crate::spec::size::parse_time;

/// Options of `bench` that take a list, as they are spelled, in the order in which points vary: the
/// last one changes first.
pub const AXES: [&str; 16] = [
    "rw",
    "rwmixread",
    "bs",
    "transport",
    "iopolicy",
    "congestion",
    "engine",
    "poll-us",
    "sync",
    "fsync",
    "queue-size",
    "numjobs",
    "iodepth",
    "nr-io-queues",
    "match-hw-queues",
    "rate_iops",
];

/// Options of `bench` that a sweep does not use, or has in a form of its own.
const LEFT_OUT: [&str; 10] = [
    "job_file",
    // It has its own.
    "destroy_data",
    "output",
    "ignore_unsupported",
    "auto_trial",
    "verify",
    "verify_state",
    "verify_only",
    "time_based",
    "output_format",
];

/// Option of `bench` from the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Long name, without leading hyphens.
    pub option: String,
    /// Values; none for a switch.
    pub values: Vec<String>,
}

/// Predefined sweeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// First look in under two minutes: 4 KiB random reads, some depths and queues
    Quick,
    /// Outstanding I/O x queues, 4 KiB random reads: the best value of -i
    #[value(alias = "seed-000")]
    #[serde(alias = "seed-000")]
    Queues,
    /// 4 KiB random reads and writes, 16 jobs x depth 32 over 1 GiB, a minute each: the quality of
    /// the network
    #[value(alias = "seed-002")]
    #[serde(alias = "seed-002")]
    Network,
    /// 16 KiB, 70 % reads, load in steps up to saturation: the throughput within 2 ms
    #[value(alias = "seed-003")]
    #[serde(alias = "seed-003")]
    Load,
    /// Outstanding I/O x queues, 4 KiB random writes: volatile, with FUA, with a Flush every 64; the
    /// loads at which acknowledgement, not queues, is the limit
    Writes,
    /// Outstanding I/O x queues, random reads and writes of 4 KiB to 1 MiB: the size from which
    /// bandwidth is the limit, and the best value of -i below and above
    Blocks,
}

/// Options of `sweep` beside those of `bench`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sweep options")]
pub struct OwnFlags {
    /// Predefined sweep that supplies all options not given here
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub preset: Option<Preset>,

    /// Folder for the results [default: sweep-DATE-TIME]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub output: Option<PathBuf>,

    /// Folder of an interrupted sweep to resume, with its original options
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,

    /// Number of times to measure each point [default: 3]
    #[arg(long, value_name = "N", conflicts_with = "resume", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: Option<u32>,

    /// Rest before each measurement [default: 500ms]
    #[arg(long, value_name = "TIME", conflicts_with = "resume", value_parser = parse_time)]
    pub pause: Option<Duration>,

    /// Repeat each measurement, in rounds of --runtime, until five rounds in a row are steady, N
    /// rounds at most
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "25")]
    #[arg(conflicts_with = "resume", value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub steady: Option<u32>,

    /// Measure in the order of the lists; without it, the order is random, and drifts affect all
    /// points alike
    #[arg(long, conflicts_with = "resume")]
    pub(crate) in_order: bool,

    /// Latency limit of 99 % of the commands; the highest throughput within it is marked
    #[arg(long, value_name = "TIME", conflicts_with = "resume", value_parser = parse_time)]
    pub(crate) latency_target: Option<Duration>,

    /// Overwrite data of the namespace; without this, sweep asks on a terminal, and refuses
    /// elsewhere
    #[arg(long)]
    pub destroy_data: bool,

    /// Print the points and the expected duration, and measure nothing
    #[arg(long, conflicts_with = "resume")]
    pub dry_run: bool,

    /// Send results to the target after each measurement, under this name, for its console and API;
    /// needs the role operate. The target is that of --control, else the only target on this
    /// machine [default name: the folder's]
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    pub publish: Option<Option<String>>,

    /// Address of a Selvedge target's control API, unix:PATH or tls:HOST:PORT, to measure its
    /// processor time too, and for --publish
    #[arg(long, value_name = "ADDR", conflicts_with = "target_pid")]
    pub control: Option<Endpoint>,

    /// File with an API token, for --control with TCP
    #[arg(long, value_name = "FILE", requires = "control")]
    pub control_token_file: Option<PathBuf>,

    #[command(flatten)]
    pub tls: ControlTlsFlags,

    /// Process ID of any target on this machine, to measure its processor time too
    #[arg(long, value_name = "PID")]
    pub target_pid: Option<u32>,

    #[command(flatten)]
    pub output_flags: OutputFlags,
}

/// Options of a sweep.
#[derive(Clone, Debug)]
pub struct SweepFlags {
    pub own: OwnFlags,
    /// Options of `bench` from the command line.
    pub given: Vec<Given>,
}

impl Args for SweepFlags {
    fn augment_args(command: Command) -> Command {
        OwnFlags::augment_args(command.args(bench_arguments())).after_help(AFTER_HELP)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SweepFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let own = OwnFlags::from_arg_matches(matches)?;
        let given: Vec<Given> = bench_arguments().filter_map(|arg| given(&arg, matches)).collect();
        if let (Some(_), Some(first)) = (&own.resume, given.first()) {
            let what = format!(
                "--resume continues with the options in the folder, and does not accept --{}",
                first.option
            );
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, what + "\n"));
        }
        Ok(Self { own, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns `bench`'s options as `sweep` takes them.
fn bench_arguments() -> impl Iterator<Item = Arg> {
    let bench = BenchFlags::augment_args(Command::new("bench"));
    // fio's options that `bench` passes over are hidden there.
    let wanted = |arg: &&Arg| !LEFT_OUT.contains(&arg.get_id().as_str()) && !arg.is_hide_set();
    let arguments: Vec<Arg> = bench.get_arguments().filter(wanted).cloned().collect();
    arguments.into_iter().map(|arg| {
        // What must be there is there by a preset, or is asked for when a point is made.
        let arg = without_demands(arg).required(false);
        if !AXES.contains(&arg.get_long().unwrap_or_default()) {
            return arg;
        }
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let values: Vec<String> =
            arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let help = if values.is_empty() { help } else { format!("{help}: {}", values.join(", ")) };
        // What may stand alone in a line of `bench` has its values here.
        let arg = arg.num_args(1).require_equals(false);
        arg.value_parser(NonEmptyStringValueParser::new()).value_delimiter(',').value_name("LIST").help(help)
    })
}

/// Returns a copy of the option that is not required in the absence of another one; clap cannot
/// withdraw that.
fn without_demands(arg: Arg) -> Arg {
    if arg.get_long() != Some("rw") {
        return arg;
    }
    let help = arg.get_help().cloned().unwrap_or_default();
    let parser = arg.get_value_parser().clone();
    let plain = Arg::new(arg.get_id().clone()).long("rw").visible_alias("readwrite").help(help);
    plain.value_parser(parser).help_heading(WORKLOAD_HEADING)
}

/// Heading of `bench` for its workload options.
const WORKLOAD_HEADING: &str = "Workload options, as fio has them";

/// Returns the values of `arg` from the command line; `None` without any.
fn given(arg: &Arg, matches: &ArgMatches) -> Option<Given> {
    let id = arg.get_id().as_str();
    if matches.value_source(id) != Some(ValueSource::CommandLine) {
        return None;
    }
    let values = match arg.get_action() {
        ArgAction::SetTrue => Vec::new(),
        _ => matches.get_raw(id)?.map(|value| value.to_string_lossy().into_owned()).collect(),
    };
    Some(Given { option: arg.get_long()?.to_owned(), values })
}

/// Parses a command line of `bench`.
///
/// # Errors
/// Message with the option and its values.
pub fn bench_flags(options: &[Given]) -> Result<BenchFlags, String> {
    let mut line = vec!["bench".to_owned()];
    for Given { option, values } in options {
        line.push(match values.as_slice() {
            [] => format!("--{option}"),
            values => format!("--{option}={}", values.join(",")),
        });
    }
    let flags = BenchFlags::of_line(line)?;
    if flags.nr_io_queues == Some(IoQueues::Auto) {
        return Err("--nr-io-queues auto: a sweep measures each number itself, as in -i 1..16".to_owned());
    }
    Ok(flags)
}

const AFTER_HELP: &str = "Axes:
  Options with a LIST take several values; each combination is a point:
  --iodepth 1,8,32 -i 1,2,4 are nine points. 1..16 is short for 1,2,4,8,16.
  Options without effect on a point (--rwmixread for reads) do not multiply it.

Load:
  --rate_iops takes commands per second of each job, as bench does, and also
  shares such as 10%,50%,100%,120% of the maximum of the same point, which is
  measured first. Commands are then due at fixed times, independent of earlier
  ones. The report shows their latency since they were due, and since they
  were sent.

Results:
  Each finished measurement is appended to DIR/sweep.jsonl; after an
  interruption, `--resume DIR` measures the remaining points. report.html needs
  only a browser; beside it are report.json, report.md, and each chart and table
  as SVG and CSV. `selvedge report DIR` rebuilds them, `selvedge compare A B`
  compares two sweeps.

Examples:
  T='-a 127.0.0.1'
  selvedge sweep $T --preset quick
  selvedge sweep $T --preset queues --runtime 5 --output first
  selvedge sweep $T --rw randread --bs 4k,16k --iodepth 1..64 -i 1,2,4
  selvedge sweep $T --preset load --destroy-data
  selvedge sweep $T --preset writes --size 1g --destroy-data
  selvedge sweep $T --preset quick --publish --control unix:/run/selvedge/4420.sock
  selvedge sweep --resume first";

#[cfg(any(test, feature = "testing"))]
impl SweepFlags {
    /// The flags in `arguments`, for tests.
    pub fn of(arguments: &str) -> Result<Self, clap::Error> {
        let command = Self::augment_args(Command::new("sweep").no_binary_name(true));
        command
            .try_get_matches_from(arguments.split_whitespace())
            .and_then(|matches| Self::from_arg_matches(&matches))
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Switch;
    use super::*;

    fn given(arguments: &str) -> Vec<Given> {
        SweepFlags::of(arguments).unwrap().given
    }

    #[test]
    fn every_axis_is_an_option_of_bench() {
        let bench = BenchFlags::augment_args(Command::new("bench"));
        for axis in AXES {
            assert!(bench.get_arguments().any(|arg| arg.get_long() == Some(axis)), "{axis}");
        }
        for id in LEFT_OUT {
            assert!(bench.get_arguments().any(|arg| arg.get_id() == id), "{id}");
        }
    }

    #[test]
    fn lists_and_switches_are_kept_as_typed() {
        let given = given("-a 10.0.0.1,10.0.0.2 -n nqn.a -g --iodepth 1,8 -i 2 -k 5");
        let of =
            |name: &str| given.iter().find(|given| given.option == name).map(|given| given.values.clone());
        assert_eq!(of("iodepth").unwrap(), ["1", "8"]);
        assert_eq!(of("traddr").unwrap(), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(of("nr-io-queues").unwrap(), ["2"]);
        assert_eq!(of("hdr-digest").unwrap(), Vec::<String>::new());
        assert_eq!(of("transport"), None);
    }

    #[test]
    fn a_point_is_a_line_of_bench() {
        let flags = bench_flags(&given("-a 10.0.0.1 -n nqn.a -g --rw randread --iodepth 8 -i 2")).unwrap();
        assert_eq!((flags.workload.iodepth, flags.nr_io_queues), (Some(8), Some(IoQueues::Count(2))));
        assert!(flags.connection.hdr_digest);
        for (arguments, expected) in [
            ("--iodepth 0", "--iodepth"),
            ("--iodepth 9e9", "--iodepth"),
            ("--bs k", "--bs"),
            ("-i 4000", "128"),
            ("-i auto", "1..16"),
            ("--match-hw-queues maybe", "on"),
            ("--rw randomly", "randread"),
        ] {
            let line = format!("-a 10.0.0.1 -n nqn.a --rw read {arguments}");
            let line = if arguments.starts_with("--rw") { line.replace("--rw read ", "") } else { line };
            let error = bench_flags(&given(&line)).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{arguments}: {error}");
        }
        let missing = bench_flags(&given("--rw randread")).unwrap_err();
        assert!(missing.contains("--traddr"), "{missing}");
    }

    #[test]
    fn a_switch_of_bench_is_an_axis_with_values() {
        let line = "-a 10.0.0.1 -n nqn.a --rw randread --match-hw-queues on,off --iodepth 8";
        let values = |given: &[Given]| {
            given.iter().find(|given| given.option == "match-hw-queues").map(|given| given.values.clone())
        };
        assert_eq!(values(&given(line)).unwrap(), ["on", "off"]);
        for (value, switch) in [("on", Switch::On), ("off", Switch::Off)] {
            let flags = bench_flags(&given(&line.replace("on,off", value))).unwrap();
            assert_eq!((flags.match_hw_queues, flags.workload.iodepth), (Some(switch), Some(8)));
        }
        assert!(SweepFlags::of("-a 10.0.0.1 -n nqn.a --rw randread --match-hw-queues").is_err());
    }

    #[test]
    fn resuming_takes_no_other_options() {
        assert!(SweepFlags::of("--resume x").is_ok());
        assert!(SweepFlags::of("--resume x --iodepth 4").unwrap_err().to_string().contains("--iodepth"));
        assert!(SweepFlags::of("--resume x --repeat 4").is_err());
    }
}
