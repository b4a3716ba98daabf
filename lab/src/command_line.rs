//! The lab's command line: a subcommand for each program. It explains and dispatches, and keeps out what programs do.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::{arguments, browser, ceph, chaos, latency, links, paths, peers, tuning};

/// Experiments on Selvedge and on others, emulated links, a small Ceph, and a browser.
#[derive(Debug, Parser)]
#[command(name = "lab", args_override_self = true, max_term_width = 100)]
#[command(
    after_help = "paths, chaos, tuning, links and ceph's gateways make devices and namespaces, latency \
    starts tcpdump: these need root. peers leaves out what needs root (SPDK, tgtd) without it."
)]
pub(crate) struct Lab {
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Measure random reads and writes of 128 KiB over 4 links of 1 Gbit/s
    Paths(arguments::Arguments),
    /// Check every block of targets that are killed, stopped, cut off, filled and attacked
    Chaos(chaos::arguments::Arguments),
    /// Attack a running target with ten thousand connections, then with others, and watch known hosts
    Siege(chaos::siege::Arguments),
    /// Check reports and their pictures in a headless Chromium
    Browser(browser::Arguments),
    /// Plan, apply and revert tuning on interfaces with 4 queues, and crash in between
    Tuning(tuning::Arguments),
    /// Run a small Ceph, and Selvedge on it
    #[command(subcommand)]
    Ceph(ceph::Task),
    /// Emulate links between two network namespaces: tt1, tt2... and th1, th2...
    Links(links::Arguments),
    /// Compare target and host with SPDK's, tgtd (iSCSI), qemu-nbd and bare sockets over the loopback
    Peers(peers::Arguments),
    /// Compare the bench's latencies with tcpdump's, and with fio's over an NBD bridge
    Latency(latency::Arguments),
}

impl Lab {
    /// Runs the program; a failure is printed in one line.
    pub(crate) fn run(&self) -> ExitCode {
        let outcome = match &self.program {
            Program::Paths(arguments) => paths::main(arguments),
            Program::Chaos(arguments) => chaos::main(arguments),
            Program::Siege(arguments) => chaos::siege::main(arguments),
            Program::Browser(arguments) => browser::main(arguments),
            Program::Tuning(arguments) => tuning::main(arguments),
            Program::Ceph(task) => ceph::main(task),
            Program::Links(arguments) => links::main(arguments),
            Program::Peers(arguments) => peers::main(arguments),
            Program::Latency(arguments) => latency::main(arguments),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => {
                eprintln!("lab: {reason}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Ends the process as for any other wrong command line.
pub(crate) fn refuse(problem: &str) -> ! {
    Lab::command().error(ErrorKind::ValueValidation, problem).exit()
}

/// A seed that differs from run to run.
pub(crate) fn chance() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.as_millis() as u64 % 1_000_000)
}

/// Parses arguments without their program's name.
#[cfg(test)]
pub(crate) fn parsed<T: clap::Args>(line: &str) -> Result<T, String> {
    let command = T::augment_args(clap::Command::new("lab").no_binary_name(true));
    let matches = command.try_get_matches_from(line.split_whitespace()).map_err(|error| error.to_string())?;
    T::from_arg_matches(&matches).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Lab::command().debug_assert();
    }

    #[test]
    fn an_option_may_come_twice_and_the_last_one_counts() {
        let lab = Lab::try_parse_from(["lab", "latency", "--program", "a", "--rounds", "3", "--rounds", "4"]);
        let Program::Latency(arguments) = lab.unwrap().program else { panic!("this is latency") };
        assert_eq!(arguments.rounds, 4);
    }
}
