//! Flags of `connect` and `disconnect`: the connection options of the other commands and those of
//! the kernel's initiator, named as in nvme-cli.

use clap::{ArgGroup, Args};
use nvme::discovery::Nqn;

use super::OutputFlags;
use super::connection::ConnectionFlags;

#[derive(Debug, Args)]
#[command(after_help = "Subsystems:
  Without -n, connect reads the discovery log at the address, and connects all
  subsystems in it. Existing connections are left unchanged. With several
  addresses, each is a path, and a controller of its own.

Secrets:
  Secrets are read from files, as with the other commands. A TLS key is inserted
  into the kernel's keyring; tlshd (ktls-utils) does the kernel's handshakes.

At boot:
  --persistent adds the connection to nvme-cli's files: to /etc/nvme/config.json
  with -n, and as a line to /etc/nvme/discovery.conf without. `systemctl enable
  nvmf-autoconnect.service` connects it at boot.

Examples:
  selvedge connect -a 192.168.0.10 -n nqn.2026-01.org.example:disks
  selvedge connect -a 192.168.0.10 -n nqn.2026-01.org.example:disks --dry-run
  selvedge connect -a 10.0.1.2,10.0.2.2 -n nqn.2026-01.org.example:disks -l -1 --persistent
  selvedge connect -a 192.168.0.10 --tune")]
pub(crate) struct ConnectFlags {
    /// NQN of the subsystem [default: all that the target shows]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<Nqn>,

    /// Limit I/O queues to those of the network interface, and steer each to its CPU's receive
    /// queue, as `tune apply` does; `tune revert` undoes it
    #[arg(long)]
    pub(crate) tune: bool,

    /// Add the connection to nvme-cli's files for the next boot
    #[arg(long)]
    pub(crate) persistent: bool,

    /// Connect although a process of this machine has a namespace of the subsystem attached for
    /// writing, or its block device waits for attach recover: two file systems on it destroy each
    /// other
    #[arg(long)]
    pub(crate) allow_second_attach: bool,

    /// Print the kernel's connect options, without secrets, and do not connect
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) kernel: KernelFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Options of the kernel's initiator beside addresses and the host's identity.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of the kernel's initiator, as nvme-cli has them")]
pub(crate) struct KernelFlags {
    /// Number of I/O queues [default: the number of online CPUs]
    #[arg(short = 'i', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) nr_io_queues: Option<u16>,

    /// Number of additional queues for writes; the others are for reads
    #[arg(short = 'W', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) nr_write_queues: Option<u16>,

    /// Number of additional polled queues, for requests that ask for polling
    #[arg(short = 'P', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) nr_poll_queues: Option<u16>,

    /// Entries of each I/O queue [default: 128]
    #[arg(short = 'Q', long, value_name = "N", value_parser = clap::value_parser!(u16).range(16..=1024))]
    pub(crate) queue_size: Option<u16>,

    /// Delay in seconds between attempts to reconnect a lost controller [default: 10]
    #[arg(short = 'c', long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) reconnect_delay: Option<u32>,

    /// Time in seconds until a lost controller is removed, -1 for never [default: 600]
    #[arg(short = 'l', long, value_name = "SECONDS", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i32).range(-1..))]
    pub(crate) ctrl_loss_tmo: Option<i32>,

    /// Time in seconds until commands fail without a controller, -1 for never [default: -1]
    #[arg(short = 'F', long = "fast_io_fail_tmo", alias = "fast-io-fail-tmo", value_name = "SECONDS")]
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..))]
    pub(crate) fast_io_fail_tmo: Option<i32>,

    /// Connect even if a controller with the same names and addresses exists
    #[arg(short = 'D', long)]
    pub(crate) duplicate_connect: bool,

    /// Disable flow control of submission queues
    #[arg(short = 'd', long)]
    pub(crate) disable_sqflow: bool,

    /// Keyring of the kernel for the TLS key, by name or number
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYRING)]
    pub(crate) keyring: String,
}

/// Keyring in which the kernel looks by default.
pub(crate) const DEFAULT_KEYRING: &str = ".nvme";

#[derive(Debug, Args)]
#[command(after_help = "A disk that is mounted, or otherwise in use, is not disconnected: unmount it
first. With several paths, this applies to the last one.

Examples:
  selvedge disconnect -n nqn.2026-01.org.example:disks
  selvedge disconnect -d nvme0
  selvedge disconnect --all-of -a 192.168.0.10 --persistent")]
#[command(group = ArgGroup::new("which").required(true).args(["nqn", "device", "all_of"]))]
pub(crate) struct DisconnectFlags {
    /// NQN of a subsystem: disconnect all of its controllers, or with -a its paths there
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<Nqn>,

    /// Name of a controller, such as nvme0
    #[arg(short = 'd', long, value_name = "NAME")]
    pub(crate) device: Option<String>,

    /// Disconnect all subsystems at the addresses of -a
    #[arg(long, requires = "traddr")]
    pub(crate) all_of: bool,

    /// Address of the target: an IP address or a name
    #[arg(short = 'a', long, value_name = "ADDR", value_delimiter = ',', conflicts_with = "device")]
    pub(crate) traddr: Vec<String>,

    /// Port of the target [default: any]
    #[arg(short = 's', long, value_name = "PORT", requires = "traddr")]
    pub(crate) trsvcid: Option<u16>,

    /// Remove the connection from /etc/nvme/config.json and /etc/nvme/discovery.conf, too
    #[arg(long)]
    pub(crate) persistent: bool,

    /// Disconnect disks that are in use, too: unwritten data is lost
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
