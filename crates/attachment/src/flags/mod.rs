//! Flags of `attach`, their help, and its command line as a whole.

pub mod attach;
pub(crate) mod nbd_tls;

pub(crate) use administration::flags::confinement;
use clap::{Parser, Subcommand};
pub(crate) use command_line::flags::{EngineFlag, OutputFlags, OutputFormat, connection, log, number_error};
pub(crate) use measurement::flags::bench;

use self::attach::AttachFlags;

/// Command line of `selvedge attach`, as a record or a file of disks has it.
#[derive(Debug, Parser)]
#[command(name = "selvedge")]
pub(crate) struct TypedLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Attach(Box<AttachFlags>),
}

impl TypedLine {
    /// Returns the flags of the command.
    pub(crate) fn attach(self) -> Box<AttachFlags> {
        let Command::Attach(flags) = self.command;
        flags
    }
}
