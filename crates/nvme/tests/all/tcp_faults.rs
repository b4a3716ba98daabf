//! Every fatal error of the framing: bytes that are wrong in one way, and the status (FES), information (FEI)
//! and header that the termination request has to carry for them. What is not fatal is tested in
//! `tcp_properties`.

use nvme::tcp::digest::crc32c;
use nvme::tcp::{
    Chunk, DataPdu, DecodeError, Digests, Event, FatalError, Initialize, PduType, ReadyToTransfer, Receiver,
    Role, Transfer, TransferError, Transmitter, flags, negotiate, settle,
};
use nvme::{CompletionEntry, SubmissionEntry};
use zerocopy::{FromBytes, IntoBytes};

const DATA_LENGTH_MAX: u32 = 4096;
const NONE: Digests = Digests { header: false, data: false };
const HEADER: Digests = Digests { header: true, data: false };
const DATA: Digests = Digests { header: false, data: true };
const BOTH: Digests = Digests { header: true, data: true };

/// Length of the common header: all that is sent along when it is wrong already.
const COMMON: usize = 8;

/// Bytes that no conforming peer sends, and what is said about them.
struct Fault {
    what: &'static str,
    role: Role,
    digests: Digests,
    /// Set if the connection was opened before.
    open: bool,
    bytes: Vec<u8>,
    error: FatalError,
    information: u32,
    header_length: usize,
}

impl Fault {
    /// A wrong field of the common header, at `at`.
    fn field(what: &'static str, role: Role, digests: Digests, bytes: Vec<u8>, at: u32) -> Self {
        let error = FatalError::InvalidHeaderField;
        Self { what, role, digests, open: true, bytes, error, information: at, header_length: COMMON }
    }

    /// A PDU that comes out of turn.
    fn sequence(what: &'static str, role: Role, open: bool, bytes: Vec<u8>) -> Self {
        let error = FatalError::PduSequence;
        Self { what, role, digests: NONE, open, bytes, error, information: 0, header_length: COMMON }
    }
}

/// The bytes of what `queue` queues; all payload is zeroes.
fn framed(digests: Digests, queue: impl FnOnce(&mut Transmitter<()>)) -> Vec<u8> {
    let mut transmitter = Transmitter::new(1);
    transmitter.set_digests(digests);
    queue(&mut transmitter);
    let mut bytes = Vec::new();
    for part in transmitter.chunks() {
        match part {
            Chunk::Bytes(part) => bytes.extend_from_slice(part),
            Chunk::Payload { start, end, .. } => bytes.resize(bytes.len() + end - start, 0),
        }
    }
    bytes
}

fn crc_of_zeroes(length: u32) -> u32 {
    crc32c(&vec![0; length as usize])
}

fn command(digests: Digests, length: u32) -> Vec<u8> {
    let data = (length > 0).then(|| ((), length as usize, crc_of_zeroes(length)));
    framed(digests, |transmitter| transmitter.command(SubmissionEntry::new(1, 1), data))
}

fn data(kind: PduType, digests: Digests, length: u32) -> Vec<u8> {
    let pdu = DataPdu::new(kind, flags::LAST, 1, 2, 0, length);
    framed(digests, |transmitter| transmitter.data(pdu, (), 0..length as usize, Some(crc_of_zeroes(length))))
}

fn to_controller(digests: Digests, length: u32) -> Vec<u8> {
    data(PduType::DataToController, digests, length)
}

fn to_host(digests: Digests, length: u32) -> Vec<u8> {
    data(PduType::DataToHost, digests, length)
}

fn response(digests: Digests) -> Vec<u8> {
    framed(digests, |transmitter| transmitter.response(CompletionEntry::default()))
}

fn ready_to_transfer(digests: Digests) -> Vec<u8> {
    framed(digests, |transmitter| transmitter.ready_to_transfer(ReadyToTransfer::new(1, 2, 0, 64)))
}

fn termination(kind: PduType) -> Vec<u8> {
    framed(NONE, |transmitter| transmitter.terminate(kind, FatalError::PduSequence, 0, &[7; 200]))
}

fn opening(kind: PduType) -> Vec<u8> {
    Initialize::new(kind, 0, 4096).as_bytes().to_vec()
}

/// `bytes` with some of them set.
fn with(mut bytes: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for &(at, value) in changes {
        bytes[at] = value;
    }
    bytes
}

/// `bytes` with another length of the PDU (PLEN).
fn with_length(mut bytes: Vec<u8>, length: u32) -> Vec<u8> {
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// `bytes` with another length of the data (DATAL), and a header digest that fits.
fn with_data_length(mut bytes: Vec<u8>, length: u32) -> Vec<u8> {
    bytes[16..20].copy_from_slice(&length.to_le_bytes());
    if bytes[1] & flags::HEADER_DIGEST != 0 {
        let digest = crc32c(&bytes[..24]).to_le_bytes();
        bytes[24..28].copy_from_slice(&digest);
    }
    bytes
}

fn wrong_types() -> Vec<Fault> {
    use Role::{Controller, Host};
    let fault = |what, role, bytes| Fault::field(what, role, NONE, bytes, 0);
    let before = |fault| Fault { open: false, ..fault };
    vec![
        fault("a type that is none", Controller, with(command(NONE, 0), &[(0, 8)])),
        fault("a type that is none", Controller, with(command(NONE, 0), &[(0, 0xff)])),
        fault("a type that is none", Host, with(response(NONE), &[(0, 0x0a)])),
        before(fault("a type that is none, first", Controller, with(command(NONE, 0), &[(0, 8)]))),
        fault("a response to a controller", Controller, response(NONE)),
        fault("an R2T to a controller", Controller, ready_to_transfer(NONE)),
        fault("C2HData to a controller", Controller, to_host(NONE, 64)),
        fault("C2HTermReq to a controller", Controller, termination(PduType::ControllerTerminate)),
        before(fault("an ICResp to a controller", Controller, opening(PduType::InitializeResponse))),
        fault("a command to a host", Host, command(NONE, 0)),
        fault("H2CData to a host", Host, to_controller(NONE, 64)),
        fault("H2CTermReq to a host", Host, termination(PduType::HostTerminate)),
        before(fault("an ICReq to a host", Host, opening(PduType::InitializeRequest))),
    ]
}

fn wrong_flags() -> Vec<Fault> {
    use Role::{Controller, Host};
    let fault = |what, role, digests, bytes| Fault::field(what, role, digests, bytes, 1);
    vec![
        fault("a header digest not agreed on", Host, DATA, response(HEADER)),
        fault("no header digest", Controller, HEADER, command(NONE, 0)),
        fault("no header digest", Host, BOTH, ready_to_transfer(NONE)),
        fault("a data digest not agreed on", Host, HEADER, to_host(BOTH, 64)),
        fault("a data digest not agreed on, no data", Host, NONE, with(response(NONE), &[(1, 2)])),
        fault("no data digest", Controller, DATA, to_controller(NONE, 64)),
        fault("no data digest", Controller, BOTH, command(HEADER, 64)),
        // Of several wrong fields the first one is named.
        fault("flags and HLEN", Controller, HEADER, with(command(NONE, 0), &[(2, 71)])),
        fault("flags and PDO", Controller, DATA, with(command(NONE, 64), &[(3, 1)])),
    ]
}

fn wrong_lengths() -> Vec<Fault> {
    use Role::{Controller, Host};
    let header = |what, role, bytes| Fault::field(what, role, NONE, bytes, 2);
    let offset = |what, role, digests, bytes| Fault::field(what, role, digests, bytes, 3);
    let length = |what, role, digests, bytes| Fault::field(what, role, digests, bytes, 4);
    let before = |fault| Fault { open: false, ..fault };
    let end = || termination(PduType::HostTerminate);
    vec![
        header("HLEN of a command", Controller, with(command(NONE, 0), &[(2, 64)])),
        header("HLEN of H2CData", Controller, with(to_controller(NONE, 64), &[(2, 28)])),
        header("HLEN of a response", Host, with(response(NONE), &[(2, 0)])),
        header("HLEN of C2HTermReq", Host, with(termination(PduType::ControllerTerminate), &[(2, 25)])),
        before(header("HLEN of an ICReq", Controller, with(opening(PduType::InitializeRequest), &[(2, 8)]))),
        offset("PDO within the header", Controller, NONE, with(command(NONE, 64), &[(3, 68)])),
        offset("PDO on the header digest", Controller, BOTH, with(command(BOTH, 64), &[(3, 72)])),
        offset("PDO of 0", Host, NONE, with(to_host(NONE, 64), &[(3, 0)])),
        offset("PDO not of dwords", Host, NONE, with(to_host(NONE, 64), &[(3, 26)])),
        offset("PDO behind the PDU", Host, NONE, with(to_host(NONE, 64), &[(3, 92)])),
        length("PLEN under the header", Controller, NONE, with_length(command(NONE, 0), 71)),
        length("PLEN of 0", Controller, NONE, with_length(to_controller(NONE, 64), 0)),
        length("PLEN without the header digest", Host, HEADER, with_length(response(HEADER), 24)),
        length("PLEN of the data digest only", Host, DATA, with_length(to_host(DATA, 64), 28)),
        length("PLEN within the data digest", Host, DATA, with_length(to_host(DATA, 64), 26)),
        length("PLEN of no data", Host, NONE, with(with_length(to_host(NONE, 64), 28), &[(3, 28)])),
        length("a response with data", Host, NONE, with_length(response(NONE), 28)),
        length("an R2T with data", Host, HEADER, with_length(ready_to_transfer(HEADER), 32)),
        length("a capsule too long", Controller, NONE, command(NONE, DATA_LENGTH_MAX + 4)),
        length("the longest PLEN", Controller, NONE, with_length(command(NONE, 64), u32::MAX)),
        length("C2HData too long", Host, BOTH, to_host(BOTH, DATA_LENGTH_MAX + 1)),
        before(length(
            "a long ICReq",
            Controller,
            NONE,
            with_length(opening(PduType::InitializeRequest), 132),
        )),
        length("a short termination", Controller, NONE, with_length(end(), 23)),
        length("a long termination", Controller, NONE, with_length(end(), 153)),
    ]
}

fn out_of_turn() -> Vec<Fault> {
    use Role::{Controller, Host};
    vec![
        Fault::sequence("a second ICReq", Controller, true, opening(PduType::InitializeRequest)),
        Fault::sequence("a second ICResp", Host, true, opening(PduType::InitializeResponse)),
        Fault::sequence("a command first", Controller, false, command(NONE, 0)),
        Fault::sequence("H2CData first", Controller, false, to_controller(NONE, 64)),
        Fault::sequence("a response first", Host, false, response(NONE)),
        Fault::sequence("C2HData first", Host, false, to_host(NONE, 64)),
        Fault::sequence("an R2T first", Host, false, ready_to_transfer(NONE)),
    ]
}

/// Faults that show only when the header has come whole, or in what is more than was agreed on.
fn wrong_contents() -> Vec<Fault> {
    use Role::{Controller, Host};
    let digest = |what, role, bytes: Vec<u8>, header_length: usize| {
        let received = &bytes[header_length..header_length + 4];
        let information = u32::from_le_bytes(received.try_into().expect("4 bytes"));
        let error = FatalError::HeaderDigest;
        Fault { what, role, digests: BOTH, open: true, bytes, error, information, header_length }
    };
    let length = |what, role, digests, bytes| Fault {
        header_length: 24,
        ..Fault::field(what, role, digests, bytes, 16)
    };
    let limit = |digests, bytes| Fault {
        error: FatalError::TransferLimitExceeded,
        ..Fault::field("H2CData over MAXH2CDATA", Controller, digests, bytes, 0)
    };
    vec![
        digest("a damaged entry", Controller, with(command(BOTH, 64), &[(40, 1)]), 72),
        digest("a damaged digest", Controller, with(command(BOTH, 0), &[(75, 1)]), 72),
        digest("a damaged length", Controller, with_length(command(BOTH, 64), 100), 72),
        digest("a damaged flag", Host, with(to_host(BOTH, 64), &[(1, 11)]), 24),
        digest("a damaged tag", Host, with(ready_to_transfer(BOTH), &[(10, 1)]), 24),
        digest("a damaged response", Host, with(response(BOTH), &[(22, 1)]), 24),
        length("DATAL under the data", Controller, NONE, with_data_length(to_controller(NONE, 64), 60)),
        length("DATAL over the data", Host, BOTH, with_data_length(to_host(BOTH, 64), 68)),
        length("DATAL without data", Host, NONE, with_length(to_host(NONE, 64), 24)),
        length("DATAL of 0", Controller, NONE, to_controller(NONE, 0)),
        limit(NONE, to_controller(NONE, DATA_LENGTH_MAX + 1)),
        limit(BOTH, to_controller(BOTH, DATA_LENGTH_MAX + 4)),
    ]
}

/// The first error in `bytes`, given in pieces of `length`, and the header kept for the termination request.
fn error_of(fault: &Fault, length: usize) -> (DecodeError, Vec<u8>) {
    let mut receiver = Receiver::new(fault.role, DATA_LENGTH_MAX);
    if fault.open {
        let greeting = opening(match fault.role {
            Role::Controller => PduType::InitializeRequest,
            Role::Host => PduType::InitializeResponse,
        });
        let event = receiver.next(&mut &greeting[..]).expect("a good opening");
        assert!(matches!(event, Some(Event::Initialize(_))), "{event:?}");
        receiver.set_digests(fault.digests);
    }
    for mut piece in fault.bytes.chunks(length) {
        assert_eq!(receiver.faulty_header(), [], "nothing is faulty yet");
        match receiver.next(&mut piece) {
            Ok(None) => {}
            Ok(Some(event)) => panic!("{}: {event:?}", fault.what),
            Err(error) => return (error, receiver.faulty_header().to_vec()),
        }
    }
    panic!("{}: no error", fault.what);
}

fn check(faults: &[Fault]) {
    for fault in faults {
        let expected = DecodeError::new(fault.error, fault.information);
        let header = &fault.bytes[..fault.header_length];
        for length in [fault.bytes.len(), 1, 7, 8, 9, 24, 28] {
            let (error, kept) = error_of(fault, length);
            assert_eq!(error, expected, "{} to a {:?}, in pieces of {length}", fault.what, fault.role);
            assert_eq!(kept, header, "{}, in pieces of {length}", fault.what);
        }
        check_termination(fault.role, expected, header);
    }
}

/// Checks that the other end gets the termination request as the end of `role` sends it.
fn check_termination(role: Role, error: DecodeError, header: &[u8]) {
    let (kind, other) = match role {
        Role::Controller => (PduType::ControllerTerminate, Role::Host),
        Role::Host => (PduType::HostTerminate, Role::Controller),
    };
    // Termination requests never have digests, whatever was agreed on.
    let bytes = framed(BOTH, |transmitter| {
        transmitter.terminate(kind, error.error, error.information, header);
    });
    let mut expected = vec![kind as u8, 0, 24, 0, 24 + header.len() as u8, 0, 0, 0, error.error as u8, 0];
    expected.extend_from_slice(&error.information.to_le_bytes());
    expected.extend_from_slice(&[0; 10]);
    expected.extend_from_slice(header);
    assert_eq!(bytes, expected);
    let mut receiver = Receiver::new(other, DATA_LENGTH_MAX);
    receiver.set_digests(BOTH);
    let mut input = &bytes[..];
    let event = Event::Terminate { error: error.error as u16, information: error.information };
    assert_eq!(receiver.next(&mut input), Ok(Some(event)));
    assert_eq!(input, []);
}

#[test]
fn wrong_types_are_named() {
    check(&wrong_types());
}

#[test]
fn wrong_flags_are_named() {
    check(&wrong_flags());
}

#[test]
fn wrong_lengths_are_named() {
    check(&wrong_lengths());
}

#[test]
fn pdus_out_of_turn_are_sequence_errors() {
    check(&out_of_turn());
}

#[test]
fn wrong_contents_are_named() {
    check(&wrong_contents());
}

/// An ICReq or ICResp with some bytes set.
fn initialize(kind: PduType, changes: &[(usize, u8)]) -> Initialize {
    Initialize::read_from_bytes(&with(opening(kind), changes)).expect("128 bytes")
}

#[test]
fn parameters_that_are_not_supported_are_named() {
    let unsupported = |at| Err(DecodeError::new(FatalError::UnsupportedParameter, at));
    // PFV in both of its bytes, and HPDA or CPDA.
    for (at, value, field) in [(8, 1, 8), (9, 1, 8), (10, 32, 10), (10, 0xff, 10)] {
        let request = initialize(PduType::InitializeRequest, &[(at, value)]);
        assert_eq!(negotiate(&request, 4096).map(drop), unsupported(field));
        let response = initialize(PduType::InitializeResponse, &[(11, 3), (at, value)]);
        assert_eq!(settle(&response, BOTH).map(drop), unsupported(field));
    }
    // Unknown digests are not used; a controller that wants them was not asked.
    for value in [4, 0xff] {
        let request = initialize(PduType::InitializeRequest, &[(11, value)]);
        let (response, negotiated) = negotiate(&request, 4096).expect("the known ones are enough");
        assert_eq!((response.digests, negotiated.digests.bits()), (value & 3, value & 3));
        assert!(negotiated.has_unknown_digests);
        let response = initialize(PduType::InitializeResponse, &[(11, value)]);
        assert_eq!(settle(&response, BOTH).map(drop), unsupported(11));
    }
    // Other digests than those asked for.
    for digests in [0, 1, 2] {
        let response = initialize(PduType::InitializeResponse, &[(11, digests)]);
        assert_eq!(settle(&response, BOTH).map(drop), unsupported(11));
    }
    // MAXH2CDATA that is too small, or not of dwords.
    for limit in [0_u32, 4092, 4095, 4097, 4098, u32::MAX] {
        let response = Initialize::new(PduType::InitializeResponse, 0, limit);
        assert_eq!(settle(&response, NONE).map(drop), unsupported(12));
    }
}

#[test]
fn what_was_negotiated_is_the_same_at_both_ends() {
    for asked in [NONE, HEADER, DATA, BOTH] {
        for (ready_to_transfer, limit) in [(0, 4096), (7, 8192), (u32::MAX, u32::MAX - 3)] {
            let request = Initialize::new(PduType::InitializeRequest, asked.bits(), ready_to_transfer);
            let (response, controller) = negotiate(&request, limit).expect("a good request");
            let host = settle(&response, asked).expect("a good response");
            assert_eq!((host.digests, controller.digests), (asked, asked));
            assert_eq!((host.data_alignment, controller.data_alignment), (4, 4));
            assert!(!controller.has_unknown_digests);
            assert_eq!((host.data_to_controller_max, controller.data_to_controller_max), (limit, limit));
            assert_eq!(controller.ready_to_transfer_max, ready_to_transfer.saturating_add(1));
        }
    }
}

#[test]
fn each_end_aligns_data_as_the_other_asks() {
    for field in 0..=31 {
        let request = initialize(PduType::InitializeRequest, &[(10, field)]);
        let (response, controller) = negotiate(&request, 4096).expect("an alignment of up to 128 bytes");
        assert_eq!((controller.data_alignment, response.data_alignment), (4 * (field + 1), 0));
        let response = initialize(PduType::InitializeResponse, &[(10, field)]);
        assert_eq!(settle(&response, NONE).expect("the same").data_alignment, 4 * (field + 1));
    }
}

/// A controller does not treat flags for digests that were not negotiated as an error; it only records that they came.
#[test]
fn stray_digest_flags_change_nothing() {
    for (digests, flags) in [(NONE, 1), (NONE, 2), (NONE, 3), (HEADER, 2), (DATA, 1)] {
        for length in [0, 64] {
            let mut receiver = Receiver::new(Role::Controller, 4096);
            let greeting = opening(PduType::InitializeRequest);
            assert!(matches!(receiver.next(&mut &greeting[..]), Ok(Some(Event::Initialize(_)))));
            receiver.set_digests(digests);
            let mut bytes = command(digests, length);
            bytes[1] |= flags;
            if digests.header {
                let crc = nvme::tcp::digest::crc32c(&bytes[..72]);
                bytes[72..76].copy_from_slice(&crc.to_le_bytes());
            }
            let expected = receiver.next(&mut &command(digests, length)[..]);
            let mut receiver = Receiver::new(Role::Controller, 4096);
            assert!(matches!(receiver.next(&mut &greeting[..]), Ok(Some(Event::Initialize(_)))));
            receiver.set_digests(digests);
            assert!(!receiver.has_stray_flags());
            let mut input = &bytes[..];
            assert_eq!(receiver.next(&mut input), expected, "{digests:?}, flags {flags:x}");
            assert_eq!(receiver.data_left(), length as usize);
            assert!(receiver.has_stray_flags());
        }
    }
}

#[test]
fn data_that_breaks_its_transfer_is_refused() {
    let pdu =
        |flags, tag, offset, length| DataPdu::new(PduType::DataToController, flags, 1, tag, offset, length);
    let refused = [
        (pdu(0, 8, 4096, 512), TransferError::WrongTag),
        (pdu(0, 7, 4092, 512), TransferError::OutOfRange),
        (pdu(0, 7, 4100, 512), TransferError::OutOfRange),
        (pdu(0, 7, 0, 512), TransferError::OutOfRange),
        (pdu(0, 7, 4096, 0), TransferError::OutOfRange),
        (pdu(flags::LAST, 7, 4096, 4100), TransferError::OutOfRange),
        (pdu(flags::LAST, 7, 4096, u32::MAX), TransferError::OutOfRange),
        (pdu(0, 7, 4096, 4096), TransferError::WrongLast),
        (pdu(flags::LAST, 7, 4096, 512), TransferError::WrongLast),
    ];
    let mut transfer = Transfer::new(4096..8192, 7);
    let untouched = transfer;
    for (pdu, error) in refused {
        assert_eq!(transfer.accept(&pdu), Err(error), "{pdu:?}");
        assert_eq!(transfer, untouched, "a refused PDU changes nothing");
    }
    // Who does not mind where the flag stands hears whether it is right.
    let mut lenient = transfer;
    assert_eq!(lenient.accept_with_any_last(&pdu(flags::LAST, 7, 4096, 512)), Ok((4096..4608, false)));
    assert_eq!(lenient.accept_with_any_last(&pdu(0, 7, 4608, 512)), Ok((4608..5120, true)));
    assert_eq!(lenient.accept_with_any_last(&pdu(0, 7, 5120, 3072)), Ok((5120..8192, false)));
    assert_eq!(lenient.remaining(), 0);
    for (pdu, error) in &refused[..7] {
        let mut lenient = transfer;
        assert_eq!(lenient.accept_with_any_last(pdu), Err(*error), "{pdu:?}");
        assert_eq!(lenient, untouched);
    }
    assert_eq!(transfer.accept(&pdu(0, 7, 4096, 512)), Ok(4096..4608));
    assert_eq!(transfer.remaining(), 3584);
    assert_eq!(transfer.accept(&pdu(0, 7, 4096, 512)), Err(TransferError::OutOfRange), "the same again");
    assert_eq!(transfer.accept(&pdu(flags::LAST, 7, 4608, 3584)), Ok(4608..8192));
    assert_eq!(transfer.remaining(), 0);
    assert_eq!(transfer.accept(&pdu(flags::LAST, 7, 8192, 4)), Err(TransferError::OutOfRange));
    let mut highest = Transfer::new(u32::MAX - 4..u32::MAX, 0);
    let pdu = pdu(flags::LAST, 0, u32::MAX - 4, 4);
    assert_eq!(highest.accept(&pdu), Ok(u32::MAX as usize - 4..u32::MAX as usize));
}
