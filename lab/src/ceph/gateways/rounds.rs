//! A round: hosts write to two gateways of a group and check every block, one gateway is away for a while, and afterwards all is as it
//! was. It says what has to be so and how long it took, and keeps out how gateways and hosts are run.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::geteuid;
use serde_json::Value;

use super::group::{Group, Members, NQN, SECURE_HOST};
use super::locations::{LocationWatch, is_delayed};
use super::outage::Outage;
use crate::ceph::testbed::{same, soon};
use crate::chaos::host::{self, Damage, Deeds, Host, Plan};
use crate::emulator::link::Dice;

/// Part of a namespace that a host writes, in MiB. Where hosts have ended before a gateway comes
/// back, it is so small that the gateway's last writes have been overwritten meanwhile: the same
/// data again would not be noticed.
pub(super) const RANGE_MIB: u64 = 16;
const QUIET_RANGE_MIB: u64 = 8;
/// Time for which hosts write that see a gateway go and come back; and for which those write that
/// are to have ended when it comes back. These go on for a while after the writes that were lost
/// with it (which they send again when it has surely come to rest).
const LONG_S: u64 = 26;
const SHORT_S: u64 = 20;
/// And those that see a gateway go and another one come in its place.
const REPLACEMENT_S: u64 = 16;
/// Until a host has written something, and until it has ended, on a machine with other work.
const BEGIN_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(240);
/// Time after which all commands of a returning gateway have landed.
const CALM: Duration = Duration::from_secs(2);

/// Parameters of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) outage: Outage,
    /// True if hosts have ended before the gateway comes back, so that no write of it can be a
    /// host's.
    pub(super) is_quiet: bool,
}

impl Round {
    /// A random round.
    pub(super) fn by_chance(dice: &mut Dice) -> Round {
        let outage = Outage::ALL[dice.next() as usize % Outage::ALL.len()];
        Round::of(outage, dice)
    }

    /// Round with this outage.
    pub(super) fn of(outage: Outage, dice: &mut Dice) -> Round {
        Round { outage, is_quiet: outage.may_write_late() && dice.next().is_multiple_of(2) }
    }
}

/// Times of a round, in milliseconds.
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

/// State of rounds, from one to the next.
pub(super) struct Rounds {
    pub(super) group: Group,
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
    pub(super) fn new(program: &str, output: &Path, members: Members, seed: u64) -> Result<Rounds, String> {
        let group = Group::start(program, output, members, seed)?;
        let logs = output.join("hosts");
        std::fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
        let namespace = group.network.names().1.to_owned();
        let damage = Arc::new(Damage::default());
        let site = host::Site { program: program.to_owned(), namespace, logs, damage };
        Ok(Rounds { group, site, dice: Dice::new(seed), count: 0 })
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
            self.group.restore().map_err(|reason| match &outcome {
                Err(first) => format!("{first}; and then: {reason}"),
                Ok(_) => reason,
            })?;
        }
        outcome
    }

    fn attempt(&mut self, round: Round) -> Result<Figures, String> {
        let Round { outage, is_quiet } = round;
        let [victim, other] = self.two_gateways();
        let (nsid, beside) =
            (self.group.nsid(victim, self.dice.next()), self.group.nsid(other, self.dice.next()));
        let (runtime_s, size_mb) = if is_quiet { (SHORT_S, QUIET_RANGE_MIB) } else { (LONG_S, RANGE_MIB) };
        let mut hosts = self.start_hosts([nsid, beside], runtime_s, size_mb, is_quiet)?;
        let mut watch = LocationWatch::begin(&self.group, [nsid, beside])?;
        std::thread::sleep(Duration::from_millis(u64::from(self.dice.next()) % 2_000));

        watch.outage_begins(&self.group)?;
        let lasts = Duration::from_millis(outage.lasts_ms(&mut self.dice));
        let (began, began_ms) = (Instant::now(), now_ms());
        outage.begin(&mut self.group.network, &mut self.group.gateways[victim])?;
        let group = self.group.gateways[victim].group;
        let takeover = self.group.await_takeover(victim, began)?;
        let mut ended = None;
        if is_quiet {
            ended = Some((hosts.finish()?, self.group.export(nsid)?));
        }
        std::thread::sleep(lasts.saturating_sub(began.elapsed()));

        let (lasted, back) = (began.elapsed(), Instant::now());
        outage.end(&mut self.group.network, &mut self.group.gateways[victim])?;
        let returned = self.group.await_service(victim, group, back)?;
        self.group.await_rest()?;
        watch.outage_is_over(&self.group)?;
        if self.group.members.has_locations {
            is_delayed(outage, returned)?;
        }
        let mut deeds = match ended {
            Some((deeds, before)) => {
                std::thread::sleep(CALM);
                same("rbd export after the gateway has come back", &self.group.export(nsid)?, &before)?;
                deeds
            }
            None => hosts.finish()?,
        };
        deeds.add(&hosts.check()?);
        self.has_states(nsid, victim)?;
        self.has_reported(other, victim, began_ms)?;
        watch.end(&self.group)?;
        let figures = Figures {
            takeover_ms: ms(takeover),
            return_ms: ms(returned),
            stall_ms: hosts.hit.worst_ms()?,
            neighbour_ms: hosts.beside.worst_ms()?,
        };
        self.tell(round, victim, lasted, &figures, &deeds);
        Ok(figures)
    }

    /// Adds and removes an image so often that the gateways have closed many connections.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn close_many(&mut self) -> Result<(), String> {
        let began = Instant::now();
        let shut_out = self.group.close_many()?;
        println!(
            "        {} times a connection of each gateway, of which {shut_out} were shut out in {:.1} s",
            super::group::CLOSINGS,
            began.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Asks a gateway to serve an image of a cluster that is not its group's.
    ///
    /// # Errors
    /// It serves it, or says something else.
    pub(super) fn refuse_other_cluster(&mut self) -> Result<(), String> {
        self.group.refuse_other_cluster()
    }

    /// A gateway is killed, taken over and removed while hosts write, and another one comes in its place. It is the last thing that
    /// is played: the gateways are others afterwards.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn replace_gateway(&mut self) -> Result<(), String> {
        let nsids = self.one_of_each();
        let mut hosts = self.start_hosts(nsids, REPLACEMENT_S, RANGE_MIB, false)?;
        self.group.is_refused(0, &["gateways", "remove", "b"], &["gateway b is alive", "end it first"])?;
        self.group.is_refused(0, &["gateways", "remove", "x"], &["no gateway x"])?;
        let (before, began) = (self.group.blocklist()?, Instant::now());
        self.group.gateways[0].daemon.kill();
        let takeover = self.group.await_takeover(0, began)?;
        self.group.is_shut_out_for_long(&before)?;
        self.group.replace_first()?;
        let new = self.group.gateways[0].name;
        let alive = format!("gateway {new} is alive");
        self.group.is_refused(1, &["gateways", "remove", new], &[&alive])?;
        if hosts.hit.has_ended() {
            return Err("the host has ended before the gateway was removed".to_owned());
        }
        let removed = Instant::now();
        self.group.administer(1, &["gateways", "remove", "a"])?;
        // The new gateway has no namespaces yet, and so gets all that the removed one had.
        soon("all gateways with two namespaces each", || self.group.has_moved_on())?;
        let moved = removed.elapsed();
        let mut deeds = hosts.finish()?;
        deeds.add(&hosts.check()?);
        for (gateway, nsid) in nsids.into_iter().enumerate() {
            self.has_states(nsid, gateway)?;
        }
        println!(
            "        gateway a killed, taken over after {} ms, removed, and its namespaces with another one after {} ms; worst \
             stall {} ms (of the other's host {} ms); {deeds}",
            ms(takeover),
            ms(moved),
            hosts.hit.worst_ms()?,
            hosts.beside.worst_ms()?,
        );
        Ok(())
    }

    /// Hosts that start from now on are others.
    pub(super) const fn next_round(&mut self) {
        self.count += 1;
    }

    /// A random gateway, and another one.
    pub(super) fn two_gateways(&mut self) -> [usize; 2] {
        let count = self.group.gateways.len();
        let first = self.dice.next() as usize % count;
        [first, (first + 1 + self.dice.next() as usize % (count - 1)) % count]
    }

    /// A namespace of each of the first two gateways' load-balancing groups, for another round.
    pub(super) fn one_of_each(&mut self) -> [u32; 2] {
        self.next_round();
        [self.group.nsid(0, self.dice.next()), self.group.nsid(1, self.dice.next())]
    }

    pub(super) fn start_hosts(
        &mut self,
        [nsid, beside]: [u32; 2],
        runtime_s: u64,
        size_mb: u64,
        is_quiet: bool,
    ) -> Result<Hosts, String> {
        let mut start = |name: &'static str, nsid: u32, is_secure: bool| {
            let addresses = self.group.gateways.iter().map(|gateway| gateway.address.clone()).collect();
            let (nqn, range) = (NQN, (0, size_mb));
            let region = host::Region::new(name, nqn, nsid, addresses, range);
            // Each round has hosts of its own, but for one that comes by TLS and whose key gateways know.
            let number = if is_secure { SECURE_HOST } else { self.count + SECURE_HOST };
            let plan = Plan::by_chance(&region, runtime_s, number, &mut self.dice);
            let plan = if is_quiet { plan.deep() } else { plan };
            let plan = if is_secure { plan.by_tls(&self.group.key) } else { plan };
            Host::start(&self.site, plan, format!("round-{}-{name}", self.count))
        };
        let mut hosts = Hosts { hit: start("hit", nsid, true)?, beside: start("beside", beside, false)? };
        let until = Instant::now() + BEGIN_LIMIT;
        hosts.hit.begun(until)?;
        hosts.beside.begun(until)?;
        Ok(hosts)
    }

    /// Checks that a new host finds a namespace optimized at this gateway, and at no other one.
    pub(super) fn has_states(&self, nsid: u32, gateway: usize) -> Result<(), String> {
        let gateways = &self.group.gateways;
        has_states(&self.group.paths(nsid)?, &gateways[gateway].address, gateways.len())
    }

    /// Checks that a gateway reports that the group of another one moved, and came back.
    fn has_reported(&self, asked: usize, victim: usize, since_ms: u64) -> Result<(), String> {
        let (asked, victim) = (&self.group.gateways[asked], &self.group.gateways[victim]);
        let status = asked.status()?;
        if status.has_seen_return(victim.group, victim.name, since_ms) {
            return Ok(());
        }
        Err(format!("gateway {} does not tell what happened since {since_ms}: {}", asked.name, status.line()))
    }

    fn tell(&self, round: Round, victim: usize, lasted: Duration, figures: &Figures, deeds: &Deeds) {
        let Figures { takeover_ms, return_ms, stall_ms, neighbour_ms } = figures;
        let quiet = if round.is_quiet { ", without hosts when it came back" } else { "" };
        println!(
            "        gateway {} {} for {:.1} s{quiet}: taken over after {takeover_ms} ms, given back after \
             {return_ms} ms; worst stall {stall_ms} ms (of the other's host {neighbour_ms} ms); {deeds}",
            self.group.gateways[victim].name,
            round.outage.name(),
            lasted.as_secs_f64(),
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

/// Of the paths to a namespace, as many as gateways, the one to `address` has to be optimized, and all others inaccessible.
pub(super) fn has_states(paths: &[Value], address: &str, gateways: usize) -> Result<(), String> {
    for path in paths {
        let at = path["address"].as_str().unwrap_or_default();
        let wanted = if is_address(at, address) { "optimized" } else { "inaccessible" };
        if path["ana"] != wanted {
            return Err(format!("the path to {at} is {} and not {wanted}", path["ana"]));
        }
    }
    if paths.len() == gateways {
        Ok(())
    } else {
        Err(format!("not {gateways} paths: {}", Value::from(paths)))
    }
}

/// True if `ADDRESS[:PORT]` is at `address`.
pub(super) fn is_address(at: &str, address: &str) -> bool {
    at.strip_prefix(address).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Milliseconds since 1970, as gateways tell times.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, ms)
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
        assert_eq!(has_states(&both, "10.1.1.1", 2), Ok(()));
        assert!(has_states(&both, "10.1.1.2", 2).is_err() && has_states(&both, "10.1.1.1", 3).is_err());
    }

    #[test]
    fn an_address_is_not_the_beginning_of_another() {
        assert!(is_address("10.1.1.1:4420", "10.1.1.1") && is_address("10.1.1.1", "10.1.1.1"));
        assert!(!is_address("10.1.1.12:4420", "10.1.1.1"));
    }
}
