//! The flags of `config`, which deals with whole configurations.

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
        /// The file
        file: PathBuf,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Say what a running target would change to serve a target.toml
    #[command(after_help = "Exit status: 0 if nothing is different, 3 if something is.

Example:
  selvedge config diff target.toml")]
    Diff {
        /// The file
        file: PathBuf,
        /// Let namespaces become smaller
        #[arg(long)]
        shrink: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Let a running target serve a target.toml and nothing else
    #[command(after_help = "Hosts whose subsystem and port are still there stay connected.

Example:
  selvedge config apply target.toml")]
    Apply {
        /// The file
        file: PathBuf,
        /// Let namespaces become smaller; what is beyond their new end is lost
        #[arg(long)]
        shrink: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Print what a running target serves
    #[command(after_help = "Example:
  selvedge config dump --format toml > target.toml")]
    Dump {
        /// The format
        #[arg(long, value_name = "FORMAT", default_value = "toml")]
        format: DumpFormat,
        #[command(flatten)]
        control: ControlFlags,
    },
}

/// How a configuration is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// As `selvedge serve -c` reads it
    Toml,
    /// As the control API has it
    Json,
}
