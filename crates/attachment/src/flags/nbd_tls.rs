//! TLS flags for NBD clients.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Policy for NBD clients without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum NbdTlsUse {
    /// Clients without TLS are refused
    #[default]
    Required,
    /// Clients may connect without TLS
    Offered,
}

/// Credentials of NBD clients and their server.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "TLS of NBD clients")]
pub(crate) struct NbdTlsFlags {
    /// Certificate of the NBD server, with its chain up to a root, in PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_key", requires = "nbd")]
    pub(crate) nbd_tls_cert: Option<PathBuf>,

    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert")]
    pub(crate) nbd_tls_key: Option<PathBuf>,

    /// CA certificates of NBD clients, in PEM; clients without a certificate are refused
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert")]
    pub(crate) nbd_tls_client_ca: Option<PathBuf>,

    /// Names and keys of NBD clients, in place of certificates: a line NAME:HEX for each, as
    /// `psktool -u NAME -p FILE` writes it
    #[arg(long, value_name = "FILE", requires = "nbd", conflicts_with = "nbd_tls_cert")]
    pub(crate) nbd_tls_psk_file: Option<PathBuf>,

    /// TLS of NBD clients [default: required, with a certificate or keys]
    #[arg(long, value_name = "USE", value_enum, requires = "nbd")]
    pub(crate) nbd_tls: Option<NbdTlsUse>,
}

impl NbdTlsFlags {
    /// True if a certificate, keys or a policy is given.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.nbd_tls_cert.is_some() || self.nbd_tls_psk_file.is_some() || self.nbd_tls.is_some()
    }
}
