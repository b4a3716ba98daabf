//! Get Log Page of an I/O controller: errors, health with true counters, firmware, supported commands and features.
//! The discovery log is in `discovery`.

use std::collections::BTreeMap;

use nvme::command::{admin_opcode, io_opcode};
use nvme::identify::CommandSet;
use nvme::log_page::{
    AnaLogBuilder, AnaState, CROSS_RESET_REMOVE_COMPLETED, ChangedNamespaceList, CommandStagesLog,
    CommandsSupported, ErrorLogEntry, FirmwareSlotLog, LogPageId, LogPageRequest, SmartLog,
    SupportedLogPages, command_effects, critical_warning, log_page_support,
};
use nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U128};

use super::answer::Answer;
use super::identify::FIRMWARE;
use super::{features, namespace_admin};
use crate::limits::{BUFFER_LENGTH_MAX, ERROR_LOG_ENTRIES};
use crate::ring;
use crate::target::controller::{Controller, Notice};
use crate::target::fabric::Fabric;

/// The log pages an I/O controller has.
const PAGES: [LogPageId; 11] = [
    LogPageId::SUPPORTED_LOG_PAGES,
    LogPageId::ERROR_INFORMATION,
    LogPageId::SMART,
    LogPageId::FIRMWARE_SLOT,
    LogPageId::CHANGED_NAMESPACES,
    LogPageId::ANA,
    LogPageId::COMMANDS_SUPPORTED,
    LogPageId::FEATURES_SUPPORTED,
    LogPageId::CROSS_CONTROLLER_RESET,
    LogPageId::RESERVATION_NOTIFICATION,
    LogPageId::COMMAND_STAGES,
];

/// Log specific field of the ANA log: the groups without their namespaces (RGO).
const ANA_GROUPS_ONLY: u8 = 1;

/// Bytes that one data unit of the health log counts.
const DATA_UNIT_BYTES: u64 = 512 * 1000;

/// Answers a Get Log Page command.
pub(crate) fn answer(entry: &SubmissionEntry, controller: &Controller, fabric: &Fabric) -> Answer {
    let request = decode(entry);
    let page = match request.id {
        LogPageId::SUPPORTED_LOG_PAGES => {
            let mut pages = SupportedLogPages::default();
            for id in PAGES {
                pages.set(id, log_page_support::SUPPORTED, 0);
            }
            pages.as_bytes().to_vec()
        }
        LogPageId::ERROR_INFORMATION => {
            let mut entries = controller.state().errors().to_vec();
            // Entries that hold no error have a count of zero.
            entries.resize_with(ERROR_LOG_ENTRIES, ErrorLogEntry::default);
            entries.as_bytes().to_vec()
        }
        LogPageId::SMART => {
            looked_at(controller, Notice::Health, &request);
            smart(controller).as_bytes().to_vec()
        }
        LogPageId::FIRMWARE_SLOT => {
            let mut log = FirmwareSlotLog::default();
            log.active = 1;
            nvme::identify::set_ascii(&mut log.revisions[0], FIRMWARE);
            log.as_bytes().to_vec()
        }
        LogPageId::CHANGED_NAMESPACES => {
            // A change from here on is reported again, although this page may contain it already:
            // better twice than never.
            looked_at(controller, Notice::Namespaces, &request);
            let changed = controller.changed_namespaces(request.retain_event);
            ChangedNamespaceList::new(changed).as_bytes().to_vec()
        }
        LogPageId::ANA => {
            looked_at(controller, Notice::Ana, &request);
            ana(controller, request.specific_parameter & ANA_GROUPS_ONLY != 0)
        }
        LogPageId::COMMANDS_SUPPORTED => {
            let is_managed = namespace_admin::is_offered(&controller.subsystem, fabric);
            let mut log = commands(is_managed, fabric.offers_reservations());
            if request.command_set != CommandSet::NVM {
                // No I/O command of another set is there. `nvme effects-log` asks for two of them, and takes no error.
                log.io = [U32::ZERO; 256];
            }
            log.as_bytes().to_vec()
        }
        LogPageId::FEATURES_SUPPORTED => features::supported(controller, fabric).as_bytes().to_vec(),
        LogPageId::CROSS_CONTROLLER_RESET => return cross_resets(controller, &request),
        LogPageId::RESERVATION_NOTIFICATION => return reservation(controller, &request),
        LogPageId::COMMAND_STAGES => match command_stages(controller, entry.nsid.get()) {
            Some(log) => log.as_bytes().to_vec(),
            None => return Status::INVALID_NAMESPACE.do_not_retry().into(),
        },
        _ => return Status::INVALID_LOG_PAGE.do_not_retry().into(),
    };
    cut(&page, &request)
}

/// The request in an entry.
pub(crate) fn decode(entry: &SubmissionEntry) -> LogPageRequest {
    LogPageRequest::decode(
        entry.cdw10.get(),
        entry.cdw11.get(),
        entry.cdw12.get(),
        entry.cdw13.get(),
        entry.cdw14.get(),
    )
}

/// The part of `page` that was asked for, with zeroes past its end.
pub(crate) fn cut(page: &[u8], request: &LogPageRequest) -> Answer {
    let length = request.length_bytes();
    let offset = usize::try_from(request.offset).unwrap_or(usize::MAX);
    if request.offset_is_index || offset > page.len() || !offset.is_multiple_of(4) {
        return Status::INVALID_FIELD.do_not_retry().into();
    }
    if length > BUFFER_LENGTH_MAX as u64 {
        return Status::INVALID_FIELD.do_not_retry().into();
    }
    let mut bytes = page[offset..].to_vec();
    bytes.resize(length as usize, 0);
    Answer::Data(bytes)
}

/// Records that the host reads a notice's log page, unless it wants to be asked again (RAE).
pub(crate) fn looked_at(controller: &Controller, notice: Notice, request: &LogPageRequest) {
    if !request.retain_event {
        controller.looked_at(notice);
    }
}

/// Cross-controller resets that the controller was asked for, with their results. Completed ones
/// are removed with the page, if the host requests that (RMC).
fn cross_resets(controller: &Controller, request: &LogPageRequest) -> Answer {
    // A completion from here on is reported again, although this page may contain it already:
    // better twice than never.
    looked_at(controller, Notice::CrossControllerReset, request);
    let mut state = controller.state();
    let page = state.cross_resets.page();
    let answer = cut(&page.encode(), request);
    if matches!(answer, Answer::Data(_)) && request.specific_parameter & CROSS_RESET_REMOVE_COMPLETED != 0 {
        let end = request.offset.saturating_add(request.length_bytes());
        state.cross_resets.remove_ended(&page, request.offset, end);
    }
    answer
}

/// Changes by other hosts to this host's reservations: one page at a time, discarded once it is
/// read without RAE.
fn reservation(controller: &Controller, request: &LogPageRequest) -> Answer {
    let page = controller.reservation_page();
    let answer = cut(page.as_bytes(), request);
    if matches!(answer, Answer::Data(_)) && !request.retain_event {
        controller.read_reservation_page(page.page_count.get());
    }
    answer
}

/// Asymmetric namespace access: every group in which the host sees a namespace, whole.
fn ana(controller: &Controller, groups_only: bool) -> Vec<u8> {
    let table = controller.table();
    let state = controller.subsystem.state();
    let mut groups: BTreeMap<u32, (AnaState, Vec<u32>)> = BTreeMap::new();
    for attachment in table.attachments() {
        let group = groups.entry(attachment.group).or_insert_with(|| (attachment.access.state(), Vec::new()));
        group.1.push(attachment.namespace.nsid);
    }
    let mut log = AnaLogBuilder::new(state.ana.changes());
    for (id, (access, mut nsids)) in groups {
        if groups_only {
            nsids.clear();
        }
        log.group(id, state.ana.changed_at(id), access, nsids);
    }
    log.finish()
}

/// Time that commands on a namespace spent in each stage; `None` if the host does not see the
/// namespace.
fn command_stages(controller: &Controller, nsid: u32) -> Option<CommandStagesLog> {
    controller.table().attachment(nsid)?;
    let counters = &controller.subsystem.counters;
    let (latency, stages_ns) = counters.command_stages(nsid);
    let log = CommandStagesLog::new(nsid, latency.count(), latency.sum_ns, &stages_ns);
    Some(CommandStagesLog { counters: counters.number().into(), ..log })
}

/// Health of the subsystem: its counters are true, and what a program cannot know (temperature, wear) is zero.
fn smart(controller: &Controller) -> SmartLog {
    let counts = controller.subsystem.counters.counts();
    let units = |bytes: u64| U128::new(u128::from(bytes.div_ceil(DATA_UNIT_BYTES)));
    let mut log = SmartLog::default();
    log.critical_warning = critical_warning(controller);
    log.available_spare = 100;
    log.data_units_read = units(counts.read_bytes);
    log.data_units_written = units(counts.write_bytes);
    log.host_read_commands = U128::new(u128::from(counts.read_commands));
    log.host_write_commands = U128::new(u128::from(counts.write_commands));
    log.power_cycles = U128::new(1);
    log.power_on_hours =
        U128::new(u128::from(ring::now().since(controller.subsystem.started).as_secs() / 3600));
    log.media_errors = U128::new(u128::from(counts.media_errors));
    log.error_log_entries = U128::new(u128::from(controller.state().error_count()));
    log
}

/// Critical warning bits: set if some or all of the host's namespaces refuse writes because their
/// storage has failed.
fn critical_warning(controller: &Controller) -> u8 {
    let table = controller.table();
    let failed = table.iter().filter(|namespace| namespace.has_failed()).count();
    let degraded = if failed > 0 { critical_warning::RELIABILITY } else { 0 };
    let is_read_only = failed > 0 && failed == table.iter().count();
    degraded | if is_read_only { critical_warning::READ_ONLY } else { 0 }
}

/// Effects of each supported command. `manages` is set if hosts may manage namespaces, and `reserves` if they may reserve them.
fn commands(manages: bool, reserves: bool) -> CommandsSupported {
    let mut log = CommandsSupported::default();
    let supported = command_effects::SUPPORTED;
    for opcode in [
        admin_opcode::GET_LOG_PAGE,
        admin_opcode::IDENTIFY,
        admin_opcode::ABORT,
        admin_opcode::SET_FEATURES,
        admin_opcode::GET_FEATURES,
        admin_opcode::ASYNC_EVENT_REQUEST,
        admin_opcode::KEEP_ALIVE,
        admin_opcode::CROSS_CONTROLLER_RESET,
        admin_opcode::GET_LBA_STATUS,
    ] {
        log.admin[usize::from(opcode)] = U32::new(supported);
    }
    if manages {
        let inventory = supported | command_effects::NAMESPACE_INVENTORY_CHANGE;
        log.admin[usize::from(admin_opcode::NAMESPACE_ATTACHMENT)] = U32::new(inventory);
        // A deleted namespace takes its blocks with it.
        log.admin[usize::from(admin_opcode::NAMESPACE_MANAGEMENT)] =
            U32::new(inventory | command_effects::CONTENT_CHANGE);
    }
    let reservations = [
        io_opcode::RESERVATION_REGISTER,
        io_opcode::RESERVATION_REPORT,
        io_opcode::RESERVATION_ACQUIRE,
        io_opcode::RESERVATION_RELEASE,
    ];
    let reservations = if reserves { &reservations[..] } else { &[] };
    let others = [io_opcode::FLUSH, io_opcode::READ, io_opcode::COMPARE, io_opcode::VERIFY];
    for opcode in others.iter().chain(reservations) {
        log.io[usize::from(*opcode)] = U32::new(supported);
    }
    for opcode in [
        io_opcode::WRITE,
        io_opcode::WRITE_UNCORRECTABLE,
        io_opcode::WRITE_ZEROES,
        io_opcode::DATASET_MANAGEMENT,
        io_opcode::COPY,
    ] {
        log.io[usize::from(opcode)] = U32::new(supported | command_effects::CONTENT_CHANGE);
    }
    log
}
