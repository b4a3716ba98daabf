//! `lab links`: the emulator as a command of its own. It reads the command line and keeps out what links do.

use crate::Failure;
use crate::emulator::control::Change;
use crate::emulator::link::Settings;
use crate::emulator::{LINKS_MAX, Options, run};

/// Runs the emulator as the arguments say.
///
/// # Errors
/// A wrong command line, or what failed.
pub(crate) fn main(args: &[String]) -> Result<(), Failure> {
    run(&parse(args).map_err(Failure::Usage)?).map_err(Failure::Work)
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        target: String::new(),
        host: String::new(),
        links: 1,
        settings: Settings::default(),
        seed: 1,
    };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let name =
            word.strip_prefix("--").ok_or_else(|| format!("links takes options only, not `{word}`"))?;
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match name {
            "target" => options.target.clone_from(value),
            "host" => options.host.clone_from(value),
            "links" => match value.parse() {
                Ok(links) if (1..=LINKS_MAX).contains(&links) => options.links = links,
                _ => return Err(format!("--links is a number from 1 to {LINKS_MAX}, not `{value}`")),
            },
            "seed" => {
                options.seed = value.parse().map_err(|_| format!("--seed is a number, not `{value}`"))?;
            }
            _ => Change::parse(name, value)?.apply(&mut options.settings),
        }
    }
    if options.target.is_empty() || options.host.is_empty() {
        return Err("links needs --target NAMESPACE and --host NAMESPACE".to_owned());
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn settings_are_options() {
        let options =
            parsed("--target t --host h --links 4 --rate 250 --delay 5 --loss 0.005 --seed 9").unwrap();
        let settings = Settings { rate_mbit: 250.0, delay_ms: 5.0, loss: 0.005, ..Settings::default() };
        assert_eq!(
            options,
            Options { target: "t".to_owned(), host: "h".to_owned(), links: 4, settings, seed: 9 }
        );
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for line in [
            "",
            "--target t",
            "--target t --host h --links 0",
            "--target t --host h --speed 1",
            "t h",
            "--rate",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
