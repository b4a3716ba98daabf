//! The log pages that say what a controller supports: log pages, commands and features.
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

    /// True if a log page is supported (LSUPP).
    pub const fn supports(&self, id: LogPageId) -> bool {
        self.pages[id.0 as usize].get() & log_page_support::SUPPORTED as u32 != 0
    }
}

/// Bits of the LID Supported and Effects data structure (Base 5.1.12.1.1, Figure 204).
pub mod log_page_support {
    /// The log page is supported (LSUPP).
    pub const SUPPORTED: u16 = 1 << 0;
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
    /// Change of user data (LBCC).
    pub const CONTENT_CHANGE: u32 = 1 << 1;
    /// Change of the set of namespaces (NIC).
    pub const NAMESPACE_INVENTORY_CHANGE: u32 = 1 << 3;
}

/// Feature Identifiers Supported and Effects log page (LID 12h, Base 5.1.12.1.18).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FeaturesSupported {
    /// By feature identifier: [`feature_effects`] (FIS0 to FIS255).
    pub features: [U32; 256],
}

const _: () = assert!(size_of::<FeaturesSupported>() == 1024);

impl FeaturesSupported {
    /// Says that a feature is supported, with its scope: bits of [`feature_effects`].
    pub fn set(&mut self, id: FeatureId, scope: u32) {
        self.features[usize::from(id.0)] = (feature_effects::SUPPORTED | scope).into();
    }

    /// True if a feature is supported (FSUPP).
    pub const fn supports(&self, id: FeatureId) -> bool {
        self.features[id.0 as usize].get() & feature_effects::SUPPORTED != 0
    }
}

/// Bits of the FID Supported and Effects data structure (Base 5.1.12.1.18).
pub mod feature_effects {
    /// The feature is supported (FSUPP).
    pub const SUPPORTED: u32 = 1 << 0;
    /// Each namespace has its own value (FSP bit 0).
    pub const NAMESPACE_SCOPE: u32 = 1 << 20;
    /// Each controller has its own value (FSP bit 1).
    pub const CONTROLLER_SCOPE: u32 = 1 << 21;
}

zeroed_default!(SupportedLogPages, CommandsSupported, FeaturesSupported);
