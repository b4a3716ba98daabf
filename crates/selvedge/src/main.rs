//! The program: reads what was typed, does it, and says how it ended. How anything is done is elsewhere.

mod announce;
mod bench;
mod commands;
mod config;
mod control;
mod failure;
mod flags;
mod log;
mod mptcp;
mod report;
mod state;
mod stop;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let flags = flags::Flags::parse();
    log::start();
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
