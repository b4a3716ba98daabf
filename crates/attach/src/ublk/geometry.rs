//! A namespace as a block device: its blocks, the greatest requests, and what it can do besides reading and writing.

use engine::initiator::{Controller, Paths};
use nvme::identify::bits::deallocate_features::WRITE_ZEROES_DEALLOCATE;
use nvme::identify::bits::volatile_write_cache;

use super::driver::{
    BasicParameters, DiscardParameters, PARAMETERS_BYTES, Parameters, SECTOR_BYTES, attribute, parameter_type,
};
use super::error::DeviceError;
use crate::disk::Disk;
use crate::limits::PIECE_BYTES;

/// Blocks of one command (NLB is 0's based and 16 bits wide).
const BLOCKS_MAX: u64 = 1 << 16;
/// The block layer counts bytes of a request with 32 bits.
const LENGTH_MAX: u64 = u32::MAX as u64;
/// Optimal size of requests: pages, whatever the block size.
const OPTIMAL_BYTES: u32 = 4096;
/// The driver has no greater blocks.
const BLOCK_BYTES_MAX: u32 = 4096;

/// A namespace as the block layer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Namespace identifier (NSID).
    pub nsid: u32,
    /// Size of the namespace.
    pub size_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Data of one request, which is one command.
    pub request_bytes_max: u64,
    /// Most bytes of a discard; 0 where there is none.
    pub discard_bytes_max: u64,
    /// Most bytes of a write of zeroes; 0 where there is none.
    pub write_zeroes_bytes_max: u64,
    /// True if writes of zeroes may deallocate.
    pub zeroes_deallocate: bool,
    /// True if written data is durable only after a flush.
    pub has_volatile_cache: bool,
    /// True if writes are refused.
    pub is_read_only: bool,
}

impl Geometry {
    /// The geometry of a namespace as it is now.
    ///
    /// # Errors
    /// When it cannot be a block device.
    pub fn of(disk: &Disk) -> Result<Self, DeviceError> {
        let (export, info) = (disk.export()?, disk.paths.namespace());
        let block_bytes = export.block_bytes;
        if !(SECTOR_BYTES as u32..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return Err(DeviceError::Blocks { nsid: info.nsid, block_bytes });
        }
        let paths: &Paths = &disk.paths;
        let range_bytes = u64::from(paths.deallocate_limits().range_blocks) * u64::from(block_bytes);
        let whole = |bytes: u64| (bytes - bytes % u64::from(block_bytes)).max(block_bytes.into());
        let of_command = BLOCKS_MAX * u64::from(block_bytes);
        let controllers = paths.controllers();
        let has_cache =
            |one: &Controller| one.identify().volatile_write_cache & volatile_write_cache::PRESENT != 0;
        Ok(Self {
            nsid: info.nsid,
            size_bytes: export.size,
            block_bytes,
            request_bytes_max: whole(PIECE_BYTES.min(paths.transfer_length_max() as u64).min(of_command)),
            discard_bytes_max: if export.can_trim { whole(range_bytes.min(LENGTH_MAX)) } else { 0 },
            write_zeroes_bytes_max: if export.can_write_zeroes {
                whole(paths.write_zeroes_length_max().min(of_command).min(LENGTH_MAX))
            } else {
                0
            },
            zeroes_deallocate: info.deallocate_features & WRITE_ZEROES_DEALLOCATE != 0,
            // Without a path the cache is unknown, and a superfluous flush does no harm.
            has_volatile_cache: controllers.is_empty() || controllers.iter().any(has_cache),
            is_read_only: export.is_read_only,
        })
    }

    /// Geometry of this namespace behind an existing device, whose parameters stay as the block
    /// layer knows them.
    ///
    /// # Errors
    /// When it would ask for what the namespace cannot do now, or not for what it needs.
    pub(super) fn behind(self, parameters: &Parameters) -> Result<Self, DeviceError> {
        let (basic, discard) = (&parameters.basic, &parameters.discard);
        let bytes = |sectors: u32| u64::from(sectors) * SECTOR_BYTES;
        let was = Self {
            size_bytes: basic.sectors.saturating_mul(SECTOR_BYTES),
            block_bytes: 1_u32.checked_shl(basic.logical_block_shift.into()).unwrap_or(0),
            request_bytes_max: bytes(basic.sectors_max),
            discard_bytes_max: bytes(discard.sectors_max),
            write_zeroes_bytes_max: bytes(discard.write_zeroes_sectors_max),
            has_volatile_cache: basic.attributes & attribute::VOLATILE_CACHE != 0,
            is_read_only: basic.attributes & attribute::READ_ONLY != 0,
            ..self
        };
        let differs = if was.block_bytes != self.block_bytes {
            "blocks of another size"
        } else if was.request_bytes_max > self.request_bytes_max {
            "a smaller limit of data (MDTS)"
        } else if was.write_zeroes_bytes_max > self.write_zeroes_bytes_max {
            "a smaller limit of Write Zeroes"
        } else if was.discard_bytes_max > 0 && self.discard_bytes_max == 0 {
            // Of a longer one a controller may leave a part out, which is allowed: it is a hint.
            "no Dataset Management"
        } else if self.has_volatile_cache && !was.has_volatile_cache {
            // The block layer would send no flush.
            "a volatile write cache"
        } else {
            return Ok(was);
        };
        Err(DeviceError::Changed { nsid: self.nsid, differs })
    }

    /// The same as the driver wants it.
    pub(super) fn parameters(&self) -> Parameters {
        let shift = |bytes: u32| bytes.trailing_zeros() as u8;
        let sectors = |bytes: u64| (bytes / SECTOR_BYTES) as u32;
        let set = |attribute: u32, is_so: bool| if is_so { attribute } else { 0 };
        let block_shift = shift(self.block_bytes);
        let mut parameters = Parameters {
            length: PARAMETERS_BYTES,
            types: parameter_type::BASIC,
            basic: BasicParameters {
                attributes: set(attribute::READ_ONLY, self.is_read_only)
                    // NVMe has FUA with every write; without a cache each is durable anyway.
                    | set(attribute::VOLATILE_CACHE | attribute::FORCE_UNIT_ACCESS, self.has_volatile_cache),
                logical_block_shift: block_shift,
                physical_block_shift: block_shift,
                io_optimal_shift: shift(self.block_bytes.max(OPTIMAL_BYTES)),
                io_minimal_shift: block_shift,
                sectors_max: sectors(self.request_bytes_max),
                sectors: self.size_bytes / SECTOR_BYTES,
                ..BasicParameters::default()
            },
            ..Parameters::default()
        };
        if self.discard_bytes_max > 0 || self.write_zeroes_bytes_max > 0 {
            parameters.types |= parameter_type::DISCARD;
            parameters.discard = DiscardParameters {
                granularity: self.block_bytes,
                sectors_max: sectors(self.discard_bytes_max),
                write_zeroes_sectors_max: sectors(self.write_zeroes_bytes_max),
                segments_max: 1,
                ..DiscardParameters::default()
            };
        }
        parameters
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const GEOMETRY: Geometry = Geometry {
        nsid: 3,
        size_bytes: 1 << 30,
        block_bytes: 4096,
        request_bytes_max: 256 << 10,
        discard_bytes_max: LENGTH_MAX - 4095,
        write_zeroes_bytes_max: 256 << 20,
        zeroes_deallocate: true,
        has_volatile_cache: true,
        is_read_only: false,
    };

    #[test]
    fn the_parameters_have_all_of_it() {
        let parameters = GEOMETRY.parameters();
        assert_eq!((parameters.length, parameters.types), (60, 3));
        let BasicParameters { attributes, sectors, sectors_max, .. } = parameters.basic;
        assert_eq!((attributes, sectors, sectors_max), (0b1100, 1 << 21, 512));
        let basic = parameters.basic;
        assert_eq!((basic.logical_block_shift, basic.physical_block_shift), (12, 12));
        assert_eq!((basic.io_minimal_shift, basic.io_optimal_shift), (12, 12));
        let discard = parameters.discard;
        assert_eq!((discard.granularity, discard.segments_max), (4096, 1));
        assert_eq!((discard.sectors_max, discard.write_zeroes_sectors_max), (8_388_600, 1 << 19));
    }

    #[test]
    fn a_device_keeps_its_parameters() {
        let parameters = GEOMETRY.parameters();
        let larger = Geometry { size_bytes: 2 << 30, request_bytes_max: 1 << 20, ..GEOMETRY };
        assert_eq!(larger.behind(&parameters).unwrap(), GEOMETRY);
        let shorter = Geometry { discard_bytes_max: 1 << 20, ..GEOMETRY };
        assert_eq!(shorter.behind(&parameters).unwrap(), GEOMETRY, "a discard is a hint");
        let read_only = Geometry { is_read_only: true, ..GEOMETRY };
        assert!(GEOMETRY.behind(&read_only.parameters()).unwrap().is_read_only);
        // A cache that is gone is flushed without need; one that is new would never be.
        let uncached = Geometry { has_volatile_cache: false, ..GEOMETRY };
        assert_eq!(uncached.behind(&parameters).unwrap(), GEOMETRY);
        for (now, parameters) in [
            (GEOMETRY, uncached.parameters()),
            (Geometry { block_bytes: 512, ..GEOMETRY }, parameters),
            (Geometry { request_bytes_max: 128 << 10, ..GEOMETRY }, parameters),
            (Geometry { write_zeroes_bytes_max: 0, ..GEOMETRY }, parameters),
            (Geometry { discard_bytes_max: 0, ..GEOMETRY }, parameters),
        ] {
            assert!(matches!(now.behind(&parameters), Err(DeviceError::Changed { nsid: 3, .. })), "{now:?}");
        }
    }

    #[test]
    fn what_a_namespace_cannot_do_is_not_offered() {
        let plain = Geometry {
            block_bytes: 512,
            discard_bytes_max: 0,
            write_zeroes_bytes_max: 0,
            has_volatile_cache: false,
            is_read_only: true,
            ..GEOMETRY
        };
        let parameters = plain.parameters();
        assert_eq!((parameters.types, parameters.discard), (1, DiscardParameters::default()));
        assert_eq!((parameters.basic.attributes, parameters.basic.logical_block_shift), (1, 9));
        assert_eq!(parameters.basic.io_optimal_shift, 12);
        let zeroes = Geometry { write_zeroes_bytes_max: 1 << 20, ..plain };
        assert_eq!((zeroes.parameters().types, zeroes.parameters().discard.sectors_max), (3, 0));
    }
}
