//! The program as a library: all there is behind `selvedge`, and the edges at which it takes texts from others, for
//! those who feed it on purpose.

mod announce;
mod bench;
mod cluster_connections;
mod commands;
mod config;
mod control;
pub mod edges;
mod failure;
mod fio;
mod flags;
mod log;
mod machine;
mod mptcp;
mod report;
mod spec;
mod state;
mod state_directory;
mod stop;
mod sweep;
mod top;
mod tune;

use std::process::ExitCode;

use clap::Parser;

/// Reads what was typed, does it, and says how it ended.
pub fn run() -> ExitCode {
    let flags = flags::Flags::parse();
    log::start();
    report::terminal::look();
    match commands::run(&flags.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(line) = failure.line() {
                eprintln!("selvedge: {line}");
            }
            failure.status()
        }
    }
}
