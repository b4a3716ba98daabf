//! Connection options, named as in nvme-cli. `config::connection` checks their combinations.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use engine::units::parse_time;
use nvme::discovery::Nqn;
use secure_channel::RecordLimit;

use super::tls_use::record_limit;

/// Transport of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// NVMe/TCP
    #[default]
    Tcp,
    /// NVMe/TCP over Multipath TCP
    Mptcp,
}

impl From<Transport> for engine::transport::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Tcp,
            Transport::Mptcp => Self::Mptcp,
        }
    }
}

/// Address of the target, and identity of this host.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection options, as nvme-cli has them")]
pub struct ConnectionFlags {
    /// Transport
    #[arg(short = 't', long, value_name = "TYPE", default_value = "tcp", ignore_case = true)]
    pub transport: Transport,

    /// Address of the target: an IP address or a name, with :PORT if that is not -s; attach, bench,
    /// connect and sweep take several, each a path
    #[arg(short = 'a', long, value_name = "ADDR", required = true, value_delimiter = ',')]
    pub traddr: Vec<String>,

    /// Port of the target
    #[arg(short = 's', long, value_name = "PORT", default_value_t = 4420)]
    pub trsvcid: u16,

    /// NQN of this host [default: /etc/nvme/hostnqn, or one derived from the machine]
    #[arg(short = 'q', long, value_name = "NQN")]
    pub hostnqn: Option<Nqn>,

    /// Identifier of this host, a UUID [default: /etc/nvme/hostid, or the UUID in the host's NQN]
    #[arg(short = 'I', long, value_name = "UUID")]
    pub hostid: Option<String>,

    /// File with this host's secret, DHHC-1:...:, for a target that requires authentication
    #[arg(short = 'S', long, value_name = "FILE", group = "host_secrets")]
    pub dhchap_secret_file: Option<PathBuf>,

    /// File with the subsystem's secret, by which the target must authenticate, too
    #[arg(short = 'C', long, value_name = "FILE", requires = "dhchap_secret_file")]
    pub dhchap_ctrl_secret_file: Option<PathBuf>,

    /// config.json of nvme-cli, for this host's NQN, identifier, secrets and TLS keys; its other
    /// settings are for Linux
    #[arg(short = 'J', long, value_name = "FILE", group = "host_secrets")]
    pub config: Option<PathBuf>,

    /// Interval of re-authentication of each connection while it is in use, such as 1h [default:
    /// never]
    #[arg(long, value_name = "TIME", requires = "host_secrets", value_parser = parse_time)]
    pub reauth_interval: Option<Duration>,

    /// Use TLS, with the key of --tls-key-file or --config
    #[arg(long)]
    pub tls: bool,

    /// File with the key of TLS connections, NVMeTLSkey-1:...:; implies --tls; several lines are
    /// several keys to offer
    #[arg(long, value_name = "FILE")]
    pub tls_key_file: Option<PathBuf>,

    /// Version of the PSK identities to offer, 0 or 1 [default: both]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub tls_identity: Option<u8>,

    /// Derive TLS keys as nvme-cli did until 2025, for a target that does [default: where the
    /// identity tells both apart]
    #[arg(long)]
    pub tls_compat: bool,

    /// Number of TLS records after which the keys of a connection are replaced: on the connection
    /// if the target supports that, as Selvedge does, else by a new connection of the same queue
    /// [default: 8388608]
    #[arg(long, value_name = "N", value_parser = record_limit)]
    pub tls_record_limit: Option<RecordLimit>,

    /// Derive the key of TLS connections from the authentication, for a target with tls_concat for
    /// this host
    #[arg(long, requires = "host_secrets", conflicts_with_all = ["tls", "tls_key_file", "tls_identity", "tls_compat",
        "tls_record_limit"])]
    pub concat: bool,

    /// Keep alive time-out in seconds, 0 for none [default: 5, and 0 with a discovery service]
    #[arg(short = 'k', long, value_name = "SECONDS")]
    pub keep_alive_tmo: Option<u32>,

    /// Local address of connections; with several --traddr, one for all or one for each
    #[arg(short = 'w', long, value_name = "ADDR", value_delimiter = ',')]
    pub host_traddr: Vec<String>,

    /// Local network interface of connections; with several --traddr, one for all or one for each
    #[arg(short = 'f', long, value_name = "NAME", value_delimiter = ',')]
    pub host_iface: Vec<String>,

    /// Type of service of connections over IPv4, such as 40 for AF11
    #[arg(short = 'T', long, value_name = "N")]
    pub tos: Option<u8>,

    /// Traffic class of connections over IPv6, and type of service of those to IPv4-mapped
    /// addresses without --tos
    #[arg(long, value_name = "N")]
    pub tclass: Option<u8>,

    /// Enable header digests
    #[arg(short = 'g', long)]
    pub hdr_digest: bool,

    /// Enable data digests
    #[arg(short = 'G', long)]
    pub data_digest: bool,
}

#[cfg(any(test, feature = "testing"))]
impl ConnectionFlags {
    /// The flags in `arguments`, for tests.
    pub fn of(arguments: &str) -> Self {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            flags: ConnectionFlags,
        }
        Only::parse_from(std::iter::once("test").chain(arguments.split_whitespace())).flags
    }
}
