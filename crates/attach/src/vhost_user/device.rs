//! A namespace as a virtio block device: what a guest's driver may use of it, and its configuration space.

use engine::initiator::Paths;
use nbd::Export;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ, VIRTIO_BLK_F_RO,
    VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX, VIRTIO_BLK_F_TOPOLOGY, VIRTIO_BLK_F_WRITE_ZEROES,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use super::work::SECTOR_BYTES;
use crate::disk::{Disk, DiskError};
use crate::disk_queues::BLOCKS_MAX;
use crate::limits::{DISCARD_RANGES_MAX, PIECE_BYTES, SEGMENTS_MAX, VRINGS_MAX};

/// Characters of a serial number (VIRTIO_BLK_ID_BYTES).
pub(super) const SERIAL_BYTES: usize = 20;
/// Vhost-user's own feature: that features of the protocol are negotiated too.
pub(super) const PROTOCOL_FEATURES: u64 = 1 << 30;

/// Properties of a device for a front end that connects now.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) export: Export,
    pub(super) serial: [u8; SERIAL_BYTES],
    /// Bytes of one segment of a request.
    segment_bytes: u32,
    /// Bytes of one Write Zeroes.
    zeroes_bytes: u64,
    /// Bytes of one range that is discarded, and ranges of one request.
    range_bytes: u64,
    ranges_max: u32,
    /// Set where nothing is written whatever the target permits: its protection of a namespace comes and goes.
    pub(super) refuses_writes: bool,
}

/// The configuration space (struct virtio_blk_config).
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C, packed)]
struct Config {
    capacity: U64,
    size_max: U32,
    seg_max: U32,
    geometry: [u8; 4],
    blk_size: U32,
    physical_block_exp: u8,
    alignment_offset: u8,
    min_io_size: U16,
    opt_io_size: U32,
    wce: u8,
    unused: u8,
    num_queues: U16,
    max_discard_sectors: U32,
    max_discard_seg: U32,
    discard_sector_alignment: U32,
    max_write_zeroes_sectors: U32,
    max_write_zeroes_seg: U32,
    write_zeroes_may_unmap: u8,
    unused_end: [u8; 3],
}

const _: () = assert!(size_of::<Config>() == 60);

impl Device {
    /// The device that a namespace is at present.
    pub(super) fn of(disk: &Disk) -> Result<Self, DiskError> {
        let export = disk.export()?;
        let block = export.block_bytes;
        if u64::from(block) < SECTOR_BYTES {
            return Err(DiskError::Blocks {
                nsid: disk.paths.namespace().nsid,
                block_bytes: block,
                metadata_bytes: 0,
            });
        }
        let most = PIECE_BYTES.min(disk.paths.transfer_length_max() as u64) as u32;
        let segment_bytes = (most - most % block).max(block);
        // One command each: virtqueues are served in order, and one that clears a whole disk would be waited for.
        let zeroes_bytes = disk.paths.write_zeroes_length_max().min(BLOCKS_MAX * u64::from(block));
        let limits = disk.paths.deallocate_limits();
        let range_bytes = u64::from(limits.range_blocks) * u64::from(block);
        let ranges_max = u32::from(limits.ranges).min(DISCARD_RANGES_MAX as u32);
        let (serial, refuses_writes) = (serial(&disk.paths), disk.is_read_only);
        Ok(Self { export, serial, segment_bytes, zeroes_bytes, range_bytes, ranges_max, refuses_writes })
    }

    /// The device that an export would be, without a namespace.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn model(export: Export) -> Self {
        let segment_bytes = PIECE_BYTES as u32;
        let (serial, refuses_writes) = ([0; SERIAL_BYTES], export.is_read_only);
        let (zeroes_bytes, range_bytes, ranges_max) = (PIECE_BYTES, u64::MAX, DISCARD_RANGES_MAX as u32);
        Self { export, serial, segment_bytes, zeroes_bytes, range_bytes, ranges_max, refuses_writes }
    }

    /// The features that a driver may choose from.
    pub(super) fn features(&self) -> u64 {
        let always = [
            VIRTIO_F_VERSION_1,
            VIRTIO_RING_F_INDIRECT_DESC,
            VIRTIO_RING_F_EVENT_IDX,
            VIRTIO_BLK_F_SIZE_MAX,
            VIRTIO_BLK_F_SEG_MAX,
            VIRTIO_BLK_F_BLK_SIZE,
            VIRTIO_BLK_F_TOPOLOGY,
            VIRTIO_BLK_F_FLUSH,
            VIRTIO_BLK_F_MQ,
        ];
        let Export { is_read_only, can_trim, can_write_zeroes, .. } = self.export;
        let some = [
            (VIRTIO_BLK_F_RO, is_read_only),
            (VIRTIO_BLK_F_DISCARD, can_trim && !is_read_only),
            (VIRTIO_BLK_F_WRITE_ZEROES, can_write_zeroes && !is_read_only),
        ];
        let chosen = some.into_iter().filter_map(|(feature, has)| has.then_some(feature));
        always.into_iter().chain(chosen).fold(PROTOCOL_FEATURES, |all, feature| all | 1 << feature)
    }

    /// The features that a front end may use: also those of the disk as it was earlier. A guest keeps the features that it began
    /// with while write protection comes and goes, and paths to other controllers; a target refuses what it does not have.
    pub(super) fn accepted_features(&self) -> u64 {
        let earlier = [VIRTIO_BLK_F_RO, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_WRITE_ZEROES];
        earlier.into_iter().fold(self.features(), |all, feature| all | 1 << feature)
    }

    /// True if the size is among these bytes of the configuration space.
    pub(super) const fn has_capacity(offset: u32, size: u32) -> bool {
        offset == 0 && size as usize >= size_of::<U64>()
    }

    /// Bytes of the configuration space; what is past its end is 0.
    pub(super) fn config(&self, offset: u32, size: u32) -> Vec<u8> {
        let block = self.export.block_bytes;
        let sectors = block / SECTOR_BYTES as u32;
        let whole = |most: u64| {
            let most = u32::try_from(most / SECTOR_BYTES).unwrap_or(u32::MAX);
            (most - most % sectors).max(sectors)
        };
        let physical = self.export.preferred_block_bytes / block;
        let config = Config {
            capacity: U64::new(self.export.size / SECTOR_BYTES),
            size_max: U32::new(self.segment_bytes),
            seg_max: U32::new(SEGMENTS_MAX as u32),
            blk_size: U32::new(block),
            physical_block_exp: physical.ilog2() as u8,
            min_io_size: U16::new(physical as u16),
            num_queues: U16::new(VRINGS_MAX as u16),
            max_discard_sectors: U32::new(whole(self.range_bytes)),
            max_discard_seg: U32::new(self.ranges_max),
            discard_sector_alignment: U32::new(sectors),
            max_write_zeroes_sectors: U32::new(whole(self.zeroes_bytes)),
            max_write_zeroes_seg: U32::new(1),
            write_zeroes_may_unmap: 1,
            ..Config::default()
        };
        let bytes = config.as_bytes().iter().copied().chain(std::iter::repeat(0));
        bytes.skip(offset as usize).take(size as usize).collect()
    }
}

/// Serial number of the disk in the guest: the beginning of the namespace's identifier, or its
/// number.
fn serial(paths: &Paths) -> [u8; SERIAL_BYTES] {
    let namespace = paths.namespace();
    let text = match namespace.uuid.or(namespace.nguid) {
        Some(id) => id.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        None => format!("namespace-{}", namespace.nsid),
    };
    let mut serial = [0; SERIAL_BYTES];
    serial.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    serial
}
