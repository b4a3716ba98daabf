//! What hosts did and saw, block by block, and whether it could be: each read has to return what some order of the writes
//! explains, what was synchronized has to survive, and no write may take effect after its end.
//!
//! Hosts avoid a block while another host's write of it has not ended, as users of a shared disk
//! do. So a block's writes come one after the other, and a value is known by its place among them.
//! The users of one disk need not avoid each other: their writes of a block may be under way
//! together, and then any of them may be the last, but only one of them.

use std::collections::BTreeMap;

use engine::ring::Moment;
use engine::simulation::{self, disk::Effect};
use nvme::Status;

use crate::block;

/// End of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    /// The host has its status.
    Answered(Status),
    /// The write gets no answer, and may take effect until this moment.
    Lost { rest: Moment },
    /// No queue took it.
    NotSent,
}

/// State of a write's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The write is under way.
    Pending,
    /// Well, as the so many-th event of the history.
    Done { event: u64, durable: bool },
    /// In a way that leaves open whether it happened.
    Unknown,
    /// In the same way, at a storage that may be later than anybody promised: it may happen until another write of the block has
    /// been answered, which the target begins behind it.
    Late,
}

#[derive(Clone, Debug)]
struct Write {
    mark: u64,
    name: u64,
    /// Index of the last write that had ended when this one began.
    since: usize,
    /// Others of the same disk may be under way together with it.
    shares: bool,
    ending: Ending,
    /// A sync that failed may have lost it, so that a later one does not keep it.
    may_be_lost: bool,
    /// Since this event it has been known that another one is the block's last.
    gone: Option<u64>,
}

#[derive(Clone, Debug)]
struct Block {
    writes: Vec<Write>,
    /// No read that begins now may see an older write than this.
    floor: usize,
    /// Time until which other writes of it are not begun.
    busy_until: Option<Moment>,
    /// Writes under way, and how many of them may be so together.
    pending: usize,
    sharing: usize,
}

impl Block {
    fn new() -> Self {
        let ending = Ending::Done { event: 0, durable: true };
        let first =
            Write { mark: 0, name: 0, since: 0, shares: false, ending, may_be_lost: false, gone: None };
        Self { writes: vec![first], floor: 0, busy_until: None, pending: 0, sharing: 0 }
    }

    fn first_pending(&self) -> Option<usize> {
        // None is older than the floor, and a long scene has very many of these.
        let left = self.writes[self.floor..].iter();
        left.enumerate().find_map(|(at, write)| (write.ending == Ending::Pending).then_some(self.floor + at))
    }

    /// The number of its writes, if none is under way.
    fn writes_at_rest(&self, now: Moment) -> Option<usize> {
        let rests = self.pending == 0 && self.busy_until.is_none_or(|until| until <= now);
        rests.then_some(self.writes.len())
    }

    /// True if a write without a waiting host may yet take effect.
    fn may_change(&self) -> bool {
        self.writes[self.floor..].iter().any(|write| write.ending == Ending::Late)
    }
}

/// A read that has begun: what it may see, block by block.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    era: u64,
    event: u64,
    blocks: Vec<BlockLook>,
}

/// Values that a read may see of a block.
#[derive(Clone, Copy, Debug)]
struct BlockLook {
    /// At the earliest.
    floor: usize,
    /// The writes that there were, if none of them was under way.
    at_rest: Option<usize>,
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
    /// True if the storage may take longer than targets promise.
    is_late: bool,
    /// Times of reported ends, by write.
    ended: BTreeMap<u64, Moment>,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    pub(crate) failed: u64,
}

impl History {
    pub(crate) fn new(blocks: usize, block_size: usize) -> Self {
        Self {
            block_size,
            blocks: vec![Block::new(); blocks],
            events: 1,
            synchronized: 0,
            era: 0,
            last_mark: 0,
            old_marks: 0,
            is_late: false,
            ended: BTreeMap::new(),
            reads: 0,
            writes: 0,
            flushes: 0,
            failed: 0,
        }
    }

    /// The same on a storage that may take longer than targets promise.
    pub(crate) fn of_late_storage(self, is_late: bool) -> Self {
        Self { is_late, ..self }
    }

    pub(crate) fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The volume has become larger.
    pub(crate) fn grow(&mut self, blocks: usize) {
        self.blocks.resize(blocks.max(self.blocks.len()), Block::new());
    }

    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    fn range(start: u64, count: u64) -> std::ops::Range<usize> {
        start as usize..(start + count) as usize
    }

    /// True if these blocks may be written now.
    pub(crate) fn is_free(&self, start: u64, count: u64, now: Moment) -> bool {
        self.blocks[Self::range(start, count)].iter().all(|block| block.writes_at_rest(now).is_some())
    }

    /// True if the disk's users may write these blocks now, where others of them may do so.
    pub(crate) fn is_free_but_for_sharers(&self, start: u64, count: u64, now: Moment) -> bool {
        let may = |block: &Block| {
            block.pending == block.sharing && block.busy_until.is_none_or(|until| until <= now)
        };
        self.blocks[Self::range(start, count)].iter().all(may)
    }

    /// The name of a write that is not to happen.
    pub(crate) fn name(&mut self) -> u64 {
        self.last_mark += 1;
        self.last_mark
    }

    /// A write begins: its mark. Zeroes have the mark 0, and a name all the same.
    pub(crate) fn begin_write(&mut self, start: u64, count: u64, zeroes: bool) -> u64 {
        self.begin(start, count, zeroes, false)
    }

    /// The same of one that others of its disk may be under way with.
    pub(crate) fn begin_shared_write(&mut self, start: u64, count: u64, zeroes: bool) -> u64 {
        self.begin(start, count, zeroes, true)
    }

    fn begin(&mut self, start: u64, count: u64, zeroes: bool, shares: bool) -> u64 {
        self.last_mark += 1;
        let name = self.last_mark;
        let mark = if zeroes { 0 } else { name };
        for block in &mut self.blocks[Self::range(start, count)] {
            let first_pending = (block.pending > 0).then(|| block.first_pending()).flatten();
            let since = first_pending.unwrap_or(block.writes.len());
            block.pending += 1;
            block.sharing += usize::from(shares);
            let ending = Ending::Pending;
            block.writes.push(Write { mark, name, since, shares, ending, may_be_lost: false, gone: None });
        }
        name
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
            // Also where it was answered that it has failed: it was not waited for any longer.
            _ if self.is_late => Ending::Late,
            _ => Ending::Unknown,
        };
        let is_done = matches!(ending, Ending::Done { .. });
        self.writes += 1;
        self.failed += u64::from(!is_done);
        if matches!(end, WriteEnd::Answered(_)) && ending != Ending::Late {
            self.ended.insert(name, now);
        }
        for block in &mut self.blocks[Self::range(start, count)] {
            if let WriteEnd::Lost { rest } = end {
                block.busy_until = Some(rest);
            }
            let is_it = |write: &Write| write.name == name && write.ending == Ending::Pending;
            let Some(at) = block.writes.iter().rposition(is_it) else { continue };
            block.pending -= 1;
            block.sharing -= usize::from(block.writes[at].shares);
            block.writes[at].ending = ending;
            if is_done {
                block.floor = block.floor.max(block.writes[at].since);
            }
        }
    }

    pub(crate) fn begin_read(&self, start: u64, count: u64) -> Look {
        let now = simulation::now();
        let at_rest = |block: &Block| block.writes_at_rest(now).filter(|_| !block.may_change());
        let look = |block: &Block| BlockLook { floor: block.floor, at_rest: at_rest(block) };
        let blocks = self.blocks[Self::range(start, count)].iter().map(look).collect();
        Look { era: self.era, event: self.events, blocks }
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
            let event = self.events;
            let block = &mut self.blocks[number as usize];
            // While none is under way a block has one value, whatever the reads before this one have seen.
            let rests = look.blocks[at].at_rest == Some(block.writes.len()) && block.pending == 0;
            let floor = if rests { block.floor } else { look.blocks[at].floor };
            let may_be = |write: &Write| {
                write.mark == mark && write.gone.is_none_or(|gone| !rests && gone > look.event)
            };
            let may_be = |at: &usize| may_be(&block.writes[*at]);
            let Some(seen) = (floor..block.writes.len()).find(may_be) else {
                let was = block.writes.iter().rposition(|write| write.mark == mark);
                let (oldest, newest) = (&block.writes[floor], block.writes.last());
                return simulation::fail(format!(
                    "a read of block {number} returned write {mark} (its {was:?}-th), and should have returned \
                     {oldest:?} (its {floor}-th) or a newer one up to {newest:?}",
                ));
            };
            block.floor = block.floor.max(block.writes[seen].since);
            if rests {
                block.floor = seen;
                let others = block.writes[seen..].iter_mut().filter(|write| write.mark != mark);
                others.for_each(|write| write.gone = write.gone.or(Some(event)));
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

    /// Records that the storage is used again after it has failed to synchronize: no later sync
    /// saves lost writes that were not synchronized before.
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
            let is_durable = |write: &&Write| match write.ending {
                Ending::Done { event, durable } => durable || !write.may_be_lost && event < self.synchronized,
                _ => false,
            };
            let durable = block.writes.iter().filter(is_durable);
            let least = durable.map(|write| write.since).max().unwrap_or(0);
            let Some(kept) = (least..block.writes.len()).rev().find(|at| block.writes[*at].mark == mark)
            else {
                let lost = &block.writes[least];
                return simulation::fail(format!(
                    "after a power loss block {number} holds write {mark}, older than {lost:?}, which was synchronized"
                ));
            };
            let pending: Vec<Write> =
                block.writes.drain(kept + 1..).filter(|write| write.ending == Ending::Pending).collect();
            if block.writes[kept].ending != Ending::Pending {
                block.writes[kept].ending = Ending::Done { event: 0, durable: true };
            }
            block.writes.extend(pending);
            for write in &mut block.writes {
                (write.gone, write.since) = (None, write.since.min(kept + 1));
            }
            block.floor = 0;
            block.floor = kept.min(block.first_pending().unwrap_or(kept));
        }
    }

    /// Looks whether a write has taken effect after it had ended.
    pub(crate) fn check_effects(&self, effects: &[Effect]) {
        for effect in effects.iter().filter(|effect| effect.mark != 0) {
            if let Some(ended) = self.ended.get(&effect.mark)
                && effect.at > *ended
            {
                return simulation::fail(format!(
                    "write {} took effect at {:.6} s, after its end was reported at {:.6} s",
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::simulation::{Options, run};

    use super::*;

    const SIZE: usize = 512;

    fn options() -> Options {
        Options { seed: 1, limit: Duration::from_secs(1), traces: false, judge: None }
    }

    /// Fault in a history of one block.
    fn fault(what: impl FnOnce(&mut History) + 'static) -> Option<String> {
        run(options(), move || what(&mut History::new(1, SIZE))).failure
    }

    fn see(history: &mut History, look: &Look, mark: u64) {
        let mut data = [0; SIZE];
        if mark > 0 {
            block::fill(&mut data, SIZE, 0, mark);
        }
        history.end_read(0, look, &data);
    }

    fn end(history: &mut History, name: u64) {
        history.end_write((0, 1), name, false, WriteEnd::Answered(Status::SUCCESS));
    }

    /// Two writes that were under way together, and have ended.
    fn two(history: &mut History) -> [u64; 2] {
        let names = [(); 2].map(|()| history.begin_shared_write(0, 1, false));
        names.iter().rev().for_each(|name| end(history, *name));
        names
    }

    #[test]
    fn a_lost_write_may_come_late_where_the_storage_may() {
        let lost = |is_late: bool, is_answered: bool| {
            run(options(), move || {
                let mut history = History::new(1, SIZE).of_late_storage(is_late);
                let name = history.begin_write(0, 1, false);
                let rest = simulation::now();
                history.end_write((0, 1), name, false, WriteEnd::Lost { rest });
                let look = history.begin_read(0, 1);
                see(&mut history, &look, 0);
                if is_answered {
                    let next = history.begin_write(0, 1, false);
                    end(&mut history, next);
                }
                let look = history.begin_read(0, 1);
                see(&mut history, &look, name);
            })
            .failure
        };
        assert_eq!(lost(true, false), None);
        assert!(lost(false, false).is_some(), "all had ended");
        assert!(lost(true, true).is_some(), "the next one was answered, and it came behind that");
    }

    #[test]
    fn either_of_two_that_were_under_way_together_is_the_last() {
        let fault = |which: usize| {
            fault(move |history| {
                let names = two(history);
                let looks = [(); 2].map(|()| history.begin_read(0, 1));
                looks.iter().for_each(|look| see(history, look, names.get(which).copied().unwrap_or(0)));
            })
        };
        assert_eq!((fault(0), fault(1)), (None, None));
        assert!(fault(2).is_some(), "what was there before");
    }

    #[test]
    fn it_does_not_change_when_both_have_ended() {
        for which in 0..2 {
            let fault = fault(move |history| {
                let names = two(history);
                let looks = [(); 2].map(|()| history.begin_read(0, 1));
                see(history, &looks[0], names[which]);
                see(history, &looks[1], names[1 - which]);
            });
            assert!(fault.is_some());
        }
        // What a read saw that began before is not known to be wrong.
        let fault = fault(|history| {
            let names = [(); 2].map(|()| history.begin_shared_write(0, 1, false));
            let early = history.begin_read(0, 1);
            names.iter().for_each(|name| end(history, *name));
            let look = history.begin_read(0, 1);
            see(history, &look, names[1]);
            see(history, &early, names[0]);
        });
        assert_eq!(fault, None);
    }

    #[test]
    fn one_that_began_after_all_others_had_ended_is_newer() {
        let fault = |which: usize| {
            fault(move |history| {
                let old = two(history);
                let new = [history.begin_shared_write(0, 1, false), history.begin_shared_write(0, 1, false)];
                end(history, new[0]);
                let look = history.begin_read(0, 1);
                see(history, &look, [old, new].concat()[which]);
            })
        };
        assert!((0..2).all(|which| fault(which).is_some()));
        assert!((2..4).all(|which| fault(which).is_none()));
    }

    #[test]
    fn a_power_loss_leaves_what_is_durable_or_was_under_way_with_it() {
        let fault = |which: usize| {
            fault(move |history| {
                let names = [(); 2].map(|()| history.begin_shared_write(0, 1, false));
                end(history, names[0]);
                history.end_write((0, 1), names[1], true, WriteEnd::Answered(Status::SUCCESS));
                let mut content = [0; SIZE];
                if let Some(name) = names.get(which) {
                    block::fill(&mut content, SIZE, 0, *name);
                }
                history.lose_power(&content);
                let look = history.begin_read(0, 1);
                see(history, &look, names.get(which).copied().unwrap_or(0));
            })
        };
        assert_eq!((fault(0), fault(1)), (None, None));
        assert!(fault(2).is_some());
    }
}
