//! Flags of all commands that use the control API, and flags of the small ones among them.

use std::path::PathBuf;
use std::time::Duration;

use authentication::{Group, Hash};
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, Subcommand};
use engine::address::HostAddress;
use engine::units::{QuantityError, parse_time};
use nvme::discovery::Nqn;

use super::OutputFlags;
use super::connection::Transport;
use super::tls_use::TlsUse;
use crate::log::check_level;
use crate::spec::endpoint::Endpoint;

/// TLS options of a connection to the control API.
#[derive(Clone, Debug, Default, Args)]
pub struct ControlTlsFlags {
    /// File with the CA certificate of the target, or with the target's own certificate, in PEM
    /// [default: the system's CA certificates]
    #[arg(long, value_name = "FILE")]
    pub control_ca: Option<PathBuf>,

    /// File with a client certificate in PEM, in place of a token
    #[arg(long, value_name = "FILE", requires = "control_key")]
    pub control_cert: Option<PathBuf>,

    /// File with the private key of the client certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "control_cert")]
    pub control_key: Option<PathBuf>,
}

/// Address of the target's control API, and credentials for it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Target")]
pub struct ControlFlags {
    /// Address of the target's control API: unix:PATH, tls:HOST:PORT or tcp:ADDR:PORT [default: the
    /// only target on this machine]
    #[arg(long, value_name = "ADDR")]
    pub control: Option<Endpoint>,

    /// File with an API token, for tls: and tcp:
    #[arg(long, value_name = "FILE")]
    pub control_token_file: Option<PathBuf>,

    #[command(flatten)]
    pub tls: ControlTlsFlags,

    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A new process starts with the command line of the target, opens its storage and takes
over its connections; then the old process exits. Hosts see a pause. If a step
fails, the old process serves on.

Examples:
  selvedge upgrade
  selvedge upgrade --control unix:/run/selvedge/4420.sock --program /usr/bin/selvedge"
)]
pub struct UpgradeFlags {
    /// Program to start [default: this one]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,

    /// Do nothing if the target runs this very program already, as in a service's reload
    #[arg(long)]
    pub if_changed: bool,

    #[command(flatten)]
    pub control: ControlFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  selvedge status")]
pub struct StatusFlags {
    #[command(flatten)]
    pub control: ControlFlags,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  selvedge gateways
  selvedge gateways drain rack2
  selvedge gateways resume rack2
  selvedge gateways failback rack2
  selvedge gateways remove rack2-old"
)]
pub struct GatewaysFlags {
    #[command(subcommand)]
    pub action: Option<GatewaysAction>,
    #[command(flatten)]
    pub control: ControlFlags,
}

#[derive(Debug, Subcommand)]
pub enum GatewaysAction {
    /// Move all namespaces of a gateway to other gateways, for maintenance
    #[command(after_help = "Other gateways serve its namespaces, and hosts change to them by themselves;
connections to the drained gateway stay. The gateway stays drained across restarts,
until `selvedge gateways resume`. Refused if hosts would be left without a path.

Example:
  selvedge gateways drain rack2")]
    Drain {
        /// Name of the gateway, as `selvedge gateways` shows it
        name: String,
        /// Drain even if no other gateway can serve now, or hosts have no path to one
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Serve again on a drained gateway
    #[command(after_help = "Example:
  selvedge gateways resume rack2")]
    Resume {
        /// Name of the gateway, as `selvedge gateways` shows it
        name: String,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Give a gateway that has returned its load-balancing groups now
    #[command(
        after_help = "Send the command to the gateway that serves the groups (--control). With `failback=` of
`serve --gateway-group` they would return later, or not at all.

Example:
  selvedge gateways failback rack2"
    )]
    Failback {
        /// Name of the gateway, as `selvedge gateways` shows it
        name: String,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Remove an ended gateway from the group for good
    #[command(
        after_help = "Its namespaces move to the load-balancing groups with the fewest namespaces, while hosts
use them. Its number becomes free. A running gateway is refused: end it first.

Example:
  selvedge gateways remove rack2-old"
    )]
    Remove {
        /// Name of the gateway, as `selvedge gateways` shows it
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

The level applies until the target ends; --log-level of `selvedge serve` sets the level
at the start.")]
pub struct LogFlags {
    /// Level: error, warn, info, debug or trace, or a list with levels of modules; without one, the
    /// current level is shown
    #[arg(value_parser = check_level)]
    pub level: Option<String>,
    #[command(flatten)]
    pub control: ControlFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge slow-commands --threshold 50ms
  selvedge slow-commands
  selvedge slow-commands --threshold off

The target records the latest 1,024 slow commands, and at most 64 per second. --slow-commands of
`selvedge serve` sets the threshold at the start.")]
pub struct SlowCommandsFlags {
    /// Shortest duration of commands to record from now on, or `off`; earlier records are deleted
    #[arg(long, value_name = "TIME|off", value_parser = parse_threshold)]
    pub threshold: Option<Threshold>,
    #[command(flatten)]
    pub control: ControlFlags,
}

/// Duration from which a command is slow; `None` records none.
#[derive(Clone, Copy, Debug)]
pub struct Threshold(pub Option<Duration>);

fn parse_threshold(text: &str) -> Result<Threshold, QuantityError> {
    if text == "off" { Ok(Threshold(None)) } else { parse_time(text).map(|time| Threshold(Some(time))) }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  selvedge openapi > selvedge.json")]
pub struct OpenapiFlags {
    // Accepted as everywhere; the document is JSON in any case.
    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge listener list
  selvedge listener add 192.168.0.232
  selvedge listener remove 2")]
pub struct ListenerFlags {
    #[command(subcommand)]
    pub action: ListenerAction,
}

#[derive(Debug, Subcommand)]
pub enum ListenerAction {
    /// Listen on another address
    #[command(after_help = "Example:
  selvedge listener add 192.168.0.232 -s 4420 -t mptcp")]
    Add {
        /// Address of this machine, or a name of it, with :PORT where that is not -s
        address: String,
        /// Port to listen on; 0 for a free one
        #[arg(short = 's', long, value_name = "PORT", default_value_t = 4420)]
        trsvcid: u16,
        /// Number of the listener [default: the lowest free one]
        #[arg(long, value_name = "N")]
        id: Option<u16>,
        /// Transport; mptcp also accepts hosts with plain TCP
        #[arg(short = 't', long, value_name = "TYPE", default_value = "tcp", ignore_case = true)]
        transport: Transport,
        /// Congestion control by its name in the kernel, or auto to follow the path of each
        /// connection [default: system, the kernel's own]
        #[arg(long, value_name = "NAME")]
        congestion: Option<String>,
        /// TLS of connections: required, allowed or off; allowed also accepts hosts without their
        /// key [default: required where a host has a TLS key, else off]
        #[arg(long, value_name = "USE")]
        tls: Option<TlsUse>,
        /// Address in the discovery log, where it differs from the address listened on
        #[arg(long, value_name = "ADDR", value_parser = HostAddress::advertised)]
        advertise: Option<String>,
        /// Serve only the discovery subsystem here
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
        /// Number of the listener, as `listener list` shows it, or its address
        #[arg(value_name = "NUMBER|ADDRESS")]
        which: String,
        /// Port of the address [default: 4420]
        #[arg(short = 's', long, value_name = "PORT")]
        trsvcid: Option<u16>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// List the listening addresses of a target
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
pub struct HostFlags {
    #[command(subcommand)]
    pub action: HostAction,
}

/// Secrets of a host's authentication, and the key of its TLS connections.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("keys").required(true).multiple(true).args(["dhchap_secret_file", "tls_key_file"]))]
pub struct HostKeyFlags {
    /// File on the target's machine with the host's secret; each of several lines is accepted
    #[arg(short = 'S', long, value_name = "FILE")]
    pub dhchap_secret_file: Option<PathBuf>,

    /// File on the target's machine with the secret by which the subsystem authenticates to the
    /// host
    #[arg(short = 'C', long, value_name = "FILE", requires = "dhchap_secret_file")]
    pub dhchap_ctrl_secret_file: Option<PathBuf>,

    /// Hash functions to accept, the preferred one first: sha256, sha384, sha512 [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "dhchap_secret_file")]
    pub dhchap_hash: Vec<Hash>,

    /// Diffie-Hellman groups to accept, the preferred one first, such as ffdhe3072 or mlkem768
    /// [default: those of the subsystem, or all but ffdhe6144 and ffdhe8192]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "dhchap_secret_file")]
    pub dhchap_dhgroup: Vec<Group>,

    /// File on the target's machine with the key of the host's TLS connections, NVMeTLSkey-1:...:;
    /// each of several lines is accepted
    #[arg(long, value_name = "FILE")]
    pub tls_key_file: Option<PathBuf>,

    /// Derive the key of the host's TLS connections from its authentication, for hosts that connect
    /// with --concat
    #[arg(long, requires = "dhchap_secret_file", conflicts_with = "tls_key_file")]
    pub tls_concat: bool,

    /// Read the files on this machine, and store their content on the target, sealed with its
    /// --encryption-key; all gateways of a group share it
    #[arg(long)]
    pub sealed: bool,

    /// Time for which the replaced secrets and keys are still accepted, such as 10m [default: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub overlap: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub enum HostAction {
    /// Allow a host to use a subsystem
    #[command(group = ArgGroup::new("hosts").required(true).args(["host", "any"]))]
    #[command(after_help = "Example:
  selvedge host allow nqn.2026-01.org.example:disks --any")]
    Allow {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// NQN of the host
        host: Option<Nqn>,
        /// Allow every host
        #[arg(long)]
        any: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Remove a host from a subsystem, and disconnect it
    #[command(group = ArgGroup::new("hosts").required(true).args(["host", "any"]))]
    #[command(after_help = "Example:
  selvedge host deny nqn.2026-01.org.example:disks --any")]
    Deny {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// NQN of the host
        host: Option<Nqn>,
        /// Remove every host that is not on the list
        #[arg(long)]
        any: bool,
        /// Leave the connections of the host; it cannot make new ones
        #[arg(long, conflicts_with = "any")]
        keep_connections: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Set the secret, by which a host must authenticate from then on, the TLS key, or both
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
    /// Remove the secret and the TLS key of a host, which connects without them again
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
    /// List the hosts of a subsystem
    #[command(after_help = "Example:
  selvedge host list nqn.2026-01.org.example:disks")]
    List {
        /// NQN of the subsystem [default: the only one]
        subsystem: Option<Nqn>,
        #[command(flatten)]
        control: ControlFlags,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge ana list nqn.2026-01.org.example:disks
  selvedge ana set nqn.2026-01.org.example:disks 1 non-optimized --port 2=optimized")]
pub struct AnaFlags {
    #[command(subcommand)]
    pub action: AnaAction,
}

/// ANA states, as the API names them.
pub const ANA_STATES: [&str; 5] = ["optimized", "non-optimized", "inaccessible", "persistent-loss", "change"];

#[derive(Debug, Subcommand)]
pub enum AnaAction {
    /// Set the states of an ANA group
    #[command(after_help = "Example:
  selvedge ana set nqn.2026-01.org.example:disks 1 optimized --port 2=inaccessible")]
    Set {
        /// NQN of the subsystem
        subsystem: Nqn,
        /// Number of the ANA group
        group: u32,
        /// State on all ports without --port
        #[arg(value_parser = PossibleValuesParser::new(ANA_STATES))]
        state: String,
        /// State on one port; may be given several times
        #[arg(long = "port", value_name = "N=STATE")]
        ports: Vec<String>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// List the ANA groups of a subsystem
    #[command(after_help = "Example:
  selvedge ana list nqn.2026-01.org.example:disks")]
    List {
        /// NQN of the subsystem [default: the only one]
        subsystem: Option<Nqn>,
        #[command(flatten)]
        control: ControlFlags,
    },
}

/// Options of `connection`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge connection list
  selvedge connection reset 3")]
pub struct ConnectedFlags {
    #[command(subcommand)]
    pub action: ConnectedAction,
}

#[derive(Debug, Subcommand)]
pub enum ConnectedAction {
    /// List the controllers of all hosts, and their queues
    #[command(after_help = "Example:
  selvedge connection list -o json")]
    List {
        #[command(flatten)]
        control: ControlFlags,
    },
    /// End a controller; its host may reconnect
    #[command(after_help = "Example:
  selvedge connection reset 3")]
    Reset {
        /// Identifier of the controller, as `connection list` shows it
        cntlid: u16,
        #[command(flatten)]
        control: ControlFlags,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge referral add 192.168.0.232
  selvedge referral list")]
pub struct ReferralFlags {
    #[command(subcommand)]
    pub action: ReferralAction,
}

#[derive(Debug, Subcommand)]
pub enum ReferralAction {
    /// Add a referral to another discovery service
    #[command(after_help = "Example:
  selvedge referral add 192.168.0.232 -s 8009")]
    Add {
        /// Address of the discovery service, with :PORT where that is not -s
        address: String,
        /// Port of the discovery service [default: 8009]
        #[arg(short = 's', long, value_name = "PORT")]
        trsvcid: Option<u16>,
        /// NQN of the discovery service [default: the well-known one]
        #[arg(short = 'n', long, value_name = "NQN")]
        nqn: Option<Nqn>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Remove a referral
    #[command(after_help = "Example:
  selvedge referral remove 192.168.0.232")]
    Remove {
        /// Address of the discovery service, as `referral list` shows it
        address: String,
        /// Port of the discovery service [default: 8009]
        #[arg(short = 's', long, value_name = "PORT")]
        trsvcid: Option<u16>,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// List the referrals
    #[command(after_help = "Example:
  selvedge referral list")]
    List {
        #[command(flatten)]
        control: ControlFlags,
    },
}
