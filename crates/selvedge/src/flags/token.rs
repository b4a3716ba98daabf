//! The options of `token`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use engine::units::parse_time;

use super::OutputFlags;
use crate::spec::role::Role;

/// Where an access file is, if nobody says.
pub(crate) const ACCESS_FILE: &str = "/etc/selvedge/access.toml";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge token create prometheus --role metrics --expires 365d
  selvedge token list
  selvedge token revoke prometheus

A token is shown once: the file has its hash alone. A target that was started with --control-access and this file
reads it again at the next request; nothing has to be restarted.")]
pub(crate) struct TokenFlags {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

/// Which file.
#[derive(Clone, Debug, Args)]
pub(crate) struct AccessFileFlags {
    /// The file that says who may administer, as given to `serve`
    #[arg(long, value_name = "FILE", default_value = ACCESS_FILE)]
    pub(crate) control_access: PathBuf,
    #[command(flatten)]
    pub(crate) format: OutputFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Make a token, and print it
    #[command(after_help = "Examples:
  selvedge token create prometheus --role metrics --expires 365d
  selvedge token create team-a --role operate --subsystem nqn.2026-01.org.example:disks \\
      --output team-a.token")]
    Create {
        /// Whose it is, or what for
        name: String,
        /// What it may do: metrics, read, operate or admin
        #[arg(long, value_enum, hide_possible_values = true)]
        role: Role,
        /// NQN of a subsystem that an operator may change, or * for all; may be given several times
        #[arg(long = "subsystem", value_name = "NQN")]
        subsystems: Vec<String>,
        /// How long it is valid, such as 90d [default: until it is revoked]
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        expires: Option<Duration>,
        /// Write it to this new file, which nobody else can read, in place of printing it
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        file: AccessFileFlags,
    },
    /// Take a token away
    #[command(after_help = "Example:
  selvedge token revoke prometheus")]
    Revoke {
        /// Its name, as `token list` shows it
        name: String,
        #[command(flatten)]
        file: AccessFileFlags,
    },
    /// Show who may administer, by tokens, certificates, users and groups
    #[command(after_help = "Example:
  selvedge token list")]
    List {
        #[command(flatten)]
        file: AccessFileFlags,
    },
}
