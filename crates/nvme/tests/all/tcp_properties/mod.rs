//! Properties of the two framing state machines: any bytes in any pieces give the same events or one error,
//! what is sent arrives, damage is found. Whole exchanges of a host and a controller are tested in
//! `tcp_pair`.

use nvme::tcp::digest::{DIGEST_LENGTH, crc32c};
use nvme::tcp::{
    Chunk, DataPdu, DecodeError, Digests, Event, FatalError, Initialize, PduType, ReadyToTransfer, Receiver,
    Role, Transmitter, flags,
};
use nvme::{CompletionEntry, SubmissionEntry};
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

mod send_list;

/// The most data of one PDU here: small, so that random lengths often pass it.
const DATA_LENGTH_MAX: u32 = 4096;
/// Offset of data within the payload of a data PDU.
const LEAD: usize = 3;
const BOTH: Digests = Digests { header: true, data: true };

/// Part of a stream as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Event(Event),
    /// All data between two events, however it was taken.
    Data(Vec<u8>),
    /// The error, and the header that is kept for the termination request.
    Fault(DecodeError, Vec<u8>),
}

/// An owner of a receiver, which checks at every step what holds for any bytes.
struct Reader {
    receiver: Receiver,
    digests: Digests,
    /// Most bytes of data taken at once; odd: taken as if received elsewhere.
    take: usize,
    seen: Vec<Seen>,
    missing: usize,
    over: bool,
}

impl Reader {
    fn new(role: Role, digests: Digests, take: usize) -> Self {
        let receiver = Receiver::new(role, DATA_LENGTH_MAX);
        Self { receiver, digests, take, seen: Vec::new(), missing: 0, over: false }
    }

    /// A reader whose connection is open already.
    fn open(role: Role, digests: Digests, take: usize) -> Self {
        let mut reader = Self::new(role, digests, take);
        reader.feed(opening(role, digests).as_bytes());
        assert_eq!(reader.seen.pop(), Some(Seen::Event(Event::Initialize(opening(role, digests)))));
        reader
    }

    fn feed(&mut self, mut input: &[u8]) {
        let turns_max = 2 * input.len() + 8;
        for _ in 0..turns_max {
            if self.over {
                return;
            }
            let left = self.receiver.data_left();
            assert!(left <= self.missing, "more data than announced");
            if left > 0 {
                let mut rest = input;
                let nothing = (self.receiver.next(&mut rest), rest.len());
                assert_eq!(nothing, (Ok(None), input.len()), "data has to be taken first");
                if input.is_empty() {
                    return;
                }
                self.take_data(&mut input, left);
                continue;
            }
            match self.receiver.next(&mut input) {
                Ok(Some(event)) => self.keep(event),
                Ok(None) if self.receiver.data_left() > 0 => {}
                Ok(None) => return assert!(input.is_empty(), "no event, but bytes left"),
                Err(error) => {
                    assert_eq!(self.receiver.next(&mut &[][..]), Err(error), "an error is final");
                    assert_eq!(self.receiver.data_left(), 0);
                    let header = self.receiver.faulty_header().to_vec();
                    self.seen.push(Seen::Fault(error, header));
                    self.over = true;
                }
            }
        }
        panic!("no end after {turns_max} turns");
    }

    fn take_data(&mut self, input: &mut &[u8], left: usize) {
        let taken = if self.take.is_multiple_of(2) {
            self.receiver.take_data(input, self.take)
        } else {
            let (taken, rest) = input.split_at(left.min(input.len()).min(self.take));
            self.receiver.data_received(taken);
            *input = rest;
            taken
        };
        assert!(!taken.is_empty() && taken.len() <= left.min(self.take));
        self.missing -= taken.len();
        match self.seen.last_mut() {
            Some(Seen::Data(data)) => data.extend_from_slice(taken),
            _ => self.seen.push(Seen::Data(taken.to_vec())),
        }
    }

    fn keep(&mut self, event: Event) {
        assert_eq!(self.missing, 0, "an event while data is missing");
        match event {
            Event::Initialize(_) => self.receiver.set_digests(self.digests),
            Event::Command { data_length, .. } => self.missing = data_length,
            Event::Data(pdu) => self.missing = pdu.length.get() as usize,
            Event::Terminate { .. } => self.over = true,
            _ => {}
        }
        assert!(self.missing <= DATA_LENGTH_MAX as usize, "more data than allowed");
        self.seen.push(Seen::Event(event));
    }

    /// Feeds `bytes` in pieces of these lengths, over and over, with nothing in between each time.
    fn feed_in_pieces(&mut self, mut bytes: &[u8], pieces: &[usize]) {
        for &length in pieces.iter().cycle() {
            let (piece, rest) = bytes.split_at(length.min(bytes.len()));
            self.feed(piece);
            self.feed(&[]);
            bytes = rest;
            if bytes.is_empty() {
                return;
            }
        }
    }
}

/// The PDU that opens a connection, as the end of `role` receives it.
fn opening(role: Role, digests: Digests) -> Initialize {
    let kind = match role {
        Role::Controller => PduType::InitializeRequest,
        Role::Host => PduType::InitializeResponse,
    };
    Initialize::new(kind, digests.bits(), 4096)
}

/// A PDU as its sender has it.
#[derive(Clone, Debug)]
enum Pdu {
    Command { entry: SubmissionEntry, data: Vec<u8> },
    Response(CompletionEntry),
    Data { header: DataPdu, data: Vec<u8> },
    ReadyToTransfer(ReadyToTransfer),
    Terminate { kind: PduType, information: u32, header: Vec<u8> },
}

impl Pdu {
    fn data(&self) -> &[u8] {
        match self {
            Pdu::Command { data, .. } | Pdu::Data { data, .. } => data,
            _ => &[],
        }
    }

    /// Payload that a token names, if this PDU has one. A command has one even without data.
    fn payload(&self) -> Option<Vec<u8>> {
        match self {
            Pdu::Command { data, .. } => Some(data.clone()),
            Pdu::Data { data, .. } => Some([&[0xee; LEAD], &data[..]].concat()),
            _ => None,
        }
    }

    fn queue(&self, transmitter: &mut Transmitter<usize>, token: usize) {
        let crc = crc32c(self.data());
        match self {
            Pdu::Command { entry, data } => transmitter.command(*entry, Some((token, data.len(), crc))),
            Pdu::Response(entry) => transmitter.response(*entry),
            Pdu::Data { header, data } => {
                transmitter.data(*header, token, LEAD..LEAD + data.len(), Some(crc));
            }
            Pdu::ReadyToTransfer(pdu) => transmitter.ready_to_transfer(*pdu),
            Pdu::Terminate { kind, information, header } => {
                transmitter.terminate(*kind, FatalError::DataTransferOutOfRange, *information, header);
            }
        }
    }

    /// Header and data as they stand on the wire, each with its digest: framed here by hand, not by what is
    /// tested.
    fn wire(&self, digests: Digests) -> (Vec<u8>, Vec<u8>) {
        let mut header = match self {
            Pdu::Command { entry, .. } => [&[4, 0, 72, 0, 0, 0, 0, 0][..], entry.as_bytes()].concat(),
            Pdu::Response(entry) => [&[5, 0, 24, 0, 0, 0, 0, 0][..], entry.as_bytes()].concat(),
            Pdu::Data { header, .. } => header.as_bytes().to_vec(),
            Pdu::ReadyToTransfer(pdu) => pdu.as_bytes().to_vec(),
            Pdu::Terminate { kind, information, header } => {
                let kept = &header[..header.len().min(128)];
                let mut bytes = vec![*kind as u8, 0, 24, 0, 24 + kept.len() as u8, 0, 0, 0, 4, 0];
                bytes.extend_from_slice(&information.to_le_bytes());
                bytes.extend_from_slice(&[0; 10]);
                return ([&bytes, kept].concat(), Vec::new());
            }
        };
        let mut data = self.data().to_vec();
        let length = header.len() + if digests.header { DIGEST_LENGTH } else { 0 };
        header[1] |= u8::from(digests.header);
        if !data.is_empty() {
            header[3] = length as u8;
            if digests.data {
                header[1] |= flags::DATA_DIGEST;
                data.extend_from_slice(&crc32c(&data).to_le_bytes());
            }
        }
        let whole = (length + data.len()) as u32;
        header[4..8].copy_from_slice(&whole.to_le_bytes());
        if digests.header {
            header.extend_from_slice(&crc32c(&header).to_le_bytes());
        }
        (header, data)
    }

    /// Parts that the other end should see.
    fn seen(&self, digests: Digests) -> Vec<Seen> {
        let (header, _) = self.wire(digests);
        let event = match self {
            Pdu::Command { entry, data } => Event::Command { entry: *entry, data_length: data.len() },
            Pdu::Response(entry) => Event::Response(*entry),
            Pdu::Data { .. } => Event::Data(DataPdu::read_from_prefix(&header).expect("24 bytes").0),
            Pdu::ReadyToTransfer(_) => {
                Event::ReadyToTransfer(ReadyToTransfer::read_from_prefix(&header).expect("24 bytes").0)
            }
            Pdu::Terminate { information, .. } => Event::Terminate { error: 4, information: *information },
        };
        let mut seen = vec![Seen::Event(event)];
        if !self.data().is_empty() {
            seen.push(Seen::Data(self.data().to_vec()));
            seen.push(Seen::Event(Event::DataEnd { digest_matches: true }));
        }
        seen
    }
}

fn wire_of(pdus: &[Pdu], digests: Digests) -> Vec<u8> {
    pdus.iter().map(|pdu| pdu.wire(digests)).flat_map(|(header, data)| [header, data].concat()).collect()
}

fn seen_of(pdus: &[Pdu], digests: Digests) -> Vec<Seen> {
    pdus.iter().flat_map(|pdu| pdu.seen(digests)).collect()
}

fn data_pdu(kind: PduType, flags: u8, ids: (u16, u16), offset: u32, data: Vec<u8>) -> Pdu {
    Pdu::Data { header: DataPdu::new(kind, flags, ids.0, ids.1, offset, data.len() as u32), data }
}

fn any_digests() -> impl Strategy<Value = Digests> {
    any::<(bool, bool)>().prop_map(|(header, data)| Digests { header, data })
}

fn any_role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Controller), Just(Role::Host)]
}

/// Lengths of pieces; one byte at a time is frequent.
fn any_pieces() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![Just(1_usize), 1..12_usize, 1..200_usize, Just(4096)], 1..12)
}

/// Amount of data taken at once.
fn any_take() -> impl Strategy<Value = usize> {
    prop_oneof![Just(usize::MAX), Just(usize::MAX - 1), 1..100_usize]
}

fn any_data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => vec(any::<u8>(), 1..80), 1 => vec(any::<u8>(), 1..=DATA_LENGTH_MAX as usize)]
}

fn any_entry<T: FromBytes + std::fmt::Debug>() -> impl Strategy<Value = T> {
    any::<[[u8; 32]; 2]>()
        .prop_map(|halves| T::read_from_prefix(halves.as_bytes()).expect("at most 64 bytes").0)
}

/// PDUs that may come to the end of `role`, except that none ends the connection.
fn pdu_to(role: Role) -> BoxedStrategy<Pdu> {
    let kind = if role == Role::Controller { PduType::DataToController } else { PduType::DataToHost };
    let ids = any::<(u16, u16)>();
    let data = (0..4_u8, ids, any::<u32>(), any_data());
    let data = data.prop_map(move |(flags, ids, offset, data)| data_pdu(kind, flags << 2, ids, offset, data));
    match role {
        Role::Controller => prop_oneof![
            any_entry().prop_map(|entry| Pdu::Command { entry, data: Vec::new() }),
            (any_entry(), any_data()).prop_map(|(entry, data)| Pdu::Command { entry, data }),
            data,
        ]
        .boxed(),
        Role::Host => prop_oneof![
            any_entry().prop_map(Pdu::Response),
            any::<(u16, u16, u32, u32)>()
                .prop_map(|(id, tag, at, length)| ReadyToTransfer::new(id, tag, at, length))
                .prop_map(Pdu::ReadyToTransfer),
            data,
        ]
        .boxed(),
    }
}

fn termination_to(role: Role) -> impl Strategy<Value = Pdu> {
    let kind = if role == Role::Controller { PduType::HostTerminate } else { PduType::ControllerTerminate };
    (any::<u32>(), vec(any::<u8>(), 0..200)).prop_map(move |(information, header)| Pdu::Terminate {
        kind,
        information,
        header,
    })
}

/// A role, the PDUs that come to its end, and maybe a last one that ends the connection.
fn conversation() -> impl Strategy<Value = (Role, Vec<Pdu>)> {
    any_role().prop_flat_map(|role| {
        let pdus = (vec(pdu_to(role), 0..12), vec(termination_to(role), 0..2));
        (Just(role), pdus.prop_map(|(pdus, end)| [pdus, end].concat()))
    })
}

/// Bytes that look enough like a PDU to get far into the receiver.
fn almost_pdu() -> impl Strategy<Value = Vec<u8>> {
    let odd = |often: u32| prop_oneof![often => Just(None), 1 => any::<u8>().prop_map(Some)];
    let kind = prop_oneof![8 => 2..10_u8, 1 => any::<u8>()];
    let flags = prop_oneof![8 => 0..16_u8, 1 => any::<u8>()];
    let body = (vec(any::<u8>(), 160), 0..200_usize, any::<[bool; 2]>());
    (kind, flags, odd(12), odd(3), odd(12), body).prop_map(
        |(kind, flags, header_length, offset, length, (body, data_length, [says_length, says_digest]))| {
            let header = PduType::from_number(kind).map_or(24, PduType::header_length);
            let gathered = header + 4 * usize::from(flags & flags::HEADER_DIGEST);
            let padded = |odd: u8| if odd & 1 == 0 { odd } else { header as u8 + (odd & 0x3c) };
            let offset = offset.map_or(gathered as u8, padded);
            let tail = 2 * usize::from(flags & flags::DATA_DIGEST);
            let whole = usize::from(offset) + data_length + if data_length > 0 { tail } else { 0 };
            let mut bytes: Vec<u8> = body.into_iter().cycle().take(whole.max(gathered)).collect();
            let pdu_length = length.map_or(whole as u32, |length| u32::from(length) << (length & 31));
            bytes[..4].copy_from_slice(&[kind, flags, header_length.unwrap_or(header as u8), offset]);
            bytes[4..8].copy_from_slice(&pdu_length.to_le_bytes());
            if says_length {
                bytes[16..20].copy_from_slice(&(data_length as u32).to_le_bytes());
            }
            if says_digest && gathered > header {
                let digest = crc32c(&bytes[..header]).to_le_bytes();
                bytes[header..gathered].copy_from_slice(&digest);
            }
            bytes
        },
    )
}

/// Any bytes at all, and such that get far.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![1 => vec(any::<u8>(), 0..300), 3 => vec(almost_pdu(), 0..8).prop_map(|pdus| pdus.concat())]
}

/// The first `length` bytes of a send list, as a socket would take them.
fn front(transmitter: &Transmitter<usize>, payloads: &[Vec<u8>], length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in transmitter.chunks() {
        match part {
            Chunk::Bytes(part) => bytes.extend_from_slice(part),
            Chunk::Payload { payload, start, end } => {
                bytes.extend_from_slice(&payloads[*payload][start..end]);
            }
        }
    }
    assert_eq!(bytes.len(), transmitter.length());
    assert_eq!(bytes.is_empty(), transmitter.is_empty());
    bytes.truncate(length);
    bytes
}

proptest! {
    #[test]
    fn pieces_change_nothing_about_any_bytes(
        role in any_role(), digests in any_digests(), open: bool, opens: bool, stream in any_stream(),
        pieces in any_pieces(), take in any_take(),
    ) {
        let greeting = opening(role, digests);
        let stream = if opens { [greeting.as_bytes(), &stream].concat() } else { stream };
        let read = |pieces: &[usize], take| {
            let create = if open { Reader::open } else { Reader::new };
            let mut reader = create(role, digests, take);
            reader.feed_in_pieces(&stream, pieces);
            reader.seen
        };
        let whole = read(&[stream.len().max(1)], usize::MAX - 1);
        prop_assert_eq!(&whole, &read(&[1], 1), "one byte at a time");
        prop_assert_eq!(&whole, &read(&pieces, take), "in pieces");
    }

    #[test]
    fn what_is_sent_arrives(
        (role, pdus) in conversation(), digests in any_digests(), sends in vec(any::<usize>(), 1..12),
        pieces in any_pieces(), take in any_take(),
    ) {
        let mut transmitter = Transmitter::new(2);
        transmitter.set_digests(digests);
        let mut reader = Reader::open(role, digests, take);
        let payloads: Vec<_> = pdus.iter().map(|pdu| pdu.payload().unwrap_or_default()).collect();
        let mut sent = Vec::new();
        for (token, pdu) in pdus.iter().enumerate() {
            pdu.queue(&mut transmitter, token);
            let length = sends[token % sends.len()] % (transmitter.length() + 1);
            let bytes = front(&transmitter, &payloads, length);
            transmitter.advance(length, |_| ());
            reader.feed_in_pieces(&bytes, &pieces);
            sent.extend(bytes);
        }
        let rest = front(&transmitter, &payloads, usize::MAX);
        reader.feed_in_pieces(&rest, &pieces);
        sent.extend(rest);
        prop_assert_eq!(sent, wire_of(&pdus, digests));
        prop_assert_eq!(reader.seen, seen_of(&pdus, digests));
    }

    #[test]
    fn padding_in_front_of_data_is_skipped(
        (role, pdu) in any_role().prop_flat_map(|role| (Just(role), pdu_to(role))), digests in any_digests(),
        padding in (0..40_usize).prop_flat_map(|dwords| vec(any::<u8>(), 4 * dwords)),
        pieces in any_pieces(), take in any_take(),
    ) {
        let padding = if pdu.data().is_empty() { Vec::new() } else { padding };
        let (mut header, data) = pdu.wire(digests);
        header[3] += padding.len() as u8;
        let whole = (header.len() + padding.len() + data.len()) as u32;
        header[4..8].copy_from_slice(&whole.to_le_bytes());
        if digests.header {
            let (header, digest) = header.split_last_chunk_mut().expect("a digest");
            *digest = crc32c(header).to_le_bytes();
        }
        let mut reader = Reader::open(role, digests, take);
        reader.feed_in_pieces(&[header, padding, data].concat(), &pieces);
        prop_assert_eq!(&reader.seen[1..], &pdu.seen(digests)[1..]);
    }

    /// A host that does not say where its data begins (PDO 0) can only mean right behind the header.
    #[test]
    fn data_without_an_offset_is_behind_the_header(
        pdu in pdu_to(Role::Controller), digests in any_digests(), pieces in any_pieces(), take in any_take(),
    ) {
        let (mut header, data) = pdu.wire(digests);
        let has_data = !data.is_empty();
        header[3] = 0;
        if digests.header {
            let (header, digest) = header.split_last_chunk_mut().expect("a digest");
            *digest = crc32c(header).to_le_bytes();
        }
        let mut reader = Reader::open(Role::Controller, digests, take);
        reader.feed_in_pieces(&[header, data].concat(), &pieces);
        prop_assert_eq!(&reader.seen[1..], &pdu.seen(digests)[1..]);
        prop_assert_eq!(reader.receiver.has_unset_offsets(), has_data);
    }

    /// Padding comes where an alignment asks for it, as little as it takes, and of zeroes.
    #[test]
    fn data_begins_at_multiples_of_the_alignment(
        (role, pdu) in any_role().prop_flat_map(|role| (Just(role), pdu_to(role))), digests in any_digests(),
        alignment in (1..=32_u8).prop_map(|dwords| 4 * dwords), pieces in any_pieces(), take in any_take(),
    ) {
        let mut transmitter = Transmitter::new(2);
        transmitter.set_digests(digests);
        transmitter.set_alignment(alignment);
        pdu.queue(&mut transmitter, 0);
        let sent = front(&transmitter, &[pdu.payload().unwrap_or_default()], usize::MAX);
        let (header, data) = pdu.wire(digests);
        let padding = sent.len() - header.len() - data.len();
        prop_assert_eq!(u32::from_le_bytes(sent[4..8].try_into().expect("4 bytes")) as usize, sent.len());
        if data.is_empty() {
            prop_assert_eq!(padding, 0);
        } else {
            prop_assert_eq!(usize::from(sent[3]), header.len() + padding);
            prop_assert!(padding < usize::from(alignment) && sent[3].is_multiple_of(alignment));
            prop_assert!(sent[header.len()..][..padding].iter().all(|&byte| byte == 0));
        }
        prop_assert_eq!(&sent[header.len() + padding..], &data[..]);
        let mut reader = Reader::open(role, digests, take);
        reader.feed_in_pieces(&sent, &pieces);
        prop_assert_eq!(&reader.seen[1..], &pdu.seen(digests)[1..]);
    }

    /// CRC32C finds every change within 32 bits in a row. With digests, a header changed behind its type is
    /// an error before anything of its PDU is delivered, and changed data is delivered as damaged.
    #[test]
    fn damage_is_found(
        (role, pdus) in any_role().prop_flat_map(|role| (Just(role), vec(pdu_to(role), 1..5))),
        index: prop::sample::Index, at: prop::sample::Index, damage in 1_u32.., pieces in any_pieces(),
    ) {
        let index = index.index(pdus.len());
        let (header, data) = pdus[index].wire(BOTH);
        let at = 1 + at.index(header.len() + data.len() - 4);
        // Within one of the two: what spans header and data is two changes to two digests.
        let at = if at < header.len() { at.min(header.len() - 4) } else { at };
        check_damage(role, &pdus, index, at, &damage.to_le_bytes(), &pieces);
    }
}

/// Changes bytes of PDU `index` from `at` on, and checks that the receiver delivers nothing wrong as right.
fn check_damage(role: Role, pdus: &[Pdu], index: usize, at: usize, damage: &[u8], pieces: &[usize]) {
    let before = wire_of(&pdus[..index], BOTH).len();
    let mut bytes = wire_of(pdus, BOTH);
    for (byte, change) in bytes[before + at..].iter_mut().zip(damage) {
        *byte ^= change;
    }
    let mut reader = Reader::open(role, BOTH, usize::MAX);
    reader.feed_in_pieces(&bytes, pieces);
    let mut clean = seen_of(&pdus[..index], BOTH);
    let context = format!("{pdus:?}, PDU {index}, byte {at}, {damage:?}");
    if at < pdus[index].wire(BOTH).0.len() {
        assert!(reader.seen.len() <= clean.len() + 1, "{context}");
        match reader.seen.get(clean.len()) {
            Some(Seen::Fault(..)) => {}
            // One bit makes a short data PDU a termination request, which has no digest: it is delivered, or
            // still awaited at the end. Either way the connection is over.
            None | Some(Seen::Event(Event::Terminate { .. })) if at == 0 => {}
            other => panic!("{other:?} delivered: {context}"),
        }
        assert_eq!(reader.seen[..clean.len()], clean, "{context}");
        return;
    }
    let damaged = clean.len() + 1;
    clean.extend(pdus[index].seen(BOTH));
    clean[damaged + 1] = Seen::Event(Event::DataEnd { digest_matches: false });
    clean.extend(seen_of(&pdus[index + 1..], BOTH));
    let Seen::Data(data) = &mut clean[damaged] else { panic!("data follows its header: {context}") };
    let start = before + pdus[index].wire(BOTH).0.len();
    data.copy_from_slice(&bytes[start..start + pdus[index].data().len()]);
    assert_eq!(reader.seen, clean, "{context}");
}

#[test]
fn every_single_bit_is_guarded() {
    let entry = SubmissionEntry::new(1, 1);
    let ids = (7, 9);
    let to_controller = [
        Pdu::Command { entry, data: Vec::new() },
        Pdu::Command { entry, data: vec![0; 20] },
        data_pdu(PduType::DataToController, flags::LAST, ids, 4096, vec![0xff; 64]),
        Pdu::Command { entry, data: Vec::new() },
    ];
    let to_host = [
        Pdu::Response(CompletionEntry::default()),
        Pdu::ReadyToTransfer(ReadyToTransfer::new(7, 9, 0, 4096)),
        data_pdu(PduType::DataToHost, 12, ids, 0, vec![0x5a; 64]),
        data_pdu(PduType::DataToHost, flags::LAST, ids, 64, vec![0; 200]),
        Pdu::Response(CompletionEntry::default()),
    ];
    for (role, pdus) in [(Role::Controller, &to_controller[..]), (Role::Host, &to_host)] {
        for (index, pdu) in pdus.iter().enumerate() {
            let (header, data) = pdu.wire(BOTH);
            for bit in 0..8 * (header.len() + data.len()) {
                check_damage(role, pdus, index, bit / 8, &[1 << (bit % 8)], &[4096]);
            }
        }
        // The opening PDU has no digest, but no bit of it is lost on the receiver.
        let greeting = opening(role, BOTH);
        for bit in 0..8 * size_of::<Initialize>() {
            let mut bytes = greeting.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut reader = Reader::new(role, BOTH, 1);
            reader.feed(&bytes);
            assert_ne!(reader.seen, [Seen::Event(Event::Initialize(greeting))], "bit {bit}");
        }
    }
}
