//! The program as a library: all there is behind `selvedge`, and the edges at which it takes texts from others, for
//! those who feed it on purpose.

// `eprintln!` and `eprint!` of it take the places of the standard library's, which panic.
#[macro_use]
extern crate command_line;

mod commands;
mod config;
pub mod edges;
mod file_size_limit;
mod flags;
mod hand_over;
mod service;

use std::io::{self, Write as _};
use std::process::ExitCode;

// Modules of the crates below, under their own names.
use administration::{
    announce, cluster_connections, confinement, control, machine, mptcp, state, state_directory,
};
use clap::FromArgMatches as _;
use command_line::{failure, log, spec, stop, version};
use examination::{packet_path, target_rates};
use host_connection::{discovery, disk_users, kernel_initiator};
use measurement::{bench, fio, report, sweep, top};

pub use attachment::edges as attach_edges;
pub use command_line::version::Linkage;

/// Reads what was typed, does it, and says how it ended.
pub fn run(linkage: Linkage) -> ExitCode {
    version::start(linkage);
    // Before the first write to a file, which stdout and stderr may be.
    if let Err(failure) = file_size_limit::fail_writes() {
        eprintln!("selvedge: {}", failure.line().unwrap_or_default());
    }
    commands::complete::answer();
    let mut command = flags::help::command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = parsed.and_then(|matches| flags::Flags::from_arg_matches(&matches));
    let flags = match parsed.map_err(|error| error.format(&mut command)) {
        Ok(flags) => flags,
        Err(error) => return instead(&error),
    };
    let log = match &flags.command {
        flags::Command::Serve(serve) => Some(&serve.log),
        flags::Command::Attach(attach) => attach.log(),
        _ => None,
    };
    let level = log.and_then(|log| log.log_level.as_deref());
    if let Err(reason) = log::start(log.and_then(|log| log.log_format), level) {
        eprintln!("selvedge: {reason}");
        return ExitCode::from(2);
    }
    report::terminal::look();
    // Before confinement hides the cgroup, whose quota counts.
    engine::ring::core::processors();
    match commands::run(&flags.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(line) = failure.line() {
                eprintln!("selvedge: {}", report::locale::shown(&line));
            }
            failure.status(stop::signal())
        }
    }
}

/// Prints the help or version that was asked for, or why nothing is done, and says how that went.
fn instead(error: &clap::Error) -> ExitCode {
    let printed = match flags::number_error::reworded(&error.render().to_string()) {
        Some(text) => io::stderr().lock().write_all(text.as_bytes()),
        None => error.print(),
    };
    let printed = printed.and_then(|()| io::stdout().flush());
    match (error.exit_code(), printed) {
        (0, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("selvedge: the results cannot be printed: {error}");
            ExitCode::FAILURE
        }
        (status, _) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
    }
}
