//! What the other side of a connection describes itself with, and the commands that a host sends, read from any bytes.
//! What is read is written again and is then the same; nothing read is larger than the bytes it was read from.

use nvme::SubmissionEntry;
use nvme::command::SglDescriptor;
use nvme::cross_reset::ControllerInstance;
use nvme::discovery::{DiscoveryLog, DiscoveryLogHeader, Nqn, RECORD_BYTES, encode_discovery_log};
use nvme::fabrics::{Connect, ConnectData, PropertyAccess};
use nvme::features::{AsyncEvent, GetFeatures, NumberOfQueues, SetFeatures};
use nvme::identify::{
    ControllerList, IdentifyNamespace, IdentifyRequest, NamespaceIdentifiers, NamespaceList,
};
use nvme::io::{CopyFormat, DATASET_RANGES_MAX, IoCommand, copy_ranges};
use nvme::log_page::{AnaLog, ChangedNamespaceList, CrossResetLog, LogPageRequest};
use nvme::namespace_management::NamespaceManagement;
use nvme::reservation::ReservationReport;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The longest list or page that a fuzzer's few bytes are made into.
const PAGE_BYTES: usize = 4096;

/// Reads the bytes of one input as what its first byte says.
pub fn check(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 12 {
        0 => discovery_log(bytes),
        1 => namespace_list(bytes),
        2 => namespace_identifiers(bytes),
        3 => identify_namespace(bytes),
        4 => ana_log(bytes),
        5 => cross_reset_log(bytes),
        6 => reservation_report(bytes),
        7 => controller_list(bytes),
        8 => names(bytes),
        9 => admin_command(bytes),
        10 => io_command(bytes),
        _ => copy_command(bytes),
    }
}

/// A structure of fixed length that begins with these bytes, and is zero behind them.
fn padded<T: FromZeros + IntoBytes + FromBytes + Immutable + KnownLayout>(bytes: &[u8]) -> T {
    let mut value = T::new_zeroed();
    let room = value.as_mut_bytes();
    let length = bytes.len().min(room.len());
    room[..length].copy_from_slice(&bytes[..length]);
    value
}

fn discovery_log(bytes: &[u8]) {
    if let Ok((header, _)) = DiscoveryLogHeader::ref_from_prefix(bytes) {
        let announced = header.log_bytes();
        assert!(announced.is_none_or(|length| length >= RECORD_BYTES && length % RECORD_BYTES == 0));
    }
    let Ok(log) = DiscoveryLog::parse(bytes) else { return };
    assert!(size_of_val(log.entries) + RECORD_BYTES <= bytes.len(), "entries from nowhere");
    for entry in log.entries {
        if let Ok(nqn) = entry.nqn() {
            assert_eq!(Nqn::new(nqn.as_str()).as_ref(), Ok(&nqn));
        }
        let texts = [entry.address(), entry.service_id()];
        assert!(texts.iter().all(|text| text.chars().count() <= 256));
    }
    let again = encode_discovery_log(log.header.generation_counter.get(), log.entries);
    let parsed = DiscoveryLog::parse(&again).expect("what is written can be read");
    assert_eq!(parsed.entries, log.entries);
}

fn namespace_list(bytes: &[u8]) {
    let Some((after, bytes)) = bytes.split_first_chunk() else { return };
    let after = u32::from_le_bytes(*after);
    let list: Box<NamespaceList> = Box::new(padded(bytes));
    if let Ok(nsids) = list.decode(after) {
        assert!(nsids.len() <= NamespaceList::CAPACITY);
        assert!(nsids.first().is_none_or(|first| *first > after) && nsids.is_sorted_by(|a, b| a < b));
        assert_eq!(NamespaceList::after(after, nsids.iter().copied()).decode(after), Ok(nsids));
    }
    let changed: ChangedNamespaceList = padded(bytes);
    if let Ok(Some(nsids)) = changed.decode() {
        assert_eq!(ChangedNamespaceList::new(nsids.iter().copied()).decode(), Ok(Some(nsids)));
    }
}

fn namespace_identifiers(bytes: &[u8]) {
    // A list that ends early, and one that is as long as Identify's answer.
    for bytes in [bytes, &padded::<[u8; PAGE_BYTES]>(bytes)] {
        if let Ok(names) = NamespaceIdentifiers::decode(bytes) {
            assert_eq!(NamespaceIdentifiers::decode(&names.encode()), Ok(names));
        }
    }
}

fn identify_namespace(bytes: &[u8]) {
    let namespace: Box<IdentifyNamespace> = Box::new(padded(bytes));
    let format = namespace.format();
    assert!(format.block_bytes().is_none_or(|bytes| bytes.is_power_of_two()));
    assert!(namespace.format_index() < 64);
}

fn ana_log(bytes: &[u8]) {
    let Ok(log) = AnaLog::parse(bytes) else { return };
    let length: usize = log.groups.iter().map(|group| 32 + size_of_val(group.nsids)).sum();
    assert!(16 + length <= bytes.len(), "groups from nowhere");
    assert!(log.groups.iter().all(|group| group.id > 0));
}

fn cross_reset_log(bytes: &[u8]) {
    let Ok(log) = CrossResetLog::parse(bytes) else { return };
    assert!(CrossResetLog::length_bytes(log.entries.len()) <= bytes.len(), "entries from nowhere");
    for entry in &log.entries {
        let _ = entry.status();
    }
    assert_eq!(CrossResetLog::parse(&log.encode()), Ok(log));
}

fn reservation_report(bytes: &[u8]) {
    for extended in [false, true] {
        let length = ReservationReport::length_bytes(bytes, extended);
        if ReservationReport::parse(bytes, extended).is_ok() {
            assert!(length.is_some_and(|length| length <= bytes.len()), "registrants from nowhere");
        }
    }
}

fn controller_list(bytes: &[u8]) {
    let list: Box<ControllerList> = Box::new(padded(bytes));
    if let Ok(ids) = list.decode() {
        assert!(ids.len() <= ControllerList::CAPACITY);
    }
}

fn names(bytes: &[u8]) {
    if let Ok(nqn) = Nqn::decode(bytes) {
        assert_eq!(Nqn::decode(&nqn.encode()), Ok(nqn));
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(nqn) = Nqn::new(text)
    {
        assert_eq!((nqn.as_str(), Nqn::decode(&nqn.encode())), (text, Ok(nqn.clone())));
    }
    let data: Box<ConnectData> = Box::new(padded(bytes));
    let _ = (Nqn::decode(&data.subsystem_nqn), Nqn::decode(&data.host_nqn));
}

fn admin_command(bytes: &[u8]) {
    let entry: SubmissionEntry = padded(bytes);
    let cdw = [entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13, entry.cdw14].map(|dword| dword.get());
    let log = LogPageRequest::decode(cdw[0], cdw[1], cdw[2], cdw[3], cdw[4]);
    let [a, b, c, d, e] = log.encode();
    assert_eq!(LogPageRequest::decode(a, b, c, d, e), log);
    assert!((4..=1 << 34).contains(&log.length_bytes()));
    let identify = IdentifyRequest::decode(cdw[0], cdw[1], cdw[4]);
    let (a, b, c) = identify.encode();
    assert_eq!(IdentifyRequest::decode(a, b, c), identify);
    if let Ok(get) = GetFeatures::decode(cdw[0], cdw[1], cdw[4]) {
        let (a, b, c) = get.encode();
        assert_eq!(GetFeatures::decode(a, b, c), Ok(get));
    }
    let set = SetFeatures::decode(cdw[0], cdw[1], cdw[4]);
    let (a, b, c) = set.encode();
    assert_eq!(SetFeatures::decode(a, b, c), set);
    if let Ok(queues) = NumberOfQueues::decode(cdw[0]) {
        assert_eq!(NumberOfQueues::decode(queues.encode()), Ok(queues));
    }
    let event = AsyncEvent::decode(cdw[0]);
    assert_eq!(AsyncEvent::decode(event.encode()), event);
    let connect = Connect::decode(&entry);
    assert_eq!(Connect::decode(&connect.encode()), connect);
    if let Ok(access) = PropertyAccess::decode(&entry) {
        assert_eq!(PropertyAccess::decode(&access.encode_set()), Ok(access));
    }
    if let Ok(management) = NamespaceManagement::decode(&entry) {
        assert_eq!(NamespaceManagement::decode(&management.encode(1)), Ok(management));
    }
    let reset = ControllerInstance::decode(&entry);
    assert_eq!(ControllerInstance::decode(&reset.encode_reset()), reset);
}

fn io_command(bytes: &[u8]) {
    let entry: SubmissionEntry = padded(bytes);
    if let Ok((command, fused)) = IoCommand::decode_fused(&entry) {
        assert_eq!(IoCommand::decode_fused(&command.encode_fused(1, fused)), Ok((command, fused)));
    }
    if let Ok(command) = IoCommand::decode(&entry) {
        assert_eq!(IoCommand::decode(&command.encode(entry.nsid.get())), Ok(command));
    }
    let descriptor: SglDescriptor = entry.data;
    if let (Ok(pointer), Ok(again)) = (descriptor.decode(), entry.data_pointer()) {
        assert_eq!(pointer.length(), again.length());
    }
}

fn copy_command(bytes: &[u8]) {
    let Some((&[format, ranges], data)) = bytes.split_first_chunk() else { return };
    let Some(format) = CopyFormat::from_wire(format) else { return };
    let ranges = u16::from(ranges) + 1;
    assert!(usize::from(ranges) <= DATASET_RANGES_MAX);
    if let Ok(found) = copy_ranges(format, ranges, data) {
        assert_eq!(found.len(), usize::from(ranges));
        assert!(found.into_iter().all(|(_, blocks)| (1..=1 << 16).contains(&blocks)));
    }
}
