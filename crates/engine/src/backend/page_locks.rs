//! Locks of a memory's pages: any number of readers, or one writer. A lock is never waited for: a
//! caller that does not get a page learns it, and comes again. The content of pages is the
//! memory's.
//!
//! The lock of a page is a byte, eight of them a word, so that one step locks up to 32 KiB. A lock
//! is held for one copy, one send call or one receive call of what has come already, never from one
//! turn of a reactor to the next: those who come again find it free, however slow a host is.

use std::ops::Range;
use std::time::Duration;

use crate::limits::WRITERS_FIRST_US;
use crate::ring::Moment;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Eight pages' locks.
pub(super) type Word = AtomicU64;
/// Pages of a word.
pub(super) const PAGES_PER_WORD: u64 = 8;
/// Words of a memory's locks: its pages take turns with them, which costs two who use pages 1 GiB apart at the same moment
/// another try. Models use a few pages, and loom keeps an account of each word.
pub(super) const WORDS: usize = if cfg!(all(test, feature = "loom")) { 1 } else { 1 << 15 };
const PAGES: u64 = WORDS as u64 * PAGES_PER_WORD;

/// Bit of a page's byte: it is being written.
const WRITTEN: u64 = 0x80;
/// A writer did not get it, since it was read. The next reader lets the writer go first.
const WANTED: u64 = 0x40;
/// As many read it as may: the count below must not run over.
const CROWDED: u64 = 0x20;
/// Number of readers.
const READERS: u64 = 0x3f;

/// The locks of a memory's pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLocks<'a>(&'a [Word; WORDS]);

/// The bytes of pages `from..to` of a word, each with `bits`.
const fn bytes_of(bits: u64, pages: &Range<u64>) -> u64 {
    let all = bits * 0x0101_0101_0101_0101;
    let (from, length) = (8 * pages.start, 8 * (pages.end - pages.start));
    (all >> (64 - length)) << from
}

impl<'a> PageLocks<'a> {
    pub(super) const fn new(words: &'a [Word; WORDS]) -> Self {
        Self(words)
    }

    /// Takes the pages from the first on to be read, up to one that is being written; how many it has taken. Who `insists`
    /// has let a writer go first already.
    pub(super) fn read(self, pages: Range<u64>, insists: bool) -> u64 {
        let hindrance = if insists { WRITTEN | CROWDED } else { WRITTEN | CROWDED | WANTED };
        // The writer that wanted it may never come back: a connection that ends forgets its
        // commands.
        let forgotten = if insists { WANTED } else { 0 };
        self.take(pages, hindrance, |word, taken| (word & !bytes_of(forgotten, taken)) + bytes_of(1, taken))
    }

    /// Gives pages back that were taken to be read.
    pub(super) fn end_read(self, pages: Range<u64>) {
        for (word, pages) in self.words(pages) {
            word.fetch_sub(bytes_of(1, &pages), Ordering::Release);
        }
    }

    /// Takes the pages from the first on to be written, up to one in use; returns the number taken.
    pub(super) fn write(self, pages: Range<u64>) -> u64 {
        let taken = self.take(pages.clone(), WRITTEN | READERS, |word, taken| {
            (word & !bytes_of(WANTED, taken)) | bytes_of(WRITTEN, taken)
        });
        if taken < pages.end - pages.start {
            let wanted = pages.start + taken;
            for (word, pages) in self.words(wanted..wanted + 1) {
                word.fetch_or(bytes_of(WANTED, &pages), Ordering::Relaxed);
            }
        }
        taken
    }

    /// Gives pages back that were taken to be written.
    pub(super) fn end_write(self, pages: Range<u64>) {
        for (word, pages) in self.words(pages) {
            word.fetch_and(!bytes_of(WRITTEN, &pages), Ordering::Release);
        }
    }

    /// The word with this page's lock.
    pub(super) const fn word_of(self, page: u64) -> &'a Word {
        &self.0[(page % PAGES / PAGES_PER_WORD) as usize]
    }

    /// Changes the words of the pages from the first on as `taking` says, up to a page with one of the bits of `hindrance`.
    fn take(self, pages: Range<u64>, hindrance: u64, taking: impl Fn(u64, &Range<u64>) -> u64) -> u64 {
        let mut count = 0;
        for (word, wanted) in self.words(pages) {
            let mut before = word.load(Ordering::Relaxed);
            let taken = loop {
                let hindered = before & bytes_of(hindrance, &wanted);
                let end = if hindered == 0 { wanted.end } else { u64::from(hindered.trailing_zeros()) / 8 };
                let taken = wanted.start..end;
                if taken.is_empty() {
                    break taken;
                }
                let after = taking(before, &taken);
                match word.compare_exchange_weak(before, after, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => break taken,
                    Err(now) => before = now,
                }
            };
            count += taken.end - taken.start;
            if taken.end < wanted.end {
                break;
            }
        }
        count
    }

    /// The words of these pages, each with those of its own pages that are meant.
    fn words(self, pages: Range<u64>) -> impl Iterator<Item = (&'a Word, Range<u64>)> {
        let mut next = pages.start;
        std::iter::from_fn(move || {
            if next >= pages.end {
                return None;
            }
            let from = next % PAGES_PER_WORD;
            let to = PAGES_PER_WORD.min(from + (pages.end - next));
            let word = self.word_of(next);
            next += to - from;
            Some((word, from..to))
        })
    }
}

/// Time for which a command has let other users of the same pages go first: since when some of its
/// pages have been in use. It waits for nothing: its owner asks for another turn, and tries again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience(Option<Moment>);

impl Patience {
    /// True if others have gone first for long enough.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.0.is_some_and(|since| now.since(since) >= Duration::from_micros(WRITERS_FIRST_US))
    }

    /// A turn has ended, after which pages are still in others' hands or not.
    pub(crate) fn settle(&mut self, is_waiting: bool, now: Moment) {
        self.0 = if is_waiting { self.0.or(Some(now)) } else { None };
    }
}

#[cfg(all(test, feature = "loom"))]
mod races;

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::thread;

    use super::*;

    fn words() -> Box<[AtomicU64; WORDS]> {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        words.into_boxed_slice().try_into().expect("as many as there should be")
    }

    fn all_free(words: &[AtomicU64; WORDS]) -> bool {
        words.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    #[test]
    fn readers_share_pages_and_a_writer_has_them_alone() {
        let words = words();
        let locks = PageLocks::new(&words);
        for pages in [0..1, 5..8, 3..21, PAGES - 2..PAGES + 3] {
            let count = pages.end - pages.start;
            assert_eq!((locks.read(pages.clone(), false), locks.read(pages.clone(), false)), (count, count));
            assert_eq!(locks.write(pages.clone()), 0);
            locks.end_read(pages.clone());
            assert_eq!(locks.write(pages.clone()), 0, "one reader is left");
            locks.end_read(pages.clone());
            assert_eq!(locks.write(pages.clone()), count);
            assert_eq!((locks.write(pages.clone()), locks.read(pages.clone(), true)), (0, 0));
            locks.end_write(pages.clone());
            assert_eq!(locks.write(pages.clone()), count);
            locks.end_write(pages.clone());
            // The try in between has left word that it wants the page.
            assert_eq!(locks.read(pages.clone(), true), count);
            locks.end_read(pages);
            assert!(all_free(&words));
        }
    }

    #[test]
    fn what_is_free_before_a_page_in_use_is_taken() {
        let words = words();
        let locks = PageLocks::new(&words);
        for busy in 4..20 {
            assert_eq!(locks.write(busy..busy + 1), 1);
            assert_eq!(locks.read(3..21, false), busy - 3);
            locks.end_read(3..busy);
            assert_eq!(locks.write(3..21), busy - 3);
            locks.end_write(3..busy);
            locks.end_write(busy..busy + 1);
            assert_eq!(locks.read(3..21, true), 18);
            assert_eq!(locks.write(0..32), 3, "up to what is read");
            locks.end_write(0..3);
            locks.end_read(3..21);
            assert_eq!(locks.write(0..32), 32);
            locks.end_write(0..32);
            assert!(all_free(&words));
        }
    }

    #[test]
    fn a_writer_that_waits_comes_before_readers_who_have_not_waited() {
        let words = words();
        let locks = PageLocks::new(&words);
        assert_eq!(locks.read(0..4, false), 4);
        assert_eq!(locks.write(2..3), 0);
        assert_eq!(locks.read(0..4, false), 2, "the third is wanted");
        locks.end_read(0..2);
        assert_eq!(locks.read(0..4, true), 4, "a reader that has waited need not do so again");
        locks.end_read(0..4);
        assert_eq!(locks.write(2..3), 0);
        locks.end_read(0..4);
        assert_eq!(locks.write(2..3), 1);
        locks.end_write(2..3);
        assert!(all_free(&words), "nothing is left of having waited");
    }

    #[test]
    fn many_readers_do_not_run_over() {
        let words = words();
        let locks = PageLocks::new(&words);
        let read = (0..1000).take_while(|_| locks.read(7..9, true) == 2).count();
        assert_eq!(read as u64, CROWDED);
        assert_eq!(words[0].load(Ordering::Relaxed), CROWDED << 56, "the neighbours are as they were");
        (0..read).for_each(|_| locks.end_read(7..9));
        assert!(all_free(&words));
    }

    #[test]
    fn threads_never_meet_in_a_page_that_one_writes() {
        const PAGES_USED: u64 = 24;
        const TURNS: usize = if cfg!(miri) { 20 } else { 30_000 };
        let words = words();
        let locks = PageLocks::new(&words);
        // What is in the pages: how many read each, or that it is written.
        let users: Vec<AtomicU32> = (0..PAGES_USED).map(|_| AtomicU32::new(0)).collect();
        let writes = AtomicBool::new(false);
        let work = |seed: u64| {
            let mut random = seed;
            for _ in 0..TURNS {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let start = (random >> 33) % PAGES_USED;
                let pages = start..PAGES_USED.min(start + 1 + (random >> 50) % 12);
                if random >> 60 == 0 {
                    let taken = start..start + locks.write(pages);
                    for page in taken.clone() {
                        assert_eq!(users[page as usize].swap(u32::MAX, Ordering::Relaxed), 0);
                        writes.store(true, Ordering::Relaxed);
                    }
                    taken.clone().for_each(|page| users[page as usize].store(0, Ordering::Relaxed));
                    locks.end_write(taken);
                } else {
                    let taken = start..start + locks.read(pages, random >> 59 & 1 == 0);
                    for page in taken.clone() {
                        assert!(
                            users[page as usize].fetch_add(1, Ordering::Relaxed) < 4,
                            "it is not being written"
                        );
                    }
                    for page in taken.clone() {
                        users[page as usize].fetch_sub(1, Ordering::Relaxed);
                    }
                    locks.end_read(taken);
                }
            }
        };
        thread::scope(|scope| (1..=4).for_each(|seed| drop(scope.spawn(move || work(seed << 20)))));
        assert!(writes.into_inner());
        let left = words[..4].iter().map(|word| word.load(Ordering::Relaxed));
        assert!(left.into_iter().all(|word| word & !bytes_of(WANTED, &(0..8)) == 0));
    }
}
