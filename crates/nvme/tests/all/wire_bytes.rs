//! Bytes of PDUs and log pages as the specification lays them out. What is encoded and decoded by the same hand may be wrong
//! twice: these bytes are written by another.

use nvme::discovery::{AddressFamily, DiscoveryEntry, Nqn, SubsystemType, encode_discovery_log};
use nvme::features::FeatureId;
use nvme::io::IoCommand;
use nvme::log_page::{AnaLogBuilder, AnaState, ErrorLogEntry, FeaturesSupported, SmartLog, feature_effects};
use nvme::tcp::digest::crc32c;
use nvme::tcp::{
    Chunk, DataPdu, Digests, FatalError, Initialize, PduType, ReadyToTransfer, Transmitter, flags,
};
use nvme::{CompletionEntry, Status};
use zerocopy::IntoBytes;

/// Bytes of what `queue` puts into the send list, with `payload` as its payload.
fn sent(digests: Digests, payload: &[u8], queue: impl FnOnce(&mut Transmitter<()>)) -> Vec<u8> {
    let mut transmitter = Transmitter::new(1);
    transmitter.set_digests(digests);
    queue(&mut transmitter);
    let mut bytes = Vec::new();
    for part in transmitter.chunks() {
        match part {
            Chunk::Bytes(part) => bytes.extend_from_slice(part),
            Chunk::Payload { start, end, .. } => bytes.extend_from_slice(&payload[start..end]),
        }
    }
    bytes
}

const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };

#[test]
fn the_opening_pdus_stand_on_the_wire_as_specified() {
    for (kind, number) in [(PduType::InitializeRequest, 0_u8), (PduType::InitializeResponse, 1)] {
        let pdu = Initialize::new(kind, 3, 0x0102_0304);
        let mut expected: Vec<u8> = vec![number, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 4, 3, 2, 1];
        expected.resize(128, 0);
        // They have no digest, whatever else has one.
        assert_eq!(sent(BOTH, &[], |transmitter| transmitter.initialize(&pdu)), expected);
    }
}

#[test]
fn capsules_stand_on_the_wire_as_specified() {
    let command = IoCommand::Write { start: 0, blocks: 1, force_unit_access: false }.encode(1);
    let data = [0x5a_u8; 512];
    let digest = crc32c(&data);
    let capsule = |digests| {
        sent(digests, &data, |transmitter| transmitter.command(command, Some(((), data.len(), digest))))
    };
    let mut expected: Vec<u8> = vec![4, 0, 72, 72, 0x48, 2, 0, 0];
    expected.extend_from_slice(command.as_bytes());
    expected.extend_from_slice(&data);
    assert_eq!(capsule(PLAIN), expected);
    let mut expected: Vec<u8> = vec![4, 3, 72, 76, 0x50, 2, 0, 0];
    expected.extend_from_slice(command.as_bytes());
    let header_digest = crc32c(&expected).to_le_bytes();
    expected.extend_from_slice(&header_digest);
    expected.extend_from_slice(&data);
    expected.extend_from_slice(&digest.to_le_bytes());
    assert_eq!(capsule(BOTH), expected);

    let response = CompletionEntry::new(9, Status::SUCCESS, 0, 7);
    let bytes = sent(PLAIN, &[], |transmitter| transmitter.response(response));
    assert_eq!(bytes, [5, 0, 24, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0]);
}

#[test]
fn data_and_its_requests_stand_on_the_wire_as_specified() {
    let request = ReadyToTransfer::new(0x0102, 0x0304, 0x0506_0708, 0x090a_0b0c);
    let bytes = sent(PLAIN, &[], |transmitter| transmitter.ready_to_transfer(request));
    let fields: [u8; 16] = [2, 1, 4, 3, 8, 7, 6, 5, 0xc, 0xb, 0xa, 9, 0, 0, 0, 0];
    assert_eq!(bytes, [&[9, 0, 24, 0, 24, 0, 0, 0][..], &fields].concat());

    let data = [0xa5_u8; 8];
    for (kind, number, bits) in [
        (PduType::DataToController, 6_u8, flags::LAST),
        (PduType::DataToHost, 7, flags::LAST | flags::SUCCESS),
    ] {
        let pdu = DataPdu::new(kind, bits, 0x0102, 0x0304, 0x0506_0708, 8);
        let bytes = sent(PLAIN, &data, |transmitter| transmitter.data(pdu, (), 0..8, Some(0)));
        let fields: [u8; 16] = [2, 1, 4, 3, 8, 7, 6, 5, 8, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes, [&[number, bits, 24, 24, 32, 0, 0, 0][..], &fields, &data].concat());
    }
    assert_eq!((flags::LAST, flags::SUCCESS), (4, 8));
}

#[test]
fn termination_requests_stand_on_the_wire_as_specified() {
    for (kind, number) in [(PduType::HostTerminate, 2_u8), (PduType::ControllerTerminate, 3)] {
        let faulty = [0xee_u8; 200];
        let bytes = sent(BOTH, &[], |transmitter| {
            transmitter.terminate(kind, FatalError::HeaderDigest, 0x0102_0304, &faulty);
        });
        let mut expected: Vec<u8> = vec![number, 0, 24, 0, 152, 0, 0, 0, 3, 0, 4, 3, 2, 1];
        expected.resize(24, 0);
        // Of a long header no more than 128 bytes come back.
        expected.extend_from_slice(&faulty[..128]);
        assert_eq!(bytes, expected);
    }
}

#[test]
fn an_ana_log_stands_on_the_wire_as_specified() {
    let mut builder = AnaLogBuilder::new(0x0102);
    builder.group(5, 0x0304, AnaState::Inaccessible, [7, 9]);
    let mut expected: Vec<u8> = vec![2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    expected.extend_from_slice(&[5, 0, 0, 0, 2, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 3]);
    expected.resize(16 + 32, 0);
    expected.extend_from_slice(&[7, 0, 0, 0, 9, 0, 0, 0]);
    assert_eq!(builder.finish(), expected);
}

#[test]
fn a_discovery_log_stands_on_the_wire_as_specified() {
    let name = "nqn.2014-08.org.example:a";
    let nqn = Nqn::new(name).expect("a name");
    let entry = DiscoveryEntry::tcp(SubsystemType::NVM, &nqn, AddressFamily::IPV4, "192.0.2.1", "4420");
    let log = encode_discovery_log(0x0102, &[entry]);
    let mut header: Vec<u8> = vec![2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0];
    header.resize(1024, 0);
    assert_eq!(log[..1024], header);
    let entry = &log[1024..];
    assert_eq!(entry[..3], [3, 1, 2], "TCP, IPv4, an NVM subsystem");
    assert_eq!(entry[6..8], [0xff, 0xff], "dynamic controllers");
    assert_eq!(&entry[32..64], format!("{:<32}", "4420").as_bytes());
    assert_eq!(&entry[256..256 + name.len()], name.as_bytes());
    assert!(entry[256 + name.len()..512].iter().all(|byte| *byte == 0), "a name ends with NUL");
    assert_eq!(&entry[512..768], format!("{:<256}", "192.0.2.1").as_bytes());
    assert!(entry[768..].iter().all(|byte| *byte == 0), "no security");
}

#[test]
fn logs_of_errors_health_and_features_stand_on_the_wire_as_specified() {
    let error = ErrorLogEntry {
        error_count: 1.into(),
        queue_id: 0x0203.into(),
        command_id: 0x0405.into(),
        status: 0x0607.into(),
        parameter_location: 0x0809.into(),
        lba: 0x0a0b.into(),
        namespace_id: 0x0c0d.into(),
        transport_type: 3,
        opcode: 2,
        version: 1,
        ..ErrorLogEntry::default()
    };
    let mut expected: Vec<u8> =
        vec![1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 5, 4, 7, 6, 9, 8, 0xb, 0xa, 0, 0, 0, 0, 0, 0];
    expected.extend_from_slice(&[0xd, 0xc, 0, 0, 0, 3, 0, 2]);
    expected.resize(63, 0);
    expected.push(1);
    assert_eq!(error.as_bytes(), expected);

    let mut smart = SmartLog::default();
    (smart.critical_warning, smart.available_spare) = (4, 100);
    let counters = [
        &mut smart.data_units_read,
        &mut smart.data_units_written,
        &mut smart.host_read_commands,
        &mut smart.host_write_commands,
        &mut smart.controller_busy_minutes,
        &mut smart.power_cycles,
        &mut smart.power_on_hours,
        &mut smart.unsafe_shutdowns,
        &mut smart.media_errors,
        &mut smart.error_log_entries,
    ];
    for (number, counter) in (1_u128..).zip(counters) {
        *counter = number.into();
    }
    assert_eq!(smart.as_bytes()[..4], [4, 0, 0, 100]);
    let found: Vec<u8> = smart.as_bytes()[32..192].chunks(16).map(|counter| counter[0]).collect();
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);

    let mut features = FeaturesSupported::default();
    features.set(FeatureId::NUMBER_OF_QUEUES, feature_effects::CONTROLLER_SCOPE);
    features.set(FeatureId::RESERVATION_PERSISTENCE, feature_effects::NAMESPACE_SCOPE);
    assert_eq!(features.as_bytes()[4 * 7..][..4], [1, 0, 0x20, 0]);
    assert_eq!(features.as_bytes()[4 * 0x83..][..4], [1, 0, 0x10, 0]);
    assert!(features.supports(FeatureId(7)) && !features.supports(FeatureId(8)));
}
