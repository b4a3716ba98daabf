//! Flags of `key`, named as in nvme-cli's `gen-dhchap-key`, `gen-tls-key` and their checks.

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
    /// Generate a random secret of a host or a subsystem, or a TLS key
    #[command(after_help = "Examples:
  selvedge key generate --output host-a.key
  selvedge key generate --hmac 3
  selvedge key generate --tls --output host-a-tls.key")]
    Generate {
        /// Generate a TLS key, NVMeTLSkey-1:...:
        #[arg(long, conflicts_with = "nqn")]
        tls: bool,
        /// Hash function that transforms the key: 0 none, 1 SHA-256, 2 SHA-384, 3 SHA-512, which
        /// TLS keys do not have [default: 0, and 1 of a TLS key]
        #[arg(short = 'm', long, value_name = "N", value_parser = hash_function)]
        hmac: Option<u8>,
        /// Length of the key in bytes: 32, 48 or 64 [default: that of the hash function]
        #[arg(short = 'l', long, value_name = "N")]
        key_length: Option<usize>,
        /// NQN for which the key is transformed already, as nvme-cli before 3.0 did with --hmac
        #[arg(short = 'n', long, value_name = "NQN", requires = "hmac")]
        nqn: Option<Nqn>,
        /// New file for the key, readable by its owner alone; prints the fingerprint instead
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        format: OutputFlags,
    },
    /// Show the properties of a secret or a TLS key, without the key
    #[command(after_help = "Example:
  selvedge key inspect host-a.key")]
    Inspect {
        /// File with the secret or key, - for standard input
        file: PathBuf,
        #[command(flatten)]
        format: OutputFlags,
    },
    /// Check the format of a secret or a TLS key, with the messages of nvme-cli
    #[command(after_help = "Example:
  selvedge key check host-a.key")]
    Check {
        /// File with the secret or key, - for standard input
        file: PathBuf,
        #[command(flatten)]
        format: OutputFlags,
    },
    /// Show the PSK identity of a TLS key, by which Linux finds it, or insert the PSK into a
    /// keyring of the kernel
    #[command(after_help = "Examples:
  selvedge key identity host-a-tls.key -n nqn.2026-01.org.example:disks \\
      -q nqn.2014-08.org.nvmexpress:uuid:...
  selvedge key identity host-a-tls.key -n nqn.2026-01.org.example:disks --insert")]
    Identity(IdentityFlags),
}

#[derive(Debug, Args)]
pub(crate) struct IdentityFlags {
    /// File with the TLS key, - for standard input
    pub(crate) file: PathBuf,

    /// NQN of the host [default: /etc/nvme/hostnqn, or one derived from the machine]
    #[arg(short = 'q', long, value_name = "NQN")]
    pub(crate) hostnqn: Option<Nqn>,

    /// NQN of the subsystem
    #[arg(short = 'n', long, value_name = "NQN")]
    pub(crate) subsysnqn: Nqn,

    /// Version of the identity; 0 has no digest of the key
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub(crate) identity: u8,

    /// Hash function of the suite: 1 SHA-256, 2 SHA-384 [default: by the key's length]
    #[arg(short = 'm', long, value_name = "N", value_parser = suite_hash)]
    pub(crate) hmac: Option<u8>,

    /// Derive the PSK as nvme-cli did until 2025
    #[arg(long)]
    pub(crate) compat: bool,

    /// Insert the TLS PSK into a keyring of the kernel, for its hosts and targets
    #[arg(long)]
    pub(crate) insert: bool,

    /// Keyring, by name or number, or @s for the session's, @u for the user's
    #[arg(long, value_name = "NAME", default_value = ".nvme", requires = "insert")]
    pub(crate) keyring: String,

    /// Type of the key in the keyring
    #[arg(long, value_name = "TYPE", default_value = "psk", requires = "insert")]
    pub(crate) keytype: String,

    #[command(flatten)]
    pub(crate) format: OutputFlags,
}

/// Number of a hash function, by its number or name.
fn hash_function(text: &str) -> Result<u8, String> {
    match text.to_ascii_lowercase().replace('-', "").as_str() {
        "0" | "none" => Ok(0),
        "1" | "sha256" => Ok(1),
        "2" | "sha384" => Ok(2),
        "3" | "sha512" => Ok(3),
        _ => {
            Err("it is not a hash function: write 0 (none), 1 (SHA-256), 2 (SHA-384) or 3 (SHA-512)"
                .to_owned())
        }
    }
}

/// The same of a TLS cipher suite.
fn suite_hash(text: &str) -> Result<u8, String> {
    let number = hash_function(text).ok().filter(|number| (1..=2).contains(number));
    number
        .ok_or_else(|| "it is not the hash function of a suite: write 1 (SHA-256) or 2 (SHA-384)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_function_has_a_number_and_a_name() {
        for (text, number) in [("0", 0), ("none", 0), ("sha256", 1), ("SHA-384", 2), ("2", 2), ("sha512", 3)]
        {
            assert_eq!(hash_function(text), Ok(number));
        }
        assert_eq!(suite_hash("sha384"), Ok(2));
        for wrong in ["4", "", "md5"] {
            assert!(hash_function(wrong).unwrap_err().contains("SHA-384"), "{wrong}");
        }
        assert!(suite_hash("0").is_err() && suite_hash("sha512").is_err());
    }
}
