//! The receiving state machine of either end under any bytes: however they are cut, the same comes out, within its
//! limits. What an owner makes of the events is not looked at here.

use nvme::tcp::digest::{DIGEST_LENGTH, crc32c};
use nvme::tcp::{
    Chunk, CommonHeader, DataPdu, DecodeError, Digests, Event, FatalError, Initialize, PduType, Receiver,
    Role, Transmitter, flags, negotiate, settle,
};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of an input that say how the rest is taken.
const SETTINGS_LENGTH: usize = 3;
/// Limits on the data of one PDU, of which an input chooses one: limits that short inputs reach,
/// and real ones.
const DATA_LENGTHS_MAX: [u32; 4] = [64, 300, 16 << 10, 1 << 20];
/// Limit on the data of one H2CData PDU that the target offers; it plays no part in receiving.
const DATA_TO_CONTROLLER_MAX: u32 = 4096;

/// Settings by which an input's bytes are taken.
#[derive(Clone, Copy)]
struct Settings {
    role: Role,
    digests: Digests,
    data_length_max: u32,
    /// Flags and digests are made right first: no fuzzer guesses a CRC.
    mends: bool,
    /// The opening of the connection is done already, so that short inputs get far.
    is_open: bool,
    cuts: Cuts,
}

impl Settings {
    fn new(role: Role, bits: u8, cuts: [u8; 2]) -> Self {
        Self {
            role,
            digests: Digests { header: bits & 1 != 0, data: bits & 2 != 0 },
            data_length_max: DATA_LENGTHS_MAX[usize::from(bits >> 4 & 3)],
            mends: bits & 4 != 0,
            is_open: bits & 8 != 0,
            cuts: Cuts::new(cuts),
        }
    }

    fn opening(&self) -> Initialize {
        let (kind, limit) = match self.role {
            Role::Controller => (PduType::InitializeRequest, 0),
            Role::Host => (PduType::InitializeResponse, DATA_TO_CONTROLLER_MAX),
        };
        Initialize::new(kind, self.digests.bits(), limit)
    }

    fn agree(&self, pdu: &Initialize) -> Result<Digests, DecodeError> {
        match self.role {
            Role::Controller => negotiate(pdu, DATA_TO_CONTROLLER_MAX).map(|(_, agreed)| agreed.digests),
            Role::Host => settle(pdu, self.digests).map(|agreed| agreed.digests),
        }
    }
}

/// The lengths of the pieces a stream is cut into.
#[derive(Clone, Copy)]
struct Cuts {
    random: u32,
    longest: u32,
}

impl Cuts {
    /// Everything in one piece.
    const NONE: Self = Self { random: 1, longest: 0 };

    fn new(bytes: [u8; 2]) -> Self {
        let longest = [1, 2, 9, 40, 90, 200, 1000, 5000][usize::from(bytes[0] & 7)];
        Self { random: u32::from(u16::from_le_bytes(bytes)) << 1 | 1, longest }
    }

    fn next(&mut self) -> usize {
        if self.longest == 0 {
            return usize::MAX;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        (self.random % self.longest) as usize + 1
    }
}

/// All that came out of a stream.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    events: Vec<Event>,
    /// The data of all PDUs, one behind the other.
    data: Vec<u8>,
    /// Error of receiving, and the header that is sent back for it.
    error: Option<(DecodeError, Vec<u8>)>,
}

/// Receives the bytes of one input in one piece, in many, and after they were framed again.
pub fn check(role: Role, bytes: &[u8]) {
    let Some((&[bits, seed @ ..], rest)) = bytes.split_first_chunk::<SETTINGS_LENGTH>() else { return };
    let settings = Settings::new(role, bits, seed);
    let mut stream = Vec::with_capacity(bytes.len() + size_of::<Initialize>());
    if settings.is_open {
        stream.extend_from_slice(settings.opening().as_bytes());
    }
    stream.extend_from_slice(rest);
    if settings.mends {
        mend(&mut stream, settings.digests);
    }
    let whole = receive(&stream, settings, Cuts::NONE);
    let pieces = receive(&stream, settings, settings.cuts);
    assert_eq!(whole, pieces, "what comes out depends on how the bytes are cut");
    let (again, expected) = frame(&whole, settings);
    let echo = receive(&again, settings, Cuts::NONE);
    assert_eq!(echo.error, None, "what is sent is not what can be received");
    assert_eq!(&whole.data[..echo.data.len()], &echo.data[..]);
    assert!(plain(&whole.events[..expected]).eq(plain(&echo.events)), "{whole:?}\n{echo:?}");
}

/// Makes the flags and digests of all PDUs right that `stream` seems to be made of.
fn mend(stream: &mut [u8], digests: Digests) {
    let mut rest = stream;
    while let Ok((common, _)) = CommonHeader::mut_from_prefix(rest) {
        let Some(kind) = PduType::from_number(common.kind) else { return };
        let length = common.pdu_length.get() as usize;
        let data_at = usize::from(common.data_offset);
        let header_length = kind.header_length();
        let mut bare = header_length;
        if !kind.is_without_digest() {
            common.flags &= !(flags::HEADER_DIGEST | flags::DATA_DIGEST);
            if digests.header {
                common.flags |= flags::HEADER_DIGEST;
                bare += DIGEST_LENGTH;
            }
            if digests.data && kind.carries_data() && length > bare {
                common.flags |= flags::DATA_DIGEST;
            }
            if digests.header && rest.len() >= bare {
                let digest = crc32c(&rest[..header_length]);
                rest[header_length..bare].copy_from_slice(&digest.to_le_bytes());
            }
            let data_end = length.saturating_sub(DIGEST_LENGTH);
            if digests.data
                && kind.carries_data()
                && (bare..data_end).contains(&data_at)
                && rest.len() >= length
            {
                let digest = crc32c(&rest[data_at..data_end]);
                rest[data_end..length].copy_from_slice(&digest.to_le_bytes());
            }
        }
        if length < size_of::<CommonHeader>() || length > rest.len() {
            return;
        }
        rest = &mut rest[length..];
    }
}

/// Receives `stream` as a connection does, cut into pieces.
fn receive(stream: &[u8], settings: Settings, mut cuts: Cuts) -> Outcome {
    let mut receiver = Receiver::new(settings.role, settings.data_length_max);
    let mut outcome = Outcome::default();
    let mut pdu = Pdu::default();
    let mut rest = stream;
    loop {
        let (mut input, behind) = rest.split_at(cuts.next().min(rest.len()));
        while !input.is_empty() || receiver.data_left() == 0 {
            let left = receiver.data_left();
            assert!(left <= settings.data_length_max as usize, "more data than any PDU may have");
            if left > 0 {
                take_data(&mut receiver, &mut input, cuts.next(), &mut outcome.data);
                continue;
            }
            let event = match receiver.next(&mut input) {
                Ok(Some(event)) => event,
                Ok(None) if receiver.data_left() > 0 => continue,
                Ok(None) => break,
                Err(error) => {
                    end(&mut receiver, error, &stream[pdu.at..], &mut outcome);
                    return outcome;
                }
            };
            outcome.events.push(event);
            pdu.check(event, stream, stream.len() - behind.len() - input.len(), &outcome.data, &settings);
            if let Event::Initialize(opening) = event {
                // The receiver's owner ends the connection here; the receiver does not decide that.
                let Ok(digests) = settings.agree(&opening) else { return outcome };
                receiver.set_digests(digests);
                pdu.digests = digests;
            }
        }
        assert!(input.is_empty(), "bytes are left over");
        if behind.is_empty() {
            return outcome;
        }
        rest = behind;
    }
}

/// Takes data in one of the two ways there are.
fn take_data(receiver: &mut Receiver, input: &mut &[u8], limit: usize, data: &mut Vec<u8>) {
    let length = receiver.data_left().min(input.len()).min(limit);
    let (expected, rest) = input.split_at(length);
    if limit.is_multiple_of(2) {
        receiver.data_received(expected);
        *input = rest;
    } else {
        assert_eq!(receiver.take_data(input, limit), expected);
        assert_eq!(input.len(), rest.len());
    }
    data.extend_from_slice(expected);
}

/// After an error nothing more comes, and what is sent back is how the `faulty` PDU began.
fn end(receiver: &mut Receiver, error: DecodeError, faulty: &[u8], outcome: &mut Outcome) {
    let header = receiver.faulty_header().to_vec();
    let mut more: &[u8] = &[0; 256];
    assert_eq!(receiver.next(&mut more), Err(error));
    assert_eq!(more.len(), 256, "a faulty connection is received from");
    assert_eq!(receiver.data_left(), 0);
    assert_eq!(receiver.faulty_header(), header);
    assert!(header.len() >= size_of::<CommonHeader>());
    assert!(faulty.starts_with(&header), "the header of another PDU");
    outcome.error = Some((error, header));
}

/// The PDU that is being received, to see that its parts add up to its length.
#[derive(Default)]
struct Pdu {
    digests: Digests,
    at: usize,
    /// Offset of its data among all data, and expected length.
    data: Option<(usize, usize)>,
}

impl Pdu {
    /// Checks an event after which `consumed` bytes of `stream` are gone.
    fn check(&mut self, event: Event, stream: &[u8], consumed: usize, data: &[u8], settings: &Settings) {
        let (common, _) =
            CommonHeader::ref_from_prefix(&stream[self.at..]).expect("an event comes from a PDU");
        let length = common.pdu_length.get() as usize;
        let announced = match event {
            Event::Command { data_length, .. } => data_length,
            Event::Data(pdu) => pdu.length.get() as usize,
            Event::DataEnd { digest_matches } => {
                self.check_data(stream, data, digest_matches);
                0
            }
            _ => 0,
        };
        if announced > 0 {
            assert!(announced <= settings.data_length_max as usize, "more data than any PDU may have");
            self.data = Some((data.len(), announced));
            return;
        }
        assert_eq!(self.at + length, consumed, "a PDU does not end where it says");
        self.at = consumed;
    }

    fn check_data(&mut self, stream: &[u8], data: &[u8], digest_matches: bool) {
        let (begun, announced) = self.data.take().expect("data ends that never began");
        assert_eq!(data.len() - begun, announced, "other data than was announced");
        // Where a host does not say where its data begins, it is behind the header.
        let header = usize::from(stream[self.at + 2]) + if self.digests.header { DIGEST_LENGTH } else { 0 };
        let at = self.at + if stream[self.at + 3] == 0 { header } else { usize::from(stream[self.at + 3]) };
        assert_eq!(&stream[at..at + announced], &data[begun..], "data from elsewhere");
        let digest = crc32c(&data[begun..]).to_le_bytes();
        let is_right = !self.digests.data || stream[at + announced..][..DIGEST_LENGTH] == digest;
        assert_eq!(digest_matches, is_right);
    }
}

/// Frames again what was received, as far as it came whole; and of how many events that is.
fn frame(outcome: &Outcome, settings: Settings) -> (Vec<u8>, usize) {
    let mut transmitter = Transmitter::<()>::new(4);
    let mut stream = Vec::with_capacity(outcome.data.len() + outcome.events.len() * 80);
    let (mut framed, mut data_at) = (0, 0);
    for (number, event) in outcome.events.iter().enumerate() {
        let mut data = |length: usize| {
            let Some(Event::DataEnd { digest_matches }) = outcome.events.get(number + 1) else { return None };
            let data = &outcome.data[data_at..data_at + length];
            data_at += length;
            Some((data, if *digest_matches { crc32c(data) } else { !crc32c(data) }))
        };
        let payload = match event {
            Event::Initialize(pdu) => {
                transmitter.initialize(pdu);
                match settings.agree(pdu) {
                    Ok(digests) => transmitter.set_digests(digests),
                    Err(_) => return (stream, framed),
                }
                &[]
            }
            Event::Command { entry, data_length: 0 } => {
                transmitter.command(*entry, None);
                &[]
            }
            Event::Command { entry, data_length } => {
                let Some((data, crc)) = data(*data_length) else { break };
                transmitter.command(*entry, Some(((), data.len(), crc)));
                data
            }
            Event::Response(entry) => {
                transmitter.response(*entry);
                &[]
            }
            Event::Data(pdu) => {
                let Some((data, crc)) = data(pdu.length.get() as usize) else { break };
                transmitter.data(bare(pdu), (), 0..data.len(), Some(crc));
                data
            }
            Event::ReadyToTransfer(pdu) => {
                transmitter.ready_to_transfer(*pdu);
                &[]
            }
            Event::DataEnd { .. } => &[],
            Event::Terminate { error, information } => {
                let Some(error) = fatal_error(*error) else { break };
                transmitter.terminate(termination(settings.role), error, *information, &[]);
                &[]
            }
        };
        send(&mut transmitter, payload, &mut stream);
        framed = number + 1;
    }
    (stream, framed)
}

/// Moves what is queued to the stream, in two goes.
fn send(transmitter: &mut Transmitter<()>, data: &[u8], stream: &mut Vec<u8>) {
    let begun = stream.len();
    let length = transmitter.length();
    for part in transmitter.chunks() {
        match part {
            Chunk::Bytes(bytes) => stream.extend_from_slice(bytes),
            Chunk::Payload { start, end, .. } => stream.extend_from_slice(&data[start..end]),
        }
    }
    assert_eq!(stream.len() - begun, length);
    let mut done = 0;
    transmitter.advance(length / 2, |()| done += 1);
    assert_eq!(transmitter.length(), length - length / 2);
    transmitter.advance(length - length / 2, |()| done += 1);
    assert!(transmitter.is_empty());
    assert_eq!(done, usize::from(!data.is_empty()));
}

/// Events without the values that depend on framing: the place of data, and the length that follows
/// from it.
fn plain(events: &[Event]) -> impl Iterator<Item = Event> {
    events.iter().map(|event| match event {
        Event::Data(pdu) => Event::Data(bare(pdu)),
        other => *other,
    })
}

fn bare(pdu: &DataPdu) -> DataPdu {
    let mut pdu = *pdu;
    pdu.common.data_offset = 0;
    pdu.common.pdu_length = U32::ZERO;
    pdu
}

fn termination(role: Role) -> PduType {
    match role {
        Role::Controller => PduType::HostTerminate,
        Role::Host => PduType::ControllerTerminate,
    }
}

fn fatal_error(number: u16) -> Option<FatalError> {
    use FatalError as E;
    let all = [
        E::InvalidHeaderField,
        E::PduSequence,
        E::HeaderDigest,
        E::DataTransferOutOfRange,
        E::TransferLimitExceeded,
        E::UnsupportedParameter,
    ];
    all.into_iter().find(|error| *error as u16 == number)
}
