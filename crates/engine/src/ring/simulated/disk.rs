//! Disks: files that a power loss takes back to what was synchronized, with some of what was not, and that can be slow, full,
//! fail, or move fewer bytes than asked. A block is written as a whole or not at all; nothing more is promised. Who may open
//! them belongs to the backend, and what a call that moved a part has to be followed by is the ring's.

mod claims;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub(super) use claims::release;
pub use claims::{Hold, forget, inherit};

use super::scheduler::{self, ProcessId, What, World, with};
use crate::ring::transfer::Transfer;
use crate::ring::{Buffer, Moment, StorageOp};

/// Shortest and longest time until the rest of a transfer that was cut short is moved, in microseconds.
const REST_US: (u64, u64) = (5, 100);

/// Behaviour of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mood {
    /// Shortest and longest time until an operation takes effect, in microseconds.
    pub delay_us: (u64, u64),
    /// Of a thousand operations, this many fail.
    pub failures: u64,
    /// Set if every write fails for lack of room.
    pub is_full: bool,
    /// Of a thousand syncs, this many lose what they were to make durable. It is still read until
    /// the power is lost; and each opening of the file gets the error once, from its next sync, as
    /// on Linux.
    pub lossy_syncs: u64,
    /// Of a thousand calls that could move several blocks, this many move some of them only.
    pub short_moves: u64,
    /// Blocks for which there is room in places that nothing was written to; deallocated ones are such again. `None` for as
    /// many as there are.
    pub room_blocks: Option<u64>,
    /// Set if a rewritten block takes another place, and the old one is free after the next sync.
    pub copies_on_write: bool,
    /// Of a thousand operations, this many take as long as `late_us` says.
    pub late: u64,
    /// Shortest and longest time of those, in microseconds.
    pub late_us: (u64, u64),
}

impl Default for Mood {
    fn default() -> Self {
        Self {
            delay_us: (20, 400),
            failures: 0,
            is_full: false,
            lossy_syncs: 0,
            short_moves: 0,
            room_blocks: None,
            copies_on_write: false,
            late: 0,
            late_us: (0, 0),
        }
    }
}

/// A write that has taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Time of the effect.
    pub at: Moment,
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The first eight bytes of what was written, 0 where a range was zeroed.
    pub mark: u64,
}

/// An operation, and how long it has been at the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Process of the operation.
    pub process: ProcessId,
    /// Time since its beginning.
    pub took: Duration,
    /// Set if it only makes durable what is there.
    pub is_sync: bool,
    /// Set while it is there.
    pub is_pending: bool,
}

#[derive(Debug)]
struct DiskFile {
    path: PathBuf,
    block_size: usize,
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Of blocks that differ, all they have held since they were synchronized, with the writes' numbers.
    versions: BTreeMap<usize, Vec<(u64, Vec<u8>)>>,
    writes: u64,
    mood: Mood,
    /// Blocks that have a place.
    placed: Vec<bool>,
    /// Places that are free after the next sync.
    left_places: u64,
    /// Set once operations can have been late.
    was_late: bool,
    stays: Vec<Stay>,
    exclusive: usize,
    shared: usize,
    effects: Vec<Effect>,
    /// Number of losses.
    losses: u64,
}

#[derive(Debug)]
struct Operation {
    ring: usize,
    process: ProcessId,
    token: u64,
    file: usize,
    operation: StorageOp,
    begun: Moment,
    transfer: Transfer,
    result: Option<io::Result<usize>>,
    /// Set if no other process may open the file meanwhile.
    is_alone: bool,
    /// Writes up to this one were there when it began.
    began_after: u64,
    /// Losses that were reported to its opening of the file.
    reported: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
pub(super) struct Disks {
    files: Vec<DiskFile>,
    /// Holds that processes have from others: whose, and on which file.
    inherited: Vec<(ProcessId, Hold)>,
    operations: Vec<Option<Operation>>,
    free: Vec<usize>,
    /// Mood of new files.
    usual: Mood,
}

/// An open file.
#[derive(Debug)]
pub struct Storage {
    pub(super) file: usize,
    is_shared: bool,
    write_delay_ms: AtomicU32,
    /// The losses that were there when it was opened, or that a sync has reported since.
    reported: Arc<AtomicU64>,
}

impl Storage {
    /// Opens the file, which has `size` bytes if it is new; `None` if another process has it.
    pub(crate) fn open(path: &Path, size: u64, block_size: u32, is_shared: bool) -> Option<Self> {
        let file = with(|world| {
            let process = world.running();
            world.disks.open(path, (size as usize, block_size as usize), is_shared, process)
        })?;
        let losses = with(|world| world.disks.files[file].losses);
        let reported = Arc::new(AtomicU64::new(losses));
        Some(Self { file, is_shared, write_delay_ms: AtomicU32::new(0), reported })
    }

    /// Opens the same file once more, for a process that has it open.
    pub(crate) fn reopen(&self) -> Self {
        let losses = with(|world| {
            let file = &mut world.disks.files[self.file];
            *(if self.is_shared { &mut file.shared } else { &mut file.exclusive }) += 1;
            file.losses
        });
        let (is_shared, reported) = (self.is_shared, Arc::new(AtomicU64::new(losses)));
        Self { file: self.file, is_shared, write_delay_ms: AtomicU32::new(0), reported }
    }

    /// Holds each write that begins from now on back for this number of milliseconds.
    pub fn set_write_delay_ms(&self, write_delay_ms: u32) {
        self.write_delay_ms.store(write_delay_ms, Ordering::Relaxed);
    }

    pub(crate) fn length(&self) -> u64 {
        with(|world| world.disks.files[self.file].content.len() as u64)
    }

    pub(crate) fn resize(&self, size: u64) {
        with(|world| world.disks.resize(self.file, size as usize));
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        scheduler::with_if(|world| world.disks.count(self.file, self.is_shared, false));
    }
}

impl Disks {
    fn open(
        &mut self,
        path: &Path,
        (size, block_size): (usize, usize),
        is_shared: bool,
        process: Option<ProcessId>,
    ) -> Option<usize> {
        let known = self.files.iter().position(|file| file.path == path);
        let number = known.unwrap_or_else(|| {
            self.files.push(DiskFile {
                path: path.to_owned(),
                block_size,
                content: vec![0; size],
                durable: vec![0; size],
                versions: BTreeMap::new(),
                writes: 0,
                mood: self.usual,
                placed: vec![false; size / block_size],
                left_places: 0,
                was_late: false,
                stays: Vec::new(),
                exclusive: 0,
                shared: 0,
                effects: Vec::new(),
                losses: 0,
            });
            self.files.len() - 1
        });
        // What a killed process has begun keeps the file open, and with it the lock.
        let is_kept =
            self.operations.iter().flatten().any(|operation| {
                operation.file == number && operation.is_alone && operation.result.is_none()
            });
        let is_claimed = self.is_claimed(process, number);
        let file = &mut self.files[number];
        if is_claimed {
            // It goes by the hold of the old process.
        } else if is_kept || file.exclusive > 0 || (!is_shared && file.shared > 0) {
            return None;
        }
        *(if is_shared { &mut file.shared } else { &mut file.exclusive }) += 1;
        Some(number)
    }

    fn resize(&mut self, number: usize, size: usize) {
        let file = &mut self.files[number];
        // A size is durable at once: its owner synchronizes the file before it says so.
        file.content.resize(size, 0);
        file.durable.resize(size, 0);
        let blocks = size / file.block_size;
        file.placed.resize(blocks, false);
        file.versions.retain(|block, _| *block < blocks);
    }

    fn find(&mut self, path: &Path) -> Option<&mut DiskFile> {
        self.files.iter_mut().find(|file| file.path == path)
    }
}

impl DiskFile {
    /// Writes whole blocks, from `data` or zeroes.
    fn write(&mut self, at: Moment, offset: usize, length: usize, data: Option<&[u8]>, durable: bool) {
        self.writes += 1;
        let mark = data.and_then(|data| data.first_chunk()).map_or(0, |first| u64::from_le_bytes(*first));
        self.effects.push(Effect { at, offset: offset as u64, length: length as u64, mark });
        let size = self.block_size;
        for start in (0..length).step_by(size) {
            let to = offset + start..offset + start + size;
            match data {
                Some(data) => self.content[to.clone()].copy_from_slice(&data[start..start + size]),
                None => self.content[to.clone()].fill(0),
            }
            let block = to.start / size;
            if durable {
                self.durable[to.clone()].copy_from_slice(&self.content[to]);
                self.versions.remove(&block);
            } else {
                self.versions.entry(block).or_default().push((self.writes, self.content[to].to_vec()));
            }
        }
    }

    /// Of this number of blocks from `offset` on, those that find room, up to the first that does not. They have their places then.
    fn place(&mut self, offset: usize, blocks: usize) -> usize {
        let first = offset / self.block_size;
        for block in first..first + blocks {
            let is_placed = self.placed[block];
            if (!is_placed || self.mood.copies_on_write)
                && let Some(room) = &mut self.mood.room_blocks
            {
                if *room == 0 {
                    return block - first;
                }
                *room -= 1;
                self.left_places += u64::from(is_placed);
            }
            self.placed[block] = true;
        }
        blocks
    }

    /// Gives the places of deallocated blocks free.
    fn leave(&mut self, offset: usize, length: usize) {
        let blocks = offset / self.block_size..(offset + length) / self.block_size;
        for placed in &mut self.placed[blocks] {
            if std::mem::take(placed)
                && let Some(room) = &mut self.mood.room_blocks
            {
                *room += 1;
            }
        }
    }

    /// Forgets what was written up to a write without making it durable: a later sync has nothing to do with it.
    fn lose(&mut self, up_to: u64) {
        self.losses += 1;
        self.versions.retain(|_, versions| {
            versions.retain(|(number, _)| *number > up_to);
            !versions.is_empty()
        });
    }

    /// Makes durable what was written up to a write.
    fn synchronize(&mut self, up_to: u64) {
        if let Some(room) = &mut self.mood.room_blocks {
            *room += std::mem::take(&mut self.left_places);
        }
        let (size, durable) = (self.block_size, &mut self.durable);
        self.versions.retain(|block, versions| {
            let old = versions.iter().take_while(|(number, _)| *number <= up_to).count();
            if old > 0 {
                durable[block * size..(block + 1) * size].copy_from_slice(&versions[old - 1].1);
                versions.drain(..old);
            }
            !versions.is_empty()
        });
    }
}

impl World {
    /// Starts a storage operation.
    pub(super) fn begin_operation(
        &mut self,
        ring: usize,
        storage: &Storage,
        operation: StorageOp,
        token: u64,
    ) {
        let held_back = match operation {
            StorageOp::Write { .. } => u64::from(storage.write_delay_ms.load(Ordering::Relaxed)) * 1_000_000,
            _ => 0,
        };
        let file = &mut self.disks.files[storage.file];
        file.was_late |= file.mood.late > 0;
        let (least, most) = match file.mood {
            mood if mood.late > 0 && self.random.chance(mood.late) => mood.late_us,
            mood => mood.delay_us,
        };
        let began_after = file.writes;
        let process = self.running().expect("an operation belongs to a process");
        let reported = storage.reported.clone();
        let begun = Operation {
            ring,
            process,
            token,
            file: storage.file,
            operation,
            begun: self.now,
            transfer: Transfer::default(),
            result: None,
            is_alone: !storage.is_shared,
            began_after,
            reported,
        };
        let number = match self.disks.free.pop() {
            Some(number) => {
                self.disks.operations[number] = Some(begun);
                number
            }
            None => {
                self.disks.operations.push(Some(begun));
                self.disks.operations.len() - 1
            }
        };
        let wait = self.random.between(least * 1000, most * 1000) + held_back;
        self.after(wait, What::Effect(number));
    }

    /// A storage operation does what it does, or a part of it.
    pub(super) fn take_effect(&mut self, number: usize) {
        let now = self.now;
        let Some(running) = &mut self.disks.operations[number] else { return };
        let file = &mut self.disks.files[running.file];
        let fails = self.random.chance(file.mood.failures);
        let within = |offset: u64, length: usize, file: &DiskFile| {
            (offset as usize).checked_add(length).is_some_and(|end| end <= file.content.len())
        };
        let moved = running.transfer.moved();
        let result = match &mut running.operation {
            _ if fails => Err(libc::EIO),
            StorageOp::Read { buffer, offset } => {
                let from = (*offset as usize + moved).min(file.content.len());
                let mut length = (buffer.len() - moved).min(file.content.len() - from);
                let (size, short) = (file.block_size, file.mood.short_moves);
                if short > 0 && length > size && self.random.chance(short) {
                    length = self.random.between(1, ((length - 1) / size) as u64) as usize * size;
                }
                buffer[moved..moved + length].copy_from_slice(&file.content[from..from + length]);
                Ok(length)
            }
            StorageOp::Write { .. } if file.mood.is_full => Err(libc::ENOSPC),
            StorageOp::Write { buffer, offset, durable } if within(*offset, buffer.len(), file) => {
                let (from, size, short) = (*offset as usize + moved, file.block_size, file.mood.short_moves);
                let mut blocks = (buffer.len() - moved) / size;
                if short > 0 && blocks > 1 && self.random.chance(short) {
                    blocks = self.random.between(1, blocks as u64 - 1) as usize;
                }
                let length = file.place(from, blocks) * size;
                if length > 0 {
                    file.write(now, from, length, Some(&buffer[moved..moved + length]), *durable);
                }
                if length > 0 || blocks == 0 { Ok(length) } else { Err(libc::ENOSPC) }
            }
            StorageOp::Allocate { offset, length, .. } if within(*offset, *length as usize, file) => {
                file.leave(*offset as usize, *length as usize);
                file.write(now, *offset as usize, *length as usize, None, false);
                Ok(0)
            }
            StorageOp::Write { .. } | StorageOp::Allocate { .. } => Err(libc::EFBIG),
            StorageOp::Sync => {
                if self.random.chance(file.mood.lossy_syncs) {
                    file.lose(running.began_after);
                } else {
                    file.synchronize(running.began_after);
                }
                let reported = running.reported.swap(file.losses, Ordering::Relaxed);
                if reported < file.losses { Err(libc::EIO) } else { Ok(0) }
            }
        };
        let ended = match &running.operation {
            StorageOp::Read { buffer, .. } => running.transfer.step(result, buffer.len(), false),
            StorageOp::Write { buffer, .. } => running.transfer.step(result, buffer.len(), true),
            StorageOp::Sync | StorageOp::Allocate { .. } => {
                Some(result.map_err(io::Error::from_raw_os_error))
            }
        };
        if ended.is_none() {
            let wait = self.random.between(REST_US.0 * 1000, REST_US.1 * 1000);
            return self.after(wait, What::Effect(number));
        }
        let (least, most) = file.mood.delay_us;
        running.result = ended;
        let wait = self.random.between(least * 200, most * 200 + 1);
        self.after(wait, What::Stored(number));
    }

    /// A storage operation has ended.
    pub(super) fn end_operation(&mut self, number: usize) {
        let Some(ended) = self.disks.operations[number].take() else { return };
        self.disks.free.push(number);
        let file = &mut self.disks.files[ended.file];
        let Operation { ring, token, operation, result, .. } = ended;
        if file.was_late {
            let (took, is_sync) = (self.now.since(ended.begun), matches!(operation, StorageOp::Sync));
            file.stays.push(Stay { process: ended.process, took, is_sync, is_pending: false });
        }
        let buffer: Option<Buffer> = match operation {
            StorageOp::Read { buffer, .. } | StorageOp::Write { buffer, .. } => Some(buffer),
            StorageOp::Sync | StorageOp::Allocate { .. } => None,
        };
        self.stored_on(ring, token, result.unwrap_or(Ok(0)), buffer);
    }

    /// Of a process that has ended: what the system has begun may still take effect, or not.
    pub(super) fn cancel_operations(&mut self, process: ProcessId) {
        for number in 0..self.disks.operations.len() {
            let is_of = |operation: &Operation| operation.process == process && operation.result.is_none();
            if self.disks.operations[number].as_ref().is_some_and(is_of) && self.random.chance(500) {
                self.disks.operations[number] = None;
            }
        }
    }

    /// The disk loses its power: what was not synchronized may be there or not, block by block.
    fn lose_power(&mut self, path: &Path) {
        let Some(number) = self.disks.files.iter().position(|file| file.path == path) else { return };
        for operation in &mut self.disks.operations {
            if operation.as_ref().is_some_and(|operation| operation.file == number) {
                *operation = None;
            }
        }
        let file = &mut self.disks.files[number];
        let size = file.block_size;
        for (block, versions) in std::mem::take(&mut file.versions) {
            let kept = self.random.below(versions.len() as u64 + 1) as usize;
            if kept > 0 {
                file.durable[block * size..(block + 1) * size].copy_from_slice(&versions[kept - 1].1);
            }
        }
        file.content.clone_from(&file.durable);
    }
}

/// Sets the behaviour of the disk with this file; without such a file, nothing happens.
pub fn set_mood(path: &Path, mood: Mood) {
    with(|world| {
        if let Some(file) = world.disks.find(path) {
            file.mood = mood;
        }
    });
}

/// Sets the behaviour of disks whose files are made from now on.
pub fn set_usual(mood: Mood) {
    with(|world| world.disks.usual = mood);
}

/// The operations that have ended since one could be late for the first time, and those that are under way.
pub fn stays(path: &Path) -> Vec<Stay> {
    with(|world| {
        let Some(number) = world.disks.files.iter().position(|file| file.path == path) else {
            return Vec::new();
        };
        let pending = world.disks.operations.iter().flatten().filter(|operation| operation.file == number);
        let pending = pending.map(|operation| Stay {
            process: operation.process,
            took: world.now.since(operation.begun),
            is_sync: matches!(operation.operation, StorageOp::Sync),
            is_pending: true,
        });
        world.disks.files[number].stays.iter().copied().chain(pending).collect()
    })
}

/// Cuts the power of the disk with this file, and restores it. Processes that have it open should
/// end first.
pub fn lose_power(path: &Path) {
    with(|world| world.lose_power(path));
}

/// Content of the file now, if there is one.
pub fn content(path: &Path) -> Option<Vec<u8>> {
    with(|world| world.disks.find(path).map(|file| file.content.clone()))
}

/// The marks of writes that the disk works on (false), or that have taken effect since `take_effects` (true).
pub fn marks_under_way(path: &Path) -> BTreeMap<u64, bool> {
    with(|world| {
        let Some(number) = world.disks.files.iter().position(|file| file.path == path) else {
            return BTreeMap::new();
        };
        let pending = world.disks.operations.iter().flatten().filter(|operation| operation.file == number);
        let marks = pending.filter_map(|operation| match &operation.operation {
            StorageOp::Write { buffer, .. } => buffer.first_chunk().map(|mark| u64::from_le_bytes(*mark)),
            _ => None,
        });
        let mut marks: BTreeMap<u64, bool> = marks.map(|mark| (mark, false)).collect();
        marks.extend(world.disks.files[number].effects.iter().map(|effect| (effect.mark, true)));
        marks
    })
}

/// The writes that have taken effect since the last call.
pub fn take_effects(path: &Path) -> Vec<Effect> {
    with(|world| world.disks.find(path).map(|file| std::mem::take(&mut file.effects)).unwrap_or_default())
}
