//! The flags of every command that asks a running target, and those of the small ones among them.

use std::path::PathBuf;
use std::time::Duration;

use authentication::{Group, Hash};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use engine::address::HostAddress;
use engine::units::parse_time;
use nvme::discovery::Nqn;

use super::OutputFlags;
use super::connection::Transport;
use super::tls_use::TlsUse;
use crate::spec::endpoint::Endpoint;

/// How to know the target, and to be known by it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ControlTlsFlags {
    /// The certificate that has signed the target's, or the target's own, in PEM [default: what the system trusts]
    #[arg(long, value_name = "FILE")]
    pub(crate) control_ca: Option<PathBuf>,

    /// A certificate to show, in PEM, in place of a token
    #[arg(long, value_name = "FILE", requires = "control_key")]
    pub(crate) control_cert: Option<PathBuf>,

    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "control_cert")]
    pub(crate) control_key: Option<PathBuf>,
}

/// Which target to ask.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Target")]
pub(crate) struct ControlFlags {
    /// Where the target is administered: unix:PATH, tls:HOST:PORT or tcp:ADDR:PORT [default: the only one that runs here]
    #[arg(long, value_name = "ADDR")]
    pub(crate) control: Option<Endpoint>,

    /// A file with a token, for tls: and tcp:
    #[arg(long, value_name = "FILE")]
    pub(crate) control_token_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) tls: ControlTlsFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "The next process is started with the command line of the target. It opens what that
serves, takes its hosts over, and goes on; the former process ends. Hosts notice a
pause. If something is in the way, the target serves as before.

Examples:
  selvedge upgrade
  selvedge upgrade --control unix:/run/selvedge/4420.sock --program /usr/bin/selvedge")]
pub(crate) struct UpgradeFlags {
    /// The program to go on with [default: this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,

    /// Do nothing if the target runs this very program already, as in a service's reload
    #[arg(long)]
    pub(crate) if_changed: bool,

    #[command(flatten)]
    pub(crate) control: ControlFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  selvedge status")]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    pub(crate) control: ControlFlags,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  selvedge gateways
  selvedge gateways drain rack2
  selvedge gateways resume rack2
  selvedge gateways remove rack2-old"
)]
pub(crate) struct GatewaysFlags {
    #[command(subcommand)]
    pub(crate) action: Option<GatewaysAction>,
    #[command(flatten)]
    pub(crate) control: ControlFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatewaysAction {
    /// Have a gateway serve nothing as long as another one can, for maintenance
    #[command(
        after_help = "Its namespaces are served by other gateways, to which hosts turn by themselves; their connections to it stay. It gets
nothing back when it or its machine starts again, until `selvedge gateways resume`. Refused where hosts would be left
without a path.

Example:
  selvedge gateways drain rack2"
    )]
    Drain {
        /// Its name, as `selvedge gateways` shows it
        name: String,
        /// Do so even if no other gateway can serve now, or hosts have no path to one
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Let a gateway serve again that was drained
    #[command(after_help = "Example:
  selvedge gateways resume rack2")]
    Resume {
        /// Its name, as `selvedge gateways` shows it
        name: String,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Take a gateway out of the group that has ended or was given up, and will not come back
    #[command(
        after_help = "Its namespaces go to the load-balancing groups that have the fewest, while hosts use them. Another gateway
may have its number then. One that is alive is refused: end it first.

Example:
  selvedge gateways remove rack2-old"
    )]
    Remove {
        /// Its name, as `selvedge gateways` shows it
        name: String,
        #[command(flatten)]
        control: ControlFlags,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge log
  selvedge log info
  selvedge log info,engine::target=debug

It lasts until the target ends; --log-level of `selvedge serve` says with which it starts.")]
pub(crate) struct LogFlags {
    /// error, warn, info, debug or trace, or a level for each of some modules; shown without one
    pub(crate) level: Option<String>,
    #[command(flatten)]
    pub(crate) control: ControlFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge slow-commands --threshold 50ms
  selvedge slow-commands
  selvedge slow-commands --threshold off

The latest 1,024 are kept, and at most 64 of each second, until the target ends. --slow-commands of
`selvedge serve` says with which threshold it starts.")]
pub(crate) struct SlowCommandsFlags {
    /// Keep commands that take so long or longer from now on, or none with `off`; what was kept goes
    #[arg(long, value_name = "TIME|off", value_parser = parse_threshold)]
    pub(crate) threshold: Option<Threshold>,
    #[command(flatten)]
    pub(crate) control: ControlFlags,
}

/// How long a command takes that is slow; `None` where none is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold(pub(crate) Option<Duration>);

fn parse_threshold(text: &str) -> Result<Threshold, String> {
    if text == "off" { Ok(Threshold(None)) } else { parse_time(text).map(|time| Threshold(Some(time))) }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  selvedge openapi > selvedge.json")]
pub(crate) struct OpenapiFlags {
    // Accepted as everywhere; the document is JSON in any case.
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge listener list
  selvedge listener add 192.168.0.232
  selvedge listener remove 2")]
pub(crate) struct ListenerFlags {
    #[command(subcommand)]
    pub(crate) action: ListenerAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ListenerAction {
    /// Listen on another address
    #[command(after_help = "Example:
  selvedge listener add 192.168.0.232 -s 4420 -t mptcp")]
    Add {
        /// An address of this machine, or a name of it, with :PORT where that is not -s
        address: String,
        /// Port to listen on; 0 takes a free one
        #[arg(short = 's', long, value_name = "PORT", default_value_t = 4420)]
        trsvcid: u16,
        /// Its number [default: the lowest free one]
        #[arg(long, value_name = "N")]
        id: Option<u16>,
        /// What carries connections; with mptcp, hosts that only have TCP are served too
        #[arg(short = 't', long, value_name = "TYPE", default_value = "tcp")]
        transport: Transport,
        /// Congestion control by its name in the kernel, or auto to follow each connection's path
        /// [default: system, the kernel's own]
        #[arg(long, value_name = "NAME")]
        congestion: Option<String>,
        /// Whether connections are TLS: required, allowed or off; allowed also lets hosts in that come without their key
        /// [default: required where a host has a TLS key, else off]
        #[arg(long, value_name = "USE")]
        tls: Option<TlsUse>,
        /// Address that discovery tells hosts, where it differs
        #[arg(long, value_name = "ADDR", value_parser = HostAddress::advertised)]
        advertise: Option<String>,
        /// Let only the discovery subsystem be found here
        #[arg(long)]
        discovery_only: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Stop listening on an address
    #[command(after_help = "Examples:
  selvedge listener remove 2
  selvedge listener remove 192.168.0.231 -s 4420")]
    Remove {
        /// The port's number, as `listener list` shows it, or its address
        #[arg(value_name = "NUMBER|ADDRESS")]
        which: String,
        /// Port of the address [default: 4420]
        #[arg(short = 's', long, value_name = "PORT")]
        trsvcid: Option<u16>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Show where the target listens
    #[command(after_help = "Example:
  selvedge listener list")]
    List {
        #[command(flatten)]
        control: ControlFlags,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge host allow nqn.2026-01.org.example:disks nqn.2014-08.org.nvmexpress:uuid:...
  selvedge host list nqn.2026-01.org.example:disks")]
pub(crate) struct HostFlags {
    #[command(subcommand)]
    pub(crate) action: HostAction,
}

/// By what a host authenticates, and the key of its TLS connections.
#[derive(Clone, Debug, Args)]
pub(crate) struct HostKeyFlags {
    /// File on the target's machine with the host's secret; several lines are several, each of which is accepted
    #[arg(short = 'S', long, value_name = "FILE", required_unless_present = "tls_key_file")]
    pub(crate) dhchap_secret_file: Option<PathBuf>,

    /// File on the target's machine with the secret by which the subsystem authenticates to the host
    #[arg(short = 'C', long, value_name = "FILE", requires = "dhchap_secret_file")]
    pub(crate) dhchap_ctrl_secret_file: Option<PathBuf>,

    /// Hash functions to take, the preferred one first: sha256, sha384, sha512 [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "dhchap_secret_file")]
    pub(crate) dhchap_hash: Vec<Hash>,

    /// Groups to take, the preferred one first, such as ffdhe3072 or mlkem768 [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "dhchap_secret_file")]
    pub(crate) dhchap_dhgroup: Vec<Group>,

    /// File on the target's machine with the key of the host's TLS connections, NVMeTLSkey-1:...:; several lines are several
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key_file: Option<PathBuf>,

    /// Make the key of the host's TLS connections of its authentication, for hosts that connect with --concat
    #[arg(long, requires = "dhchap_secret_file", conflicts_with = "tls_key_file")]
    pub(crate) tls_concat: bool,

    /// Read the files on this machine, and have the target keep what is in them, sealed with its --encryption-key; all gateways
    /// of a group have it then
    #[arg(long)]
    pub(crate) sealed: bool,

    /// How long the secrets and keys that it replaces are still accepted, such as 10m [default: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) overlap: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostAction {
    /// Let a host use a subsystem
    #[command(after_help = "Example:
  selvedge host allow nqn.2026-01.org.example:disks --any")]
    Allow {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// NQN of the host
        #[arg(required_unless_present = "any")]
        host: Option<Nqn>,
        /// Every host
        #[arg(long, conflicts_with = "host")]
        any: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Let a host use a subsystem no more, and disconnect it
    #[command(after_help = "Example:
  selvedge host deny nqn.2026-01.org.example:disks --any")]
    Deny {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// NQN of the host
        #[arg(required_unless_present = "any")]
        host: Option<Nqn>,
        /// Every host that is not on the list
        #[arg(long, conflicts_with = "host")]
        any: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Give a host a secret, by which it has to authenticate from then on, a TLS key, or both
    #[command(after_help = "Examples:
  selvedge host set-key nqn.2026-01.org.example:disks nqn.2014-08.org.nvmexpress:uuid:... \\
      --dhchap-secret-file /etc/selvedge/host-a.key
  selvedge host set-key nqn.2026-01.org.example:disks nqn.2014-08.org.nvmexpress:uuid:... \\
      --dhchap-secret-file /etc/selvedge/host-a-2.key --overlap 10m
  selvedge host set-key nqn.2026-01.org.example:disks nqn.2014-08.org.nvmexpress:uuid:... \\
      --dhchap-secret-file /etc/selvedge/host-a-2.key --tls-key-file /etc/selvedge/host-a-tls.key")]
    SetKey {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// NQN of the host
        host: Nqn,
        #[command(flatten)]
        key: HostKeyFlags,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Let a host in without a secret and a TLS key again
    #[command(after_help = "Example:
  selvedge host remove-key nqn.2026-01.org.example:disks nqn.2014-08.org.nvmexpress:uuid:...")]
    RemoveKey {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// NQN of the host
        host: Nqn,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Show who may use a subsystem
    #[command(after_help = "Example:
  selvedge host list nqn.2026-01.org.example:disks")]
    List {
        /// NQN of the subsystem
        subsystem: Nqn,
        #[command(flatten)]
        control: ControlFlags,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge ana list nqn.2026-01.org.example:disks
  selvedge ana set nqn.2026-01.org.example:disks 1 non-optimized --port 2=optimized")]
pub(crate) struct AnaFlags {
    #[command(subcommand)]
    pub(crate) action: AnaAction,
}

/// The states of a group, by the names that the API has for them.
pub(crate) const ANA_STATES: [&str; 5] =
    ["optimized", "non-optimized", "inaccessible", "persistent-loss", "change"];

#[derive(Debug, Subcommand)]
pub(crate) enum AnaAction {
    /// Set the states of an ANA group
    #[command(after_help = "Example:
  selvedge ana set nqn.2026-01.org.example:disks 1 optimized --port 2=inaccessible")]
    Set {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// The group's number
        group: u32,
        /// Its state on all ports that are not named
        #[arg(value_parser = PossibleValuesParser::new(ANA_STATES))]
        state: String,
        /// Its state on one port; may be given several times
        #[arg(long = "port", value_name = "N=STATE")]
        ports: Vec<String>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Show the ANA groups of a subsystem
    #[command(after_help = "Example:
  selvedge ana list nqn.2026-01.org.example:disks")]
    List {
        /// NQN of the subsystem
        subsystem: Nqn,
        #[command(flatten)]
        control: ControlFlags,
    },
}

/// What is done with connected hosts.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge connection list
  selvedge connection reset 3")]
pub(crate) struct ConnectedFlags {
    #[command(subcommand)]
    pub(crate) action: ConnectedAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConnectedAction {
    /// Show the controllers of all hosts, and their queues
    #[command(after_help = "Example:
  selvedge connection list -o json")]
    List {
        #[command(flatten)]
        control: ControlFlags,
    },
    /// End a controller; its host may come back
    #[command(after_help = "Example:
  selvedge connection reset 3")]
    Reset {
        /// The controller's identifier, as `connection list` shows it
        cntlid: u16,
        #[command(flatten)]
        control: ControlFlags,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge referral add 192.168.0.232
  selvedge referral list")]
pub(crate) struct ReferralFlags {
    #[command(subcommand)]
    pub(crate) action: ReferralAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReferralAction {
    /// Tell hosts of another discovery service
    #[command(after_help = "Example:
  selvedge referral add 192.168.0.232 -s 8009")]
    Add {
        /// Its address, an IP address or a name, with :PORT where that is not -s
        address: String,
        /// Its port [default: 8009]
        #[arg(short = 's', long, value_name = "PORT")]
        trsvcid: Option<u16>,
        /// Its NQN [default: the well-known one]
        #[arg(short = 'n', long, value_name = "NQN")]
        nqn: Option<Nqn>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Tell hosts of it no more
    #[command(after_help = "Example:
  selvedge referral remove 192.168.0.232")]
    Remove {
        /// Its address, as `referral list` shows it
        address: String,
        /// Its port [default: 8009]
        #[arg(short = 's', long, value_name = "PORT")]
        trsvcid: Option<u16>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Show the referrals to other discovery services
    #[command(after_help = "Example:
  selvedge referral list")]
    List {
        #[command(flatten)]
        control: ControlFlags,
    },
}
