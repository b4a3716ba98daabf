//! Holds writes to all volumes at all gateways, as for snapshots of one moment, and checks that
//! none took effect meanwhile.

use std::time::Duration;

use engine::ring::Moment;
use engine::simulation::{self, sleep};
use gateway::Membership;

use crate::gateway_plan::WRITES_HELD;
use crate::scene::Scene;

/// Writes while they are held.
#[derive(Debug, Default)]
pub(crate) struct WriteHolds {
    /// Number of holds in effect or requested.
    under_way: usize,
    /// Begin and end of each write that has succeeded since.
    ended: Vec<(Moment, Moment)>,
}

impl WriteHolds {
    /// A write that began then has ended well.
    pub(crate) fn note(&mut self, began: Moment) {
        if self.under_way > 0 {
            self.ended.push((began, simulation::now()));
        }
    }

    /// Write that began after that time, and has ended before this one.
    fn went_on(&self, from: Moment, to: Moment) -> Option<(Moment, Moment)> {
        self.ended.iter().find(|(began, ended)| *began >= from && *ended <= to).copied()
    }
}

/// Has the writes to all volumes held for this long, and asks whether they were.
pub(crate) fn hold(scene: &Scene, membership: &Membership, for_ms: u64) -> Result<(), String> {
    let fabric = membership.fabric_shown();
    let namespaces: Vec<(String, u32)> = (fabric.subsystems.iter())
        .flat_map(|of| of.namespaces.iter().map(|namespace| (of.nqn.clone(), namespace.nsid)))
        .collect();
    scene.holds.borrow_mut().under_way += 1;
    let outcome = hold_namespaces(scene, membership, &namespaces, for_ms);
    let mut holds = scene.holds.borrow_mut();
    holds.under_way -= 1;
    if holds.under_way == 0 {
        holds.ended.clear();
    }
    outcome
}

fn hold_namespaces(
    scene: &Scene,
    membership: &Membership,
    namespaces: &[(String, u32)],
    for_ms: u64,
) -> Result<(), String> {
    let held = membership.hold_writes(namespaces).map_err(|error| error.to_string())?;
    let from = simulation::now();
    sleep(Duration::from_millis(for_ms));
    let to = simulation::now();
    held.confirm().map_err(|error| error.to_string())?;
    scene.coverage.borrow_mut().met(WRITES_HELD, "held all the time");
    if let Some((began, ended)) = scene.holds.borrow().went_on(from, to) {
        simulation::fail(format!(
            "a write began at {began:?} and ended at {ended:?}, while all were said to be held, from {from:?} to {to:?}"
        ));
    }
    Ok(())
}
