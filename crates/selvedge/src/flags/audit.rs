//! Flags of `audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::OutputFlags;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  selvedge audit verify --state-dir /var/lib/selvedge")]
pub(crate) struct AuditFlags {
    #[command(subcommand)]
    pub(crate) action: AuditAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditAction {
    /// Verify that no record of an audit log was changed, moved, removed or cut off
    #[command(after_help = "Examples:
  selvedge audit verify --state-dir /var/lib/selvedge
  selvedge audit verify audit.jsonl.1 audit.jsonl
  journalctl -u selvedge -o cat | grep '^{\"seq\"' | selvedge audit verify -

Each record has the hash of the previous one, and the state directory has the hash of the
last one, which is needed to detect a truncated log. An attacker with write access to both
can forge a log; to detect that, keep the hash that this command prints on another machine.")]
    Verify {
        /// Files of the log, the oldest first, or - for standard input [default: the log in the
        /// state directory]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// State directory of the target, which has the hash of the last record
        #[arg(long, value_name = "DIR", required_unless_present = "files")]
        state_dir: Option<PathBuf>,
        #[command(flatten)]
        format: OutputFlags,
    },
}
