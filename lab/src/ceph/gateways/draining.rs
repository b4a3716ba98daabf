//! A gateway is drained for maintenance, under hosts that write and check every block: others serve what it has served, also when
//! it was started again, until it is let serve.

use std::time::{Duration, Instant};

use super::rounds::{RANGE_MIB, Rounds, ms};

/// Time for which hosts write.
const RUNTIME_S: u64 = 24;
/// Until hosts have settled.
const CALM: Duration = Duration::from_millis(700);
/// A gateway that has come gets its load-balancing group back after 4 s, if it gets it at all.
const LONG_ENOUGH: Duration = Duration::from_secs(6);

impl Rounds {
    /// Drains a gateway through another one, starts it again, and lets it serve.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn drain_one(&mut self) -> Result<(), String> {
        let [going, other] = self.two_gateways();
        let nsids = self.nsids([going, other]);
        let mut hosts = self.start_hosts(nsids, RUNTIME_S, RANGE_MIB, false)?;
        std::thread::sleep(CALM);
        let (name, group) = (self.group.gateways[going].name, self.group.gateways[going].group);
        let began = Instant::now();
        self.group.administer(other, &["gateways", "drain", name])?;
        let away = self.group.await_takeover(going, began)?;
        self.group.gateways[going].daemon.ask_to_end();
        self.group.gateways[going].daemon.end()?;
        self.group.gateways[going].daemon.start()?;
        std::thread::sleep(LONG_ENOUGH);
        let status = self.group.gateways[going].status()?;
        if !status.is_well(name) || status.serves(group) {
            return Err(format!("a drained gateway that was started again says {}", status.line()));
        }
        let back = Instant::now();
        self.group.administer(other, &["gateways", "resume", name])?;
        let returned = self.group.await_service(going, group, back)?;
        if hosts.hit.has_ended() {
            return Err("the host has ended before the gateway served again".to_owned());
        }
        let mut deeds = hosts.finish()?;
        deeds.add(&hosts.check()?);
        self.group.await_rest()?;
        self.has_states(nsids[0], going)?;
        println!(
            "        another one serves after {} ms, and the gateway again after {} ms; worst stall {} ms (of the other's host \
             {} ms); {deeds}",
            ms(away),
            ms(returned),
            hosts.hit.worst_ms()?,
            hosts.beside.worst_ms()?,
        );
        Ok(())
    }
}
