//! State that all threads of a set of paths share: the paths themselves, the receivers of notices
//! of their changes, and the namespace on which they agree. It starts no thread and connects
//! nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::PathOptions;
use super::controller_record::ControllerRecord;
use super::identity::{Identity, Witness};
use super::join_lock::JoinLock;
use super::path::Path;
use super::quiescing::Quiescing;
use super::sample;
use super::stage::StageLatencies;
use crate::initiator::{Controller, DeallocateLimits, InitiatorError, NamespaceInfo};
use crate::ring::{self, EventCount, Moment, Waker};

/// Other paths that are asked about one that joins, where the first ones do not answer.
const WITNESSES_MAX: usize = 2;

/// Namespace on which the paths agree.
#[derive(Debug)]
struct Found {
    identity: Identity,
    /// The namespace as it was described last, and by which path.
    namespace: NamespaceInfo,
    address: SocketAddr,
}

/// State that all threads of a set share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: PathOptions,
    pub(super) paths: Vec<Path>,
    /// Changes with every change of a path.
    generation: AtomicU64,
    stopping: AtomicBool,
    /// Rung for monitors and for the thread that quiesces.
    pub(super) event_count: Arc<EventCount>,
    /// Threads with queues, by number.
    wakers: Mutex<Vec<(u64, Waker)>>,
    wakers_made: AtomicU64,
    found: Mutex<Option<Found>>,
    /// The namespace's, as described last.
    size_bytes: AtomicU64,
    /// The most bytes of one command, and of one Write Zeroes, that every path has taken that was ever connected.
    transfer_length_max: AtomicUsize,
    write_zeroes_length_max: AtomicU64,
    /// The most blocks of one range, and the most ranges, of a Dataset Management that all of them take.
    range_blocks_max: AtomicU32,
    ranges_max: AtomicU16,
    /// Optional commands (ONCS) that all live paths had when it was looked at last.
    optional_nvm_commands: AtomicU16,
    /// Taken while a path is looked at that is to join the others.
    pub(super) join_lock: JoinLock,
    pub(super) quiescing: Mutex<Vec<Quiescing>>,
    /// Set while commands of an earlier process may still take effect.
    waits_for_left_controllers: AtomicBool,
    /// Associations of paths, not at rest, where a write has failed without an answer, and true if there are some.
    failed_writes: Mutex<Vec<(usize, u64)>>,
    has_failed_writes: AtomicBool,
    /// Stages of commands on each path, as each thread published them last.
    stages: Mutex<BTreeMap<u16, Vec<StageLatencies>>>,
}

impl Shared {
    /// Paths that have not been connected yet.
    pub(super) fn new(options: PathOptions) -> Self {
        let now = ring::now();
        let paths = options.paths.iter().map(|path| Path::new(path.clone(), now)).collect();
        let event_count = Arc::new(EventCount::default());
        Self {
            paths,
            options,
            generation: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            event_count: event_count.clone(),
            wakers: Mutex::new(Vec::new()),
            wakers_made: AtomicU64::new(0),
            found: Mutex::new(None),
            size_bytes: AtomicU64::new(0),
            transfer_length_max: AtomicUsize::new(usize::MAX),
            write_zeroes_length_max: AtomicU64::new(u64::MAX),
            range_blocks_max: AtomicU32::new(DeallocateLimits::NONE.range_blocks),
            ranges_max: AtomicU16::new(DeallocateLimits::NONE.ranges),
            optional_nvm_commands: AtomicU16::new(0),
            join_lock: JoinLock::new(event_count),
            quiescing: Mutex::new(Vec::new()),
            waits_for_left_controllers: AtomicBool::new(false),
            failed_writes: Mutex::default(),
            has_failed_writes: AtomicBool::new(false),
            stages: Mutex::default(),
        }
    }

    /// Publishes the stages of a thread's commands in the place of its earlier ones.
    pub(super) fn publish_stages(&self, thread: u16, stages: Vec<StageLatencies>) {
        lock(&self.stages).insert(thread, stages);
    }

    /// Returns the stages of all threads' commands, by path.
    pub(super) fn stages(&self) -> Vec<StageLatencies> {
        let mut sums = vec![StageLatencies::default(); self.paths.len()];
        for stages in lock(&self.stages).values() {
            sums.iter_mut().zip(stages).for_each(|(sum, own)| sum.merge(own));
        }
        sums
    }

    /// The namespace, as a path described it last; `None` before the first has.
    pub(super) fn namespace(&self) -> Option<NamespaceInfo> {
        lock(&self.found).as_ref().map(|found| found.namespace.clone())
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Optional commands (ONCS) that the controllers of all live paths have; while there is none, those that were known last.
    pub(super) fn optional_nvm_commands(&self) -> u16 {
        let live = self.paths.iter().filter(|path| path.live() != 0);
        let commands = |path: &Path| {
            let details = path.details();
            details.controller.as_ref().map(|controller| controller.identify().optional_nvm_commands.get())
        };
        let Some(of_all) = live.filter_map(commands).reduce(|all, own| all & own) else {
            return self.optional_nvm_commands.load(Ordering::Relaxed);
        };
        self.optional_nvm_commands.store(of_all, Ordering::Relaxed);
        of_all
    }

    /// Tells all threads to end.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.changed();
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Tells all threads that a path is otherwise than before.
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        lock(&self.wakers).iter().for_each(|(_, waker)| waker.wake());
        self.event_count.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// A thread wants to be woken when a path changes; the number under which it is known.
    pub(super) fn add_waker(&self, waker: Waker) -> u64 {
        let number = self.wakers_made.fetch_add(1, Ordering::Relaxed);
        lock(&self.wakers).push((number, waker));
        number
    }

    pub(super) fn remove_waker(&self, number: u64) {
        lock(&self.wakers).retain(|(of, _)| *of != number);
    }

    /// Records that an association is lost.
    pub(super) fn lose(&self, path: usize, association: u64, error: InitiatorError) {
        let address = self.paths[path].options.address;
        tracing::debug!(%address, %error, "a path is lost");
        if self.paths[path].lose(association, error, ring::now()) {
            self.changed();
        }
    }

    /// Compares the namespace that `controller` shows with that of the first path.
    ///
    /// # Errors
    /// The difference from the other paths.
    pub(super) fn compare(
        &self,
        controller: &Controller,
        namespace: &NamespaceInfo,
    ) -> Result<Identity, InitiatorError> {
        let identity = Identity::of(controller, namespace);
        let address = controller.address();
        let refuse = |reason| Err(InitiatorError::PathRefused { address, reason });
        if self.paths.len() > 1 && !identity.is_known() {
            return refuse(
                "its namespace has neither UUID, NGUID nor EUI64 to know it by on other paths".to_owned(),
            );
        }
        let found = lock(&self.found);
        let difference = found.as_ref().and_then(|found| {
            let known =
                if found.address == address { "before".to_owned() } else { format!("by {}", found.address) };
            found.identity.difference(&identity, &known)
        });
        difference.map_or(Ok(identity), refuse)
    }

    /// Records what `controller` shows of the namespace.
    ///
    /// # Errors
    /// How it is another one than on the other paths, and until now.
    pub(super) fn agree(
        &self,
        controller: &Controller,
        namespace: &NamespaceInfo,
    ) -> Result<(), InitiatorError> {
        let identity = self.compare(controller, namespace)?;
        let address = controller.address();
        self.transfer_length_max.fetch_min(controller.transfer_length_max(), Ordering::Relaxed);
        let zeroes_max = controller.write_zeroes_length_max().unwrap_or(u64::MAX);
        self.write_zeroes_length_max.fetch_min(zeroes_max, Ordering::Relaxed);
        let DeallocateLimits { range_blocks, ranges } = controller.deallocate_limits();
        self.range_blocks_max.fetch_min(range_blocks, Ordering::Relaxed);
        self.ranges_max.fetch_min(ranges, Ordering::Relaxed);
        self.size_bytes.store(namespace.size_bytes(), Ordering::Relaxed);
        *lock(&self.found) = Some(Found { identity, namespace: namespace.clone(), address });
        Ok(())
    }

    /// The most bytes of one command, and of one Write Zeroes, for any path.
    pub(super) fn length_limits(&self) -> (usize, u64) {
        let transfer = self.transfer_length_max.load(Ordering::Relaxed);
        (transfer, self.write_zeroes_length_max.load(Ordering::Relaxed))
    }

    /// Limits of Dataset Management for any path.
    pub(super) fn deallocate_limits(&self) -> DeallocateLimits {
        DeallocateLimits {
            range_blocks: self.range_blocks_max.load(Ordering::Relaxed),
            ranges: self.ranges_max.load(Ordering::Relaxed),
        }
    }

    /// Looks whether `controller`, of path `index`, leads to the same disk as the paths that are
    /// there, though all say so. The caller lets no other path join meanwhile.
    ///
    /// # Errors
    /// `PathRefused` of a path that connects for the first time, `PathDoubtful` of one that is known.
    pub(super) fn recognize(
        &self,
        index: usize,
        controller: &Controller,
        namespace: &NamespaceInfo,
        first: bool,
    ) -> Result<(), InitiatorError> {
        let others = || self.paths.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, path)| path);
        let path = &self.paths[index];
        let address = path.options.address;
        // A disk that is being resized, or a controller that is just going, may speak against a path that is known.
        let refused = |reason: String| match first {
            true => InitiatorError::PathRefused { address, reason },
            false => InitiatorError::PathDoubtful { address, reason },
        };
        let live = others().filter(|path| path.live() != 0);
        let mut live: Vec<_> = live.filter_map(|path| path.details().controller.clone()).collect();
        if live.is_empty() {
            // It is what the others have to be like from now on.
            others().for_each(|path| path.details().is_recognized = false);
            path.details().is_recognized = true;
            return Ok(());
        }
        live.truncate(WITNESSES_MAX);
        // One of them will do: they agree already. Where none answers, they are just being lost.
        let witness = live.into_iter().find_map(|known| Witness::of(known, namespace.nsid));
        let Some(witness) = witness else { return Ok(()) };
        if let Some(objection) = witness.objection(controller, namespace) {
            return Err(refused(objection));
        }
        if path.details().is_recognized || witness.knows(controller.id()) == Some(true) {
            path.details().is_recognized = true;
            return Ok(());
        }
        let known = witness.options();
        if let Some(offset) = sample::difference(known, &path.options, namespace.nsid) {
            let known = known.address;
            return Err(refused(format!(
                "it holds other data than {known} at offset {offset}: they are two disks of one name"
            )));
        }
        path.details().is_recognized = true;
        Ok(())
    }

    /// True if commands that change the namespace have to wait for controllers of an earlier
    /// process, or for lost ones where a write has failed without an answer.
    pub(super) fn waits_for_left_controllers(&self) -> bool {
        self.waits_for_left_controllers.load(Ordering::Acquire)
            || self.has_failed_writes.load(Ordering::Acquire)
    }

    /// True if they wait for the latter alone.
    pub(super) fn waits_for_failed_writes(&self) -> bool {
        self.has_failed_writes.load(Ordering::Acquire)
            && !self.waits_for_left_controllers.load(Ordering::Acquire)
    }

    /// Holds commands that change the namespace until these associations of paths have come to rest. A write to each has failed
    /// without an answer, and may still take effect.
    pub(super) fn hold_writes_for(&self, unanswered: Vec<(usize, u64)>) {
        let mut failed = lock(&self.failed_writes);
        for (path, association) in unanswered {
            if !self.paths[path].is_at_rest(association) && !failed.contains(&(path, association)) {
                failed.push((path, association));
            }
        }
        let begins = !failed.is_empty() && !self.has_failed_writes.swap(true, Ordering::AcqRel);
        drop(failed);
        if begins {
            self.changed();
        }
    }

    /// Ends the hold for associations that have come to rest. True if it was the last of them; the caller reports the change.
    pub(super) fn end_hold_of_writes(&self) -> bool {
        let mut failed = lock(&self.failed_writes);
        failed.retain(|(path, association)| !self.paths[*path].is_at_rest(*association));
        failed.is_empty() && self.has_failed_writes.swap(false, Ordering::AcqRel)
    }

    /// Sets that they have to wait from now on, or not. The caller has locked the list of lost
    /// controllers, and reports the change afterwards.
    pub(super) fn hold_for_left_controllers(&self, holds: bool) {
        self.waits_for_left_controllers.store(holds, Ordering::Release);
    }

    /// Records that nothing that was sent to a controller can take effect now.
    pub(super) fn is_at_rest(&self, controller: &ControllerRecord) {
        if let Some(record_store) = &self.options.record_store {
            record_store.quiesced(controller);
        }
    }

    /// True if commands may wait for some path.
    pub(super) fn may_come_back(&self, now: Moment) -> bool {
        self.paths.iter().any(|path| path.may_come_back(self.options.fast_io_fail, now))
    }

    /// Why there is no path.
    pub(super) fn error(&self) -> InitiatorError {
        let error = self.paths.iter().find_map(|path| path.details().error.clone());
        let address = self.paths[0].options.address;
        error.unwrap_or(InitiatorError::Disconnected { address })
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::ConnectOptions;

    #[test]
    fn writes_are_held_until_each_controller_with_a_failed_one_is_at_rest() {
        let path = || ConnectOptions::new("127.0.0.1:4420".parse().unwrap(), "nqn.2026-01.io.selvedge:a");
        let shared = Shared::new(PathOptions::new(vec![path(), path()], 1));
        shared.hold_writes_for(Vec::new());
        assert!(!shared.waits_for_left_controllers() && !shared.end_hold_of_writes());
        let generation = shared.generation();
        shared.hold_writes_for(vec![(0, 1), (1, 2), (0, 1)]);
        assert!(shared.waits_for_left_controllers() && shared.waits_for_failed_writes());
        assert!(shared.generation() > generation, "all threads learn of it");
        shared.paths[0].lay_to_rest(1);
        shared.paths[1].lay_to_rest(1);
        assert!(!shared.end_hold_of_writes() && shared.waits_for_left_controllers());
        shared.hold_for_left_controllers(true);
        assert!(!shared.waits_for_failed_writes(), "they wait for others, too");
        shared.hold_for_left_controllers(false);
        shared.paths[1].lay_to_rest(2);
        assert!(shared.end_hold_of_writes() && !shared.waits_for_left_controllers());
        shared.hold_writes_for(vec![(1, 2)]);
        assert!(!shared.waits_for_left_controllers(), "it has come to rest before the write fails");
    }
}
