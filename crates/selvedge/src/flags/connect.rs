//! The flags of `connect` and `disconnect`: the other commands' connection options, and those that the kernel's initiator has
//! besides, named as nvme-cli names them.

use clap::{ArgGroup, Args};
use nvme::discovery::Nqn;

use super::OutputFlags;
use super::connection::ConnectionFlags;

#[derive(Debug, Args)]
#[command(after_help = "Subsystems:
  Without -n the discovery service at the address is asked, and all subsystems
  that it shows are connected. What is connected already is left as it is. Each
  address of several is a path, and a controller of its own.

Secrets:
  They come from files, as with the other commands. A TLS key is put into the
  kernel's keyring; the kernel's handshakes are done by tlshd (ktls-utils).

At boot:
  --persistent keeps the connection where nvme-cli looks at boot: in
  /etc/nvme/config.json with -n, and as a line of /etc/nvme/discovery.conf
  without. `systemctl enable nvmf-autoconnect.service` has it connected then.

Examples:
  selvedge connect -a 192.168.0.10 -n nqn.2026-01.org.example:disks
  selvedge connect -a 192.168.0.10 -n nqn.2026-01.org.example:disks --dry-run
  selvedge connect -a 10.0.1.2,10.0.2.2 -n nqn.2026-01.org.example:disks -l -1 --persistent
  selvedge connect -a 192.168.0.10 --tune")]
pub(crate) struct ConnectFlags {
    /// NQN of the subsystem [default: all that the target shows]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<Nqn>,

    /// Make no more I/O queues than the network interface is good for, and steer each to its CPU's receive queue: what
    /// `tune apply` does, which `tune revert` undoes
    #[arg(long)]
    pub(crate) tune: bool,

    /// Keep it for the next boot, where nvme-cli looks then
    #[arg(long)]
    pub(crate) persistent: bool,

    /// Print what the kernel would be asked for, without secrets, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) kernel: KernelFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// What the kernel's initiator takes besides an address and who this host is.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of the kernel's initiator, as nvme-cli has them")]
pub(crate) struct KernelFlags {
    /// I/O queues [default: the number of online CPUs]
    #[arg(short = 'i', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) nr_io_queues: Option<u16>,

    /// Queues for writes besides, so that the others are for reads
    #[arg(short = 'W', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) nr_write_queues: Option<u16>,

    /// Queues that are polled besides, for requests that ask for it
    #[arg(short = 'P', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) nr_poll_queues: Option<u16>,

    /// Entries of each I/O queue [default: 128]
    #[arg(short = 'Q', long, value_name = "N", value_parser = clap::value_parser!(u16).range(16..=1024))]
    pub(crate) queue_size: Option<u16>,

    /// Seconds between attempts to connect a lost controller again [default: 10]
    #[arg(short = 'c', long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) reconnect_delay: Option<u32>,

    /// Seconds after which a lost controller is given up, -1 for never [default: 600]
    #[arg(short = 'l', long, value_name = "SECONDS", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i32).range(-1..))]
    pub(crate) ctrl_loss_tmo: Option<i32>,

    /// Seconds after which commands fail while the controller is lost, -1 for never [default: -1]
    #[arg(long = "fast_io_fail_tmo", alias = "fast-io-fail-tmo", value_name = "SECONDS")]
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..))]
    pub(crate) fast_io_fail_tmo: Option<i32>,

    /// Type of service of the connections' packets
    #[arg(short = 'T', long, value_name = "N")]
    pub(crate) tos: Option<u8>,

    /// Connect although there is a controller with the same names and addresses
    #[arg(short = 'D', long)]
    pub(crate) duplicate_connect: bool,

    /// Do without flow control of submission queues
    #[arg(short = 'd', long)]
    pub(crate) disable_sqflow: bool,

    /// Keyring of the kernel for the TLS key: its name or number
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYRING)]
    pub(crate) keyring: String,
}

/// The keyring in which the kernel looks by default.
pub(crate) const DEFAULT_KEYRING: &str = ".nvme";

#[derive(Debug, Args)]
#[command(after_help = "A disk that is mounted, or otherwise in use, is not disconnected: unmount it
first. With several paths, this is about the last one.

Examples:
  selvedge disconnect -n nqn.2026-01.org.example:disks
  selvedge disconnect -d nvme0
  selvedge disconnect --all-of -a 192.168.0.10 --persistent")]
#[command(group = ArgGroup::new("which").required(true).args(["nqn", "device", "all_of"]))]
pub(crate) struct DisconnectFlags {
    /// All controllers of the subsystem with this NQN, or with -a its paths there
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<Nqn>,

    /// This controller, such as nvme0
    #[arg(short = 'd', long, value_name = "NAME")]
    pub(crate) device: Option<String>,

    /// All subsystems at the addresses of -a
    #[arg(long, requires = "traddr")]
    pub(crate) all_of: bool,

    /// Address of the target: an IP address or a name
    #[arg(short = 'a', long, value_name = "ADDR", value_delimiter = ',', conflicts_with = "device")]
    pub(crate) traddr: Vec<String>,

    /// Port of the target [default: any]
    #[arg(short = 's', long, value_name = "PORT", requires = "traddr")]
    pub(crate) trsvcid: Option<u16>,

    /// Take it out of /etc/nvme/config.json and /etc/nvme/discovery.conf too
    #[arg(long)]
    pub(crate) persistent: bool,

    /// Also disks that are in use: what is not yet written is lost
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[cfg(test)]
impl ConnectFlags {
    /// The flags in `arguments`, for tests.
    pub(crate) fn of(arguments: &str) -> Self {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            flags: ConnectFlags,
        }
        Only::parse_from(std::iter::once("test").chain(arguments.split_whitespace())).flags
    }
}
