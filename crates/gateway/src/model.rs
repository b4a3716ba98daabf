//! A world of gateways, a store and hosts' writes, as a queue of events that follow from a seed: gateways stop, go on, die,
//! come back or are removed, messages are late or lost. What has to be so is in `checks`.

mod chance;
mod checks;
mod flaw;
mod removal;
mod upgrade;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use engine::backend::BackendConfig;
use engine::limits::{GATEWAY_BEAT_MS, GATEWAY_CONTROLLERS, GATEWAY_LEASE_MS, GATEWAY_OPERATION_TIMEOUT_MS};
use engine::target::{NamespaceConfig, SubsystemConfig};
use nvme::cross_reset::ControllerInstance;

use super::beat::Beat;
use super::decision::{Decision, Standing, View, decide};
use super::format::Reads;
use super::lease::LeaseWatch;
use super::peer_reset::{Rest, rest, tag};
use super::state::{GroupState, Owner};
use super::visits::Visits;
use chance::Chance;
pub(super) use flaw::Flaw;

/// Namespaces there are at most, of which the first gateways' load-balancing groups get some each.
const NAMESPACES: u32 = 6;
const NAMESPACES_OF_A_GROUP: u32 = 2;

/// What happens at a time.
type Event = Box<dyn FnOnce(&mut World)>;

/// A gateway's process.
#[derive(Debug)]
struct Process {
    me: Owner,
    watch: LeaseWatch,
    state: GroupState,
    fenced: BTreeSet<String>,
    confirmed: BTreeSet<String>,
    held: BTreeSet<u32>,
    open: BTreeSet<u32>,
    /// The namespaces that it can write to, and that it serves to hosts.
    images: BTreeSet<u32>,
    served: BTreeSet<u32>,
    connection: Option<String>,
    /// Whether commands on its images have taken too long.
    has_late: bool,
    visits: Visits,
    beaten_ms: Option<u64>,
    count: u64,
    is_leaving: bool,
    /// Something is under way that the next decision has to wait for.
    is_busy: bool,
    is_fencing: bool,
    paused_until_ms: u64,
}

/// What a process that is gone may still have under way.
#[derive(Debug)]
struct Ghost {
    who: Owner,
    images: BTreeSet<u32>,
    connection: String,
}

/// The world.
pub(super) struct World {
    chance: Chance,
    flaw: Flaw,
    now_ms: u64,
    sequence: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    store: GroupState,
    beats: BTreeMap<String, Beat>,
    blocklist: BTreeSet<String>,
    /// By the gateways' names. Epochs tell which events belong to a process that has ended.
    processes: BTreeMap<String, Process>,
    ghosts: Vec<Ghost>,
    /// The gateways that are running or may be started.
    names: Vec<String>,
    named: u64,
    /// The gateways that hosts reach.
    reached: BTreeSet<String>,
    epochs: u64,
    /// Those that a host was told can no longer do anything.
    rested: BTreeSet<Owner>,
    /// Chances of losses and faults end with this.
    is_quiet: bool,
    /// What went wrong, first.
    pub(super) wrong: Option<String>,
    pub(super) takeovers: usize,
    pub(super) returns: usize,
    /// Groups that went from a living gateway to where hosts are.
    pub(super) moves: usize,
    pub(super) rests: usize,
    pub(super) removals: usize,
    pub(super) upgrades: usize,
}

impl World {
    pub(super) fn new(seed: u64, flaw: Flaw) -> Self {
        let mut chance = Chance::new(seed);
        let count = 2 + chance.below(3);
        let mut world = Self {
            chance,
            flaw,
            now_ms: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            store: GroupState::default(),
            beats: BTreeMap::new(),
            blocklist: BTreeSet::new(),
            processes: BTreeMap::new(),
            ghosts: Vec::new(),
            names: (0..count).map(|number| format!("g{number}")).collect(),
            named: count,
            reached: (0..count).map(|number| format!("g{number}")).collect(),
            epochs: 0,
            rested: BTreeSet::new(),
            is_quiet: false,
            wrong: None,
            takeovers: 0,
            returns: 0,
            moves: 0,
            rests: 0,
            removals: 0,
            upgrades: 0,
        };
        world.store.config.subsystems.push(SubsystemConfig::new("nqn.test:a", "A", "Selvedge"));
        for name in world.names.clone() {
            world.start(&name);
        }
        world
    }

    /// Lets the world go on until this time, or until something is wrong.
    pub(super) fn run_until(&mut self, end_ms: u64) {
        while let Some(Reverse((at_ms, sequence))) = self.queue.peek().copied() {
            if at_ms > end_ms || self.wrong.is_some() {
                break;
            }
            self.queue.pop();
            self.now_ms = at_ms;
            if let Some(event) = self.events.remove(&sequence) {
                event(self);
            }
            self.check();
        }
        self.now_ms = end_ms;
    }

    /// Something bad, and when the next comes.
    pub(super) fn trouble(&mut self) {
        if self.is_quiet {
            return;
        }
        let name = self.names[self.chance.below(self.names.len() as u64) as usize].clone();
        match (self.processes.contains_key(&name), self.chance.below(11)) {
            (true, 0..=1) => self.kill(&name),
            (true, 2..=3) => {
                let pause_ms = self.chance.below(3 * GATEWAY_LEASE_MS);
                let until_ms = self.now_ms + pause_ms;
                if let Some(process) = self.processes.get_mut(&name) {
                    process.paused_until_ms = until_ms;
                }
            }
            (true, 4) => {
                if let Some(process) = self.processes.get_mut(&name) {
                    process.is_leaving = true;
                }
            }
            (true, 5) | (false, 0..=1) => self.remove(name),
            (true, 6..=7) => {
                if !self.reached.remove(&name) {
                    self.reached.insert(name);
                }
            }
            (true, 8..=9) => self.upgrade(&name),
            (true, _) => {
                if let Some(process) = self.processes.get_mut(&name) {
                    process.has_late = true;
                }
            }
            (false, _) => self.start(&name),
        }
        let pause_ms = self.chance.below(8_000);
        self.after(pause_ms, Self::trouble);
    }

    /// No more faults, and all gateways are started again that are not there.
    pub(super) fn calm(&mut self) {
        self.is_quiet = true;
        for name in self.names.clone() {
            if let Some(process) = self.processes.get_mut(&name) {
                process.paused_until_ms = self.now_ms;
            }
            // One that is about to end may be half gone.
            if self.processes.get(&name).is_some_and(|process| process.is_leaving) {
                self.kill(&name);
            }
            if !self.processes.contains_key(&name) {
                self.start(&name);
            }
        }
    }

    fn after(&mut self, delay_ms: u64, event: impl FnOnce(&mut Self) + 'static) {
        self.sequence += 1;
        self.queue.push(Reverse((self.now_ms + delay_ms, self.sequence)));
        self.events.insert(self.sequence, Box::new(event));
    }

    /// An event of a process: it waits while that is stopped, and does not happen when it is gone.
    fn on(&mut self, who: Owner, delay_ms: u64, event: impl FnOnce(&mut Self, &str) + 'static) {
        self.after(delay_ms, move |world| {
            let Some(process) = world.processes.get(&who.gateway) else { return };
            if process.me != who {
                return;
            }
            let paused_ms = process.paused_until_ms.saturating_sub(world.now_ms);
            if paused_ms > 0 {
                world.on(who, paused_ms, event);
            } else {
                event(world, &who.gateway);
            }
        });
    }

    /// Asks the store for something, which happens whether or not who asks still lives, unless it is lost; and sends the
    /// answer, unless that is lost.
    fn ask<T: 'static>(
        &mut self,
        who: Owner,
        act: impl FnOnce(&mut Self) -> T + 'static,
        then: impl FnOnce(&mut Self, &str, Option<T>) + 'static,
    ) {
        let lost = if self.is_quiet { 9 } else { self.chance.below(60) };
        let delay_ms = if self.is_quiet { 1 + self.chance.below(20) } else { self.chance.delay_ms() };
        if lost == 0 {
            self.on(who, GATEWAY_OPERATION_TIMEOUT_MS, |world, name| then(world, name, None));
            return;
        }
        self.after(delay_ms, move |world| {
            let outcome = act(world);
            let is_told = lost > 1;
            let back_ms = if is_told { 1 } else { GATEWAY_OPERATION_TIMEOUT_MS };
            world.on(who, back_ms, move |world, name| then(world, name, is_told.then_some(outcome)));
        });
    }

    fn kill(&mut self, name: &str) {
        let Some(process) = self.processes.remove(name) else { return };
        self.ghosts.extend(process.connection.map(|connection| Ghost {
            who: process.me,
            images: process.images,
            connection,
        }));
    }

    fn start(&mut self, name: &str) {
        // What tells controllers apart is the upper half.
        self.epochs += 1 << 32;
        let me = Owner { gateway: name.to_owned(), epoch: self.epochs };
        let process = Process {
            me: me.clone(),
            watch: LeaseWatch::default(),
            state: GroupState::default(),
            fenced: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            held: BTreeSet::new(),
            open: BTreeSet::new(),
            images: BTreeSet::new(),
            served: BTreeSet::new(),
            connection: None,
            has_late: false,
            visits: Visits::default(),
            beaten_ms: None,
            count: 0,
            is_leaving: false,
            is_busy: false,
            is_fencing: false,
            paused_until_ms: self.now_ms,
        };
        self.processes.insert(name.to_owned(), process);
        self.register(me);
    }

    fn register(&mut self, me: Owner) {
        let again = me.clone();
        let act = move |world: &mut Self| {
            let known = world.store.gateways.get(&me.gateway).map(|gateway| gateway.epoch);
            if known != Some(me.epoch) {
                let mut state = world.store.clone();
                let number = state.register(&me, &[]).expect("few gateways");
                add_namespaces(&mut state, u32::from(number));
                world.store = GroupState { version: world.store.version + 1, ..state };
            }
            world.store.is_alive(&me).then(|| world.store.clone())
        };
        self.ask(again.clone(), act, move |world, name, outcome| match outcome {
            Some(Some(state)) => {
                world.processes.get_mut(name).expect("it asks").state = state;
                world.beat(name);
                world.think(name);
            }
            // It was given up before it knew that it had begun: it begins as another.
            Some(None) => world.start(name),
            None => world.register(again),
        });
    }

    /// Beats and looks, forever.
    fn beat(&mut self, name: &str) {
        let process = self.processes.get_mut(name).expect("it beats");
        process.count += 1;
        let (me, began_ms) = (process.me.clone(), self.now_ms);
        let is_deserted = process.visits.is_told(self.now_ms);
        let (epoch, count) = (me.epoch, process.count);
        let beat = Beat { epoch, count, is_deserted, ..Beat::default() };
        let of = me.clone();
        let act = move |world: &mut Self| {
            world.beats.insert(of.gateway, beat);
        };
        self.ask(me, act, move |world, name, outcome| {
            if outcome.is_some() {
                world.processes.get_mut(name).expect("it beats").beaten_ms = Some(began_ms);
            }
            world.look(name);
        });
    }

    fn look(&mut self, name: &str) {
        let (me, began_ms) = (self.processes[name].me.clone(), self.now_ms);
        let act = |world: &mut Self| (world.beats.clone(), world.store.clone());
        let lost = self.somebody();
        self.ask(me.clone(), act, move |world, name, outcome| {
            let now_ms = world.now_ms;
            if world.flaw == Flaw::RestByOldState {
                let lost = world.somebody();
                world.tell_of_rest(name, lost);
            }
            let process = world.processes.get_mut(name).expect("it looks");
            if let Some((beats, state)) = outcome {
                if state.version > process.state.version {
                    process.state = state;
                }
                process.watch.look(began_ms, now_ms, &beats, &process.state);
                world.tell_of_rest(name, lost);
            }
            world.on(me, GATEWAY_BEAT_MS, |world, name| world.beat(name));
        });
    }

    /// A gateway that a host may have lost: one that was registered lately, with its number.
    fn somebody(&mut self) -> Option<(Owner, u16)> {
        let name = self.names[self.chance.below(self.names.len() as u64) as usize].clone();
        let gateway = self.store.gateways.get(&name)?;
        let owner = Owner { gateway: name, epoch: gateway.epoch };
        Some((owner, gateway.number))
    }

    /// A gateway answers a host that has lost another one, or itself in a former epoch.
    fn tell_of_rest(&mut self, name: &str, lost: Option<(Owner, u16)>) {
        let Some((owner, number)) = lost else { return };
        let process = &self.processes[name];
        let controller = ControllerInstance {
            controller_id: (number - 1) * GATEWAY_CONTROLLERS + 1,
            uniquifier: 1,
            random_number: u64::from(tag(owner.epoch)) << 32 | 1,
        };
        let fenced = match self.flaw {
            Flaw::RestBeforeFence => {
                process.state.groups.values().flat_map(|group| group.fence.clone()).collect()
            }
            _ => process.fenced.clone(),
        };
        if rest(&process.state, &fenced, &controller) == Rest::Complete && self.rested.insert(owner) {
            self.rests += 1;
        }
    }

    /// Decides and does, forever.
    fn think(&mut self, name: &str) {
        let process = self.processes.get_mut(name).expect("it thinks");
        process.visits.note(self.reached.contains(name), self.now_ms);
        let me = process.me.clone();
        if !process.is_busy {
            let times = [process.beaten_ms, process.watch.looked_ms()];
            let has_lease =
                times.iter().all(|time| time.is_some_and(|at_ms| self.now_ms < at_ms + GATEWAY_LEASE_MS));
            let reads = Reads::own(process.me.epoch);
            let view = View {
                me: &process.me,
                has_lease,
                is_leaving: process.is_leaving,
                peers: &process.watch.peers(&process.state),
                fenced: &process.fenced,
                confirmed: &process.confirmed,
                held: &process.held,
                open: &process.open,
                has_late: process.has_late && self.flaw != Flaw::HandOverOfLate,
                is_deserted: process.visits.is_deserted(self.now_ms),
                listeners: &[],
                reads: Some(&reads),
            };
            let decision = decide(&process.state, &view);
            self.act(name, decision);
        }
        let pause_ms = 20 + self.chance.below(100);
        self.on(me, pause_ms, |world, name| world.think(name));
    }

    fn act(&mut self, name: &str, decision: Decision) {
        match decision.standing {
            Standing::Member => {}
            Standing::Left => return self.kill(name),
            // It starts again as another, and what it had under way is like a dead one's.
            Standing::Expelled | Standing::Replaced => {
                self.kill(name);
                return self.start(name);
            }
        }
        let process = self.processes.get_mut(name).expect("it acts");
        if !decision.fence.is_empty() && !process.is_fencing {
            process.is_fencing = true;
            let me = process.me.clone();
            self.fence(me, decision.fence.clone(), false);
        } else if !decision.confirm.is_empty() && !process.is_fencing {
            process.is_fencing = true;
            let me = process.me.clone();
            self.fence(me, decision.confirm.clone(), true);
        }
        let process = self.processes.get_mut(name).expect("it acts");
        let is_otherwise = decision.hold != process.held || decision.open != process.open;
        if is_otherwise || process.images != namespaces(&process.state, &decision.hold) {
            self.apply(name, decision.hold, decision.open);
        } else if let Some(wanted) = decision.write {
            self.write(name, wanted);
        }
    }

    fn fence(&mut self, me: Owner, addresses: BTreeSet<String>, is_again: bool) {
        let done = addresses.clone();
        let act = move |world: &mut Self| {
            if world.flaw != Flaw::NoBlocklist {
                world.blocklist.extend(addresses);
            }
        };
        self.ask(me, act, move |world, name, outcome| {
            let process = world.processes.get_mut(name).expect("it fences");
            process.is_fencing = false;
            match outcome {
                Some(()) if is_again => process.confirmed.extend(done),
                Some(()) => process.fenced.extend(done),
                None => {}
            }
        });
    }

    /// Takes images at the beginning, and lets go of them at the end.
    fn apply(&mut self, name: &str, hold: BTreeSet<u32>, open: BTreeSet<u32>) {
        let process = self.processes.get_mut(name).expect("it applies");
        process.is_busy = true;
        if process.connection.is_none() && !hold.is_empty() {
            return self.connect(name, hold, open);
        }
        let images = namespaces(&process.state, &hold);
        let served = namespaces(&process.state, &open);
        process.held.extend(hold.iter().copied());
        process.images.extend(images.iter().copied());
        let me = process.me.clone();
        let (work_ms, late_ms) = (self.chance.delay_ms(), self.chance.delay_ms());
        let is_late = self.flaw == Flaw::LateRelease;
        self.on(me.clone(), work_ms, move |world, name| {
            let process = world.processes.get_mut(name).expect("it applies");
            process.is_busy = false;
            (process.open, process.served) = (open, served);
            let let_go: BTreeSet<u32> = process.images.difference(&images).copied().collect();
            let (has_late, connection) = (process.has_late, process.connection.clone());
            if let Some(connection) = connection.filter(|_| is_late || has_late) {
                world.ghosts.push(Ghost { who: me.clone(), images: let_go, connection });
                if is_late {
                    world.after(late_ms, |world| drop(world.ghosts.pop()));
                }
            }
            let process = world.processes.get_mut(name).expect("it applies");
            (process.held, process.images) = (hold, images);
        });
    }

    fn connect(&mut self, name: &str, hold: BTreeSet<u32>, open: BTreeSet<u32>) {
        let me = self.processes[name].me.clone();
        self.sequence += 1;
        let (address, of) = (format!("{name}/{}", self.sequence), me.clone());
        let made = address.clone();
        let act = move |world: &mut Self| {
            let mut state = world.store.clone();
            let is_added = state.add_address(&of, &address);
            if is_added {
                world.store = GroupState { version: world.store.version + 1, ..state };
            }
            is_added || world.flaw == Flaw::AnyConnection
        };
        self.ask(me, act, move |world, name, outcome| {
            let process = world.processes.get_mut(name).expect("it connects");
            process.is_busy = false;
            if outcome == Some(true) {
                process.connection = Some(made);
                world.apply(name, hold, open);
            }
        });
    }

    fn write(&mut self, name: &str, wanted: GroupState) {
        let process = self.processes.get_mut(name).expect("it writes");
        process.is_busy = true;
        let (me, before) = (process.me.clone(), process.state.clone());
        let act = move |world: &mut Self| {
            let is_current = world.store.version == before.version || world.flaw == Flaw::NoVersion;
            if is_current {
                world.count(&wanted);
                world.store = GroupState { version: world.store.version + 1, ..wanted };
            }
            world.store.clone()
        };
        self.ask(me, act, |world, name, outcome| {
            let process = world.processes.get_mut(name).expect("it writes");
            process.is_busy = false;
            if let Some(state) = outcome
                && state.version > process.state.version
            {
                process.state = state;
            }
        });
    }

    fn count(&mut self, wanted: &GroupState) {
        for (number, group) in &wanted.groups {
            if self.store.groups.get(number).is_some_and(|old| old.owner != group.owner) {
                match &group.owner {
                    Some(owner) if owner.gateway == group.preferred => self.returns += 1,
                    _ if group.fence.is_empty() => self.moves += 1,
                    _ => self.takeovers += 1,
                }
            }
        }
    }
}

/// The namespaces of these load-balancing groups.
fn namespaces(state: &GroupState, groups: &BTreeSet<u32>) -> BTreeSet<u32> {
    let all = state.config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    all.filter(|namespace| groups.contains(&namespace.ana_group)).map(|namespace| namespace.nsid).collect()
}

/// Gives the first load-balancing groups their namespaces.
fn add_namespaces(state: &mut GroupState, group: u32) {
    let namespaces = &mut state.config.subsystems[0].namespaces;
    let is_known = namespaces.iter().any(|namespace| namespace.ana_group == group);
    for _ in 0..if is_known { 0 } else { NAMESPACES_OF_A_GROUP } {
        let nsid = namespaces.len() as u32 + 1;
        if nsid <= NAMESPACES {
            let backend = BackendConfig::Null { size: 4096 };
            namespaces
                .push(NamespaceConfig { ana_group: group, ..NamespaceConfig::new(nsid, backend, 4096) });
        }
    }
}
