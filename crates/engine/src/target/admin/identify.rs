//! Identify: what this target says of its controllers and namespaces, and only what is true.
//! Where the bytes stand is the `nvme` crate's knowledge.

use std::collections::BTreeMap;
use std::sync::Arc;

use nvme::fabrics::VERSION_2_0;
use nvme::identify::bits::{
    ana_capabilities, attributes, common_features, controller_attributes, controller_type,
    copy_descriptor_formats, deallocate_features, discovery_controller_type, features, fused_operations,
    log_page_attributes, multipath_capabilities, optional_admin_commands, optional_async_events,
    optional_fabrics_commands, optional_nvm_commands, reservation_capabilities as capability, sgl_support,
    sharing, status, volatile_write_cache, write_protection,
};
use nvme::identify::{
    Cns, CommandSet, ControllerList, IDENTIFY_BYTES, IdentifyController, IdentifyControllerNvm,
    IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNamespaceNvm, IdentifyRequest, IoCommandSetList,
    LbaFormat, NSID_ALL, NamespaceIdentifiers, NamespaceList, set_ascii,
};
use nvme::log_page::AnaState;
use nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64, U128};

use super::answer::Answer;
use super::namespace_admin::{self, FORMATS};
use crate::backend::Backend;
use crate::limits::{
    ABORTS_MAX, ADMIN_QUEUE_ENTRIES_MAX, ANA_GROUPS_MAX, ANA_TRANSITION_S_MAX, ASYNC_EVENTS_MAX,
    BUFFER_LENGTH_MIN, CONTROLLER_QUIESCE_MS_MAX, COPY_LENGTH_MAX, COPY_RANGE_LENGTH_MAX, COPY_RANGES_MAX,
    CROSS_RESETS_MAX, DEALLOCATE_LENGTH_MAX, ERROR_LOG_ENTRIES, IN_CAPSULE_LENGTH_MAX,
    KEEP_ALIVE_GRANULARITY_100MS, NAMESPACES_MAX, QUEUE_ENTRIES_MAX, TRANSFER_PAGES_EXPONENT,
    VERIFY_LENGTH_MAX, WRITE_ZEROES_LENGTH_MAX,
};
use crate::target::config::WriteProtection;
use crate::target::controller::Controller;
use crate::target::fabric::Fabric;
use crate::target::served::{Attachment, Namespace};

/// Firmware revision of all controllers: the version of this program.
pub(crate) const FIRMWARE: &str = env!("CARGO_PKG_VERSION");

/// Answers an Identify command.
pub(crate) fn answer(entry: &SubmissionEntry, controller: &Controller, fabric: &Fabric) -> Answer {
    let request = IdentifyRequest::decode(entry.cdw10.get(), entry.cdw11.get(), entry.cdw14.get());
    let nsid = entry.nsid.get();
    let bytes = if controller.subsystem.is_discovery {
        match request.cns {
            Cns::CONTROLLER => Ok(discovery_controller(controller).as_bytes().to_vec()),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    } else {
        needs_known_command_set(&request).and_then(|()| io_controller(&request, nsid, controller, fabric))
    };
    match bytes {
        Ok(bytes) => Answer::Data(bytes),
        Err(status) => status.into(),
    }
}

/// Refuses a request about a command set other than NVM.
fn needs_known_command_set(request: &IdentifyRequest) -> Result<(), Status> {
    let names_one = matches!(
        request.cns,
        Cns::COMMAND_SET_NAMESPACE
            | Cns::COMMAND_SET_CONTROLLER
            | Cns::COMMAND_SET_ACTIVE_NAMESPACE_LIST
            | Cns::COMMAND_SET_ALLOCATED_NAMESPACE_LIST
            | Cns::COMMAND_SET_ALLOCATED_NAMESPACE
    );
    if names_one && request.command_set != CommandSet::NVM {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    Ok(())
}

fn io_controller(
    request: &IdentifyRequest,
    nsid: u32,
    controller: &Controller,
    fabric: &Fabric,
) -> Result<Vec<u8>, Status> {
    let table = controller.table();
    let view = |nsid| table.attachment(nsid).map(Described::from);
    let allocated = |nsid| Described::allocated(nsid, controller, fabric);
    match request.cns {
        // What all namespaces have in common is for who makes some (Base 5.1.13.2.1).
        Cns::NAMESPACE if nsid == NSID_ALL && namespace_admin::is_offered(&controller.subsystem, fabric) => {
            Ok(common_namespace().as_bytes().to_vec())
        }
        Cns::NAMESPACE => or_zeroes(nsid, view(nsid), |d| d.namespace(fabric).as_bytes().to_vec()),
        Cns::ALLOCATED_NAMESPACE => {
            or_zeroes(nsid, allocated(nsid), |d| d.namespace(fabric).as_bytes().to_vec())
        }
        Cns::CONTROLLER => Ok(identify_controller(controller, fabric).as_bytes().to_vec()),
        Cns::ACTIVE_NAMESPACE_LIST | Cns::COMMAND_SET_ACTIVE_NAMESPACE_LIST => {
            listed(nsid, table.iter().map(|namespace| namespace.nsid))
        }
        Cns::ALLOCATED_NAMESPACE_LIST | Cns::COMMAND_SET_ALLOCATED_NAMESPACE_LIST => {
            listed(nsid, allocated_namespaces(controller, fabric).into_keys())
        }
        Cns::NAMESPACE_DESCRIPTORS => {
            table.get(nsid).map(descriptors).ok_or(Status::INVALID_NAMESPACE.do_not_retry())
        }
        Cns::COMMAND_SET_NAMESPACE => {
            or_zeroes(nsid, view(nsid), |_| IdentifyNamespaceNvm::default().as_bytes().to_vec())
        }
        Cns::COMMAND_SET_ALLOCATED_NAMESPACE => {
            or_zeroes(nsid, allocated(nsid), |_| IdentifyNamespaceNvm::default().as_bytes().to_vec())
        }
        Cns::COMMAND_SET_CONTROLLER => Ok(nvm_controller().as_bytes().to_vec()),
        Cns::INDEPENDENT_NAMESPACE => {
            or_zeroes(nsid, view(nsid), |d| d.independent(fabric).as_bytes().to_vec())
        }
        Cns::INDEPENDENT_ALLOCATED_NAMESPACE => {
            or_zeroes(nsid, allocated(nsid), |d| d.independent(fabric).as_bytes().to_vec())
        }
        Cns::ATTACHED_CONTROLLER_LIST if allocated(nsid).is_none() => {
            Err(Status::INVALID_NAMESPACE.do_not_retry())
        }
        Cns::ATTACHED_CONTROLLER_LIST => {
            let mut controllers = fabric.controllers_of(&controller.subsystem);
            controllers.retain(|known| known.table().get(nsid).is_some());
            let ids = controllers.into_iter().map(|known| known.id);
            Ok(ControllerList::starting_at(request.controller_id, ids).as_bytes().to_vec())
        }
        // Hosts tell by it whether two controllers are of one subsystem.
        Cns::CONTROLLER_LIST if !knows_all_controllers(controller, fabric) => {
            Err(Status::INVALID_FIELD.do_not_retry())
        }
        Cns::CONTROLLER_LIST => {
            let ids = fabric.controllers_of(&controller.subsystem).into_iter().map(|known| known.id);
            Ok(ControllerList::starting_at(request.controller_id, ids).as_bytes().to_vec())
        }
        Cns::COMMAND_SET_LIST => Ok(IoCommandSetList::nvm_only().as_bytes().to_vec()),
        _ => Err(Status::INVALID_FIELD.do_not_retry()),
    }
}

/// True if this target has all controllers of the subsystem. False where other targets serve the
/// same subsystem, as gateways do, or namespaces over the same file. Subsystems with namespace
/// management have to list controllers in any case.
fn knows_all_controllers(controller: &Controller, fabric: &Fabric) -> bool {
    namespace_admin::is_offered(&controller.subsystem, fabric)
        || fabric.peer_resets().is_none() && !shares_storage(controller)
}

/// True if another target may serve the same blocks as a namespace of the subsystem.
fn shares_storage(controller: &Controller) -> bool {
    let state = controller.subsystem.state();
    state.config.namespaces.iter().any(|namespace| namespace.shared_storage)
}

/// An identifier that could be but is not gets zeroes where the specification says so (inactive namespace).
fn or_zeroes(
    nsid: u32,
    described: Option<Described>,
    make: impl FnOnce(&Described) -> Vec<u8>,
) -> Result<Vec<u8>, Status> {
    match described {
        Some(described) => Ok(make(&described)),
        None if (1..=NAMESPACES_MAX).contains(&nsid) => Ok(vec![0; IDENTIFY_BYTES]),
        None => Err(Status::INVALID_NAMESPACE.do_not_retry()),
    }
}

fn listed(after: u32, nsids: impl IntoIterator<Item = u32>) -> Result<Vec<u8>, Status> {
    // The two highest identifiers have no successor to list (Base 5.1.13.2.2).
    if after >= NSID_ALL - 1 {
        return Err(Status::INVALID_NAMESPACE.do_not_retry());
    }
    Ok(NamespaceList::after(after, nsids).as_bytes().to_vec())
}

/// Fields that discovery and I/O controllers have in common.
fn any_controller(controller: &Controller) -> IdentifyController {
    let mut identify = IdentifyController::default();
    set_ascii(&mut identify.serial_number, &controller.subsystem.serial);
    set_ascii(&mut identify.model_number, &controller.subsystem.model);
    set_ascii(&mut identify.firmware_revision, FIRMWARE);
    identify.controller_id = U16::new(controller.id);
    identify.version = U32::new(VERSION_2_0);
    identify.max_data_transfer_size = TRANSFER_PAGES_EXPONENT;
    identify.keep_alive_granularity = U16::new(KEEP_ALIVE_GRANULARITY_100MS);
    identify.controller_attributes =
        U32::new(controller_attributes::HOST_ID_128_BIT | controller_attributes::TRAFFIC_BASED_KEEP_ALIVE);
    identify.async_event_request_limit = (ASYNC_EVENTS_MAX - 1) as u8;
    identify.sgl_support = U32::new(
        sgl_support::BYTE_ALIGNED | sgl_support::OVERSIZE | sgl_support::OFFSET | sgl_support::TRANSPORT,
    );
    identify.offer_key_updates();
    let name = controller.subsystem.nqn.as_bytes();
    identify.subsystem_nqn[..name.len()].copy_from_slice(name);
    identify
}

fn discovery_controller(controller: &Controller) -> IdentifyController {
    let mut identify = any_controller(controller);
    identify.controller_type = controller_type::DISCOVERY;
    identify.discovery_controller_type = discovery_controller_type::DIRECT;
    identify.max_outstanding_commands = U16::new(ADMIN_QUEUE_ENTRIES_MAX);
    identify.log_page_attributes = log_page_attributes::EXTENDED_DATA;
    identify.optional_async_events = U32::new(optional_async_events::DISCOVERY_LOG_CHANGE);
    identify
}

fn identify_controller(controller: &Controller, fabric: &Fabric) -> IdentifyController {
    let mut identify = any_controller(controller);
    identify.controller_type = controller_type::IO;
    identify.offer_command_stages();
    identify.optional_async_events = U32::new(
        optional_async_events::NAMESPACE_ATTRIBUTE
            | optional_async_events::ANA_CHANGE
            | optional_async_events::CROSS_CONTROLLER_RESET,
    );
    describe_paths(&mut identify, controller);
    identify.abort_command_limit = ABORTS_MAX - 1;
    // One read-only firmware slot: the program itself.
    identify.firmware_updates = nvme::identify::bits::firmware_updates::FIRST_SLOT_READ_ONLY
        | 1 << nvme::identify::bits::firmware_updates::SLOTS_SHIFT;
    identify.log_page_attributes =
        log_page_attributes::COMMANDS_SUPPORTED | log_page_attributes::EXTENDED_DATA;
    identify.error_log_page_entries = (ERROR_LOG_ENTRIES - 1) as u8;
    identify.submission_entry_size = 0x66;
    identify.completion_entry_size = 0x44;
    identify.rtd3_entry_latency_us = U32::new(CONTROLLER_QUIESCE_MS_MAX as u32 * 1000);
    identify.max_outstanding_commands = U16::new(QUEUE_ENTRIES_MAX);
    identify.namespaces = U32::new(NAMESPACES_MAX);
    identify.namespaces_max = U32::new(NAMESPACES_MAX);
    let reservations = if fabric.offers_reservations() { optional_nvm_commands::RESERVATIONS } else { 0 };
    identify.optional_nvm_commands = U16::new(NVM_COMMANDS | reservations);
    if fabric.offers_reservations() {
        identify.controller_attributes |= U32::new(controller_attributes::RESERVATION_HOST_ID);
    }
    if !shares_storage(controller) {
        identify.fused_operations = U16::new(fused_operations::COMPARE_AND_WRITE);
    }
    // The atomic write units stay at their least, a block (0's based). A fused pair of any length is one step among
    // those who write, but a read beside it can see a part of what it writes.
    identify.copy_descriptor_formats =
        U16::new(copy_descriptor_formats::FORMAT_0 | copy_descriptor_formats::FORMAT_1);
    // Hosts ask once, and a namespace on a file may come at any time: each namespace says itself where it has none.
    identify.volatile_write_cache =
        volatile_write_cache::PRESENT | volatile_write_cache::FLUSH_ALL_UNSUPPORTED;
    identify.io_command_capsule_size = U32::new((64 + IN_CAPSULE_LENGTH_MAX as u32) / 16);
    identify.io_response_capsule_size = U32::new(1);
    identify.sgl_descriptors_max = 1;
    identify.optional_fabrics_commands = U16::new(optional_fabrics_commands::DISCONNECT);
    let host = controller.host.known();
    if fabric.answers_requests() {
        let config = &controller.subsystem.state().config;
        identify.write_protection = write_protection_capabilities(host.protection_max_anywhere(config));
    }
    identify.optional_admin_commands = U16::new(optional_admin_commands::GET_LBA_STATUS);
    if namespace_admin::is_offered(&controller.subsystem, fabric) {
        identify.optional_admin_commands |= U16::new(optional_admin_commands::NAMESPACE_MANAGEMENT);
        identify.ana_capabilities |= ana_capabilities::GROUP_ID_MANAGED;
        let known = allocated_namespaces(controller, fabric);
        let served = known.values().map(|namespace| namespace.blocks() << namespace.block_shift()).sum();
        let directory = fabric.directory();
        let config = &controller.subsystem.state().config;
        let (total, free) = namespace_admin::capacity(&host, config, &directory.config, served);
        identify.total_capacity_bytes = U128::new(total);
        identify.unallocated_capacity_bytes = U128::new(free);
    }
    identify
}

/// Write protection modes that a host may use, up to `max` (NWPC).
const fn write_protection_capabilities(max: WriteProtection) -> u8 {
    let (on, until_restart) = (write_protection::WRITE_PROTECT, write_protection::UNTIL_POWER_CYCLE);
    match max {
        WriteProtection::None => 0,
        WriteProtection::On => on,
        WriteProtection::UntilRestart => on | until_restart,
        WriteProtection::Permanent => on | until_restart | write_protection::PERMANENT,
    }
}

/// Fields for hosts with several paths: ANA, and the time until the commands of a lost controller
/// are quiesced.
fn describe_paths(identify: &mut IdentifyController, controller: &Controller) {
    identify.multipath_capabilities = multipath_capabilities::MULTIPLE_PORTS
        | multipath_capabilities::MULTIPLE_CONTROLLERS
        | multipath_capabilities::ANA_REPORTING;
    identify.instance_uniquifier = controller.instance.uniquifier;
    identify.instance_random_number = U64::new(controller.instance.random_number);
    identify.cross_controller_reset_limit = CROSS_RESETS_MAX;
    identify.command_quiesce_time_ms = U16::new(controller.quiesce.tell(&controller.subsystem.quiesce));
    identify.ana_transition_time_s = ANA_TRANSITION_S_MAX;
    identify.ana_capabilities = ana_capabilities::OPTIMIZED
        | ana_capabilities::NON_OPTIMIZED
        | ana_capabilities::INACCESSIBLE
        | ana_capabilities::PERSISTENT_LOSS
        | ana_capabilities::CHANGE;
    identify.ana_group_id_max = U32::new(ANA_GROUPS_MAX);
    identify.ana_groups = U32::new(ANA_GROUPS_MAX);
}

/// The optional commands of the NVM command set that are here, beside reservations.
const NVM_COMMANDS: u16 = optional_nvm_commands::COMPARE
    | optional_nvm_commands::WRITE_UNCORRECTABLE
    | optional_nvm_commands::DATASET_MANAGEMENT
    | optional_nvm_commands::WRITE_ZEROES
    | optional_nvm_commands::TIMESTAMP
    | optional_nvm_commands::VERIFY
    | optional_nvm_commands::COPY;

/// A size limit as a power of two of the smallest page (VSL, WZSL).
const fn pages_exponent(bytes: u64) -> u8 {
    (bytes / BUFFER_LENGTH_MIN as u64).ilog2() as u8
}

fn nvm_controller() -> IdentifyControllerNvm {
    let mut identify = IdentifyControllerNvm::default();
    identify.verify_size_limit = pages_exponent(VERIFY_LENGTH_MAX);
    identify.write_zeroes_size_limit = pages_exponent(WRITE_ZEROES_LENGTH_MAX);
    // Longer ranges are deallocated, too, but hosts have time-outs for a command.
    identify.dataset_management_range_size_limit = U32::new((DEALLOCATE_LENGTH_MAX / 512) as u32);
    identify
}

/// Fields that all namespaces have in common: the supported formats (NSID FFFFFFFFh).
fn common_namespace() -> IdentifyNamespace {
    let mut identify = IdentifyNamespace::default();
    identify.lba_formats_count = (FORMATS.len() - 1) as u8;
    identify.lba_formats[..FORMATS.len()].copy_from_slice(&FORMATS);
    identify
}

/// A namespace and its ANA group, to be described.
struct Described {
    namespace: Arc<Namespace>,
    group: u32,
    /// State of the group on the port of the host.
    ana_state: AnaState,
}

impl From<&Attachment> for Described {
    fn from(attachment: &Attachment) -> Self {
        let Attachment { namespace, group, access } = attachment;
        Self { namespace: namespace.clone(), group: *group, ana_state: access.state() }
    }
}

/// The namespaces a host may know of: where hosts manage namespaces, its own that it does not see, too.
fn allocated_namespaces(controller: &Controller, fabric: &Fabric) -> BTreeMap<u32, Arc<Namespace>> {
    if !namespace_admin::is_offered(&controller.subsystem, fabric) {
        let table = controller.table();
        return table.attachments().map(|a| (a.namespace.nsid, a.namespace.clone())).collect();
    }
    let host = controller.host.known();
    let state = controller.subsystem.state();
    let known = state.config.namespaces.iter().filter(|config| host.knows(config));
    known.filter_map(|config| Some((config.nsid, state.namespaces.get(&config.nsid)?.clone()))).collect()
}

impl Described {
    /// The namespace with this identifier, if the host may know of it. Hosts ask for thousands, one
    /// by one.
    fn allocated(nsid: u32, controller: &Controller, fabric: &Fabric) -> Option<Self> {
        if !namespace_admin::is_offered(&controller.subsystem, fabric) {
            let table = controller.table();
            return table.attachment(nsid).map(Self::from);
        }
        let state = controller.subsystem.state();
        let config = state.configured(nsid).filter(|config| controller.host.known().knows(config))?;
        let namespace = state.namespaces.get(&nsid)?.clone();
        let ana_state = state.config.group_state(config.ana_group, controller.port).into();
        Some(Self { namespace, group: config.ana_group, ana_state })
    }

    fn namespace(&self, fabric: &Fabric) -> IdentifyNamespace {
        let namespace = &*self.namespace;
        let shift = namespace.block_shift();
        let blocks = |bytes: u64| bytes >> shift;
        let mut identify = IdentifyNamespace::default();
        identify.size_blocks = U64::new(namespace.blocks());
        identify.capacity_blocks = U64::new(namespace.blocks());
        // Where the controller has no access, it does not know how much is used (NVM 4.1.5.1,
        // NUSE).
        if !matches!(self.ana_state, AnaState::Inaccessible | AnaState::PersistentLoss) {
            identify.utilization_blocks = U64::new(namespace.blocks());
        }
        identify.capacity_bytes = U128::new(u128::from(namespace.blocks() << shift));
        // One format, the one it has: a namespace cannot be formatted into another.
        identify.lba_formats[0] = LbaFormat::new(shift as u8);
        identify.sharing = sharing::SHARED;
        identify.reservation_capabilities = reservations(namespace, fabric);
        identify.attributes = self.attributes();
        identify.ana_group_id = U32::new(self.group);
        // The atomic write units are a block each, which is the least that a field 0's based can say (NVM 2.1.4).
        identify.features = features::ATOMIC_WRITE_UNITS;
        if !namespace.backend.keeps_blocks_whole(1 << shift) {
            // Where not even a block is kept whole when the power is lost, there are boundaries that do not begin at block 0:
            // nothing longer than a block is promised by that, and Linux, which makes atomic writes of what is promised,
            // makes none where they have an offset.
            let boundary = U16::new(1);
            identify.atomic_boundary_size = boundary;
            identify.atomic_boundary_size_power_fail = boundary;
            identify.atomic_boundary_offset = boundary;
        }
        if let Backend::Device(device) = &*namespace.backend {
            // What is smaller than a page, or lies across one, is read before it is written.
            let page = U16::new((blocks(BUFFER_LENGTH_MIN as u64) - 1) as u16);
            identify.features |= features::OPTIMAL_PERFORMANCE;
            identify.preferred_write_granularity = page;
            identify.preferred_write_alignment = page;
            let piece = device
                .deallocate_granularity()
                .map_or(page, |bytes| U16::new(u16::try_from(blocks(bytes).max(1) - 1).unwrap_or(u16::MAX)));
            identify.preferred_deallocate_granularity = piece;
            identify.preferred_deallocate_alignment = piece;
            identify.optimal_write_size = page;
        }
        identify.copy_range_length_max = U16::new(blocks(COPY_RANGE_LENGTH_MAX) as u16);
        identify.copy_length_max = U32::new(blocks(COPY_LENGTH_MAX) as u32);
        identify.copy_ranges_max = (COPY_RANGES_MAX - 1) as u8;
        if namespace.backend.deallocated_reads_zero() {
            identify.deallocate_features =
                deallocate_features::READS_ZEROES | deallocate_features::WRITE_ZEROES_DEALLOCATE;
        }
        identify.nguid = namespace.nguid.into_bytes();
        identify
    }

    fn independent(&self, fabric: &Fabric) -> IdentifyNamespaceIndependent {
        let mut identify = IdentifyNamespaceIndependent::default();
        if !self.namespace.backend.has_volatile_cache() {
            identify.features = common_features::NO_VOLATILE_WRITE_CACHE;
        }
        identify.sharing = sharing::SHARED;
        identify.reservation_capabilities = reservations(&self.namespace, fabric);
        identify.ana_group_id = U32::new(self.group);
        identify.attributes = self.attributes();
        identify.status = status::READY;
        identify
    }

    fn attributes(&self) -> u8 {
        let is_read_only = self.namespace.is_write_protected() || self.namespace.has_failed();
        if is_read_only { attributes::WRITE_PROTECTED } else { 0 }
    }
}

/// Every type of reservation, and whether they outlive the target; none where others that serve the namespace do not know of
/// them.
fn reservations(namespace: &Namespace, fabric: &Fabric) -> u8 {
    if !fabric.offers_reservations_on(namespace) {
        return 0;
    }
    let lasting = if fabric.keeps_reservations() { capability::PERSIST_THROUGH_POWER_LOSS } else { 0 };
    lasting
        | capability::WRITE_EXCLUSIVE
        | capability::EXCLUSIVE_ACCESS
        | capability::WRITE_EXCLUSIVE_REGISTRANTS_ONLY
        | capability::EXCLUSIVE_ACCESS_REGISTRANTS_ONLY
        | capability::WRITE_EXCLUSIVE_ALL_REGISTRANTS
        | capability::EXCLUSIVE_ACCESS_ALL_REGISTRANTS
        | capability::IGNORE_EXISTING_KEY
}

fn descriptors(namespace: &Namespace) -> Vec<u8> {
    let identifiers = NamespaceIdentifiers {
        eui64: None,
        nguid: Some(namespace.nguid.into_bytes()),
        uuid: Some(namespace.uuid),
        command_set: Some(CommandSet::NVM),
    };
    identifiers.encode().to_vec()
}
