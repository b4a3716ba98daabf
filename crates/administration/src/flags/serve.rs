//! Flags of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use engine::address::HostAddress;
use engine::target::NamespaceConfig;
use engine::units::parse_time;
use nvme::discovery::Nqn;
use secure_channel::RecordLimit;

use super::confinement::ConfinementFlags;
use super::connection::Transport;
use super::log::LoggingFlags;
use super::subsystem::QuiesceFlag;
use super::tls_use::{TlsUse, record_limit};
use super::{EngineFlag, OutputFlags};
use crate::spec::audit_destination::AuditDestination;
use crate::spec::ceph::{BDEVS_PER_CLUSTER_MAX, TIMEOUT_MS_MAX};
use crate::spec::endpoint::Endpoint;
use crate::spec::namespace;
use crate::spec::quotas::QuotaSpec;
use crate::spec::reactors::ReactorSpec;
use gateway::{GroupSpec, SpecError, check_name};

#[derive(Debug, Args)]
#[command(after_help = "Namespaces:
  memory:SIZE              in the memory of this process, lost when it ends
  null:SIZE                discards writes and reads zeroes, to measure all but storage
  file:PATH[,size=SIZE]    in a file; with a size, a missing file is created
  block:PATH               on a block device
  rbd:POOL[/NAMESPACE]/IMAGE[@SNAPSHOT][,conf=FILE][,id=NAME][,luks2=FILE]
                           in an image of a Ceph cluster; a snapshot is read-only; luks2=FILE or
                           luks1=FILE has the passphrase of an encrypted image
  All take ,block_size=512|4096 (default: sector size of the device, else 4096), ,nsid=N,
  ,uuid=UUID, ,nguid=NGUID and ,host_write_protection=none|on|until_restart|permanent (the
  highest that hosts may set; default: none). Files and block devices also take
  ,shared_storage=yes and ,write_delay_ms=N.

Examples:
  selvedge serve --namespace memory:1g
  selvedge serve -a 192.168.0.231 --namespace file:disk.img,size=10g \\
      --allow-host nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd
  selvedge serve -c target.toml --reactors 0,1
  selvedge serve -t mptcp -a 10.0.1.1 -a 10.0.2.1 --configure-mptcp --allow-any-host \\
      --namespace memory:1g
  selvedge serve --state-dir /var/lib/selvedge --namespace memory:1g
  selvedge serve --state-dir /var/lib/selvedge
  selvedge serve -a 192.168.0.231 --allow-any-host --namespace rbd:rbd/disk,id=selvedge
  selvedge serve --gateway-group rbd/gateways -a 192.168.0.231

A target.toml:
  reactors = 2                       # or CPUs: \"0,1\"
  bdevs_per_cluster = 8              # and ceph_timeout_ms = 30000
  [quotas]                           # also ..._per_network, discovery_controllers
  controllers_per_host = 64          # and queues_per_host
  [[port]]
  address = \"192.168.0.231:4420\"
  advertise = \"10.0.2.2\"             # only if hosts see another address
  transport = \"mptcp\"                # or tcp; and congestion = \"cubic\"
  tls = \"required\"                   # or allowed, off
  [[subsystem]]
  nqn = \"nqn.2026-01.org.example:disks\"
  allow_any_host = true              # or hosts = [\"nqn...\", ...]
  storage = { directory = \"/srv/nvme\", bytes_max = \"1t\" }  # for namespaces of hosts
  command_quiesce = \"auto\"           # or command_quiesce_ms = 31000
  [[subsystem.namespace]]
  backend.file = { path = \"disk.img\", size = \"10g\" }  # or memory, null, block, rbd
  block_size = 4096                  # and nsid, uuid, nguid
  qos = { iops = 10000, bytes = \"200m\" }  # per second; also read_iops, write_bytes, ...
  visible.only = [\"nqn...\"]          # or visible.all_except; default: all hosts
  write_protection = \"on\"            # or until_restart, permanent
  ana_group = 2
  [[subsystem.ana_group]]
  id = 2
  state = \"non-optimized\"            # or inaccessible, persistent-loss, change
  ports = { 1 = \"optimized\" }        # for ports in another state, by their numbers
  [[referral]]                       # another discovery service
  address = \"192.168.0.232\"
  service = 8009

Identity:
  Default identifiers of subsystem and namespaces are derived from the machine ID
  (/etc/machine-id, or the file in $SELVEDGE_MACHINE_ID_FILE) and the storage. Hosts
  never take namespaces of two targets for one disk, unless both have
  ,shared_storage=yes. Without a machine ID, --state-dir keeps one.

SIGINT, SIGTERM and SIGHUP shut the target down after the commands in flight. A second
SIGINT or SIGTERM ends it at once.")]
pub struct ServeFlags {
    #[command(flatten)]
    pub log: LoggingFlags,

    /// Shortest duration of commands to record with the time of each stage; `selvedge
    /// slow-commands` shows them
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub slow_commands: Option<Duration>,

    /// Configuration file, a target.toml
    #[arg(
        short = 'c',
        long,
        value_name = "FILE",
        conflicts_with_all = ["transport", "traddr", "trsvcid", "congestion", "tls", "advertise", "nqn",
            "namespaces", "serial", "allow_any_host", "allow_hosts", "command_quiesce"]
    )]
    pub config: Option<PathBuf>,

    /// Transport; mptcp also accepts hosts with plain TCP [default: tcp]
    #[arg(short = 't', long, value_name = "TYPE", ignore_case = true)]
    pub transport: Option<Transport>,

    /// Address to listen on; may be given several times, or as a comma-separated list [default:
    /// 127.0.0.1]
    #[arg(short = 'a', long, value_name = "ADDR", value_delimiter = ',')]
    pub traddr: Vec<String>,

    /// Port to listen on; 0 for a free one [default: 4420]
    #[arg(short = 's', long, value_name = "PORT")]
    pub trsvcid: Option<u16>,

    /// Congestion control by its name in the kernel, or auto to follow the path of each connection
    /// [default: system, the kernel's own]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,

    /// TLS of connections: required, allowed or off; allowed also accepts hosts without their key
    /// [default: required where a host has a TLS key, else off]
    #[arg(long, value_name = "USE")]
    pub tls: Option<TlsUse>,

    /// Number of TLS records after which a queue whose host has not replaced its keys is closed;
    /// the host reconnects. No Linux host replaces keys [default: 16777216]
    #[arg(long, value_name = "N", value_parser = record_limit)]
    pub tls_record_limit: Option<RecordLimit>,

    /// File with the key that seals hosts' keys stored by the target: a private key in PEM or 32
    /// bytes in Base64, the same at all gateways of a group
    #[arg(long, value_name = "FILE")]
    pub encryption_key: Option<PathBuf>,

    /// Configure the addresses and limits of MPTCP with `ip mptcp`, as root, and restore them at
    /// the end
    #[arg(long)]
    pub configure_mptcp: bool,

    /// Address in the discovery log, where it differs from the address listened on
    #[arg(long, value_name = "ADDR", value_parser = HostAddress::advertised)]
    pub advertise: Option<String>,

    /// NQN of the subsystem [default: one of this machine's, with the port where that is not 4420]
    #[arg(short = 'n', long, value_name = "NQN")]
    pub nqn: Option<Nqn>,

    /// Serial number of the subsystem [default: derived from the machine and the NQN]
    #[arg(long, value_name = "TEXT")]
    pub serial: Option<String>,

    /// Command Quiesce Time reported to hosts, within which commands of a lost host still take
    /// effect: a time that the storage meets, such as 31s, or auto to measure it [default: 2s,
    /// which failing disks do not meet]
    #[arg(long, value_name = "TIME|auto|default")]
    pub command_quiesce: Option<QuiesceFlag>,

    /// Namespace, see below; may be given several times
    #[arg(long = "namespace", value_name = "SPEC", value_parser = namespace::parse)]
    pub namespaces: Vec<NamespaceConfig>,

    /// Allow every host to connect; the default on loopback addresses only
    #[arg(long, conflicts_with = "allow_hosts")]
    pub allow_any_host: bool,

    /// NQN of a host that may connect; may be given several times, or as a comma-separated list
    #[arg(long = "allow-host", value_name = "NQN", value_delimiter = ',')]
    pub allow_hosts: Vec<Nqn>,

    /// Number of reactors, or a list of CPUs for one reactor each, such as 0,2 or 0-3 [default: one
    /// per CPU]
    #[arg(long, value_name = "N|CPU-LIST")]
    pub reactors: Option<ReactorSpec>,

    /// Number of images that share one connection to their Ceph cluster; smaller numbers need more
    /// threads of Ceph's library [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=BDEVS_PER_CLUSTER_MAX))]
    pub(crate) bdevs_per_cluster: Option<u64>,

    /// Time-out of an operation in a Ceph cluster, in seconds, after which its command fails and
    /// the host retries; 0 waits forever [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=TIMEOUT_MS_MAX / 1000))]
    pub(crate) ceph_timeout: Option<u64>,

    #[command(flatten)]
    pub(crate) quotas: QuotaSpec,

    /// I/O interface [default: auto]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineFlag>,

    /// Longest time to poll before sleeping, in microseconds; 0 never polls;
    /// at most 50 on epoll and with one CPU [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub poll_us: Option<u64>,

    /// Directory that keeps the configuration; a later start without --config or --namespace serves
    /// it again
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// Gateway group to join, whose gateways serve the same namespaces from one Ceph cluster
    #[arg(
        long,
        value_name = "POOL[/NAMESPACE]/GROUP[,conf=FILE][,id=NAME][,failback=TIME]",
        conflicts_with_all = ["config", "nqn", "namespaces", "serial", "allow_any_host", "allow_hosts", "state_dir",
            "command_quiesce"]
    )]
    pub gateway_group: Option<GroupSpec>,

    /// Name of this gateway in its group [default: the name of the machine]
    #[arg(long, value_name = "NAME", value_parser = gateway_name, requires = "gateway_group")]
    pub gateway_name: Option<String>,

    /// Location of this gateway, such as rack1: it serves the namespaces of other gateways there
    /// before gateways elsewhere do
    #[arg(long, value_name = "NAME", value_parser = gateway_name, requires = "gateway_group")]
    pub gateway_location: Option<String>,

    #[command(flatten)]
    pub administered: AdministeredFlags,

    /// Log of changes and failed logins: a file, journal or none [default: audit.jsonl in the state
    /// directory, if there is one]
    #[arg(long, value_name = "FILE|journal|none", help_heading = "Administration")]
    pub audit_log: Option<AuditDestination>,

    /// Announce the discovery service by multicast DNS on the local network
    #[arg(long)]
    pub mdns: bool,

    #[command(flatten)]
    pub confinement: ConfinementFlags,

    #[command(flatten)]
    pub output: OutputFlags,
}

/// Addresses and credentials of the administration.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Administration")]
pub struct AdministeredFlags {
    /// Address of the control API: unix:PATH, tls:ADDR:PORT, tcp:ADDR:PORT or none; may be given
    /// several times [default: PORT.sock in $RUNTIME_DIRECTORY, in /run/selvedge for root, or in
    /// $XDG_RUNTIME_DIR/selvedge]
    #[arg(long, value_name = "ADDR")]
    pub control: Vec<Endpoint>,

    /// File with the roles of users, tokens and certificates; reloaded when it changes
    #[arg(long, value_name = "FILE")]
    pub control_access: Option<PathBuf>,

    /// File with a token; over TCP it grants all rights
    #[arg(long, value_name = "FILE")]
    pub control_token_file: Option<PathBuf>,

    /// Certificate of the target for tls:, with its chain up to a root, in PEM; reloaded when it
    /// changes
    #[arg(long, value_name = "FILE", requires = "control_tls_key")]
    pub control_tls_cert: Option<PathBuf>,

    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "control_tls_cert")]
    pub control_tls_key: Option<PathBuf>,

    /// CA certificates of clients, in PEM; --control-access has the roles of clients
    #[arg(long, value_name = "FILE", requires = "control_tls_cert", requires = "control_access")]
    pub control_tls_client_ca: Option<PathBuf>,

    /// Address of the Prometheus metrics, at /metrics: ADDR:PORT or tls:ADDR:PORT. On loopback, all
    /// clients may read them; elsewhere, the role metrics or a higher one is required
    #[arg(long, value_name = "ADDR", value_parser = metrics_address)]
    pub metrics: Option<Endpoint>,

    /// Allow every client of that address to read metrics
    #[arg(long, requires = "metrics")]
    pub metrics_for_anybody: bool,

    /// Address of ceph-nvmeof's gRPC API: ADDR:PORT or tls:ADDR:PORT; its clients use port 5500
    #[arg(long, value_name = "ADDR", value_parser = metrics_address)]
    pub(crate) ceph_nvmeof_api: Option<Endpoint>,

    /// Allow every client of that address to administer the target, as ceph-nvmeof does without
    /// certificates
    #[arg(long, requires = "ceph_nvmeof_api")]
    pub(crate) ceph_nvmeof_api_for_anybody: bool,
}

fn metrics_address(text: &str) -> Result<Endpoint, String> {
    let bare = text.parse().ok().filter(|address: &HostAddress| address.port().is_some());
    let endpoint = bare.map_or_else(|| text.parse(), |address| Ok(Endpoint::Tcp(address)));
    match endpoint {
        Ok(endpoint) if endpoint.socket_address().is_some() => Ok(endpoint),
        _ => Err(format!("`{text}` is not an address of this machine: write ADDR:PORT or tls:ADDR:PORT")),
    }
}

fn gateway_name(text: &str) -> Result<String, SpecError> {
    check_name(text).map(|()| text.to_owned())
}

#[cfg(any(test, feature = "testing"))]
impl ServeFlags {
    /// The flags in `arguments`, for tests.
    pub fn of(arguments: &str) -> Self {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            flags: ServeFlags,
        }
        Only::parse_from(std::iter::once("test").chain(arguments.split_whitespace())).flags
    }
}
