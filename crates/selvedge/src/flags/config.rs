//! Flags of `config`, which handles whole configurations.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::OutputFlags;
use super::control::ControlFlags;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge config check target.toml
  selvedge config diff target.toml
  selvedge config dump > target.toml")]
pub(crate) struct ConfigFlags {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Check a target.toml without serving it
    #[command(after_help = "Example:
  selvedge config check target.toml")]
    Check {
        /// Path of the target.toml
        file: PathBuf,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Show the changes that a running target would make to serve a target.toml
    #[command(after_help = "Exit status: 0 without differences, 3 with differences.

Example:
  selvedge config diff target.toml")]
    Diff {
        /// Path of the target.toml
        file: PathBuf,
        /// Allow smaller namespaces
        #[arg(long)]
        shrink: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Replace the configuration of a running target by a target.toml
    #[command(after_help = "Hosts whose subsystem and port remain stay connected.

Example:
  selvedge config apply target.toml")]
    Apply {
        /// Path of the target.toml
        file: PathBuf,
        /// Allow smaller namespaces; data beyond their new end is lost
        #[arg(long)]
        shrink: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Print the configuration of a running target
    #[command(after_help = "Example:
  selvedge config dump --format toml > target.toml")]
    Dump {
        /// Format of the configuration
        #[arg(long, value_name = "FORMAT", default_value = "toml")]
        format: DumpFormat,
        #[command(flatten)]
        control: ControlFlags,
    },
}

/// Format of a printed configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// A target.toml, for `selvedge serve -c`
    Toml,
    /// JSON of the control API
    Json,
}
