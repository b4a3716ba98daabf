//! All paths to one namespace: connecting them, keeping them, telling of them. Commands go through `PathQueues`, one for
//! each thread; no command ever passes here.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nvme::log_page::AnaState;

use super::join::{Identity, Witness};
use super::keeper;
use super::quiesce::{self, Quiescing};
use super::sample;
use super::state::{Path, PathState};
use super::turn::Turns;
use super::{IoPolicy, PathOptions};
use crate::initiator::{Controller, InitiatorError, NamespaceInfo};
use crate::limits::PATHS_MAX;
use crate::ring::Bell;
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{self, Moment, Waker};
use crate::transport::Transport;

/// How often those who wait for the first connections look even though no bell rang.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Other paths that are asked about one that joins, where the first ones do not answer.
const WITNESSES_MAX: usize = 2;

/// What the paths agree on.
#[derive(Debug)]
struct Found {
    identity: Identity,
    /// The namespace as it was described last, and by which path.
    namespace: NamespaceInfo,
    address: SocketAddr,
}

/// What all threads of a set share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: PathOptions,
    pub(super) paths: Vec<Path>,
    /// Changes with every change of a path.
    generation: AtomicU64,
    stopping: AtomicBool,
    /// Rung for keepers and for who quiesces.
    pub(super) bell: Arc<Bell>,
    /// Threads with queues, by number.
    wakers: Mutex<Vec<(u64, Waker)>>,
    wakers_made: AtomicU64,
    found: Mutex<Option<Found>>,
    /// Taken while a path is looked at that is to join the others.
    pub(super) joining: Turns,
    pub(super) quiescing: Mutex<Vec<Quiescing>>,
}

impl Shared {
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Tells all threads that a path is otherwise than before.
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        lock(&self.wakers).iter().for_each(|(_, waker)| waker.wake());
        self.bell.ring();
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

    /// The incarnation is lost, as somebody found out.
    pub(super) fn lose(&self, path: usize, incarnation: u64, error: InitiatorError) {
        let address = self.paths[path].options.address;
        tracing::debug!(%address, %error, "a path is lost");
        if self.paths[path].lose(incarnation, error, ring::now()) {
            self.changed();
        }
    }

    /// What `controller` shows of the namespace; the first path says what all others have to show.
    ///
    /// # Errors
    /// How it is another one than on the other paths.
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

    /// Takes note of what `controller` shows of the namespace.
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
        *lock(&self.found) = Some(Found { identity, namespace: namespace.clone(), address });
        Ok(())
    }

    /// Looks whether `controller`, of path `index`, leads to the same disk as the paths that are there, though all say so.
    /// Whoever calls this lets no other path join meanwhile.
    ///
    /// # Errors
    /// What speaks against it.
    pub(super) fn recognize(
        &self,
        index: usize,
        controller: &Controller,
        namespace: &NamespaceInfo,
    ) -> Result<(), String> {
        let others = || self.paths.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, path)| path);
        let path = &self.paths[index];
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
            return Err(objection);
        }
        if path.details().is_recognized || witness.knows(controller.id()) == Some(true) {
            path.details().is_recognized = true;
            return Ok(());
        }
        let known = witness.options();
        if let Some(offset) = sample::difference(known, &path.options, namespace.nsid) {
            let address = known.address;
            return Err(format!(
                "it holds other data than {address} at offset {offset}: they are two disks of one name"
            ));
        }
        path.details().is_recognized = true;
        Ok(())
    }

    /// Whether commands may wait for some path.
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

/// The paths to a namespace. Dropping it shuts their controllers down.
#[derive(Debug)]
pub struct Paths {
    pub(super) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What is to be told of a path.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PathStatus {
    /// Where the target listens.
    pub address: SocketAddr,
    /// The transport that was asked for.
    pub transport: Transport,
    /// How far it is.
    pub state: PathState,
    /// ANA state of the namespace there: `optimized`, `non-optimized`, `inaccessible`, `persistent-loss`, `change`, or
    /// `unknown`.
    pub ana: &'static str,
    /// Its controller (CNTLID), while it has one.
    pub cntlid: Option<u16>,
    /// Times it was connected again.
    pub reconnects: u64,
    /// Why it is not live.
    pub error: Option<String>,
}

impl Paths {
    /// Connects all paths. Those that cannot be reached are tried again later, as long as one can.
    ///
    /// # Errors
    /// When none can be reached; when one leads to another subsystem or namespace than the others; and when the options
    /// make no sense.
    pub fn connect(options: PathOptions) -> Result<Self, InitiatorError> {
        check(&options)?;
        let now = ring::now();
        let paths = options.paths.iter().map(|path| Path::new(path.clone(), now)).collect();
        let bell = Arc::new(Bell::default());
        let shared = Arc::new(Shared {
            paths,
            options,
            generation: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            bell: bell.clone(),
            wakers: Mutex::new(Vec::new()),
            wakers_made: AtomicU64::new(0),
            found: Mutex::new(None),
            joining: Turns::new(bell),
            quiescing: Mutex::new(Vec::new()),
        });
        let set = Self { shared, threads: Mutex::new(Vec::new()) };
        set.start()?;
        set.await_first()?;
        Ok(set)
    }

    fn start(&self) -> Result<(), InitiatorError> {
        let mut threads = lock(&self.threads);
        for index in 0..self.shared.paths.len() {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name(format!("path-{index}"));
            let thread = thread.spawn(move || keeper::keep(&shared, index));
            threads.push(thread.map_err(InitiatorError::system("no thread for a path"))?);
        }
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name("quiesce".to_owned());
        let thread = thread.spawn(move || quiesce::serve(&shared));
        threads.push(thread.map_err(InitiatorError::system("no thread for lost paths"))?);
        Ok(())
    }

    /// Waits until every path has been tried once, and one of them is live.
    fn await_first(&self) -> Result<(), InitiatorError> {
        loop {
            let seen = self.shared.bell.count();
            let mut tried = true;
            let mut live = false;
            for path in &self.shared.paths {
                let details = path.details();
                if let (PathState::Dead, Some(error @ InitiatorError::PathRefused { .. })) =
                    (details.state, &details.error)
                {
                    return Err(error.clone());
                }
                live |= details.state == PathState::Live;
                tried &= details.state != PathState::Connecting || details.error.is_some();
            }
            if tried {
                return if live { Ok(()) } else { Err(self.shared.error()) };
            }
            self.shared.bell.wait(seen, LOOK_INTERVAL);
        }
    }

    /// The namespace, as a path described it last.
    ///
    /// # Panics
    /// Never: a set comes into being with a path that is live.
    pub fn namespace(&self) -> NamespaceInfo {
        let found = lock(&self.shared.found);
        found.as_ref().expect("a set begins with a live path").namespace.clone()
    }

    /// The subsystem that all paths lead to.
    pub fn subsystem_nqn(&self) -> &str {
        &self.shared.paths[0].options.subsystem_nqn
    }

    /// Which path a command takes.
    pub fn policy(&self) -> IoPolicy {
        self.shared.options.policy
    }

    /// The controllers of the live paths.
    pub fn controllers(&self) -> Vec<Controller> {
        let live = |path: &Path| path.details().controller.clone().filter(|_| path.live() != 0);
        self.shared.paths.iter().filter_map(live).collect()
    }

    /// All paths, in the order of the options.
    pub fn status(&self) -> Vec<PathStatus> {
        self.shared.paths.iter().map(status).collect()
    }

    /// Shuts all controllers down. Nothing can be sent any more.
    pub fn disconnect(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.changed();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for (index, thread) in threads.into_iter().enumerate() {
            // A keeper that is just connecting ends by itself when that has failed; nobody has to wait for it.
            let waits = self.shared.paths.get(index).is_none_or(|path| path.details().controller.is_some());
            if waits {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        self.disconnect();
    }
}

fn check(options: &PathOptions) -> Result<(), InitiatorError> {
    let misuse = |text: &str| Err(InitiatorError::ApiMisuse(text.to_owned()));
    let Some(first) = options.paths.first() else { return misuse("there has to be at least one path") };
    if options.paths.len() > PATHS_MAX {
        return misuse(&format!("there may be {PATHS_MAX} paths, not {}", options.paths.len()));
    }
    if options.paths.iter().any(|path| path.subsystem_nqn != first.subsystem_nqn || path.host != first.host) {
        return misuse("all paths lead to one subsystem, as one host");
    }
    if options.controller_loss != Some(Duration::ZERO)
        && options.paths.iter().any(|path| path.keep_alive_ms == 0)
    {
        return misuse(
            "a path that is to be connected again needs a keep alive time-out: without one, its old controller never \
             comes to rest",
        );
    }
    Ok(())
}

fn status(path: &Path) -> PathStatus {
    let details = path.details();
    let live = details.controller.as_ref().filter(|_| path.live() != 0);
    PathStatus {
        address: path.options.address,
        transport: path.options.transport,
        state: details.state,
        ana: ana_name(path.ana().filter(|_| live.is_some())),
        cntlid: live.map(Controller::id),
        reconnects: details.reconnects,
        error: details.error.as_ref().map(ToString::to_string),
    }
}

const fn ana_name(state: Option<AnaState>) -> &'static str {
    match state {
        Some(AnaState::Optimized) => "optimized",
        Some(AnaState::NonOptimized) => "non-optimized",
        Some(AnaState::Inaccessible) => "inaccessible",
        Some(AnaState::PersistentLoss) => "persistent-loss",
        Some(AnaState::Change) => "change",
        None => "unknown",
    }
}
