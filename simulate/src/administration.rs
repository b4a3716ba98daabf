//! What administrators change of a gateways' group while it serves, each through one of the gateways.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::backend::{BackendConfig, RbdConfig};
use engine::simulation::{self, sleep};
use engine::target::{FabricConfig, NamespaceConfig};
use gateway::Membership;

use crate::fault::Fault;
use crate::gateway_plan::{DRAINED_FOR_SURE_MS, GroupChange, POOL, SPARE};
use crate::group_check;
use crate::scene::Scene;
use crate::write_hold;

/// The spare image's namespace.
const SPARE_NSID: u32 = 100;
/// Attempts to remove a gateway from the group, and the interval between them.
const REMOVALS: usize = 40;
const AGAIN: Duration = Duration::from_millis(200);

/// Command of an administrator to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminCommand {
    Move {
        volume: usize,
        group: u32,
    },
    /// Serve the spare image, too, or no longer.
    Spare(bool),
    Remove {
        target: usize,
    },
    /// Have the writes to all volumes held for this time.
    Hold {
        for_ms: u64,
    },
    /// Have a gateway serve nothing, or again.
    Drain {
        target: usize,
        is_drained: bool,
    },
}

/// Makes a change to the group, and waits until it is complete.
pub(crate) fn befall(scene: &Scene, change: GroupChange, time: Duration) {
    match change {
        GroupChange::Move { volume, group } => {
            // Only who has it can let go of it.
            let owner = scene.stages.borrow().get(volume).and_then(|stage| stage.owner);
            let Some(owner) = owner.filter(|owner| is_there(scene, *owner)) else { return };
            scene.cover(Fault::Group(change));
            scene.targets[owner].admin_command.set(Some(AdminCommand::Move { volume, group }));
        }
        GroupChange::Spare => {
            let Some(any) = (0..scene.targets.len()).find(|number| is_there(scene, *number)) else { return };
            scene.cover(Fault::Group(change));
            scene.targets[any].admin_command.set(Some(AdminCommand::Spare(true)));
            sleep(time);
            let last = (0..scene.targets.len()).rev().find(|number| is_there(scene, *number));
            if let Some(last) = last {
                scene.targets[last].admin_command.set(Some(AdminCommand::Spare(false)));
            }
        }
        GroupChange::Remove { target } => remove(scene, change, target),
        GroupChange::Hold { target } => {
            let any = Some(target).filter(|target| is_there(scene, *target));
            let any = any.or_else(|| (0..scene.targets.len()).find(|number| is_there(scene, *number)));
            let Some(any) = any else { return };
            scene.cover(Fault::Group(change));
            let for_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            scene.targets[any].admin_command.set(Some(AdminCommand::Hold { for_ms }));
        }
        GroupChange::Drain { target } => drain(scene, change, target, time),
    }
}

/// Drains a gateway for a while, through any of the gateways; ends the drain through the last one.
fn drain(scene: &Scene, change: GroupChange, target: usize, time: Duration) {
    let Some(any) = (0..scene.targets.len()).find(|number| is_there(scene, *number)) else { return };
    scene.cover(Fault::Group(change));
    scene.targets[any].admin_command.set(Some(AdminCommand::Drain { target, is_drained: true }));
    sleep(time);
    let is_all = scene.plan.mishaps.len() == 1 && time >= Duration::from_millis(DRAINED_FOR_SURE_MS);
    if is_all && !(group_check::is_drained(target) && group_check::serves_nothing(target)) {
        return simulation::fail(format!("gateway {target} serves although it is drained, and all is well"));
    }
    resume(scene, target);
}

fn resume(scene: &Scene, target: usize) {
    let last = (0..scene.targets.len()).rev().find(|number| is_there(scene, *number));
    if let Some(last) = last {
        scene.targets[last].admin_command.set(Some(AdminCommand::Drain { target, is_drained: false }));
    }
}

/// Lets drained gateways serve again, if there are any. The word that drains one may come late, and after the one that ends it.
pub(crate) fn resume_all(scene: &Scene) {
    group_check::drained().into_iter().for_each(|target| resume(scene, target));
}

/// Removes a gateway that has gone and has not come back.
fn remove(scene: &Scene, change: GroupChange, target: usize) {
    // Of others than the one that is meant, any that has gone does as well.
    let is_gone = |number: &usize| !scene.targets[*number].is_running.get();
    let target =
        Some(target).filter(is_gone).or_else(|| (0..scene.targets.len()).find(is_gone)).unwrap_or(target);
    for tries in 0..REMOVALS {
        let others = (0..scene.targets.len()).filter(|other| *other != target);
        let other = others.into_iter().find(|number| is_there(scene, *number));
        if scene.targets[target].is_running.get() {
            return;
        }
        if let Some(other) = other {
            if tries == 0 {
                scene.cover(Fault::Group(change));
            }
            scene.targets[other].admin_command.set(Some(AdminCommand::Remove { target }));
        }
        sleep(AGAIN);
    }
}

/// True if a gateway's process runs and may be asked.
pub(crate) fn is_there(scene: &Scene, number: usize) -> bool {
    let node = &scene.targets[number];
    node.is_running.get() && !node.is_down() && !node.ends.get()
}

/// Does it, on a thread of the gateway's own.
pub(crate) fn execute(scene: &Rc<Scene>, command: AdminCommand, membership: &Arc<Membership>) {
    let (scene, block_size, membership) = (scene.clone(), scene.plan.block_size, membership.clone());
    simulation::start_thread("administrator", move || {
        let outcome = match command {
            AdminCommand::Remove { target } => {
                membership.remove_gateway(&format!("g{target}")).map_err(|error| error.to_string())
            }
            AdminCommand::Hold { for_ms } => write_hold::hold(&scene, &membership, for_ms),
            AdminCommand::Drain { target, is_drained } => membership
                .set_drained(&format!("g{target}"), is_drained, true)
                .map_err(|error| error.to_string()),
            _ => change(&membership, |config| edit(config, command, block_size)),
        };
        simulation::say(|| format!("{command:?}: {outcome:?}"));
    });
}

/// As the program's administration does it.
fn change(membership: &Membership, edit: impl Fn(&mut FabricConfig)) -> Result<(), String> {
    membership.catch_up();
    let wish = |membership: &Membership, serving_guard: &gateway::ServingGuard<'_>| {
        let mut wanted = membership.fabric(serving_guard);
        edit(&mut wanted);
        wanted
    };
    let serving_guard = membership.serving_guard();
    let early = membership
        .open_early(&serving_guard, &wish(membership, &serving_guard))
        .map_err(|error| error.to_string())?;
    drop(serving_guard);
    membership.await_images(&early).map_err(|error| error.to_string())?;
    let serving_guard = membership.serving_guard();
    let wanted = wish(membership, &serving_guard);
    membership.put(&serving_guard, &wanted, None).map(drop).map_err(|error| error.to_string())
}

fn edit(config: &mut FabricConfig, command: AdminCommand, block_size: usize) {
    let Some(subsystem) = config.subsystems.first_mut() else { return };
    match command {
        AdminCommand::Move { volume, group } => {
            let is_it = |namespace: &&mut NamespaceConfig| namespace.nsid == volume as u32 + 1;
            for namespace in subsystem.namespaces.iter_mut().filter(is_it) {
                namespace.ana_group = group;
            }
        }
        AdminCommand::Spare(is_wanted) => {
            subsystem.namespaces.retain(|namespace| namespace.nsid != SPARE_NSID);
            if is_wanted {
                subsystem.namespaces.push(NamespaceConfig::new(
                    SPARE_NSID,
                    image_backend(SPARE),
                    block_size as u32,
                ));
            }
        }
        AdminCommand::Remove { .. } | AdminCommand::Hold { .. } | AdminCommand::Drain { .. } => {}
    }
}

/// An image of the group's pool.
pub(crate) fn image_backend(image: &str) -> BackendConfig {
    let [pool, image] = [POOL, image].map(str::to_owned);
    BackendConfig::Rbd(RbdConfig {
        pool,
        namespace: String::new(),
        image,
        snapshot: None,
        conf: None,
        id: None,
        encryption: None,
    })
}
