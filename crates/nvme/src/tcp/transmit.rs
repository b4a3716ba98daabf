//! The send list of a connection: PDUs framed and queued so that all that is ready leaves in one vectored
//! send. Payload is the owner's `P`, which may be the bytes or a name for them; it is given back when it has left.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::digest::{DIGEST_LENGTH, crc32c};
use super::handshake::Digests;
use super::pdu::{
    CapsuleCommand, CapsuleResponse, CommonHeader, DataPdu, FatalError, Initialize, PduType, ReadyToTransfer,
    Terminate, flags,
};
use crate::{CompletionEntry, SubmissionEntry};

/// Headers and digests are of dwords, so that without a wish data begins right behind them.
const ALIGNMENT_MIN: usize = 4;

/// Padding in front of data for its alignment.
const PADDING: [u8; 128] = [0; 128];

/// Sent header bytes are given back when this many of them have gathered in front.
const COMPACT_AT: usize = 4096;

#[derive(Debug)]
enum Segment<P> {
    Bytes { length: usize },
    Payload { payload: P, start: usize, end: usize, has_late_digest: bool },
}

/// Chunk of the send list, in wire order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a, P> {
    /// Headers and digests.
    Bytes(&'a [u8]),
    /// `start..end` of a payload.
    Payload {
        /// Payload that the owner has queued.
        payload: &'a P,
        /// First byte within it.
        start: usize,
        /// Offset behind its last byte.
        end: usize,
    },
}

/// A send list of PDUs.
#[derive(Debug)]
pub struct Transmitter<P> {
    digests: Digests,
    /// Alignment of data in bytes: its offsets are multiples of this.
    alignment: usize,
    bytes: Vec<u8>,
    head: usize,
    segments: VecDeque<Segment<P>>,
    length: usize,
}

impl<P> Transmitter<P> {
    /// An empty list with room for `pdus` PDUs before it has to grow.
    pub fn new(pdus: usize) -> Self {
        Self {
            digests: Digests::default(),
            alignment: ALIGNMENT_MIN,
            bytes: Vec::with_capacity(pdus * size_of::<DataPdu>()),
            head: 0,
            segments: VecDeque::with_capacity(pdus * 2),
            length: 0,
        }
    }

    /// From now on frames PDUs with these digests.
    pub fn set_digests(&mut self, digests: Digests) {
        self.digests = digests;
    }

    /// From now on aligns the data of PDUs to multiples of `alignment` bytes, as the other end asked.
    pub fn set_alignment(&mut self, alignment: u8) {
        self.alignment = usize::from(alignment).max(ALIGNMENT_MIN);
    }

    /// Alignment of the data of PDUs, in bytes.
    pub const fn alignment(&self) -> u8 {
        self.alignment as u8
    }

    /// True if nothing is left to send.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes left to send.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Queues an ICReq or ICResp.
    pub fn initialize(&mut self, pdu: &Initialize) {
        self.push_bytes(pdu.as_bytes());
    }

    /// Queues bytes as they are, such as what comes before the first PDU.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.push_bytes(bytes);
    }

    /// Queues a completion.
    pub fn response(&mut self, entry: CompletionEntry) {
        let mut pdu = CapsuleResponse { common: CommonHeader::new(PduType::CapsuleResponse, 0), entry };
        self.frame(&mut pdu.common, 0);
        self.push_header(pdu.as_bytes(), 0);
    }

    /// Queues a command, with `data` within the capsule: the payload, its length and, when data
    /// digests are in use, its CRC32C.
    pub fn command(&mut self, entry: SubmissionEntry, data: Option<(P, usize, u32)>) {
        let mut pdu = CapsuleCommand { common: CommonHeader::new(PduType::CapsuleCommand, 0), entry };
        let Some((payload, length, crc)) = data else {
            self.frame(&mut pdu.common, 0);
            return self.push_header(pdu.as_bytes(), 0);
        };
        let padding = self.frame(&mut pdu.common, length);
        self.push_header(pdu.as_bytes(), padding);
        self.push_payload(payload, 0..length, Some(crc));
    }

    /// Queues a data PDU in either direction: `range` of the payload, and its CRC32C when data digests are in
    /// use. Without one, it is asked for by [`Self::digest`] when the payload leaves.
    pub fn data(&mut self, mut pdu: DataPdu, payload: P, range: Range<usize>, crc: Option<u32>) {
        let padding = self.frame(&mut pdu.common, range.len());
        self.push_header(pdu.as_bytes(), padding);
        self.push_payload(payload, range, crc);
    }

    /// Asks `crc` for the CRC32C of each payload that was queued without, among the first `chunks` chunks; how many of these
    /// may leave: all, or those before the first payload that has none yet. Where nothing of a payload leaves, the next call
    /// asks for it again.
    pub fn digest(&mut self, chunks: usize, mut crc: impl FnMut(&P, Range<usize>) -> Option<u32>) -> usize {
        let mut at = self.head;
        for (index, segment) in self.segments.iter().take(chunks).enumerate() {
            match segment {
                Segment::Bytes { length } => at += length,
                Segment::Payload { payload, start, end, has_late_digest: true } => {
                    let Some(crc) = crc(payload, *start..*end) else { return index };
                    self.bytes[at..at + DIGEST_LENGTH].copy_from_slice(&crc.to_le_bytes());
                }
                Segment::Payload { .. } => {}
            }
        }
        chunks
    }

    /// Queues a request for data.
    pub fn ready_to_transfer(&mut self, mut pdu: ReadyToTransfer) {
        self.frame(&mut pdu.common, 0);
        self.push_header(pdu.as_bytes(), 0);
    }

    /// Queues a termination request (`kind` says whose), with the header of the faulty PDU.
    pub fn terminate(&mut self, kind: PduType, error: FatalError, information: u32, header: &[u8]) {
        let header = &header[..header.len().min(Terminate::HEADER_LENGTH_MAX)];
        self.push_bytes(Terminate::new(kind, error, information, header.len()).as_bytes());
        self.push_bytes(header);
    }

    /// Chunks in wire order.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk<'_, P>> {
        let mut at = self.head;
        self.segments.iter().map(move |segment| match segment {
            Segment::Bytes { length } => {
                at += length;
                Chunk::Bytes(&self.bytes[at - length..at])
            }
            Segment::Payload { payload, start, end, .. } => {
                Chunk::Payload { payload, start: *start, end: *end }
            }
        })
    }

    /// Records that `sent` bytes have been sent, and calls `done` with each payload that has been sent completely.
    ///
    /// # Panics
    /// When `sent` exceeds the bytes that were there to send.
    pub fn advance(&mut self, mut sent: usize, mut done: impl FnMut(P)) {
        assert!(sent <= self.length, "more sent than queued");
        self.length -= sent;
        while let Some(segment) = self.segments.front_mut() {
            let left = match segment {
                Segment::Bytes { length } => *length,
                Segment::Payload { start, end, .. } => *end - *start,
            };
            let taken = left.min(sent);
            sent -= taken;
            match segment {
                Segment::Bytes { length } => {
                    *length -= taken;
                    self.head += taken;
                }
                Segment::Payload { start, has_late_digest, .. } => {
                    *start += taken;
                    *has_late_digest &= taken == 0;
                }
            }
            if taken < left {
                break;
            }
            if let Some(Segment::Payload { payload, .. }) = self.segments.pop_front() {
                done(payload);
            }
        }
        self.compact();
    }

    /// Gives up all that is queued; calls `done` with each payload.
    pub fn clear(&mut self, mut done: impl FnMut(P)) {
        for segment in self.segments.drain(..) {
            if let Segment::Payload { payload, .. } = segment {
                done(payload);
            }
        }
        self.bytes.clear();
        self.head = 0;
        self.length = 0;
    }

    fn compact(&mut self) {
        if self.head == self.bytes.len() {
            self.bytes.clear();
            self.head = 0;
        } else if self.head >= COMPACT_AT && self.head * 2 >= self.bytes.len() {
            self.bytes.copy_within(self.head.., 0);
            self.bytes.truncate(self.bytes.len() - self.head);
            self.head = 0;
        }
    }

    /// Completes the common header for `data_length` bytes of data and the digests in use; the bytes of padding that come in
    /// front of the data.
    fn frame(&self, common: &mut CommonHeader, data_length: usize) -> usize {
        let mut padding = 0;
        let mut length = usize::from(common.header_length);
        if self.digests.header {
            common.flags |= flags::HEADER_DIGEST;
            length += DIGEST_LENGTH;
        }
        if data_length > 0 {
            // Nearly no host has a wish, and a division would cost as much as all else here.
            if self.alignment > ALIGNMENT_MIN {
                padding = length.next_multiple_of(self.alignment) - length;
                length += padding;
            }
            common.data_offset = length as u8;
            length += data_length;
            if self.digests.data {
                common.flags |= flags::DATA_DIGEST;
                length += DIGEST_LENGTH;
            }
        }
        common.pdu_length = U32::new(length as u32);
        padding
    }

    fn push_header(&mut self, header: &[u8], padding: usize) {
        self.push_bytes(header);
        if self.digests.header {
            self.push_bytes(&crc32c(header).to_le_bytes());
        }
        if padding > 0 {
            self.push_bytes(&PADDING[..padding]);
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.length += bytes.len();
        if let Some(Segment::Bytes { length }) = self.segments.back_mut() {
            *length += bytes.len();
        } else {
            self.segments.push_back(Segment::Bytes { length: bytes.len() });
        }
    }

    fn push_payload(&mut self, payload: P, range: Range<usize>, crc: Option<u32>) {
        self.length += range.len();
        let has_digest = self.digests.data && !range.is_empty();
        // A payload of no bytes is queued too: its owner gets every one back.
        self.segments.push_back(Segment::Payload {
            payload,
            start: range.start,
            end: range.end,
            has_late_digest: has_digest && crc.is_none(),
        });
        if has_digest {
            self.push_bytes(&crc.unwrap_or_default().to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_digest_is_asked_for_until_its_payload_begins_to_leave() {
        let mut transmitter = Transmitter::<usize>::new(1);
        transmitter.set_digests(Digests { header: false, data: true });
        for payload in [1, 2] {
            let pdu = DataPdu::new(PduType::DataToHost, flags::LAST, 0, 0, 0, 512);
            transmitter.data(pdu, payload, 0..512, None);
        }
        let asked = |transmitter: &mut Transmitter<usize>, chunks, has: usize| {
            let mut asked = Vec::new();
            let ready = transmitter.digest(chunks, |payload, range| {
                asked.push((*payload, range));
                (*payload <= has).then_some(0x0101_0101 * *payload as u32)
            });
            (ready, asked)
        };
        let digests = |transmitter: &Transmitter<usize>| {
            let bytes = transmitter.chunks().filter_map(|chunk| match chunk {
                Chunk::Bytes(bytes) => Some(bytes[..4].to_vec()),
                Chunk::Payload { .. } => None,
            });
            bytes.collect::<Vec<_>>()
        };
        // Header, payload, digest and header, payload, digest.
        assert_eq!(asked(&mut transmitter, 9, 0), (1, [(1, 0..512)].to_vec()));
        assert_eq!(asked(&mut transmitter, 9, 1), (3, [(1, 0..512), (2, 0..512)].to_vec()));
        assert_eq!(asked(&mut transmitter, 3, 9), (3, [(1, 0..512)].to_vec()), "of the first parts alone");
        // The header has left, which does not matter, and then a byte of the payload, which settles its digest.
        transmitter.advance(size_of::<DataPdu>(), |_| ());
        assert_eq!(asked(&mut transmitter, 9, 1).1, [(1, 0..512), (2, 0..512)]);
        transmitter.advance(1, |_| ());
        assert_eq!(asked(&mut transmitter, 9, 9), (9, [(2, 0..512)].to_vec()));
        assert_eq!(digests(&transmitter), [[1; 4], [2; 4]]);
    }

    #[test]
    #[should_panic(expected = "more sent than queued")]
    fn sending_more_than_there_is_is_the_owners_mistake() {
        let mut transmitter = Transmitter::<usize>::new(1);
        transmitter.response(CompletionEntry::default());
        transmitter.advance(25, |_| ());
    }
}
