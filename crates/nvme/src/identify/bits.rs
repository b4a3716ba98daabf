//! The bits inside the fields of the Identify data structures: one module a field, by the field's name.
//!
//! The structures themselves are one level up.

/// Multi-path I/O and namespace sharing capabilities of a controller (CMIC, Base 5.1.13.2.1).
pub mod multipath_capabilities {
    /// The subsystem may have more than one port (MPORTS).
    pub const MULTIPLE_PORTS: u8 = 1 << 0;
    /// The subsystem may have more than one controller (MCTRS).
    pub const MULTIPLE_CONTROLLERS: u8 = 1 << 1;
    /// The controller is an SR-IOV virtual function (FT).
    pub const SR_IOV: u8 = 1 << 2;
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
    /// Firmware activation notices (FAN).
    pub const FIRMWARE_ACTIVATION: u32 = 1 << 9;
    /// Asymmetric namespace access change notices (ANACN).
    pub const ANA_CHANGE: u32 = 1 << 11;
    /// Predictable latency event aggregate log change notices (PLEAN).
    pub const PREDICTABLE_LATENCY: u32 = 1 << 12;
    /// LBA status information alert notices (LSIAN).
    pub const LBA_STATUS: u32 = 1 << 13;
    /// Endurance group event aggregate log page change notices (EGEAN).
    pub const ENDURANCE_GROUP: u32 = 1 << 14;
    /// Normal NVM subsystem shutdown (NNSS).
    pub const SUBSYSTEM_SHUTDOWN: u32 = 1 << 15;
    /// Temperature threshold hysteresis recovery (TTHR).
    pub const TEMPERATURE_RECOVERY: u32 = 1 << 16;
    /// Reachability groups change notices (RGCNS).
    pub const REACHABILITY_GROUPS: u32 = 1 << 17;
    /// Allocated namespace attribute notices (ANSAN).
    pub const ALLOCATED_NAMESPACE_ATTRIBUTE: u32 = 1 << 19;
    /// Cross-Controller Reset completed (Base 2.3, TP8028).
    pub const CROSS_CONTROLLER_RESET: u32 = 1 << 20;
    /// Zone descriptor changed notices (ZDCN).
    pub const ZONE_DESCRIPTOR: u32 = 1 << 27;
    /// Discovery log page change notification (DLPCN).
    pub const DISCOVERY_LOG_CHANGE: u32 = 1 << 31;
}

/// Controller attributes (CTRATT, Base 5.1.13.2.1).
pub mod controller_attributes {
    /// 128-bit host identifiers (HIDS).
    pub const HOST_ID_128_BIT: u32 = 1 << 0;
    /// Non-operational power state permissive mode (NOPSPM).
    pub const NON_OPERATIONAL_POWER_STATE: u32 = 1 << 1;
    /// NVM sets (NSETS).
    pub const NVM_SETS: u32 = 1 << 2;
    /// Read recovery levels (RRLVLS).
    pub const READ_RECOVERY_LEVELS: u32 = 1 << 3;
    /// Endurance groups (EGS).
    pub const ENDURANCE_GROUPS: u32 = 1 << 4;
    /// Predictable latency mode (PLM).
    pub const PREDICTABLE_LATENCY: u32 = 1 << 5;
    /// Traffic based Keep Alive: any command restarts the timer (TBKAS).
    pub const TRAFFIC_BASED_KEEP_ALIVE: u32 = 1 << 6;
    /// Namespace granularity (NG).
    pub const NAMESPACE_GRANULARITY: u32 = 1 << 7;
    /// Submission queue associations (SQA).
    pub const QUEUE_ASSOCIATIONS: u32 = 1 << 8;
    /// UUID list (ULIST).
    pub const UUID_LIST: u32 = 1 << 9;
    /// Multi-domain subsystem (MDS).
    pub const MULTI_DOMAIN: u32 = 1 << 10;
    /// Fixed capacity management (FCM).
    pub const FIXED_CAPACITY: u32 = 1 << 11;
    /// Variable capacity management (VCM).
    pub const VARIABLE_CAPACITY: u32 = 1 << 12;
    /// Delete endurance group (DEG).
    pub const DELETE_ENDURANCE_GROUP: u32 = 1 << 13;
    /// Delete NVM set (DNVMS).
    pub const DELETE_NVM_SET: u32 = 1 << 14;
    /// Extended LBA formats (ELBAS).
    pub const EXTENDED_LBA_FORMATS: u32 = 1 << 15;
    /// The maximum data transfer size does not count interleaved metadata (MEM).
    pub const TRANSFER_SIZE_EXCLUDES_METADATA: u32 = 1 << 16;
    /// Host memory buffer restrict non-operational power state access (HMBR).
    pub const HOST_MEMORY_RESTRICTION: u32 = 1 << 17;
    /// Reservations and host identifier interaction (RHII).
    pub const RESERVATION_HOST_ID: u32 = 1 << 18;
    /// Flexible data placement (FDPS).
    pub const FLEXIBLE_DATA_PLACEMENT: u32 = 1 << 19;
}

/// Optional Admin commands supported (OACS, Base 5.1.13.2.1).
pub mod optional_admin_commands {
    /// Security Send and Security Receive (SSRS).
    pub const SECURITY: u16 = 1 << 0;
    /// Format NVM (FNVMS).
    pub const FORMAT_NVM: u16 = 1 << 1;
    /// Firmware Commit and Firmware Image Download (FWDS).
    pub const FIRMWARE: u16 = 1 << 2;
    /// Namespace Management and Namespace Attachment (NMS).
    pub const NAMESPACE_MANAGEMENT: u16 = 1 << 3;
    /// Device Self-test (DSTS).
    pub const SELF_TEST: u16 = 1 << 4;
    /// Directive Send and Directive Receive (DIRS).
    pub const DIRECTIVES: u16 = 1 << 5;
    /// NVMe-MI Send and NVMe-MI Receive (NSRS).
    pub const MANAGEMENT_INTERFACE: u16 = 1 << 6;
    /// Virtualization Management (VMS).
    pub const VIRTUALIZATION: u16 = 1 << 7;
    /// Doorbell Buffer Config (DBCS).
    pub const DOORBELL_BUFFER: u16 = 1 << 8;
    /// Get LBA Status (GLSS).
    pub const GET_LBA_STATUS: u16 = 1 << 9;
    /// Command and Feature Lockdown (CFLS).
    pub const LOCKDOWN: u16 = 1 << 10;
    /// Host managed live migration (HMLMS).
    pub const LIVE_MIGRATION: u16 = 1 << 11;
}

/// Firmware updates (FRMW, Base 5.1.13.2.1).
pub mod firmware_updates {
    /// The first slot is read only (FFSRO).
    pub const FIRST_SLOT_READ_ONLY: u8 = 1 << 0;
    /// Lowest bit of the number of slots, bits 3:1, which is 1 to 7 (NOFS).
    pub const SLOTS_SHIFT: u8 = 1;
    /// Activation without reset (FAWR).
    pub const ACTIVATION_WITHOUT_RESET: u8 = 1 << 4;
    /// Overlapping updates are detected (SMUD).
    pub const OVERLAP_DETECTION: u8 = 1 << 5;
}

/// Log page attributes (LPA, Base 5.1.13.2.1).
pub mod log_page_attributes {
    /// SMART / Health Information of each namespace (SMARTS).
    pub const SMART_PER_NAMESPACE: u8 = 1 << 0;
    /// Commands Supported and Effects (CSES).
    pub const COMMANDS_SUPPORTED: u8 = 1 << 1;
    /// Get Log Page with a 32-bit length and an offset (LPEDS).
    pub const EXTENDED_DATA: u8 = 1 << 2;
    /// Telemetry (TS).
    pub const TELEMETRY: u8 = 1 << 3;
    /// Persistent Event (PES).
    pub const PERSISTENT_EVENT: u8 = 1 << 4;
    /// Supported Log Pages, Feature Identifiers Supported and the like, and command scopes (MLPS).
    pub const MISCELLANEOUS: u8 = 1 << 5;
    /// Telemetry data area 4 (DA4S).
    pub const TELEMETRY_AREA_4: u8 = 1 << 6;
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
    /// A namespace keeps its group while it is attached to any controller (NCANAGRPID).
    pub const GROUP_ID_STABLE: u8 = 1 << 6;
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
    /// The Save bit of Set Features and the Select field of Get Features (SSFS).
    pub const SAVE_AND_SELECT: u16 = 1 << 4;
    /// Reservations (RESERVS).
    pub const RESERVATIONS: u16 = 1 << 5;
    /// Timestamp feature (TSS).
    pub const TIMESTAMP: u16 = 1 << 6;
    /// Verify (NVMVFYS).
    pub const VERIFY: u16 = 1 << 7;
    /// Copy (NVMCPYS).
    pub const COPY: u16 = 1 << 8;
    /// The write part of Copy is one atomic write (NVMCSA).
    pub const COPY_ATOMICITY: u16 = 1 << 9;
    /// All copies are fast (NVMAFC).
    pub const ALL_FAST_COPY: u16 = 1 << 10;
    /// Write Zeroes with Deallocate has its own maximum size (MAXWZD).
    pub const WRITE_ZEROES_DEALLOCATE_SIZE: u16 = 1 << 11;
    /// Namespace Zeroes: one Write Zeroes for the whole namespace (NSZS).
    pub const NAMESPACE_ZEROES: u16 = 1 << 12;
}

/// Fused operations supported (FUSES, Base 5.1.13.2.1).
pub mod fused_operations {
    /// Compare and Write (FCWS).
    pub const COMPARE_AND_WRITE: u16 = 1 << 0;
}

/// Format NVM attributes (FNA, Base 5.1.13.2.1).
pub mod format_attributes {
    /// A format applies to all namespaces (FNS).
    pub const FORMATS_ALL: u8 = 1 << 0;
    /// A secure erase applies to all namespaces (SENS).
    pub const ERASES_ALL: u8 = 1 << 1;
    /// Cryptographic erase (CRYES).
    pub const CRYPTOGRAPHIC_ERASE: u8 = 1 << 2;
    /// Format does not support NSID FFFFFFFFh (BCNSID).
    pub const NO_BROADCAST: u8 = 1 << 3;
}

/// Volatile write cache (VWC, Base 5.1.13.2.1).
pub mod volatile_write_cache {
    /// There is a volatile write cache (VWCP).
    pub const PRESENT: u8 = 1 << 0;
    /// Flush does not support NSID FFFFFFFFh (FB 10b).
    pub const FLUSH_ALL_UNSUPPORTED: u8 = 0b10 << 1;
    /// Flush supports NSID FFFFFFFFh (FB 11b).
    pub const FLUSH_ALL_SUPPORTED: u8 = 0b11 << 1;
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
    /// Between namespaces, with tags of a 16-bit guard (CDF2S).
    pub const FORMAT_2: u16 = 1 << 2;
    /// Between namespaces, with tags of a 32-bit or 64-bit guard (CDF3S).
    pub const FORMAT_3: u16 = 1 << 3;
    /// From subsystem local memory (CDF4S).
    pub const FORMAT_4: u16 = 1 << 4;
}

/// SGL support (SGLS, Base 5.1.13.2.1).
pub mod sgl_support {
    /// SGLs, with no alignment needed (SGLS 01b).
    pub const BYTE_ALIGNED: u32 = 0b01;
    /// SGLs, aligned to dwords (SGLS 10b).
    pub const DWORD_ALIGNED: u32 = 0b10;
    /// Keyed SGL Data Block descriptors (KSDBDS).
    pub const KEYED: u32 = 1 << 2;
    /// Lowest bit of the recommended maximum number of descriptors, bits 15:8 (SDT).
    pub const DESCRIPTOR_THRESHOLD_SHIFT: u32 = 8;
    /// SGL Bit Bucket descriptors (SBBDS).
    pub const BIT_BUCKET: u32 = 1 << 16;
    /// A contiguous metadata buffer at any byte (MBACMBS).
    pub const METADATA_BYTE_ALIGNED: u32 = 1 << 17;
    /// An SGL may be longer than the data (SLLDTS).
    pub const OVERSIZE: u32 = 1 << 18;
    /// The metadata pointer may hold an SGL segment (MSDS).
    pub const METADATA_SGL: u32 = 1 << 19;
    /// The address of a descriptor may be an offset: in-capsule data needs it (SAOS).
    pub const OFFSET: u32 = 1 << 20;
    /// Transport SGL Data Block descriptors: data by the transport needs it (TSDBDS).
    pub const TRANSPORT: u32 = 1 << 21;
}

/// Fabrics controller attributes (FCATT, Base 5.1.13.2.1).
pub mod fabrics_attributes {
    /// The static controller model; the dynamic one if clear (DCM).
    pub const STATIC_CONTROLLERS: u8 = 1 << 0;
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
    /// Centralized Discovery controller (CDC).
    pub const CENTRALIZED: u8 = 2;
}

/// Namespace features (NSFEAT, NVM 4.1.5.1).
pub mod features {
    /// Thin provisioning (THINP).
    pub const THIN_PROVISIONING: u8 = 1 << 0;
    /// The namespace's own atomic write units hold (NSABPNS).
    pub const ATOMIC_WRITE_UNITS: u8 = 1 << 1;
    /// Reads of deallocated blocks can be made to fail (DAE).
    pub const DEALLOCATED_ERROR: u8 = 1 << 2;
    /// NGUID and EUI64 are never used again (UIDREUSE).
    pub const IDS_NOT_REUSED: u8 = 1 << 3;
    /// The preferred granularities and the optimal write size hold (OPTPERF 01b).
    pub const OPTIMAL_PERFORMANCE: u8 = 1 << 4;
    /// Multiple atomicity mode (MAM).
    pub const MULTIPLE_ATOMICITY: u8 = 1 << 6;
    /// The preferred read granularity and the optimal read size hold (OPTRPERF).
    pub const OPTIMAL_READ_PERFORMANCE: u8 = 1 << 7;
}

/// Common namespace features (NSFEAT, Base Figure 319).
pub mod common_features {
    /// NGUID and EUI64 are never used again (UIDREUSE).
    pub const IDS_NOT_REUSED: u8 = 1 << 3;
    /// The namespace has no volatile write cache, whatever the controller says (VWCNP).
    pub const NO_VOLATILE_WRITE_CACHE: u8 = 1 << 5;
}

/// Multi-path I/O and sharing capabilities of a namespace (NMIC, NVM 4.1.5.1).
pub mod sharing {
    /// More than one controller may have the namespace attached (SHRNS).
    pub const SHARED: u8 = 1 << 0;
    /// The namespace is dispersed over subsystems (DISNS).
    pub const DISPERSED: u8 = 1 << 1;
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
    /// A deallocated block reads as all ones (DRB 010b).
    pub const READS_ONES: u8 = 0b010;
    /// Write Zeroes takes the Deallocate bit (WZDS).
    pub const WRITE_ZEROES_DEALLOCATE: u8 = 1 << 3;
    /// The guard of a deallocated block is its CRC (GDS).
    pub const GUARD_IS_CRC: u8 = 1 << 4;
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
