//! Every order in which threads take pages of one word, and what they find in them.

use loom::sync::Arc as Shared;
use loom::thread;

use super::*;
use crate::sync::{SharedCell, model};

/// Pages in use, each with a number in it.
const USED: usize = 3;

struct Memory {
    words: [Word; WORDS],
    pages: [SharedCell; USED],
}

impl Memory {
    fn new() -> Shared<Self> {
        let pages = [(); USED].map(|()| SharedCell::new());
        Shared::new(Self { words: [Word::new(0)], pages })
    }

    /// Writes what it gets of these pages; how many.
    fn write(&self, pages: Range<u64>, value: u64) -> u64 {
        let locks = PageLocks::new(&self.words);
        let taken = pages.start..pages.start + locks.write(pages);
        for page in taken.clone() {
            self.pages[page as usize].write(value);
        }
        let count = taken.end - taken.start;
        locks.end_write(taken);
        count
    }

    /// Reads what it gets of these pages.
    fn read(&self, pages: Range<u64>, insists: bool) -> Vec<u64> {
        let locks = PageLocks::new(&self.words);
        let taken = pages.start..pages.start + locks.read(pages, insists);
        let values = taken.clone().map(|page| self.pages[page as usize].read()).collect();
        locks.end_read(taken);
        values
    }

    /// True if no page is in use.
    fn is_free(&self) -> bool {
        self.words[0].load(Ordering::Relaxed) & !bytes_of(WANTED, &(0..PAGES_PER_WORD)) == 0
    }
}

#[test]
fn a_page_that_is_written_has_no_other_user() {
    model(|| {
        let memory = Memory::new();
        let (one, two) = (memory.clone(), memory.clone());
        let one = thread::spawn(move || one.write(0..2, 1));
        let two = thread::spawn(move || two.write(1..3, 2));
        let values = memory.read(0..3, false);
        assert!(values.iter().zip([[0, 1, 1], [0, 1, 2], [0, 2, 2]]).all(|(value, of)| of.contains(value)));
        let written = one.join().unwrap() + two.join().unwrap();
        assert!(memory.is_free(), "{written} pages were written, and one is still taken");
    });
}

#[test]
fn a_reader_who_has_waited_and_a_writer_both_come_to_their_page() {
    model(|| {
        let memory = Memory::new();
        let other = memory.clone();
        let writer = thread::spawn(move || {
            while other.write(1..2, 1) == 0 {
                thread::yield_now();
            }
        });
        if memory.read(1..2, false).is_empty() {
            while memory.read(1..2, true).is_empty() {
                thread::yield_now();
            }
        }
        writer.join().unwrap();
        assert_eq!(memory.read(1..2, true), [1]);
        assert!(memory.is_free());
    });
}
