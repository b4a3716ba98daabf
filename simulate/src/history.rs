//! What hosts did and saw, block by block, and whether it could be: each read has to return what some order of the writes
//! explains, what was synchronized has to survive, and no write may take effect after its end.
//!
//! Hosts keep off a block while somebody's write of it has not ended, as whoever shares a disk does. So a block's writes
//! come one after the other, and a value is known by its place among them.

use std::collections::BTreeMap;

use engine::ring::Moment;
use engine::simulation::{self, disk::Effect};
use nvme::Status;

use crate::block;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    /// It was answered.
    Answered(Status),
    /// Nobody will answer it, and it may go on until this moment.
    Lost { rest: Moment },
    /// No queue took it.
    NotSent,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It has not.
    Pending,
    /// Well, as the so many-th event of the history.
    Done { event: u64, durable: bool },
    /// In a way that leaves open whether it happened.
    Unknown,
}

#[derive(Clone, Debug)]
struct Write {
    mark: u64,
    ending: Ending,
    /// A sync that failed may have lost it, so that a later one does not keep it.
    may_be_lost: bool,
}

impl Write {
    const fn new(mark: u64, ending: Ending) -> Self {
        Self { mark, ending, may_be_lost: false }
    }
}

#[derive(Clone, Debug)]
struct Block {
    writes: Vec<Write>,
    /// No read that begins now may see an older write than this.
    floor: usize,
    /// Nobody else writes it before that.
    busy_until: Option<Moment>,
    is_written: bool,
}

/// A read that has begun: what it may see at the earliest, block by block.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    era: u64,
    floors: Vec<usize>,
}

/// All that happened on one volume.
#[derive(Debug)]
pub(crate) struct History {
    block_size: usize,
    blocks: Vec<Block>,
    events: u64,
    /// Everything that had ended by this event was synchronized.
    synchronized: u64,
    era: u64,
    last_mark: u64,
    /// Writes up to this one began before the last power loss.
    old_marks: u64,
    /// When a write was told to have ended.
    ended: BTreeMap<u64, Moment>,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    pub(crate) failed: u64,
}

impl History {
    pub(crate) fn new(blocks: usize, block_size: usize) -> Self {
        let first = Write::new(0, Ending::Done { event: 0, durable: true });
        let block = Block { writes: vec![first], floor: 0, busy_until: None, is_written: false };
        Self {
            block_size,
            blocks: vec![block; blocks],
            events: 1,
            synchronized: 0,
            era: 0,
            last_mark: 0,
            old_marks: 0,
            ended: BTreeMap::new(),
            reads: 0,
            writes: 0,
            flushes: 0,
            failed: 0,
        }
    }

    pub(crate) fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The volume has become larger.
    pub(crate) fn grow(&mut self, blocks: usize) {
        let first = Write::new(0, Ending::Done { event: 0, durable: true });
        let block = Block { writes: vec![first], floor: 0, busy_until: None, is_written: false };
        self.blocks.resize(blocks.max(self.blocks.len()), block);
    }

    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    fn range(start: u64, count: u64) -> std::ops::Range<usize> {
        start as usize..(start + count) as usize
    }

    /// Whether these blocks may be written now.
    pub(crate) fn is_free(&self, start: u64, count: u64, now: Moment) -> bool {
        self.blocks[Self::range(start, count)]
            .iter()
            .all(|block| !block.is_written && block.busy_until.is_none_or(|until| until <= now))
    }

    /// The name of a write that is not to happen.
    pub(crate) fn name(&mut self) -> u64 {
        self.last_mark += 1;
        self.last_mark
    }

    /// A write begins: its mark. Zeroes have the mark 0, and a name all the same.
    pub(crate) fn begin_write(&mut self, start: u64, count: u64, zeroes: bool) -> u64 {
        self.last_mark += 1;
        let mark = if zeroes { 0 } else { self.last_mark };
        for block in &mut self.blocks[Self::range(start, count)] {
            block.is_written = true;
            block.writes.push(Write::new(mark, Ending::Pending));
        }
        self.last_mark
    }

    /// A write has ended.
    pub(crate) fn end_write(&mut self, (start, count): (u64, u64), name: u64, durable: bool, end: WriteEnd) {
        let now = simulation::now();
        let event = self.event();
        let ending = match end {
            // What began before a power loss may have been answered before it, too, and be lost since.
            WriteEnd::Answered(status) if status.is_success() && name > self.old_marks => {
                Ending::Done { event, durable }
            }
            _ => Ending::Unknown,
        };
        self.writes += 1;
        self.failed += u64::from(ending == Ending::Unknown);
        if let WriteEnd::Answered(_) = end {
            self.ended.insert(name, now);
        }
        for block in &mut self.blocks[Self::range(start, count)] {
            block.is_written = false;
            if let WriteEnd::Lost { rest } = end {
                block.busy_until = Some(rest);
            }
            let Some(at) = block.writes.iter().rposition(|write| write.ending == Ending::Pending) else {
                continue;
            };
            block.writes[at].ending = ending;
            if ending != Ending::Unknown {
                block.floor = block.floor.max(at);
            }
        }
    }

    pub(crate) fn begin_read(&self, start: u64, count: u64) -> Look {
        let floors = self.blocks[Self::range(start, count)].iter().map(|block| block.floor).collect();
        Look { era: self.era, floors }
    }

    /// A read has ended well, with this data.
    pub(crate) fn end_read(&mut self, start: u64, look: &Look, data: &[u8]) {
        self.reads += 1;
        self.event();
        for (at, data) in data.chunks_exact(self.block_size).enumerate() {
            let number = start + at as u64;
            let mark = match block::read(data, number) {
                Ok(mark) => mark,
                Err(damage) => {
                    return simulation::fail(format!("a read of block {number} returned {damage:?}"));
                }
            };
            if look.era != self.era {
                continue;
            }
            let block = &mut self.blocks[number as usize];
            let seen = (look.floors[at]..block.writes.len()).find(|at| block.writes[*at].mark == mark);
            match seen {
                Some(seen) => block.floor = block.floor.max(seen),
                None => {
                    let was = block.writes.iter().rposition(|write| write.mark == mark);
                    let (oldest, newest) = (&block.writes[look.floors[at]], block.writes.last());
                    return simulation::fail(format!(
                        "a read of block {number} returned write {mark} (its {was:?}-th), and should have returned \
                         {oldest:?} (its {}-th) or a newer one up to {newest:?}",
                        look.floors[at]
                    ));
                }
            }
        }
    }

    /// A flush begins: its name.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.event()
    }

    /// A flush has ended well.
    pub(crate) fn end_flush(&mut self, name: u64, era: u64) {
        self.flushes += 1;
        self.event();
        if era == self.era {
            self.synchronized = self.synchronized.max(name);
        }
    }

    pub(crate) const fn era(&self) -> u64 {
        self.era
    }

    /// Somebody goes on with a storage that has failed to synchronize: of what was not synchronized before, no later sync
    /// keeps anything that is lost.
    pub(crate) fn may_have_lost(&mut self) {
        let synchronized = self.synchronized;
        for write in self.blocks.iter_mut().flat_map(|block| &mut block.writes) {
            let was_kept = matches!(write.ending, Ending::Done { event, .. } if event < synchronized);
            write.may_be_lost |= !was_kept;
        }
    }

    /// The storage has lost its power, and holds this now.
    pub(crate) fn lose_power(&mut self, content: &[u8]) {
        self.era += 1;
        self.old_marks = self.last_mark;
        for (number, data) in content.chunks_exact(self.block_size).enumerate().take(self.blocks.len()) {
            let mark = match block::read(data, number as u64) {
                Ok(mark) => mark,
                Err(damage) => {
                    return simulation::fail(format!("after a power loss block {number} is {damage:?}"));
                }
            };
            let block = &mut self.blocks[number];
            let is_durable = |write: &Write| match write.ending {
                Ending::Done { event, durable } => durable || !write.may_be_lost && event < self.synchronized,
                _ => false,
            };
            let least = block.writes.iter().rposition(is_durable).unwrap_or(0);
            let Some(kept) = (least..block.writes.len()).rev().find(|at| block.writes[*at].mark == mark)
            else {
                let lost = &block.writes[least];
                return simulation::fail(format!(
                    "after a power loss block {number} holds write {mark}, older than {lost:?}, which was synchronized"
                ));
            };
            let pending =
                block.writes[kept + 1..].iter().find(|write| write.ending == Ending::Pending).cloned();
            block.writes.truncate(kept + 1);
            if block.writes[kept].ending != Ending::Pending {
                block.writes[kept].ending = Ending::Done { event: 0, durable: true };
            }
            block.writes.extend(pending);
            block.floor = kept;
        }
    }

    /// Looks whether a write has taken effect after it had ended.
    pub(crate) fn check_effects(&self, effects: &[Effect]) {
        for effect in effects.iter().filter(|effect| effect.mark != 0) {
            if let Some(ended) = self.ended.get(&effect.mark)
                && effect.at > *ended
            {
                return simulation::fail(format!(
                    "write {} took effect at {:.6} s, after its end at {:.6} s was told",
                    effect.mark,
                    effect.at.0 as f64 / 1e9,
                    ended.0 as f64 / 1e9
                ));
            }
        }
    }

    /// Checks that the volume holds what it should, once nothing is under way.
    pub(crate) fn check_content(&mut self, content: &[u8]) {
        let look = self.begin_read(0, self.block_count());
        let length = self.blocks.len() * self.block_size;
        if content.len() < length {
            return simulation::fail(format!("the volume has {} bytes instead of {length}", content.len()));
        }
        self.end_read(0, &look, &content[..length]);
    }
}
