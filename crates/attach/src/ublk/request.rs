//! A request of the block layer as a command of the namespace.

use nvme::io::{DatasetRange, IoCommand};
use rustix::io::Errno;
use zerocopy::little_endian::{U32, U64};

use super::driver::{IoDescriptor, SECTOR_BYTES, flag, operation};
use super::geometry::Geometry;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Read,
    Write { is_durable: bool },
    Flush,
    Discard,
    WriteZeroes { is_durable: bool, deallocate: bool },
}

/// A request that has been checked against the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) work: Work,
    /// The first block.
    pub(super) start: u64,
    pub(super) blocks: u32,
    /// Bytes that are covered; those of its data, where it has any.
    pub(super) length: u64,
}

impl Request {
    /// The request of a descriptor.
    ///
    /// # Errors
    /// What the block layer is answered, where it cannot be done.
    pub(super) fn of(descriptor: &IoDescriptor, geometry: &Geometry) -> Result<Self, Errno> {
        let has = |flag: u32| descriptor.operation & flag != 0;
        // A device without a cache gets no flush, and a path may come to a controller that has one. Others need do nothing for it.
        let is_durable = has(flag::FORCE_UNIT_ACCESS) || !geometry.has_volatile_cache;
        let (work, length_max) = match descriptor.operation & operation::MASK {
            operation::READ => (Work::Read, geometry.request_bytes_max),
            operation::WRITE => (Work::Write { is_durable }, geometry.request_bytes_max),
            operation::FLUSH => return Ok(Self { work: Work::Flush, start: 0, blocks: 0, length: 0 }),
            operation::DISCARD => (Work::Discard, geometry.discard_bytes_max),
            operation::WRITE_ZEROES => {
                let deallocate = geometry.zeroes_deallocate && !has(flag::NO_UNMAP);
                (Work::WriteZeroes { is_durable, deallocate }, geometry.write_zeroes_bytes_max)
            }
            _ => return Err(Errno::OPNOTSUPP),
        };
        if work != Work::Read && geometry.is_read_only {
            return Err(Errno::PERM);
        }
        let block_bytes = u64::from(geometry.block_bytes);
        let length = u64::from(descriptor.sectors) * SECTOR_BYTES;
        let offset = descriptor.start_sector.checked_mul(SECTOR_BYTES).ok_or(Errno::INVAL)?;
        // The block layer keeps to the device's parameters; a mistake there must not reach other
        // blocks.
        let is_whole = length.is_multiple_of(block_bytes) && offset.is_multiple_of(block_bytes);
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= geometry.size_bytes);
        if !is_whole || !is_inside || length == 0 || length > length_max {
            return Err(Errno::INVAL);
        }
        let (start, blocks) = (offset / block_bytes, (length / block_bytes) as u32);
        Ok(Self { work, start, blocks, length })
    }

    /// Range of its blocks, as the data of a Dataset Management command.
    pub(super) fn range(&self) -> DatasetRange {
        DatasetRange { start: U64::new(self.start), blocks: U32::new(self.blocks), ..DatasetRange::default() }
    }

    /// The command for it.
    pub(super) const fn command(&self) -> IoCommand {
        let (start, blocks) = (self.start, self.blocks);
        match self.work {
            Work::Read => IoCommand::Read { start, blocks, force_unit_access: false },
            Work::Write { is_durable } => IoCommand::Write { start, blocks, force_unit_access: is_durable },
            Work::Flush => IoCommand::Flush,
            Work::Discard => IoCommand::DatasetManagement { ranges: 1, deallocate: true },
            Work::WriteZeroes { is_durable, deallocate } => {
                IoCommand::WriteZeroes { start, blocks, force_unit_access: is_durable, deallocate }
            }
        }
    }
}

/// Result of a request as the driver takes it: its bytes, or the negative number of an error.
pub(super) fn result_number(result: Result<u64, Errno>) -> i32 {
    match result {
        // Only data has a length; the driver ends anything else as a whole.
        Ok(length) => i32::try_from(length).unwrap_or(0),
        Err(error) => -error.raw_os_error(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::tests::GEOMETRY;
    use super::*;

    fn descriptor(operation: u32, start_sector: u64, sectors: u32) -> IoDescriptor {
        IoDescriptor { operation, sectors, start_sector, address: 0 }
    }

    #[test]
    fn sectors_become_blocks() {
        let read = Request::of(&descriptor(operation::READ, 16, 8), &GEOMETRY).unwrap();
        assert_eq!(read, Request { work: Work::Read, start: 2, blocks: 1, length: 4096 });
        let write = descriptor(operation::WRITE | flag::FORCE_UNIT_ACCESS, 0, 512);
        let write = Request::of(&write, &GEOMETRY).unwrap();
        assert_eq!((write.work, write.blocks), (Work::Write { is_durable: true }, 64));
        assert_eq!(write.command(), IoCommand::Write { start: 0, blocks: 64, force_unit_access: true });
        let flush = Request::of(&descriptor(operation::FLUSH, 0, 0), &GEOMETRY).unwrap();
        assert_eq!(flush.command(), IoCommand::Flush);
    }

    #[test]
    fn all_that_a_device_without_a_cache_writes_is_durable() {
        for has_volatile_cache in [true, false] {
            let geometry = Geometry { has_volatile_cache, ..GEOMETRY };
            let work = |operation| Request::of(&descriptor(operation, 0, 8), &geometry).unwrap().work;
            let is_durable = !has_volatile_cache;
            assert_eq!(work(operation::WRITE), Work::Write { is_durable });
            assert_eq!(work(operation::WRITE_ZEROES), Work::WriteZeroes { is_durable, deallocate: true });
        }
    }

    #[test]
    fn zeroes_keep_their_blocks_where_that_is_asked() {
        let deallocates = |flags: u32, geometry: &Geometry| {
            let request = descriptor(operation::WRITE_ZEROES | flags, 8, 1 << 16);
            match Request::of(&request, geometry).unwrap().work {
                Work::WriteZeroes { deallocate, .. } => deallocate,
                _ => unreachable!(),
            }
        };
        assert!(deallocates(0, &GEOMETRY));
        assert!(!deallocates(flag::NO_UNMAP, &GEOMETRY));
        assert!(!deallocates(0, &Geometry { zeroes_deallocate: false, ..GEOMETRY }));
    }

    #[test]
    fn what_is_not_inside_or_not_whole_is_refused() {
        let last = GEOMETRY.size_bytes / SECTOR_BYTES - 8;
        assert!(Request::of(&descriptor(operation::READ, last, 8), &GEOMETRY).is_ok());
        for (start, sectors) in [(last + 8, 8), (last, 16), (1, 8), (0, 7), (0, 0), (0, 520), (u64::MAX, 8)] {
            let refused = Request::of(&descriptor(operation::WRITE, start, sectors), &GEOMETRY);
            assert_eq!(refused, Err(Errno::INVAL), "{sectors} sectors from {start}");
        }
        assert_eq!(Request::of(&descriptor(4, 0, 8), &GEOMETRY), Err(Errno::OPNOTSUPP));
        let read_only = Geometry { is_read_only: true, ..GEOMETRY };
        assert_eq!(Request::of(&descriptor(operation::DISCARD, 0, 8), &read_only), Err(Errno::PERM));
        assert!(Request::of(&descriptor(operation::READ, 0, 8), &read_only).is_ok());
    }
}
