//! Every order in which threads wake a ring that records it.

use loom::sync::Arc as Shared;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::*;
use crate::sync::model;

#[test]
fn news_sent_before_a_wake_is_seen_after_it() {
    model(|| {
        let waker = Waker::new().unwrap();
        let news = Shared::new(AtomicUsize::new(0));
        let threads = [(); 2].map(|()| {
            let (waker, news) = (waker.clone(), news.clone());
            thread::spawn(move || {
                news.fetch_add(1, Ordering::Relaxed);
                waker.wake();
            })
        });
        // A load may see an old number; only what the waker orders keeps it from sleeping once too often.
        while news.load(Ordering::Relaxed) < 2 {
            waker.sleep();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
