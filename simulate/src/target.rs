//! Process of a target: it starts with its configuration, follows changes, and ends on order.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::ring::{Engine, Moment, tcp};
use engine::simulation::{self, sleep};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};
use uuid::Uuid;

use crate::plan::Plan;
use crate::scene::{Scene, address, volume};
use crate::upgrade::State;
use crate::{hand_over, secrets, tenants};

/// The subsystem that all targets serve.
pub(crate) const NQN: &str = "nqn.2026-01.io.selvedge:simulated";
/// Interval at which it checks for orders.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time in which a configuration may be refused.
const APPLY_TIME_MAX: Duration = Duration::from_secs(15);
/// Times it tries to start while something of its last life is in the way.
const STARTS_MAX: usize = 1000;

/// First configuration of a target.
pub(crate) fn configuration(plan: &Plan, number: usize) -> FabricConfig {
    let size = (plan.blocks * plan.block_size) as u64;
    let backend = BackendConfig::File { path: volume(), size: Some(size) };
    let mut namespace = NamespaceConfig::new(1, backend, plan.block_size as u32);
    namespace.uuid = Some(Uuid::from_u128(0x5e1f_ed9e));
    namespace.shared_storage = plan.targets > 1;
    let mut subsystem = SubsystemConfig::new(NQN, "SIMULATED", "Selvedge").with(vec![namespace]);
    subsystem.command_quiesce_ms = Some(plan.quiesce_ms);
    subsystem.host_keys = secrets::of_target(plan);
    let port = |port: usize| {
        let mut config = PortConfig::new(port as u16 + 1, address(number, port));
        config.congestion = Some("system".to_owned());
        config.tls = secrets::tls_use(plan);
        config
    };
    let mut subsystems = vec![subsystem];
    if plan.tenants.as_ref().is_some_and(|tenants| tenants.target == number) {
        subsystems.push(tenants::subsystem(plan.block_size, plan.upgrades(number)));
    }
    FabricConfig { ports: (0..plan.ports).map(port).collect(), subsystems, ..FabricConfig::default() }
}

/// Gives the volume another size.
pub(crate) fn resize(config: &mut FabricConfig, bytes: u64) {
    for namespace in &mut config.subsystems[0].namespaces {
        namespace.backend = BackendConfig::File { path: volume(), size: Some(bytes) };
    }
}

/// The life of a target's process.
pub(crate) fn serve(scene: &Rc<Scene>, number: usize) {
    let node = &scene.targets[number];
    // What is wanted meanwhile is a change of what has started. Where it was wanted while it was upgraded, it is one already.
    let (fabric, generation) = match node.upgrades() {
        0 => (node.wanted.borrow().clone(), node.generation.get()),
        _ => (node.served.borrow().clone(), node.applied.get()),
    };
    let Some(target) = start(scene, fabric.clone(), &[], true) else {
        return simulation::fail(format!("target {number} does not start"));
    };
    node.applied.set(generation);
    node.served.replace(fabric);
    if scene.plan.loses() {
        // It has reopened the volume, and gets no reports that went to another process before.
        scene.history.borrow_mut().may_have_lost();
    }
    serve_on(scene, number, target);
}

/// Work of a target's process once it serves.
pub(crate) fn serve_on(scene: &Rc<Scene>, number: usize, target: Target) {
    let node = &scene.targets[number];
    let target = Rc::new(target);
    let (mut refused_since, mut failed_since) = (None, None);
    while !node.ends.get() {
        let leaving = target.clone();
        let hand = move |upgrade: &_, channel: &_| hand_over::leave_target(&leaving, upgrade, channel);
        match hand_over::leave(scene, number, hand) {
            None | Some(State::Serves) => {}
            Some(State::Ends { .. }) => return target.leave(),
            Some(_) => {
                (refused_since, failed_since) = (None, None);
                sleep(LOOK_INTERVAL);
                continue;
            }
        }
        let generation = node.generation.get();
        if node.applied.get() < generation {
            let wanted = node.wanted.borrow().clone();
            match target.apply(&wanted) {
                Ok(_) => {
                    node.applied.set(generation);
                    node.served.replace(wanted);
                    refused_since = None;
                }
                // A slow storage still works for a namespace that was removed, and has the volume until it is done.
                Err(error) => {
                    let since = *refused_since.get_or_insert(simulation::now());
                    if simulation::now().since(since) > APPLY_TIME_MAX {
                        let what = format!("target {number} cannot apply its configuration: {error}");
                        return simulation::fail(what);
                    }
                }
            }
        }
        if !scene.storage_is_bad.get() {
            reopen(scene, number, &target, &mut failed_since);
        }
        if node.resets.replace(false) {
            for controller in target.status().controllers {
                target.reset_controller(controller.cntlid);
            }
        }
        node.connections.set(target.connections());
        // It costs a look at every reactor's time, so only where it matters.
        if scene.ends.get() {
            node.controllers.set(target.status().controllers.len());
        }
        sleep(LOOK_INTERVAL);
    }
    check_lateness(scene, number, &target);
    target.shutdown();
    scene.has_gone(node);
}

/// Checks the count of late operations.
fn check_lateness(scene: &Scene, number: usize, target: &Target) {
    let subsystems = target.metrics().subsystems;
    let volume = subsystems.iter().filter(|subsystem| subsystem.nqn == NQN);
    let storage = volume.flat_map(|subsystem| &subsystem.namespaces).find_map(|namespace| namespace.storage);
    if let Some(storage) = storage {
        scene.check_lateness(number, storage.late_changes + storage.late_others);
    }
}

/// Reopens failed namespaces, as an operator does when the storage is well again.
fn reopen(scene: &Scene, number: usize, target: &Target, failed_since: &mut Option<Moment>) {
    let failures = target.failures();
    if failures.is_empty() {
        *failed_since = None;
    }
    for failure in failures {
        // The order that all is well declares earlier losses as final.
        scene.history.borrow_mut().may_have_lost();
        let since = *failed_since.get_or_insert(simulation::now());
        if let Err(error) = target.reopen(&failure.nqn, failure.nsid)
            && simulation::now().since(since) > APPLY_TIME_MAX
        {
            simulation::fail(format!("target {number} does not reopen its volume: {error}"));
        }
    }
}

/// Starts a target, which tries for a while where something of its last life may be in the way.
pub(crate) fn start(
    scene: &Scene,
    fabric: FabricConfig,
    inherited: &[Arc<tcp::Opened>],
    tries_again: bool,
) -> Option<Target> {
    let config = TargetConfig { inherited: inherited.to_vec(), ..config(scene, fabric) };
    for _ in 0..if tries_again { STARTS_MAX } else { 1 } {
        match Target::start(&config) {
            Ok(target) => return Some(target),
            Err(error) => simulation::say(|| format!("a target does not start: {error}")),
        }
        sleep(LOOK_INTERVAL);
    }
    None
}

/// Starts a target that takes over from the old process.
pub(crate) fn start_held(
    scene: &Scene,
    fabric: FabricConfig,
    inherited: Vec<Arc<tcp::Opened>>,
) -> Option<Target> {
    let target = Target::start(&TargetConfig { inherited, is_held: true, ..config(scene, fabric) });
    target.inspect_err(|error| simulation::say(|| format!("the next target does not start: {error}"))).ok()
}

pub(crate) fn config(scene: &Scene, fabric: FabricConfig) -> TargetConfig {
    TargetConfig {
        fabric,
        reactors: Reactors::Count(scene.plan.reactors),
        engine: Engine::Automatic,
        poll_us_max: 0,
        state_dir: None,
        ..TargetConfig::default()
    }
}
