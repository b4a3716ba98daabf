//! The command line of `lab ceph` as values. It keeps out what is done with them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, value_parser};

use super::bench::Bench;
use super::config::{OSDS_MAX, Shape, Store};
use super::gateways::{Campaign, Namespaces};
use super::trial::Trial;

/// Task of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Task {
    /// Run a cluster on the loopback with a pool `rbd`, until Ctrl-C or SIGTERM
    ///
    /// The last line that it prints is the path of its configuration file.
    Up(Up),
    /// Check images of such clusters as namespaces: contents, commands, snapshots, sizes, keys, refusals, lost OSDs
    Test(Trial),
    /// Measure what the gateway costs beside fio's rbd engine, what its settings do, and latency by load
    Bench(Bench),
    /// Kill, stop or cut off one of several gateways at random, while hosts write and check every block
    Gateways(Campaign),
    /// Measure memory and times of two gateways by their number of namespaces
    Namespaces(Namespaces),
}

/// A cluster that stays until this process ends.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Up {
    /// Folder of all its files; empty or absent, and removed in the end
    #[arg(long = "dir", value_name = "DIR")]
    pub(super) folder: PathBuf,
    /// With more than one, as many copies (at most 3), and a manager
    #[arg(long, value_name = "N", default_value = "1", value_parser = value_parser!(u32).range(1..=i64::from(OSDS_MAX)))]
    osds: u32,
    /// Store of the OSDs' objects
    #[arg(long, default_value = "memstore")]
    store: Store,
    /// With cephx there are keys for client.admin, and for client.selvedge with `profile rbd`
    #[arg(long, default_value = "none")]
    auth: Auth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Auth {
    None,
    Cephx,
}

impl Up {
    /// The cluster's shape.
    pub(super) fn shape(&self) -> Shape {
        let Up { osds, store, .. } = *self;
        Shape { osds, store, needs_keys: self.auth == Auth::Cephx, has_manager: osds > 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ceph::bench::Measurement;

    /// As a program of its own, which has words of its own.
    #[derive(clap::Parser)]
    struct Ceph {
        #[command(subcommand)]
        task: Task,
    }

    fn parsed(line: &str) -> Result<Task, String> {
        let words = std::iter::once("ceph").chain(line.split_whitespace());
        let ceph: Ceph = clap::Parser::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(ceph.task)
    }

    #[test]
    fn is_small_by_default() {
        let Ok(Task::Up(usual)) = parsed("up --dir d") else { panic!("no cluster") };
        assert_eq!((usual.shape(), usual.folder), (Shape::SMALL, PathBuf::from("d")));
        let line = "up --osds 3 --store bluestore --auth cephx --dir d";
        let Ok(Task::Up(other)) = parsed(line) else { panic!("no cluster") };
        assert_eq!(other.shape(), Shape { needs_keys: true, ..Shape::REPLICATED });
    }

    #[test]
    fn a_trial_has_its_seed() {
        let Ok(Task::Test(trial)) = parsed("test --program a --only no --seed 7") else { panic!("no trial") };
        assert_eq!((trial.program.as_str(), trial.only.as_str(), trial.seed), ("a", "no", 7));
        let Ok(Task::Test(trial)) = parsed("test --program a --seed 9") else { panic!("no trial") };
        assert_eq!((trial.output, trial.seed), (PathBuf::from("ceph"), 9));
    }

    #[test]
    fn measurements_have_rounds() {
        let Ok(Task::Bench(usual)) = parsed("bench --program a --seed 7") else { panic!("no bench") };
        assert_eq!((usual.rounds, usual.seconds, usual.only, usual.seed), (5, 5, None, 7));
        let line = "bench --program a --output o --rounds 1 --seconds 2 --only curve --seed 9";
        let Ok(Task::Bench(other)) = parsed(line) else { panic!("no bench") };
        assert_eq!(
            (other.rounds, other.seconds, other.only, other.seed),
            (1, 2, Some(Measurement::Curve), 9)
        );
        assert_eq!(other.output, PathBuf::from("o"));
    }

    #[test]
    fn a_campaign_has_its_rounds() {
        let campaign = Campaign {
            program: "a".to_owned(),
            output: "gateways".into(),
            rounds: 50,
            gateways: 3,
            images: 2,
            outage: None,
            locations: false,
            planned: false,
            seed: 7,
        };
        assert_eq!(parsed("gateways --program a --seed 7"), Ok(Task::Gateways(campaign.clone())));
        let campaign =
            Campaign { rounds: 3, seed: 9, output: "b".into(), gateways: 5, planned: true, ..campaign };
        let line = "gateways --program a --output b --rounds 3 --gateways 5 --planned --seed 9";
        assert_eq!(parsed(line), Ok(Task::Gateways(campaign.clone())));
        let campaign = Campaign { planned: false, locations: true, ..campaign };
        let line = "gateways --program a --output b --rounds 3 --gateways 5 --locations --seed 9";
        assert_eq!(parsed(line), Ok(Task::Gateways(campaign)));
    }

    #[test]
    fn numbers_of_namespaces_are_a_list() {
        for line in ["namespaces --program a", "namespaces --program a --counts 64,1024 --images --minutes 5"]
        {
            assert!(matches!(parsed(line), Ok(Task::Namespaces(_))), "{line}");
        }
    }

    #[test]
    fn refuses_nonsense() {
        for line in [
            "",
            "down",
            "up",
            "up --dir",
            "up --dir d --osds 0",
            "up --dir d --store disk",
            "up --dir d --size 3",
            "bench",
            "bench --program a --only price",
            "bench --program a --rounds 0",
            "gateways",
            "gateways --program a --rounds 0",
            "gateways --program a --gateways 1",
            "gateways --program a --gateways 8",
            "gateways --program a --locations --planned",
            "namespaces",
            "namespaces --program a --counts 0",
            "namespaces --program a --minutes 0",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
