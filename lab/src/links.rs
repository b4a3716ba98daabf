//! `lab links`: the emulator as a command of its own. It reads the command line and keeps out what links do.

use clap::{Args, value_parser};

use crate::emulator::{LINKS_MAX, Options, run};

const ORDERS: &str = "It says `ready`, then takes orders on its standard input, a line each, and answers `ok` or `error REASON`:
  set LINK|all rate|delay|loss|mode|queue VALUE, cut LINK|all [to-host|to-target], restore LINK|all, counters, quit";

/// The command line.
#[derive(Args, Clone, Debug)]
#[command(after_help = ORDERS)]
pub(crate) struct Arguments {
    /// Namespace of the target; of several, each has as many of the links, in order
    #[arg(long = "target", value_name = "NAMESPACE", value_delimiter = ',', required = true)]
    targets: Vec<String>,
    /// Namespace of the host
    #[arg(long, value_name = "NAMESPACE")]
    host: String,
    /// Number of links
    #[arg(long, value_name = "N", default_value = "1", value_parser = value_parser!(u16).range(1..=LINKS_MAX as i64))]
    links: u16,
    /// Seed of losses
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

/// Runs the emulator as the arguments say.
///
/// # Errors
/// What failed.
pub(crate) fn main(arguments: &Arguments) -> Result<(), String> {
    let options = options(arguments);
    if !options.links.is_multiple_of(options.targets.len()) {
        return Err(format!(
            "{} targets cannot have as many of {} links each",
            options.targets.len(),
            options.links
        ));
    }
    run(&options)
}

fn options(arguments: &Arguments) -> Options {
    let Arguments { targets, host, links, seed } = arguments;
    Options { targets: targets.clone(), host: host.clone(), links: usize::from(*links), seed: *seed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn parsed(line: &str) -> Result<Options, String> {
        command_line::parsed(line).map(|arguments| options(&arguments))
    }

    #[test]
    fn links_and_seed_are_options() {
        let options = parsed("--target t --host h --links 4 --seed 9").unwrap();
        assert_eq!(
            options,
            Options { targets: vec!["t".to_owned()], host: "h".to_owned(), links: 4, seed: 9 }
        );
    }

    #[test]
    fn several_targets_have_as_many_links_each() {
        let options = parsed("--target a,b --host h --links 4").unwrap();
        let ends: Vec<&str> = (1..=4).map(|link| options.target_of(link)).collect();
        assert_eq!(ends, ["a", "a", "b", "b"]);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for line in
            ["", "--target t", "--target t --host h --links 0", "--target t --host h --speed 1", "t h"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
