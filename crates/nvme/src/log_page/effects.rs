//! The log pages that say what a controller supports: log pages, commands, features.
//!
//! What this implementation supports is filled in by the target.

use super::LogPageId;
use crate::features::FeatureId;
use crate::identify::zeroed_default;
use core::mem::offset_of;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Supported Log Pages log page (LID 00h, Base 5.1.12.1.1).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SupportedLogPages {
    /// By log page identifier: [`log_page_support`] (LIDS0 to LIDS255).
    pub pages: [U32; 256],
}

const _: () = assert!(size_of::<SupportedLogPages>() == 1024);

impl SupportedLogPages {
    /// Says that a log page is supported, with a parameter whose meaning the log page gives (LIDSP).
    pub fn set(&mut self, id: LogPageId, flags: u16, parameter: u16) {
        self.pages[usize::from(id.0)] = (u32::from(parameter) << 16 | u32::from(flags)).into();
    }

    /// Whether a log page is supported (LSUPP).
    pub const fn supports(&self, id: LogPageId) -> bool {
        self.pages[id.0 as usize].get() & log_page_support::SUPPORTED as u32 != 0
    }
}

/// Bits of the LID Supported and Effects data structure (Base 5.1.12.1.1, Figure 204).
pub mod log_page_support {
    /// The log page is supported (LSUPP).
    pub const SUPPORTED: u16 = 1 << 0;
    /// Its offset can be an index (IOS).
    pub const INDEX_OFFSET: u16 = 1 << 1;
}

/// Commands Supported and Effects log page (LID 05h, Base 5.1.12.1.6).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CommandsSupported {
    /// Admin commands by opcode: [`command_effects`] (ACS0 to ACS255).
    pub admin: [U32; 256],
    /// I/O commands by opcode: [`command_effects`] (IOCS0 to IOCS255).
    pub io: [U32; 256],
    /// Reserved.
    pub reserved_2048: [u8; 2048],
}

const _: () = assert!(size_of::<CommandsSupported>() == 4096);
const _: () = assert!(offset_of!(CommandsSupported, io) == 1024);

/// Bits of the Commands Supported and Effects data structure (Base 5.1.12.1.6).
pub mod command_effects {
    /// The command is supported (CSUPP).
    pub const SUPPORTED: u32 = 1 << 0;
    /// It may change user data (LBCC).
    pub const CONTENT_CHANGE: u32 = 1 << 1;
    /// It may change the capabilities of a namespace (NCC).
    pub const NAMESPACE_CAPABILITY_CHANGE: u32 = 1 << 2;
    /// It may change which namespaces there are (NIC).
    pub const NAMESPACE_INVENTORY_CHANGE: u32 = 1 << 3;
    /// It may change the capabilities of the controller (CCC).
    pub const CONTROLLER_CAPABILITY_CHANGE: u32 = 1 << 4;
    /// Lowest bit of the relaxations of the next field, bits 15:14 (CSER).
    pub const RELAXATION_SHIFT: u32 = 14;
    /// The bits that say what may run beside it (CSE).
    pub const EXCLUSION_MASK: u32 = 0b111 << 16;
    /// No other command to the same namespace may run beside it (CSE 001b).
    pub const EXCLUSIVE_IN_NAMESPACE: u32 = 0b001 << 16;
    /// No other command to any namespace may run beside it (CSE 010b).
    pub const EXCLUSIVE_IN_CONTROLLER: u32 = 0b010 << 16;
    /// A UUID index can be given (USS).
    pub const UUID_SELECTION: u32 = 1 << 19;
    /// Its scope is a namespace (CSP bit 0).
    pub const SCOPE_NAMESPACE: u32 = 1 << 20;
    /// Its scope is the controller (CSP bit 1).
    pub const SCOPE_CONTROLLER: u32 = 1 << 21;
    /// Its scope is the NVM subsystem (CSP bit 5).
    pub const SCOPE_SUBSYSTEM: u32 = 1 << 25;
}

/// Feature Identifiers Supported and Effects log page (LID 12h, Base 5.1.12.1.18).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FeatureIdentifiersSupported {
    /// By feature identifier: [`feature_effects`] (FIS0 to FIS255).
    pub features: [U32; 256],
}

const _: () = assert!(size_of::<FeatureIdentifiersSupported>() == 1024);

impl FeatureIdentifiersSupported {
    /// Says that a feature is supported and what setting it does.
    pub fn set(&mut self, id: FeatureId, effects: u32) {
        self.features[usize::from(id.0)] = effects.into();
    }

    /// Whether a feature is supported (FSUPP).
    pub const fn supports(&self, id: FeatureId) -> bool {
        self.features[id.0 as usize].get() & feature_effects::SUPPORTED != 0
    }
}

/// Bits of the FID Supported and Effects data structure (Base 5.1.12.1.18).
pub mod feature_effects {
    /// The feature is supported (FSUPP).
    pub const SUPPORTED: u32 = 1 << 0;
    /// Setting it may change user data (UDCC).
    pub const CONTENT_CHANGE: u32 = 1 << 1;
    /// Setting it may change the capabilities of a namespace (NCC).
    pub const NAMESPACE_CAPABILITY_CHANGE: u32 = 1 << 2;
    /// Setting it may change which namespaces there are (NIC).
    pub const NAMESPACE_INVENTORY_CHANGE: u32 = 1 << 3;
    /// Setting it may change the capabilities of the controller (CCC).
    pub const CONTROLLER_CAPABILITY_CHANGE: u32 = 1 << 4;
    /// A UUID index can be given (USS).
    pub const UUID_SELECTION: u32 = 1 << 19;
    /// Its scope is a namespace (FSP bit 0).
    pub const SCOPE_NAMESPACE: u32 = 1 << 20;
    /// Its scope is the controller (FSP bit 1).
    pub const SCOPE_CONTROLLER: u32 = 1 << 21;
    /// Its scope is the NVM subsystem (FSP bit 5).
    pub const SCOPE_SUBSYSTEM: u32 = 1 << 25;
}

zeroed_default!(SupportedLogPages, CommandsSupported, FeatureIdentifiersSupported);
