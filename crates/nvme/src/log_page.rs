//! Request of the Get Log Page command, and the log pages of NVM subsystems.
//!
//! The Discovery log page is in [`crate::discovery`]; the counters and lists are kept elsewhere.

mod ana;
mod command_stages;
mod cross_reset;
mod effects;
mod health;
mod reservation;

pub use ana::{AnaGroup, AnaGroupDescriptor, AnaLog, AnaLogBuilder, AnaLogHeader, AnaParseError, AnaState};
pub use command_stages::CommandStagesLog;
pub use cross_reset::{
    CROSS_RESET_ENTRIES_MAX, CROSS_RESET_REMOVE_COMPLETED, CrossResetEntry, CrossResetLog,
    CrossResetParseError, CrossResetStatus, cross_reset_flags,
};
pub use effects::{CommandsSupported, FeaturesSupported, SupportedLogPages};
pub use effects::{command_effects, feature_effects, log_page_support};
pub use health::{ChangedNamespaceList, ErrorLogEntry, FirmwareSlotLog, SmartLog, critical_warning};
pub use reservation::{ReservationNotification, ReservationNotificationLog};

use crate::identify::CommandSet;

/// Log page identifier (LID, Base 5.1.12, Figure 202).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogPageId(pub u8);

impl LogPageId {
    /// Supported Log Pages (LID 00h, Base 5.1.12.1.1).
    pub const SUPPORTED_LOG_PAGES: Self = Self(0x00);
    /// Error Information (LID 01h, Base 5.1.12.1.2).
    pub const ERROR_INFORMATION: Self = Self(0x01);
    /// SMART / Health Information (LID 02h, Base 5.1.12.1.3).
    pub const SMART: Self = Self(0x02);
    /// Firmware Slot Information (LID 03h, Base 5.1.12.1.4).
    pub const FIRMWARE_SLOT: Self = Self(0x03);
    /// Changed Attached Namespace List (LID 04h, Base 5.1.12.1.5).
    pub const CHANGED_NAMESPACES: Self = Self(0x04);
    /// Commands Supported and Effects (LID 05h, Base 5.1.12.1.6).
    pub const COMMANDS_SUPPORTED: Self = Self(0x05);
    /// Asymmetric Namespace Access (LID 0Ch, Base 5.1.12.1.13).
    pub const ANA: Self = Self(0x0C);
    /// Feature Identifiers Supported and Effects (LID 12h, Base 5.1.12.1.18).
    pub const FEATURES_SUPPORTED: Self = Self(0x12);
    /// Cross-Controller Reset (LID 1Eh, Base 2.3, TP8028).
    pub const CROSS_CONTROLLER_RESET: Self = Self(0x1E);
    /// Discovery (LID 70h, Base 5.1.12.3.1).
    pub const DISCOVERY: Self = Self(0x70);
    /// Reservation Notification (LID 80h, Base 5.1.12.1).
    pub const RESERVATION_NOTIFICATION: Self = Self(0x80);
    /// Command Stages, of Selvedge's targets alone (LID D5h, vendor specific).
    pub const COMMAND_STAGES: Self = Self(0xD5);
}

/// The parameters of a Get Log Page command, without the NSID (Base 5.1.12, command dwords 10 to 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogPageRequest {
    /// Log Page Identifier (LID, CDW10 bits 7:0).
    pub id: LogPageId,
    /// Log specific parameter, 7 bits (LSP, CDW10 bits 14:8).
    pub specific_parameter: u8,
    /// The event that led here stays pending, and the page as it is (RAE, CDW10 bit 15).
    pub retain_event: bool,
    /// Number of dwords, 0's based (NUMDU and NUMDL, CDW11 bits 15:0 and CDW10 bits 31:16).
    pub dwords_0s_based: u32,
    /// Log specific identifier (LSI, CDW11 bits 31:16).
    pub specific_id: u16,
    /// Start within the log page: bytes, or an index if `offset_is_index` (LPOU and LPOL, CDW13 and
    /// 12).
    pub offset: u64,
    /// True if the offset is an index into a list instead of bytes (OT, CDW14 bit 23).
    pub offset_is_index: bool,
    /// Index into the UUID List, 7 bits, 0 for none (UIDX, CDW14 bits 6:0).
    pub uuid_index: u8,
    /// I/O command set, for those log pages that have one (CSI, CDW14 bits 31:24).
    pub command_set: CommandSet,
}

impl LogPageRequest {
    /// A request for `length_bytes` bytes at `offset` of a log page, with every other parameter zero.
    ///
    /// Lengths are counted in dwords, so the length is rounded up to one, and cut at 16 GiB.
    pub const fn new(id: LogPageId, offset: u64, length_bytes: u64) -> Self {
        let dwords = length_bytes.div_ceil(4).saturating_sub(1);
        Self {
            id,
            specific_parameter: 0,
            retain_event: false,
            dwords_0s_based: if dwords > u32::MAX as u64 { u32::MAX } else { dwords as u32 },
            specific_id: 0,
            offset,
            offset_is_index: false,
            uuid_index: 0,
            command_set: CommandSet::NVM,
        }
    }

    /// Number of bytes that the host asks for: 4 to 2^34.
    pub const fn length_bytes(&self) -> u64 {
        (self.dwords_0s_based as u64 + 1) * 4
    }

    /// Reads the parameters; reserved bits are ignored.
    pub const fn decode(cdw10: u32, cdw11: u32, cdw12: u32, cdw13: u32, cdw14: u32) -> Self {
        Self {
            id: LogPageId(cdw10 as u8),
            specific_parameter: (cdw10 >> 8) as u8 & 0x7F,
            retain_event: cdw10 & 1 << 15 != 0,
            dwords_0s_based: cdw10 >> 16 | cdw11 << 16,
            specific_id: (cdw11 >> 16) as u16,
            offset: cdw12 as u64 | (cdw13 as u64) << 32,
            offset_is_index: cdw14 & 1 << 23 != 0,
            uuid_index: (cdw14 & 0x7F) as u8,
            command_set: CommandSet((cdw14 >> 24) as u8),
        }
    }

    /// Command dwords 10 to 14.
    pub const fn encode(&self) -> [u32; 5] {
        let cdw10 = self.id.0 as u32
            | (self.specific_parameter as u32 & 0x7F) << 8
            | (self.retain_event as u32) << 15
            | self.dwords_0s_based << 16;
        let cdw11 = self.dwords_0s_based >> 16 | (self.specific_id as u32) << 16;
        let cdw14 = self.uuid_index as u32 & 0x7F
            | (self.offset_is_index as u32) << 23
            | (self.command_set.0 as u32) << 24;
        [cdw10, cdw11, self.offset as u32, (self.offset >> 32) as u32, cdw14]
    }
}
