//! The flags of TLS for NBD clients.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Whether clients have to begin TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum NbdTlsUse {
    /// A client without TLS is refused.
    #[default]
    Required,
    /// Clients may do without.
    Offered,
}

/// How NBD clients and the server know each other.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "TLS of NBD clients")]
pub(crate) struct NbdTlsFlags {
    /// The server's certificate for NBD clients, with what signed it up to a root, in PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_key", requires = "nbd")]
    pub(crate) nbd_tls_cert: Option<PathBuf>,

    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert")]
    pub(crate) nbd_tls_key: Option<PathBuf>,

    /// Certificates that sign those of NBD clients, in PEM; a client without one is refused
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert")]
    pub(crate) nbd_tls_client_ca: Option<PathBuf>,

    /// NBD clients' names and keys in place of certificates: a line NAME:HEX for each, as `psktool -u NAME -p FILE` writes it
    #[arg(long, value_name = "FILE", requires = "nbd", conflicts_with = "nbd_tls_cert")]
    pub(crate) nbd_tls_psk_file: Option<PathBuf>,

    /// Whether NBD clients have to use TLS [default: required, with a certificate or keys]
    #[arg(long, value_name = "USE", value_enum, requires = "nbd")]
    pub(crate) nbd_tls: Option<NbdTlsUse>,
}

impl NbdTlsFlags {
    /// Whether there is any TLS.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.nbd_tls_cert.is_some() || self.nbd_tls_psk_file.is_some() || self.nbd_tls.is_some()
    }
}
