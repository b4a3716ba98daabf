//! Properties of commands, completions and status: what is encoded decodes to itself, and any bytes decode.
//! How they are framed on a connection is tested in `tcp_properties`.

use nvme::command::DataPointer;
use nvme::fabrics::{Connect, ConnectData, InvalidParameter, PropertyAccess, fabrics_type};
use nvme::io::{
    COPY_RANGES_MAX, CopyFormat, DATASET_RANGES_MAX, DatasetRange, Fused, IoCommand, asks_for_protection,
    copy_ranges, encode_copy_ranges, encode_ranges,
};
use nvme::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReleaseAction, ReservationType};
use nvme::{CompletionEntry, SglDescriptor, Status, SubmissionEntry};
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

fn io_command() -> impl Strategy<Value = IoCommand> {
    let blocks = || prop_oneof![Just(1), Just(0x1_0000), 1..=0x1_0000_u32];
    prop_oneof![
        (any::<u64>(), blocks(), any::<bool>()).prop_map(|(start, blocks, force_unit_access)| {
            IoCommand::Read { start, blocks, force_unit_access }
        }),
        (any::<u64>(), blocks(), any::<bool>()).prop_map(|(start, blocks, force_unit_access)| {
            IoCommand::Write { start, blocks, force_unit_access }
        }),
        (any::<u64>(), blocks()).prop_map(|(start, blocks)| IoCommand::Compare { start, blocks }),
        Just(IoCommand::Flush),
        (any::<u64>(), blocks(), any::<bool>(), any::<bool>()).prop_map(
            |(start, blocks, force_unit_access, deallocate)| {
                IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate }
            }
        ),
        (1..=256_u16, any::<bool>())
            .prop_map(|(ranges, deallocate)| IoCommand::DatasetManagement { ranges, deallocate }),
        (any::<u64>(), blocks()).prop_map(|(start, blocks)| IoCommand::Verify { start, blocks }),
        (any::<u64>(), blocks()).prop_map(|(start, blocks)| IoCommand::WriteUncorrectable { start, blocks }),
        (any::<u64>(), 1..=256_u16, copy_format(), any::<bool>()).prop_map(
            |(start, ranges, format, force_unit_access)| {
                IoCommand::Copy { start, ranges, format, force_unit_access }
            }
        ),
        reservation_command(),
    ]
}

fn copy_format() -> impl Strategy<Value = CopyFormat> {
    prop_oneof![Just(CopyFormat::Format0), Just(CopyFormat::Format1)]
}

fn reservation_command() -> impl Strategy<Value = IoCommand> {
    let register = (0..3_u8, any::<bool>(), prop_oneof![Just(0_u8), Just(2), Just(3)]);
    let kind = || (1..=6_u8).prop_map(|field| ReservationType::from_wire(field).expect("a type"));
    let release = (prop::option::of(kind()), any::<bool>());
    prop_oneof![
        register.prop_map(|(action, ignore_existing_key, change)| IoCommand::ReservationRegister {
            action: RegisterAction::from_wire(action).expect("an action"),
            ignore_existing_key,
            persistence: PersistenceChange::from_wire(change).expect("a change"),
        }),
        (0..3_u8, any::<bool>(), kind()).prop_map(|(action, ignore_existing_key, kind)| {
            let action = AcquireAction::from_wire(action).expect("an action");
            IoCommand::ReservationAcquire { action, ignore_existing_key, kind }
        }),
        release.prop_map(|(kind, ignore_existing_key)| {
            let action = if kind.is_some() { ReleaseAction::Release } else { ReleaseAction::Clear };
            IoCommand::ReservationRelease { action, ignore_existing_key, kind }
        }),
        (1..=u32::MAX, any::<bool>())
            .prop_map(|(dwords, extended)| IoCommand::ReservationReport { dwords, extended }),
    ]
}

fn connect() -> impl Strategy<Value = Connect> {
    (any::<u16>(), any::<u16>(), any::<u16>(), any::<u8>(), any::<u32>()).prop_map(
        |(record_format, queue_id, queue_size, attributes, keep_alive_ms)| Connect {
            record_format,
            queue_id,
            queue_size,
            attributes,
            keep_alive_ms,
        },
    )
}

/// Any 64 bytes, with opcode, flags and descriptor type often such that decoding gets far.
fn submission_bytes() -> impl Strategy<Value = [u8; 64]> {
    let opcode = prop_oneof![
        Just(0x00_u8),
        Just(0x01),
        Just(0x02),
        Just(0x05),
        Just(0x04),
        Just(0x08),
        Just(0x09),
        Just(0x0c),
        Just(0x0d),
        Just(0x0e),
        Just(0x11),
        Just(0x15),
        Just(0x19),
        Just(0x7f),
        any::<u8>()
    ];
    let flags = prop_oneof![Just(0x40_u8), Just(0x41), Just(0x42), any::<u8>()];
    let kind = prop_oneof![Just(0x00_u8), Just(0x01), Just(0x5a), any::<u8>()];
    (any::<[[u8; 32]; 2]>(), opcode, flags, kind, any::<bool>()).prop_map(
        |(halves, opcode, flags, kind, plain)| {
            let mut bytes: [u8; 64] = std::array::from_fn(|at| halves[at / 32][at % 32]);
            (bytes[0], bytes[1], bytes[39]) = (opcode, flags, kind);
            if plain {
                // No offset within the capsule, no protection information, a property of a known width, a
                // copy format and a reservation type that are often known.
                bytes[24..32].fill(0);
                bytes[51] &= !0x3c;
                bytes[49] &= !0xfe;
                bytes[40] &= !0x06;
                bytes[41] &= !0xf8;
            }
            bytes
        },
    )
}

fn check_final(status: Status) {
    assert!(!status.is_success() && status.is_do_not_retry(), "{status:?}");
}

proptest! {
    #[test]
    fn io_commands_decode_to_themselves(command in io_command(), nsid: u32) {
        let entry = command.encode(nsid);
        prop_assert_eq!(IoCommand::decode(&entry), Ok(command));
        prop_assert_eq!(entry.nsid.get(), nsid);
        prop_assert!(entry.uses_sgl());
        prop_assert_eq!(entry.fused(), 0);
        let bytes: [u8; 64] = entry.as_bytes().try_into().expect("64 bytes");
        prop_assert_eq!(SubmissionEntry::read_from_bytes(&bytes).expect("64 bytes"), entry);
    }

    #[test]
    fn fused_commands_are_refused(command in io_command(), fused in 1_u8..4) {
        let mut entry = command.encode(1);
        entry.flags |= fused;
        prop_assert_eq!(IoCommand::decode(&entry), Err(Status::INVALID_FIELD.do_not_retry()));
    }

    #[test]
    fn protection_information_is_no_part_of_a_command(command in io_command(), protection in 1_u32..16) {
        let mut entry = command.encode(1);
        prop_assert!(!asks_for_protection(&entry));
        entry.cdw12 = (entry.cdw12.get() | protection << 26).into();
        let carries_protection = matches!(
            command,
            IoCommand::Read { .. } | IoCommand::Write { .. } | IoCommand::Compare { .. }
                | IoCommand::WriteZeroes { .. } | IoCommand::Verify { .. } | IoCommand::Copy { .. }
        );
        prop_assert_eq!(asks_for_protection(&entry), carries_protection);
        prop_assert_eq!(IoCommand::decode(&entry), Ok(command));
    }

    #[test]
    fn only_a_compare_is_fused_with_a_write(command in io_command(), fused in 0_u8..4) {
        let mut entry = command.encode(1);
        entry.flags |= fused;
        let expected = match (fused, command) {
            (0, _) => Ok((command, Fused::No)),
            (1, IoCommand::Compare { .. }) => Ok((command, Fused::First)),
            (2, IoCommand::Write { .. }) => Ok((command, Fused::Second)),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        };
        prop_assert_eq!(IoCommand::decode_fused(&entry), expected);
        if let Ok((command, fused)) = expected {
            prop_assert_eq!(command.encode_fused(1, fused), entry);
            prop_assert_eq!(IoCommand::decode(&entry).is_ok(), fused == Fused::No);
        }
    }

    #[test]
    fn reserved_values_are_refused(cdw10: u32, cdw11: u32, control: u32) {
        let invalid = Err(Status::INVALID_FIELD.do_not_retry());
        let decode = |opcode| {
            let mut entry = SubmissionEntry::new(opcode, 1);
            (entry.cdw10, entry.cdw11, entry.cdw12) = (cdw10.into(), cdw11.into(), control.into());
            IoCommand::decode(&entry)
        };
        let (action, kind) = (cdw10 & 0b111, cdw10 >> 8 & 0xff);
        let known_type = (1..=6).contains(&kind);
        let register = action <= 2 && cdw10 >> 30 != 1;
        prop_assert_eq!(decode(0x0d) == invalid, !register);
        prop_assert_eq!(decode(0x11) == invalid, action > 2 || !known_type);
        prop_assert_eq!(decode(0x15) == invalid, !(action == 1 || (action == 0 && known_type)));
        prop_assert_eq!(decode(0x0e).is_ok(), true, "a report has no reserved values");
        prop_assert_eq!(decode(0x19) == invalid, control >> 8 & 0xf > 1);
        prop_assert_eq!(decode(0x04).is_ok(), true, "nothing is checked that Write Uncorrectable lacks");
    }

    #[test]
    fn any_64_bytes_decode_to_a_value_or_a_status(bytes in submission_bytes()) {
        let entry = SubmissionEntry::read_from_bytes(&bytes).expect("64 bytes");
        prop_assert_eq!(entry.as_bytes(), &bytes[..]);
        match IoCommand::decode(&entry) {
            Ok(command) => prop_assert_eq!(IoCommand::decode(&command.encode(entry.nsid.get())), Ok(command)),
            Err(status) => check_final(status),
        }
        match IoCommand::decode_fused(&entry) {
            Ok((command, fused)) => {
                let again = command.encode_fused(entry.nsid.get(), fused);
                prop_assert_eq!(IoCommand::decode_fused(&again), Ok((command, fused)));
            }
            Err(status) => check_final(status),
        }
        match PropertyAccess::decode(&entry) {
            Ok(access) => prop_assert_eq!(PropertyAccess::decode(&access.encode_set()), Ok(access)),
            Err(status) => check_final(status),
        }
        match entry.data_pointer() {
            Ok(pointer) => {
                prop_assert!(entry.uses_sgl());
                prop_assert_eq!(pointer.length(), entry.data.length.get());
            }
            Err(status) => check_final(status),
        }
        let connect = Connect::decode(&entry);
        prop_assert_eq!(Connect::decode(&connect.encode()), connect);
        prop_assert_eq!(entry.fabrics_type(), bytes[4]);
        prop_assert_eq!(entry.cdw10_11(), u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")));
    }

    #[test]
    fn connect_decodes_to_itself(connect in connect()) {
        let entry = connect.encode();
        prop_assert_eq!(Connect::decode(&entry), connect);
        prop_assert_eq!(entry.fabrics_type(), fabrics_type::CONNECT);
        prop_assert_eq!(entry.data_pointer(), Ok(DataPointer::InCapsule { offset: 0, length: 1024 }));
    }

    #[test]
    fn connect_data_keeps_its_names(
        host_id: [u8; 16], controller_id: u16, subsystem in "[ -~]{0,300}", host in "[ -~ä✓]{0,200}",
    ) {
        let data = ConnectData::new(host_id, controller_id, &subsystem, &host);
        let data = ConnectData::read_from_bytes(data.as_bytes()).expect("1,024 bytes");
        prop_assert_eq!(data.host_id, host_id);
        prop_assert_eq!(data.controller_id.get(), controller_id);
        for (field, name) in [(data.subsystem_nqn, &subsystem), (data.host_nqn, &host)] {
            let kept = name.len().min(255);
            prop_assert_eq!(&field[..kept], &name.as_bytes()[..kept]);
            prop_assert!(field[kept..].iter().all(|&byte| byte == 0), "a name ends with NUL");
        }
    }

    #[test]
    fn property_access_decodes_to_itself(offset: u32, wide: bool, value: u64) {
        let value = if wide { value } else { value & u64::from(u32::MAX) };
        let access = PropertyAccess { offset, wide, value };
        let entry = access.encode_set();
        prop_assert_eq!(PropertyAccess::decode(&entry), Ok(access));
        prop_assert_eq!(entry.fabrics_type(), fabrics_type::PROPERTY_SET);
        let entry = access.encode_get();
        prop_assert_eq!(PropertyAccess::decode(&entry), Ok(PropertyAccess { value: 0, ..access }));
        prop_assert_eq!(entry.fabrics_type(), fabrics_type::PROPERTY_GET);
    }

    #[test]
    fn a_narrow_property_has_no_upper_half(offset: u32, value: u64) {
        let entry = PropertyAccess { offset, wide: false, value }.encode_set();
        let decoded = PropertyAccess::decode(&entry).expect("4 bytes are a width");
        prop_assert_eq!(decoded.value, value & u64::from(u32::MAX));
    }

    #[test]
    fn descriptors_decode_to_themselves(length: u32, address in 1_u64.., kind: u8) {
        let in_capsule = SglDescriptor::in_capsule(length);
        let at = |offset| match length {
            0 => DataPointer::Transport { length },
            _ => DataPointer::InCapsule { offset, length },
        };
        let decoded = at(0);
        prop_assert_eq!(in_capsule.decode(), Ok(decoded));
        let transport = SglDescriptor::transport(length);
        prop_assert_eq!(transport.decode(), Ok(DataPointer::Transport { length }));
        for descriptor in [in_capsule, transport] {
            let read = SglDescriptor::read_from_bytes(descriptor.as_bytes()).expect("16 bytes");
            prop_assert_eq!(read, descriptor);
            prop_assert_eq!(descriptor.decode().map(DataPointer::length), Ok(length));
        }
        let mut shifted = in_capsule;
        shifted.address = address.into();
        shifted.length = length.max(1).into();
        let place = u32::try_from(address).ok();
        let refused = Status::SGL_OFFSET_INVALID.do_not_retry();
        let expected = place.map(|offset| DataPointer::InCapsule { offset, length: length.max(1) }).ok_or(refused);
        prop_assert_eq!(shifted.decode(), expected);
        if let Some(offset) = place {
            prop_assert_eq!(SglDescriptor::in_capsule_at(offset, length.max(1)), shifted);
        }
        let mut other = transport;
        other.kind = kind;
        let known = matches!(kind, 0x01 | 0x5a) || length == 0;
        prop_assert_eq!(other.decode() == Err(Status::SGL_TYPE_INVALID.do_not_retry()), !known);
    }

    #[test]
    fn data_in_the_capsule_lies_within_it_and_ends_with_it(
        offset in 0_u32..64, length in 1_u32..64, data_length in 0_usize..128,
    ) {
        let (start, end) = (offset as usize, (offset + length) as usize);
        let pointer = DataPointer::InCapsule { offset, length };
        match pointer.place_in_capsule(data_length) {
            Ok(place) => prop_assert_eq!((place, end), (Some(start), data_length)),
            Err(status) => {
                prop_assert_ne!(end, data_length);
                let outside = offset > 0 && end > data_length;
                let expected = if outside { Status::SGL_OFFSET_INVALID } else { Status::DATA_SGL_LENGTH_INVALID };
                prop_assert_eq!(status, expected.do_not_retry());
            }
        }
        let elsewhere = DataPointer::Transport { length }.place_in_capsule(data_length);
        prop_assert_eq!(elsewhere.is_ok(), data_length == 0);
    }

    #[test]
    fn the_largest_offset_does_not_wrap(length in 1_u32.., data_length in 0_usize..16384) {
        let pointer = DataPointer::InCapsule { offset: u32::MAX, length };
        prop_assert_eq!(pointer.place_in_capsule(data_length), Err(Status::SGL_OFFSET_INVALID.do_not_retry()));
    }

    #[test]
    fn a_descriptor_of_no_length_is_no_data_whatever_its_type(kind: u8, address: u64) {
        let mut descriptor = SglDescriptor::transport(0);
        descriptor.kind = kind;
        descriptor.address = address.into();
        prop_assert_eq!(descriptor.decode().map(DataPointer::length), Ok(0));
        prop_assert_eq!(descriptor.is_empty_of_another_type(), !matches!(kind, 0x00 | 0x5a));
    }

    #[test]
    fn entries_without_an_sgl_are_refused(pointers in prop_oneof![Just(0x00_u8), Just(0x80), Just(0xc0)]) {
        let mut entry = IoCommand::Flush.encode(1);
        entry.flags = pointers;
        prop_assert_eq!(entry.data_pointer(), Err(Status::INVALID_FIELD.do_not_retry()));
    }

    #[test]
    fn completions_keep_what_they_were_made_of(id: u16, bits: u16, result: u64, head: u16) {
        let status = Status::from_bits(bits);
        let entry = CompletionEntry::new(id, status, result, head);
        prop_assert_eq!(entry.status(), status);
        prop_assert_eq!(entry.result(), result);
        prop_assert_eq!((entry.command_id.get(), entry.submission_queue_head.get()), (id, head));
        prop_assert_eq!(CompletionEntry::read_from_bytes(entry.as_bytes()).expect("16 bytes"), entry);
        let mut phased = entry;
        phased.status = (entry.status.get() | 1).into();
        prop_assert_eq!(phased.status(), status, "the phase tag is not part of the status");
    }

    #[test]
    fn any_16_bytes_are_a_completion(bytes: [u8; 16]) {
        let entry = CompletionEntry::read_from_bytes(&bytes).expect("16 bytes");
        let status = entry.status();
        prop_assert_eq!(status.is_success(), status.kind() == 0 && status.code() == 0);
        let shown = format!("{status} {status:?}");
        prop_assert!(shown.contains(&format!("{:02x}h", status.code())), "{}", shown);
        prop_assert_eq!(entry.as_bytes(), &bytes[..]);
    }

    #[test]
    fn invalid_parameters_decode_to_themselves(offset: u16, result: u32) {
        for parameter in [InvalidParameter::Entry(offset), InvalidParameter::Data(offset)] {
            prop_assert_eq!(InvalidParameter::decode(parameter.encode()), parameter);
            prop_assert!(!parameter.name().is_empty());
        }
        prop_assert_eq!(InvalidParameter::decode(result).encode(), result & 0x1_ffff);
    }

    #[test]
    fn dataset_ranges_decode_to_themselves(ranges in vec(any::<(u64, u32)>(), 1..=DATASET_RANGES_MAX)) {
        let bytes = encode_ranges(&ranges);
        let decoded = <[DatasetRange]>::ref_from_bytes(&bytes).expect("whole ranges");
        let pairs: Vec<_> = decoded.iter().map(|range| (range.start.get(), range.blocks.get())).collect();
        prop_assert_eq!(pairs, ranges);
        prop_assert!(decoded.iter().all(|range| range.attributes.get() == 0));
    }

    #[test]
    fn copy_ranges_decode_to_themselves(
        format in copy_format(),
        ranges in vec((any::<u64>(), 1..=0x1_0000_u32), 1..=COPY_RANGES_MAX),
        trailing in 0_usize..100,
    ) {
        let mut bytes = encode_copy_ranges(format, &ranges);
        let length = bytes.len();
        let count = ranges.len() as u16;
        prop_assert_eq!(length, format.range_bytes() * ranges.len());
        bytes.resize(length + trailing, 0xaa);
        let decoded = copy_ranges(format, count, &bytes).expect("enough bytes");
        prop_assert_eq!(decoded.len(), ranges.len());
        prop_assert_eq!(decoded.collect::<Vec<_>>(), ranges);
        let short = copy_ranges(format, count, &bytes[..length - 1]).map(|ranges| ranges.count());
        prop_assert_eq!(short, Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry()));
    }

    #[test]
    fn any_bytes_are_copy_ranges_or_a_status(
        format in copy_format(), count: u16, bytes in vec(any::<u8>(), 0..3000),
    ) {
        match copy_ranges(format, count % 100, &bytes) {
            Ok(ranges) => {
                prop_assert_eq!(ranges.len(), usize::from(count % 100));
                let ranges: Vec<_> = ranges.collect();
                prop_assert!(ranges.iter().all(|&(_, blocks)| (1..=0x1_0000).contains(&blocks)));
                let again = encode_copy_ranges(format, &ranges);
                let decoded = copy_ranges(format, count % 100, &again).expect("we made it");
                prop_assert_eq!(decoded.collect::<Vec<_>>(), ranges);
            }
            Err(status) => {
                check_final(status);
                prop_assert!(bytes.len() < usize::from(count % 100) * format.range_bytes());
            }
        }
    }
}

#[test]
fn every_status_decodes_to_itself() {
    for bits in 0..=u16::MAX {
        let status = Status::from_bits(bits);
        assert_eq!(status.bits(), bits & 0x7fff, "the status field has 15 bits");
        assert_eq!(Status::from_bits(status.bits()), status);
        let plain = Status::new(status.kind(), status.code());
        assert_eq!(status.without_flags(), plain);
        assert_eq!((plain.kind(), plain.code()), (status.kind(), status.code()));
        assert_eq!(status.is_success(), plain == Status::SUCCESS);
        assert!(status.do_not_retry().is_do_not_retry() && !plain.is_do_not_retry());
        for flagged in [status.do_not_retry(), status.more()] {
            assert_eq!(flagged.without_flags(), plain);
            assert_eq!(flagged.name(), plain.name(), "flags are not part of the name");
        }
    }
}

#[test]
fn a_code_with_two_meanings_has_both_names() {
    assert_eq!(Status::CONNECT_INVALID_PARAMETERS, Status::WRITE_TO_READ_ONLY);
    let name = Status::CONNECT_INVALID_PARAMETERS.to_string();
    assert!(name.contains("Connect Invalid Parameters"), "{name}");
    assert!(name.contains("Attempted Write to Read Only Range"), "{name}");
    assert_eq!(Status::INVALID_QUEUE_TYPE, Status::INCOMPATIBLE_NAMESPACE);
    let name = Status::INCOMPATIBLE_NAMESPACE.to_string();
    assert!(name.contains("Invalid Queue Type") && name.contains("Incompatible Namespace"), "{name}");
}

// What is encoded and decoded by the same hand may be wrong twice: these bytes are the specification's.

#[test]
fn a_write_stands_on_the_wire_as_specified() {
    let command = IoCommand::Write { start: 0x1122_3344_5566, blocks: 8, force_unit_access: true };
    let mut entry = command.encode(0x0a0b_0c0d);
    entry.command_id = 0x1234.into();
    entry.data = SglDescriptor::in_capsule(4096);
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&[0x01, 0x40, 0x34, 0x12, 0x0d, 0x0c, 0x0b, 0x0a]);
    bytes[32..36].copy_from_slice(&4096_u32.to_le_bytes());
    bytes[39] = 0x01;
    bytes[40..48].copy_from_slice(&[0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0]);
    bytes[48..52].copy_from_slice(&[7, 0, 0, 0x40]);
    assert_eq!(entry.as_bytes(), bytes);
}

#[test]
fn a_deallocation_stands_on_the_wire_as_specified() {
    let zeroes =
        IoCommand::WriteZeroes { start: 1, blocks: 2, force_unit_access: false, deallocate: true }.encode(1);
    assert_eq!(zeroes.as_bytes()[..2], [0x08, 0x40]);
    assert_eq!(zeroes.as_bytes()[40..52], [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2]);
    let bytes = IoCommand::DatasetManagement { ranges: 256, deallocate: true }.encode(1);
    assert_eq!(bytes.as_bytes()[..2], [0x09, 0x40]);
    assert_eq!(bytes.as_bytes()[40..48], [255, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(encode_ranges(&[(2, 1)]), [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_copy_stands_on_the_wire_as_specified() {
    let (format, force_unit_access) = (CopyFormat::Format1, true);
    let entry = IoCommand::Copy { start: 0x0102_0304_0506, ranges: 3, format, force_unit_access }.encode(1);
    assert_eq!(entry.as_bytes()[..2], [0x19, 0x40]);
    assert_eq!(entry.as_bytes()[40..52], [6, 5, 4, 3, 2, 1, 0, 0, 2, 1, 0, 0x40]);
    let mut range = [0; 40];
    (range[8], range[16]) = (9, 7);
    assert_eq!(encode_copy_ranges(CopyFormat::Format0, &[(9, 8)]), range[..32]);
    assert_eq!(encode_copy_ranges(CopyFormat::Format1, &[(9, 8)]), range);
    for (reserved, refused) in [(0x0200, true), (0x1000, false), (0x0100_0000, false)] {
        let mut entry = entry;
        entry.cdw12 = (entry.cdw12.get() & !0x0f00 | reserved).into();
        assert_eq!(IoCommand::decode(&entry).is_err(), refused, "{reserved:#x}");
    }
}

#[test]
fn verify_and_write_uncorrectable_stand_on_the_wire_as_specified() {
    let verify = IoCommand::Verify { start: 1, blocks: 2 }.encode(1);
    assert_eq!(verify.as_bytes()[..2], [0x0c, 0x40]);
    assert_eq!(verify.as_bytes()[40..52], [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    let uncorrectable = IoCommand::WriteUncorrectable { start: 1, blocks: 2 }.encode(1);
    assert_eq!(uncorrectable.as_bytes()[..2], [0x04, 0x40]);
    assert_eq!(uncorrectable.as_bytes()[40..52], [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn commands_that_carry_data_say_so() {
    let compare = IoCommand::Compare { start: 0, blocks: 1 };
    assert_eq!(compare.encode_fused(1, Fused::First).as_bytes()[1], 0x41);
    let write = IoCommand::Write { start: 0, blocks: 1, force_unit_access: false };
    assert_eq!(write.encode_fused(1, Fused::Second).as_bytes()[1], 0x42);
    let format = CopyFormat::Format0;
    let copy = IoCommand::Copy { start: 0, ranges: 1, format, force_unit_access: false };
    let clear = IoCommand::ReservationRelease {
        action: ReleaseAction::Clear,
        ignore_existing_key: false,
        kind: None,
    };
    assert!(compare.sends_data() && write.sends_data() && copy.sends_data() && clear.sends_data());
    let report = IoCommand::ReservationReport { dwords: 1, extended: true };
    let verify = IoCommand::Verify { start: 0, blocks: 1 };
    let uncorrectable = IoCommand::WriteUncorrectable { start: 0, blocks: 1 };
    assert!(!report.sends_data() && !verify.sends_data() && !uncorrectable.sends_data());
}

#[test]
fn a_connect_stands_on_the_wire_as_specified() {
    let connect =
        Connect { record_format: 0, queue_id: 3, queue_size: 127, attributes: 4, keep_alive_ms: 5000 };
    let entry = connect.encode();
    let bytes = entry.as_bytes();
    assert_eq!((bytes[0], bytes[1], bytes[4]), (0x7f, 0x40, 0x01));
    assert_eq!(bytes[24..40], [0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0x01]);
    assert_eq!(bytes[40..52], [0, 0, 3, 0, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
    assert_eq!(InvalidParameter::SUBSYSTEM_NQN.encode(), 0x1_0100);
    assert_eq!(InvalidParameter::QUEUE_ID.encode(), 42);
}

#[test]
fn a_failed_completion_stands_on_the_wire_as_specified() {
    let status = Status::LBA_OUT_OF_RANGE.do_not_retry();
    let entry = CompletionEntry::new(0x0102, status, 0x1122_3344_5566_7788, 9);
    let expected = [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 9, 0, 0, 0, 0x02, 0x01, 0x00, 0x81];
    assert_eq!(entry.as_bytes(), expected);
}

#[test]
#[should_panic(expected = "1 to 65,536 blocks")]
fn no_blocks_are_the_callers_mistake() {
    IoCommand::Read { start: 0, blocks: 0, force_unit_access: false }.encode(1);
}

#[test]
#[should_panic(expected = "1 to 256 ranges")]
fn too_many_ranges_are_the_callers_mistake() {
    IoCommand::DatasetManagement { ranges: 257, deallocate: true }.encode(1);
}

#[test]
#[should_panic(expected = "1 to 256 ranges")]
fn no_copy_ranges_are_the_callers_mistake() {
    IoCommand::Copy { start: 0, ranges: 0, format: CopyFormat::Format0, force_unit_access: false }.encode(1);
}

#[test]
#[should_panic(expected = "only a Compare is fused with a Write")]
fn a_fused_read_is_the_callers_mistake() {
    IoCommand::Read { start: 0, blocks: 1, force_unit_access: false }.encode_fused(1, Fused::First);
}

#[test]
#[should_panic(expected = "a release names the type")]
fn a_release_without_a_type_is_the_callers_mistake() {
    let (action, ignore_existing_key) = (ReleaseAction::Release, false);
    IoCommand::ReservationRelease { action, ignore_existing_key, kind: None }.encode(1);
}
