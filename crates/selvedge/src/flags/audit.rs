//! The options of `audit`.

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
    /// Say whether an audit log is whole: nothing changed, moved, taken out or cut off
    #[command(after_help = "Examples:
  selvedge audit verify --state-dir /var/lib/selvedge
  selvedge audit verify audit.jsonl.1 audit.jsonl
  journalctl -u selvedge -o cat | grep '^{\"seq\"' | selvedge audit verify -

Each record has the hash of the one before it. That the end was cut off, only the state directory knows: it keeps the
hash of the last record. Somebody who can write there too can make another log; to see that, note the hash that this
command prints where they cannot write.")]
    Verify {
        /// Files of the log, the oldest first, or - for standard input [default: the one in the state directory]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The target's state directory, which knows the last record
        #[arg(long, value_name = "DIR", required_unless_present = "files")]
        state_dir: Option<PathBuf>,
        #[command(flatten)]
        format: OutputFlags,
    },
}
