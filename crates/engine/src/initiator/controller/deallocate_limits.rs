//! Limits of Dataset Management, as a controller reports them.

use nvme::identify::IdentifyControllerNvm;

/// The most blocks and ranges of one Dataset Management. A controller may leave out what is beyond, and report success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeallocateLimits {
    /// Blocks of one range.
    pub range_blocks: u32,
    /// Ranges of one command.
    pub ranges: u16,
}

impl DeallocateLimits {
    /// All that a command can name (LLB has 32 bits, and NR 8).
    pub(crate) const NONE: Self = Self { range_blocks: u32::MAX, ranges: 256 };

    /// Limits of a controller: DMRSL, DMRL, and DMSL, which is of all ranges together. 0 stands for none.
    pub(super) fn of(identify: &IdentifyControllerNvm) -> Self {
        let range_blocks = identify.dataset_management_range_size_limit.get();
        let blocks = u32::try_from(identify.dataset_management_size_limit.get()).unwrap_or(u32::MAX);
        let given = |limit: u32| if limit == 0 { u32::MAX } else { limit };
        let ranges = match identify.dataset_management_ranges_limit {
            // One range of the greatest length is within both limits.
            _ if blocks > 0 => 1,
            0 => Self::NONE.ranges,
            ranges => u16::from(ranges),
        };
        Self { range_blocks: given(range_blocks).min(given(blocks)), ranges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_what_is_reported_counts() {
        let of = |ranges: u8, range_blocks: u32, blocks: u64| {
            let mut identify = IdentifyControllerNvm::default();
            identify.dataset_management_ranges_limit = ranges;
            identify.dataset_management_range_size_limit = range_blocks.into();
            identify.dataset_management_size_limit = blocks.into();
            let limits = DeallocateLimits::of(&identify);
            (limits.ranges, limits.range_blocks)
        };
        assert_eq!(of(0, 0, 0), (256, u32::MAX));
        assert_eq!(of(16, 0, 0), (16, u32::MAX));
        assert_eq!(of(0, 8, 0), (256, 8));
        // As SPDK's target since 26.05.
        assert_eq!(of(1, 2_097_152, 2_097_152), (1, 2_097_152));
        assert_eq!(of(16, 100, 40), (1, 40));
        assert_eq!(of(16, 0, u64::MAX), (1, u32::MAX));
    }
}
