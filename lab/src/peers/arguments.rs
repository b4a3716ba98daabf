//! The command line of `lab iscsi` as values. It keeps out what is done with them.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};

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

/// Where files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stores {
    Memory,
    Disk,
    Both,
}

/// The whole command line.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// The selvedge to measure
    #[arg(long, value_name = "PATH")]
    pub(crate) program: PathBuf,
    /// Where runs.jsonl and summary.md go
    #[arg(long, value_name = "DIR", default_value = "iscsi")]
    pub(crate) output: PathBuf,
    /// Where the file is
    #[arg(long = "store", value_name = "WHERE", default_value = "both")]
    stores: Stores,
    /// Where on the disk
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
    /// Of each run
    #[arg(long, value_name = "S", default_value = "4", value_parser = value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Of which the medians count
    #[arg(long, value_name = "N", default_value = "3", value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Of the file, a power of two
    #[arg(long = "size", value_name = "MIB", default_value = "1024", value_parser = size)]
    pub(crate) size_mib: u32,
}

impl Arguments {
    /// Where the file is to be, one after the other.
    pub(crate) const fn stores(&self) -> &'static [Store] {
        match self.stores {
            Stores::Memory => &[Store::Memory],
            Stores::Disk => &[Store::Disk],
            Stores::Both => &[Store::Memory, Store::Disk],
        }
    }
}

/// MiB. A power of two, so that the steps of a client without a random order come to every block.
fn size(value: &str) -> Result<u32, String> {
    let mib = value.parse().ok().filter(|mib: &u32| (SIZE_MIB_MIN..=SIZE_MIB_MAX).contains(mib));
    mib.filter(|mib| mib.is_power_of_two())
        .ok_or_else(|| format!("a power of two from {SIZE_MIB_MIN} to {SIZE_MIB_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn parsed(line: &str) -> Result<Arguments, String> {
        command_line::parsed(&format!("--program selvedge {line}"))
    }

    #[test]
    fn has_defaults_and_takes_others() {
        let usual = parsed("").unwrap();
        assert_eq!((usual.seconds, usual.rounds, usual.size_mib, usual.stores().len()), (4, 3, 1024, 2));
        let other = parsed("--store disk --seconds 1 --rounds 5 --size 128 --output here").unwrap();
        assert_eq!((other.seconds, other.rounds, other.size_mib), (1, 5, 128));
        assert_eq!((other.stores(), &other.output), (&[Store::Disk][..], &PathBuf::from("here")));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in
            ["--seconds 0", "--rounds x", "--size 100", "--size 4", "--store ram", "--speed 1", "--seconds"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(command_line::parsed::<Arguments>("").is_err());
    }
}
