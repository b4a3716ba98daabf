//! Flags of `attach`: connection and path options of `bench`, the kind of disk, and actions on
//! attached disks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Subcommand};
use engine::address::HostAddress;
use nvme::discovery::Nqn;

use super::bench::PathFlags;
use super::confinement::ConfinementKindFlags;
use super::connection::ConnectionFlags;
use super::log::LoggingFlags;
use super::nbd_tls::NbdTlsFlags;
use super::{EngineFlag, OutputFlags};

/// Listening address for NBD clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NbdEndpoint {
    /// Unix socket in the runtime directory, named after the namespace.
    #[default]
    Default,
    /// Unix socket at this path.
    Unix(PathBuf),
    /// TCP address.
    Tcp(SocketAddr),
}

impl FromStr for NbdEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("write unix: and the path of a socket".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            // No address looks like this.
            None if text.contains('/') || text.ends_with(".nbd") || text.ends_with(".sock") => {
                Ok(Self::Unix(text.into()))
            }
            None => address(text)
                .map(Self::Tcp)
                .map_err(|error| format!("{error}; an address for NBD clients is unix:PATH or ADDR:PORT")),
        }
    }
}

/// The address that is meant, of this machine. Of several that a name has, it is the first.
fn address(text: &str) -> Result<SocketAddr, String> {
    let written = text.parse::<HostAddress>().map_err(|error| error.to_string())?;
    if written.port().is_none() {
        return Err(format!("`{text}` has no port"));
    }
    let found = written.local(0).map_err(|error| error.to_string())?;
    let first = found.first().ok_or_else(|| format!("the name `{text}` has no address"))?;
    first.socket_addr().map_err(|error| format!("`{text}`: {error}"))
}

/// Listener for metrics of attached disks.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct HostMetricsFlags {
    /// Address of Prometheus metrics, at /metrics: the disks' paths, and the time of commands by
    /// path and stage. On loopback, all clients may read them
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    metrics: Option<SocketAddr>,

    /// Allow another address than loopback, and every client of that address to read metrics
    #[arg(long, requires = "metrics")]
    metrics_for_anybody: bool,
}

impl HostMetricsFlags {
    /// Address to listen on, if there is to be a listener.
    ///
    /// # Errors
    /// When every client of a network could read the metrics, and no flag says that it may.
    pub(crate) fn listener(&self) -> Result<Option<SocketAddr>, String> {
        match self.metrics {
            Some(address) if !self.metrics_for_anybody && !address.ip().is_loopback() => Err(format!(
                "{address} would let every client read the metrics: listen on loopback, or allow that with \
                 --metrics-for-anybody"
            )),
            address => Ok(address),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Block devices:
  --ublk creates a block device of this machine for each namespace, /dev/ublkbN, and
  prints its name. The kernel's driver must be loaded (modprobe ublk_drv, Linux 6.5
  or later). The first signal waits until the device is not in use, a second one does
  not. If the process is killed, the device stays and requests wait for attach
  recover. Members of the group ublk may create devices of their own, which are
  removed if their process is killed.

Clients:
  The export name of a namespace is its number; the default export is the first
  namespace. attach prints the URI of each export. Requests must be whole blocks of
  the namespace; clients learn the block size when they connect.

Virtual machines:
  --vhost-user creates a socket for QEMU's vhost-user-blk-pci, cloud-hypervisor's
  --disk vhost_user=true, and others. It serves one front end at a time. The guest's
  memory must be shared, and of memfd, tmpfs or hugetlbfs.

Paths:
  All addresses are paths to one disk. Without a path, requests wait for the time of
  --ctrl-loss-tmo and --fast_io_fail_tmo; then they fail. After an attach process was
  killed, writes wait until those of the killed process have ended.

Examples:
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --ublk
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --nbd unix:disk.nbd
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --nsid 1,2 --nbd 127.0.0.1:10809
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --nbd 127.0.0.1:10809 \\
      --nbd-tls-psk-file keys.psk
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --vhost-user disk.vhost
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --ublk --metrics 127.0.0.1:9465
  selvedge attach list")]
#[command(group = ArgGroup::new("disk").required(true).args(["ublk", "nbd", "vhost_user"]))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AttachFlags {
    #[command(subcommand)]
    pub(crate) action: Option<AttachAction>,

    /// NQN of the subsystem [default: the only one that the target shows]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<Nqn>,

    /// Namespace IDs, each a disk
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..0xffff_fffe))]
    pub(crate) nsid: Vec<u32>,

    /// Create a block device of this machine for each namespace, /dev/ublkbN; needs the kernel's
    /// ublk driver, and root or the group ublk
    #[arg(long, help_heading = "Disk")]
    pub(crate) ublk: bool,

    /// Attach for writing although another process of this machine has a namespace attached for
    /// writing, or its block device waits for attach recover: two file systems on it destroy each
    /// other
    #[arg(long, help_heading = "Disk")]
    pub(crate) allow_second_attach: bool,

    /// Serve NBD clients on the Unix socket unix:PATH or on ADDR:PORT, in clear without a
    /// certificate or a key file for TLS [default: a socket in the runtime directory]
    #[arg(long, value_name = "PLACE", num_args = 0..=1, default_missing_value = "", value_parser = endpoint)]
    #[arg(help_heading = "Disk")]
    pub(crate) nbd: Option<NbdEndpoint>,

    /// Unix socket for a virtual machine monitor (QEMU, cloud-hypervisor), served as a
    /// vhost-user-blk device; given once for each namespace
    #[arg(long, value_name = "PATH", help_heading = "Disk")]
    pub(crate) vhost_user: Vec<PathBuf>,

    /// Refuse writes
    #[arg(long, help_heading = "Disk")]
    pub(crate) read_only: bool,

    /// Threads that serve disks, each with an I/O queue on every path: one thread serves an NBD
    /// client or a virtqueue, and a block device has a queue for each [default: the number of
    /// processors for a block device, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128))]
    #[arg(help_heading = "Disk")]
    pub(crate) threads: Option<u16>,

    /// Entries of each queue, and of each queue of a block device
    #[arg(short = 'Q', long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(2..=1024))]
    #[arg(help_heading = "Disk")]
    pub(crate) queue_size: u16,

    #[command(flatten)]
    pub(crate) nbd_tls: NbdTlsFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) paths: PathFlags,

    /// I/O interface of this side
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "This program's own options")]
    pub(crate) engine: EngineFlag,

    /// Longest time a thread polls before it sleeps, in microseconds; 0 never polls;
    /// at most 50 on epoll and with one CPU [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    #[arg(help_heading = "This program's own options")]
    pub(crate) poll_us: Option<u64>,

    #[command(flatten)]
    pub(crate) metrics: HostMetricsFlags,

    #[command(flatten)]
    pub(crate) confinement: ConfinementKindFlags,

    #[command(flatten)]
    pub(crate) log: LoggingFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

impl AttachFlags {
    /// Returns the log options of a process that serves disks; `None` for other actions.
    pub(crate) const fn log(&self) -> Option<&LoggingFlags> {
        match &self.action {
            None => Some(&self.log),
            Some(AttachAction::Serve { log, .. } | AttachAction::Recover { log, .. }) => Some(log),
            Some(_) => None,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum AttachAction {
    /// List this user's attached disks, also those whose process has ended
    #[command(after_help = "Example:
  selvedge attach list")]
    List {
        /// Print the properties by which udev's rules name this block device, KEY="value" on each
        /// line
        #[arg(long, value_name = "DEVICE", value_parser = device_node, conflicts_with = "output_format")]
        udev: Option<DeviceNode>,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Serve all disks of a file in one process, each by a connection of its own
    #[command(
        after_help = "The file has a table [disk.NAME] for each disk, and [defaults] for common settings.
Settings are attach's long options, with _ for -. If a disk fails, its error is
printed; the others continue.

Examples:
  selvedge attach serve --config attach.toml
  selvedge attach serve --config attach.toml --check"
    )]
    Serve {
        /// Path of attach.toml
        #[arg(short = 'c', long, value_name = "FILE")]
        config: PathBuf,
        /// Names of the disks to serve [default: all]
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        disk: Vec<String>,
        /// Check the file and the files that it names, without connecting
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        metrics: HostMetricsFlags,
        #[command(flatten)]
        confinement: ConfinementKindFlags,
        #[command(flatten)]
        log: LoggingFlags,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// End the processes of attached disks, and remove the leftovers of ended processes
    #[command(
        after_help = "A process ends when all of its disks are named. Requests that wait for a block device
whose process has ended fail. Unmount first: a device that is in use is refused.

Examples:
  selvedge attach detach /dev/ublkb0
  selvedge attach detach disk.nbd
  selvedge attach detach all"
    )]
    Detach {
        /// Block devices, sockets, addresses of NBD servers, or all
        #[arg(required = true, value_name = "DEVICE|SOCKET|ADDR:PORT|all")]
        disks: Vec<String>,
        /// Remove block devices that are in use, too: their users get I/O errors
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Replace the program of processes with attached disks; their users see a pause
    Upgrade(UpgradeAttachFlags),
    /// Take over block devices whose process was killed: pending requests continue, without an
    /// error
    #[command(
        after_help = "It uses the command line and the working directory of the killed process, and serves
in the foreground until Ctrl-C, SIGTERM or SIGHUP, as attach does. For several killed
processes, it starts one process each.

Examples:
  selvedge attach recover
  selvedge attach recover --ublk-device 0"
    )]
    Recover {
        /// Number of the block device /dev/ublkbN, whose process may have had more, or all
        #[arg(long, value_name = "N|all", default_value = "all", value_parser = ublk_device)]
        ublk_device: UblkDevice,
        #[command(flatten)]
        log: LoggingFlags,
        #[command(flatten)]
        output: OutputFlags,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "A new process starts with the command line of the previous one, connects to its targets
and takes over its clients; then the old process exits. If a step fails, the
old process serves on.

Examples:
  selvedge attach upgrade
  selvedge attach upgrade disk.nbd --if-changed"
)]
pub(crate) struct UpgradeAttachFlags {
    /// Disks whose processes are upgraded: block devices, sockets, addresses of NBD servers, or all
    #[arg(value_name = "DEVICE|SOCKET|ADDR:PORT|all", default_value = "all")]
    pub(crate) disks: Vec<String>,

    /// Process ID of the process to upgrade, as in a service's reload
    #[arg(long, value_name = "PID", conflicts_with = "disks")]
    pub(crate) process: Option<u32>,

    /// Program to start [default: this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,

    /// Do nothing if a process runs this very program already, as in a service's reload
    #[arg(long)]
    pub(crate) if_changed: bool,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Number of `/dev/ublkbN` or `/dev/ublkcN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceNode(pub(crate) u32);

fn device_node(text: &str) -> Result<DeviceNode, String> {
    let name = text.trim_start_matches("/dev/");
    let number = name.strip_prefix("ublkb").or_else(|| name.strip_prefix("ublkc"));
    let number = number.and_then(|number| number.parse().ok());
    number.map(DeviceNode).ok_or_else(|| "write /dev/ublkbN or /dev/ublkcN".to_owned())
}

/// Block devices to recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UblkDevice {
    All,
    Number(u32),
}

fn ublk_device(text: &str) -> Result<UblkDevice, String> {
    let number = text.trim_start_matches("/dev/").trim_start_matches("ublkb");
    match number.parse() {
        _ if text == "all" => Ok(UblkDevice::All),
        Ok(number) => Ok(UblkDevice::Number(number)),
        Err(_) => Err("write the number of a block device /dev/ublkbN, or all".to_owned()),
    }
}

fn endpoint(text: &str) -> Result<NbdEndpoint, String> {
    if text.is_empty() { Ok(NbdEndpoint::Default) } else { text.parse() }
}

#[cfg(test)]
impl AttachFlags {
    /// The flags in `arguments`, for tests.
    pub(crate) fn of(arguments: &str) -> Self {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            flags: AttachFlags,
        }
        Only::parse_from(std::iter::once("test").chain(arguments.split_whitespace())).flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_socket_an_address_or_left_out() {
        let nbd = |arguments: &str| AttachFlags::of(&format!("-a 127.0.0.1 {arguments}")).nbd;
        assert_eq!(nbd("--nbd"), Some(NbdEndpoint::Default));
        assert_eq!(nbd("--nbd unix:a.nbd"), Some(NbdEndpoint::Unix("a.nbd".into())));
        for path in ["a.nbd", "/run/a", "./a", "a.sock"] {
            assert_eq!(nbd(&format!("--nbd {path}")), Some(NbdEndpoint::Unix(path.into())), "{path}");
        }
        assert_eq!(nbd("--nbd [::1]:10809"), Some(NbdEndpoint::Tcp("[::1]:10809".parse().unwrap())));
        assert_eq!(nbd("--vhost-user a --vhost-user b"), None);
        assert_eq!(nbd("--ublk"), None);
        let by_name = nbd("--nbd localhost:10809");
        assert!(matches!(by_name, Some(NbdEndpoint::Tcp(address)) if address.ip().is_loopback()));
        for wrong in ["unix:", "a", "localhost", "localhost:x", "1.2.3.4"] {
            assert!(wrong.parse::<NbdEndpoint>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn metrics_leave_the_machine_only_if_anybody_may_read_them() {
        let listener =
            |text: &str| AttachFlags::of(&format!("-a 127.0.0.1 --ublk {text}")).metrics.listener();
        let address = |text: &str| Some(text.parse::<SocketAddr>().unwrap());
        assert_eq!(listener(""), Ok(None));
        for local in ["127.0.0.1:9465", "[::1]:9465"] {
            assert_eq!(listener(&format!("--metrics {local}")), Ok(address(local)));
        }
        let refused = listener("--metrics 0.0.0.0:9465").unwrap_err();
        assert!(refused.contains("0.0.0.0:9465") && refused.contains("--metrics-for-anybody"), "{refused}");
        assert_eq!(listener("--metrics 0.0.0.0:9465 --metrics-for-anybody"), Ok(address("0.0.0.0:9465")));
    }

    #[test]
    fn a_device_has_a_number() {
        for text in ["7", "ublkb7", "/dev/ublkb7"] {
            assert_eq!(ublk_device(text), Ok(UblkDevice::Number(7)));
        }
        assert_eq!(ublk_device("all"), Ok(UblkDevice::All));
        assert!(ublk_device("sda").is_err() && ublk_device("").is_err());
        for text in ["ublkb7", "/dev/ublkb7", "/dev/ublkc7"] {
            assert_eq!(device_node(text), Ok(DeviceNode(7)));
        }
        assert!(device_node("7").is_err() && device_node("/dev/sda").is_err());
    }

    /// Command lines are kept in files (`commands::attach::record`).
    #[test]
    fn no_flag_carries_a_secret() {
        use clap::CommandFactory as _;
        let flags = crate::flags::Flags::command();
        let attach = flags.find_subcommand("attach").expect("there is one");
        let about_secrets =
            |id: &str| ["secret", "psk", "password", "key"].iter().any(|word| id.contains(word));
        let mut names = Vec::new();
        for argument in attach.get_arguments().filter(|argument| about_secrets(argument.get_id().as_str())) {
            let id = argument.get_id().as_str();
            let is_file = argument.get_value_names().is_some_and(|names| names == ["FILE"]);
            assert!(is_file || id.starts_with("keep_alive"), "{id} may carry a secret");
            names.push(id);
        }
        assert!(names.contains(&"tls_key_file") && names.contains(&"dhchap_secret_file"), "{names:?}");
    }
}
