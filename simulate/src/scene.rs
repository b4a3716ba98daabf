//! A plan, played: its machines, targets and hosts, what befalls them, and what has to be true at the end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use engine::ring::Moment;
use engine::simulation::disk;
use engine::simulation::{self, Direction, MachineId, Options, Outcome, ProcessId, sleep};
use engine::target::{AnaGroupConfig, FabricConfig, GroupState};

use crate::administration::AdminCommand;
use crate::coverage::Coverage;
use crate::disk_node::DiskNode;
use crate::fault::Fault;
use crate::group_check::Stage;
use crate::history::History;
use crate::host;
use crate::plan::{Mishap, Plan};
use crate::reservation::Reservation;
use crate::upgrade::Upgrade;
use crate::write_hold::WriteHolds;
use crate::{administration, gateway, judge, leaver, sites, target, tenants, trace, visitor};

/// Path of the targets' volume.
pub(crate) const VOLUME: &str = "/volume";
/// Virtual time after which a scene has to be over, whatever happened in it.
const LIMIT: Duration = Duration::from_secs(400);
/// Time that everything gets to come to its end, once all is well again.
const PATIENCE: Duration = Duration::from_secs(200);
/// Limit on the time in which a target ends, as service managers have it: a gateway's cluster may
/// be silent.
const END: Duration = Duration::from_secs(90);

/// Target, with the state that the director and its processes share.
pub(crate) struct TargetNode {
    pub(crate) machine: MachineId,
    pub(crate) process: Cell<ProcessId>,
    /// Something befalls it just now.
    pub(crate) is_busy: Cell<bool>,
    /// A new process comes in the place of its process.
    is_upgrading: Cell<bool>,
    /// Number of upgrades begun or completed.
    upgrades: Cell<u32>,
    /// Present upgrade.
    pub(crate) upgrade: RefCell<Option<Rc<Upgrade>>>,
    /// Set while its process is stopped or absent.
    is_down: Cell<bool>,
    pub(crate) is_running: Cell<bool>,
    /// Set when it is to end properly.
    pub(crate) ends: Cell<bool>,
    pub(crate) wanted: RefCell<FabricConfig>,
    /// Configuration that it served last, as a target's state has it.
    pub(crate) served: RefCell<FabricConfig>,
    pub(crate) generation: Cell<u64>,
    pub(crate) applied: Cell<u64>,
    pub(crate) resets: Cell<bool>,
    /// Controllers and connections it has, as it said last.
    pub(crate) controllers: Cell<usize>,
    pub(crate) connections: Cell<usize>,
    /// Command of an administrator.
    pub(crate) admin_command: Cell<Option<AdminCommand>>,
}

impl TargetNode {
    /// A number that is another one when its process may be.
    pub(crate) fn upgrades(&self) -> u32 {
        self.upgrades.get()
    }

    /// True while its process is stopped or absent.
    pub(crate) fn is_down(&self) -> bool {
        self.is_down.get()
    }

    /// Records that its process is stopped or absent, or no longer.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.set(is_down);
    }
}

/// Host, with the state that the director and its processes share.
#[derive(Debug)]
pub(crate) struct HostNode {
    pub(crate) machine: MachineId,
    pub(crate) process: Cell<ProcessId>,
    pub(crate) is_busy: Cell<bool>,
    pub(crate) outstanding: RefCell<Vec<host::Outstanding>>,
    pub(crate) jobs_done: Cell<u16>,
    pub(crate) is_done: Cell<bool>,
    /// Set when it is to preempt the reservation.
    pub(crate) preempts: Cell<bool>,
    /// Number of starts.
    pub(crate) lives: Cell<u64>,
}

/// All that the director, hosts and targets share.
pub(crate) struct Scene {
    pub(crate) plan: Plan,
    pub(crate) history: RefCell<History>,
    pub(crate) reservation: RefCell<Reservation>,
    /// Host of each write, and time of its begin.
    pub(crate) writers: RefCell<BTreeMap<u64, (usize, Moment)>>,
    pub(crate) holds: RefCell<WriteHolds>,
    pub(crate) coverage: Rc<RefCell<Coverage>>,
    pub(crate) targets: Vec<TargetNode>,
    pub(crate) hosts: Vec<HostNode>,
    pub(crate) disk: Option<DiskNode>,
    /// Hosts are to come to an end.
    pub(crate) ends: Cell<bool>,
    /// Visitors that have not come to an end.
    pub(crate) visitors_left: Cell<usize>,
    mishaps_left: Cell<usize>,
    storage_is_busy: Cell<bool>,
    /// The gateways' group serves the volume.
    pub(crate) is_configured: Cell<bool>,
    /// Phase of each volume's takeover.
    pub(crate) stages: RefCell<Vec<Stage>>,
    /// Set while the storage cannot be opened again.
    pub(crate) storage_is_bad: Cell<bool>,
}

/// Address of a target's port.
pub(crate) fn address(target: usize, port: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, target as u8 + 1, port as u8 + 1)), 4420)
}

pub(crate) fn volume() -> PathBuf {
    PathBuf::from(VOLUME)
}

/// Plays a plan.
pub(crate) fn play(plan: &Plan, coverage: &Rc<RefCell<Coverage>>, traces: bool) -> Outcome {
    let (plan, coverage) = (plan.clone(), coverage.clone());
    let options = Options { seed: plan.seed, limit: LIMIT, traces, judge: Some(judge::of(&plan)) };
    let mut outcome =
        trace::with(traces, || simulation::run(options, move || Scene::new(plan, coverage).direct()));
    if outcome.failure.is_none()
        && let Some((name, turns)) = judge::restless(&outcome)
    {
        outcome.failure = Some(format!("{name} does not rest: it had {turns} turns in {:?}", outcome.time));
    }
    outcome
}

impl Scene {
    pub(crate) fn new(plan: Plan, coverage: Rc<RefCell<Coverage>>) -> Rc<Self> {
        let absent = simulation::start_process("absent", simulation::add_machine(&[]), || {});
        let targets = (0..plan.targets)
            .map(|number| {
                let addresses: Vec<IpAddr> = (0..plan.ports).map(|port| address(number, port).ip()).collect();
                TargetNode {
                    machine: simulation::add_machine(&addresses),
                    process: Cell::new(absent),
                    is_busy: Cell::new(false),
                    is_upgrading: Cell::new(false),
                    upgrades: Cell::new(0),
                    upgrade: RefCell::default(),
                    is_down: Cell::new(false),
                    is_running: Cell::new(false),
                    ends: Cell::new(false),
                    wanted: RefCell::new(target::configuration(&plan, number)),
                    served: RefCell::new(target::configuration(&plan, number)),
                    generation: Cell::new(0),
                    applied: Cell::new(0),
                    resets: Cell::new(false),
                    controllers: Cell::new(0),
                    connections: Cell::new(0),
                    admin_command: Cell::new(None),
                }
            })
            .collect();
        let node = |_: &_| HostNode {
            machine: simulation::add_machine(&[]),
            process: Cell::new(absent),
            is_busy: Cell::new(false),
            outstanding: RefCell::default(),
            jobs_done: Cell::new(0),
            is_done: Cell::new(false),
            preempts: Cell::new(false),
            lives: Cell::new(0),
        };
        let hosts = plan.hosts.iter().map(node).collect();
        let disk = plan.disk.clone().map(|plan| DiskNode::new(plan, absent, coverage.clone()));
        Rc::new(Self {
            history: RefCell::new(
                History::new(plan.blocks * plan.volumes(), plan.block_size)
                    .of_late_storage(plan.is_late() || plan.gateways.is_some()),
            ),
            reservation: RefCell::default(),
            writers: RefCell::default(),
            holds: RefCell::default(),
            coverage,
            targets,
            hosts,
            disk,
            ends: Cell::new(false),
            visitors_left: Cell::new(
                usize::from(plan.visitor.is_some())
                    + usize::from(plan.leaver.is_some())
                    + usize::from(plan.tenants.is_some())
                    + usize::from(plan.disk.is_some()),
            ),
            mishaps_left: Cell::new(plan.mishaps.len()),
            storage_is_busy: Cell::new(false),
            is_configured: Cell::new(false),
            stages: RefCell::default(),
            storage_is_bad: Cell::new(false),
            plan,
        })
    }

    fn direct(self: Rc<Self>) {
        disk::set_usual(self.usual_mood());
        if let Some(gateways) = &self.plan.gateways {
            gateway::set_up(&self, gateways);
        }
        for target in 0..self.targets.len() {
            self.start_target(target);
        }
        // A host that asks a gateway for a subsystem which that does not know yet gets a final
        // refusal.
        if self.plan.gateways.is_some() && !self.wait_for(PATIENCE, || self.is_served_by_all()) {
            return simulation::fail("the gateways do not serve the volume");
        }
        for host in 0..self.hosts.len() {
            self.start_host(host);
        }
        if let Some(visitor) = self.plan.visitor.clone() {
            let scene = self.clone();
            let machine = simulation::add_machine(&[]);
            simulation::start_process("visitor", machine, move || visitor::live(&scene, &visitor));
        }
        if let Some(leaver) = self.plan.leaver.clone() {
            let scene = self.clone();
            let machine = simulation::add_machine(&[]);
            simulation::start_process(leaver::PROCESS, machine, move || leaver::live(&scene, &leaver));
        }
        if let Some(tenants) = self.plan.tenants.clone() {
            let scene = self.clone();
            let machine = simulation::add_machine(&[]);
            simulation::start_process(tenants::PROCESS, machine, move || {
                tenants::live(&scene, &tenants, machine);
            });
        }
        self.start_disk();
        for mishap in self.plan.mishaps.clone() {
            let scene = self.clone();
            simulation::start_thread("mishap", move || {
                sleep(Duration::from_micros(mishap.at_us));
                sites::amid(mishap.fault, || scene.befall(mishap));
                scene.mishaps_left.set(scene.mishaps_left.get() - 1);
            });
        }
        sleep(Duration::from_millis(self.plan.run_ms));
        while self.mishaps_left.get() > 0 {
            sleep(Duration::from_millis(50));
        }
        self.look_at_effects();
        simulation::say(|| "all is well again, and everybody is to come to an end".to_owned());
        self.ends.set(true);
        let hosts_are_done = || self.hosts.iter().all(|host| host.is_done.get());
        if !self.wait_for(PATIENCE, hosts_are_done) {
            let left: usize = self.hosts.iter().map(|host| host.outstanding.borrow().len()).sum();
            return simulation::fail(format!("hosts do not come to an end; {left} commands are outstanding"));
        }
        if !self.wait_for(PATIENCE, || self.visitors_left.get() == 0) {
            return simulation::fail("a visitor does not come to an end");
        }
        self.check_end();
    }

    /// True if a mishap can cost a connection.
    pub(crate) fn may_lose_connections(&self) -> bool {
        !self.plan.is_calm()
    }

    pub(crate) fn wait_for(&self, patience: Duration, is_so: impl Fn() -> bool) -> bool {
        let until = simulation::now().after(patience);
        while !is_so() {
            if simulation::now() >= until {
                return false;
            }
            sleep(Duration::from_millis(100));
        }
        true
    }

    /// Checks the state after all hosts have gone.
    fn check_end(&self) {
        self.look_at_effects();
        let Some(content) = self.content() else {
            return simulation::fail("the volume is gone");
        };
        self.history.borrow_mut().check_content(&content);
        sleep(Duration::from_millis(200));
        let are_empty =
            || self.targets.iter().all(|node| node.controllers.get() == 0 && node.connections.get() == 0);
        if !self.wait_for(Duration::from_secs(60), are_empty) {
            let left: Vec<(usize, usize)> =
                self.targets.iter().map(|node| (node.controllers.get(), node.connections.get())).collect();
            return simulation::fail(format!(
                "targets keep controllers and connections without a host: {left:?}"
            ));
        }
        for (number, node) in self.targets.iter().enumerate() {
            node.ends.set(true);
            if !self.wait_for(Duration::from_secs(30), || !node.is_running.get()) {
                return simulation::fail(format!("target {number} does not end"));
            }
            let left = simulation::open_connections(node.process.get());
            if left > 0 {
                return simulation::fail(format!("target {number} has left {left} connections open"));
            }
        }
    }

    pub(crate) fn start_target(self: &Rc<Self>, number: usize) {
        let scene = self.clone();
        let node = &self.targets[number];
        node.ends.set(false);
        node.is_running.set(true);
        let name = format!("target{number}");
        let process = simulation::start_process(&name, node.machine, move || match &scene.plan.gateways {
            Some(gateways) => gateway::serve(&scene, number, gateways),
            None => target::serve(&scene, number),
        });
        node.process.set(process);
    }

    fn start_host(self: &Rc<Self>, number: usize) {
        let scene = self.clone();
        let node = &self.hosts[number];
        node.jobs_done.set(0);
        node.lives.set(node.lives.get() + 1);
        let process = simulation::start_process(&format!("host{number}"), node.machine, move || {
            host::live(&scene, number);
        });
        node.process.set(process);
    }

    pub(crate) fn kill_target(&self, number: usize) {
        let node = &self.targets[number];
        simulation::kill(node.process.get());
        self.has_gone(node);
    }

    /// True if a target's process is absent or about to be replaced.
    pub(crate) fn is_changing(node: &TargetNode) -> bool {
        node.is_busy.get() || node.is_upgrading.get()
    }

    /// A target's process is no more, and with it what it alone knew. Another one may have gone on with it.
    pub(crate) fn forgets(&self) {
        self.reservation.borrow_mut().is_forgotten();
        if self.plan.loses() {
            // The next one does not know what the storage reported to this one, perhaps just before it ended.
            self.history.borrow_mut().may_have_lost();
        }
    }

    /// A target is no more, and with it the reservation it kept.
    pub(crate) fn has_gone(&self, node: &TargetNode) {
        node.is_running.set(false);
        node.controllers.set(0);
        node.connections.set(0);
        self.forgets();
    }

    fn befall(self: &Rc<Self>, mishap: Mishap) {
        let Some(mishap) = self.aimed(mishap) else { return };
        simulation::say(|| format!("{:?} for {} ms", mishap.fault, mishap.for_ms));
        let time = Duration::from_millis(mishap.for_ms);
        match mishap.fault {
            Fault::KillTarget { target }
            | Fault::StopTarget { target }
            | Fault::PauseTarget { target, .. }
            | Fault::PowerOffTarget { target }
            | Fault::RemoveNamespace { target }
            | Fault::ResetControllers { target }
            | Fault::ClosePort { target, .. }
            | Fault::ChangeAna { target, .. }
            | Fault::Upgrade { target, .. } => self.befall_served(mishap.fault, target, time),
            Fault::KillHost { host } | Fault::PauseHost { host } => {
                let node = &self.hosts[host];
                if node.is_busy.replace(true) || node.is_done.get() {
                    return;
                }
                self.cover(mishap.fault);
                self.befall_host(mishap.fault, host, time);
                node.is_busy.set(false);
            }
            Fault::CutLink { host, path, .. }
            | Fault::ResetLink { host, path }
            | Fault::SlowLink { host, path, .. } => {
                self.cover(mishap.fault);
                self.befall_link(mishap.fault, (host, path), time);
            }
            Fault::DamageRecord { host, back } => {
                self.cover(mishap.fault);
                let direction = if back { Direction::Back } else { Direction::There };
                simulation::damage(self.hosts[host].machine, Some(direction));
            }
            Fault::Preempt { host } => {
                self.cover(mishap.fault);
                host::ask_to_preempt(self, host);
            }
            Fault::Cluster(fault) => gateway::befall(self, fault, time),
            Fault::Group(change) => administration::befall(self, change, time),
            Fault::KillAttach { .. }
            | Fault::PauseAttach
            | Fault::RefuseRecords
            | Fault::UpgradeAttach { .. } => self.befall_disk(mishap.fault, time),
            Fault::SlowStorage
            | Fault::FailingStorage
            | Fault::LosingStorage
            | Fault::FullStorage
            | Fault::FillingStorage { .. }
            | Fault::LateStorage
            | Fault::StorageLosesPower
            | Fault::Grow => {
                if self.storage_is_busy.replace(true) {
                    return;
                }
                self.befall_storage(mishap.fault, time);
                self.storage_is_busy.set(false);
            }
        }
    }

    /// Causes a fault of a target, unless a fault that excludes it is in effect.
    fn befall_served(self: &Rc<Self>, fault: Fault, target: usize, time: Duration) {
        let node = &self.targets[target];
        if let Fault::Upgrade { trouble, .. } = fault {
            if node.is_down.get() || node.is_upgrading.replace(true) {
                return;
            }
            self.cover(fault);
            node.upgrades.set(node.upgrades.get() + 1);
            self.upgrade(target, trouble, time);
            node.upgrades.set(node.upgrades.get() + 1);
            return node.is_upgrading.set(false);
        }
        let ends = fault.ends_target();
        if (ends && node.is_upgrading.get()) || node.is_busy.replace(true) {
            return;
        }
        self.cover(fault);
        node.is_down.set(ends);
        self.befall_target(fault, target, time);
        node.is_down.set(false);
        node.is_busy.set(false);
    }

    fn befall_target(self: &Rc<Self>, fault: Fault, target: usize, time: Duration) {
        let node = &self.targets[target];
        match fault {
            Fault::KillTarget { .. } => {
                self.kill_target(target);
                sleep(time);
                self.start_target(target);
            }
            Fault::StopTarget { .. } => {
                self.reservation.borrow_mut().is_forgotten();
                node.ends.set(true);
                if !self.wait_for(END, || !node.is_running.get()) {
                    return simulation::fail(format!("target {target} does not end"));
                }
                sleep(time);
                self.start_target(target);
            }
            Fault::PauseTarget { resets, .. } => {
                simulation::pause(node.process.get(), true);
                node.resets.set(resets);
                sleep(time);
                simulation::pause(node.process.get(), false);
            }
            Fault::PowerOffTarget { .. } => {
                simulation::power_off(node.machine);
                self.has_gone(node);
                sleep(time);
                simulation::power_on(node.machine);
                self.start_target(target);
            }
            Fault::ResetControllers { .. } => node.resets.set(true),
            Fault::ClosePort { port, .. } => {
                let id = port as u16 + 1;
                let before = node.wanted.borrow().clone();
                if before.ports.len() == 1 {
                    return;
                }
                self.change(target, |config| config.ports.retain(|port| port.id != id));
                sleep(time);
                self.change(target, |config| config.ports.clone_from(&before.ports));
            }
            Fault::ChangeAna { port, .. } => {
                let states = [GroupState::Inaccessible, GroupState::NonOptimized, GroupState::Change];
                let state = states[time.as_millis() as usize % states.len()];
                self.change(target, |config| {
                    let ports = [(port as u16 + 1, state)].into();
                    let group = AnaGroupConfig { id: 1, state: GroupState::Optimized, ports };
                    config.subsystems[0].ana_groups = vec![group];
                });
                sleep(time);
                self.change(target, |config| config.subsystems[0].ana_groups.clear());
            }
            Fault::RemoveNamespace { .. } => {
                self.reservation.borrow_mut().is_forgotten();
                let removed = std::mem::take(&mut node.wanted.borrow_mut().subsystems[0].namespaces);
                self.change(target, |_| ());
                sleep(time);
                // It is reopened, whatever its storage has lost before.
                self.forgets();
                self.change(target, |config| config.subsystems[0].namespaces = removed);
            }
            _ => {}
        }
    }

    /// Wants another configuration of a target.
    pub(crate) fn change(&self, target: usize, how: impl FnOnce(&mut FabricConfig)) {
        let node = &self.targets[target];
        how(&mut node.wanted.borrow_mut());
        node.generation.set(node.generation.get() + 1);
    }

    fn befall_host(self: &Rc<Self>, fault: Fault, host: usize, time: Duration) {
        let node = &self.hosts[host];
        match fault {
            Fault::KillHost { .. } => {
                simulation::kill(node.process.get());
                host::bury(self, host);
                sleep(time);
                self.start_host(host);
            }
            _ => {
                simulation::pause(node.process.get(), true);
                sleep(time);
                simulation::pause(node.process.get(), false);
            }
        }
    }

    /// Records what a fault has met.
    pub(crate) fn cover(&self, fault: Fault) {
        let mut coverage = self.coverage.borrow_mut();
        coverage.fault(fault.name());
        if self.targets.iter().any(|node| node.is_upgrading.get()) {
            coverage.met(fault.name(), "upgrade under way");
        }
        for phase in self.phases() {
            coverage.takeover(fault.name(), phase);
        }
        host::cover(self, fault.name(), fault.is_of_disk(), &mut coverage);
    }
}
