//! `lab ceph gateways`: gateways that serve the same images, of which one is killed, stopped or cut off while hosts write
//! and check every block. It decides how many rounds there are and what they add up to; a round is in `rounds`.

mod blocklisting;
mod control;
mod crowd;
mod draining;
mod group;
mod handovers;
mod locations;
mod many_paths;
mod namespaces;
mod outage;
mod rounds;
mod silence;
mod status;
mod upgrades;

use std::path::{Path, PathBuf};

use crate::answer::has_failed;
use group::{IMAGES, Members};
pub(super) use namespaces::Namespaces;
use outage::Outage;
use rounds::{Figures, Round, Rounds, hindrance};

/// The suite's rounds, by their names.
const CHECKS: [(&str, Round); 6] = [
    ("a gateway is killed and started again", round(Outage::Killed, false)),
    ("a gateway is stopped and goes on under hosts", round(Outage::Stopped, false)),
    ("a gateway is stopped and has nothing to say when it goes on", round(Outage::Stopped, true)),
    ("a gateway is cut off from hosts and cluster", round(Outage::CutOff, true)),
    ("a gateway is cut off from its cluster alone", round(Outage::CutFromCluster, false)),
    ("a gateway is cut off from hosts alone", round(Outage::CutFromHosts, false)),
];

/// Further checks, by their names.
const OTHERS: [(&str, Check); 9] = [
    ("a gateway ends in order and returns", Rounds::hand_over_once),
    ("a gateway is cut off from its cluster in the middle of a change", Rounds::change_in_silence),
    ("a gateway is drained, started again, and let serve again", Rounds::drain_one),
    ("gateways are upgraded ten times in turn, and no other takes over", Rounds::upgrade_all),
    ("a gateway whose connection is put on the blocklist goes on by another", Rounds::shut_one_out),
    ("connections that were closed are shut out and forgotten", Rounds::close_many),
    ("an image of another cluster is refused", Rounds::refuse_other_cluster),
    ("strangers that never authenticate take no controller and no place", Rounds::withstand_crowd),
    ("a gateway that was killed is removed, and another takes its place", Rounds::replace_gateway),
];

/// Rounds of gateways at three locations, by their names.
const LOCATED: [(&str, Round); 2] = [
    (
        "a gateway is killed, and its location is used alone before and after that",
        round(Outage::Killed, false),
    ),
    (
        "a gateway is lost by hosts, and its location is used alone otherwise",
        round(Outage::CutFromHosts, false),
    ),
];

/// A check besides the rounds.
type Check = fn(&mut Rounds) -> Result<(), String>;

const fn round(outage: Outage, is_quiet: bool) -> Round {
    Round { outage, is_quiet }
}

/// Gateways of the suite: with two, all groups of one would be the other's.
const GATEWAYS: usize = 3;

/// Many random rounds.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Campaign {
    /// The selvedge to try
    #[arg(long, value_name = "PATH")]
    pub(super) program: String,
    /// Folder of its files and the logs
    #[arg(long, value_name = "DIR", default_value = "gateways")]
    pub(super) output: PathBuf,
    /// Half an hour by default
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub(super) rounds: u32,
    /// Number of gateways
    #[arg(long, value_name = "N", default_value_t = GATEWAYS, value_parser = gateway_count)]
    pub(super) gateways: usize,
    /// Namespaces in the load-balancing group of each gateway
    #[arg(long, value_name = "N", default_value_t = IMAGES, value_parser = clap::value_parser!(u32).range(2..=300))]
    pub(super) images: u32,
    /// The outage of all rounds [default: random]
    #[arg(long, hide_default_value = true)]
    pub(super) outage: Option<Outage>,
    /// Give gateways three locations in turn and groups back after a delay, and count commands at other locations
    #[arg(long, conflicts_with = "planned")]
    pub(super) locations: bool,
    /// Have gateways end in order and return, and namespaces move, instead of outages
    #[arg(long)]
    pub(super) planned: bool,
    /// Seed of everything random [default: random, and printed]
    #[arg(long, value_name = "N", default_value_t = crate::command_line::chance(), hide_default_value = true)]
    pub(super) seed: u64,
}

impl Campaign {
    /// Plays all rounds. How many failed.
    ///
    /// # Errors
    /// The testbed cannot be set up, or is lost on the way.
    pub(super) fn run(&self) -> Result<usize, String> {
        if let Some(reason) = hindrance() {
            return Err(reason);
        }
        println!("seed {}", self.seed);
        let output = folder(&self.output)?;
        let members = Members { count: self.gateways, images: self.images, has_locations: self.locations };
        let mut rounds = Rounds::new(&self.program, &output, members, self.seed)?;
        if self.planned {
            return Ok(rounds.hand_over(self.rounds));
        }
        let mut sum = Sum::default();
        for number in 1..=self.rounds {
            let round = match self.outage {
                Some(outage) => Round::of(outage, rounds.dice()),
                None => Round::by_chance(rounds.dice()),
            };
            sum.add(&format!("round {number}"), rounds.play(round));
        }
        sum.tell();
        Ok(sum.failed)
    }
}

fn gateway_count(text: &str) -> Result<usize, String> {
    let counts = 2..=group::GATEWAYS_MAX;
    let count = text.parse().ok().filter(|count| counts.contains(count));
    count.ok_or_else(|| format!("`{text}` is not a number from {} to {}", counts.start(), counts.end()))
}

/// Number of the suite's rounds with `only` in their names.
pub(super) fn count_checks(only: &str) -> usize {
    let rounds = CHECKS.iter().chain(&LOCATED).map(|(name, _)| *name);
    rounds.chain(OTHERS.iter().map(|(name, _)| *name)).filter(|name| name.contains(only)).count()
}

/// Plays the suite's rounds that have `only` in their names. How many failed.
///
/// # Errors
/// There is no testbed.
pub(super) fn check(program: &str, output: &Path, only: &str, seed: u64) -> Result<usize, String> {
    if let Some(reason) = hindrance() {
        println!("        gateways are not tried: {reason}");
        return Ok(1);
    }
    let members = Members { count: GATEWAYS, images: IMAGES, has_locations: false };
    let located = LOCATED.iter().filter(|(name, _)| name.contains(only));
    let mut failed = 0;
    // One group after the other: networks have the name of this process.
    if count_checks(only) > located.clone().count() {
        let mut rounds = Rounds::new(program, &folder(&output.join("gateways"))?, members, seed)?;
        failed += play(&mut rounds, CHECKS.iter().filter(|(name, _)| name.contains(only)));
        for (name, check) in OTHERS.iter().filter(|(name, _)| name.contains(only)) {
            failed += usize::from(has_failed(name, &check(&mut rounds)));
        }
    }
    if located.clone().count() > 0 {
        let members = Members { has_locations: true, ..members };
        let mut rounds = Rounds::new(program, &folder(&output.join("locations"))?, members, seed)?;
        failed += play(&mut rounds, located);
    }
    Ok(failed)
}

/// Plays rounds, and says what they add up to. How many failed.
fn play<'a>(rounds: &mut Rounds, all: impl Iterator<Item = &'a (&'static str, Round)>) -> usize {
    let mut sum = Sum::default();
    for (name, round) in all {
        sum.add(name, rounds.play(*round));
    }
    if sum.failed > 0 || !sum.good.is_empty() {
        sum.tell();
    }
    sum.failed
}

fn folder(path: &Path) -> Result<PathBuf, String> {
    let made = std::fs::create_dir_all(path).and_then(|()| path.canonicalize());
    made.map_err(|error| format!("{}: {error}", path.display()))
}

/// Sum of rounds.
#[derive(Debug, Default)]
struct Sum {
    failed: usize,
    good: Vec<Figures>,
}

impl Sum {
    fn add(&mut self, name: &str, outcome: Result<Figures, String>) {
        let (figures, outcome) = match outcome {
            Ok(figures) => (Some(figures), Ok(())),
            Err(reason) => (None, Err(reason)),
        };
        self.failed += usize::from(has_failed(name, &outcome));
        self.good.extend(figures);
    }

    fn tell(&self) {
        let line = |what: &str, take: fn(&Figures) -> u64| {
            let mut all: Vec<u64> = self.good.iter().map(take).collect();
            all.sort_unstable();
            let median = all.get(all.len() / 2).copied().unwrap_or_default();
            println!("        {what}: median {median} ms, most {} ms", all.last().unwrap_or(&0));
        };
        println!("        {} rounds, {} failed", self.good.len() + self.failed, self.failed);
        line("until another gateway served", |figures| figures.takeover_ms);
        line("until the group was given back", |figures| figures.return_ms);
        line("worst stall of a host", |figures| figures.stall_ms);
        line("worst stall of a host of another gateway", |figures| figures.neighbour_ms);
    }
}
