//! All gateways are replaced by other processes in turn, under hosts that write and check every
//! block: no gateway takes over, and no host reconnects. It keeps out how gateways and hosts are
//! run.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::group::NQN;
use super::rounds::{RANGE_MIB, Rounds, ms};

/// Number of upgrades.
const UPGRADES: usize = 10;
/// Time for which hosts write: an upgrade takes some seconds on a machine with other work, and they
/// write on between them.
const RUNTIME_S: u64 = 100;
const BETWEEN: Duration = Duration::from_millis(1_500);
/// Texts in a gateway's log that show another event than an upgrade.
const SIGNS: [&str; 5] = [
    "changes its owner",
    "no heartbeat for",
    "starts a new epoch",
    "rejoining the group",
    "hosts connect again",
];

impl Rounds {
    /// Upgrades the gateways one after the other.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn upgrade_all(&mut self) -> Result<(), String> {
        let nsids = self.one_of_each();
        let mut hosts = self.start_hosts(nsids, RUNTIME_S, RANGE_MIB, false)?;
        let before = self.happened()?;
        let controllers = self.all_controllers()?;
        let mut pauses = Vec::new();
        for number in 0..UPGRADES {
            let (began, gateway) = (Instant::now(), number % self.group.gateways.len());
            self.group.upgrade(gateway)?;
            let took_ms = ms(began.elapsed());
            let pause_ms = self.group.last_pause_ms(gateway)?;
            println!(
                "        gateway {}: {took_ms} ms, of which hosts waited {pause_ms} ms",
                self.group.gateways[gateway].name
            );
            pauses.push(pause_ms);
            self.group.await_rest()?;
            std::thread::sleep(BETWEEN);
        }
        if hosts.hit.has_ended() || hosts.beside.has_ended() {
            return Err("hosts have ended before the last upgrade".to_owned());
        }
        let now = self.all_controllers()?;
        if now != controllers {
            return Err(format!("hosts have connected again: controllers {controllers:?}, and then {now:?}"));
        }
        let mut deeds = hosts.finish()?;
        deeds.add(&hosts.check()?);
        let after = self.happened()?;
        if before != after {
            return Err(format!("something else happened than upgrades: {before:?}, and then {after:?}"));
        }
        for (gateway, nsid) in nsids.into_iter().enumerate() {
            self.has_states(nsid, gateway)?;
        }
        pauses.sort_unstable();
        println!(
            "        {UPGRADES} upgrades of {NQN}: hosts waited {pauses:?} ms; worst command {} and {} ms in all; {deeds}",
            hosts.hit.worst_ms()?,
            hosts.beside.worst_ms()?,
        );
        Ok(())
    }

    /// Number of occurrences of each sign in the logs, and of connections on the blocklist.
    fn happened(&self) -> Result<(Vec<usize>, usize), String> {
        let logs: Result<Vec<String>, String> =
            self.gateways().map(|gateway| self.group.log(gateway)).collect();
        let logs = logs?.concat();
        let counts = SIGNS.iter().map(|sign| logs.lines().filter(|line| line.contains(sign)).count());
        let shut_out = self.group.blocklist()?.iter().filter(|line| line.contains(' ')).count();
        Ok((counts.collect(), shut_out))
    }
    /// The controllers that hosts have at each gateway.
    fn all_controllers(&self) -> Result<Vec<Vec<u64>>, String> {
        self.gateways().map(|gateway| self.group.controllers(gateway)).collect()
    }

    fn gateways(&self) -> Range<usize> {
        0..self.group.gateways.len()
    }
}
