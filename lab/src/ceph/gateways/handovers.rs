//! Planned handovers, under hosts that write and check every block: a gateway ends in order and returns, and a namespace moves to
//! another gateway and comes back. It keeps out how gateways and hosts are run.

use std::time::{Duration, Instant};

use super::group::NQN;
use super::rounds::{RANGE_MIB, Rounds, ms};
use crate::answer::has_failed;

/// Time for which hosts write that see a gateway end and return, and for which those write whose
/// namespace moves.
const RETURN_S: u64 = 14;
const MOVE_S: u64 = 10;
/// Until hosts have settled, before and between.
const CALM: Duration = Duration::from_millis(700);

/// Times of a hand-over, in milliseconds: until it was done, until it was undone, and the longest
/// wait of hosts for one command.
#[derive(Clone, Copy, Debug)]
struct Figures {
    away_ms: u64,
    back_ms: u64,
    stall_ms: u64,
    neighbour_ms: u64,
}

impl Rounds {
    /// A gateway that ends and returns: how namespaces move is tried where one has to wait for its cluster.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn hand_over_once(&mut self) -> Result<(), String> {
        self.end_and_return().map(drop)
    }

    /// `count` of each kind. How many failed.
    pub(super) fn hand_over(&mut self, count: u32) -> usize {
        let (mut failed, mut ends, mut moves) = (0, Vec::new(), Vec::new());
        for number in 1..=count {
            for (what, figures) in [("end", &mut ends), ("move", &mut moves)] {
                let outcome = if what == "end" { self.end_and_return() } else { self.move_and_return() };
                let outcome = outcome.map(|took| figures.push(took));
                failed += usize::from(has_failed(&format!("{what} {number}"), &outcome));
            }
        }
        tell("gateways that ended", &ends);
        tell("namespaces that moved", &moves);
        failed
    }

    /// A gateway gets SIGTERM, and is started again when it has ended.
    fn end_and_return(&mut self) -> Result<Figures, String> {
        let [going, other] = self.two_gateways();
        let nsids = self.nsids([going, other]);
        let mut hosts = self.start_hosts(nsids, RETURN_S, RANGE_MIB, false)?;
        std::thread::sleep(CALM);
        let began = Instant::now();
        self.group.gateways[going].daemon.ask_to_end();
        let away = self.group.await_takeover(going, began)?;
        self.group.gateways[going].daemon.end()?;
        std::thread::sleep(CALM);
        let back = Instant::now();
        self.group.gateways[going].daemon.start()?;
        let returned = self.group.await_service(going, self.group.gateways[going].group, back)?;
        if hosts.hit.has_ended() {
            return Err("the host has ended before the gateway was back".to_owned());
        }
        hosts.finish()?;
        hosts.check()?;
        self.group.await_rest()?;
        self.has_states(nsids[0], going)?;
        let figures = Figures {
            away_ms: ms(away),
            back_ms: ms(returned),
            stall_ms: hosts.hit.worst_ms()?,
            neighbour_ms: hosts.beside.worst_ms()?,
        };
        self.tell_planned(
            &format!("gateway {} ended and returned", self.group.gateways[going].name),
            figures,
        );
        Ok(figures)
    }

    /// A namespace is moved to another gateway's load-balancing group, and back.
    fn move_and_return(&mut self) -> Result<Figures, String> {
        let [from, to] = self.two_gateways();
        let nsids = self.nsids([from, to]);
        let mut hosts = self.start_hosts(nsids, MOVE_S, RANGE_MIB, false)?;
        std::thread::sleep(CALM);
        let away = self.move_namespace(nsids[0], from, to)?;
        std::thread::sleep(CALM);
        let back = self.move_namespace(nsids[0], to, from)?;
        if hosts.hit.has_ended() {
            return Err("the host has ended before the namespace was back".to_owned());
        }
        hosts.finish()?;
        hosts.check()?;
        self.has_states(nsids[0], from)?;
        let figures = Figures {
            away_ms: ms(away),
            back_ms: ms(back),
            stall_ms: hosts.hit.worst_ms()?,
            neighbour_ms: hosts.beside.worst_ms()?,
        };
        let names = [from, to].map(|number| self.group.gateways[number].name);
        self.tell_planned(
            &format!("namespace {} moved from {} to {} and back", nsids[0], names[0], names[1]),
            figures,
        );
        Ok(figures)
    }

    /// Time until a new host finds the namespace at the other gateway.
    fn move_namespace(&self, nsid: u32, from: usize, to: usize) -> Result<Duration, String> {
        let (began, group) = (Instant::now(), self.group.gateways[to].group.to_string());
        let nsid_text = nsid.to_string();
        let words = ["namespace", "set", NQN, &nsid_text, "--load-balancing-group", &group];
        self.group.administer(from, &words)?;
        let took = began.elapsed();
        self.has_states(nsid, to)?;
        Ok(took)
    }

    /// A namespace of the load-balancing group of each of these gateways, for another round.
    pub(super) fn nsids(&mut self, gateways: [usize; 2]) -> [u32; 2] {
        self.next_round();
        gateways.map(|gateway| {
            let chance = self.dice().next();
            self.group.nsid(gateway, chance)
        })
    }

    fn tell_planned(&self, what: &str, figures: Figures) {
        let Figures { away_ms, back_ms, stall_ms, neighbour_ms } = figures;
        println!(
            "        {what}: {away_ms} ms, and {back_ms} ms; worst stall {stall_ms} ms (of another gateway's host \
             {neighbour_ms} ms)"
        );
    }
}

fn tell(what: &str, all: &[Figures]) {
    let line = |of: &str, take: fn(&Figures) -> u64| {
        let mut all: Vec<u64> = all.iter().map(take).collect();
        all.sort_unstable();
        let median = all.get(all.len() / 2).copied().unwrap_or_default();
        println!("        {what}, {of}: median {median} ms, most {} ms", all.last().unwrap_or(&0));
    };
    line("until done", |figures| figures.away_ms);
    line("until undone", |figures| figures.back_ms);
    line("worst stall of a host", |figures| figures.stall_ms);
    line("worst stall of a host of another gateway", |figures| figures.neighbour_ms);
}
