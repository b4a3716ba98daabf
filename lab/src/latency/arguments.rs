//! The command line of `lab latency` as values. It keeps out what is done with them.

use std::path::PathBuf;

use crate::baseline::number;

const ROUNDS: u32 = 5;
const ROUNDS_MAX: u32 = 100;
/// Data of each run: 32,768 commands of 4 KiB.
const SIZE_MIB: u32 = 128;
/// The kernel keeps a whole run until tcpdump takes it.
const SIZE_MIB_MAX: u32 = 192;

/// The whole command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) program: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) rounds: u32,
    pub(crate) size_mib: u32,
}

/// Reads the arguments after `latency`.
///
/// # Errors
/// What is wrong with them, for a person.
pub(crate) fn parse(args: &[String]) -> Result<Arguments, String> {
    let mut program = None;
    let output = PathBuf::from("latency");
    let mut arguments = Arguments { program: PathBuf::new(), output, rounds: ROUNDS, size_mib: SIZE_MIB };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} is unknown, or needs a value"))?;
        match word.as_str() {
            "--program" => program = Some(PathBuf::from(value)),
            "--output" => arguments.output = PathBuf::from(value),
            "--rounds" => arguments.rounds = number(word, value, 2, ROUNDS_MAX)?,
            "--size" => arguments.size_mib = number(word, value, 1, SIZE_MIB_MAX)?,
            other => return Err(format!("{other} is unknown")),
        }
    }
    arguments.program = program.ok_or("latency needs --program PATH, the selvedge to measure")?;
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_defaults_and_refuses_nonsense() {
        let parsed = |line: &str| parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let usual = parsed("--program selvedge").unwrap();
        assert_eq!((usual.rounds, usual.size_mib), (5, 128));
        for line in
            ["", "--program a --rounds 1", "--program a --size 500", "--program a --depth 3", "--program"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
