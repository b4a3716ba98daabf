//! How long a takeover takes, by the number of gateways and of namespaces: a group of that size, of which one gateway is killed.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use engine::simulation::{self, Options, sleep};

use crate::gateway;
use crate::gateway_plan::GatewayPlan;
use crate::plan::Plan;
use crate::scene::Scene;
use crate::takeover_phase::Phase;

/// The sizes of the table.
const GATEWAYS: [usize; 3] = [2, 4, 8];
const NAMESPACES: [usize; 3] = [10, 100, 1_000];
/// Virtual time that the group gets to serve everything, and to take over.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Time that passes before the kill.
const CALM: Duration = Duration::from_secs(5);
/// Blocks of each image.
const BLOCKS: usize = 8;

/// Time until others served the killed gateway's namespaces, and number of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Takeover {
    pub(crate) namespaces: usize,
    pub(crate) time: Duration,
}

/// Plays one.
pub(crate) fn takeover(gateways: usize, namespaces: usize, seed: u64) -> Result<Takeover, String> {
    let plan = plan(gateways, namespaces, seed);
    let taken = Rc::new(Cell::new(None));
    let tells = taken.clone();
    let options = Options { seed, limit: 3 * PATIENCE, traces: false, judge: None };
    let outcome = simulation::run(options, move || {
        let scene = Scene::new(plan, Rc::default());
        let Some(of_gateways) = &scene.plan.gateways else { return };
        gateway::set_up(&scene, of_gateways);
        (0..scene.targets.len()).for_each(|number| scene.start_target(number));
        let is_served = |others_than: Option<usize>| {
            let stages = scene.stages.borrow();
            let by = |owner: Option<usize>| owner.is_some() && owner != others_than;
            let is_so = |stage: &_| {
                let stage: &crate::group_check::Stage = stage;
                stage.phase(&scene.targets) == Some(Phase::Served) && by(stage.owner)
            };
            !stages.is_empty() && stages.iter().all(is_so)
        };
        if !wait_for(|| scene.is_served_by_all() && is_served(None)) {
            return simulation::fail("the group does not serve everything");
        }
        sleep(CALM);
        let namespaces = scene.stages.borrow().iter().filter(|stage| stage.owner == Some(0)).count();
        let began = simulation::now();
        scene.kill_target(0);
        if !wait_for(|| is_served(Some(0))) {
            return simulation::fail("the others do not take over");
        }
        tells.set(Some(Takeover { namespaces, time: simulation::now().since(began) }));
    });
    outcome.failure.map_or_else(|| taken.get().ok_or_else(|| "it has no end".to_owned()), Err)
}

fn wait_for(is_so: impl Fn() -> bool) -> bool {
    let until = simulation::now().after(PATIENCE);
    while !is_so() {
        if simulation::now() >= until {
            return false;
        }
        sleep(LOOK_INTERVAL);
    }
    true
}

fn plan(gateways: usize, namespaces: usize, seed: u64) -> Plan {
    let mut plan = Plan::new(seed);
    plan.become_plain();
    plan.hosts.clear();
    plan.mishaps.clear();
    (plan.targets, plan.ports, plan.reactors, plan.blocks) = (gateways, 1, 1, BLOCKS);
    let groups = (0..namespaces).map(|namespace| (namespace % gateways) as u32 + 1).collect();
    let (operation_timeout_ms, map_us_max) = (30_000, 1_000_000);
    let object_blocks = BLOCKS as u64;
    plan.gateways = Some(GatewayPlan { groups, object_blocks, operation_timeout_ms, map_us_max, sites: 0 });
    plan
}

/// The times as a table.
pub(crate) fn table() -> Result<String, String> {
    let mut text =
        String::from("| gateways | namespaces | of the killed one | takeover |\n|---|---|---|---|\n");
    for gateways in GATEWAYS {
        for namespaces in NAMESPACES {
            let Takeover { namespaces: own, time } = takeover(gateways, namespaces, 1)?;
            let seconds = time.as_secs_f64();
            text.push_str(&format!("| {gateways} | {namespaces} | {own} | {seconds:.2} s |\n"));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespaces_of_a_killed_gateway_are_taken_over() {
        let Takeover { namespaces, .. } = takeover(3, 30, 1).unwrap();
        assert_eq!(namespaces, 10);
    }
}
