//! The Cross-Controller Reset command, by which a host asks one controller to end another one
//! (TP8028). A log page reports its progress, [`crate::log_page::CrossResetLog`].

use zerocopy::little_endian::U32;

use crate::SubmissionEntry;
use crate::command::admin_opcode;

/// Bit 0 of completion dword 0: the reset is already complete, and no log entry will report it (IRS).
pub const IMMEDIATE_RESET_SUCCESSFUL: u64 = 1 << 0;

/// Instance of a controller: its identifier is used again after it, the other two together are not
/// (Base 2.3, TP8028).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerInstance {
    /// Controller identifier (CNTLID, in the command ICID).
    pub controller_id: u16,
    /// Number of controllers that have had this identifier, as far as 8 bits count; never 0 (CIU).
    pub uniquifier: u8,
    /// Random number of this instance; never 0 (CIRN).
    pub random_number: u64,
}

impl ControllerInstance {
    /// The instance that a Cross-Controller Reset command names: dword 10 has the identifier in bits 15:0 and the
    /// uniquifier in bits 23:16, dwords 12 and 13 have the random number. Reserved bits are ignored.
    pub const fn decode(entry: &SubmissionEntry) -> Self {
        let cdw10 = entry.cdw10.get();
        Self {
            controller_id: cdw10 as u16,
            uniquifier: (cdw10 >> 16) as u8,
            random_number: entry.cdw12.get() as u64 | (entry.cdw13.get() as u64) << 32,
        }
    }

    /// The Cross-Controller Reset command that asks for the end of this instance.
    pub fn encode_reset(&self) -> SubmissionEntry {
        let mut entry = SubmissionEntry::new(admin_opcode::CROSS_CONTROLLER_RESET, 0);
        entry.cdw10 = U32::new(u32::from(self.controller_id) | u32::from(self.uniquifier) << 16);
        entry.cdw12 = U32::new(self.random_number as u32);
        entry.cdw13 = U32::new((self.random_number >> 32) as u32);
        entry
    }
}
