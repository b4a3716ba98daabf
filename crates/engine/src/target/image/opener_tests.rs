//! Images that have owners, and threads that wait for them.

use prerequisite::patience;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::backend::RbdConfig;
use crate::target::lock::lock;

/// Images that have owners until those let go of them.
#[derive(Default)]
struct World {
    owners: Mutex<BTreeMap<String, String>>,
    changed: Condvar,
    open: AtomicUsize,
    opened: AtomicUsize,
    waiting: AtomicUsize,
    notified: AtomicUsize,
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
        let (waited, timeout) = self.0.changed.wait_timeout_while(owners, patience(), is_owned).unwrap();
        assert!(!timeout.timed_out());
        owners = waited;
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        owners.insert(opened.1.clone(), "this target".to_owned());
        Ok(())
    }

    fn give_back(&self, opened: &Open) -> Result<(), BackendError> {
        lock(&self.0.owners).remove(&opened.1);
        Ok(())
    }

    fn tell(&self) {
        self.0.notified.fetch_add(1, Ordering::SeqCst);
    }
}

impl World {
    fn owned_by_the_dead(names: &[&str]) -> Arc<Self> {
        let world = Self::default();
        lock(&world.owners)
            .extend(names.iter().map(|name| ((*name).to_owned(), "client.7 at 10.0.0.1".to_owned())));
        Arc::new(world)
    }

    /// Frees the locks of all other owners.
    fn free_all(&self) {
        lock(&self.owners).retain(|_, owner| owner == "this target");
        self.changed.notify_all();
    }

    fn wait_until(&self, mut is_so: impl FnMut(&BTreeMap<String, String>) -> bool) {
        let (_owners, timeout) =
            self.changed.wait_timeout_while(lock(&self.owners), patience(), |owners| !is_so(owners)).unwrap();
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
        encryption: None,
    });
    OpenRequest::of("nqn.2026-01.io.selvedge:a", &NamespaceConfig::new(nsid, backend, 4096), 0)
}

fn is_opened<O>(outcome: &Outcome<O>) -> bool {
    matches!(outcome, Outcome::Opened(_))
}

#[test]
fn images_without_an_owner_are_open_though_the_dead_have_many_others() {
    let names: Vec<String> = (0..3 * IMAGES_AT_A_TIME).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::owned_by_the_dead(&names);
    let opener = ImageOpener::new(Fake(world.clone()));
    let owned: Vec<OpenRequest> = (1..).zip(&names).map(|(nsid, name)| request(nsid, name)).collect();
    let free = [request(1000, "free"), request(1001, "missing")];
    opener.begin(&[&owned[..], &free[..]].concat());
    opener.wait(&free, patience());
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
    opener.wait(&owned, patience());
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
    opener.wait(&all, patience());
    assert!(opener.is_done(&all[0]));
    assert!(is_opened(&opener.outcome(&all[0])));
    assert_eq!(world.opened.load(Ordering::SeqCst), 1);
}

#[test]
fn what_was_taken_and_not_used_is_given_back_before_it_is_said_so() {
    let world = World::owned_by_the_dead(&[]);
    let opener = ImageOpener::new(Fake(world.clone()));
    let all = [request(1, "a")];
    opener.begin(&all);
    opener.wait(&all, patience());
    assert!(lock(&world.owners).contains_key("a"));
    opener.keep(&[]);
    assert!(opener.await_given_back(|(_, nsid)| nsid == 1, patience()));
    assert!(!lock(&world.owners).contains_key("a"), "others can take it");
    // Wanted once more, it is opened once more.
    opener.begin(&all);
    opener.wait(&all, patience());
    assert!(is_opened(&opener.outcome(&all[0])));
    assert_eq!(world.opened.load(Ordering::SeqCst), 2);
}

#[test]
fn what_is_given_up_is_given_back() {
    let world = World::owned_by_the_dead(&["a", "b"]);
    let opener = ImageOpener::new(Fake(world.clone()));
    let (kept, gone) = (request(1, "a"), request(2, "b"));
    opener.begin(&[kept.clone(), gone.clone()]);
    world.wait_until(|_| world.waiting.load(Ordering::SeqCst) == 2);
    opener.keep(std::slice::from_ref(&kept));
    // A thread works on it, so it is not opened a second time.
    assert!(opener.is_busy_with(&gone.backend).is_some());
    assert!(opener.await_given_back(|(_, nsid)| nsid == 1, Duration::ZERO), "that one is wanted");
    assert!(!opener.await_given_back(|(_, nsid)| nsid == 2, Duration::ZERO), "a thread takes it yet");
    world.free_all();
    assert!(opener.await_given_back(|(_, nsid)| nsid == 2, patience()));
    assert!(!lock(&world.owners).contains_key("b"), "others can take it");
    opener.wait(&[kept.clone(), gone.clone()], patience());
    world.wait_until(|owners| owners.contains_key("a") && !owners.contains_key("b"));
    assert!(matches!(opener.outcome(&gone), Outcome::Unknown));
    assert!(is_opened(&opener.outcome(&kept)));
}

#[test]
fn what_is_opened_early_is_not_taken_and_stays_as_long_as_it_is_held() {
    let world = World::owned_by_the_dead(&["a", "b"]);
    let opener = ImageOpener::new(Fake(world.clone()));
    let all = [request(1, "a").early(false), request(2, "b").early(true)];
    opener.hold(&all);
    opener.hold(&all[1..]);
    opener.wait(&all, patience());
    assert!(all.iter().all(|request| opener.is_opened(request)), "though the dead have their locks");
    assert_eq!(world.notified.load(Ordering::SeqCst), 0, "its holders wait for it");
    opener.keep(&[]);
    assert!(is_opened(&opener.outcome(&all[0])), "no configuration has it yet");
    opener.release(&all);
    assert!(opener.is_opened(&all[1]), "another one waits for it");
    opener.release(&all[1..]);
    assert!(matches!(opener.outcome(&all[1]), Outcome::Unknown));
    world.wait_until(|owners| owners.len() == 2 && world.open.load(Ordering::SeqCst) == 0);
    opener.hold(&all);
    opener.end();
    opener.release(&all);
    world.wait_until(|_| world.open.load(Ordering::SeqCst) == 0);
}

#[test]
fn nothing_is_kept_after_the_end() {
    let world = World::owned_by_the_dead(&["a"]);
    let opener = ImageOpener::new(Fake(world.clone()));
    let all = [request(1, "a"), request(2, "free")];
    opener.begin(&all);
    opener.wait(&all[1..], patience());
    world.wait_until(|_| world.waiting.load(Ordering::SeqCst) == 1);
    opener.end();
    opener.begin(&[request(3, "late")]);
    world.free_all();
    opener.wait(&all, patience());
    world.wait_until(|owners| owners.is_empty() && world.open.load(Ordering::SeqCst) == 0);
    assert_eq!(world.opened.load(Ordering::SeqCst), 2);
    assert!(matches!(opener.outcome(&all[0]), Outcome::Unknown));
}
