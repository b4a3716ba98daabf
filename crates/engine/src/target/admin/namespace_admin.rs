//! Namespace Management and Namespace Attachment: that a command makes sense is checked here. Then it is passed on to the
//! administration, which alone changes what the target serves, sees who may have that, and answers.

use nvme::command::admin_opcode;
use nvme::identify::bits::sharing;
use nvme::identify::{CommandSet, ControllerList, IDENTIFY_BYTES, IdentifyNamespace, LbaFormat, NSID_ALL};
use nvme::namespace_management::{NamespaceAttachment, NamespaceManagement};
use nvme::{Status, SubmissionEntry};
use zerocopy::FromBytes;

use super::answer::Answer;
use crate::limits::ANA_GROUPS_MAX;
use crate::target::config::{FabricConfig, KnownHost, NamespaceConfig, SubsystemConfig};
use crate::target::controller::Controller;
use crate::target::fabric::Fabric;
use crate::target::messaging::{Asker, HostRequest, PendingRequest};
use crate::target::served::Subsystem;

/// The formats a namespace can be created with, by their index (FLBAS).
pub(crate) const FORMATS: [LbaFormat; 2] = [LbaFormat::new(9), LbaFormat::new(12)];

/// True if hosts may create, delete and attach namespaces of this subsystem: it has storage for
/// them, and the program carries out hosts' requests.
pub(crate) fn is_offered(subsystem: &Subsystem, fabric: &Fabric) -> bool {
    subsystem.state().config.storage.is_some() && fabric.answers_requests()
}

/// True if the host sends data with this command, and it is one of namespace management.
pub(crate) fn sends_data(entry: &SubmissionEntry) -> bool {
    match entry.opcode {
        admin_opcode::NAMESPACE_MANAGEMENT => {
            NamespaceManagement::decode(entry).is_ok_and(|command| command.sends_data())
        }
        admin_opcode::NAMESPACE_ATTACHMENT => NamespaceAttachment::decode(entry).is_ok(),
        _ => false,
    }
}

/// Takes a Namespace Management or Namespace Attachment command with its data; the administration answers it.
pub(crate) fn answer(
    entry: &SubmissionEntry,
    controller: &Controller,
    data: &[u8],
    fabric: &Fabric,
    asker: Asker,
) -> Answer {
    if !is_offered(&controller.subsystem, fabric) {
        return Status::INVALID_OPCODE.do_not_retry().into();
    }
    let request = if entry.opcode == admin_opcode::NAMESPACE_MANAGEMENT {
        manage(entry, controller, data)
    } else {
        attach(entry, controller, data, fabric)
    };
    let ask = |request| {
        let share = fabric.shares.requests.take(&controller.guest)?;
        let request = PendingRequest::new(request, controller, asker, share);
        fabric.change_namespace(controller, || fabric.ask(request))
    };
    match request.and_then(ask) {
        Ok(()) => Answer::Held,
        Err(status) => status.into(),
    }
}

fn manage(entry: &SubmissionEntry, controller: &Controller, data: &[u8]) -> Result<HostRequest, Status> {
    let nqn = controller.subsystem.nqn.clone();
    match NamespaceManagement::decode(entry)? {
        NamespaceManagement::Create { command_set } if command_set != CommandSet::NVM => {
            Err(Status::COMMAND_SET_NOT_SUPPORTED.do_not_retry())
        }
        NamespaceManagement::Create { .. } => create(nqn, data),
        NamespaceManagement::Delete => {
            let nsid = Some(entry.nsid.get()).filter(|nsid| *nsid != NSID_ALL);
            check_access(controller, nsid)?;
            Ok(HostRequest::DeleteNamespace { nqn, nsid })
        }
    }
}

/// Checks that the namespace, or each of the host's own, is accessible to the host (Base 8.1.1), attached or not. A deletion
/// takes the blocks, which another path may be serving.
fn check_access(controller: &Controller, nsid: Option<u32>) -> Result<(), Status> {
    let host = controller.host.known();
    let state = &mut *controller.subsystem.state_mut();
    let is_concerned = |config: &&NamespaceConfig| match nsid {
        Some(nsid) => config.nsid == nsid && host.knows(config),
        None => host.owns(config),
    };
    for config in state.config.namespaces.iter().filter(is_concerned) {
        let access = state.ana.cell(config.ana_group, controller.port, &state.config);
        if let Some(refusal) = access.refusal() {
            return Err(refusal);
        }
    }
    Ok(())
}

/// A namespace as the host describes it. What is not the host's to say in that structure is not looked at.
fn create(nqn: String, data: &[u8]) -> Result<HostRequest, Status> {
    let wanted = IdentifyNamespace::read_from_bytes(data)
        .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.do_not_retry())?;
    let (blocks, capacity) = (wanted.size_blocks.get(), wanted.capacity_blocks.get());
    let groups = wanted.nvm_set_id.get() | wanted.endurance_group_id.get();
    // A private namespace would be kept from a second controller, and attachment here is a host's, whose controllers
    // are all of one mind: what cannot be promised is not taken.
    if wanted.sharing != sharing::SHARED || groups != 0 || blocks == 0 || capacity > blocks {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    if capacity < blocks {
        return Err(Status::THIN_PROVISIONING_NOT_SUPPORTED.do_not_retry());
    }
    let format = FORMATS.get(usize::from(wanted.formatted_lba_size));
    let block_size = format.and_then(|format| format.block_bytes());
    let (Some(block_size), 0) = (block_size, wanted.protection_settings) else {
        return Err(Status::INVALID_FORMAT.do_not_retry());
    };
    let ana_group = wanted.ana_group_id.get();
    if ana_group > ANA_GROUPS_MAX {
        return Err(Status::ANA_GROUP_ID_INVALID.do_not_retry());
    }
    Ok(HostRequest::CreateNamespace { nqn, blocks, block_size: block_size as u32, ana_group })
}

fn attach(
    entry: &SubmissionEntry,
    controller: &Controller,
    data: &[u8],
    fabric: &Fabric,
) -> Result<HostRequest, Status> {
    let subsystem = &*controller.subsystem;
    let action = NamespaceAttachment::decode(entry)?;
    if data.len() != IDENTIFY_BYTES {
        return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
    }
    let hosts = hosts(data, subsystem, fabric)?;
    let (nqn, nsid) = (subsystem.nqn.clone(), entry.nsid.get());
    Ok(match action {
        NamespaceAttachment::Attach => HostRequest::Attach { nqn, nsid, hosts },
        NamespaceAttachment::Detach => HostRequest::Detach { nqn, nsid, hosts },
    })
}

/// The names of the hosts whose controllers are on the list, each once: a namespace is attached to a host, with all the
/// controllers it has.
fn hosts(data: &[u8], subsystem: &Subsystem, fabric: &Fabric) -> Result<Vec<String>, Status> {
    let invalid = Status::CONTROLLER_LIST_INVALID.do_not_retry();
    let list = ControllerList::read_from_bytes(data).map_err(|_| invalid)?;
    let ids = list.decode().map_err(|_| invalid)?;
    if ids.is_empty() || !ids.is_sorted_by(|before, after| before < after) {
        return Err(invalid);
    }
    let mut hosts: Vec<String> = Vec::new();
    for id in ids {
        let controller = fabric.controller(id).filter(|known| std::ptr::eq(&*known.subsystem, subsystem));
        let Some(controller) = controller else { return Err(invalid) };
        if !hosts.contains(&controller.host.nqn) {
            hosts.push(controller.host.nqn.clone());
        }
    }
    Ok(hosts)
}

/// Bytes of the namespaces that a host knows (TNVMCAP) together with those that it may still create, and the latter alone
/// (UNVMCAP). The sizes are those of the configuration, which all that hosts create have.
pub(crate) fn capacity(
    host: &KnownHost,
    subsystem: &SubsystemConfig,
    fabric: &FabricConfig,
    served: u64,
) -> (u128, u128) {
    let Some(storage) = &subsystem.storage else { return (u128::from(served), 0) };
    // Subsystems can share a directory.
    let all = fabric.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    let used = all.filter_map(|namespace| namespace.bytes_in(storage)).fold(0, u64::saturating_add);
    let free = storage.bytes_max.saturating_sub(used);
    let left = storage.host_bytes_max().saturating_sub(fabric.bytes_of(&host.nqn, storage));
    let free = u128::from(if host.owner().is_ok() { free.min(left) } else { 0 });
    (u128::from(served) + free, free)
}
