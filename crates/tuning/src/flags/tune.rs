//! Flags of `tune`. All of its actions share those that choose the machine.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use topology::CpuSet;
use topology::plan::QueuesWanted;

use super::OutputFlags;
use crate::spec::size::Size;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge tune show
  selvedge tune show --interface eth0 --picture queues.html
  selvedge tune show --record machine.recording
  selvedge tune show --sysroot machine.recording -o json")]
pub struct TuneFlags {
    #[command(subcommand)]
    pub(crate) action: TuneAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TuneAction {
    /// Show the path of each NVMe/TCP queue's packets: NIC queue, interrupt, CPU, worker
    #[command(after_help = "The output lists this machine's network interfaces with their queues, and for
each connection of an NVMe/TCP queue (the kernel's initiator, selvedge's, and
targets) its receive queue, the interrupt and the CPU that serve that queue,
and if the queue's worker runs on that CPU. Nothing is changed. Without root,
the output is limited to readable files, and lists the missing ones.

Examples:
  selvedge tune show
  selvedge tune show --interface eth0 --picture queues.html
  selvedge tune show --record machine.recording
  selvedge tune show --sysroot machine.recording -o json")]
    Show(ShowFlags),
    /// Plan a receive queue for each flow, served by its worker's CPU; change nothing
    #[command(after_help = PLAN_HELP)]
    Plan(PlanFlags),
    /// Apply the plan as root, after recording the previous settings
    #[command(
        after_help = "The plan is that of `selvedge tune plan`. Each setting's previous value is written
to a journal before the change; if a change fails, or at Ctrl-C, all earlier
changes are undone. A killed process leaves the journal, and `selvedge tune
revert` restores all settings, byte for byte. Settings outside the plan are not
touched. A restart of the machine undoes all changes as well.

Examples:
  selvedge tune apply --dry-run
  selvedge tune apply --interface eth0
  selvedge tune apply --interface veth0 --queues 4
  selvedge tune revert"
    )]
    Apply(ApplyFlags),
    /// Restore every setting to its value before `tune apply`, also after a crash
    #[command(after_help = "Examples:
  selvedge tune revert
  selvedge tune revert -o json")]
    Revert(RevertFlags),
    /// Recommend queues, outstanding I/O, congestion control, MTU and sysctls, each with its reason
    #[command(
        after_help = "With --sweep, the advice on queues and outstanding I/O follows the measurements of
that sweep; without, it follows the rule for queues, Little's law, and the table
of a published study of one host (see `docs/tune.md`). The command connects to the
address three times, to measure the round trip.

Examples:
  selvedge tune advise -a 10.0.0.2 --bs 4k --outstanding 256
  selvedge tune advise -a 10.0.1.2,10.0.2.2 --goal throughput
  selvedge tune advise -a 10.0.0.2 --sweep runs/monday
  selvedge tune advise -a 10.0.0.2 --sysroot machine.recording --cores 16"
    )]
    Advise(AdviseFlags),
}

const PLAN_HELP: &str =
    "The number of I/O queues follows the Linux series of July 2026: at most the receive and
transmit queues of the card, and at most the online CPUs. The number that a kernel
with the series creates is shown beside that of this kernel, with the reason where
it says nothing (a VLAN, a tunnel).
Each existing flow gets a receive queue: by ntuple rules where the NIC supports
them, else by entries of its RSS table. The queue's interrupt goes to the
worker's CPU if that is on the NIC's node, else to a free CPU there; workers of
programs are moved along, the kernel's cannot be moved. XPS is set to match.
Without flows, the plan prepares an interface (--interface) for as many flows as
the rule allows.

Examples:
  selvedge tune plan
  selvedge tune plan --interface eth0 --shell
  selvedge tune plan --picture planned.html
  selvedge tune plan --interface eth0 --queues max
  selvedge tune plan --sysroot machine.recording --model";

/// Options of a plan.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WishFlags {
    /// Number of queues of the interfaces, or max for as many as they support and CPUs are online
    /// [default: unchanged]
    #[arg(long, value_name = "N|max", value_parser = queues, help_heading = "Plan")]
    pub(crate) queues: Option<QueuesWanted>,

    /// CPUs to use, such as 0-7,16 [default: all online CPUs that are not isolated]
    #[arg(long, value_name = "LIST", help_heading = "Plan")]
    pub(crate) cpus: Option<CpuSet>,

    /// Use receive queues outside the interface's RSS table, too
    #[arg(long, help_heading = "Plan")]
    pub(crate) all_queues: bool,

    /// Serve a queue on its worker's CPU even if it is not on the NIC's node and the worker cannot
    /// be moved
    #[arg(long, help_heading = "Plan")]
    pub(crate) follow_workers: bool,
}

fn queues(text: &str) -> Result<QueuesWanted, String> {
    match (text, text.parse::<u32>()) {
        ("max", _) => Ok(QueuesWanted::Most),
        (_, Ok(count @ 1..)) => Ok(QueuesWanted::Count(count)),
        _ => Err("it takes a number of queues, or `max`".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct PlanFlags {
    #[command(flatten)]
    pub(crate) machine: MachineFlags,

    #[command(flatten)]
    pub(crate) wishes: WishFlags,

    /// Estimate the benefit by a contention model with stated costs; nothing is measured
    #[arg(long, help_heading = "Output")]
    pub(crate) model: bool,

    /// File for a picture of the planned state: FILE.svg is the picture alone, FILE.html a page
    /// with the tables
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) picture: Option<PathBuf>,

    /// Print only the shell commands of the changes
    #[arg(long, conflicts_with = "output_format", help_heading = "Output")]
    pub(crate) shell: bool,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyFlags {
    #[command(flatten)]
    pub(crate) machine: MachineFlags,

    #[command(flatten)]
    pub(crate) wishes: WishFlags,

    /// Print the changes without making them
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Continue although irqbalance is running, which may move interrupts again
    #[arg(long)]
    pub(crate) ignore_irqbalance: bool,

    #[command(flatten)]
    pub(crate) journal: JournalFlags,

    /// End by SIGKILL before this write, to the journal or to a setting: for tests of crashes
    #[arg(long, hide = true, value_name = "N")]
    pub(crate) kill_before_write: Option<u32>,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Goal of a recommendation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Goal {
    /// Short latency
    #[default]
    Latency,
    /// High throughput
    Throughput,
    /// Little processor time
    Cpu,
}

#[derive(Debug, Args)]
pub(crate) struct AdviseFlags {
    #[command(flatten)]
    pub(crate) machine: MachineFlags,

    /// Address of the target; several are paths
    #[arg(short = 'a', long, value_name = "ADDR", required = true, value_delimiter = ',')]
    pub(crate) traddr: Vec<String>,

    /// Port of the target
    #[arg(short = 's', long, value_name = "PORT", default_value_t = 4420)]
    pub(crate) trsvcid: u16,

    /// Number of CPUs available for I/O [default: all online CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) cores: Option<u32>,

    /// Data size of each command
    #[arg(long, value_name = "SIZE", default_value = "4k", help_heading = "Workload")]
    pub(crate) bs: Size,

    /// Commands that the workload keeps outstanding in total [default: as many as the link needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    #[arg(help_heading = "Workload")]
    pub(crate) outstanding: Option<u32>,

    /// Goal
    #[arg(long, value_name = "GOAL", default_value = "latency", help_heading = "Workload")]
    pub(crate) goal: Goal,

    /// Folder of a sweep of this machine and target
    #[arg(long, value_name = "DIR", help_heading = "Workload")]
    pub(crate) sweep: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct RevertFlags {
    #[command(flatten)]
    pub(crate) journal: JournalFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Option for the journal.
#[derive(Clone, Debug, Args)]
pub(crate) struct JournalFlags {
    /// Journal of previous settings [default: a file for each network namespace in
    /// /run/selvedge-tune/]
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
}

/// Options for the inspected machine.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MachineFlags {
    /// Recorded machine to inspect instead of this one: a folder, or a file of --record
    #[arg(long, value_name = "PATH", help_heading = "Machine")]
    pub(crate) sysroot: Option<PathBuf>,

    /// Interfaces to inspect, with the interfaces below them and the queues that use them [default: all]
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', help_heading = "Machine")]
    pub(crate) interface: Vec<String>,

    /// File that records all data read, for --sysroot on any machine
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowFlags {
    #[command(flatten)]
    pub(crate) machine: MachineFlags,

    /// File for a picture: FILE.svg is the picture alone, FILE.html a page with the tables
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) picture: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}
