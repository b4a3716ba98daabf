//! The Identify Controller data structures, byte for byte as they travel.
//!
//! The bits inside the fields are in [`super::bits`]; values a target reports are chosen by the target.

use super::{IDENTIFY_BYTES, zeroed_default};
use core::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Identify Controller data structure (CNS 01h, Base 5.1.13.2.1, Figure 312).
///
/// The fields of Cross-Controller Reset (Base 2.3, TP8028) are here too: they are zero where it is unknown.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IdentifyController {
    /// PCI vendor ID (VID).
    pub pci_vendor_id: U16,
    /// PCI subsystem vendor ID (SSVID).
    pub pci_subsystem_vendor_id: U16,
    /// Serial number, ASCII (SN).
    pub serial_number: [u8; 20],
    /// Model number, ASCII (MN).
    pub model_number: [u8; 40],
    /// Firmware revision, ASCII (FR).
    pub firmware_revision: [u8; 8],
    /// Recommended arbitration burst as a power of two (RAB).
    pub recommended_arbitration_burst: u8,
    /// IEEE OUI, least significant byte first (IEEE).
    pub ieee_oui: [u8; 3],
    /// Multi-path I/O and namespace sharing capabilities (CMIC).
    pub multipath_capabilities: u8,
    /// Maximum data transfer size as a power of two of the minimum page size, 0 for no limit (MDTS).
    pub max_data_transfer_size: u8,
    /// Controller ID (CNTLID).
    pub controller_id: U16,
    /// Version of the Base Specification: major 31:16, minor 15:8, tertiary 7:0 (VER).
    pub version: U32,
    /// RTD3 resume latency in microseconds (RTD3R).
    pub rtd3_resume_latency_us: U32,
    /// RTD3 entry latency in microseconds (RTD3E).
    pub rtd3_entry_latency_us: U32,
    /// Optional asynchronous events supported (OAES).
    pub optional_async_events: U32,
    /// Controller attributes (CTRATT).
    pub controller_attributes: U32,
    /// Read recovery levels supported (RRLS).
    pub read_recovery_levels: U16,
    /// Boot partition capabilities (BPCAP).
    pub boot_partition_capabilities: u8,
    /// Reserved.
    pub reserved_103: u8,
    /// NVM subsystem shutdown latency in microseconds (NSSL).
    pub subsystem_shutdown_latency_us: U32,
    /// Reserved.
    pub reserved_108: [u8; 2],
    /// Power loss signaling information (PLSI).
    pub power_loss_signaling: u8,
    /// Controller type (CNTRLTYPE).
    pub controller_type: u8,
    /// FRU globally unique identifier (FGUID).
    pub fru_guid: [u8; 16],
    /// Command retry delay time 1, in 100 ms (CRDT1).
    pub command_retry_delay_1: U16,
    /// Command retry delay time 2, in 100 ms (CRDT2).
    pub command_retry_delay_2: U16,
    /// Command retry delay time 3, in 100 ms (CRDT3).
    pub command_retry_delay_3: U16,
    /// Controller reachability capabilities (CRCAP).
    pub reachability_capabilities: u8,
    /// Controller instance uniquifier (CIU, Base 2.3, TP8028).
    pub instance_uniquifier: u8,
    /// Controller instance random number (CIRN, Base 2.3, TP8028).
    pub instance_random_number: U64,
    /// Reserved.
    pub reserved_144: [u8; 109],
    /// NVM subsystem report (NVMSR).
    pub subsystem_report: u8,
    /// VPD write cycle information (VWCI).
    pub vpd_write_cycles: u8,
    /// Management endpoint capabilities (MEC).
    pub management_endpoint: u8,
    /// Optional Admin commands supported (OACS).
    pub optional_admin_commands: U16,
    /// Abort command limit, 0's based (ACL).
    pub abort_command_limit: u8,
    /// Asynchronous event request limit, 0's based (AERL).
    pub async_event_request_limit: u8,
    /// Firmware updates (FRMW).
    pub firmware_updates: u8,
    /// Log page attributes (LPA).
    pub log_page_attributes: u8,
    /// Error log page entries, 0's based (ELPE).
    pub error_log_page_entries: u8,
    /// Number of power states, 0's based (NPSS).
    pub power_states: u8,
    /// Admin vendor specific command configuration (AVSCC).
    pub admin_vendor_specific: u8,
    /// Autonomous power state transition attributes (APSTA).
    pub autonomous_power_states: u8,
    /// Warning composite temperature threshold in kelvins (WCTEMP).
    pub warning_temperature: U16,
    /// Critical composite temperature threshold in kelvins (CCTEMP).
    pub critical_temperature: U16,
    /// Maximum time for firmware activation, in 100 ms (MTFA).
    pub firmware_activation_time: U16,
    /// Host memory buffer preferred size, in 4 KiB (HMPRE).
    pub host_memory_preferred: U32,
    /// Host memory buffer minimum size, in 4 KiB (HMMIN).
    pub host_memory_min: U32,
    /// Total NVM capacity in bytes (TNVMCAP).
    pub total_capacity_bytes: U128,
    /// Unallocated NVM capacity in bytes (UNVMCAP).
    pub unallocated_capacity_bytes: U128,
    /// Replay protected memory block support (RPMBS).
    pub replay_protected_memory: U32,
    /// Extended device self-test time in minutes (EDSTT).
    pub self_test_time_minutes: U16,
    /// Device self-test options (DSTO).
    pub self_test_options: u8,
    /// Firmware update granularity, in 4 KiB (FWUG).
    pub firmware_update_granularity: u8,
    /// Granularity of the Keep Alive Timer in 100 ms, 0 for no Keep Alive (KAS).
    pub keep_alive_granularity: U16,
    /// Host controlled thermal management attributes (HCTMA).
    pub host_thermal_management: U16,
    /// Minimum thermal management temperature in kelvins (MNTMT).
    pub thermal_management_min: U16,
    /// Maximum thermal management temperature in kelvins (MXTMT).
    pub thermal_management_max: U16,
    /// Sanitize capabilities (SANICAP).
    pub sanitize_capabilities: U32,
    /// Host memory buffer minimum descriptor entry size, in 4 KiB (HMMINDS).
    pub host_memory_descriptor_min: U32,
    /// Host memory maximum descriptor entries (HMMAXD).
    pub host_memory_descriptors_max: U16,
    /// NVM set identifier maximum (NSETIDMAX).
    pub nvm_set_id_max: U16,
    /// Endurance group identifier maximum (ENDGIDMAX).
    pub endurance_group_id_max: U16,
    /// The longest an ANA transition takes, in seconds (ANATT).
    pub ana_transition_time_s: u8,
    /// Asymmetric namespace access capabilities (ANACAP).
    pub ana_capabilities: u8,
    /// ANA group identifier maximum (ANAGRPMAX).
    pub ana_group_id_max: U32,
    /// Number of ANA group identifiers (NANAGRPID).
    pub ana_groups: U32,
    /// Persistent event log size, in 64 KiB (PELS).
    pub persistent_event_log_size: U32,
    /// Domain identifier (DID).
    pub domain_id: U16,
    /// Key per I/O capabilities (KPIOC).
    pub key_per_io: u8,
    /// Reserved.
    pub reserved_359: u8,
    /// Maximum processing time for firmware activation without reset, in 100 ms (MPTFAWR).
    pub firmware_processing_time: U16,
    /// Reserved.
    pub reserved_362: [u8; 6],
    /// Maximum endurance group capacity in bytes (MEGCAP).
    pub endurance_group_capacity_max_bytes: U128,
    /// Temperature threshold hysteresis attributes (TMPTHHA).
    pub temperature_hysteresis: u8,
    /// Reserved.
    pub reserved_385: u8,
    /// Command Quiesce Time: time for which commands may take effect after communication is lost,
    /// in ms (CQT).
    pub command_quiesce_time_ms: U16,
    /// Reserved.
    pub reserved_388: [u8; 124],
    /// Submission queue entry size: required 3:0, maximum 7:4, as powers of two (SQES).
    pub submission_entry_size: u8,
    /// Completion queue entry size: required 3:0, maximum 7:4, as powers of two (CQES).
    pub completion_entry_size: u8,
    /// Maximum outstanding commands of an I/O queue (MAXCMD).
    pub max_outstanding_commands: U16,
    /// Number of namespaces: the greatest valid NSID (NN).
    pub namespaces: U32,
    /// Optional NVM commands supported (ONCS).
    pub optional_nvm_commands: U16,
    /// Fused operations supported (FUSES).
    pub fused_operations: U16,
    /// Format NVM attributes (FNA).
    pub format_attributes: u8,
    /// Volatile write cache (VWC).
    pub volatile_write_cache: u8,
    /// Atomic write unit normal in logical blocks, 0's based (AWUN).
    pub atomic_write_unit: U16,
    /// Atomic write unit power fail in logical blocks, 0's based (AWUPF).
    pub atomic_write_unit_power_fail: U16,
    /// I/O command set vendor specific command configuration (ICSVSCC).
    pub nvm_vendor_specific: u8,
    /// Namespace write protection capabilities (NWPC).
    pub write_protection: u8,
    /// Atomic compare and write unit in logical blocks, 0's based (ACWU).
    pub atomic_compare_write_unit: U16,
    /// Copy descriptor formats supported (CDFS).
    pub copy_descriptor_formats: U16,
    /// SGL support (SGLS).
    pub sgl_support: U32,
    /// Maximum number of allowed namespaces, 0 for the value of NN (MNAN).
    pub namespaces_max: U32,
    /// Maximum domain namespace attachments (MAXDNA).
    pub domain_attachments_max: U128,
    /// Maximum I/O controller namespace attachments (MAXCNA).
    pub controller_attachments_max: U32,
    /// Optimal aggregated queue depth (OAQD).
    pub optimal_queue_depth: U32,
    /// Recommended host-initiated refresh interval in days (RHIRI).
    pub refresh_interval_days: u8,
    /// Host-initiated refresh time in minutes (HIRT).
    pub refresh_time_minutes: u8,
    /// Controller maximum memory range tracking descriptors (CMMRTD).
    pub controller_tracking_descriptors_max: U16,
    /// NVM subsystem maximum memory range tracking descriptors (NMMRTD).
    pub subsystem_tracking_descriptors_max: U16,
    /// Minimum memory range tracking granularity (MINMRTG).
    pub tracking_granularity_min: u8,
    /// Maximum memory range tracking granularity (MAXMRTG).
    pub tracking_granularity_max: u8,
    /// Tracking attributes (TRATTR).
    pub tracking_attributes: u8,
    /// Reserved.
    pub reserved_577: u8,
    /// Maximum controller user data migration queues (MCUDMQ).
    pub controller_migration_queues_max: U16,
    /// Maximum NVM subsystem user data migration queues (MNSUDMQ).
    pub subsystem_migration_queues_max: U16,
    /// Maximum CDQ memory ranges (MCMR).
    pub queue_memory_ranges_max: U16,
    /// NVM subsystem maximum CDQ memory ranges (NMCMR).
    pub subsystem_queue_memory_ranges_max: U16,
    /// Maximum controller data queue PRP count (MCDQPC).
    pub data_queue_prp_count_max: U16,
    /// Reserved.
    pub reserved_588: [u8; 180],
    /// NVM subsystem NQN, UTF-8 ended by NUL (SUBNQN).
    pub subsystem_nqn: [u8; 256],
    /// Reserved.
    pub reserved_1024: [u8; 768],
    /// I/O queue command capsule size, in 16 bytes (IOCCSZ).
    pub io_command_capsule_size: U32,
    /// I/O queue response capsule size, in 16 bytes (IORCSZ).
    pub io_response_capsule_size: U32,
    /// In-capsule data offset, in 16 bytes (ICDOFF).
    pub in_capsule_data_offset: U16,
    /// Fabrics controller attributes (FCATT).
    pub fabrics_attributes: u8,
    /// Maximum SGL data block descriptors in a capsule, 0 for no limit (MSDBD).
    pub sgl_descriptors_max: u8,
    /// Optional fabrics commands supported (OFCS).
    pub optional_fabrics_commands: U16,
    /// Discovery controller type (DCTYPE).
    pub discovery_controller_type: u8,
    /// Cross-controller resets this controller can have in progress (CCRL, Base 2.3, TP8028).
    pub cross_controller_reset_limit: u8,
    /// Reserved.
    pub reserved_1808: [u8; 240],
    /// Power state descriptors (PSD0 to PSD31).
    pub power_state_descriptors: [PowerStateDescriptor; 32],
    /// Vendor specific (VS).
    pub vendor_specific: [u8; 1024],
}

const _: () = assert!(size_of::<IdentifyController>() == IDENTIFY_BYTES);
const _: () = assert!(offset_of!(IdentifyController, max_data_transfer_size) == 77);
const _: () = assert!(offset_of!(IdentifyController, controller_id) == 78);
const _: () = assert!(offset_of!(IdentifyController, controller_attributes) == 96);
const _: () = assert!(offset_of!(IdentifyController, controller_type) == 111);
const _: () = assert!(offset_of!(IdentifyController, instance_random_number) == 136);
const _: () = assert!(offset_of!(IdentifyController, optional_admin_commands) == 256);
const _: () = assert!(offset_of!(IdentifyController, total_capacity_bytes) == 280);
const _: () = assert!(offset_of!(IdentifyController, keep_alive_granularity) == 320);
const _: () = assert!(offset_of!(IdentifyController, ana_capabilities) == 343);
const _: () = assert!(offset_of!(IdentifyController, domain_id) == 356);
const _: () = assert!(offset_of!(IdentifyController, endurance_group_capacity_max_bytes) == 368);
const _: () = assert!(offset_of!(IdentifyController, command_quiesce_time_ms) == 386);
const _: () = assert!(offset_of!(IdentifyController, submission_entry_size) == 512);
const _: () = assert!(offset_of!(IdentifyController, optional_nvm_commands) == 520);
const _: () = assert!(offset_of!(IdentifyController, volatile_write_cache) == 525);
const _: () = assert!(offset_of!(IdentifyController, sgl_support) == 536);
const _: () = assert!(offset_of!(IdentifyController, controller_attachments_max) == 560);
const _: () = assert!(offset_of!(IdentifyController, data_queue_prp_count_max) == 586);
const _: () = assert!(offset_of!(IdentifyController, subsystem_nqn) == 768);
const _: () = assert!(offset_of!(IdentifyController, io_command_capsule_size) == 1792);
const _: () = assert!(offset_of!(IdentifyController, cross_controller_reset_limit) == 1807);
const _: () = assert!(offset_of!(IdentifyController, power_state_descriptors) == 2048);
const _: () = assert!(offset_of!(IdentifyController, vendor_specific) == 3072);

/// Power State Descriptor data structure (PSD, Base 5.1.13.2.1, Figure 313).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PowerStateDescriptor {
    /// Maximum power, in units the flags give (MP).
    pub max_power: U16,
    /// Reserved.
    pub reserved_2: u8,
    /// Max power scale in bit 0 (MXPS) and non-operational state in bit 1 (NOPS).
    pub flags: u8,
    /// Entry latency in microseconds (ENLAT).
    pub entry_latency_us: U32,
    /// Exit latency in microseconds (EXLAT).
    pub exit_latency_us: U32,
    /// Relative read throughput, 0 is best (RRT).
    pub read_throughput: u8,
    /// Relative read latency (RRL).
    pub read_latency: u8,
    /// Relative write throughput (RWT).
    pub write_throughput: u8,
    /// Relative write latency (RWL).
    pub write_latency: u8,
    /// Idle power (IDLP).
    pub idle_power: U16,
    /// Idle power scale in bits 7:6 (IPS).
    pub idle_power_scale: u8,
    /// Reserved.
    pub reserved_19: u8,
    /// Active power (ACTP).
    pub active_power: U16,
    /// Active power workload 2:0 (APW) and scale 7:6 (APS).
    pub active_power_workload: u8,
    /// Emergency power fail and quick recovery times and vaults (EPFRT to EPFVTS), and what follows.
    pub emergency_power_fail: [u8; 9],
}

const _: () = assert!(size_of::<PowerStateDescriptor>() == 32);

/// I/O Command Set specific Identify Controller for the NVM Command Set (CNS 06h with CSI 00h, NVM 4.1.5).
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IdentifyControllerNvm {
    /// Verify size limit as a power of two of the minimum page size, 0 for none (VSL).
    pub verify_size_limit: u8,
    /// Write Zeroes size limit as a power of two of the minimum page size, 0 for none (WZSL).
    pub write_zeroes_size_limit: u8,
    /// Write Uncorrectable size limit as a power of two of the minimum page size, 0 for none (WUSL).
    pub write_uncorrectable_size_limit: u8,
    /// Dataset Management ranges limit, 0 for none (DMRL).
    pub dataset_management_ranges_limit: u8,
    /// Dataset Management range size limit in logical blocks, 0 for none (DMRSL).
    pub dataset_management_range_size_limit: U32,
    /// Dataset Management size limit in logical blocks, 0 for none (DMSL).
    pub dataset_management_size_limit: U64,
    /// Key per I/O capabilities (KPIOCAP).
    pub key_per_io: u8,
    /// Write Zeroes with Deallocate size limit as a power of two of the minimum page size (WZDSL).
    pub write_zeroes_deallocate_size_limit: u8,
    /// Admin optional command support (AOCS).
    pub optional_admin_commands: U16,
    /// Version of the NVM Command Set Specification (VER).
    pub version: U32,
    /// LBA migration queue format (LBAMQF).
    pub migration_queue_format: u8,
    /// Reserved.
    pub reserved_25: [u8; 4071],
}

const _: () = assert!(size_of::<IdentifyControllerNvm>() == IDENTIFY_BYTES);
const _: () = assert!(offset_of!(IdentifyControllerNvm, dataset_management_size_limit) == 8);

zeroed_default!(IdentifyController, PowerStateDescriptor, IdentifyControllerNvm);
