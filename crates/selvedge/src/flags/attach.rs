//! The flags of `attach`: the connection and path options of `bench`, where the disk shall be, and what is done with disks that
//! are attached.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Subcommand};
use engine::address::HostAddress;
use nvme::discovery::Nqn;

use super::bench::PathFlags;
use super::connection::ConnectionFlags;
use super::log::LoggingFlags;
use super::nbd_tls::NbdTlsFlags;
use super::{EngineFlag, OutputFlags};

/// Where NBD clients connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NbdPlace {
    /// A Unix socket in the runtime directory, named after the namespace.
    #[default]
    Default,
    /// This Unix socket.
    Unix(PathBuf),
    /// This address.
    Tcp(SocketAddr),
}

impl FromStr for NbdPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("write unix: and the path of a socket".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => address(text)
                .map(Self::Tcp)
                .map_err(|error| format!("{error}; a place for NBD clients is unix:PATH or ADDR:PORT")),
        }
    }
}

/// The address that is meant, of this machine. Of several that a name has, it is the first.
fn address(text: &str) -> Result<SocketAddr, String> {
    let written: HostAddress = text.parse()?;
    if written.port().is_none() {
        return Err(format!("`{text}` has no port"));
    }
    let found = written.local(0)?;
    let first = found.first().ok_or_else(|| format!("the name `{text}` has no address"))?;
    first.socket_addr().map_err(|error| format!("`{text}`: {error}"))
}

#[derive(Debug, Args)]
#[command(after_help = "Block devices:
  --ublk makes each namespace a block device of this machine, /dev/ublkbN, and
  prints its name. The kernel's driver has to be loaded (modprobe ublk_drv, Linux
  6.5 or later). Unmount before you end it. When its process is killed, the device
  stays and requests wait: attach recover takes it over. Members of the group ublk
  may make devices of their own, which go when their process is killed.

Clients:
  An NBD client opens a namespace by the name that is its number; without a name
  it gets the first. The URI that is printed says all of it. Requests have to be
  whole blocks of the namespace; clients learn the block size when they connect.

Virtual machines:
  --vhost-user makes a socket for QEMU's vhost-user-blk-pci, cloud-hypervisor's
  --disk vhost_user=true, and others. One front end is served at a time; the
  next is served when it has gone. The guest's memory has to be shared.

Paths:
  All addresses are paths to one disk. While none is there, requests wait, as
  long as --ctrl-loss-tmo and --fast_io_fail_tmo say; then they fail. After an
  attach process that was killed, writes wait until its own have ended.

Examples:
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --ublk
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --nbd unix:disk.nbd
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --nsid 1,2 --nbd 127.0.0.1:10809
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --nbd 127.0.0.1:10809 --nbd-tls-psk-file keys.psk
  selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --vhost-user disk.vhost
  selvedge attach list")]
#[command(group = ArgGroup::new("disk").required(true).args(["ublk", "nbd", "vhost_user"]))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AttachFlags {
    #[command(subcommand)]
    pub(crate) action: Option<AttachAction>,

    /// NQN of the subsystem [default: the only one that the target shows]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) nqn: Option<Nqn>,

    /// Namespaces to attach, each a disk
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..0xffff_fffe))]
    pub(crate) nsid: Vec<u32>,

    /// Make each namespace a block device of this machine, /dev/ublkbN; needs the kernel's ublk driver, and root or the group ublk
    #[arg(long, help_heading = "Disk")]
    pub(crate) ublk: bool,

    /// Serve NBD clients: on the Unix socket unix:PATH, or on ADDR:PORT, in clear unless there is a certificate or a file of keys
    /// for TLS [default: a socket in the runtime directory]
    #[arg(long, value_name = "PLACE", num_args = 0..=1, default_missing_value = "", value_parser = place)]
    #[arg(help_heading = "Disk")]
    pub(crate) nbd: Option<NbdPlace>,

    /// Serve a virtual machine monitor (QEMU, cloud-hypervisor) on this Unix socket, as a vhost-user-blk device; given once for
    /// each namespace
    #[arg(long, value_name = "PATH", help_heading = "Disk")]
    pub(crate) vhost_user: Vec<PathBuf>,

    /// Let nobody write
    #[arg(long, help_heading = "Disk")]
    pub(crate) read_only: bool,

    /// Threads that serve disks, each with an I/O queue on every path: an NBD client or a virtqueue is served by one of them, and
    /// a block device has a queue for each [default: the number of processors for a block device, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128))]
    #[arg(help_heading = "Disk")]
    pub(crate) threads: Option<u16>,

    /// Entries of each queue, and of those of a block device
    #[arg(short = 'Q', long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(2..=1024))]
    #[arg(help_heading = "Disk")]
    pub(crate) queue_size: u16,

    #[command(flatten)]
    pub(crate) nbd_tls: NbdTlsFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) paths: PathFlags,

    /// What carries this side's I/O
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "This program's own options")]
    pub(crate) engine: EngineFlag,

    /// Longest time a thread polls before sleeping, in microseconds; 0 never polls [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    #[arg(help_heading = "This program's own options")]
    pub(crate) poll_us: Option<u64>,

    #[command(flatten)]
    pub(crate) log: LoggingFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

impl AttachFlags {
    /// Log options of this process.
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
    /// List this user's attached disks, also those whose process is gone
    #[command(after_help = "Example:
  selvedge attach list")]
    List {
        /// Print what udev's rules need to name this block device, KEY=\"value\" on each line
        #[arg(long, value_name = "DEVICE", value_parser = device_node, conflicts_with = "output_format")]
        udev: Option<DeviceNode>,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Serve all disks of a file, each by a connection of its own, in one process
    #[command(
        after_help = "The file has a table [disk.NAME] for each, and [defaults] for what they have in common.
Settings are attach's long options, with _ for -. A disk that fails is told, and
the others are served on.

Examples:
  selvedge attach serve --config attach.toml
  selvedge attach serve --config attach.toml --check"
    )]
    Serve {
        /// The file, attach.toml
        #[arg(short = 'c', long, value_name = "FILE")]
        config: PathBuf,
        /// Serve these of its disks alone
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        disk: Vec<String>,
        /// Read the file and those that it names, and connect to nothing
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        log: LoggingFlags,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// End the processes of attached disks, and take away what processes have left that are gone
    #[command(
        after_help = "A process ends when all of its disks are named. What waits for a block device whose process is gone
fails. Unmount first: a device that is in use is refused.

Examples:
  selvedge attach detach /dev/ublkb0
  selvedge attach detach disk.nbd
  selvedge attach detach all"
    )]
    Detach {
        /// Block devices, sockets, addresses of NBD servers, or all
        #[arg(required = true, value_name = "DEVICE|SOCKET|ADDR:PORT|all")]
        disks: Vec<String>,
        /// Take away block devices that are in use, too: their users get I/O errors
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Go on with another program in place of processes that have attached disks, whose users notice a pause and nothing else
    Upgrade(UpgradeAttachFlags),
    /// Take over block devices whose process was killed: requests that wait for them go on, without an error
    #[command(
        after_help = "It connects as the command line of that process says, in its working directory, and
serves in the foreground until Ctrl-C, SIGTERM or SIGHUP, as attach does. Where several
processes are gone, it starts one for each.

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
    after_help = "The next process starts with the command line of the one that serves, connects to its
targets, takes its clients over and goes on; the former one ends. If anything goes
wrong, the former process serves as before.

Examples:
  selvedge attach upgrade
  selvedge attach upgrade disk.nbd --if-changed"
)]
pub(crate) struct UpgradeAttachFlags {
    /// Disks whose processes go on: block devices, sockets, addresses of NBD servers, or all
    #[arg(value_name = "DEVICE|SOCKET|ADDR:PORT|all", default_value = "all")]
    pub(crate) disks: Vec<String>,

    /// The process that goes on, as in a service's reload
    #[arg(long, value_name = "PID", conflicts_with = "disks")]
    pub(crate) process: Option<u32>,

    /// The program to go on with [default: this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,

    /// Do nothing where a process runs this very program already, as in a service's reload
    #[arg(long)]
    pub(crate) if_changed: bool,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// The number of `/dev/ublkbN` or `/dev/ublkcN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceNode(pub(crate) u32);

fn device_node(text: &str) -> Result<DeviceNode, String> {
    let name = text.trim_start_matches("/dev/");
    let number = name.strip_prefix("ublkb").or_else(|| name.strip_prefix("ublkc"));
    let number = number.and_then(|number| number.parse().ok());
    number.map(DeviceNode).ok_or_else(|| "write /dev/ublkbN or /dev/ublkcN".to_owned())
}

/// Which block devices are recovered.
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

fn place(text: &str) -> Result<NbdPlace, String> {
    if text.is_empty() { Ok(NbdPlace::Default) } else { text.parse() }
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
    fn a_place_is_a_socket_an_address_or_left_out() {
        let nbd = |arguments: &str| AttachFlags::of(&format!("-a 127.0.0.1 {arguments}")).nbd;
        assert_eq!(nbd("--nbd"), Some(NbdPlace::Default));
        assert_eq!(nbd("--nbd unix:a.nbd"), Some(NbdPlace::Unix("a.nbd".into())));
        assert_eq!(nbd("--nbd [::1]:10809"), Some(NbdPlace::Tcp("[::1]:10809".parse().unwrap())));
        assert_eq!(nbd("--vhost-user a --vhost-user b"), None);
        assert_eq!(nbd("--ublk"), None);
        for wrong in ["unix:", "a.nbd", "localhost:1", "1.2.3.4"] {
            assert!(wrong.parse::<NbdPlace>().is_err(), "{wrong}");
        }
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
