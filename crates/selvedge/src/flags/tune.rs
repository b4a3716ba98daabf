//! The flags of `tune`. Which machine is looked at, and what of it, is asked in the same way by all of its actions.

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
pub(crate) struct TuneFlags {
    #[command(subcommand)]
    pub(crate) action: TuneAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TuneAction {
    /// Show where the packets of each NVMe/TCP queue go: NIC queue, interrupt, CPU, worker
    #[command(after_help = "It shows this machine's network interfaces with their queues, and for each
connection of an NVMe/TCP queue (the kernel's initiator, selvedge's, and
targets) the receive queue that the interface chooses for it, the interrupt
and the CPU that serve the queue, and whether the queue's worker is on that
CPU. It changes nothing. Without root it shows what it may read, and says
what root would add.

Examples:
  selvedge tune show
  selvedge tune show --interface eth0 --picture queues.html
  selvedge tune show --record machine.recording
  selvedge tune show --sysroot machine.recording -o json")]
    Show(ShowFlags),
    /// Plan a queue of its own for each flow, served by its worker's CPU; change nothing
    #[command(after_help = PLAN_HELP)]
    Plan(PlanFlags),
    /// Make the plan's changes, as root, after writing down what was
    #[command(after_help = "The plan is made as `selvedge tune plan` makes it. What each setting was is
written to a journal before it is changed; when a change fails, or at Ctrl-C,
those before it are undone. A process that is killed in the middle leaves the
journal, and `selvedge tune revert` brings everything back, byte for byte.
Nothing is touched that the plan does not name. A restart of the machine undoes
everything as well.

Examples:
  selvedge tune apply --dry-run
  selvedge tune apply --interface eth0
  selvedge tune apply --interface veth0 --queues 4
  selvedge tune revert")]
    Apply(ApplyFlags),
    /// Bring every setting back to what it was before `tune apply`, also after a crash
    #[command(after_help = "Examples:
  selvedge tune revert
  selvedge tune revert -o json")]
    Revert(RevertFlags),
    /// Recommend queues, outstanding I/O, congestion control, MTU and sysctls, each with its reason
    #[command(
        after_help = "With --sweep the advice on queues and outstanding I/O is what was measured there;
without, it is the rule for queues, Little's law, and the table of a published
study of one host (`docs/tune.md` has it). The address is connected to three
times, to see the round trip.

Examples:
  selvedge tune advise -a 10.0.0.2 --bs 4k --outstanding 256
  selvedge tune advise -a 10.0.1.2,10.0.2.2 --goal throughput
  selvedge tune advise -a 10.0.0.2 --sweep runs/monday
  selvedge tune advise -a 10.0.0.2 --sysroot machine.recording --cores 16"
    )]
    Advise(AdviseFlags),
}

const PLAN_HELP: &str = "The rule for I/O queues is that of the Linux RFC: no more than the interface has
combined queues (else receive and transmit queues), and than CPUs run. Flows
that are there get a receive queue each: by ntuple rules where the NIC takes
them, else by entries of its RSS table. The queue's interrupt goes to the
worker's CPU where that is on the NIC's node, else to a free CPU there; workers
of programs move along, the kernel's cannot be moved. XPS is set to match.
Without flows, the plan gets an interface (--interface) ready for as many as
the rule allows.

Examples:
  selvedge tune plan
  selvedge tune plan --interface eth0 --shell
  selvedge tune plan --picture planned.html
  selvedge tune plan --interface eth0 --queues max
  selvedge tune plan --sysroot machine.recording --model";

/// What a plan shall be like.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WishFlags {
    /// Give the interfaces this many queues, or as many as they can have and CPUs run [default: as they are]
    #[arg(long, value_name = "N|max", value_parser = queues, help_heading = "Plan")]
    pub(crate) queues: Option<QueuesWanted>,

    /// Use only these CPUs, such as 0-7,16 [default: all online ones that are not isolated]
    #[arg(long, value_name = "LIST", help_heading = "Plan")]
    pub(crate) cpus: Option<CpuSet>,

    /// Use receive queues too that the interface's RSS table leaves out
    #[arg(long, help_heading = "Plan")]
    pub(crate) all_queues: bool,

    /// Serve a queue on its worker's CPU also where that is not on the NIC's node and the worker cannot be moved
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

    /// Say by a contention model with stated costs what it should bring; nothing is measured
    #[arg(long, help_heading = "Output")]
    pub(crate) model: bool,

    /// Draw how it would be after the plan: FILE.svg is the picture alone, FILE.html a page with the tables
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) picture: Option<PathBuf>,

    /// Print only the shell commands that make the changes
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

    /// Print what would be changed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Go on although irqbalance runs, which moves interrupts as it likes
    #[arg(long)]
    pub(crate) ignore_irqbalance: bool,

    #[command(flatten)]
    pub(crate) journal: JournalFlags,

    /// End by SIGKILL before this write, to the journal or to a setting: for tests of what a crash leaves behind
    #[arg(long, hide = true, value_name = "N")]
    pub(crate) kill_before_write: Option<u32>,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// What matters most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Goal {
    /// Short latency
    #[default]
    Latency,
    /// Many I/Os
    Throughput,
    /// Few processors
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

    /// CPUs that may be used for this [default: those that are online]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) cores: Option<u32>,

    /// Size of each command's data
    #[arg(long, value_name = "SIZE", default_value = "4k", help_heading = "Workload")]
    pub(crate) bs: Size,

    /// Commands that the workload keeps outstanding in all [default: what the link needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    #[arg(help_heading = "Workload")]
    pub(crate) outstanding: Option<u32>,

    /// What matters most
    #[arg(long, value_name = "GOAL", default_value = "latency", help_heading = "Workload")]
    pub(crate) goal: Goal,

    /// A sweep of this machine and target, as `selvedge sweep --output` left it
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

/// Where the journal is.
#[derive(Clone, Debug, Args)]
pub(crate) struct JournalFlags {
    /// Journal of what was before [default: /run/selvedge-tune/, one for each network namespace]
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
}

/// Which machine is looked at.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MachineFlags {
    /// Look at a recorded machine instead of this one: a folder, or a file of --record
    #[arg(long, value_name = "PATH", help_heading = "Machine")]
    pub(crate) sysroot: Option<PathBuf>,

    /// Only these interfaces, what they stand on, and the queues that use them [default: all that matter]
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', help_heading = "Machine")]
    pub(crate) interface: Vec<String>,

    /// Write all that was read into a file, which --sysroot takes on any machine
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowFlags {
    #[command(flatten)]
    pub(crate) machine: MachineFlags,

    /// Draw it: FILE.svg is the picture alone, FILE.html a page with the tables
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) picture: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}
