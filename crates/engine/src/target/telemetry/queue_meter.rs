//! How far each I/O queue is: its reactor writes, anybody reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::counters::add;
use super::stage::STAGES;
use crate::target::lock::lock;

/// Counters of one I/O queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueMetrics {
    /// Queue identifier.
    pub queue_id: u16,
    /// Commands taken by queues with this identifier since the controller was made.
    pub commands: u64,
    /// Commands that were under way at the end of its last turn. What is answered at once is none of them.
    pub depth: u32,
    /// Time of successful commands in each stage, in nanoseconds.
    pub stages_ns: [u64; STAGES],
}

/// Counters that a queue updates after each of its turns. Written by its reactor alone.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct QueueMeter {
    /// Commands that queues with this identifier took before this one, and how long those were in each stage.
    before: (u64, [u64; STAGES]),
    commands: AtomicU64,
    stages_ns: [AtomicU64; STAGES],
    depth: AtomicU32,
    closed: AtomicBool,
}

impl QueueMeter {
    /// Records how many commands the queue has taken in all, and how many are under way.
    pub(crate) fn tell(&self, commands: u64, depth: usize) {
        self.commands.store(commands, Ordering::Relaxed);
        self.depth.store(depth as u32, Ordering::Relaxed);
    }

    /// Records how long one of its commands was in each stage.
    pub(crate) fn spent(&self, times_ns: &[u64; STAGES]) {
        let both = self.stages_ns.iter().zip(times_ns).filter(|(_, took_ns)| **took_ns > 0);
        both.for_each(|(sum, took_ns)| add(sum, *took_ns));
    }

    /// The queue has ended.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn commands(&self) -> u64 {
        self.before.0 + self.commands.load(Ordering::Relaxed)
    }

    fn stages_ns(&self) -> [u64; STAGES] {
        let mut sums = self.before.1;
        sums.iter_mut().zip(&self.stages_ns).for_each(|(sum, own)| *sum += own.load(Ordering::Relaxed));
        sums
    }
}

/// The meters of a controller's I/O queues. One that is connected again goes on counting where the former ended.
#[derive(Debug, Default)]
pub(crate) struct QueueMeters(Mutex<BTreeMap<u16, Arc<QueueMeter>>>);

impl QueueMeters {
    /// A meter for a new queue with this identifier.
    pub(crate) fn open(&self, queue_id: u16) -> Arc<QueueMeter> {
        let mut meters = lock(&self.0);
        let former = meters.get(&queue_id);
        let before = former.map(|former| (former.commands(), former.stages_ns())).unwrap_or_default();
        let meter = Arc::new(QueueMeter { before, ..QueueMeter::default() });
        meters.insert(queue_id, meter.clone());
        meter
    }

    /// The queues there are now.
    pub(crate) fn living(&self) -> Vec<QueueMetrics> {
        let meters = lock(&self.0);
        let living = meters.iter().filter(|(_, meter)| !meter.closed.load(Ordering::Relaxed));
        let metrics = living.map(|(queue_id, meter)| QueueMetrics {
            queue_id: *queue_id,
            commands: meter.commands(),
            depth: meter.depth.load(Ordering::Relaxed),
            stages_ns: meter.stages_ns(),
        });
        metrics.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_comes_again_goes_on_counting() {
        let meters = QueueMeters::default();
        let first = meters.open(3);
        first.tell(10, 2);
        first.spent(&[0, 7, 0, 100, 0]);
        let stages_ns = [0, 7, 0, 100, 0];
        assert_eq!(meters.living(), [QueueMetrics { queue_id: 3, commands: 10, depth: 2, stages_ns }]);
        first.close();
        assert_eq!(meters.living(), []);
        let next = meters.open(3);
        next.tell(5, 1);
        next.spent(&[1, 0, 0, 50, 0]);
        let stages_ns = [1, 7, 0, 150, 0];
        assert_eq!(meters.living(), [QueueMetrics { queue_id: 3, commands: 15, depth: 1, stages_ns }]);
    }
}
