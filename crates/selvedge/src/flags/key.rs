//! The options of `key`, named as nvme-cli names those of `gen-dhchap-key` and `check-dhchap-key`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nvme::discovery::Nqn;

use super::OutputFlags;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge key generate --output /etc/selvedge/host-a.key
  selvedge key check /etc/selvedge/host-a.key")]
pub(crate) struct KeyFlags {
    #[command(subcommand)]
    pub(crate) action: KeyAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyAction {
    /// Make a random secret for a host, or for a subsystem
    #[command(after_help = "Examples:
  selvedge key generate --output host-a.key
  selvedge key generate --hmac 3")]
    Generate {
        /// Hash function that transforms it: 0 none, 1 SHA-256, 2 SHA-384, 3 SHA-512
        #[arg(short = 'm', long, value_name = "N", default_value_t = 0,
            value_parser = clap::value_parser!(u8).range(0..=3))]
        hmac: u8,
        /// Bytes of the key: 32, 48 or 64 [default: as many as the hash function's]
        #[arg(short = 'l', long, value_name = "N")]
        key_length: Option<usize>,
        /// Transform it for this name already, as nvme-cli before 3.0 did with --hmac
        #[arg(short = 'n', long, value_name = "NQN", requires = "hmac")]
        nqn: Option<Nqn>,
        /// Write it to this new file, which nobody else can read, and print its fingerprint
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        format: OutputFlags,
    },
    /// Show what a secret is, without showing it
    #[command(after_help = "Example:
  selvedge key inspect host-a.key")]
    Inspect {
        /// File with the secret, - for standard input
        file: PathBuf,
        #[command(flatten)]
        format: OutputFlags,
    },
    /// Say whether a secret is well-formed, in the words of nvme-cli
    #[command(after_help = "Example:
  selvedge key check host-a.key")]
    Check {
        /// File with the secret, - for standard input
        file: PathBuf,
        #[command(flatten)]
        format: OutputFlags,
    },
}
