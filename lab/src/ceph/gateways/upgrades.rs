//! Both gateways are replaced by other processes in turn, under hosts that write and check every block: nobody takes anything
//! over, and no host connects again. It keeps out how gateways and hosts are run.

use std::time::{Duration, Instant};

use super::pair::NQN;
use super::rounds::{RANGE_MIB, Rounds, has_states, ms};

/// How often one of them is.
const UPGRADES: usize = 10;
/// How long hosts write: an upgrade takes some seconds on a machine with other work, and they write on between them.
const RUNTIME_S: u64 = 100;
const BETWEEN: Duration = Duration::from_millis(1_500);
/// What tells in a gateway's log that something else happened than an upgrade.
const SIGNS: [&str; 4] = ["changes hands", "was given up", "begins anew", "hosts connect again"];

impl Rounds {
    /// Upgrades the gateways one after the other.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn upgrade_both(&mut self) -> Result<(), String> {
        let nsids = self.one_of_each();
        let mut hosts = self.start_hosts(nsids, RUNTIME_S, RANGE_MIB, false)?;
        let before = self.happened()?;
        let controllers = [self.pair.controllers(0)?, self.pair.controllers(1)?];
        let mut pauses = Vec::new();
        for number in 0..UPGRADES {
            let began = Instant::now();
            self.pair.upgrade(number % 2)?;
            let took_ms = ms(began.elapsed());
            let pause_ms = self.pair.last_pause_ms(number % 2)?;
            println!(
                "        gateway {}: {took_ms} ms, of which hosts waited {pause_ms} ms",
                ["a", "b"][number % 2]
            );
            pauses.push(pause_ms);
            self.pair.await_rest()?;
            std::thread::sleep(BETWEEN);
        }
        if hosts.hit.has_ended() || hosts.beside.has_ended() {
            return Err("hosts have ended before the last upgrade".to_owned());
        }
        let now = [self.pair.controllers(0)?, self.pair.controllers(1)?];
        if now != controllers {
            return Err(format!("hosts have connected again: controllers {controllers:?}, and then {now:?}"));
        }
        let mut deeds = hosts.finish()?;
        deeds.add(&hosts.check()?);
        let after = self.happened()?;
        if before != after {
            return Err(format!("something else happened than upgrades: {before:?}, and then {after:?}"));
        }
        for (nsid, gateway) in nsids.into_iter().zip(&self.pair.gateways) {
            has_states(&self.pair.paths(nsid)?, &gateway.address)?;
        }
        pauses.sort_unstable();
        println!(
            "        {UPGRADES} upgrades of {NQN}: hosts waited {pauses:?} ms; worst command {} and {} ms in all; {} writes, {} + {} + \
             {} blocks checked",
            hosts.hit.worst_ms()?,
            hosts.beside.worst_ms()?,
            deeds.writes,
            deeds.reads_checked,
            deeds.blocks_read_back,
            deeds.blocks_checked,
        );
        Ok(())
    }

    /// How often each sign stands in the logs, and how many connections are shut out.
    fn happened(&self) -> Result<(Vec<usize>, usize), String> {
        let logs = [self.pair.log(0)?, self.pair.log(1)?].concat();
        let counts = SIGNS.iter().map(|sign| logs.lines().filter(|line| line.contains(sign)).count());
        let shut_out = self.pair.blocklist()?.iter().filter(|line| line.contains(' ')).count();
        Ok((counts.collect(), shut_out))
    }
}
