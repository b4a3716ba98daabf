//! fio's options on the command line of `bench` beside its own, unparsed. The module `fio`
//! interprets them.

use clap::builder::StringValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::fio_names::{self, Typed};

/// Options of fio, each with its value, or an empty one.
#[derive(Clone, Debug, Default)]
pub struct FioOptions(pub Vec<(&'static str, String)>);

fn arguments() -> impl Iterator<Item = Arg> {
    fio_names::typed().map(|Typed { name, takes_value }| {
        let arg = Arg::new(name).long(name).hide(true).action(ArgAction::Append);
        // fio's command line has `--direct` and `--direct=1`, and `--ioengine libaio` and `--ioengine=libaio`.
        let arg = match takes_value {
            true => arg.num_args(1),
            false => arg.num_args(0..=1).require_equals(true).default_missing_value(""),
        };
        arg.value_parser(StringValueParser::new()).help_heading("Workload options, as fio has them")
    })
}

impl Args for FioOptions {
    fn augment_args(command: Command) -> Command {
        command.args(arguments())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FioOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |name: &'static str| {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            values.map(move |value| (name, value.clone()))
        };
        Ok(Self(fio_names::typed().flat_map(|typed| values(typed.name)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_for_fio() {
        let typed = |line: &str| {
            let line = std::iter::once("bench").chain(line.split_whitespace());
            let matches = FioOptions::augment_args(Command::new("bench")).try_get_matches_from(line)?;
            FioOptions::from_arg_matches(&matches).map(|FioOptions(options)| options)
        };
        let options =
            typed("--direct --thread=1 --ioengine libaio --filename=/dev/nvme0n1 --loops=2").unwrap();
        for option in [
            ("direct", ""),
            ("thread", "1"),
            ("ioengine", "libaio"),
            ("filename", "/dev/nvme0n1"),
            ("loops", "2"),
        ] {
            assert!(options.contains(&(option.0, option.1.to_owned())), "{option:?}");
        }
        for wrong in ["--no_such_option=1", "--ioengine", "--direct 1"] {
            assert!(typed(wrong).is_err(), "{wrong}");
        }
    }
}
