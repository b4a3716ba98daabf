//! Flags of the commands that show a target, and of `demo`.

use std::path::PathBuf;

use clap::Args;
use nvme::discovery::Nqn;

use super::OutputFlags;
use super::connection::ConnectionFlags;

#[derive(Debug, Args)]
#[command(after_help = "demo starts a target and a host in this process, on a free port of 127.0.0.1, with
256 MiB of memory and a file in a temporary folder. It discovers the target, writes
and verifies data, measures, and removes all of it.

Example:
  selvedge demo")]
pub(crate) struct DemoFlags {
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "The NQN is read from /etc/nvme/hostnqn, the file of nvme-cli, or derived from the
machine. On the target, `selvedge host allow SUBSYSTEM NQN` lets the host in.

Examples:
  selvedge host-nqn
  selvedge host-nqn -o json")]
pub(crate) struct HostNqnFlags {
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge discover -a 192.168.0.231
  selvedge discover -t tcp -a 192.168.0.231 -s 8009 -o json")]
pub(crate) struct DiscoverFlags {
    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge identify -a 192.168.0.231
  selvedge identify -a 192.168.0.231 -n nqn.2026-01.org.example:disks --nsid 1 -o json")]
pub(crate) struct IdentifyFlags {
    /// NQN of the subsystem [default: the only one that the target shows]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<Nqn>,

    /// Namespace ID of the only namespace to show
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..0xffff_fffe))]
    pub(crate) nsid: Option<u32>,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge list -a 192.168.0.231
  selvedge list -a 192.168.0.231 -J /etc/nvme/config.json
  selvedge list -a 192.168.0.231 -n nqn.2026-01.org.example:disks -o json")]
pub(crate) struct ListFlags {
    /// NQN of the subsystem [default: all that the target's discovery log shows]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<Nqn>,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Options of `generate`, which packages use; hidden in `--help`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  selvedge generate --output generated")]
pub(crate) struct GenerateFlags {
    /// Folder for man/ and completions/
    #[arg(long, value_name = "DIR")]
    pub(crate) output: PathBuf,
}
