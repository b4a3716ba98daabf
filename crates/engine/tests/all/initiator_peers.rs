//! A host that has lost one of several targets asks the others for it (Cross-Controller Reset), and sends a write again whose
//! answer it has not got as soon as one of them vouches for the lost one; however long its keep alive is.

use std::sync::{Arc, Mutex};

use crate::paths_lab::{Host, Link, options, slow_and_fast, start, start_with};
use engine::initiator::{IoPolicy, Paths};
use engine::target::{PeerReset, PeerResets, Target};

/// Without help hosts would wait three times as long, which is more than any test has patience for.
const KEEP_ALIVE_MS: u32 = 60_000;

/// Requests that the second target got.
type Taken = Arc<Mutex<Vec<PeerReset>>>;

/// Two targets over one file, of which the second takes wishes for the first, and nothing more.
struct Lab {
    first: Target,
    second: Target,
    taken: Taken,
    _folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocks");
        let (slow, fast) = slow_and_fast(&path, 500);
        let taken = Taken::default();
        let takes = taken.clone();
        let second = start_with(fast, |config| {
            config.peer_resets = Some(PeerResets(Arc::new(move |reset| {
                takes.lock().unwrap().push(reset);
                true
            })));
        });
        Self { first: start(slow), second, taken, _folder: folder }
    }

    /// A host that has begun a write through the first link, which has ended before the answer came; there is no way back.
    fn host_without_answer(&self, links: &[Link]) -> (Paths, Host) {
        let addresses: Vec<_> = links.iter().map(|link| link.address).collect();
        let mut options = options(&addresses);
        options.policy = IoPolicy::Numa;
        for path in &mut options.paths {
            path.keep_alive_ms = KEEP_ALIVE_MS;
        }
        let paths = Paths::connect(options).unwrap();
        let mut host = Host::new(&paths);
        host.begin_write(0, 1);
        links[0].cut();
        links[0].sever();
        host.until("the second target is asked", |_| !self.taken.lock().unwrap().is_empty());
        (paths, host)
    }
}

#[test]
fn who_is_vouched_for_is_waited_for_no_longer() {
    let lab = Lab::new();
    let links = [Link::to(lab.first.ports()[0]), Link::to(lab.second.ports()[0])];
    let (_paths, mut host) = lab.host_without_answer(&links);
    host.until("the first target has nothing left to do", |_| lab.first.status().controllers.is_empty());
    for _ in 0..20 {
        host.turn();
    }
    assert_eq!(host.carried(), [0, 0], "it is not sent again before the peer vouches");
    lab.taken.lock().unwrap().remove(0).end(true);
    assert!(host.completion().status.is_success());
    assert_eq!(host.carried(), [0, 1]);
}

/// The second target knows nothing, or says nothing. The first can still be reached by another way.
fn asks_on(answer: Option<bool>) {
    let lab = Lab::new();
    let [first, second] = [&lab.first, &lab.second].map(|target| target.ports()[0]);
    let links = [Link::to(first), Link::to(second), Link::to(first)];
    let (_paths, mut host) = lab.host_without_answer(&links);
    if let Some(is_at_rest) = answer {
        lab.taken.lock().unwrap().remove(0).end(is_at_rest);
    }
    assert!(host.completion().status.is_success(), "the first target vouches for itself");
}

#[test]
fn who_knows_nothing_is_not_the_last_to_be_asked() {
    asks_on(Some(false));
}

#[test]
fn who_says_nothing_is_not_the_last_to_be_asked() {
    asks_on(None);
}
