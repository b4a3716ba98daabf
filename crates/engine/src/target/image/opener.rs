//! Images that are being opened and locked in parallel, on threads of their own: a wait for one
//! image, such as for the expiry of a dead client's lock, does not delay others. Which images are
//! opened, and their use, is `preparation`'s.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::backend::{Backend, BackendConfig, BackendError, Clusters, Opening};
use crate::limits::IMAGES_AT_A_TIME;
use crate::ring::lock::{Condvar, Mutex, MutexGuard};
use crate::ring::{Vital, thread};
use crate::target::config::NamespaceConfig;

/// An image that is to be opened for a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenRequest {
    // First, since thousands are compared with each other.
    nsid: u32,
    nqn: String,
    backend: BackendConfig,
    block_size: u32,
    is_shared: bool,
    opening: u64,
    /// True if the namespace has the image open, and needs it on another connection.
    is_reconnecting: bool,
    /// Set if the image is opened before its configuration is applied, and locked only then, if at
    /// all; true if it is to stay unlocked (standby).
    early: Option<bool>,
}

impl OpenRequest {
    /// Request of a namespace of the subsystem `nqn`, in this generation of open requests.
    pub(crate) fn of(nqn: &str, config: &NamespaceConfig, opening: u64) -> Self {
        Self {
            nqn: nqn.to_owned(),
            nsid: config.nsid,
            backend: config.backend.clone(),
            block_size: config.block_size,
            is_shared: config.shared_storage,
            opening,
            is_reconnecting: false,
            early: None,
        }
    }

    /// The same, which is only opened.
    pub(crate) const fn early(mut self, is_standby: bool) -> Self {
        self.early = Some(is_standby);
        self
    }

    /// The same on another connection than that on which it is open.
    pub(crate) const fn reconnecting(mut self) -> Self {
        self.is_reconnecting = true;
        self
    }

    /// The namespace that wants it, by its subsystem's name and its identifier.
    pub(crate) fn place(&self) -> (&str, u32) {
        (&self.nqn, self.nsid)
    }

    fn is_covered_by(&self, other: &Self) -> bool {
        *self == Self { is_reconnecting: self.is_reconnecting, ..other.clone() }
    }
}

/// Operations on images. Each call may take as long as a cluster does.
pub(crate) trait ImageSource: Send + Sync + 'static {
    /// An open image. Dropping it gives its lock back.
    type Opened: Send + 'static;

    /// Opens it, and takes nothing.
    fn open(&self, request: &OpenRequest) -> Result<Self::Opened, BackendError>;

    /// Owner of the image's lock, if there is one.
    fn owner(&self, opened: &Self::Opened) -> Option<String>;

    /// Takes it for this target.
    fn take(&self, opened: &Self::Opened) -> Result<(), BackendError>;

    /// Lets others take it, which dropping it does only some time later.
    fn give_back(&self, opened: &Self::Opened) -> Result<(), BackendError>;

    /// Reports that a request is complete.
    fn tell(&self);
}

/// State of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome<O, E = BackendError> {
    /// The image is open, and locked by this target.
    Opened(O),
    /// The image is not available. The request can be repeated.
    Failed(E),
    /// The request is under way, and waits for this owner of the lock, if known.
    Pending(Option<String>),
    /// There is no such request.
    Unknown,
}

#[derive(Debug)]
enum Stage<O> {
    Queued,
    /// A thread opens it.
    Opening,
    /// The image is open, and its lock has an owner: images without one come first.
    Owned(O, Option<String>),
    /// A thread takes it, from this owner if it has one.
    Taking(Option<String>),
    /// The image was locked, and is no longer wanted: the lock has to be given back before
    /// completion is reported.
    Unwanted(O),
    /// A thread gives it back.
    Leaving,
    Done(Result<O, BackendError>),
}

#[derive(Debug)]
struct Entry<O> {
    number: u64,
    request: OpenRequest,
    /// Number of callers that wait for the image, whatever configuration is in effect.
    holders: usize,
    /// True if the image is not wanted now. The thread that opens it is not interrupted, and gives
    /// it back once it is open.
    is_given_up: bool,
    stage: Stage<O>,
}

#[derive(Debug)]
struct Requests<O> {
    entries: Vec<Entry<O>>,
    next_number: u64,
    threads: usize,
    has_ended: bool,
}

/// Next work of a thread.
enum Step<O> {
    Open(u64, OpenRequest),
    Take(u64, O),
    Leave(u64, O),
}

/// The images that are being opened.
pub(crate) struct ImageOpener<T: ImageSource> {
    source: T,
    requests: Mutex<Requests<T::Opened>>,
    changed: Condvar,
}

impl<T: ImageSource> fmt::Debug for ImageOpener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageOpener").field("count", &self.lock().entries.len()).finish_non_exhaustive()
    }
}

impl<T: ImageSource> ImageOpener<T> {
    /// None yet.
    pub(crate) fn new(source: T) -> Arc<Self> {
        let requests = Requests { entries: Vec::new(), next_number: 0, threads: 0, has_ended: false };
        Arc::new(Self { source, requests: Mutex::new(requests), changed: Condvar::new() })
    }

    /// Begins to open those that are not being opened already.
    pub(crate) fn begin(self: &Arc<Self>, all: &[OpenRequest]) {
        let mut requests = self.lock();
        if requests.has_ended {
            return;
        }
        for request in all {
            if let Some(entry) = requests.entries.iter_mut().find(|entry| entry.request == *request) {
                entry.want();
                continue;
            }
            let (number, request) = (requests.next_number, request.clone());
            requests.next_number += 1;
            let stage = Stage::Queued;
            requests.entries.push(Entry { number, request, holders: 0, is_given_up: false, stage });
        }
        self.start_threads(&mut requests);
    }

    /// Starts as many threads as there is work for, and may be.
    fn start_threads(self: &Arc<Self>, requests: &mut Requests<T::Opened>) {
        let waits = |entry: &&Entry<T::Opened>| matches!(entry.stage, Stage::Queued | Stage::Unwanted(_));
        let waiting = requests.entries.iter().filter(waits).count();
        for _ in 0..waiting.min(IMAGES_AT_A_TIME.saturating_sub(requests.threads)) {
            let this = self.clone();
            let work = move || {
                let _vital = Vital::begin();
                this.work();
            };
            match thread::Builder::new().name("image-open".to_owned()).spawn(work) {
                Ok(_) => requests.threads += 1,
                Err(error) => {
                    tracing::warn!(%error, "cannot start a thread to open images; retrying");
                    break;
                }
            }
        }
    }

    /// Begins to open images for a caller that releases them later, whatever configuration is in effect then.
    pub(crate) fn hold(self: &Arc<Self>, all: &[OpenRequest]) {
        self.begin(all);
        let mut requests = self.lock();
        let held = requests.entries.iter_mut().filter(|entry| all.contains(&entry.request));
        held.for_each(|entry| entry.holders += 1);
    }

    /// Gives these up for one of their holders. What was handed over meanwhile is in use.
    pub(crate) fn release(&self, all: &[OpenRequest]) {
        let mut requests = self.lock();
        let held = requests.entries.iter_mut().filter(|entry| all.contains(&entry.request));
        for entry in held {
            entry.holders = entry.holders.saturating_sub(1);
            entry.is_given_up |= entry.holders == 0;
        }
        let gone = take_given_up(&mut requests);
        drop(requests);
        self.changed.notify_all();
        drop(gone);
    }

    /// Waits until all of these are done, for `patience` at most.
    pub(crate) fn wait(&self, all: &[OpenRequest], patience: Duration) {
        let is_under_way = |requests: &mut Requests<T::Opened>| {
            let mut entries = requests.entries.iter();
            entries.any(|entry| !matches!(entry.stage, Stage::Done(_)) && all.contains(&entry.request))
        };
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_under_way);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// State of a request; a completed one is handed to the caller and removed.
    pub(crate) fn outcome(&self, request: &OpenRequest) -> Outcome<T::Opened> {
        let mut requests = self.lock();
        let Some(at) = requests.entries.iter().position(|entry| entry.request == *request) else {
            return Outcome::Unknown;
        };
        match &requests.entries[at].stage {
            Stage::Queued | Stage::Opening | Stage::Unwanted(_) | Stage::Leaving => Outcome::Pending(None),
            Stage::Owned(_, owner) | Stage::Taking(owner) => Outcome::Pending(owner.clone()),
            Stage::Done(_) => match requests.entries.swap_remove(at).stage {
                Stage::Done(Ok(opened)) => Outcome::Opened(opened),
                Stage::Done(Err(error)) => Outcome::Failed(error),
                _ => Outcome::Unknown,
            },
        }
    }

    /// True if the request is complete, and the image open.
    pub(crate) fn is_opened(&self, request: &OpenRequest) -> bool {
        let requests = self.lock();
        requests
            .entries
            .iter()
            .any(|entry| entry.request == *request && matches!(entry.stage, Stage::Done(Ok(_))))
    }

    /// True if the request is pending.
    pub(crate) fn is_under_way(&self, request: &OpenRequest) -> bool {
        let requests = self.lock();
        let mut entries = requests.entries.iter();
        entries.any(|entry| entry.request == *request && !matches!(entry.stage, Stage::Done(_)))
    }

    /// True if the request is complete, successfully or not.
    pub(crate) fn is_done(&self, request: &OpenRequest) -> bool {
        let requests = self.lock();
        requests
            .entries
            .iter()
            .any(|entry| entry.request == *request && matches!(entry.stage, Stage::Done(_)))
    }

    /// `Some` while a thread works on this image, with the lock's owner if known: the image would
    /// be opened twice otherwise.
    pub(crate) fn is_busy_with(&self, backend: &BackendConfig) -> Option<Option<String>> {
        let requests = self.lock();
        requests.entries.iter().filter(|entry| entry.request.backend.is_same_place(backend)).find_map(
            |entry| match &entry.stage {
                Stage::Opening | Stage::Unwanted(_) | Stage::Leaving => Some(None),
                Stage::Taking(owner) => Some(owner.clone()),
                _ => None,
            },
        )
    }

    /// Gives up all but these.
    pub(crate) fn keep(self: &Arc<Self>, all: &[OpenRequest]) {
        let mut requests = self.lock();
        // At the end of the target no lock is given back: the end of a connection frees its locks.
        let gives_back = !requests.has_ended;
        for entry in &mut requests.entries {
            if entry.holders > 0 || all.iter().any(|request| entry.request.is_covered_by(request)) {
                entry.want();
            } else {
                entry.give_up(gives_back);
            }
        }
        let gone = take_given_up(&mut requests);
        self.start_threads(&mut requests);
        drop(requests);
        self.changed.notify_all();
        drop(gone);
    }

    /// Waits, for `patience` at most, until unwanted images of these namespaces are not being
    /// locked, and are given back if they were. Returns true if so.
    pub(crate) fn await_given_back(
        &self,
        is_meant: impl Fn((&str, u32)) -> bool,
        patience: Duration,
    ) -> bool {
        let is_here = |requests: &mut Requests<T::Opened>| {
            let is_kept = |entry: &Entry<T::Opened>| {
                matches!(entry.stage, Stage::Taking(_) | Stage::Unwanted(_) | Stage::Leaving)
            };
            let mut given_up = requests.entries.iter().filter(|entry| entry.is_given_up && is_kept(entry));
            given_up.any(|entry| is_meant(entry.request.place()))
        };
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_here);
        let (mut requests, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !is_here(&mut requests)
    }

    /// Gives back an unwanted image; reopens it if it is wanted again.
    fn leave(&self, number: u64, opened: T::Opened) {
        if let Err(error) = self.source.give_back(&opened) {
            tracing::warn!(%error, "an image that is no longer needed stays locked");
        }
        drop(opened);
        let mut requests = self.lock();
        if let Some(at) = requests.entries.iter().position(|entry| entry.number == number) {
            if requests.entries[at].is_given_up {
                requests.entries.swap_remove(at);
            } else {
                requests.entries[at].stage = Stage::Queued;
            }
        }
        drop(requests);
        self.changed.notify_all();
    }

    /// Gives up all, and begins no others.
    pub(crate) fn end(self: &Arc<Self>) {
        let mut requests = self.lock();
        requests.has_ended = true;
        requests.entries.iter_mut().for_each(|entry| entry.holders = 0);
        drop(requests);
        self.keep(&[]);
    }

    fn lock(&self) -> MutexGuard<'_, Requests<T::Opened>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's work, until there is none.
    fn work(&self) {
        while let Some(step) = self.next_step() {
            match step {
                Step::Open(number, request) => self.put(number, self.open(number, &request)),
                Step::Take(number, opened) => {
                    self.put(number, Stage::Done(self.source.take(&opened).map(|()| opened)));
                }
                Step::Leave(number, opened) => self.leave(number, opened),
            }
        }
    }

    /// Opens an image, and locks it if its lock is free.
    fn open(&self, number: u64, request: &OpenRequest) -> Stage<T::Opened> {
        let opened = match self.source.open(request) {
            Ok(opened) => opened,
            Err(error) => return Stage::Done(Err(error)),
        };
        if request.early.is_some() {
            return Stage::Done(Ok(opened));
        }
        if let Some(owner) = self.source.owner(&opened) {
            return Stage::Owned(opened, Some(owner));
        }
        {
            let mut requests = self.lock();
            match requests.entries.iter_mut().find(|entry| entry.number == number) {
                Some(entry) if !entry.is_given_up => entry.stage = Stage::Taking(None),
                // An image that is no longer wanted is not locked: another client may want it.
                _ => return Stage::Owned(opened, None),
            }
        }
        Stage::Done(self.source.take(&opened).map(|()| opened))
    }

    /// The next thing to do. Others wait for what is to be given back; those that have an owner may keep a thread for long, and come
    /// last.
    fn next_step(&self) -> Option<Step<T::Opened>> {
        let mut requests = self.lock();
        for entry in &mut requests.entries {
            match std::mem::replace(&mut entry.stage, Stage::Leaving) {
                Stage::Unwanted(opened) => return Some(Step::Leave(entry.number, opened)),
                stage => entry.stage = stage,
            }
        }
        if let Some(entry) = requests.entries.iter_mut().find(|entry| matches!(entry.stage, Stage::Queued)) {
            entry.stage = Stage::Opening;
            return Some(Step::Open(entry.number, entry.request.clone()));
        }
        let owned = requests.entries.iter_mut().find(|entry| matches!(entry.stage, Stage::Owned(..)));
        let step = owned.and_then(|entry| match std::mem::replace(&mut entry.stage, Stage::Taking(None)) {
            Stage::Owned(opened, owner) => {
                entry.stage = Stage::Taking(owner);
                Some(Step::Take(entry.number, opened))
            }
            _ => None,
        });
        if step.is_none() {
            requests.threads -= 1;
        }
        step
    }

    /// Records the progress of a request; an unwanted image is given back.
    fn put(&self, number: u64, stage: Stage<T::Opened>) {
        let mut requests = self.lock();
        let at = requests.entries.iter().position(|entry| entry.number == number);
        // Holders of an early image wait for it. A notification would only cause a useless look at
        // all that is served.
        let is_early = at.is_some_and(|at| requests.entries[at].request.early.is_some());
        let is_news = matches!(stage, Stage::Done(_)) && !is_early;
        let gives_back = !requests.has_ended;
        let mut is_wanted = false;
        if let Some(at) = at {
            let entry = &mut requests.entries[at];
            (entry.stage, is_wanted) = (stage, !entry.is_given_up);
            if entry.is_given_up {
                entry.give_up(gives_back);
            }
        }
        let gone = take_given_up(&mut requests);
        drop(requests);
        self.changed.notify_all();
        drop(gone);
        if is_news && is_wanted {
            self.source.tell();
        }
    }
}

/// Removes entries that are not wanted, and that no thread works on or has to give back.
fn take_given_up<O>(requests: &mut Requests<O>) -> Vec<Entry<O>> {
    let is_busy = |stage: &Stage<O>| {
        matches!(stage, Stage::Opening | Stage::Taking(_) | Stage::Unwanted(_) | Stage::Leaving)
    };
    let is_gone = |entry: &mut Entry<O>| entry.is_given_up && !is_busy(&entry.stage);
    requests.entries.extract_if(.., is_gone).collect()
}

impl<O> Entry<O> {
    /// Marks the image as wanted, again or still.
    fn want(&mut self) {
        self.is_given_up = false;
        self.stage = match std::mem::replace(&mut self.stage, Stage::Queued) {
            Stage::Unwanted(opened) => Stage::Done(Ok(opened)),
            stage => stage,
        };
    }

    /// Marks the image as unwanted. If `gives_back`, its lock is given back; an image opened early
    /// has none.
    fn give_up(&mut self, gives_back: bool) {
        self.is_given_up = true;
        self.stage = match std::mem::replace(&mut self.stage, Stage::Queued) {
            Stage::Done(Ok(opened)) if gives_back && self.request.early.is_none() => Stage::Unwanted(opened),
            stage => stage,
        };
    }
}

/// Images of Ceph clusters.
#[derive(Debug)]
pub(crate) struct Images {
    pub(crate) clusters: Arc<Clusters>,
}

impl ImageSource for Images {
    type Opened = Backend;

    fn open(&self, request: &OpenRequest) -> Result<Backend, BackendError> {
        let (block_size, is_shared) = (request.block_size, request.is_shared);
        let is_standby = request.early.unwrap_or_default();
        let opening = Opening { is_shared, is_standby, ..Opening::alone(block_size, &self.clusters) };
        Backend::open(&request.backend, opening)
    }

    fn owner(&self, opened: &Backend) -> Option<String> {
        opened.lock_owner()
    }

    fn take(&self, opened: &Backend) -> Result<(), BackendError> {
        opened.set_standby(false)
    }

    fn give_back(&self, opened: &Backend) -> Result<(), BackendError> {
        opened.set_standby(true)
    }

    fn tell(&self) {
        self.clusters.news().tell();
    }
}

#[cfg(test)]
#[path = "opener_tests.rs"]
mod tests;
