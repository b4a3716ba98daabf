//! The command line of `lab chaos` as values. It keeps out what is done with them.

use std::path::PathBuf;

/// A shorter run would be all beginning and end.
const MINUTES_MIN: u32 = 1;
const MINUTES_MAX: u32 = 24 * 60;
/// Hostile connections at a time, in the schedule and where their cost is measured.
const ATTACKERS: u32 = 64;
const ATTACKERS_MAX: u32 = 1000;

/// The whole command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) program: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) minutes: u32,
    pub(crate) seed: u64,
    pub(crate) attackers: u32,
    /// The report goes out as JSON, and progress to the error output.
    pub(crate) json: bool,
}

/// Reads the arguments after `chaos`. `chance` is the seed when none is given.
///
/// # Errors
/// What is wrong with them, for a person.
pub(crate) fn parse(args: &[String], chance: u64) -> Result<Arguments, String> {
    let mut program = None;
    let mut arguments = Arguments {
        program: PathBuf::new(),
        output: PathBuf::from("chaos"),
        minutes: 0,
        seed: chance,
        attackers: ATTACKERS,
        json: false,
    };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let option =
            word.strip_prefix("--").ok_or_else(|| format!("chaos takes options only, not `{word}`"))?;
        let value = words.next().ok_or_else(|| format!("{word} is unknown, or needs a value"))?;
        match option {
            "program" => program = Some(PathBuf::from(value)),
            "output" => arguments.output = PathBuf::from(value),
            "minutes" => arguments.minutes = number(option, value, MINUTES_MIN, MINUTES_MAX)?,
            "attackers" => arguments.attackers = number(option, value, 1, ATTACKERS_MAX)?,
            "seed" => {
                arguments.seed = value.parse().map_err(|_| format!("--seed is a number, not `{value}`"))?;
            }
            "output-format" if value == "json" => arguments.json = true,
            "output-format" if value == "normal" => arguments.json = false,
            "output-format" => return Err(format!("--output-format is normal or json, not `{value}`")),
            _ => return Err(format!("there is no option --{option}")),
        }
    }
    arguments.program = program.ok_or("chaos needs --program PATH, the selvedge to try")?;
    if arguments.minutes == 0 {
        return Err("chaos needs --minutes M".to_owned());
    }
    Ok(arguments)
}

fn number(what: &str, value: &str, least: u32, most: u32) -> Result<u32, String> {
    match value.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("--{what} is a number from {least} to {most}, not `{value}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), 77)
    }

    #[test]
    fn minutes_and_program_are_enough() {
        let arguments = parsed("--minutes 2 --program p").unwrap();
        assert_eq!((arguments.minutes, arguments.seed, arguments.json), (2, 77, false));
        let arguments =
            parsed("--program p --minutes 60 --seed 5 --attackers 9 --output-format json").unwrap();
        assert_eq!((arguments.seed, arguments.attackers, arguments.json), (5, 9, true));
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
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
