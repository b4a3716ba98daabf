//! What a queue has done, counted by its reactor alone and read by anybody: no shared write per command.
//! Sums over queues are made when somebody asks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one I/O queue. Only the queue's reactor writes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct QueueCounters {
    read_commands: AtomicU64,
    write_commands: AtomicU64,
    read_bytes: AtomicU64,
    write_bytes: AtomicU64,
    media_errors: AtomicU64,
}

/// A sum of counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) read_commands: u64,
    pub(super) write_commands: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) media_errors: u64,
}

/// A load and a store, not a read-modify-write: there is one writer.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

impl QueueCounters {
    pub(super) fn read(&self, bytes: u64) {
        add(&self.read_commands, 1);
        add(&self.read_bytes, bytes);
    }

    pub(super) fn wrote(&self, bytes: u64) {
        add(&self.write_commands, 1);
        add(&self.write_bytes, bytes);
    }

    pub(super) fn media_error(&self) {
        add(&self.media_errors, 1);
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            read_commands: self.read_commands.load(Ordering::Relaxed),
            write_commands: self.write_commands.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            write_bytes: self.write_bytes.load(Ordering::Relaxed),
            media_errors: self.media_errors.load(Ordering::Relaxed),
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.read_commands += other.read_commands;
        self.write_commands += other.write_commands;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.media_errors += other.media_errors;
    }
}
