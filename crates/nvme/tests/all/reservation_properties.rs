//! Properties of what reservations say on the wire: reports in both forms, the data of the commands and the
//! types. Who may do what under a reservation is tested where it is decided.

use nvme::identify::bits::reservation_capabilities;
use nvme::io::IoCommand;
use nvme::reservation::{
    AcquireAction, AcquireData, PersistenceChange, RegisterAction, RegisterData, Registrant, ReleaseAction,
    ReleaseData, ReportError, ReservationReport, ReservationStatus, ReservationType, encode_report,
};
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

fn registrant() -> impl Strategy<Value = Registrant> {
    (any::<u16>(), any::<bool>(), any::<[u8; 16]>(), any::<u64>())
        .prop_map(|(controller_id, holds, host_id, key)| Registrant { controller_id, holds, host_id, key })
}

fn kind() -> impl Strategy<Value = Option<ReservationType>> {
    // Neither 0 nor 7 is a type.
    (0..=7_u8).prop_map(ReservationType::from_wire)
}

proptest! {
    #[test]
    fn reports_decode_to_themselves(
        generation: u32, kind in kind(), persists: bool, extended: bool,
        mut registrants in vec(registrant(), 0..40), trailing in 0_usize..100,
    ) {
        let mut bytes = encode_report(generation, kind, persists, &registrants, extended);
        let (header, entry) = if extended { (64, 64) } else { (24, 24) };
        let length = header + registrants.len() * entry;
        prop_assert_eq!(bytes.len(), length);
        bytes.resize(length + trailing, 0xaa);
        if !extended {
            // This form has no room for the other half of the host identifier.
            registrants.iter_mut().for_each(|registrant| registrant.host_id[8..].fill(0));
        }
        let report = ReservationReport::parse(&bytes, extended).expect("we made it");
        prop_assert_eq!(report, ReservationReport { generation, kind, persists, registrants });
    }

    #[test]
    fn half_a_report_is_refused_and_says_its_length(
        registrants in vec(registrant(), 0..40), extended: bool, cut: prop::sample::Index,
    ) {
        let bytes = encode_report(1, None, false, &registrants, extended);
        let half = &bytes[..cut.index(bytes.len())];
        let parsed = ReservationReport::parse(half, extended);
        let truncated = matches!(parsed, Err(ReportError::Truncated { .. }));
        prop_assert!(truncated, "{} of {} bytes", half.len(), bytes.len());
        let length = (half.len() >= size_of::<ReservationStatus>()).then_some(bytes.len());
        prop_assert_eq!(ReservationReport::length_bytes(half, extended), length);
    }

    #[test]
    fn any_bytes_are_a_report_or_an_error(
        mut bytes in vec(any::<u8>(), 0..600),
        (kind, announced) in (any::<u8>(), 0..30_u16),
        (plausible, extended) in any::<(bool, bool)>(),
    ) {
        if plausible && bytes.len() > 7 {
            bytes[4] = kind % 8;
            bytes[5..7].copy_from_slice(&announced.to_le_bytes());
        }
        let shortest = if extended { 64 } else { 24 };
        match ReservationReport::parse(&bytes, extended) {
            Ok(report) => {
                let length = shortest + report.registrants.len() * shortest;
                prop_assert!(length <= bytes.len());
                prop_assert_eq!(ReservationReport::length_bytes(&bytes, extended), Some(length));
            }
            Err(ReportError::Type(kind)) => {
                prop_assert!(kind != 0 && ReservationType::from_wire(kind).is_none());
            }
            Err(ReportError::Truncated { announced, bytes: length }) => {
                prop_assert_eq!(length, bytes.len());
                prop_assert!(shortest + usize::from(announced) * shortest > length);
            }
        }
    }

    #[test]
    fn values_decode_to_themselves_or_are_reserved(field: u8) {
        let kind = ReservationType::from_wire(field);
        prop_assert_eq!(kind.map(|kind| kind as u8), (1..=6).contains(&field).then_some(field));
        let action = RegisterAction::from_wire(field);
        prop_assert_eq!(action.map(|action| action as u8), (field <= 2).then_some(field));
        let action = AcquireAction::from_wire(field);
        prop_assert_eq!(action.map(|action| action as u8), (field <= 2).then_some(field));
        let action = ReleaseAction::from_wire(field);
        prop_assert_eq!(action.map(|action| action as u8), (field <= 1).then_some(field));
        let change = PersistenceChange::from_wire(field);
        prop_assert_eq!(change.map(|change| change as u8), matches!(field, 0 | 2 | 3).then_some(field));
    }

    #[test]
    fn keys_stand_where_the_commands_read_them(first: u64, second: u64) {
        let bytes = [first.to_le_bytes(), second.to_le_bytes()].concat();
        let register = RegisterData { current_key: first.into(), new_key: second.into() };
        prop_assert_eq!(register.as_bytes(), &bytes[..]);
        prop_assert_eq!(RegisterData::read_from_bytes(&bytes).ok(), Some(register));
        let acquire = AcquireData { current_key: first.into(), preempt_key: second.into() };
        prop_assert_eq!(acquire.as_bytes(), &bytes[..]);
        prop_assert_eq!(AcquireData::read_from_bytes(&bytes).ok(), Some(acquire));
        let release = ReleaseData { current_key: first.into() };
        prop_assert_eq!(release.as_bytes(), &bytes[..8]);
        prop_assert!(ReleaseData::read_from_bytes(&bytes[..7]).is_err());
    }
}

#[test]
fn a_report_counts_no_more_registrants_than_it_can() {
    let registrants = vec![Registrant::default(); 65_536];
    let bytes = encode_report(1, None, false, &registrants, false);
    let report = ReservationReport::parse(&bytes, false).expect("we made it");
    assert_eq!(report.registrants.len(), 65_535);
}

#[test]
fn types_say_who_may_do_what() {
    use ReservationType as Type;
    let expected = [
        (Type::WriteExclusive, true, false, false, reservation_capabilities::WRITE_EXCLUSIVE),
        (Type::ExclusiveAccess, false, false, false, reservation_capabilities::EXCLUSIVE_ACCESS),
        (Type::WriteExclusiveRegistrantsOnly, true, true, false, 1 << 3),
        (Type::ExclusiveAccessRegistrantsOnly, false, true, false, 1 << 4),
        (Type::WriteExclusiveAllRegistrants, true, false, true, 1 << 5),
        (Type::ExclusiveAccessAllRegistrants, false, false, true, 1 << 6),
    ];
    assert_eq!(Type::ALL, expected.map(|(kind, ..)| kind));
    for (kind, write_exclusive, registrants_only, all_registrants, capability) in expected {
        assert_eq!(kind.is_write_exclusive(), write_exclusive, "{kind:?}");
        assert_eq!(kind.registrants_only(), registrants_only, "{kind:?}");
        assert_eq!(kind.all_registrants(), all_registrants, "{kind:?}");
        assert_eq!(kind.capability(), capability, "{kind:?}");
    }
}

// What is encoded and decoded by the same hand may be wrong twice: these bytes are the specification's.

#[test]
fn reservation_commands_stand_on_the_wire_as_specified() {
    let register = IoCommand::ReservationRegister {
        action: RegisterAction::Replace,
        ignore_existing_key: true,
        persistence: PersistenceChange::PersistThroughPowerLoss,
    };
    let acquire = IoCommand::ReservationAcquire {
        action: AcquireAction::PreemptAndAbort,
        ignore_existing_key: false,
        kind: ReservationType::ExclusiveAccessAllRegistrants,
    };
    let release = IoCommand::ReservationRelease {
        action: ReleaseAction::Release,
        ignore_existing_key: true,
        kind: Some(ReservationType::WriteExclusive),
    };
    let report = IoCommand::ReservationReport { dwords: 0x1_0000, extended: true };
    let expected = [
        (register, 0x0d, [0x0a, 0, 0, 0xc0, 0, 0, 0, 0]),
        (acquire, 0x11, [0x02, 6, 0, 0, 0, 0, 0, 0]),
        (release, 0x15, [0x08, 1, 0, 0, 0, 0, 0, 0]),
        (report, 0x0e, [0xff, 0xff, 0, 0, 1, 0, 0, 0]),
    ];
    for (command, opcode, dwords) in expected {
        let entry = command.encode(1);
        assert_eq!(entry.as_bytes()[..2], [opcode, 0x40], "{command:?}");
        assert_eq!(entry.as_bytes()[40..48], dwords, "{command:?}");
        assert_eq!(entry.as_bytes()[48..], [0; 16], "{command:?}");
    }
}

#[test]
fn a_report_stands_on_the_wire_as_specified() {
    let host_id = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    let registrants = [Registrant { controller_id: 0x0102, holds: true, host_id, key: 0x0a0b }];
    let kind = Some(ReservationType::WriteExclusiveRegistrantsOnly);
    let mut header = [0; 64];
    header[..10].copy_from_slice(&[5, 0, 0, 0, 3, 1, 0, 0, 0, 1]);
    let plain = encode_report(5, kind, true, &registrants, false);
    assert_eq!(plain[..24], header[..24]);
    assert_eq!(plain[24..32], [2, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(plain[32..40], host_id[..8]);
    assert_eq!(plain[40..], [0x0b, 0x0a, 0, 0, 0, 0, 0, 0]);
    let extended = encode_report(5, kind, true, &registrants, true);
    assert_eq!(extended[..64], header);
    assert_eq!(extended[64..72], [2, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(extended[72..80], [0x0b, 0x0a, 0, 0, 0, 0, 0, 0]);
    assert_eq!(extended[80..96], host_id);
    assert_eq!(extended[96..], [0; 32]);
}

#[test]
fn more_dwords_than_can_be_counted_are_as_many_as_can() {
    let mut entry = IoCommand::ReservationReport { dwords: 1, extended: false }.encode(1);
    entry.cdw10 = u32::MAX.into();
    let expected = IoCommand::ReservationReport { dwords: u32::MAX, extended: false };
    assert_eq!(IoCommand::decode(&entry), Ok(expected));
}

#[test]
#[should_panic(expected = "a report has at least 1 dword")]
fn an_empty_report_is_the_callers_mistake() {
    IoCommand::ReservationReport { dwords: 0, extended: true }.encode(1);
}
