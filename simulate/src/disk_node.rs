//! Disk of the simulated cluster: the processes that serve it, one after the other, and their faults.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use attach_crate::{
    FrontEndSocket, HandedIncoming, HandedServer, HandedStage, HandedVhostServer, stop_where_a_kill_matters,
};
use engine::ring::Moment;
use engine::simulation::{self, Direction, MachineId, ProcessId, sleep};

use crate::block_layer::{BlockLayer, Request, Work};
use crate::controller_files::Folder;
use crate::coverage::Coverage;
use crate::disk_plan::{DiskPlan, FrontEnd};
use crate::fault::{Cut, Fate, Fault};
use crate::scene::{Scene, address};
use crate::upgrade::Upgrade;
use crate::{attach, disk_process, disk_users, guest_monitor, nbd_client};

/// Of a thousand kills of a process that serves a guest, those that strike in the middle of an answer, and the longest time of
/// waiting for one.
const AIMED: u64 = 600;
const AIM_US_MAX: u64 = 20_000;
/// The longest that a process was started before the earlier one was killed.
const EARLY_MAX: Duration = Duration::from_millis(300);

/// Disk, with the state that the director, its processes and its users share.
pub(crate) struct DiskNode {
    pub(crate) plan: DiskPlan,
    pub(crate) machine: MachineId,
    pub(crate) process: Cell<ProcessId>,
    /// Number of processes started for it.
    lives: Cell<u64>,
    /// Number of the process that serves it.
    pub(crate) life: Cell<u64>,
    /// Present upgrade.
    pub(crate) upgrade: RefCell<Option<Rc<Upgrade>>>,
    pub(crate) layer: RefCell<BlockLayer>,
    /// Socket for monitors of guests.
    pub(crate) socket: FrontEndSocket,
    pub(crate) folder: Folder,
    is_busy: Cell<bool>,
    pub(crate) users_done: Cell<u16>,
    pub(crate) queues_done: Cell<u16>,
    /// Writes wait for what killed processes may still have carried out.
    pub(crate) holds: Cell<bool>,
    /// No write may be answered before that.
    pub(crate) held_until: Cell<Moment>,
    coverage: Rc<RefCell<Coverage>>,
}

impl DiskNode {
    pub(crate) fn new(plan: DiskPlan, absent: ProcessId, coverage: Rc<RefCell<Coverage>>) -> Self {
        let addresses = &[nbd_client::address().ip()];
        Self {
            layer: RefCell::new(BlockLayer::new(plan.queues, plan.depth)),
            socket: FrontEndSocket::default(),
            machine: simulation::add_machine(match plan.front_end {
                FrontEnd::BlockLayer | FrontEnd::Ublk | FrontEnd::VhostUser => &[],
                FrontEnd::Nbd => addresses,
            }),
            process: Cell::new(absent),
            lives: Cell::new(0),
            life: Cell::new(0),
            upgrade: RefCell::default(),
            folder: Folder::default(),
            is_busy: Cell::new(false),
            users_done: Cell::new(0),
            queues_done: Cell::new(0),
            holds: Cell::new(false),
            held_until: Cell::new(Moment(0)),
            coverage,
            plan,
        }
    }

    /// Number of the next process.
    pub(crate) fn next_life(&self) -> u64 {
        self.lives.set(self.lives.get() + 1);
        self.lives.get()
    }

    /// Counts what clients are in the middle of when they are handed over.
    pub(crate) fn cover_handed(&self, server: &HandedServer) {
        for client in &server.clients {
            let stage = match &client.stage {
                HandedStage::Handshake { .. } => "NBD clients handed over in their handshake",
                HandedStage::Transmission { incoming: HandedIncoming::Nothing, .. } => {
                    "NBD clients handed over"
                }
                HandedStage::Transmission { .. } => "NBD clients handed over within a write",
            };
            self.count(stage, 1);
            self.count("NBD clients handed over with unsent replies", usize::from(client.unsent_bytes > 0));
        }
    }

    /// The same of guests.
    pub(crate) fn cover_handed_guests(&self, server: &HandedVhostServer) {
        for front_end in server.sockets.iter().filter_map(|socket| socket.front_end.as_ref()) {
            self.count("guests handed over", 1);
            self.count("guests handed over without virtqueues", usize::from(front_end.vrings.is_empty()));
        }
    }

    /// Adds to a number of the tables.
    pub(crate) fn count(&self, what: &'static str, times: usize) {
        if times > 0 {
            self.coverage.borrow_mut().count(what, times as u64);
        }
    }

    /// True if all its users are done.
    pub(crate) fn users_are_done(&self) -> bool {
        self.users_done.get() == self.plan.queues && self.layer.borrow().outstanding().next().is_none()
    }

    /// Records what a fault has met.
    pub(crate) fn cover(&self, fault: &'static str, coverage: &mut Coverage) {
        let marks = simulation::disk::marks_under_way(std::path::Path::new(crate::scene::VOLUME));
        let phase = |(request, is_taken): (&Request, bool)| match &request.work {
            _ if !is_taken => "disk's request without a process",
            Work::Read { .. } => "read outstanding",
            Work::Flush { .. } => "flush outstanding",
            Work::Write { name, .. } => match marks.get(name) {
                None if self.holds.get() => "disk's write held",
                None => "write not at the storage",
                Some(false) => "write at the storage",
                Some(true) => "write stored, not answered",
            },
        };
        for request in self.layer.borrow().outstanding() {
            coverage.met(fault, phase(request));
        }
        for state in simulation::connection_states(self.process.get()) {
            coverage.met(fault, state);
        }
    }
}

impl Scene {
    /// Starts the disk's users, and the first process that serves it.
    pub(crate) fn start_disk(self: &Rc<Self>) {
        if self.disk.is_none() {
            return;
        }
        let scene = self.clone();
        let machine = simulation::add_machine(&[]);
        simulation::start_process(disk_users::PROCESS, machine, move || disk_users::live(&scene));
        let scene = self.clone();
        match self.disk.as_ref().map(|disk| disk.plan.front_end) {
            Some(FrontEnd::Nbd) => {
                let machine = simulation::add_machine(&[]);
                simulation::start_process(nbd_client::PROCESS, machine, move || nbd_client::live(&scene));
            }
            Some(FrontEnd::VhostUser) => {
                let machine = simulation::add_machine(&[]);
                simulation::start_process(guest_monitor::PROCESS, machine, move || {
                    guest_monitor::live(&scene);
                });
            }
            _ => {}
        }
        self.start_attach();
    }

    pub(crate) fn start_attach(self: &Rc<Self>) {
        let Some(node) = &self.disk else { return };
        let (scene, life) = (self.clone(), node.next_life());
        let live = match node.plan.front_end {
            FrontEnd::BlockLayer => attach::live,
            FrontEnd::Ublk | FrontEnd::Nbd | FrontEnd::VhostUser => disk_process::live,
        };
        let process = simulation::start_process(attach::PROCESS, node.machine, move || live(&scene, life));
        node.process.set(process);
        node.life.set(life);
    }

    pub(crate) fn befall_disk(self: &Rc<Self>, fault: Fault, time: Duration) {
        let Some(node) = &self.disk else { return };
        if node.is_busy.replace(true) {
            return;
        }
        self.cover(fault);
        match fault {
            Fault::KillAttach { cut, record, is_early } => {
                self.kill_attach(node, (cut, record), is_early, time);
            }
            Fault::UpgradeAttach { trouble } => self.upgrade_attach(node, trouble, time),
            Fault::PauseAttach => {
                let process = node.process.get();
                simulation::pause(process, true);
                sleep(time);
                simulation::pause(process, false);
            }
            _ => {
                node.folder.set_full(true);
                sleep(time);
                node.folder.set_full(false);
            }
        }
        node.is_busy.set(false);
    }

    /// Kills the process, and starts the next one: afterwards, or so much earlier. What is cut then stays so for as long again.
    fn kill_attach(
        self: &Rc<Self>,
        node: &DiskNode,
        (cut, record): (Cut, Fate),
        is_early: bool,
        time: Duration,
    ) {
        let (process, life) = (node.process.get(), node.life.get());
        if is_early {
            self.start_attach();
            sleep(time.min(EARLY_MAX));
        }
        self.cut_disk(node, cut, true);
        let is_aimed = node.plan.front_end == FrontEnd::VhostUser && simulation::fork_random().chance(AIMED);
        if is_aimed {
            node.count("guests' processes killed where it matters", 1);
            stop_where_a_kill_matters(Some(process));
            sleep(Duration::from_micros(simulation::fork_random().between(1, AIM_US_MAX)));
        }
        // What becomes of the file is known before the process is gone, since nothing of it goes on.
        node.folder.abandon(life, record);
        simulation::kill(process);
        stop_where_a_kill_matters(None);
        let mut random = simulation::fork_random();
        node.queues_done.set(0);
        node.holds.set(false);
        node.held_until.set(Moment(0));
        let again = node.layer.borrow_mut().abandon(life, &mut random);
        node.count("requests issued again", again);
        if !is_early {
            let keep_alives = Duration::from_millis(u64::from(node.plan.keep_alive_ms)) * 3;
            let quiesce = Duration::from_millis(self.plan.quiesce_ms.into());
            sleep(if record == Fate::Gone { time.max(keep_alives + quiesce) } else { time });
            self.start_attach();
        }
        if cut != Cut::None {
            sleep(time);
            self.cut_disk(node, cut, false);
        }
    }

    fn cut_disk(&self, node: &DiskNode, cut: Cut, is_cut: bool) {
        for path in 0..self.plan.targets * self.plan.ports {
            let is_meant = match cut {
                Cut::None => false,
                Cut::Path(one) => one == path,
                Cut::All => true,
            };
            if is_meant {
                let to = address(path / self.plan.ports, path % self.plan.ports).ip();
                simulation::cut(node.machine, to, Direction::There, is_cut);
                simulation::cut(node.machine, to, Direction::Back, is_cut);
            }
        }
    }
}
