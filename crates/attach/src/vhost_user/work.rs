//! What a request asks for, read from its header and checked against the device.

use nvme::Status;
use nvme::io::{DatasetRange, IoCommand};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID,
    VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_WRITE_ZEROES,
};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros as _, IntoBytes};

use super::chain::Chain;
use super::device::{Device, SERIAL_BYTES};
use super::guest_memory::Memory;
use crate::limits::{DISCARD_RANGES_MAX, VRING_REQUEST_BYTES_MAX};

/// Unit of requests.
pub(super) const SECTOR_BYTES: u64 = 512;
/// The driver would like the blocks deallocated (VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP).
const FLAG_UNMAP: u32 = 1;

/// A status of a request that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed(pub(super) u8);

pub(super) const IO_ERROR: Failed = Failed(VIRTIO_BLK_S_IOERR as u8);
pub(super) const UNSUPPORTED: Failed = Failed(VIRTIO_BLK_S_UNSUPP as u8);

/// Header of a request (struct virtio_blk_outhdr).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes)]
#[repr(C)]
struct Header {
    kind: U32,
    reserved: U32,
    sector: U64,
}

pub(super) const HEADER_BYTES: u64 = size_of::<Header>() as u64;

/// A range to discard or to clear (struct virtio_blk_discard_write_zeroes).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes)]
#[repr(C)]
struct Range {
    sector: U64,
    sectors: U32,
    flags: U32,
}

/// Operation of a request's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Flush,
    Zeroes {
        may_deallocate: bool,
    },
    Discard {
        ranges: u16,
    },
    /// No command: the serial number.
    Serial,
}

/// Work on some bytes of the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    /// Bytes; 1 where they are not counted.
    pub(super) length: u64,
}

impl Work {
    /// The work of a request.
    pub(super) fn of(chain: &Chain, memory: &Memory, device: &Device, size: u64) -> Result<Self, Failed> {
        let mut header = Header::new_zeroed();
        chain.readable.read(memory, 0, header.as_mut_bytes()).map_err(|_| IO_ERROR)?;
        let given = chain.readable.bytes() - HEADER_BYTES;
        // The last byte is the status.
        let wanted = chain.writable.bytes() - 1;
        let whole = |kind| Self { kind, offset: 0, length: 1 };
        let work = match header.kind.get() {
            VIRTIO_BLK_T_IN => {
                let offset = header.sector.get().checked_mul(SECTOR_BYTES).ok_or(IO_ERROR)?;
                Self { kind: Kind::Read, offset, length: wanted }
            }
            VIRTIO_BLK_T_OUT => {
                let offset = header.sector.get().checked_mul(SECTOR_BYTES).ok_or(IO_ERROR)?;
                Self { kind: Kind::Write, offset, length: given }
            }
            VIRTIO_BLK_T_FLUSH => return Ok(whole(Kind::Flush)),
            VIRTIO_BLK_T_GET_ID if wanted >= SERIAL_BYTES as u64 => return Ok(whole(Kind::Serial)),
            VIRTIO_BLK_T_GET_ID => return Err(IO_ERROR),
            VIRTIO_BLK_T_DISCARD => {
                let count = given / size_of::<Range>() as u64;
                if count == 0
                    || count > DISCARD_RANGES_MAX as u64
                    || !given.is_multiple_of(size_of::<Range>() as u64)
                {
                    return Err(IO_ERROR);
                }
                whole(Kind::Discard { ranges: count as u16 })
            }
            VIRTIO_BLK_T_WRITE_ZEROES => Self::zeroes(chain, memory, given)?,
            _ => return Err(UNSUPPORTED),
        };
        if !matches!(work.kind, Kind::Read) && device.refuses_writes {
            return Err(IO_ERROR);
        }
        match work.kind {
            // Its ranges are checked when they are copied.
            Kind::Discard { .. } => Ok(work),
            Kind::Read | Kind::Write if work.length > VRING_REQUEST_BYTES_MAX => Err(IO_ERROR),
            _ => work.checked(device, size),
        }
    }

    fn zeroes(chain: &Chain, memory: &Memory, given: u64) -> Result<Self, Failed> {
        let mut range = Range::new_zeroed();
        if given != size_of::<Range>() as u64 {
            return Err(IO_ERROR);
        }
        chain.readable.read(memory, HEADER_BYTES, range.as_mut_bytes()).map_err(|_| IO_ERROR)?;
        let flags = range.flags.get();
        if flags & !FLAG_UNMAP != 0 {
            return Err(UNSUPPORTED);
        }
        let offset = range.sector.get().checked_mul(SECTOR_BYTES).ok_or(IO_ERROR)?;
        let kind = Kind::Zeroes { may_deallocate: flags & FLAG_UNMAP != 0 };
        Ok(Self { kind, offset, length: u64::from(range.sectors.get()) * SECTOR_BYTES })
    }

    /// Whole blocks, within the namespace.
    fn checked(self, device: &Device, size: u64) -> Result<Self, Failed> {
        let block = u64::from(device.export.block_bytes);
        let end = self.offset.checked_add(self.length).ok_or(IO_ERROR)?;
        let is_whole = self.offset.is_multiple_of(block) && self.length.is_multiple_of(block);
        if is_whole && self.length > 0 && end <= size { Ok(self) } else { Err(IO_ERROR) }
    }

    /// Ranges to discard as NVMe's, into a buffer that has room for all of them.
    pub(super) fn ranges(
        chain: &Chain,
        memory: &Memory,
        device: &Device,
        size: u64,
        into: &mut [u8],
    ) -> Result<(), Failed> {
        let block = u64::from(device.export.block_bytes);
        for (at, bytes) in into.chunks_exact_mut(size_of::<DatasetRange>()).enumerate() {
            let mut range = Range::new_zeroed();
            let offset = HEADER_BYTES + (at * size_of::<Range>()) as u64;
            chain.readable.read(memory, offset, range.as_mut_bytes()).map_err(|_| IO_ERROR)?;
            // What it would mean to unmap here is not said (virtio 5.2.6.2).
            if range.flags.get() != 0 {
                return Err(UNSUPPORTED);
            }
            let offset = range.sector.get().checked_mul(SECTOR_BYTES).ok_or(IO_ERROR)?;
            let length = u64::from(range.sectors.get()) * SECTOR_BYTES;
            let work = Self { kind: Kind::Discard { ranges: 1 }, offset, length }.checked(device, size)?;
            let range = DatasetRange {
                start: U64::new(work.offset / block),
                blocks: U32::new((work.length / block) as u32),
                ..Default::default()
            };
            bytes.copy_from_slice(range.as_bytes());
        }
        Ok(())
    }
}

impl Kind {
    /// The command for some blocks, which are durable at its end where `is_write_through`.
    pub(super) const fn command(self, start: u64, blocks: u32, is_write_through: bool) -> IoCommand {
        let force_unit_access = is_write_through;
        match self {
            Self::Read => IoCommand::Read { start, blocks, force_unit_access: false },
            Self::Write => IoCommand::Write { start, blocks, force_unit_access },
            Self::Flush | Self::Serial => IoCommand::Flush,
            Self::Zeroes { may_deallocate: deallocate } => {
                IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate }
            }
            Self::Discard { ranges } => IoCommand::DatasetManagement { ranges, deallocate: true },
        }
    }
}

/// Status for the guest of a command that ended with this NVMe status.
pub(super) fn failed(status: Status) -> Failed {
    match status.without_flags() {
        Status::INVALID_OPCODE => UNSUPPORTED,
        _ => IO_ERROR,
    }
}
