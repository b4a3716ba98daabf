//! What hostile hosts cost a target and a good host, measured for one kind of them after the other, beside what the limits
//! allow them. It keeps out the hostility itself.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use engine::limits::{
    CONNECTION_BUFFER_BYTES_MAX, CONTROLLERS_PER_NETWORK_MAX, DISCOVERY_CONTROLLERS_MAX, SEND_BYTES_MAX,
};
use serde::Serialize;

use super::admission::Seen;
use super::attack::Kind;
use super::host::{Deeds, Host, Plan, good_region};
use super::sample::Sample;
use super::target::Role;
use super::testbed::{Testbed, half_open_max};
use crate::emulator::link::Dice;
use crate::table::Table;

/// Time for which the good host is watched alone, and for the target to be as it was.
const ALONE: Duration = Duration::from_millis(1500);
const BACK_LIMIT: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(200);
/// Cost of a connection besides its credits: its slot, and those of a queue of 128 entries.
const PLACE_KB: u64 = 64;
const QUEUE_KB: u64 = 512;
/// Total cost of kinds that hold no connections: connections that linger, and memory that the
/// allocator keeps.
const FLOOD_KB: u64 = 64 << 10;
/// Limit for the state afterwards: within the allocator's habits.
const BACK_KB: u64 = 16 << 10;
const BACK_DESCRIPTORS: u64 = 4;

/// Cost of one kind of hostile host.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) attack: &'static str,
    /// Hostile connections that were there at a time, or, of those who hold none, that were made.
    pub(crate) connections: u64,
    /// Number that there may be at a time, where a quota says so.
    pub(crate) connections_allowed: Option<u64>,
    pub(crate) refused: u64,
    pub(crate) added_kb: u64,
    /// For each connection, where connections are held; else in all.
    pub(crate) cost_kb: u64,
    pub(crate) allowed_kb: u64,
    pub(crate) added_descriptors: u64,
    pub(crate) allowed_descriptors: u64,
    pub(crate) iops_alone: u64,
    pub(crate) iops_beside: u64,
    /// Rest after the target had had time.
    pub(crate) left_kb: u64,
    pub(crate) left_descriptors: u64,
    pub(crate) back_after_s: f64,
    /// Times of hosts that the operator has named, alone and beside it.
    pub(crate) named_alone: Entries,
    pub(crate) named_beside: Entries,
    /// Fault in those times.
    pub(crate) named_fault: Option<String>,
}

/// Time for a host to get in, and for another one's reads (ms).
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Entries {
    pub(crate) entries: usize,
    pub(crate) retries: u64,
    pub(crate) median_ms: f64,
    pub(crate) max_ms: f64,
    pub(crate) reads: usize,
    pub(crate) read_p50_ms: f64,
    pub(crate) read_p99_ms: f64,
    pub(crate) read_max_ms: f64,
}

impl Entries {
    pub(crate) fn of(seen: &Seen) -> Entries {
        Entries {
            entries: seen.entries.len(),
            retries: seen.retries,
            median_ms: seen.entry_ms(0.5),
            max_ms: seen.entry_ms_max(),
            reads: seen.reads.len(),
            read_p50_ms: seen.read_ms(0.5),
            read_p99_ms: seen.read_ms(0.99),
            read_max_ms: seen.read_ms(1.0),
        }
    }
}

impl Cost {
    /// Why it is more than it may be, if it is.
    pub(crate) fn fault(&self) -> Option<String> {
        if let Some(reason) = &self.named_fault {
            return Some(format!("beside attack `{}` {reason}", self.attack));
        }
        let too_much = if self.connections_allowed.is_some_and(|allowed| self.connections > allowed) {
            format!("{} controllers where its quota is fewer", self.connections)
        } else if self.cost_kb > self.allowed_kb {
            format!("{} kB of memory where {} are allowed", self.cost_kb, self.allowed_kb)
        } else if self.added_descriptors > self.allowed_descriptors {
            format!("{} descriptors where {} are allowed", self.added_descriptors, self.allowed_descriptors)
        } else if self.left_kb > BACK_KB || self.left_descriptors > BACK_DESCRIPTORS {
            format!("{} kB and {} descriptors left behind", self.left_kb, self.left_descriptors)
        } else if self.iops_beside == 0 {
            "the good host stood still".to_owned()
        } else {
            return None;
        };
        Some(format!("attack `{}` costs the target {too_much}", self.attack))
    }
}

/// Measures all kinds on the steady target, beside one good host that checks what it reads.
///
/// # Errors
/// The good host failed, or the target does not answer.
pub(crate) fn measure(
    testbed: &mut Testbed,
    seed: u64,
    watch: Duration,
    say: &mut dyn FnMut(&str),
) -> Result<(Vec<Cost>, Deeds), String> {
    let kinds = Kind::ALL.len() as u32;
    let runtime = (watch + ALONE + BACK_LIMIT) * kinds;
    let plan = Plan::by_chance(&good_region(), runtime.as_secs(), testbed.number(), &mut Dice::new(seed));
    let site = testbed.site(false);
    let mut good = Host::start(&site, plan.eager(), "good".to_owned())?;
    std::thread::sleep(ALONE);
    let mut costs = Vec::new();
    for kind in Kind::ALL {
        let cost = measure_one(testbed, kind, seed, watch)?;
        if good.has_ended() {
            return Err(format!("the good host ended beside `{}`: {}", kind.name(), good.complaint()));
        }
        say(&format!(
            "attack `{}`: {} connections, {} kB, good host {} of {} IOPS, named host in after {:.1} ms, reads' p99 {:.1} ms",
            cost.attack,
            cost.connections,
            cost.added_kb,
            cost.iops_beside,
            cost.iops_alone,
            cost.named_beside.max_ms,
            cost.named_beside.read_p99_ms
        ));
        costs.push(cost);
    }
    // The end is requested here, since the time for the target to be as it was is not known before.
    let deeds = good.interrupt(Instant::now() + Duration::from_secs(60))?;
    Ok((costs, deeds))
}

fn measure_one(testbed: &mut Testbed, kind: Kind, seed: u64, watch: Duration) -> Result<Cost, String> {
    let admission = testbed.watch_admission(Role::Steady)?;
    let (base, alone) = watch_good(testbed, ALONE, |_| {})?;
    let named_alone = Entries::of(&admission.end()?);
    let admission = testbed.watch_admission(Role::Steady)?;
    let attack = testbed.attack(kind, Role::Steady)?;
    let (stop, tally, thread) = testbed.start_attack(attack, seed);
    let mut most = Sample::default();
    let watched = watch_good(testbed, watch, |sample| {
        most.memory_kb = most.memory_kb.max(sample.memory_kb);
        most.descriptors = most.descriptors.max(sample.descriptors);
    });
    let seen = admission.end();
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap_or_else(|_| Err("an attacker panicked".to_owned()))?;
    let (_, beside) = watched?;
    let seen = seen.map_err(|reason| format!("beside attack `{}`: {reason}", kind.name()))?;
    let ended = Instant::now();
    let mut left = testbed.target(Role::Steady).sample()?;
    let is_back = |left: &Sample| {
        left.memory_kb <= base.memory_kb + BACK_KB
            && left.descriptors <= base.descriptors
            && left.controllers <= base.controllers
    };
    while !is_back(&left) && ended.elapsed() < BACK_LIMIT {
        std::thread::sleep(LOOK);
        left = testbed.target(Role::Steady).sample()?;
    }
    let held = tally.held_max.load(Ordering::Relaxed);
    let added_kb = most.memory_kb.saturating_sub(base.memory_kb);
    let (allowed_kb, allowed_descriptors) = allowed(kind, held);
    Ok(Cost {
        attack: kind.name(),
        connections: if kind.holds() { held } else { tally.made.load(Ordering::Relaxed) },
        connections_allowed: (kind == Kind::Controllers).then_some(CONTROLLERS_PER_NETWORK_MAX as u64),
        refused: tally.refused.load(Ordering::Relaxed),
        added_kb,
        cost_kb: if kind.holds() { added_kb / held.max(1) } else { added_kb },
        allowed_kb,
        added_descriptors: most.descriptors.saturating_sub(base.descriptors),
        allowed_descriptors,
        iops_alone: alone,
        iops_beside: beside,
        left_kb: left.memory_kb.saturating_sub(base.memory_kb),
        left_descriptors: left.descriptors.saturating_sub(base.descriptors),
        back_after_s: (ended.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        named_alone,
        named_beside: Entries::of(&seen),
        named_fault: seen.fault(),
    })
}

/// Watches for `span`, and returns the last sample and the good host's commands per second.
fn watch_good(
    testbed: &mut Testbed,
    span: Duration,
    mut see: impl FnMut(&Sample),
) -> Result<(Sample, u64), String> {
    let target = testbed.target(Role::Steady);
    let begun = Instant::now();
    let first = target.good_commands()?;
    loop {
        std::thread::sleep(LOOK);
        let sample = target.sample()?;
        see(&sample);
        if begun.elapsed() >= span {
            let done = target.good_commands()?.saturating_sub(first);
            return Ok((sample, (done as f64 / begun.elapsed().as_secs_f64()) as u64));
        }
    }
}

/// Cost that a kind may have by the limits: kB for each of its connections (of those that hold
/// none, in all), and descriptors.
fn allowed(kind: Kind, held: u64) -> (u64, u64) {
    let (buffers, answers) = (CONNECTION_BUFFER_BYTES_MAX as u64 >> 10, SEND_BYTES_MAX as u64 >> 10);
    // Those that are ended while new ones come linger for a while.
    let with_linger = |each: u64| 2 * each * held + 64;
    match kind {
        Kind::Silent | Kind::SlowHandshake => (PLACE_KB, with_linger(1)),
        Kind::Connections | Kind::Greetings => (PLACE_KB, half_open_max() + 64),
        Kind::HalfCommand => (QUEUE_KB, with_linger(1)),
        Kind::Controllers => (QUEUE_KB, 2 * CONTROLLERS_PER_NETWORK_MAX as u64 + 64),
        // Those that have to go are half open connections' like, until they are closed.
        Kind::Discovery => (QUEUE_KB, DISCOVERY_CONTROLLERS_MAX as u64 + half_open_max() + 64),
        Kind::Copies => (QUEUE_KB, with_linger(2)),
        Kind::NeverReadsMemory => (answers + QUEUE_KB, with_linger(2)),
        Kind::NeverReadsFile => (buffers + answers + QUEUE_KB, with_linger(2)),
        Kind::NeverSends => (buffers + QUEUE_KB, with_linger(2)),
        Kind::Garbage | Kind::OpenClose | Kind::Resets => (FLOOD_KB, half_open_max() + 64),
    }
}

/// All of it as a table.
pub(crate) fn table(costs: &[Cost]) -> Table {
    let mut table = Table::new(&[
        "hostile hosts",
        "connections",
        "refused",
        "added kB",
        "kB each",
        "allowed",
        "descriptors",
        "good IOPS alone",
        "beside",
        "left kB",
        "left descr.",
        "back after s",
    ]);
    for cost in costs {
        let numbers = [
            cost.connections,
            cost.refused,
            cost.added_kb,
            cost.cost_kb,
            cost.allowed_kb,
            cost.added_descriptors,
            cost.iops_alone,
            cost.iops_beside,
            cost.left_kb,
            cost.left_descriptors,
        ];
        let mut row = vec![cost.attack.to_owned()];
        row.extend(numbers.map(|number| number.to_string()));
        row.push(format!("{:.1}", cost.back_after_s));
        table.row(row);
    }
    table
}

/// Times of hosts that the operator has named.
pub(crate) fn named_hosts_table(costs: &[Cost]) -> Table {
    let mut table = Table::new(&[
        "hostile hosts",
        "in after ms, alone",
        "max",
        "beside",
        "max",
        "entries",
        "retries",
        "read p50 ms, alone",
        "p99",
        "beside p50",
        "p99",
        "max",
    ]);
    for cost in costs {
        let (alone, beside) = (&cost.named_alone, &cost.named_beside);
        let ms = |ms: f64| format!("{ms:.2}");
        let mut row = vec![cost.attack.to_owned()];
        row.extend([alone.median_ms, alone.max_ms, beside.median_ms, beside.max_ms].map(ms));
        row.extend([beside.entries as u64, beside.retries].map(|number| number.to_string()));
        row.extend([alone.read_p50_ms, alone.read_p99_ms].map(ms));
        row.extend([beside.read_p50_ms, beside.read_p99_ms, beside.read_max_ms].map(ms));
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost() -> Cost {
        let (allowed_kb, allowed_descriptors) = allowed(Kind::NeverSends, 64);
        Cost {
            attack: Kind::NeverSends.name(),
            connections: 64,
            connections_allowed: Some(64),
            refused: 0,
            added_kb: 1000,
            cost_kb: 15,
            allowed_kb,
            added_descriptors: 128,
            allowed_descriptors,
            iops_alone: 100,
            iops_beside: 50,
            left_kb: 0,
            left_descriptors: 0,
            back_after_s: 1.0,
            named_alone: Entries::default(),
            named_beside: Entries::default(),
            named_fault: None,
        }
    }

    #[test]
    fn what_is_over_the_limits_is_a_fault() {
        assert_eq!(cost().fault(), None);
        assert!(Cost { cost_kb: cost().allowed_kb + 1, ..cost() }.fault().is_some());
        assert!(Cost { added_descriptors: cost().allowed_descriptors + 1, ..cost() }.fault().is_some());
        assert!(Cost { left_descriptors: 100, ..cost() }.fault().is_some());
        assert!(Cost { left_kb: 1 << 20, ..cost() }.fault().is_some());
        assert!(Cost { iops_beside: 0, ..cost() }.fault().is_some());
        assert!(Cost { connections: 65, ..cost() }.fault().is_some());
        assert!(Cost { named_fault: Some("no host got in".to_owned()), ..cost() }.fault().is_some());
    }

    #[test]
    fn a_connection_may_cost_its_credits() {
        assert_eq!(allowed(Kind::NeverSends, 1).0, 8 * 1024 + QUEUE_KB);
        assert!(Kind::ALL.iter().all(|kind| allowed(*kind, 64).0 <= 64 << 10));
    }
}
