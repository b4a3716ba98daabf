//! Flags of `token`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use engine::units::parse_time;

use super::OutputFlags;
use crate::spec::role::Role;

/// Default path of the access file.
pub(crate) const ACCESS_FILE: &str = "/etc/selvedge/access.toml";

/// Time until a token expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    After(Duration),
}

fn expiry(text: &str) -> Result<Expiry, String> {
    if text == "never" {
        return Ok(Expiry::Never);
    }
    parse_time(text).map(Expiry::After).map_err(|error| format!("{error}, or write never"))
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge token create prometheus --role metrics --expires 365d
  selvedge token list
  selvedge token revoke prometheus

A token is printed once: the file has only its hash. A target with this file
(--control-access) reloads it at the next request.")]
pub(crate) struct TokenFlags {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

/// Access file, and output format.
#[derive(Clone, Debug, Args)]
pub(crate) struct AccessFileFlags {
    /// File with tokens and roles, as given to `serve`
    #[arg(long, value_name = "FILE", default_value = ACCESS_FILE)]
    pub(crate) control_access: PathBuf,
    #[command(flatten)]
    pub(crate) format: OutputFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Create a token, and print it
    #[command(after_help = "Examples:
  selvedge token create prometheus --role metrics --expires 365d
  selvedge token create team-a --role operate --subsystem nqn.2026-01.org.example:disks \\
      --output team-a.token")]
    Create {
        /// Name of the token: its owner or purpose
        name: String,
        /// Role: metrics, read, operate or admin
        #[arg(long, value_enum, hide_possible_values = true)]
        role: Role,
        /// NQN of a subsystem that an operator may change, or * for all; may be given several times
        #[arg(long = "subsystem", value_name = "NQN")]
        subsystems: Vec<String>,
        /// Time until the token expires, such as 90d, or never [default: never]
        #[arg(long, value_name = "TIME", value_parser = expiry, default_value = "never", hide_default_value = true)]
        expires: Expiry,
        /// New file for the token, readable by its owner alone; the token is not printed
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        file: AccessFileFlags,
    },
    /// Revoke a token
    #[command(after_help = "Example:
  selvedge token revoke prometheus")]
    Revoke {
        /// Name of the token, as `token list` shows it
        name: String,
        #[command(flatten)]
        file: AccessFileFlags,
    },
    /// List tokens, certificates, users and groups with their roles
    #[command(after_help = "Example:
  selvedge token list")]
    List {
        #[command(flatten)]
        file: AccessFileFlags,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_expires_after_a_time_or_never() {
        assert_eq!(expiry("never"), Ok(Expiry::Never));
        assert_eq!(expiry("2m"), Ok(Expiry::After(Duration::from_secs(120))));
        assert!(expiry("soon").unwrap_err().ends_with("or write never"));
    }

    #[test]
    fn purging_the_package_removes_the_access_file() {
        let script = include_str!("../../../../packaging/deb/postrm");
        let (_, purge) = script.split_once("\npurge)\n").expect("a part about purging");
        assert!(purge.contains(&format!("rm -f {ACCESS_FILE} ")), "{purge}");
    }
}
