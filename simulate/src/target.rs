//! A target's process: it starts with the configuration it is to have, follows its changes, and ends when it is told to.

use std::rc::Rc;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::ring::{Engine, Moment};
use engine::simulation::{self, sleep};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};
use uuid::Uuid;

use crate::plan::Plan;
use crate::scene::{Scene, address, volume};
use crate::{secrets, tenants};

/// The subsystem that all targets serve.
pub(crate) const NQN: &str = "nqn.2026-01.io.selvedge:simulated";
/// How often it looks whether something is wanted of it.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time in which a configuration may be refused.
const APPLY_TIME_MAX: Duration = Duration::from_secs(15);
/// Times it tries to start while something of its last life is in the way.
const STARTS_MAX: usize = 1000;

/// What a target serves at first.
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
        subsystems.push(tenants::subsystem(plan.block_size));
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
    let seat = &scene.targets[number];
    let generation = seat.generation.get();
    let Some(target) = start(scene, number) else { return };
    seat.applied.set(generation);
    if scene.plan.loses() {
        // It has opened the volume anew, and hears nothing of what another one was told before.
        scene.history.borrow_mut().may_have_lost();
    }
    let (mut refused_since, mut failed_since) = (None, None);
    while !seat.ends.get() {
        let generation = seat.generation.get();
        if seat.applied.get() < generation {
            let wanted = seat.wanted.borrow().clone();
            match target.apply(&wanted) {
                Ok(_) => {
                    seat.applied.set(generation);
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
        if seat.resets.replace(false) {
            for controller in target.status().controllers {
                target.reset_controller(controller.cntlid);
            }
        }
        seat.connections.set(target.connections());
        // It costs a look at every reactor's time, so only where it matters.
        if scene.ends.get() {
            seat.controllers.set(target.status().controllers.len());
        }
        sleep(LOOK_INTERVAL);
    }
    check_lateness(scene, number, &target);
    target.shutdown();
    scene.has_gone(seat);
}

/// Whether the operations that took too long were counted.
fn check_lateness(scene: &Scene, number: usize, target: &Target) {
    let subsystems = target.metrics().subsystems;
    let volume = subsystems.iter().filter(|subsystem| subsystem.nqn == NQN);
    let storage = volume.flat_map(|subsystem| &subsystem.namespaces).find_map(|namespace| namespace.storage);
    if let Some(storage) = storage {
        scene.check_lateness(number, storage.late_changes + storage.late_others);
    }
}

/// What an operator does when the storage is well again: namespaces that have failed are opened anew.
fn reopen(scene: &Scene, number: usize, target: &Target, failed_since: &mut Option<Moment>) {
    let failures = target.failures();
    if failures.is_empty() {
        *failed_since = None;
    }
    for failure in failures {
        // Whoever says that all is well takes what was lost until then for lost.
        scene.history.borrow_mut().may_have_lost();
        let since = *failed_since.get_or_insert(simulation::now());
        if let Err(error) = target.reopen(&failure.nqn, failure.nsid)
            && simulation::now().since(since) > APPLY_TIME_MAX
        {
            simulation::fail(format!("target {number} does not open its volume anew: {error}"));
        }
    }
}

fn start(scene: &Rc<Scene>, number: usize) -> Option<Target> {
    let mut last = String::new();
    // What is wanted meanwhile is a change of what has started.
    let fabric = scene.targets[number].wanted.borrow().clone();
    for _ in 0..STARTS_MAX {
        let config = TargetConfig {
            fabric: fabric.clone(),
            reactors: Reactors::Count(scene.plan.reactors),
            engine: Engine::Automatic,
            poll_us_max: 0,
            state_dir: None,
            ..TargetConfig::default()
        };
        match Target::start(&config) {
            Ok(target) => return Some(target),
            Err(error) => last = error.to_string(),
        }
        sleep(LOOK_INTERVAL);
    }
    simulation::fail(format!("target {number} does not start: {last}"));
    None
}
