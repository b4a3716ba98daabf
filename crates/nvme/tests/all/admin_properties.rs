//! Properties of the admin data structures: what is encoded decodes to itself, and no bytes make them panic.
//!
//! What a target answers, and what a host makes of it, is tested where they are.

use nvme::discovery::{
    AddressFamily, DISCOVERY_NQN, DiscoveryEntry, DiscoveryLog, Nqn, NqnError, ParseError, RECORD_BYTES,
    SubsystemType, encode_discovery_log,
};
use nvme::features::{
    AsyncEvent, AsyncEventType, GetFeatures, NumberOfQueues, Select, SetFeatures, Timestamp,
};
use nvme::identify::{
    Cns, CommandSet, ControllerList, Descriptor, DescriptorError, Descriptors, IdentifyController,
    IdentifyControllerNvm, IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNamespaceNvm,
    IdentifyRequest, IoCommandSetList, ListError, NSID_ALL, NamespaceIdentifiers, NamespaceList, ascii,
    set_ascii,
};
use nvme::log_page::{
    AnaGroupDescriptor, AnaLog, AnaLogBuilder, AnaLogHeader, AnaParseError, AnaState, ChangedNamespaceList,
    CommandsSupported, ErrorLogEntry, FeaturesSupported, FirmwareSlotLog, LogPageId, LogPageRequest,
    ReservationNotification, ReservationNotificationLog, SmartLog, SupportedLogPages,
};
use nvme::namespace_management::{NamespaceAttachment, NamespaceManagement};
use nvme::{Status, SubmissionEntry};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use std::collections::BTreeSet;
use zerocopy::{FromBytes, IntoBytes};

fn identifiers() -> impl Strategy<Value = NamespaceIdentifiers> {
    (any::<Option<[u8; 8]>>(), any::<Option<[u8; 16]>>(), any::<Option<[u8; 16]>>(), any::<Option<u8>>())
        .prop_map(|(eui64, nguid, uuid, command_set)| NamespaceIdentifiers {
            eui64,
            nguid,
            uuid,
            command_set: command_set.map(CommandSet),
        })
}

fn ana_state() -> impl Strategy<Value = AnaState> {
    prop_oneof![
        Just(AnaState::Optimized),
        Just(AnaState::NonOptimized),
        Just(AnaState::Inaccessible),
        Just(AnaState::PersistentLoss),
        Just(AnaState::Change),
    ]
}

fn nqn() -> impl Strategy<Value = Nqn> {
    "nqn\\.[a-z0-9:._\\-äß✓]{0,60}".prop_map(|name| Nqn::new(&name).expect("a valid name"))
}

/// Bytes that look enough like a list of descriptors to get far into its decoder.
fn descriptor_like_bytes() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![Just(0_u8), Just(1), Just(8), Just(16), any::<u8>()];
    vec((0_u8..6, length, any::<[u8; 2]>(), vec(any::<u8>(), 0..20)), 0..20).prop_map(|descriptors| {
        descriptors
            .into_iter()
            .flat_map(|(kind, length, reserved, value)| {
                [kind, length].into_iter().chain(reserved).chain(value).collect::<Vec<_>>()
            })
            .collect()
    })
}

/// Reads a structure from its bytes and writes it back.
fn round_trip<T>(bytes: &[u8]) -> Vec<u8>
where
    T: FromBytes + IntoBytes + zerocopy::KnownLayout + zerocopy::Immutable,
{
    Vec::from(T::read_from_prefix(bytes).expect("enough bytes").0.as_bytes())
}

fn check_round_trip<T>(bytes: &[u8])
where
    T: FromBytes + IntoBytes + zerocopy::KnownLayout + zerocopy::Immutable + Default,
{
    assert_eq!(round_trip::<T>(bytes), bytes[..size_of::<T>()], "{}", core::any::type_name::<T>());
    assert!(T::default().as_bytes().iter().all(|&byte| byte == 0), "{}", core::any::type_name::<T>());
    assert!(T::read_from_bytes(&bytes[1..size_of::<T>()]).is_err());
}

proptest! {
    #[test]
    fn structures_keep_every_byte(bytes in vec(any::<u8>(), 4096)) {
        check_round_trip::<IdentifyController>(&bytes);
        check_round_trip::<IdentifyControllerNvm>(&bytes);
        check_round_trip::<IdentifyNamespace>(&bytes);
        check_round_trip::<IdentifyNamespaceIndependent>(&bytes);
        check_round_trip::<IdentifyNamespaceNvm>(&bytes);
        check_round_trip::<NamespaceList>(&bytes);
        check_round_trip::<ControllerList>(&bytes);
        check_round_trip::<IoCommandSetList>(&bytes);
        check_round_trip::<ErrorLogEntry>(&bytes);
        check_round_trip::<SmartLog>(&bytes);
        check_round_trip::<FirmwareSlotLog>(&bytes);
        check_round_trip::<ChangedNamespaceList>(&bytes);
        check_round_trip::<CommandsSupported>(&bytes);
        check_round_trip::<SupportedLogPages>(&bytes);
        check_round_trip::<FeaturesSupported>(&bytes);
        check_round_trip::<DiscoveryEntry>(&bytes);
        check_round_trip::<Timestamp>(&bytes);
        check_round_trip::<ReservationNotificationLog>(&bytes);
    }

    #[test]
    fn identify_request_round_trips(cdw10 in any::<u32>(), cdw11 in any::<u32>(), cdw14 in any::<u32>()) {
        let request = IdentifyRequest::decode(cdw10, cdw11, cdw14);
        let (first, second, last) = request.encode();
        prop_assert_eq!(IdentifyRequest::decode(first, second, last), request);
        prop_assert_eq!((first, second, last), (cdw10 & 0xFFFF_00FF, cdw11 & 0xFF00_FFFF, cdw14 & 0x7F));
    }

    #[test]
    fn namespace_format_is_always_there(bytes in vec(any::<u8>(), 4096)) {
        let namespace = IdentifyNamespace::ref_from_bytes(&bytes).expect("4096 bytes");
        prop_assert!(namespace.format_index() < 64);
        if let Some(block) = namespace.format().block_bytes() {
            prop_assert!(block.is_power_of_two() && block >= 512);
        }
    }

    #[test]
    fn namespace_identifiers_round_trip(identifiers in identifiers()) {
        let list = identifiers.encode();
        prop_assert_eq!(NamespaceIdentifiers::decode(&list), Ok(identifiers));
        for descriptor in Descriptors::new(&list) {
            prop_assert!((1..=4).contains(&descriptor.expect("we wrote it").kind));
        }
    }

    #[test]
    fn any_bytes_are_descriptors_or_an_error(
        bytes in prop_oneof![vec(any::<u8>(), 0..5000), descriptor_like_bytes()],
    ) {
        let _ = NamespaceIdentifiers::decode(&bytes);
        let mut errors = 0;
        for descriptor in Descriptors::new(&bytes) {
            match descriptor {
                Ok(descriptor) => prop_assert!(!descriptor.value.is_empty()),
                Err(_) => errors += 1,
            }
        }
        prop_assert!(errors <= 1);
    }

    #[test]
    fn namespace_list_has_what_comes_after(
        nsids in btree_set(1..0xFFFF_FFFE_u32, 0..1500),
        after in any::<u32>(),
    ) {
        let list = NamespaceList::after(after, nsids.iter().copied());
        let expected: Vec<u32> =
            nsids.into_iter().filter(|&nsid| nsid > after).take(NamespaceList::CAPACITY).collect();
        prop_assert_eq!(list.decode(after), Ok(expected));
    }

    #[test]
    fn any_bytes_are_a_namespace_list_or_an_error(bytes in vec(any::<u8>(), 4096), after in any::<u32>()) {
        let list = NamespaceList::read_from_bytes(&bytes).expect("4096 bytes");
        if let Ok(nsids) = list.decode(after) {
            prop_assert!(nsids.first().is_none_or(|&first| first > after));
            prop_assert!(nsids.is_sorted_by(|a, b| a < b));
        }
        let _ = ControllerList::read_from_bytes(&bytes).expect("4096 bytes").decode();
        let _ = ChangedNamespaceList::read_from_bytes(&bytes).expect("4096 bytes").decode();
        prop_assert!(IoCommandSetList::read_from_bytes(&bytes).expect("4096 bytes").iter().count() <= 512);
    }

    #[test]
    fn controller_list_has_what_starts_there(ids in btree_set(any::<u16>(), 0..3000), first in any::<u16>()) {
        let list = ControllerList::starting_at(first, ids.iter().copied());
        let expected: Vec<u16> =
            ids.into_iter().filter(|&id| id >= first).take(ControllerList::CAPACITY).collect();
        prop_assert_eq!(list.decode(), Ok(expected));
    }

    #[test]
    fn changed_namespaces_are_all_listed_or_none(nsids in btree_set(1..0xFFFF_FFFE_u32, 0..1100)) {
        let decoded = ChangedNamespaceList::new(nsids.iter().copied()).decode().expect("we made it");
        let any = ChangedNamespaceList::new(nsids.iter().copied().chain([NSID_ALL]));
        prop_assert_eq!(any.decode().expect("we made it"), None);
        let expected = (nsids.len() <= NamespaceList::CAPACITY).then(|| Vec::from_iter(nsids));
        prop_assert_eq!(decoded, expected);
    }

    #[test]
    fn ascii_round_trips(text in "[!-~][ -~]{0,18}[!-~]") {
        let mut field = [0; 20];
        set_ascii(&mut field, &text);
        let read = ascii(&field);
        prop_assert_eq!(read.as_str(), text.as_str());
    }

    #[test]
    fn ascii_is_always_printable(text in any::<String>(), bytes in vec(any::<u8>(), 0..64)) {
        let mut field = [0; 40];
        set_ascii(&mut field, &text);
        prop_assert!(field.iter().all(|byte| (0x20..=0x7E).contains(byte)));
        prop_assert!(ascii(&bytes).bytes().all(|byte| (0x20..=0x7E).contains(&byte)));
    }

    #[test]
    fn nqn_round_trips(nqn in nqn()) {
        prop_assert_eq!(Nqn::decode(&nqn.encode()), Ok(nqn.clone()));
        prop_assert_eq!(nqn.to_string().parse::<Nqn>(), Ok(nqn));
    }

    #[test]
    fn any_bytes_are_a_name_or_an_error(bytes in vec(any::<u8>(), 0..300), text in any::<String>()) {
        let prefixed = [b"nqn.", &bytes[..]].concat();
        for nqn in [Nqn::decode(&bytes), Nqn::decode(&prefixed), Nqn::new(&text)].into_iter().flatten() {
            prop_assert!(!nqn.is_empty() && nqn.len() <= 223);
            prop_assert!(!nqn.chars().any(char::is_control));
        }
    }
}

proptest! {
    #[test]
    fn log_page_request_round_trips(dwords in any::<[u32; 5]>()) {
        let [cdw10, cdw11, cdw12, cdw13, cdw14] = dwords;
        let request = LogPageRequest::decode(cdw10, cdw11, cdw12, cdw13, cdw14);
        let encoded = request.encode();
        prop_assert_eq!(encoded, [cdw10, cdw11, cdw12, cdw13, cdw14 & 0xFF80_007F]);
        let [cdw10, cdw11, cdw12, cdw13, cdw14] = encoded;
        prop_assert_eq!(LogPageRequest::decode(cdw10, cdw11, cdw12, cdw13, cdw14), request);
        prop_assert!((4..=1 << 34).contains(&request.length_bytes()));
    }

    #[test]
    fn log_page_request_asks_for_enough(offset in any::<u64>(), length in any::<u64>()) {
        let asked = LogPageRequest::new(LogPageId::ANA, offset, length).length_bytes();
        prop_assert!(asked >= length.min(1 << 34) && asked.is_multiple_of(4));
        prop_assert!(asked == 4 || asked < length.saturating_add(4));
    }

    #[test]
    fn ana_log_round_trips(
        change_count in any::<u64>(),
        groups in vec((1..=u32::MAX, any::<u64>(), ana_state(), vec(any::<u32>(), 0..50)), 0..20),
    ) {
        let mut builder = AnaLogBuilder::new(change_count);
        for (id, count, state, nsids) in &groups {
            builder.group(*id, *count, *state, nsids.iter().copied());
        }
        let bytes = builder.finish();
        let log = AnaLog::parse(&bytes).expect("we made it");
        prop_assert_eq!(log.change_count, change_count);
        let decoded: Vec<_> = log
            .groups
            .iter()
            .map(|group| {
                let nsids = group.nsids.iter().map(|nsid| nsid.get()).collect();
                (group.id, group.change_count, group.state, nsids)
            })
            .collect();
        prop_assert_eq!(decoded, groups.clone());
        // Cut anywhere it is not a log page: half a list of namespaces must not pass for the whole.
        if !groups.is_empty() {
            let cut = change_count as usize % bytes.len();
            let truncated = matches!(AnaLog::parse(&bytes[..cut]), Err(AnaParseError::Truncated { .. }));
            prop_assert!(truncated);
        }
    }

    #[test]
    fn any_bytes_are_an_ana_log_or_an_error(
        bytes in vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..600),
    ) {
        let _ = AnaLog::parse(&bytes);
    }

    #[test]
    fn discovery_log_round_trips(
        generation in any::<u64>(),
        names in vec((nqn(), "[0-9a-f:.%]{1,60}", "[1-9][0-9]{0,4}"), 0..8),
        trailing in 0_usize..2000,
    ) {
        let entries: Vec<DiscoveryEntry> = names
            .iter()
            .map(|(nqn, address, service_id)| {
                DiscoveryEntry::tcp(SubsystemType::NVM, nqn, AddressFamily::IPV6, address, service_id)
            })
            .collect();
        let mut bytes = encode_discovery_log(generation, &entries);
        let length = bytes.len();
        prop_assert_eq!(length, RECORD_BYTES * (entries.len() + 1));
        bytes.resize(length + trailing, 0xAA);
        let log = DiscoveryLog::parse(&bytes).expect("we made it");
        prop_assert_eq!(log.header.generation_counter.get(), generation);
        prop_assert_eq!(log.header.log_bytes(), Some(length));
        prop_assert_eq!(log.header.total_length.get() as usize, length);
        prop_assert_eq!(log.entries, &entries[..]);
        for (entry, (nqn, address, service_id)) in log.entries.iter().zip(&names) {
            prop_assert_eq!(entry.nqn(), Ok(nqn.clone()));
            prop_assert_eq!(&entry.address(), address);
            prop_assert_eq!(&entry.service_id(), service_id);
        }
        let cut = DiscoveryLog::parse(&bytes[..length - 1]);
        let truncated = matches!(cut, Err(ParseError::Truncated { .. }));
        prop_assert!(truncated);
    }

    #[test]
    fn any_bytes_are_a_discovery_log_or_an_error(
        mut bytes in vec(any::<u8>(), 0..5000),
        announced in prop_oneof![0_u64..6, any::<u64>()],
        make_plausible in any::<bool>(),
    ) {
        if make_plausible && bytes.len() > 20 {
            bytes[8..16].copy_from_slice(&announced.to_le_bytes());
            bytes[16..19].fill(0);
        }
        if let Ok(log) = DiscoveryLog::parse(&bytes) {
            prop_assert_eq!(log.entries.len() as u64, log.header.record_count.get());
            prop_assert!(log.header.log_bytes().is_some_and(|length| length <= bytes.len()));
            for entry in log.entries {
                let _ = (entry.nqn(), entry.address(), entry.service_id(), entry.tcp_security());
            }
        }
    }

    #[test]
    fn features_round_trip(cdw10 in any::<u32>(), cdw11 in any::<u32>(), cdw14 in any::<u32>()) {
        let set = SetFeatures::decode(cdw10, cdw11, cdw14);
        prop_assert_eq!(set.encode(), (cdw10 & 0x8000_00FF, cdw11, cdw14 & 0x7F));
        match GetFeatures::decode(cdw10, cdw11, cdw14) {
            Ok(get) => prop_assert_eq!(get.encode(), (cdw10 & 0x7FF, cdw11, cdw14 & 0x7F)),
            Err(_) => prop_assert!(cdw10 >> 8 & 0x7 > Select::Capabilities as u32),
        }
        let event = AsyncEvent::decode(cdw11);
        prop_assert_eq!(event.encode(), cdw11 & 0x00FF_FF07);
        prop_assert_eq!(AsyncEvent::decode(event.encode()), event);
    }

    #[test]
    fn number_of_queues_round_trips(dword in prop_oneof![any::<u32>(), Just(0xFFFF), Just(u32::MAX)]) {
        match NumberOfQueues::decode(dword) {
            Ok(queues) => prop_assert_eq!(queues.encode(), dword),
            Err(_) => prop_assert!(dword & 0xFFFF == 0xFFFF || dword >> 16 == 0xFFFF),
        }
    }

    #[test]
    fn timestamp_keeps_48_bits(milliseconds in any::<u64>(), attributes in any::<u8>()) {
        let timestamp = Timestamp::new(milliseconds, attributes);
        prop_assert_eq!(timestamp.milliseconds(), milliseconds & 0xFFFF_FFFF_FFFF);
        prop_assert_eq!(Timestamp::read_from_bytes(timestamp.as_bytes()).ok(), Some(timestamp));
    }
}

proptest! {
    #[test]
    fn namespace_management_round_trips(select: u32, cdw11: u32, nsid: u32) {
        let invalid = Status::INVALID_FIELD.do_not_retry();
        let mut entry = SubmissionEntry::new(0x0d, nsid);
        (entry.cdw10, entry.cdw11) = (select.into(), cdw11.into());
        let command_set = CommandSet((cdw11 >> 24) as u8);
        let (management, attachment) = match select & 0xf {
            0 => (Ok(NamespaceManagement::Create { command_set }), Ok(NamespaceAttachment::Attach)),
            1 => (Ok(NamespaceManagement::Delete), Ok(NamespaceAttachment::Detach)),
            _ => (Err(invalid), Err(invalid)),
        };
        prop_assert_eq!(NamespaceManagement::decode(&entry), management);
        prop_assert_eq!(NamespaceAttachment::decode(&entry), attachment);
        if let (Ok(management), Ok(attachment)) = (management, attachment) {
            let entry = management.encode(nsid);
            prop_assert_eq!((entry.opcode, entry.nsid.get()), (0x0d, nsid));
            prop_assert_eq!(NamespaceManagement::decode(&entry), Ok(management));
            prop_assert_eq!(management.sends_data(), management != NamespaceManagement::Delete);
            let entry = attachment.encode(nsid);
            prop_assert_eq!((entry.opcode, entry.nsid.get()), (0x15, nsid));
            prop_assert_eq!(NamespaceAttachment::decode(&entry), Ok(attachment));
        }
    }

    #[test]
    fn reservation_notifications_keep_what_they_were_made_of(
        count: u64, field: u8, available in prop_oneof![0_usize..300, any::<usize>()], nsid: u32,
    ) {
        let Some(kind) = ReservationNotification::from_wire(field % 4) else {
            return Err(TestCaseError::fail("four values are known"));
        };
        let log = ReservationNotificationLog::new(count, kind, available, nsid);
        let bytes = log.as_bytes();
        prop_assert_eq!(&bytes[..8], count.to_le_bytes());
        prop_assert_eq!((bytes[8], usize::from(bytes[9])), (field % 4, available.min(255)));
        prop_assert_eq!(&bytes[12..16], nsid.to_le_bytes());
        prop_assert_eq!(log.kind(), Some(kind));
        prop_assert_eq!(ReservationNotification::from_wire(field).is_some(), field < 4);
    }
}

#[test]
fn values_are_where_the_specification_puts_them() {
    assert_eq!(AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED.encode(), 0x04_00_02);
    assert_eq!(AsyncEvent::ANA_CHANGE.encode(), 0x0C_03_02);
    assert_eq!(AsyncEvent::DISCOVERY_LOG_CHANGE.encode(), 0x70_F0_02);
    assert_eq!(AsyncEvent::RESERVATION_LOG_AVAILABLE.kind, AsyncEventType::COMMAND_SET);
    let four = core::num::NonZero::new(4).expect("four");
    assert_eq!(NumberOfQueues::pairs(four).encode(), 0x0003_0003);
    assert_eq!(IdentifyRequest::new(Cns::CONTROLLER).encode(), (1, 0, 0));
    assert_eq!(LogPageRequest::new(LogPageId::SMART, 0, 512).encode(), [127 << 16 | 2, 0, 0, 0, 0]);
    assert_eq!(LogPageRequest::new(LogPageId::ANA, 1 << 40, 1 << 20).encode(), [0xFFFF_000C, 3, 0, 256, 0]);
    let mut pages = SupportedLogPages::default();
    pages.set(LogPageId::DISCOVERY, 1, 6);
    assert!(pages.supports(LogPageId::DISCOVERY) && !pages.supports(LogPageId::SMART));
    assert_eq!(ErrorLogEntry::parameter(40, 3), 0x0328);
    assert_eq!(size_of::<AnaLogHeader>() + size_of::<AnaGroupDescriptor>(), 48);
    assert_eq!(IoCommandSetList::nvm_only().iter().collect::<Vec<_>>(), [1]);
    assert_eq!(IoCommandSetList::bit(CommandSet(64)), 0);
}

#[test]
fn hostile_lists_are_refused() {
    let repeated = NamespaceList::read_from_bytes(&[1, 0, 0, 0].repeat(1024)).expect("4096 bytes");
    assert_eq!(repeated.decode(0), Err(ListError::NotIncreasing { previous: 1, found: 1 }));
    assert_eq!(repeated.decode(1), Err(ListError::NotIncreasing { previous: 1, found: 1 }));
    let reserved = NamespaceList::after(0, [7, u32::MAX - 1]);
    assert_eq!(reserved.decode(0), Err(ListError::ReservedNamespace(u32::MAX - 1)));
    let crowded = ControllerList { count: 2048.into(), ..ControllerList::default() };
    assert_eq!(crowded.decode(), Err(ListError::ControllerCount(2048)));
    assert_eq!(ControllerList::starting_at(0, BTreeSet::new()).decode(), Ok(Vec::new()));
    assert_eq!(ChangedNamespaceList::too_many().decode(), Ok(None));

    let short_uuid = [Descriptor::UUID, 8, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let length = DescriptorError::Length { kind: 3, length: 8 };
    assert_eq!(NamespaceIdentifiers::decode(&short_uuid), Err(length));
    let two_command_sets = [4, 1, 0, 0, 0, 4, 1, 0, 0, 2];
    assert_eq!(NamespaceIdentifiers::decode(&two_command_sets), Err(DescriptorError::Conflict { kind: 4 }));
    let unknown_then_command_set = [9, 2, 0, 0, 1, 2, 4, 1, 0, 0, 2];
    let decoded = NamespaceIdentifiers::decode(&unknown_then_command_set).expect("unknown types are skipped");
    assert_eq!(decoded.command_set, Some(CommandSet::ZONED));
    let overrun = [0xFF, 0xFF, 0, 0];
    assert_eq!(NamespaceIdentifiers::decode(&overrun), Err(DescriptorError::Overrun { offset: 0 }));
}

#[test]
fn names_are_checked() {
    assert_eq!(Nqn::new(""), Err(NqnError::Empty));
    // As Linux takes them.
    for name in ["mysub", "testnqn", "iqn.2014-08.org.example", "my sub"] {
        assert!(Nqn::new(name).is_ok_and(|nqn| !nqn.is_qualified() && nqn.as_str() == name), "{name}");
    }
    assert!(Nqn::configured("mysub").is_ok() && Nqn::configured("nqn.a").is_ok_and(|nqn| nqn.is_qualified()));
    for name in ["nqn.a,nqn.b", "nqn.a nqn.b", " mysub", "mysub\u{a0}"] {
        assert_eq!(Nqn::configured(name), Err(NqnError::Separator), "{name:?}");
    }
    assert_eq!(Nqn::new("nqn.\u{1b}[2J"), Err(NqnError::Control));
    assert_eq!(Nqn::new(&format!("nqn.{}", "x".repeat(220))), Err(NqnError::TooLong));
    assert_eq!(Nqn::new(&format!("nqn.{}", "x".repeat(219))).map(|nqn| nqn.len()), Ok(223));
    assert_eq!(Nqn::decode(&[b'n'; 256]), Err(NqnError::TooLong));
    assert_eq!(Nqn::decode(&[0; 256]), Err(NqnError::Empty));
    assert_eq!(Nqn::decode(b"nqn.\xFF\0"), Err(NqnError::NotUtf8));
    assert_eq!(Nqn::decode(b"nqn.a\0junk"), Nqn::new("nqn.a"));
    assert!(Nqn::new(DISCOVERY_NQN).is_ok_and(|nqn| nqn == Nqn::discovery() && nqn.is_discovery()));
}
