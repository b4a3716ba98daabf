//! Identify: what this target says of its controllers and namespaces, and only what is true.
//! Where the bytes stand is the `nvme` crate's knowledge.

use std::time::Duration;

use nvme::fabrics::VERSION_2_0;
use nvme::identify::bits::{
    controller_attributes, controller_type, deallocate_features, discovery_controller_type,
    log_page_attributes, multipath_capabilities, optional_fabrics_commands, optional_nvm_commands,
    sgl_support, sharing, status, volatile_write_cache,
};
use nvme::identify::{
    Cns, CommandSet, ControllerList, IDENTIFY_BYTES, IdentifyController, IdentifyControllerNvm,
    IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNamespaceNvm, IdentifyRequest, IoCommandSetList,
    LbaFormat, NSID_ALL, NamespaceIdentifiers, NamespaceList, set_ascii,
};
use nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::admin::Answer;
use super::controller::Controller;
use super::namespace::Namespace;
use super::subsystem::Fabric;
use crate::limits::{
    ABORTS_MAX, ADMIN_QUEUE_ENTRIES_MAX, ASYNC_EVENTS_MAX, BUFFER_LENGTH_MIN, ERROR_LOG_ENTRIES,
    IN_CAPSULE_LENGTH_MAX, KEEP_ALIVE_GRANULARITY_100MS, NAMESPACES_MAX, QUEUE_ENTRIES_MAX,
    TRANSFER_PAGES_EXPONENT, WRITE_ZEROES_LENGTH_MAX,
};

/// What all controllers report as their firmware: the version of this program.
pub(super) const FIRMWARE: &str = env!("CARGO_PKG_VERSION");

/// How long a controller that shut down may take, in seconds.
const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

/// Answers an Identify command.
pub(super) fn answer(entry: &SubmissionEntry, controller: &Controller, fabric: &Fabric) -> Answer {
    let request = IdentifyRequest::decode(entry.cdw10.get(), entry.cdw11.get(), entry.cdw14.get());
    let nsid = entry.nsid.get();
    let bytes = if controller.subsystem.is_discovery {
        match request.cns {
            Cns::CONTROLLER => Ok(discovery_controller(controller).as_bytes().to_vec()),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    } else {
        io_controller(&request, nsid, controller, fabric)
    };
    match bytes {
        Ok(bytes) => Answer::Data(bytes),
        Err(status) => status.into(),
    }
}

fn io_controller(
    request: &IdentifyRequest,
    nsid: u32,
    controller: &Controller,
    fabric: &Fabric,
) -> Result<Vec<u8>, Status> {
    let table = controller.subsystem.namespaces();
    let invalid = Status::INVALID_FIELD.do_not_retry();
    let needs_nvm = matches!(
        request.cns,
        Cns::COMMAND_SET_NAMESPACE
            | Cns::COMMAND_SET_CONTROLLER
            | Cns::COMMAND_SET_ACTIVE_NAMESPACE_LIST
            | Cns::COMMAND_SET_ALLOCATED_NAMESPACE_LIST
            | Cns::COMMAND_SET_ALLOCATED_NAMESPACE
    );
    if needs_nvm && request.command_set != CommandSet::NVM {
        return Err(invalid);
    }
    let listed = |after| {
        // The two highest identifiers have no successor to list (Base 5.1.13.2.2).
        if after >= NSID_ALL - 1 {
            return Err(Status::INVALID_NAMESPACE.do_not_retry());
        }
        Ok(NamespaceList::after(after, table.iter().map(|namespace| namespace.nsid)).as_bytes().to_vec())
    };
    // An identifier that could be but is not gets zeroes where the specification says so (inactive namespace).
    let namespace_or_zeroes = |make: fn(&Namespace) -> Vec<u8>| match table.get(nsid) {
        Some(namespace) => Ok(make(namespace)),
        None if (1..=NAMESPACES_MAX).contains(&nsid) => Ok(vec![0; IDENTIFY_BYTES]),
        None => Err(Status::INVALID_NAMESPACE.do_not_retry()),
    };
    match request.cns {
        Cns::NAMESPACE if nsid == NSID_ALL => Ok(common_namespace().as_bytes().to_vec()),
        Cns::NAMESPACE | Cns::ALLOCATED_NAMESPACE => {
            namespace_or_zeroes(|namespace| identify_namespace(namespace).as_bytes().to_vec())
        }
        Cns::CONTROLLER => Ok(identify_controller(controller).as_bytes().to_vec()),
        Cns::ACTIVE_NAMESPACE_LIST
        | Cns::ALLOCATED_NAMESPACE_LIST
        | Cns::COMMAND_SET_ACTIVE_NAMESPACE_LIST
        | Cns::COMMAND_SET_ALLOCATED_NAMESPACE_LIST => listed(nsid),
        Cns::NAMESPACE_DESCRIPTORS => {
            table.get(nsid).map(descriptors).ok_or(Status::INVALID_NAMESPACE.do_not_retry())
        }
        Cns::COMMAND_SET_NAMESPACE | Cns::COMMAND_SET_ALLOCATED_NAMESPACE => {
            namespace_or_zeroes(|_| IdentifyNamespaceNvm::default().as_bytes().to_vec())
        }
        Cns::COMMAND_SET_CONTROLLER => Ok(nvm_controller().as_bytes().to_vec()),
        Cns::INDEPENDENT_NAMESPACE | Cns::INDEPENDENT_ALLOCATED_NAMESPACE => namespace_or_zeroes(|_| {
            let mut independent = IdentifyNamespaceIndependent::default();
            independent.sharing = sharing::SHARED;
            independent.status = status::READY;
            independent.as_bytes().to_vec()
        }),
        Cns::ATTACHED_CONTROLLER_LIST if table.get(nsid).is_none() => {
            Err(Status::INVALID_NAMESPACE.do_not_retry())
        }
        Cns::ATTACHED_CONTROLLER_LIST | Cns::CONTROLLER_LIST => {
            let ids = fabric.controller_ids(&controller.subsystem);
            Ok(ControllerList::starting_at(request.controller_id, ids).as_bytes().to_vec())
        }
        Cns::COMMAND_SET_LIST => Ok(IoCommandSetList::nvm_only().as_bytes().to_vec()),
        _ => Err(invalid),
    }
}

/// What discovery and I/O controllers have in common.
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
    identify.sgl_support = U32::new(sgl_support::BYTE_ALIGNED | sgl_support::TRANSPORT | sgl_support::OFFSET);
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
    identify
}

fn identify_controller(controller: &Controller) -> IdentifyController {
    let mut identify = any_controller(controller);
    identify.controller_type = controller_type::IO;
    identify.multipath_capabilities =
        multipath_capabilities::MULTIPLE_PORTS | multipath_capabilities::MULTIPLE_CONTROLLERS;
    identify.rtd3_entry_latency_us = U32::new(SHUTDOWN_TIME.as_micros() as u32);
    identify.abort_command_limit = ABORTS_MAX - 1;
    // One read-only firmware slot: the program itself.
    identify.firmware_updates = nvme::identify::bits::firmware_updates::FIRST_SLOT_READ_ONLY
        | 1 << nvme::identify::bits::firmware_updates::SLOTS_SHIFT;
    identify.log_page_attributes =
        log_page_attributes::COMMANDS_SUPPORTED | log_page_attributes::EXTENDED_DATA;
    identify.error_log_page_entries = (ERROR_LOG_ENTRIES - 1) as u8;
    identify.submission_entry_size = 0x66;
    identify.completion_entry_size = 0x44;
    identify.max_outstanding_commands = U16::new(QUEUE_ENTRIES_MAX);
    identify.namespaces = U32::new(NAMESPACES_MAX);
    identify.namespaces_max = U32::new(NAMESPACES_MAX);
    identify.optional_nvm_commands = U16::new(
        optional_nvm_commands::COMPARE
            | optional_nvm_commands::DATASET_MANAGEMENT
            | optional_nvm_commands::WRITE_ZEROES
            | optional_nvm_commands::TIMESTAMP,
    );
    let volatile =
        controller.subsystem.namespaces().iter().any(|namespace| namespace.backend.has_volatile_cache());
    identify.volatile_write_cache = volatile_write_cache::FLUSH_ALL_UNSUPPORTED
        | if volatile { volatile_write_cache::PRESENT } else { 0 };
    identify.io_command_capsule_size = U32::new((64 + IN_CAPSULE_LENGTH_MAX as u32) / 16);
    identify.io_response_capsule_size = U32::new(1);
    identify.sgl_descriptors_max = 1;
    identify.optional_fabrics_commands = U16::new(optional_fabrics_commands::DISCONNECT);
    identify
}

fn nvm_controller() -> IdentifyControllerNvm {
    let mut identify = IdentifyControllerNvm::default();
    identify.write_zeroes_size_limit = (WRITE_ZEROES_LENGTH_MAX / BUFFER_LENGTH_MIN as u64).ilog2() as u8;
    identify
}

/// What all namespaces have in common: the formats there are (NSID FFFFFFFFh).
fn common_namespace() -> IdentifyNamespace {
    let mut identify = IdentifyNamespace::default();
    identify.lba_formats_count = 1;
    identify.lba_formats[0] = LbaFormat::new(9);
    identify.lba_formats[1] = LbaFormat::new(12);
    identify
}

fn identify_namespace(namespace: &Namespace) -> IdentifyNamespace {
    let mut identify = IdentifyNamespace::default();
    identify.size_blocks = U64::new(namespace.blocks());
    identify.capacity_blocks = U64::new(namespace.blocks());
    identify.utilization_blocks = U64::new(namespace.blocks());
    // One format, the one it has: a namespace cannot be formatted into another.
    identify.lba_formats[0] = LbaFormat::new(namespace.block_shift() as u8);
    identify.sharing = sharing::SHARED;
    let zeroes = namespace.backend.deallocated_reads_zero();
    identify.deallocate_features = if zeroes {
        deallocate_features::READS_ZEROES | deallocate_features::WRITE_ZEROES_DEALLOCATE
    } else {
        0
    };
    identify.nguid = namespace.uuid;
    identify
}

fn descriptors(namespace: &Namespace) -> Vec<u8> {
    let identifiers = NamespaceIdentifiers {
        eui64: None,
        nguid: Some(namespace.uuid),
        uuid: Some(namespace.uuid),
        command_set: Some(CommandSet::NVM),
    };
    identifiers.encode().to_vec()
}
