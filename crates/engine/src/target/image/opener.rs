//! Images that are being opened and locked beside each other, on threads of their own, so that who waits for one, say until a
//! dead target's lock is over, keeps nobody else. Which are wanted, and what becomes of them then, is `preparation`'s.

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
    nqn: String,
    nsid: u32,
    backend: BackendConfig,
    block_size: u32,
    is_shared: bool,
    opening: u64,
    /// Whether the namespace has the image open, and is to have it on another connection.
    is_anew: bool,
    /// Whether it is opened before its configuration is put into effect, and taken only then, if at all: with whether it is to stand
    /// by.
    early: Option<bool>,
}

impl OpenRequest {
    /// What a namespace of the subsystem with this name wants, in this opening of images.
    pub(crate) fn of(nqn: &str, config: &NamespaceConfig, opening: u64) -> Self {
        Self {
            nqn: nqn.to_owned(),
            nsid: config.nsid,
            backend: config.backend.clone(),
            block_size: config.block_size,
            is_shared: config.shared_storage,
            opening,
            is_anew: false,
            early: None,
        }
    }

    /// The same, which is only opened.
    pub(crate) const fn early(mut self, is_standby: bool) -> Self {
        self.early = Some(is_standby);
        self
    }

    /// The same on another connection than that on which it is open.
    pub(crate) const fn anew(mut self) -> Self {
        self.is_anew = true;
        self
    }

    /// The namespace that wants it, by its subsystem's name and its identifier.
    pub(crate) fn place(&self) -> (&str, u32) {
        (&self.nqn, self.nsid)
    }

    fn is_covered_by(&self, other: &Self) -> bool {
        *self == Self { is_anew: self.is_anew, ..other.clone() }
    }
}

/// How images are opened. Each call may take as long as a cluster does.
pub(crate) trait ImageSource: Send + Sync + 'static {
    /// What is open. Dropping it gives it back.
    type Opened: Send + 'static;

    /// Opens it, and takes nothing.
    fn open(&self, request: &OpenRequest) -> Result<Self::Opened, BackendError>;

    /// Who has it now, if somebody has.
    fn owner(&self, opened: &Self::Opened) -> Option<String>;

    /// Takes it for this target.
    fn take(&self, opened: &Self::Opened) -> Result<(), BackendError>;

    /// Lets others take it, which dropping it does only some time later.
    fn give_back(&self, opened: &Self::Opened) -> Result<(), BackendError>;

    /// One more is done, which whoever can use it may want to know.
    fn tell(&self);
}

/// What became of an opening until now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome<O, E = BackendError> {
    /// It is open, and this target's.
    Opened(O),
    /// It is not available. It can be begun again.
    Failed(E),
    /// It is under way, and waits for this owner of its lock, as far as is known.
    Pending(Option<String>),
    /// It was not begun.
    Unknown,
}

#[derive(Debug)]
enum Stage<O> {
    Queued,
    /// A thread opens it.
    Opening,
    /// It is open, and has an owner: those without come first.
    Owned(O, Option<String>),
    /// A thread takes it, from this owner if it has one.
    Taking(Option<String>),
    /// It was taken, and nobody wants it any longer: it is to be given back before others can be told so.
    Unwanted(O),
    /// A thread gives it back.
    Leaving,
    Done(Result<O, BackendError>),
}

#[derive(Debug)]
struct Entry<O> {
    number: u64,
    request: OpenRequest,
    /// How many wait for it, whatever configuration is in effect.
    holders: usize,
    /// Whether nobody wants it now; a thread that opens it is not notified, and gives it back when it is open.
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

/// What a thread is to do next.
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

    /// The same for somebody who gives them up later, whatever is in effect then.
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

    /// What became of one; what is done is handed over.
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

    /// Whether it is open, and this target's.
    pub(crate) fn is_opened(&self, request: &OpenRequest) -> bool {
        let requests = self.lock();
        requests
            .entries
            .iter()
            .any(|entry| entry.request == *request && matches!(entry.stage, Stage::Done(Ok(_))))
    }

    /// Whether it was begun, and is neither done nor handed over.
    pub(crate) fn is_under_way(&self, request: &OpenRequest) -> bool {
        let requests = self.lock();
        let mut entries = requests.entries.iter();
        entries.any(|entry| entry.request == *request && !matches!(entry.stage, Stage::Done(_)))
    }

    /// Whether it is done, well or not.
    pub(crate) fn is_done(&self, request: &OpenRequest) -> bool {
        let requests = self.lock();
        requests
            .entries
            .iter()
            .any(|entry| entry.request == *request && matches!(entry.stage, Stage::Done(_)))
    }

    /// Whether a thread is with this image, and who has it as far as is known: opening it beside that would be a second time.
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
        // Whoever ends waits for nothing: the end of a connection frees its locks.
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

    /// Waits until those of these places that nobody wants any longer are not taken, and are given back if they were, for `patience` at
    /// most; whether they are.
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

    /// Gives back what nobody wants; it is opened anew where that is no longer so.
    fn leave(&self, number: u64, opened: T::Opened) {
        if let Err(error) = self.source.give_back(&opened) {
            tracing::warn!(%error, "an image that nobody wants stays locked");
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

    /// Opens one, and takes it if nobody has it.
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
                // Nobody must lose it to one that no longer wants it.
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

    /// Notes how far one is; what nobody wants now is given back.
    fn put(&self, number: u64, stage: Stage<T::Opened>) {
        let mut requests = self.lock();
        let at = requests.entries.iter().position(|entry| entry.number == number);
        // What was opened early is awaited by its holders. Who is told would look at all that is served, and find nothing new.
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

/// What nobody wants, and no thread is with or is to be.
fn take_given_up<O>(requests: &mut Requests<O>) -> Vec<Entry<O>> {
    let is_busy = |stage: &Stage<O>| {
        matches!(stage, Stage::Opening | Stage::Taking(_) | Stage::Unwanted(_) | Stage::Leaving)
    };
    let is_gone = |entry: &mut Entry<O>| entry.is_given_up && !is_busy(&entry.stage);
    requests.entries.extract_if(.., is_gone).collect()
}

impl<O> Entry<O> {
    /// Somebody wants it, again or still.
    fn want(&mut self) {
        self.is_given_up = false;
        self.stage = match std::mem::replace(&mut self.stage, Stage::Queued) {
            Stage::Unwanted(opened) => Stage::Done(Ok(opened)),
            stage => stage,
        };
    }

    /// Nobody does. What was taken for it is given back, where `gives_back`: what was opened early was not.
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
