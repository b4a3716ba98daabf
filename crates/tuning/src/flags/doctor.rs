//! Flags of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::control::ControlFlags;
use super::interval::parse_interval;

/// Options of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "doctor takes two samples of this machine: NVMe/TCP connections, the kernel's and
Selvedge's, their network, and the targets on this machine, or the one of --control. It
reports the causes found, the costliest first, each with the figures that show it, the
remedy, the expected gain, and the command. Data that it could not read is listed. It
changes nothing, and puts no load on the target: it connects to the addresses of -a, and
closes the connection again. As root it can read more.

With --measure, it reads from the namespace for four seconds between the two samples,
one command at a time and 32 at a time, and reports the time of each stage. That is load
on the target. Options of bench for the connection follow after two hyphens.

Examples:
  selvedge doctor
  selvedge doctor -a 10.0.0.2
  selvedge doctor -a 10.0.0.2 -n nqn.2026-01.org.example:disks -o json
  selvedge doctor -a 10.0.0.2 -n nqn.2026-01.org.example:disks --measure
  selvedge doctor -a 10.0.0.2 --measure -- --hdr-digest
  selvedge doctor --control unix:/run/selvedge/4420.sock --interval 2
  selvedge doctor --before earlier.json
  selvedge doctor --record machine.recording --page doctor.html
  selvedge doctor --sysroot machine.recording")]
pub struct DoctorFlags {
    /// Address of a target; several are paths [default: all connections of this machine]
    #[arg(short = 'a', long, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) traddr: Vec<String>,

    /// Port of the target
    #[arg(short = 's', long, value_name = "PORT", default_value_t = 4420)]
    pub(crate) trsvcid: u16,

    /// NQN of a subsystem whose connections are inspected [default: all]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<String>,

    /// Time between the two samples, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub(crate) interval: Duration,

    /// Read from a namespace of the subsystem between the samples, and report the time of each
    /// stage; this is load on the target
    #[arg(long, requires = "traddr", conflicts_with = "sysroot", help_heading = "Measurement")]
    pub(crate) measure: bool,

    /// Namespace ID to read from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..0xffff_fffe))]
    #[arg(requires = "measure", help_heading = "Measurement")]
    pub(crate) nsid: u32,

    /// Options of `bench` for the connection, such as --dhchap-secret-file, --tls-key-file, --hostnqn
    #[arg(last = true, value_name = "BENCH OPTIONS", requires = "measure", help_heading = "Measurement")]
    pub(crate) bench_options: Vec<String>,

    /// Recorded machine to inspect instead of this one: a file of --record, or a folder
    #[arg(long, value_name = "PATH", conflicts_with = "control", help_heading = "Machine")]
    pub(crate) sysroot: Option<PathBuf>,

    /// File that records all data read, for --sysroot on any machine
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub(crate) record: Option<PathBuf>,

    /// Earlier report (-o json) to compare with: causes that are gone, still there, or new
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) before: Option<PathBuf>,

    /// HTML page for the report
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) page: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) control: ControlFlags,
}
