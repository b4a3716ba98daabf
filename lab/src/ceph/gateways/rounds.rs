//! A round: hosts write to both gateways and check every block, one gateway is away for a while, and afterwards all is as it
//! was. It says what has to be so and how long it took, and keeps out how gateways and hosts are run.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use serde_json::Value;

use super::outage::Outage;
use super::pair::{LINKED, NQN, Pair};
use crate::ceph::ground::{same, soon};
use crate::chaos::host::{self, Damage, Deeds, Host, Plan};
use crate::emulator::link::Dice;

/// The part of a namespace that a host writes, in MiB. Where hosts have ended before a gateway comes back, it is so small that
/// what the gateway had begun has been overwritten meanwhile: the same again could not be told from nothing.
pub(super) const RANGE_MIB: u64 = 16;
const QUIET_RANGE_MIB: u64 = 8;
/// How long hosts write that see a gateway go and come back; and those that are to have ended when it comes back, and have to
/// write on for a while after the writes that were lost with it (which they send again when it has surely come to rest).
const LONG_S: u64 = 26;
const SHORT_S: u64 = 20;
/// And those that see a gateway go and another one come in its place.
const REPLACEMENT_S: u64 = 16;
/// Until a host has written something, and until it has ended, on a machine with other work.
const BEGIN_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(240);
/// What a gateway that comes back may still have sent has landed after so long.
const CALM: Duration = Duration::from_secs(2);

/// What a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) outage: Outage,
    /// Whether hosts have ended before the gateway comes back, so that nothing that it finds to write can be a host's.
    pub(super) is_quiet: bool,
}

impl Round {
    /// A random round.
    pub(super) fn by_chance(dice: &mut Dice) -> Round {
        let outage = Outage::ALL[dice.next() as usize % Outage::ALL.len()];
        Round { outage, is_quiet: outage.may_write_late() && dice.next().is_multiple_of(2) }
    }
}

/// What a round took, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// From the outage until the other gateway serves.
    pub(super) takeover_ms: u64,
    /// From the end of the outage until the gateway serves its own again.
    pub(super) return_ms: u64,
    /// The longest that a host waited for one command, on the gateway that was away and on the other.
    pub(super) stall_ms: u64,
    pub(super) neighbour_ms: u64,
}

/// What rounds need, and what they leave to the next one.
pub(super) struct Rounds {
    pub(super) pair: Pair,
    site: host::Site,
    dice: Dice,
    count: u64,
}

/// The hosts of a round: of the gateway that is hit, and of the other.
pub(super) struct Hosts {
    pub(super) hit: Host,
    pub(super) beside: Host,
}

/// Why rounds cannot be had here.
pub(super) fn hindrance() -> Option<String> {
    (!geteuid().is_root()).then(|| "making network namespaces takes root".to_owned())
}

impl Rounds {
    /// Starts everything below `output`.
    ///
    /// # Errors
    /// What failed and why.
    pub(super) fn new(program: &str, output: &Path, seed: u64) -> Result<Rounds, String> {
        let pair = Pair::start(program, output, seed)?;
        let logs = output.join("hosts");
        std::fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
        let namespace = pair.network.names().1.to_owned();
        let damage = Arc::new(Damage::default());
        let site = host::Site { program: program.to_owned(), namespace, logs, damage };
        Ok(Rounds { pair, site, dice: Dice::new(seed), count: 0 })
    }

    /// The source of everything random: one seed determines all rounds.
    pub(super) const fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// Plays a round, and says what was done and how long it took. Afterwards both gateways are as they were.
    ///
    /// # Errors
    /// What was wrong; or, where the last part says so, that nothing can go on.
    pub(super) fn play(&mut self, round: Round) -> Result<Figures, String> {
        self.count += 1;
        let outcome = self.attempt(round);
        if outcome.is_err() {
            self.pair.restore().map_err(|reason| match &outcome {
                Err(first) => format!("{first}; and then: {reason}"),
                Ok(_) => reason,
            })?;
        }
        outcome
    }

    fn attempt(&mut self, round: Round) -> Result<Figures, String> {
        let Round { outage, is_quiet } = round;
        let victim = if outage.is_cut() || is_quiet { LINKED } else { self.dice.next() as usize % 2 };
        let (nsid, beside) =
            (self.pair.nsid(victim, self.dice.next()), self.pair.nsid(1 - victim, self.dice.next()));
        let (runtime_s, size_mb) = if is_quiet { (SHORT_S, QUIET_RANGE_MIB) } else { (LONG_S, RANGE_MIB) };
        let mut hosts = self.start_hosts([nsid, beside], runtime_s, size_mb, is_quiet)?;
        std::thread::sleep(Duration::from_millis(u64::from(self.dice.next()) % 2_000));

        let lasts = Duration::from_millis(outage.lasts_ms(&mut self.dice));
        let began = Instant::now();
        outage.begin(&mut self.pair.network, &mut self.pair.gateways[victim], victim == LINKED)?;
        let group = self.pair.gateways[victim].group;
        let takeover = self.pair.await_service(1 - victim, group, began)?;
        let mut ended = None;
        if is_quiet {
            ended = Some((hosts.finish()?, self.pair.export(nsid)?));
        }
        std::thread::sleep(lasts.saturating_sub(began.elapsed()));

        let (lasted, back) = (began.elapsed(), Instant::now());
        outage.end(&mut self.pair.network, &mut self.pair.gateways[victim])?;
        let returned = self.pair.await_service(victim, group, back)?;
        self.pair.await_rest()?;
        let deeds = match ended {
            Some((deeds, before)) => {
                std::thread::sleep(CALM);
                same("rbd export after the gateway has come back", &self.pair.export(nsid)?, &before)?;
                deeds
            }
            None => hosts.finish()?,
        };
        let checked = hosts.check()?;
        has_states(&self.pair.paths(nsid)?, &self.pair.gateways[victim].address)?;
        let figures = Figures {
            takeover_ms: ms(takeover),
            return_ms: ms(returned),
            stall_ms: hosts.hit.worst_ms()?,
            neighbour_ms: hosts.beside.worst_ms()?,
        };
        self.tell(round, victim, lasted, &figures, &(deeds, checked));
        Ok(figures)
    }

    /// Adds and removes an image so often that the gateways have closed many connections.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn close_many(&mut self) -> Result<(), String> {
        let began = Instant::now();
        let shut_out = self.pair.close_many()?;
        println!(
            "        {} times a connection of each gateway, of which {shut_out} were shut out in {:.1} s",
            super::pair::CLOSINGS,
            began.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Asks a gateway to serve an image of a cluster that is not its group's.
    ///
    /// # Errors
    /// It serves it, or says something else.
    pub(super) fn refuse_other_cluster(&mut self) -> Result<(), String> {
        self.pair.refuse_other_cluster()
    }

    /// A gateway is killed, taken over and removed while hosts write, and another one comes in its place. It is the last thing that
    /// is played: the gateways are others afterwards.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn replace_gateway(&mut self) -> Result<(), String> {
        let nsids = self.one_of_each();
        let mut hosts = self.start_hosts(nsids, REPLACEMENT_S, RANGE_MIB, false)?;
        self.pair.is_refused(0, &["gateways", "remove", "b"], &["gateway b is alive", "end it first"])?;
        self.pair.is_refused(0, &["gateways", "remove", "x"], &["no gateway x"])?;
        let (before, began) = (self.pair.blocklist()?, Instant::now());
        self.pair.gateways[0].daemon.kill();
        let takeover = self.pair.await_service(1, 1, began)?;
        self.pair.is_shut_out_for_long(&before)?;
        self.pair.replace_first("c")?;
        self.pair.is_refused(1, &["gateways", "remove", "c"], &["gateway c is alive"])?;
        if hosts.hit.has_ended() {
            return Err("the host has ended before the gateway was removed".to_owned());
        }
        let removed = Instant::now();
        self.pair.administer(1, &["gateways", "remove", "a"])?;
        // The new gateway has no namespaces yet, and so gets all that the removed one had.
        soon("gateways b and c with two namespaces each", || self.pair.has_moved_on())?;
        let moved = removed.elapsed();
        let mut deeds = hosts.finish()?;
        deeds.add(&hosts.check()?);
        for (nsid, gateway) in nsids.into_iter().zip(&self.pair.gateways) {
            has_states(&self.pair.paths(nsid)?, &gateway.address)?;
        }
        println!(
            "        gateway a killed, taken over after {} ms, removed, and its namespaces with another one after {} ms; worst \
             stall {} ms (of the other's host {} ms); {} writes, {} + {} + {} blocks checked",
            ms(takeover),
            ms(moved),
            hosts.hit.worst_ms()?,
            hosts.beside.worst_ms()?,
            deeds.writes,
            deeds.reads_checked,
            deeds.blocks_read_back,
            deeds.blocks_checked,
        );
        Ok(())
    }

    /// A namespace of each gateway's load-balancing group, for another round.
    pub(super) fn one_of_each(&mut self) -> [u32; 2] {
        self.count += 1;
        [self.pair.nsid(0, self.dice.next()), self.pair.nsid(1, self.dice.next())]
    }

    pub(super) fn start_hosts(
        &mut self,
        [nsid, beside]: [u32; 2],
        runtime_s: u64,
        size_mb: u64,
        is_quiet: bool,
    ) -> Result<Hosts, String> {
        let mut start = |name: &'static str, nsid: u32| {
            let addresses = self.pair.gateways.iter().map(|gateway| gateway.address.clone()).collect();
            let (nqn, range) = (NQN, (0, size_mb));
            let place = host::Place::new(name, nqn, nsid, addresses, range);
            let number = self.count * 4 + u64::from(nsid > 2);
            let plan = Plan::by_chance(&place, runtime_s, number, &mut self.dice);
            let plan = if is_quiet { plan.deep() } else { plan };
            Host::start(&self.site, plan, format!("round-{}-{name}", self.count))
        };
        let mut hosts = Hosts { hit: start("hit", nsid)?, beside: start("beside", beside)? };
        let until = Instant::now() + BEGIN_LIMIT;
        hosts.hit.begun(until)?;
        hosts.beside.begun(until)?;
        Ok(hosts)
    }

    fn tell(
        &self,
        round: Round,
        victim: usize,
        lasted: Duration,
        figures: &Figures,
        (deeds, checked): &(Deeds, Deeds),
    ) {
        let Figures { takeover_ms, return_ms, stall_ms, neighbour_ms } = figures;
        let quiet = if round.is_quiet { ", without hosts when it came back" } else { "" };
        println!(
            "        gateway {} {} for {:.1} s{quiet}: taken over after {takeover_ms} ms, given back after \
             {return_ms} ms; worst stall {stall_ms} ms (of the other's host {neighbour_ms} ms); {} writes, {} + {} + {} \
             blocks checked",
            self.pair.gateways[victim].name,
            round.outage.name(),
            lasted.as_secs_f64(),
            deeds.writes,
            deeds.reads_checked,
            deeds.blocks_read_back,
            checked.blocks_checked,
        );
    }
}

impl Hosts {
    /// Waits for the end of both, which has to be a good one.
    pub(super) fn finish(&mut self) -> Result<Deeds, String> {
        let until = Instant::now() + END_LIMIT;
        let mut deeds = self.hit.finish(until)?;
        deeds.add(&self.beside.finish(until)?);
        Ok(deeds)
    }

    /// Other hosts find everything that was acknowledged and flushed.
    pub(super) fn check(&self) -> Result<Deeds, String> {
        let mut deeds = self.hit.check()?;
        deeds.add(&self.beside.check()?);
        Ok(deeds)
    }
}

/// Of the two paths to a namespace, the one to `address` has to be optimized, and the other one inaccessible.
pub(super) fn has_states(paths: &[Value], address: &str) -> Result<(), String> {
    for path in paths {
        let at = path["address"].as_str().unwrap_or_default();
        let wanted = if is_address(at, address) { "optimized" } else { "inaccessible" };
        if path["ana"] != wanted {
            return Err(format!("the path to {at} is {} and not {wanted}", path["ana"]));
        }
    }
    if paths.len() == 2 { Ok(()) } else { Err(format!("not two paths: {}", Value::from(paths))) }
}

/// Whether `ADDRESS[:PORT]` is at `address`.
fn is_address(at: &str, address: &str) -> bool {
    at.strip_prefix(address).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_may_write_late_is_waited_for() {
        let mut dice = Dice::new(1);
        let rounds: Vec<Round> = (0..200).map(|_| Round::by_chance(&mut dice)).collect();
        assert!(Outage::ALL.iter().all(|outage| rounds.iter().any(|round| round.outage == *outage)));
        assert!(rounds.iter().all(|round| !round.is_quiet || round.outage.may_write_late()));
        assert!(rounds.iter().any(|round| round.is_quiet));
    }

    #[test]
    fn one_path_is_optimized() {
        let path = |at: &str, ana: &str| serde_json::json!({"address": at, "ana": ana});
        let both = [path("10.1.1.1:4420", "optimized"), path("10.1.1.2:4420", "inaccessible")];
        assert_eq!(has_states(&both, "10.1.1.1"), Ok(()));
        assert!(has_states(&both, "10.1.1.2").is_err() && has_states(&both[..1], "10.1.1.1").is_err());
    }

    #[test]
    fn an_address_is_not_the_beginning_of_another() {
        assert!(is_address("10.1.1.1:4420", "10.1.1.1") && is_address("10.1.1.1", "10.1.1.1"));
        assert!(!is_address("10.1.1.12:4420", "10.1.1.1"));
    }
}
