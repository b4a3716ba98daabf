//! The bits inside the fields of the Identify data structures: one module a field, by the field's name.
//!
//! The structures themselves are one level up.

/// Multi-path I/O and namespace sharing capabilities of a controller (CMIC, Base 5.1.13.2.1).
pub mod multipath_capabilities {
    /// The subsystem may have more than one port (MPORTS).
    pub const MULTIPLE_PORTS: u8 = 1 << 0;
    /// The subsystem may have more than one controller (MCTRS).
    pub const MULTIPLE_CONTROLLERS: u8 = 1 << 1;
    /// Asymmetric namespace access is reported (ANARS).
    pub const ANA_REPORTING: u8 = 1 << 3;
}

/// Kinds of controller (CNTRLTYPE, Base 5.1.13.2.1).
pub mod controller_type {
    /// I/O controller.
    pub const IO: u8 = 1;
    /// Discovery controller.
    pub const DISCOVERY: u8 = 2;
    /// Administrative controller.
    pub const ADMINISTRATIVE: u8 = 3;
}

/// Optional asynchronous events supported (OAES, Base 5.1.13.2.1): the notices a host can enable.
pub mod optional_async_events {
    /// Attached namespace attribute notices (NSAN).
    pub const NAMESPACE_ATTRIBUTE: u32 = 1 << 8;
    /// Asymmetric namespace access change notices (ANACN).
    pub const ANA_CHANGE: u32 = 1 << 11;
    /// Cross-Controller Reset completed (Base 2.3, TP8028).
    pub const CROSS_CONTROLLER_RESET: u32 = 1 << 20;
    /// Discovery log page change notification (DLPCN).
    pub const DISCOVERY_LOG_CHANGE: u32 = 1 << 31;
}

/// Controller attributes (CTRATT, Base 5.1.13.2.1).
pub mod controller_attributes {
    /// 128-bit host identifiers (HIDS).
    pub const HOST_ID_128_BIT: u32 = 1 << 0;
    /// Traffic based Keep Alive: any command restarts the timer (TBKAS).
    pub const TRAFFIC_BASED_KEEP_ALIVE: u32 = 1 << 6;
    /// Reservations and host identifier interaction (RHII).
    pub const RESERVATION_HOST_ID: u32 = 1 << 18;
}

/// Optional Admin commands supported (OACS, Base 5.1.13.2.1).
pub mod optional_admin_commands {
    /// Namespace Management and Namespace Attachment (NMS).
    pub const NAMESPACE_MANAGEMENT: u16 = 1 << 3;
    /// Get LBA Status (GLSS).
    pub const GET_LBA_STATUS: u16 = 1 << 9;
}

/// Firmware updates (FRMW, Base 5.1.13.2.1).
pub mod firmware_updates {
    /// The first slot is read only (FFSRO).
    pub const FIRST_SLOT_READ_ONLY: u8 = 1 << 0;
    /// Lowest bit of the number of slots, bits 3:1, which is 1 to 7 (NOFS).
    pub const SLOTS_SHIFT: u8 = 1;
}

/// Log page attributes (LPA, Base 5.1.13.2.1).
pub mod log_page_attributes {
    /// Commands Supported and Effects (CSES).
    pub const COMMANDS_SUPPORTED: u8 = 1 << 1;
    /// Get Log Page with a 32-bit length and an offset (LPEDS).
    pub const EXTENDED_DATA: u8 = 1 << 2;
}

/// ANA states a controller reports, and what its group identifiers do (ANACAP, Base 5.1.13.2.1).
pub mod ana_capabilities {
    /// Reports the optimized state (ROS).
    pub const OPTIMIZED: u8 = 1 << 0;
    /// Reports the non-optimized state (RNOS).
    pub const NON_OPTIMIZED: u8 = 1 << 1;
    /// Reports the inaccessible state (RIS).
    pub const INACCESSIBLE: u8 = 1 << 2;
    /// Reports the persistent loss state (RPLS).
    pub const PERSISTENT_LOSS: u8 = 1 << 3;
    /// Reports the change state (RCS).
    pub const CHANGE: u8 = 1 << 4;
    /// Namespace Management takes a group identifier (NZANAGRPID).
    pub const GROUP_ID_MANAGED: u8 = 1 << 7;
}

/// Optional NVM commands supported (ONCS, Base 5.1.13.2.1).
pub mod optional_nvm_commands {
    /// Compare (NVMCMPS).
    pub const COMPARE: u16 = 1 << 0;
    /// Write Uncorrectable (NVMWUSV).
    pub const WRITE_UNCORRECTABLE: u16 = 1 << 1;
    /// Dataset Management (NVMDSMSV).
    pub const DATASET_MANAGEMENT: u16 = 1 << 2;
    /// Write Zeroes (NVMWZSV).
    pub const WRITE_ZEROES: u16 = 1 << 3;
    /// Reservations (RESERVS).
    pub const RESERVATIONS: u16 = 1 << 5;
    /// Timestamp feature (TSS).
    pub const TIMESTAMP: u16 = 1 << 6;
    /// Verify (NVMVFYS).
    pub const VERIFY: u16 = 1 << 7;
    /// Copy (NVMCPYS).
    pub const COPY: u16 = 1 << 8;
}

/// Fused operations supported (FUSES, Base 5.1.13.2.1).
pub mod fused_operations {
    /// Compare and Write (FCWS).
    pub const COMPARE_AND_WRITE: u16 = 1 << 0;
}

/// Volatile write cache (VWC, Base 5.1.13.2.1).
pub mod volatile_write_cache {
    /// There is a volatile write cache (VWCP).
    pub const PRESENT: u8 = 1 << 0;
    /// Flush does not support NSID FFFFFFFFh (FB 10b).
    pub const FLUSH_ALL_UNSUPPORTED: u8 = 0b10 << 1;
}

/// Namespace write protection capabilities (NWPC, Base 5.1.13.2.1).
pub mod write_protection {
    /// No Write Protect and Write Protect (NWPWPS).
    pub const WRITE_PROTECT: u8 = 1 << 0;
    /// Write Protect Until Power Cycle (WPUPCS).
    pub const UNTIL_POWER_CYCLE: u8 = 1 << 1;
    /// Permanent Write Protect (PWPS).
    pub const PERMANENT: u8 = 1 << 2;
}

/// Copy descriptor formats supported (CDFS, once OCFS, Base 5.1.13.2.1).
pub mod copy_descriptor_formats {
    /// Within a namespace, with tags of a 16-bit guard (CDF0S).
    pub const FORMAT_0: u16 = 1 << 0;
    /// Within a namespace, with tags of a 32-bit or 64-bit guard (CDF1S).
    pub const FORMAT_1: u16 = 1 << 1;
}

/// SGL support (SGLS, Base 5.1.13.2.1).
pub mod sgl_support {
    /// SGLs, with no alignment needed (SGLS 01b).
    pub const BYTE_ALIGNED: u32 = 0b01;
    /// An SGL may be longer than the data (SLLDTS).
    pub const OVERSIZE: u32 = 1 << 18;
    /// The address of a descriptor may be an offset: in-capsule data needs it (SAOS).
    pub const OFFSET: u32 = 1 << 20;
    /// Transport SGL Data Block descriptors: data by the transport needs it (TSDBDS).
    pub const TRANSPORT: u32 = 1 << 21;
}

/// Optional fabrics commands supported (OFCS, Base 5.1.13.2.1).
pub mod optional_fabrics_commands {
    /// Disconnect, so that I/O queues can be deleted (DISS).
    pub const DISCONNECT: u16 = 1 << 0;
}

/// Kinds of Discovery controller (DCTYPE, Base 5.1.13.2.1).
pub mod discovery_controller_type {
    /// Direct Discovery controller (DDC).
    pub const DIRECT: u8 = 1;
}

/// Namespace features (NSFEAT, NVM 4.1.5.1).
pub mod features {
    /// Thin provisioning (THINP).
    pub const THIN_PROVISIONING: u8 = 1 << 0;
    /// The namespace's own atomic write units hold (NSABPNS).
    pub const ATOMIC_WRITE_UNITS: u8 = 1 << 1;
    /// The preferred granularities and the optimal write size hold (OPTPERF 01b).
    pub const OPTIMAL_PERFORMANCE: u8 = 1 << 4;
}

/// Common namespace features (NSFEAT, Base Figure 319).
pub mod common_features {
    /// The namespace has no volatile write cache, whatever the controller says (VWCNP).
    pub const NO_VOLATILE_WRITE_CACHE: u8 = 1 << 5;
}

/// Multi-path I/O and sharing capabilities of a namespace (NMIC, NVM 4.1.5.1).
pub mod sharing {
    /// More than one controller may have the namespace attached (SHRNS).
    pub const SHARED: u8 = 1 << 0;
}

/// Reservation capabilities (RESCAP, NVM 4.1.5.1).
pub mod reservation_capabilities {
    /// Persist through power loss (PTPLS).
    pub const PERSIST_THROUGH_POWER_LOSS: u8 = 1 << 0;
    /// Write Exclusive (WES).
    pub const WRITE_EXCLUSIVE: u8 = 1 << 1;
    /// Exclusive Access (EAS).
    pub const EXCLUSIVE_ACCESS: u8 = 1 << 2;
    /// Write Exclusive - Registrants Only (WEROS).
    pub const WRITE_EXCLUSIVE_REGISTRANTS_ONLY: u8 = 1 << 3;
    /// Exclusive Access - Registrants Only (EAROS).
    pub const EXCLUSIVE_ACCESS_REGISTRANTS_ONLY: u8 = 1 << 4;
    /// Write Exclusive - All Registrants (WEARS).
    pub const WRITE_EXCLUSIVE_ALL_REGISTRANTS: u8 = 1 << 5;
    /// Exclusive Access - All Registrants (EAARS).
    pub const EXCLUSIVE_ACCESS_ALL_REGISTRANTS: u8 = 1 << 6;
    /// Ignore Existing Key as of revision 1.3 or later (IEKD).
    pub const IGNORE_EXISTING_KEY: u8 = 1 << 7;
}

/// Deallocate logical block features (DLFEAT, NVM 4.1.5.1).
pub mod deallocate_features {
    /// A deallocated block reads as zeroes (DRB 001b).
    pub const READS_ZEROES: u8 = 0b001;
    /// Write Zeroes takes the Deallocate bit (WZDS).
    pub const WRITE_ZEROES_DEALLOCATE: u8 = 1 << 3;
}

/// Namespace attributes (NSATTR, Base Figure 319).
pub mod attributes {
    /// The namespace is write protected now, for whatever reason (CWP).
    pub const WRITE_PROTECTED: u8 = 1 << 0;
}

/// Namespace status (NSTAT, Base Figure 319).
pub mod status {
    /// The namespace is ready (NRDY).
    pub const READY: u8 = 1 << 0;
}
