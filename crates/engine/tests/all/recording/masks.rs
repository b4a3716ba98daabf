//! Permitted differences between a recorded answer and the present one: each such place is a mask with a name and a
//! reason, and everything else has to be the same, byte by byte.

use std::mem::offset_of;
use std::ops::Range;

use nvme::SubmissionEntry;
use nvme::command::{admin_opcode, io_opcode};
use nvme::discovery::DiscoveryEntry;
use nvme::fabrics::{controller_status, fabrics_type, property};
use nvme::features::FeatureId;
use nvme::identify::{Cns, IdentifyController};
use nvme::log_page::{FirmwareSlotLog, LogPageId};
use nvme::tcp::PduType;

/// Bytes of the headers whose contents are masked, behind the common header of 8 bytes.
const COMPLETION_AT: usize = 8;
const RESULT: Range<usize> = COMPLETION_AT..COMPLETION_AT + 2;
const QUEUE_HEAD: Range<usize> = COMPLETION_AT + 8..COMPLETION_AT + 10;
const TRANSFER_TAG: Range<usize> = 10..12;
const DATA_OFFSET_AT: usize = 3;
/// Byte of DATAO in C2HData.
const PLACE_AT: usize = 12;
/// Entries of the discovery log begin behind its header, and have its length.
const DISCOVERY_ENTRY: usize = size_of::<DiscoveryEntry>();

/// Part of an answer that may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    /// CNTLID: which identifiers are free, and where they begin, is the target's affair.
    ControllerId,
    /// CIU and CIRN of Identify Controller: new for each controller.
    Instance,
    /// FR and the firmware slot log: this program's version.
    Firmware,
    /// Get Features Timestamp: the time.
    Timestamp,
    /// Get Features Keep Alive Timer: a replay requests a longer time-out than the recorded one.
    KeepAlive,
    /// TRSVCID in the discovery log: the port listens on a free one.
    Service,
    /// TTAG of an R2T: whatever the target likes, and given back by the host.
    TransferTag,
    /// SHST in CSTS, once a shutdown has begun: when it is complete depends on what is under way.
    Shutdown,
    /// SQHD, while several commands of a queue are under way: it says how many the target had read when it answered.
    QueueHead,
    /// Digests: of bytes that are masked. That they are right is checked by themselves.
    Digest,
}

/// Command that a PDU of the target answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answered {
    /// The command, where there is one.
    pub(crate) entry: Option<SubmissionEntry>,
    /// Set on an admin queue: the same opcodes mean something else on the others.
    pub(crate) is_admin: bool,
    /// Set if others are under way on its queue.
    pub(crate) among_several: bool,
    /// Digests of header and data.
    pub(crate) digests: (bool, bool),
}

/// The bytes of a target's PDU that belong to masks.
pub(crate) fn masks(pdu: &[u8], answered: &Answered) -> Vec<(Mask, Range<usize>)> {
    let Answered { entry, is_admin, among_several, digests } = *answered;
    let command = entry.filter(|entry| is_admin || is_connect(entry));
    let mut masks = Vec::new();
    let kind = PduType::from_number(pdu[0]);
    let header_length = usize::from(pdu[2]);
    if digests.0 && kind.is_some_and(|kind| !kind.is_without_digest()) {
        masks.push((Mask::Digest, header_length..header_length + 4));
    }
    match kind {
        Some(PduType::CapsuleResponse) => {
            if command.as_ref().is_some_and(is_connect) {
                masks.push((Mask::ControllerId, RESULT));
            }
            if entry.filter(|_| is_admin).is_some_and(|entry| tells_shutdown(&entry, pdu)) {
                masks.push((Mask::Shutdown, COMPLETION_AT..COMPLETION_AT + 1));
            }
            if command.as_ref().is_some_and(reads_keep_alive) {
                masks.push((Mask::KeepAlive, COMPLETION_AT..COMPLETION_AT + 4));
            }
            if among_several {
                masks.push((Mask::QueueHead, QUEUE_HEAD));
            }
        }
        Some(PduType::ReadyToTransfer) => masks.push((Mask::TransferTag, TRANSFER_TAG)),
        Some(PduType::DataToHost) => {
            let start = usize::from(pdu[DATA_OFFSET_AT]);
            let end = pdu.len() - if digests.1 { 4 } else { 0 };
            if digests.1 {
                masks.push((Mask::Digest, end..pdu.len()));
            }
            let at = u32::from_le_bytes(pdu[PLACE_AT..PLACE_AT + 4].try_into().expect("4 bytes")) as usize;
            let range = at..at + (end - start);
            let of_report = entry.filter(|entry| !is_admin && entry.opcode == io_opcode::RESERVATION_REPORT);
            let fields = match (command, of_report) {
                (Some(entry), _) => of_data(&entry, range),
                (None, Some(entry)) => controllers_of_report(&entry, &range),
                (None, None) => Vec::new(),
            };
            for (mask, field) in fields {
                // What of the field is in this PDU.
                let (from, to) = (field.start.max(at), field.end.min(at + (end - start)));
                if from < to {
                    masks.push((mask, start + from - at..start + to - at));
                }
            }
        }
        _ => {}
    }
    masks
}

fn reads_keep_alive(entry: &SubmissionEntry) -> bool {
    entry.opcode == admin_opcode::GET_FEATURES
        && FeatureId(entry.cdw10.get() as u8) == FeatureId::KEEP_ALIVE_TIMER
}

fn is_connect(entry: &SubmissionEntry) -> bool {
    entry.opcode == admin_opcode::FABRICS && entry.fabrics_type() == fabrics_type::CONNECT
}

/// True if a Property Get is answered with the status of a controller whose shutdown has begun.
fn tells_shutdown(entry: &SubmissionEntry, pdu: &[u8]) -> bool {
    asks_status(entry) && u32::from(pdu[COMPLETION_AT]) & controller_status::SHUTDOWN_MASK != 0
}

/// True if the answer says that a controller is ready, as one is until its reset is complete.
pub(crate) fn tells_ready(pdu: &[u8], answered: &Answered) -> bool {
    answered.is_admin
        && answered.entry.as_ref().is_some_and(asks_status)
        && PduType::from_number(pdu[0]) == Some(PduType::CapsuleResponse)
        && u32::from(pdu[COMPLETION_AT]) & controller_status::READY != 0
}

fn asks_status(entry: &SubmissionEntry) -> bool {
    entry.opcode == admin_opcode::FABRICS
        && entry.fabrics_type() == fabrics_type::PROPERTY_GET
        && entry.cdw11.get() == property::STATUS
}

/// The controllers in what a Reservation Report says, up to the end of `range`.
fn controllers_of_report(entry: &SubmissionEntry, range: &Range<usize>) -> Vec<(Mask, Range<usize>)> {
    let is_extended = entry.cdw11.get() & 1 != 0;
    // The header is as long as what goes for a registrant is.
    let length = if is_extended { 64 } else { 24 };
    let entries = (1..).map(|number| number * length).take_while(|at| *at < range.end);
    entries.map(|at| (Mask::ControllerId, at..at + 2)).collect()
}

/// The masked fields of a command's data, of which `range` is looked at. Only admin commands have some.
fn of_data(entry: &SubmissionEntry, range: Range<usize>) -> Vec<(Mask, Range<usize>)> {
    let field = |at: usize, length: usize| at..at + length;
    let id = entry.cdw10.get() as u8;
    match entry.opcode {
        admin_opcode::IDENTIFY if Cns(id) == Cns::CONTROLLER => vec![
            (Mask::ControllerId, field(offset_of!(IdentifyController, controller_id), 2)),
            (Mask::Instance, field(offset_of!(IdentifyController, instance_uniquifier), 1)),
            (Mask::Instance, field(offset_of!(IdentifyController, instance_random_number), 8)),
            (Mask::Firmware, field(offset_of!(IdentifyController, firmware_revision), 8)),
        ],
        admin_opcode::GET_FEATURES if FeatureId(id) == FeatureId::TIMESTAMP => {
            vec![(Mask::Timestamp, field(0, 6))]
        }
        admin_opcode::GET_LOG_PAGE if LogPageId(id) == LogPageId::FIRMWARE_SLOT => {
            vec![(Mask::Firmware, field(offset_of!(FirmwareSlotLog, revisions), 8))]
        }
        admin_opcode::GET_LOG_PAGE if LogPageId(id) == LogPageId::DISCOVERY => {
            // The command may begin anywhere within the page.
            let first = entry.cdw12.get() as usize;
            let service = offset_of!(DiscoveryEntry, service_id);
            let entries = (1..).map(|number| number * DISCOVERY_ENTRY + service);
            let fields = entries.take_while(|at| *at < first + range.end).filter(|at| *at + 32 > first);
            fields.map(|at| (Mask::Service, at.saturating_sub(first)..at + 32 - first)).collect()
        }
        _ => Vec::new(),
    }
}
