//! The flags of `selvedge doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::control::ControlFlags;
use super::top::parse_interval;

/// What is looked at.
#[derive(Debug, Args)]
#[command(after_help = "It looks at this machine twice: its NVMe/TCP connections, the kernel's and
Selvedge's, and the network by which they go; and at the targets that run here, or the
one of --control. It tells the causes that it has seen, the one that costs most first:
the figures that show it, the cure, what that should bring, and the command for it.
What it could not look at, it says. It changes nothing, and puts no load on anything:
to an address of -a, it makes a connection and closes it again. As root it sees more.

With --measure it reads from the namespace for four seconds between the two looks, one
command at a time and 32 at a time, and tells what their time was spent on. That is
load on the target. Options of bench for the connection follow after two hyphens.

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
pub(crate) struct DoctorFlags {
    /// Address of a target; several are paths. Without one, all connections are looked at
    #[arg(short = 'a', long, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) traddr: Vec<String>,

    /// Port of that target
    #[arg(short = 's', long, value_name = "PORT", default_value_t = 4420)]
    pub(crate) trsvcid: u16,

    /// Only connections to this subsystem
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<String>,

    /// Seconds from the first look to the second
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub(crate) interval: Duration,

    /// Read from a namespace of that subsystem between the looks, and tell what the time was spent on: it is load on the target
    #[arg(long, requires = "traddr", conflicts_with = "sysroot", help_heading = "Measurement")]
    pub(crate) measure: bool,

    /// Namespace to read from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..0xffff_fffe))]
    #[arg(requires = "measure", help_heading = "Measurement")]
    pub(crate) nsid: u32,

    /// Options of `bench` for the connection, such as --dhchap-secret-file, --tls-key-file, --hostnqn
    #[arg(last = true, value_name = "BENCH OPTIONS", requires = "measure", help_heading = "Measurement")]
    pub(crate) bench_options: Vec<String>,

    /// Look at a recorded machine instead of this one: a file of --record, or a folder
    #[arg(long, value_name = "PATH", conflicts_with = "control", help_heading = "Machine")]
    pub(crate) sysroot: Option<PathBuf>,

    /// Write all that was read into a file, which --sysroot takes on any machine
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub(crate) record: Option<PathBuf>,

    /// Compare with an earlier report (-o json): which causes are gone, still there, or new
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) before: Option<PathBuf>,

    /// Write the report as an HTML page, too
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) page: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) control: ControlFlags,
}
