//! A Ceph cluster: objects, images, who is connected, and maps that say who is shut out. It lives in the world, so that it outlives
//! every process. An OSD does what it is sent in the order in which a connection has sent it, by the map that it has; it may be
//! slow, silent, or behind with its map. What a connection has sent may arrive long after, also when its process has died.
//! How the engine asks for all this belongs to `ceph`.

mod calls;
mod client;
mod delivery;
mod fence;
mod image;
mod store;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

pub use calls::take_effects;
pub(crate) use calls::{
    Answer, call, call_monitor, close, connect, ended_late, instant, note_late, notify, unwatch, watch,
    watches,
};
use client::Client;
pub use client::ClientId;
use delivery::Operation;
use fence::Span;
pub(crate) use image::ImageHandle;
use store::Locker;
pub(crate) use store::Store;
use view::Check;
pub use view::{Holder, View, check_always, look};

use super::random::Random;
use super::scheduler::{MachineId, ProcessId, What, World, with};
use crate::ring::Moment;

/// OSDs that the cluster has.
pub const OSDS: usize = 3;
/// The place of the monitors, as if they were one more OSD.
const MONITOR: usize = OSDS;

/// Behaviour of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mood {
    /// Shortest and longest time that something is under way, in microseconds.
    pub way_us: (u64, u64),
    /// Shortest and longest time that an OSD takes for an operation, in microseconds.
    pub work_us: (u64, u64),
    /// Shortest and longest time that the monitors take for a change of the map, in microseconds.
    pub commit_us: (u64, u64),
    /// Shortest and longest time until an OSD without requests has a new map, in microseconds.
    pub map_us: (u64, u64),
    /// Duration of the blocklist entry of a client whose lock librbd breaks, in milliseconds.
    pub broken_lock_ms: u64,
    /// Longest silence of a client before its watches are gone, in milliseconds.
    pub watch_ms: u64,
}

impl Default for Mood {
    fn default() -> Self {
        Self {
            way_us: (50, 400),
            work_us: (100, 1_500),
            commit_us: (5_000, 60_000),
            map_us: (1_000, 300_000),
            broken_lock_ms: 6_000,
            watch_ms: 30_000,
        }
    }
}

/// Step in the cluster, at its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// An operation is at its OSD.
    Arrive(usize),
    /// Execution of the operation, or its refusal.
    Execute(usize),
    /// Arrival of its reply at the client.
    Reply(usize),
    /// End of the client's patience.
    Timeout(usize),
    /// An OSD has the newest map.
    Map(usize),
    /// End of a client's blocklist entry.
    Lift(ClientId),
    /// A client says that it is there.
    Ping(ClientId),
    /// Departure of what a client has sent to an OSD, after its connections were cut.
    Flush(ClientId, usize),
}

#[derive(Debug, Default)]
struct Osd {
    epoch: u64,
    is_silent: bool,
    /// Operations that wait for it, or for its map, in the order of their arrival.
    waiting: Vec<usize>,
}

/// The cluster.
pub(crate) struct Rados {
    pub(crate) store: Store,
    epoch: u64,
    /// Times for which clients are or were shut out.
    spans: BTreeMap<ClientId, Vec<Span>>,
    /// The monitors are the last of them.
    osds: Vec<Osd>,
    clients: Vec<Client>,
    operations: Vec<Operation>,
    mood: Mood,
    /// Machines that have no way to it, and since when.
    cuts: BTreeMap<MachineId, Moment>,
    /// Lockers that no longer write, though their locks may be there yet.
    let_go: BTreeSet<Locker>,
    /// Invariant that is checked after each change.
    check: Option<Check>,
    /// Operations on images that took too long, by their processes.
    late: BTreeMap<ProcessId, u64>,
    random: Random,
}

impl fmt::Debug for Rados {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rados")
            .field("store", &self.store)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Default for Rados {
    fn default() -> Self {
        Self {
            store: Store::default(),
            epoch: 1,
            spans: BTreeMap::new(),
            osds: (0..=OSDS).map(|_| Osd { epoch: 1, ..Osd::default() }).collect(),
            clients: Vec::new(),
            operations: Vec::new(),
            mood: Mood::default(),
            cuts: BTreeMap::new(),
            let_go: BTreeSet::new(),
            check: None,
            late: BTreeMap::new(),
            random: Random::new(0),
        }
    }
}

impl Rados {
    fn time(&mut self, (from, to): (u64, u64)) -> u64 {
        self.random.between(from * 1_000, to * 1_000)
    }
}

impl World {
    pub(super) fn step_rados(&mut self, step: Step) {
        match step {
            Step::Arrive(operation) => self.arrive_at_osd(operation),
            Step::Execute(operation) => self.execute(operation),
            Step::Reply(operation) => self.reply(operation),
            Step::Timeout(operation) => self.time_out(operation),
            Step::Map(osd) => self.have_map(osd),
            Step::Lift(client) => self.lift(client),
            Step::Ping(client) => self.ping(client),
            Step::Flush(client, osd) => self.flush(client, osd),
        }
    }

    fn rados_after(&mut self, nanoseconds: u64, step: Step) {
        self.after(nanoseconds, What::Rados(step));
    }
}

/// Sets how the cluster behaves from now on, and where its chance comes from.
pub fn set_mood(mood: Mood, random: Random) {
    with(|world| (world.rados.mood, world.rados.random) = (mood, random));
}

/// Another behaviour from now on.
pub fn change_mood(how: impl FnOnce(&mut Mood)) {
    with(|world| how(&mut world.rados.mood));
}

/// Makes an image.
pub fn create_image(pool: &str, name: &str, size: u64, object_size: u64) {
    with(|world| world.rados.store.create_image(&format!("{pool}/{name}"), size, object_size));
}

/// Content of an image, as if all requested operations were done.
pub fn content(pool: &str, name: &str) -> Option<Vec<u8>> {
    with(|world| world.rados.store.image(&format!("{pool}/{name}")).map(|image| image.content.clone()))
}

/// Makes the whole cluster silent, or not.
pub fn silence(is_silent: bool) {
    (0..=OSDS).for_each(|osd| silence_osd(osd, is_silent));
}

/// Makes one OSD silent, or not; the monitors are the last.
pub fn silence_osd(osd: usize, is_silent: bool) {
    with(|world| {
        world.rados.osds[osd].is_silent = is_silent;
        if !is_silent {
            // What it missed it gets before it goes on, or a moment after.
            let time = world.rados.time((100, 5_000));
            world.rados_after(time, Step::Map(osd));
        }
    });
}

/// Cuts a machine off from the cluster, or mends that. What was under way then is sent again after about as long as the cut has
/// lasted; what is new goes at once.
pub fn cut(machine: MachineId, is_cut: bool) {
    with(|world| if is_cut { world.cut_cluster(machine) } else { world.mend_cluster(machine) });
}

/// The time that lies between two signs of life of a client.
const PING: Duration = Duration::from_secs(5);
