//! Images that are being opened and locked beside each other, on threads of their own, so that who waits for one, say until a
//! dead target's lock is over, keeps nobody else. Which are wanted, and what becomes of them then, is `preparation`'s.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, thread};

use crate::backend::{Backend, BackendConfig, BackendError, Clusters, Opening};
use crate::limits::IMAGES_AT_A_TIME;
use crate::ring::Vital;
use crate::target::config::NamespaceConfig;
use crate::target::lock::lock;

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
        }
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
    Done(Result<O, BackendError>),
}

#[derive(Debug)]
struct Entry<O> {
    number: u64,
    request: OpenRequest,
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
}

/// The images that are being opened.
pub(crate) struct ImageOpener<T: ImageSource> {
    source: T,
    requests: Mutex<Requests<T::Opened>>,
    changed: Condvar,
}

impl<T: ImageSource> fmt::Debug for ImageOpener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageOpener")
            .field("count", &lock(&self.requests).entries.len())
            .finish_non_exhaustive()
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
        let mut requests = lock(&self.requests);
        if requests.has_ended {
            return;
        }
        for request in all {
            if let Some(entry) = requests.entries.iter_mut().find(|entry| entry.request == *request) {
                entry.is_given_up = false;
                continue;
            }
            let (number, request) = (requests.next_number, request.clone());
            requests.next_number += 1;
            requests.entries.push(Entry { number, request, is_given_up: false, stage: Stage::Queued });
        }
        let queued = requests.entries.iter().filter(|entry| matches!(entry.stage, Stage::Queued)).count();
        for _ in 0..queued.min(IMAGES_AT_A_TIME.saturating_sub(requests.threads)) {
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

    /// Waits until all of these are done, for `patience` at most.
    pub(crate) fn wait(&self, all: &[OpenRequest], patience: Duration) {
        let is_under_way = |requests: &mut Requests<T::Opened>| {
            let mut entries = requests.entries.iter();
            entries.any(|entry| !matches!(entry.stage, Stage::Done(_)) && all.contains(&entry.request))
        };
        let waited = self.changed.wait_timeout_while(lock(&self.requests), patience, is_under_way);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// What became of one; what is done is handed over.
    pub(crate) fn outcome(&self, request: &OpenRequest) -> Outcome<T::Opened> {
        let mut requests = lock(&self.requests);
        let Some(at) = requests.entries.iter().position(|entry| entry.request == *request) else {
            return Outcome::Unknown;
        };
        match &requests.entries[at].stage {
            Stage::Queued | Stage::Opening => Outcome::Pending(None),
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
        let requests = lock(&self.requests);
        requests
            .entries
            .iter()
            .any(|entry| entry.request == *request && matches!(entry.stage, Stage::Done(Ok(_))))
    }

    /// Whether it is done, well or not.
    pub(crate) fn is_done(&self, request: &OpenRequest) -> bool {
        let requests = lock(&self.requests);
        requests
            .entries
            .iter()
            .any(|entry| entry.request == *request && matches!(entry.stage, Stage::Done(_)))
    }

    /// Whether a thread is with this image, and who has it as far as is known: opening it beside that would be a second time.
    pub(crate) fn is_busy_with(&self, backend: &BackendConfig) -> Option<Option<String>> {
        let requests = lock(&self.requests);
        requests.entries.iter().filter(|entry| entry.request.backend.is_same_place(backend)).find_map(
            |entry| match &entry.stage {
                Stage::Opening => Some(None),
                Stage::Taking(owner) => Some(owner.clone()),
                _ => None,
            },
        )
    }

    /// Gives up all but these.
    pub(crate) fn keep(&self, all: &[OpenRequest]) {
        let mut requests = lock(&self.requests);
        let mut gone = Vec::new();
        for mut entry in std::mem::take(&mut requests.entries) {
            entry.is_given_up = !all.iter().any(|request| entry.request.is_covered_by(request));
            if entry.is_given_up && !matches!(entry.stage, Stage::Opening | Stage::Taking(_)) {
                gone.push(entry);
            } else {
                requests.entries.push(entry);
            }
        }
        drop(requests);
        self.changed.notify_all();
    }

    /// Gives up all, and begins no others.
    pub(crate) fn end(&self) {
        lock(&self.requests).has_ended = true;
        self.keep(&[]);
    }

    /// A thread's work, until there is none.
    fn work(&self) {
        while let Some(step) = self.next_step() {
            let (number, stage) = match step {
                Step::Open(number, request) => (number, self.open(number, &request)),
                Step::Take(number, opened) => {
                    (number, Stage::Done(self.source.take(&opened).map(|()| opened)))
                }
            };
            self.put(number, stage);
        }
    }

    /// Opens one, and takes it if nobody has it.
    fn open(&self, number: u64, request: &OpenRequest) -> Stage<T::Opened> {
        let opened = match self.source.open(request) {
            Ok(opened) => opened,
            Err(error) => return Stage::Done(Err(error)),
        };
        if let Some(owner) = self.source.owner(&opened) {
            return Stage::Owned(opened, Some(owner));
        }
        {
            let mut requests = lock(&self.requests);
            match requests.entries.iter_mut().find(|entry| entry.number == number) {
                Some(entry) if !entry.is_given_up => entry.stage = Stage::Taking(None),
                // Nobody must lose it to one that no longer wants it.
                _ => return Stage::Owned(opened, None),
            }
        }
        Stage::Done(self.source.take(&opened).map(|()| opened))
    }

    /// The next thing to do. Those that have an owner may keep a thread for long, and come last.
    fn next_step(&self) -> Option<Step<T::Opened>> {
        let mut requests = lock(&self.requests);
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
        let is_done = matches!(stage, Stage::Done(_));
        let mut requests = lock(&self.requests);
        let at = requests.entries.iter().position(|entry| entry.number == number);
        let gone = match at {
            Some(at) if !requests.entries[at].is_given_up => {
                requests.entries[at].stage = stage;
                None
            }
            Some(at) => Some((requests.entries.swap_remove(at), stage)),
            None => None,
        };
        drop(requests);
        self.changed.notify_all();
        let is_wanted = gone.is_none();
        drop(gone);
        if is_done && is_wanted {
            self.source.tell();
        }
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
        let opening = Opening { is_shared, ..Opening::alone(block_size, &self.clusters) };
        Backend::open(&request.backend, opening)
    }

    fn owner(&self, opened: &Backend) -> Option<String> {
        opened.lock_owner()
    }

    fn take(&self, opened: &Backend) -> Result<(), BackendError> {
        opened.set_standby(false)
    }

    fn tell(&self) {
        #[cfg(not(feature = "simulation"))]
        self.clusters.news().tell();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::backend::RbdConfig;

    const LONG: Duration = Duration::from_secs(60);

    /// Images that have owners until those let go of them.
    #[derive(Default)]
    struct World {
        owners: Mutex<BTreeMap<String, String>>,
        changed: Condvar,
        open: AtomicUsize,
        opened: AtomicUsize,
        waiting: AtomicUsize,
        told: AtomicUsize,
    }

    #[derive(Clone)]
    struct Fake(Arc<World>);

    /// An open one.
    struct Open(Arc<World>, String);

    impl Drop for Open {
        fn drop(&mut self) {
            self.0.open.fetch_sub(1, Ordering::SeqCst);
            let mut owners = lock(&self.0.owners);
            if owners.get(&self.1).is_some_and(|owner| owner == "this target") {
                owners.remove(&self.1);
            }
            drop(owners);
            self.0.changed.notify_all();
        }
    }

    impl ImageSource for Fake {
        type Opened = Open;

        fn open(&self, request: &OpenRequest) -> Result<Open, BackendError> {
            let BackendConfig::Rbd(RbdConfig { image, .. }) = &request.backend else { panic!("{request:?}") };
            if image == "missing" {
                return Err(BackendError::NotHere { what: "this one" });
            }
            self.0.open.fetch_add(1, Ordering::SeqCst);
            self.0.opened.fetch_add(1, Ordering::SeqCst);
            Ok(Open(self.0.clone(), image.clone()))
        }

        fn owner(&self, opened: &Open) -> Option<String> {
            lock(&self.0.owners).get(&opened.1).cloned()
        }

        fn take(&self, opened: &Open) -> Result<(), BackendError> {
            let mut owners = lock(&self.0.owners);
            self.0.waiting.fetch_add(1, Ordering::SeqCst);
            self.0.changed.notify_all();
            let is_owned = |owners: &mut BTreeMap<String, String>| owners.contains_key(&opened.1);
            let (waited, timeout) = self.0.changed.wait_timeout_while(owners, LONG, is_owned).unwrap();
            assert!(!timeout.timed_out());
            owners = waited;
            self.0.waiting.fetch_sub(1, Ordering::SeqCst);
            owners.insert(opened.1.clone(), "this target".to_owned());
            Ok(())
        }

        fn tell(&self) {
            self.0.told.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl World {
        fn owned_by_the_dead(names: &[&str]) -> Arc<Self> {
            let world = Self::default();
            lock(&world.owners)
                .extend(names.iter().map(|name| ((*name).to_owned(), "client.7 at 10.0.0.1".to_owned())));
            Arc::new(world)
        }

        /// Nobody else has any of them from now on.
        fn free_all(&self) {
            lock(&self.owners).retain(|_, owner| owner == "this target");
            self.changed.notify_all();
        }

        fn wait_until(&self, mut is_so: impl FnMut(&BTreeMap<String, String>) -> bool) {
            let (_owners, timeout) =
                self.changed.wait_timeout_while(lock(&self.owners), LONG, |owners| !is_so(owners)).unwrap();
            assert!(!timeout.timed_out());
        }
    }

    fn request(nsid: u32, image: &str) -> OpenRequest {
        let backend = BackendConfig::Rbd(RbdConfig {
            pool: "rbd".to_owned(),
            namespace: String::new(),
            image: image.to_owned(),
            snapshot: None,
            conf: None,
            id: None,
        });
        OpenRequest::of("nqn.2026-01.io.selvedge:a", &NamespaceConfig::new(nsid, backend, 4096), 0)
    }

    fn is_opened<O>(outcome: &Outcome<O>) -> bool {
        matches!(outcome, Outcome::Opened(_))
    }

    #[test]
    fn what_nobody_has_is_open_though_the_dead_have_many_others() {
        let names: Vec<String> = (0..3 * IMAGES_AT_A_TIME).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let world = World::owned_by_the_dead(&names);
        let opener = ImageOpener::new(Fake(world.clone()));
        let owned: Vec<OpenRequest> = (1..).zip(&names).map(|(nsid, name)| request(nsid, name)).collect();
        let free = [request(1000, "free"), request(1001, "missing")];
        opener.begin(&[&owned[..], &free[..]].concat());
        opener.wait(&free, LONG);
        assert!(is_opened(&opener.outcome(&free[0])));
        assert!(matches!(opener.outcome(&free[1]), Outcome::Failed(_)));
        assert!(matches!(opener.outcome(&free[1]), Outcome::Unknown));
        opener.wait(&owned, Duration::ZERO);
        world.wait_until(|_| world.waiting.load(Ordering::SeqCst) == IMAGES_AT_A_TIME);
        for request in &owned {
            let owner = Some("client.7 at 10.0.0.1".to_owned());
            assert!(matches!(opener.outcome(request), Outcome::Pending(of) if of == owner));
        }
        world.free_all();
        opener.wait(&owned, LONG);
        assert!(owned.iter().all(|request| is_opened(&opener.outcome(request))));
    }

    #[test]
    fn what_is_asked_for_again_is_opened_once() {
        let world = World::owned_by_the_dead(&["a"]);
        let opener = ImageOpener::new(Fake(world.clone()));
        let all = [request(1, "a")];
        opener.begin(&all);
        world.wait_until(|_| world.waiting.load(Ordering::SeqCst) == 1);
        opener.begin(&all);
        assert!(opener.is_busy_with(&all[0].backend).is_some());
        assert!(opener.is_busy_with(&request(1, "b").backend).is_none());
        // Given up, and wanted again before the lock is free.
        opener.keep(&[]);
        opener.begin(&all);
        world.free_all();
        opener.wait(&all, LONG);
        assert!(opener.is_done(&all[0]));
        assert!(is_opened(&opener.outcome(&all[0])));
        assert_eq!(world.opened.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_is_given_up_is_given_back() {
        let world = World::owned_by_the_dead(&["a", "b"]);
        let opener = ImageOpener::new(Fake(world.clone()));
        let (kept, gone) = (request(1, "a"), request(2, "b"));
        opener.begin(&[kept.clone(), gone.clone()]);
        world.wait_until(|_| world.waiting.load(Ordering::SeqCst) == 2);
        opener.keep(std::slice::from_ref(&kept));
        // A thread is with it, so that nobody opens it beside that.
        assert!(opener.is_busy_with(&gone.backend).is_some());
        world.free_all();
        opener.wait(&[kept.clone(), gone.clone()], LONG);
        world.wait_until(|owners| owners.contains_key("a") && !owners.contains_key("b"));
        assert!(matches!(opener.outcome(&gone), Outcome::Unknown));
        assert!(is_opened(&opener.outcome(&kept)));
    }

    #[test]
    fn nothing_is_kept_after_the_end() {
        let world = World::owned_by_the_dead(&["a"]);
        let opener = ImageOpener::new(Fake(world.clone()));
        let all = [request(1, "a"), request(2, "free")];
        opener.begin(&all);
        opener.wait(&all[1..], LONG);
        world.wait_until(|_| world.waiting.load(Ordering::SeqCst) == 1);
        opener.end();
        opener.begin(&[request(3, "late")]);
        world.free_all();
        opener.wait(&all, LONG);
        world.wait_until(|owners| owners.is_empty() && world.open.load(Ordering::SeqCst) == 0);
        assert_eq!(world.opened.load(Ordering::SeqCst), 2);
        assert!(matches!(opener.outcome(&all[0]), Outcome::Unknown));
    }
}
