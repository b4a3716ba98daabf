//! Requests of a fiber to the cluster, and its waits for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::delivery::{Outcome, Work};
use super::store::Locker;
use super::{ClientId, MONITOR, OSDS, Store};
use crate::ring::simulated::disk::Effect;
use crate::ring::simulated::scheduler::{self, World, with};
use crate::ring::{Moment, simulated};

/// Answer of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Flag(bool),
    /// Pairs of an object; `None` if there is no such object.
    Pairs(Option<BTreeMap<String, Vec<u8>>>),
    Bytes(Vec<u8>),
    Number(u64),
    Owner(Option<Locker>),
}

/// The OSD that has this part of something.
pub(super) fn place(name: &str, part: u64) -> usize {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    ((hash >> 32).wrapping_add(part) % OSDS as u64) as usize
}

/// Has an OSD do something with what has this name, and waits for that.
pub(crate) fn call(
    client: ClientId,
    name: &str,
    timeout_ms: u64,
    work: impl FnOnce(&mut Store, Moment) -> Outcome + 'static,
) -> Outcome {
    let work: Work = Box::new(move |world, now| work(&mut world.rados.store, now));
    wait(client, place(name, 0), work, timeout_ms)
}

/// Makes the monitors shut out a client (or none), and waits until this connection has the newest
/// map.
pub(crate) fn call_monitor(client: ClientId, timeout_ms: u64, blocked: Option<(ClientId, u64)>) -> Outcome {
    let work: Work = Box::new(move |world, now| {
        if let Some((other, seconds)) = blocked {
            world.block(other, Moment(now.0.saturating_add(seconds.saturating_mul(1_000_000_000))));
        }
        Ok(Answer::Done)
    });
    wait(client, MONITOR, work, timeout_ms)
}

fn wait(client: ClientId, osd: usize, work: Work, timeout_ms: u64) -> Outcome {
    if scheduler::is_ending() {
        return Err(libc::ESHUTDOWN);
    }
    let slot: Arc<Mutex<Option<Outcome>>> = Arc::default();
    let (theirs, fiber) = (slot.clone(), scheduler::current());
    let then = Box::new(move |world: &mut World, outcome| {
        *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        if let Some(fiber) = fiber {
            world.unpark(fiber);
        }
    });
    with(|world| world.send_to_osd(client, osd, (work, then), timeout_ms));
    loop {
        if let Some(outcome) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return outcome;
        }
        if scheduler::is_ending() {
            return Err(libc::ESHUTDOWN);
        }
        scheduler::park(None);
    }
}

/// Sends an operation whose answer is ignored.
pub(crate) fn instant(
    client: ClientId,
    name: &str,
    work: impl FnOnce(&mut Store, Moment) -> Outcome + 'static,
) {
    let work: Work = Box::new(move |world, now| work(&mut world.rados.store, now));
    scheduler::with_if(|world| {
        world.send_to_osd(client, place(name, 0), (work, Box::new(|_, _| {})), 0);
    });
}

/// Connects the running process.
pub(crate) fn connect(timeout_ms: u64) -> Result<ClientId, i32> {
    let id = with(World::add_client);
    if let Err(code) = call_monitor(id, timeout_ms, None) {
        scheduler::with_if(|world| world.close_client(id));
        return Err(code);
    }
    scheduler::spawn(None, "ceph-calls".to_owned(), move || make_calls(id));
    Ok(id)
}

/// The thread on which a connection's library calls.
fn make_calls(id: ClientId) {
    let fiber = scheduler::current();
    while !scheduler::is_ending() {
        let calls = with(|world| {
            let client = &mut world.rados.clients[id.0];
            client.caller = fiber;
            (!client.is_closed).then(|| std::mem::take(&mut client.calls))
        });
        let Some(calls) = calls else { return };
        if calls.is_empty() {
            scheduler::park(None);
        }
        calls.into_iter().for_each(|call| call());
    }
}

/// Counts one more operation of the running process that has taken too long.
pub(crate) fn note_late() {
    with(|world| {
        if let Some(process) = world.running() {
            *world.rados.late.entry(process).or_default() += 1;
        }
    });
}

/// Number of operations on images of the running process that have taken too long.
pub(crate) fn ended_late() -> u64 {
    with(|world| world.running().and_then(|process| world.rados.late.get(&process).copied()).unwrap_or(0))
}

/// The writes that an image has had since this was asked last.
pub fn take_effects(pool: &str, name: &str) -> Vec<Effect> {
    let name = format!("{pool}/{name}");
    simulated::scheduler::with(|world| {
        world.rados.store.image_mut(&name).map(|image| std::mem::take(&mut image.effects)).unwrap_or_default()
    })
}

/// Tells those who watch an object, and waits until they have heard of it, for `timeout_ms` at most.
pub(crate) fn notify(client: ClientId, name: &str, timeout_ms: u64) -> Outcome {
    let (osd, object) = (place(name, 0), name.to_owned());
    let work: Work = Box::new(move |world, _| {
        let watchers = world.rados.store.objects.get(&object).ok_or(libc::ENOENT)?.watchers.clone();
        let mut has_all = true;
        for (watcher, cookie) in watchers {
            if !world.is_watching(watcher, osd) {
                continue;
            }
            has_all &= world.is_responsive(watcher, osd);
            let callback = world.rados.clients[watcher.0].watches.get(&cookie).cloned();
            if let Some(callback) = callback.filter(|_| world.is_responsive(watcher, osd)) {
                world.call_back(watcher, callback);
            }
        }
        Ok(Answer::Flag(has_all))
    });
    match wait(client, osd, work, timeout_ms)? {
        Answer::Flag(false) => {
            simulated::sleep(Duration::from_millis(timeout_ms));
            Err(libc::ETIMEDOUT)
        }
        answer => Ok(answer),
    }
}

/// Registers a callback for notifications, and for the loss of the watch.
pub(crate) fn watch(client: ClientId, cookie: u64, callback: impl Fn() + Send + Sync + 'static) {
    with(|world| world.rados.clients[client.0].watches.insert(cookie, Arc::new(callback)));
}

/// Has nothing called any longer.
pub(crate) fn unwatch(client: ClientId, cookie: u64) {
    let callback = scheduler::with_if(|world| world.rados.clients[client.0].watches.remove(&cookie));
    drop(callback);
}

/// True if the cluster knows of a watch.
pub(crate) fn watches(name: &str, watcher: Locker) -> bool {
    with(|world| world.rados.store.objects.get(name).is_some_and(|object| object.watchers.contains(&watcher)))
}

/// Ends a connection.
pub(crate) fn close(client: ClientId) {
    scheduler::with_if(|world| world.close_client(client));
}
