//! Interface of the kernel's driver: the structures and numbers of `linux/ublk_cmd.h`, as Linux
//! 6.12 has them.

use std::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of a sector, in which the block layer counts whatever the blocks are.
pub(super) const SECTOR_BYTES: u64 = 512;

const fn ioctl(direction: u32, number: u32, bytes: usize) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (b'u' as u32) << 8 | number
}

/// A command that reads what the driver says (`_IOR`).
const fn read(number: u32) -> u32 {
    ioctl(2, number, size_of::<ControlCommand>())
}

/// Command that changes something (`_IOWR`).
const fn change(number: u32) -> u32 {
    ioctl(3, number, size_of::<ControlCommand>())
}

/// Commands at `/dev/ublk-control`.
pub(super) mod control_command {
    pub(in super::super) const GET_PARAMETERS: u32 = super::read(0x09);
    /// Of any device, also one that was made without root's rights (`GET_DEV_INFO2`).
    pub(in super::super) const GET_DEVICE_INFO: u32 = super::read(0x12);
    pub(in super::super) const GET_FEATURES: u32 = super::read(0x13);
    pub(in super::super) const ADD_DEVICE: u32 = super::change(0x04);
    pub(in super::super) const DELETE_DEVICE: u32 = super::change(0x05);
    pub(in super::super) const START_DEVICE: u32 = super::change(0x06);
    pub(in super::super) const STOP_DEVICE: u32 = super::change(0x07);
    pub(in super::super) const SET_PARAMETERS: u32 = super::change(0x08);
    pub(in super::super) const START_USER_RECOVERY: u32 = super::change(0x10);
    pub(in super::super) const END_USER_RECOVERY: u32 = super::change(0x11);
    pub(in super::super) const UPDATE_SIZE: u32 = super::change(0x15);
    /// Stop a device that no program has open (Linux 7.0).
    pub(in super::super) const TRY_STOP_DEVICE: u32 = super::change(0x17);
}

/// Commands at `/dev/ublkcN`: ask for a request; answer one and ask for the next.
pub(super) const FETCH: u32 = ioctl(3, 0x20, size_of::<IoCommand>());
pub(super) const COMMIT_AND_FETCH: u32 = ioctl(3, 0x21, size_of::<IoCommand>());

/// Features of the driver (`UBLK_F_*`).
pub(super) mod feature {
    /// A device whose process has died waits for the next one.
    pub(in super::super) const USER_RECOVERY: u64 = 1 << 3;
    /// Requests that were under way in it are issued again, and do not fail.
    pub(in super::super) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// A device that needs no CAP_SYS_ADMIN. It belongs to the user who has made it.
    pub(in super::super) const UNPRIVILEGED: u64 = 1 << 5;
    pub(in super::super) const IOCTL_ENCODED: u64 = 1 << 6;
    pub(in super::super) const USER_COPY: u64 = 1 << 7;
    pub(in super::super) const UPDATE_SIZE: u64 = 1 << 10;
    /// The driver knows `TRY_STOP_DEVICE`. Each of its devices has this.
    pub(in super::super) const SAFE_STOP: u64 = 1 << 17;
}

/// State of a device (`UBLK_S_DEV_*`).
pub(super) mod state {
    pub(in super::super) const DEAD: u16 = 0;
    pub(in super::super) const LIVE: u16 = 1;
    /// The process has died, and requests wait.
    pub(in super::super) const QUIESCED: u16 = 2;
}

/// Any device, any queue.
pub(super) const ANY_DEVICE: u32 = u32::MAX;
pub(super) const NO_QUEUE: u16 = u16::MAX;

/// Bytes before a command's structure for the path of `/dev/ublkcN`, by whose rights the driver judges who has not root's. What
/// is not used is 0.
pub(super) const PATH_BYTES: usize = 32;

/// `ublksrv_ctrl_cmd`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub(super) struct ControlCommand {
    pub(super) device: u32,
    pub(super) queue: u16,
    /// Bytes at `address`.
    pub(super) length: u16,
    pub(super) address: u64,
    pub(super) data: u64,
    pub(super) path_length: u16,
    pub(super) padding: u16,
    pub(super) reserved: u32,
}

/// `ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
pub(super) struct DeviceInfo {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) padding_0: u16,
    pub(super) request_bytes_max: u32,
    pub(super) device: u32,
    pub(super) server: i32,
    pub(super) padding_1: u32,
    pub(super) flags: u64,
    /// `ublksrv_flags`, which the driver keeps and does not look at.
    pub(super) mark: u64,
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) reserved: [u64; 2],
}

/// `ublk_param_basic`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub(super) struct BasicParameters {
    pub(super) attributes: u32,
    pub(super) logical_block_shift: u8,
    pub(super) physical_block_shift: u8,
    pub(super) io_optimal_shift: u8,
    pub(super) io_minimal_shift: u8,
    pub(super) sectors_max: u32,
    pub(super) chunk_sectors: u32,
    pub(super) sectors: u64,
    pub(super) virtual_boundary_mask: u64,
}

/// Bits of `attributes` (`UBLK_ATTR_*`).
pub(super) mod attribute {
    pub(in super::super) const READ_ONLY: u32 = 1 << 0;
    pub(in super::super) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(in super::super) const FORCE_UNIT_ACCESS: u32 = 1 << 3;
}

/// `ublk_param_discard`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub(super) struct DiscardParameters {
    pub(super) alignment: u32,
    pub(super) granularity: u32,
    pub(super) sectors_max: u32,
    pub(super) write_zeroes_sectors_max: u32,
    pub(super) segments_max: u16,
    pub(super) reserved: u16,
}

/// The beginning of `ublk_params`: as much as is set here. Its length tells the driver where it ends.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub(super) struct Parameters {
    pub(super) length: u32,
    pub(super) types: u32,
    pub(super) basic: BasicParameters,
    pub(super) discard: DiscardParameters,
    /// Padding; the driver has further fields here, which `length` excludes.
    pub(super) end: u32,
}

/// Bits of `types` (`UBLK_PARAM_TYPE_*`).
pub(super) mod parameter_type {
    pub(in super::super) const BASIC: u32 = 1 << 0;
    pub(in super::super) const DISCARD: u32 = 1 << 1;
}

/// Bytes of `Parameters` that the driver reads.
pub(super) const PARAMETERS_BYTES: u32 = offset_of!(Parameters, end) as u32;

/// `ublksrv_io_cmd`. The address is 0 where data is copied by calls.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub(super) struct IoCommand {
    pub(super) queue: u16,
    pub(super) tag: u16,
    /// Bytes, or the negative number of an error.
    pub(super) result: i32,
    pub(super) address: u64,
}

/// `ublksrv_io_desc`: a request as the driver describes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
pub(super) struct IoDescriptor {
    /// An `operation`, and bits of `flag`.
    pub(super) operation: u32,
    pub(super) sectors: u32,
    pub(super) start_sector: u64,
    pub(super) address: u64,
}

/// Operation of a request (`UBLK_IO_OP_*`), the low 8 bits.
pub(super) mod operation {
    pub(in super::super) const MASK: u32 = 0xff;
    pub(in super::super) const READ: u32 = 0;
    pub(in super::super) const WRITE: u32 = 1;
    pub(in super::super) const FLUSH: u32 = 2;
    pub(in super::super) const DISCARD: u32 = 3;
    pub(in super::super) const WRITE_ZEROES: u32 = 5;
}

/// Flags of a request (`UBLK_IO_F_*`).
pub(super) mod flag {
    pub(in super::super) const FORCE_UNIT_ACCESS: u32 = 1 << 13;
    pub(in super::super) const NO_UNMAP: u32 = 1 << 15;
}

/// Requests of one queue, at most (`UBLK_MAX_QUEUE_DEPTH`).
pub(super) const DEPTH_MAX: usize = 4096;
/// Bytes of one request, at most (`UBLK_IO_BUF_BITS`).
pub(super) const REQUEST_BYTES_MAX: u64 = 1 << DATA_BITS;

const DATA_BITS: u32 = 25;
const TAG_BITS: u32 = 16;
const DATA_OFFSET: u64 = 0x8000_0000;

/// Offset of the data of a request in `/dev/ublkcN` (`UBLKSRV_IO_BUF_OFFSET`).
pub(super) const fn data_offset(queue: u16, tag: u16) -> u64 {
    DATA_OFFSET + ((tag as u64) << DATA_BITS | (queue as u64) << (DATA_BITS + TAG_BITS))
}

/// Queue and tag of the data at an offset.
#[cfg(feature = "simulation")]
pub(super) const fn data_at(offset: u64) -> (u16, u16) {
    let place = (offset - DATA_OFFSET) >> DATA_BITS;
    ((place >> TAG_BITS) as u16, place as u16)
}

/// Bytes of all descriptors of a queue of this depth, in whole pages.
pub(super) const fn descriptors_bytes(depth: usize, page: usize) -> usize {
    (depth * size_of::<IoDescriptor>()).next_multiple_of(page)
}

/// Offset of the descriptors of a queue in `/dev/ublkcN`: each queue has room for the largest
/// number.
pub(super) const fn descriptors_offset(queue: u16, page: usize) -> u64 {
    queue as u64 * descriptors_bytes(DEPTH_MAX, page) as u64
}

const _: () = {
    assert!(size_of::<ControlCommand>() == 32);
    assert!(size_of::<DeviceInfo>() == 64);
    assert!(size_of::<IoCommand>() == 16);
    assert!(size_of::<IoDescriptor>() == 24);
    assert!(size_of::<BasicParameters>() == 32 && size_of::<DiscardParameters>() == 20);
    assert!(offset_of!(Parameters, discard) == 40 && PARAMETERS_BYTES == 60);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        // As `printf` of a C program with Linux' header shows them.
        assert_eq!(control_command::GET_FEATURES, 0x8020_7513);
        assert_eq!(control_command::ADD_DEVICE, 0xc020_7504);
        assert_eq!(control_command::STOP_DEVICE, 0xc020_7507);
        assert_eq!(control_command::GET_DEVICE_INFO, 0x8020_7512);
        assert_eq!(control_command::END_USER_RECOVERY, 0xc020_7511);
        assert_eq!(FETCH, 0xc010_7520);
        assert_eq!(COMMIT_AND_FETCH, 0xc010_7521);
    }

    #[test]
    fn data_and_descriptors_lie_where_the_driver_has_them() {
        assert_eq!(data_offset(0, 0), 0x8000_0000);
        assert_eq!(data_offset(0, 1), 0x8200_0000);
        assert_eq!(data_offset(1, 0), 0x200_8000_0000);
        assert_eq!((descriptors_bytes(1, 4096), descriptors_bytes(171, 4096)), (4096, 8192));
        assert_eq!(descriptors_offset(2, 4096), 2 * 98_304);
    }
}
