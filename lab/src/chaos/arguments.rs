//! The command line of `lab chaos` as values. It keeps out what is done with them.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};

use crate::command_line::chance;

/// A shorter run would be all beginning and end.
const MINUTES_MIN: i64 = 1;
const MINUTES_MAX: i64 = 24 * 60;
/// Hostile connections at a time, in the schedule and where their cost is measured.
const ATTACKERS: u32 = 64;

/// The whole command line.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// Duration in minutes
    #[arg(long, value_name = "M", value_parser = value_parser!(u32).range(MINUTES_MIN..=MINUTES_MAX))]
    pub(crate) minutes: u32,
    /// The selvedge to try
    #[arg(long, value_name = "PATH")]
    pub(crate) program: PathBuf,
    /// Folder of the logs
    #[arg(long, value_name = "DIR", default_value = "chaos")]
    pub(crate) output: PathBuf,
    /// Seed of everything random [default: random, and printed]
    #[arg(long, value_name = "N", default_value_t = chance(), hide_default_value = true)]
    pub(crate) seed: u64,
    /// Hostile connections at a time
    #[arg(long, value_name = "N", default_value_t = ATTACKERS, value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) attackers: u32,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "normal")]
    output_format: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    Normal,
    /// As JSON, with progress on the error output
    Json,
}

impl Arguments {
    /// True if the report is JSON, with progress on the error output.
    pub(crate) fn is_json(&self) -> bool {
        self.output_format == OutputFormat::Json
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::parsed;

    #[test]
    fn minutes_and_program_are_enough() {
        let arguments: Arguments = parsed("--minutes 2 --program p").unwrap();
        assert_eq!((arguments.minutes, arguments.is_json()), (2, false));
        let arguments: Arguments =
            parsed("--program p --minutes 60 --seed 5 --attackers 9 --output-format json").unwrap();
        assert_eq!((arguments.seed, arguments.attackers, arguments.is_json()), (5, 9, true));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in [
            "",
            "--minutes 2",
            "--program p",
            "--program p --minutes 0",
            "--program p --minutes 2 --attackers 5000",
            "--program p --minutes",
            "--program p --minutes 2 --output-format xml",
            "--program p --minutes 2 --seed x",
            "--program p --minutes 2 --speed 1",
            "p",
        ] {
            assert!(parsed::<Arguments>(line).is_err(), "{line}");
        }
    }
}
