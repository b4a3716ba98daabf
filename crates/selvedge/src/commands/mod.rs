//! The commands, one file each: what a person asked for, done with the engine and told by the reports.

mod bench;
mod demo;
mod discover;
mod identify;
mod list;
mod serve;

use crate::failure::Failure;
use crate::flags::Command;

/// Does what was typed.
pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Demo(flags) => demo::run(flags),
        Command::Serve(flags) => serve::run(flags),
        Command::Discover(flags) => discover::run(flags),
        Command::Identify(flags) => identify::run(flags),
        Command::List(flags) => list::run(flags),
        Command::Bench(flags) => bench::run(flags),
    }
}
