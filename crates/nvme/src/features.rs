//! Commands Get Features and Set Features, and the asynchronous events a feature turns on.
//!
//! The values themselves, current, default and saved, are kept by the target.

use crate::identify::zeroed_default;
use crate::log_page::LogPageId;
use core::num::NonZero;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Feature identifier (FID, Base 5.1.25).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeatureId(pub u8);

impl FeatureId {
    /// Arbitration (FID 01h, Base 5.1.25.1.1).
    pub const ARBITRATION: Self = Self(0x01);
    /// Power Management (FID 02h, Base 5.1.25.1.2).
    pub const POWER_MANAGEMENT: Self = Self(0x02);
    /// Temperature Threshold (FID 04h, Base 5.1.25.1.3).
    pub const TEMPERATURE_THRESHOLD: Self = Self(0x04);
    /// Error Recovery (FID 05h, NVM 4.1.3).
    pub const ERROR_RECOVERY: Self = Self(0x05);
    /// Volatile Write Cache (FID 06h, Base 5.1.25.1.4).
    pub const VOLATILE_WRITE_CACHE: Self = Self(0x06);
    /// Number of Queues (FID 07h, Base 5.1.25.2.1).
    pub const NUMBER_OF_QUEUES: Self = Self(0x07);
    /// Interrupt Coalescing (FID 08h, Base 5.1.25.2.2).
    pub const INTERRUPT_COALESCING: Self = Self(0x08);
    /// Interrupt Vector Configuration (FID 09h, Base 5.1.25.2.3).
    pub const INTERRUPT_VECTOR: Self = Self(0x09);
    /// Write Atomicity Normal (FID 0Ah, NVM 4.1.3).
    pub const WRITE_ATOMICITY: Self = Self(0x0A);
    /// Asynchronous Event Configuration (FID 0Bh, Base 5.1.25.1.5).
    pub const ASYNC_EVENT_CONFIG: Self = Self(0x0B);
    /// Timestamp (FID 0Eh, Base 5.1.25.1.7).
    pub const TIMESTAMP: Self = Self(0x0E);
    /// Keep Alive Timer, in milliseconds (FID 0Fh, Base 5.1.25.1.8).
    pub const KEEP_ALIVE_TIMER: Self = Self(0x0F);
    /// Host Behavior Support (FID 16h, Base 5.1.25.1.14).
    pub const HOST_BEHAVIOR: Self = Self(0x16);
    /// Host Identifier (FID 81h, Base 5.1.25.1.28).
    pub const HOST_IDENTIFIER: Self = Self(0x81);
    /// Reservation Notification Mask (FID 82h, Base 5.1.25.1.29).
    pub const RESERVATION_NOTIFICATION_MASK: Self = Self(0x82);
    /// Reservation Persistence (FID 83h, Base 5.1.25.1.30).
    pub const RESERVATION_PERSISTENCE: Self = Self(0x83);
    /// Namespace Write Protection Config (FID 84h, Base 5.1.25.1.31).
    pub const NAMESPACE_WRITE_PROTECTION: Self = Self(0x84);
}

/// A feature command or value no conforming peer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A reserved value of the Select field.
    #[error("reserved value {0} in the Select field of Get Features")]
    Select(u8),
    /// 65,535 in a 0's based number of queues, which would be one more than there can be.
    #[error("65535 is not a number of queues")]
    NumberOfQueues,
}

/// Value that Get Features asks for (SEL, Base 5.1.11.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Select {
    /// The value in effect.
    #[default]
    Current = 0,
    /// The value after a reset if none is saved.
    Default = 1,
    /// The value last saved.
    Saved = 2,
    /// Capabilities of the feature: [`capabilities`].
    Capabilities = 3,
}

impl TryFrom<u8> for Select {
    type Error = ParseError;

    fn try_from(field: u8) -> Result<Self, ParseError> {
        match field {
            0 => Ok(Self::Current),
            1 => Ok(Self::Default),
            2 => Ok(Self::Saved),
            3 => Ok(Self::Capabilities),
            _ => Err(ParseError::Select(field)),
        }
    }
}

/// Completion dword 0 of Get Features for [`Select::Capabilities`] (Base 5.1.11).
pub mod capabilities {
    /// Each namespace has its own value (NSSPEC).
    pub const NAMESPACE_SPECIFIC: u32 = 1 << 1;
    /// The value can be changed (CHANG).
    pub const CHANGEABLE: u32 = 1 << 2;
}

/// The parameters of a Get Features command, without the NSID (Base 5.1.11, command dwords 10, 11 and 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GetFeatures {
    /// Feature Identifier (FID, CDW10 bits 7:0).
    pub id: FeatureId,
    /// Value of the feature (SEL, CDW10 bits 10:8).
    pub select: Select,
    /// Parameter of the feature, such as the number of a sensor (CDW11).
    pub parameter: u32,
    /// Index into the UUID List, 7 bits, 0 for none (UIDX, CDW14 bits 6:0).
    pub uuid_index: u8,
}

impl GetFeatures {
    /// Reads the parameters; reserved bits are ignored.
    pub fn decode(cdw10: u32, cdw11: u32, cdw14: u32) -> Result<Self, ParseError> {
        Ok(Self {
            id: FeatureId(cdw10 as u8),
            select: Select::try_from((cdw10 >> 8) as u8 & 0x7)?,
            parameter: cdw11,
            uuid_index: (cdw14 & 0x7F) as u8,
        })
    }

    /// Command dwords 10, 11 and 14.
    pub const fn encode(&self) -> (u32, u32, u32) {
        (self.id.0 as u32 | (self.select as u32) << 8, self.parameter, (self.uuid_index & 0x7F) as u32)
    }
}

/// The parameters of a Set Features command, without the NSID (Base 5.1.25, command dwords 10, 11 and 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetFeatures {
    /// Feature Identifier (FID, CDW10 bits 7:0).
    pub id: FeatureId,
    /// Keep the value over resets and power cycles (SV, CDW10 bit 31).
    pub save: bool,
    /// The value, for those features that fit in a dword (CDW11).
    pub value: u32,
    /// Index into the UUID List, 7 bits, 0 for none (UIDX, CDW14 bits 6:0).
    pub uuid_index: u8,
}

impl SetFeatures {
    /// Reads the parameters; reserved bits are ignored.
    pub const fn decode(cdw10: u32, cdw11: u32, cdw14: u32) -> Self {
        Self {
            id: FeatureId(cdw10 as u8),
            save: cdw10 >> 31 != 0,
            value: cdw11,
            uuid_index: (cdw14 & 0x7F) as u8,
        }
    }

    /// Command dwords 10, 11 and 14.
    pub const fn encode(&self) -> (u32, u32, u32) {
        (self.id.0 as u32 | (self.save as u32) << 31, self.value, (self.uuid_index & 0x7F) as u32)
    }
}

/// The value of Number of Queues, counted from one (Base 5.1.25.2.1).
///
/// On the wire both are 0's based, in Set Features as requested (NSQR, NCQR) and in the completion as
/// allocated (NSQA, NCQA), so there is no way to say none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumberOfQueues {
    /// I/O submission queues (bits 15:0).
    pub submission: NonZero<u16>,
    /// I/O completion queues (bits 31:16).
    pub completion: NonZero<u16>,
}

impl NumberOfQueues {
    /// As many queues of both kinds, which is what fabrics have.
    pub const fn pairs(count: NonZero<u16>) -> Self {
        Self { submission: count, completion: count }
    }

    /// Reads the dword of a command or a completion.
    pub fn decode(dword: u32) -> Result<Self, ParseError> {
        let count = |field: u16| NonZero::new(field.wrapping_add(1)).ok_or(ParseError::NumberOfQueues);
        Ok(Self { submission: count(dword as u16)?, completion: count((dword >> 16) as u16)? })
    }

    /// The dword of a command or a completion.
    pub const fn encode(&self) -> u32 {
        (self.submission.get() - 1) as u32 | ((self.completion.get() - 1) as u32) << 16
    }
}

/// The value of Asynchronous Event Configuration: which events a host wants (Base 5.1.25.1.5).
///
/// The notices have the same bits as in OAES of Identify Controller, [`crate::identify::bits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AsyncEventConfig(pub u32);

impl AsyncEventConfig {
    /// Attached namespace attribute notices (NAN).
    pub const NAMESPACE_ATTRIBUTE: u32 = 1 << 8;
    /// Firmware activation notices (FAN).
    pub const FIRMWARE_ACTIVATION: u32 = 1 << 9;
    /// Asymmetric namespace access change notices (ANACN).
    pub const ANA_CHANGE: u32 = 1 << 11;
    /// Cross-Controller Reset completed (Base 2.3, TP8028).
    pub const CROSS_CONTROLLER_RESET: u32 = 1 << 20;
    /// Discovery log page change notification (DLPCN).
    pub const DISCOVERY_LOG_CHANGE: u32 = 1 << 31;

    /// True if all of `bits` are wanted.
    pub const fn contains(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

/// Subject of an asynchronous event (AET, Base 5.1.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncEventType(pub u8);

impl AsyncEventType {
    /// Error status (0h).
    pub const ERROR: Self = Self(0);
    /// SMART / Health status (1h).
    pub const SMART: Self = Self(1);
    /// Notice (2h).
    pub const NOTICE: Self = Self(2);
    /// I/O command set specific status (6h).
    pub const COMMAND_SET: Self = Self(6);
}

/// Completion dword 0 of an Asynchronous Event Request (Base 5.1.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncEvent {
    /// Subject, 3 bits (AET, bits 2:0).
    pub kind: AsyncEventType,
    /// Event of that kind (AEI, bits 15:8).
    pub info: u8,
    /// The log page to read, which also re-arms the event (LID, bits 23:16).
    pub log_page: LogPageId,
}

impl AsyncEvent {
    /// Attached namespace attribute changed (notice 00h).
    pub const NAMESPACE_ATTRIBUTE_CHANGED: Self = Self::notice(0x00, LogPageId::CHANGED_NAMESPACES);
    /// Firmware activation starting (notice 01h).
    pub const FIRMWARE_ACTIVATION: Self = Self::notice(0x01, LogPageId::FIRMWARE_SLOT);
    /// Asymmetric namespace access change (notice 03h).
    pub const ANA_CHANGE: Self = Self::notice(0x03, LogPageId::ANA);
    /// Discovery log page change (notice F0h).
    pub const DISCOVERY_LOG_CHANGE: Self = Self::notice(0xF0, LogPageId::DISCOVERY);
    /// Cross-Controller Reset completed (notice F4h, Base 2.3, TP8028).
    pub const CROSS_CONTROLLER_RESET_COMPLETED: Self = Self::notice(0xF4, LogPageId::CROSS_CONTROLLER_RESET);
    /// The reliability of the NVM subsystem has been compromised (SMART / Health status 00h).
    pub const RELIABILITY_DEGRADED: Self =
        Self { kind: AsyncEventType::SMART, info: 0, log_page: LogPageId::SMART };
    /// Reservation log page available (I/O command set specific 00h).
    pub const RESERVATION_LOG_AVAILABLE: Self =
        Self { kind: AsyncEventType::COMMAND_SET, info: 0, log_page: LogPageId::RESERVATION_NOTIFICATION };

    const fn notice(info: u8, log_page: LogPageId) -> Self {
        Self { kind: AsyncEventType::NOTICE, info, log_page }
    }

    /// Reads the dword; reserved bits are ignored.
    pub const fn decode(dword: u32) -> Self {
        Self {
            kind: AsyncEventType(dword as u8 & 0x7),
            info: (dword >> 8) as u8,
            log_page: LogPageId((dword >> 16) as u8),
        }
    }

    /// The dword.
    pub const fn encode(&self) -> u32 {
        (self.kind.0 & 0x7) as u32 | (self.info as u32) << 8 | (self.log_page.0 as u32) << 16
    }
}

/// Bits of the feature values that are a dword of flags (CDW11 of Set Features).
pub mod value {
    /// Interrupt Vector Configuration: the vector that is asked about (IV, Base 5.1.25.2.3).
    pub const INTERRUPT_VECTOR: u32 = 0xFFFF;
    /// Interrupt Vector Configuration: interrupts of the vector are not gathered (CD, Base 5.1.25.2.3).
    pub const COALESCING_DISABLE: u32 = 1 << 16;
    /// Error Recovery: reads of deallocated or unwritten blocks fail (DULBE, NVM 4.1.3).
    pub const DEALLOCATED_ERROR: u32 = 1 << 16;
    /// Volatile Write Cache: the cache is enabled (WCE, Base 5.1.25.1.4).
    pub const WRITE_CACHE_ENABLE: u32 = 1 << 0;
    /// Write Atomicity: only the power fail unit is needed (DN, NVM 4.1.3).
    pub const DISABLE_NORMAL_ATOMICITY: u32 = 1 << 0;
    /// Host Identifier: it has 128 bits instead of 64; fabrics have no other (EXHID, Base 5.1.25.1.28).
    pub const EXTENDED_HOST_ID: u32 = 1 << 0;
    /// Reservation Notification Mask: no Registration Preempted (REGPRE, Base 5.1.25.1.29).
    pub const MASK_REGISTRATION_PREEMPTED: u32 = 1 << 1;
    /// Reservation Notification Mask: no Reservation Released (RESREL, Base 5.1.25.1.29).
    pub const MASK_RESERVATION_RELEASED: u32 = 1 << 2;
    /// Reservation Notification Mask: no Reservation Preempted (RESPRE, Base 5.1.25.1.29).
    pub const MASK_RESERVATION_PREEMPTED: u32 = 1 << 3;
    /// Reservation Persistence: persist through power loss (PTPL, Base 5.1.25.1.30).
    pub const PERSIST_THROUGH_POWER_LOSS: u32 = 1 << 0;
    /// Namespace Write Protection Config: the bits of the state (WPS, Base 5.1.25.1.31).
    pub const WRITE_PROTECTION_MASK: u32 = 0b111;
    /// Namespace Write Protection Config: No Write Protect (WPS 000b).
    pub const WRITE_PROTECTION_NONE: u32 = 0;
    /// Namespace Write Protection Config: Write Protect (WPS 001b).
    pub const WRITE_PROTECTION_ON: u32 = 1;
    /// Namespace Write Protection Config: Write Protect Until Power Cycle (WPS 010b).
    pub const WRITE_PROTECTION_UNTIL_POWER_CYCLE: u32 = 2;
    /// Namespace Write Protection Config: Permanent Write Protect (WPS 011b).
    pub const WRITE_PROTECTION_PERMANENT: u32 = 3;
}

/// Timestamp data structure (Base 5.1.25.1.7).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Timestamp {
    /// Milliseconds, little-endian: since 1970-01-01 UTC if the host set it, else since a reset (TSTMP).
    pub milliseconds: [u8; 6],
    /// Synch in bit 0, set if the clock stopped at times; origin 3:1, 001b if the host set it (TSA).
    pub attributes: u8,
    /// Reserved.
    pub reserved_7: u8,
}

const _: () = assert!(size_of::<Timestamp>() == 8);

impl Timestamp {
    /// The host set the clock; since the last reset if clear (Timestamp Origin 001b).
    pub const SET_BY_HOST: u8 = 0b001 << 1;

    /// A timestamp; milliseconds past the 48 bits there are, in the year 10889, are cut off.
    pub const fn new(milliseconds: u64, attributes: u8) -> Self {
        let [a, b, c, d, e, f, _, _] = milliseconds.to_le_bytes();
        Self { milliseconds: [a, b, c, d, e, f], attributes, reserved_7: 0 }
    }

    /// Milliseconds of the timestamp.
    pub const fn milliseconds(&self) -> u64 {
        let [a, b, c, d, e, f] = self.milliseconds;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

/// Host Behavior Support data structure (Base 5.1.25.1.14).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct HostBehavior {
    /// 1 if the host obeys the command retry delay (ACRE).
    pub advanced_command_retry: u8,
    /// 1 if the host handles telemetry data area 4 (ETDAS).
    pub telemetry_area_4: u8,
    /// 1 if the host handles extended LBA formats (LBAFEE).
    pub lba_format_extension: u8,
    /// 1 if the host handles dispersed namespaces (HDISNS).
    pub dispersed_namespaces: u8,
    /// Copy descriptor formats 2h to 4h the host wants enabled, by bit (CDFE).
    pub copy_descriptor_formats: U16,
    /// Reserved.
    pub reserved_6: [u8; 506],
}

const _: () = assert!(size_of::<HostBehavior>() == 512);

zeroed_default!(HostBehavior);
