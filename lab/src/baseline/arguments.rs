//! The command line of `lab iscsi` as values. It keeps out what is done with them.

use std::path::PathBuf;

const SECONDS: u32 = 4;
const SECONDS_MAX: u32 = 600;
const ROUNDS: u32 = 3;
const ROUNDS_MAX: u32 = 100;
const SIZE_MIB: u32 = 1024;
/// A file has to be larger than what processors cache, and to fit into memory beside everything else.
const SIZE_MIB_MIN: u32 = 64;
const SIZE_MIB_MAX: u32 = 65_536;

/// Where the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// A file system in memory: what is measured is the way there.
    Memory,
    /// A file system on this machine's disk.
    Disk,
}

impl Store {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Store::Memory => "memory",
            Store::Disk => "disk",
        }
    }
}

/// The whole command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) program: PathBuf,
    pub(crate) output: PathBuf,
    /// Where a file on the disk may be.
    pub(crate) directory: PathBuf,
    pub(crate) stores: Vec<Store>,
    pub(crate) seconds: u32,
    pub(crate) rounds: u32,
    pub(crate) size_mib: u32,
}

/// Reads the arguments after `iscsi`.
///
/// # Errors
/// What is wrong with them, for a person.
pub(crate) fn parse(args: &[String]) -> Result<Arguments, String> {
    let mut program = None;
    let mut arguments = Arguments {
        program: PathBuf::new(),
        output: PathBuf::from("iscsi"),
        directory: PathBuf::from("."),
        stores: vec![Store::Memory, Store::Disk],
        seconds: SECONDS,
        rounds: ROUNDS,
        size_mib: SIZE_MIB,
    };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} is unknown, or needs a value"))?;
        match word.as_str() {
            "--program" => program = Some(PathBuf::from(value)),
            "--output" => arguments.output = PathBuf::from(value),
            "--directory" => arguments.directory = PathBuf::from(value),
            "--seconds" => arguments.seconds = number(word, value, 1, SECONDS_MAX)?,
            "--rounds" => arguments.rounds = number(word, value, 1, ROUNDS_MAX)?,
            "--size" => arguments.size_mib = size(word, value)?,
            "--store" => {
                arguments.stores = match value.as_str() {
                    "memory" => vec![Store::Memory],
                    "disk" => vec![Store::Disk],
                    "both" => vec![Store::Memory, Store::Disk],
                    other => return Err(format!("--store {other}: memory, disk or both")),
                }
            }
            other => return Err(format!("{other} is unknown")),
        }
    }
    arguments.program = program.ok_or("iscsi needs --program PATH, the selvedge to measure")?;
    Ok(arguments)
}

/// MiB. A power of two, so that the steps of a client without a random order come to every block.
fn size(option: &str, value: &str) -> Result<u32, String> {
    let mib = number(option, value, SIZE_MIB_MIN, SIZE_MIB_MAX)?;
    if mib.is_power_of_two() { Ok(mib) } else { Err(format!("{option} {value}: a power of two, in MiB")) }
}

/// A number between `least` and `most`.
pub(crate) fn number(option: &str, value: &str, least: u32, most: u32) -> Result<u32, String> {
    match value.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("{option} {value}: a number between {least} and {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        let words = format!("--program selvedge {line}");
        parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn has_defaults_and_takes_others() {
        let usual = parsed("").unwrap();
        assert_eq!((usual.seconds, usual.rounds, usual.size_mib, usual.stores.len()), (4, 3, 1024, 2));
        let other = parsed("--store disk --seconds 1 --rounds 5 --size 128 --output here").unwrap();
        assert_eq!((other.seconds, other.rounds, other.size_mib), (1, 5, 128));
        assert_eq!((other.stores, other.output), (vec![Store::Disk], PathBuf::from("here")));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in
            ["--seconds 0", "--rounds x", "--size 100", "--size 4", "--store ram", "--speed 1", "--seconds"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(parse(&[]).is_err());
    }
}
