//! A gateway's process: it joins its group, serves what that gives it to serve, and leaves when it is to end.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::simulation::rados::{self, Mood};
use engine::simulation::{self, sleep};
use engine::target::{Directives, FabricConfig, SubsystemConfig, Target, TargetConfig};
use uuid::Uuid;

use gateway::{GroupSpec, Member, Membership};

use crate::administration::{self, image_backend};
use crate::fault::Fault;
use crate::gateway_plan::{ClusterFault, GROUP, GatewayPlan, POOL, SPARE, image};
use crate::plan::Mishap;
use crate::scene::Scene;
use crate::takeover_phase::Phase;
use crate::upgrade::State;
use crate::{group_check, hand_over, sites, target};

/// Interval at which it checks for orders.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Time until it tries again what the cluster has refused.
pub(crate) const AGAIN: Duration = Duration::from_millis(500);

/// Mishaps of ten that are meant for the gateway that has a volume when they come, or for the one that has its lock yet.
const AIMED: u64 = 5;
const AIMED_AT_HOLDER: u64 = 7;
/// Limit on the time that a mishap waits for its moment, and the interval of its checks.
const AMBUSH: Duration = Duration::from_secs(15);
const AMBUSH_LOOK: Duration = Duration::from_micros(300);

/// For how long librbd shuts out whose lock it breaks: longer than a takeover takes, as an hour is, and shorter than the longest
/// mishaps.
const BROKEN_LOCK_MS: u64 = 30_000;

/// Makes the cluster.
pub(crate) fn set_up(scene: &Rc<Scene>, plan: &GatewayPlan) {
    rados::set_mood(usual_mood(plan), simulation::fork_random());
    let block = scene.plan.block_size as u64;
    group_check::begin(scene, plan);
    if plan.sites > 0 {
        sites::watch(scene);
    }
    scene.reservation.borrow_mut().outlives_targets();
    let images = (0..plan.groups.len()).map(image).chain([SPARE.to_owned()]);
    for image in images {
        rados::create_image(POOL, &image, scene.plan.blocks as u64 * block, plan.object_blocks * block);
    }
}

fn usual_mood(plan: &GatewayPlan) -> Mood {
    Mood { map_us: (1_000, plan.map_us_max), broken_lock_ms: BROKEN_LOCK_MS, ..Mood::default() }
}

/// The life of a gateway's process.
pub(crate) fn serve(scene: &Rc<Scene>, number: usize, plan: &GatewayPlan) {
    let node = &scene.targets[number];
    let (member, target) = loop {
        if node.ends.get() {
            return scene.has_gone(node);
        }
        match begin(scene, number, plan) {
            Ok(begun) => break begun,
            Err(reason) => simulation::say(|| format!("gateway {number} does not start: {reason}")),
        }
        sleep(AGAIN);
    };
    serve_on(scene, number, plan, (member, target));
}

/// Work of a gateway's process once it serves.
pub(crate) fn serve_on(
    scene: &Rc<Scene>,
    number: usize,
    plan: &GatewayPlan,
    (member, target): (Member, Arc<Target>),
) {
    let node = &scene.targets[number];
    let membership = member.membership();
    while !node.ends.get() {
        let (leaving, part) = (target.clone(), membership.clone());
        let hand =
            move |upgrade: &_, channel: &_| hand_over::leave_gateway(&leaving, &part, upgrade, channel);
        match hand_over::leave(scene, number, hand) {
            None | Some(State::Serves) => {}
            Some(State::Ends { .. }) => return target.leave(),
            Some(_) => {
                sleep(LOOK_INTERVAL);
                continue;
            }
        }
        if number == 0 && !scene.is_configured.get() {
            configure(scene, plan, &membership);
        }
        if simulation::is_to_end() {
            // An administrator's wish may be carried out late, when who had gone is back, and is given up.
            if node.upgrades() == 0 && !group_check::is_removed(number) {
                return simulation::fail(format!("gateway {number} has lost its place in its group"));
            }
            // Its earlier process may have started an epoch before it died, while the cluster did
            // not answer.
            drop(member);
            target.shutdown();
            scene.has_gone(node);
            return scene.start_target(number);
        }
        if let Some(command) = node.admin_command.take() {
            administration::execute(scene, command, &membership);
        }
        node.connections.set(target.connections());
        node.generation.set(target.config().subsystems.len() as u64);
        if scene.ends.get() {
            node.controllers.set(target.status().controllers.len());
        }
        sleep(LOOK_INTERVAL);
    }
    if let Err(error) = member.leave() {
        simulation::say(|| format!("gateway {number}: {error}"));
    }
    target.shutdown();
    scene.has_gone(node);
}

impl Scene {
    /// The same at its moment, if that comes, and for the gateway that has a volume then, where a mishap is meant for that one.
    pub(crate) fn aimed(&self, mut mishap: Mishap) -> Option<Mishap> {
        if self.plan.gateways.is_none() {
            return Some(mishap);
        }
        let mut volume = mishap.at_us as usize / 10 % self.plan.volumes();
        if let Some(phase) = mishap.amid {
            volume = self.wait_for_phase(phase)?;
        }
        let stage = self.stages.borrow().get(volume).copied();
        let aim = stage.and_then(|stage| match mishap.at_us % 10 {
            // It is one that has just come.
            _ if mishap.amid == Some(Phase::Unowned) => self.free_gateway(),
            ..AIMED => stage.owner,
            AIMED..AIMED_AT_HOLDER => stage.holder,
            _ => None,
        });
        if let Some(aim) = aim {
            mishap.fault.aim(aim);
        }
        Some(mishap)
    }

    /// Waits until the takeover of some volume is here: of which.
    fn wait_for_phase(&self, phase: Phase) -> Option<usize> {
        let until = simulation::now().after(AMBUSH);
        while simulation::now() < until {
            let is_here = |stage: &group_check::Stage| stage.phase(&self.targets) == Some(phase);
            let volume = self.stages.borrow().iter().position(is_here);
            if volume.is_some() && (phase != Phase::Unowned || self.free_gateway().is_some()) {
                return volume;
            }
            sleep(AMBUSH_LOOK);
        }
        None
    }

    /// A gateway that nothing befalls just now.
    fn free_gateway(&self) -> Option<usize> {
        self.targets.iter().position(|node| !node.is_busy.get())
    }

    /// Phases of the takeovers of all volumes.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        self.stages.borrow().iter().filter_map(|stage| stage.phase(&self.targets)).collect()
    }

    /// True if all gateways know of the volumes.
    pub(crate) fn is_served_by_all(&self) -> bool {
        self.targets.iter().all(|node| node.generation.get() > 0)
    }
}

/// Joins the group and starts what it serves by.
pub(crate) fn begin(
    scene: &Scene,
    number: usize,
    plan: &GatewayPlan,
) -> Result<(Member, Arc<Target>), String> {
    let mut member =
        Member::join(&spec(plan, number), &format!("g{number}")).map_err(|error| error.to_string())?;
    let mut ports = target::configuration(&scene.plan, number).ports;
    member.number_ports(&mut ports);
    let config = config(scene, plan, &member, member.first_fabric(&ports));
    let target = Arc::new(Target::start(&config).map_err(|error| error.to_string())?);
    member.serve(target.clone()).map_err(|error| error.to_string())?;
    Ok((member, target))
}

/// The group, with the location of this gateway.
pub(crate) fn spec(plan: &GatewayPlan, number: usize) -> GroupSpec {
    let spec: GroupSpec = format!("{POOL}/{GROUP}").parse().expect("it is one");
    GroupSpec { location: plan.site(number), ..spec }
}

/// Configuration with which a gateway's target is started.
pub(crate) fn config(
    scene: &Scene,
    plan: &GatewayPlan,
    member: &Member,
    (fabric, directives): (FabricConfig, Directives),
) -> TargetConfig {
    let mut config = target::config(scene, fabric);
    config.directives = directives;
    config.controller_ids = member.controller_ids();
    config.ceph.before_use = Some(member.before_use());
    config.ceph.are_images_shared = true;
    config.ceph.operation_timeout_ms = plan.operation_timeout_ms;
    config.tag = Some(member.tag());
    config.peer_resets = Some(member.peer_resets());
    config
}

/// Has the group serve the volumes, if it can.
fn configure(scene: &Scene, plan: &GatewayPlan, membership: &Arc<Membership>) {
    let serving = membership.serving_guard();
    let mut wanted = membership.fabric(&serving);
    if wanted.subsystems.is_empty() {
        wanted.subsystems.push(subsystem(scene, plan));
    }
    match membership.put(&serving, &wanted, None) {
        Ok(_) => scene.is_configured.set(true),
        Err(error) => simulation::say(|| format!("not configured yet: {error}")),
    }
    drop(serving);
    if !scene.is_configured.get() {
        membership.catch_up();
        sleep(AGAIN);
    }
}

fn subsystem(scene: &Scene, plan: &GatewayPlan) -> SubsystemConfig {
    let mut subsystem = target::configuration(&scene.plan, 0).subsystems.remove(0);
    let first = subsystem.namespaces.remove(0);
    subsystem.namespaces = (plan.groups.iter().enumerate())
        .map(|(volume, group)| {
            let mut namespace = first.clone();
            namespace.nsid = volume as u32 + 1;
            namespace.uuid = Some(Uuid::from_u128(0x5e1f_ed9e + volume as u128));
            (namespace.backend, namespace.shared_storage) = (image_backend(&image(volume)), false);
            namespace.ana_group = *group;
            namespace
        })
        .collect();
    subsystem
}

/// Causes a fault of the cluster.
pub(crate) fn befall(scene: &Scene, fault: ClusterFault, time: Duration) {
    let Some(plan) = &scene.plan.gateways else { return };
    scene.cover(Fault::Cluster(fault));
    match fault {
        ClusterFault::CutOff { target } => {
            let machine = scene.targets[target].machine;
            rados::cut(machine, true);
            sleep(time);
            rados::cut(machine, false);
        }
        ClusterFault::Silent => {
            rados::silence(true);
            sleep(time);
            rados::silence(false);
        }
        ClusterFault::SilentOsd { osd } => {
            rados::silence_osd(osd, true);
            sleep(time);
            rados::silence_osd(osd, false);
        }
        ClusterFault::SilentMonitors => {
            rados::silence_osd(rados::OSDS, true);
            sleep(time);
            rados::silence_osd(rados::OSDS, false);
        }
        ClusterFault::Slow => {
            rados::change_mood(|mood| mood.work_us = (50_000, 900_000));
            sleep(time);
            rados::change_mood(|mood| mood.work_us = usual_mood(plan).work_us);
        }
    }
}
