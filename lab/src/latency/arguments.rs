//! The command line of `lab latency` as values. It keeps out what is done with them.

use std::path::PathBuf;

use clap::{Args, value_parser};

/// The whole command line.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// The selvedge to measure
    #[arg(long, value_name = "PATH")]
    pub(crate) program: PathBuf,
    /// Folder of runs.jsonl and summary.md
    #[arg(long, value_name = "DIR", default_value = "latency")]
    pub(crate) output: PathBuf,
    /// Of which the medians count
    #[arg(long, value_name = "N", default_value = "5", value_parser = value_parser!(u32).range(2..=100))]
    pub(crate) rounds: u32,
    // The kernel keeps a whole run until tcpdump takes it.
    /// Data that each run reads; 128 are 32,768 commands of 4 KiB
    #[arg(long = "size", value_name = "MIB", default_value = "128", value_parser = value_parser!(u32).range(1..=192))]
    pub(crate) size_mib: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::parsed;

    #[test]
    fn has_defaults_and_refuses_nonsense() {
        let usual: Arguments = parsed("--program selvedge").unwrap();
        assert_eq!((usual.rounds, usual.size_mib), (5, 128));
        for line in
            ["", "--program a --rounds 1", "--program a --size 500", "--program a --depth 3", "--program"]
        {
            assert!(parsed::<Arguments>(line).is_err(), "{line}");
        }
    }
}
