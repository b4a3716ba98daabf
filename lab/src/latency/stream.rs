//! One direction of a TCP connection from captured packets: its bytes in order, each once, with the time at which they were
//! seen. It keeps out what the bytes mean.

use std::collections::BTreeMap;

const ETHERNET_HEADER: usize = 14;
const ETHERTYPE_IPV4: [u8; 2] = [8, 0];
const PROTOCOL_TCP: u8 = 6;
const IP_HEADER_MIN: usize = 20;
const TCP_HEADER_MIN: usize = 20;
const SYN: u8 = 2;
/// Segments that wait for one that is missing. More means that the capture has lost it.
const WAITING_MAX: usize = 1024;

/// A TCP segment over IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) sequence: u32,
    pub(crate) syn: bool,
    pub(crate) payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// TCP segment of an Ethernet frame. None for anything else, and for one of which a part is
    /// missing.
    pub(crate) fn of(frame: &'a [u8]) -> Option<Segment<'a>> {
        if frame.get(ETHERNET_HEADER - 2..ETHERNET_HEADER)? != ETHERTYPE_IPV4 {
            return None;
        }
        let ip = frame.get(ETHERNET_HEADER..)?;
        let header = usize::from(ip.first()? & 0xf) * 4;
        let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
        if header < IP_HEADER_MIN || *ip.get(9)? != PROTOCOL_TCP {
            return None;
        }
        // Short frames are filled up on real links.
        let tcp = ip.get(header..total)?;
        let header = usize::from(tcp.get(12)? >> 4) * 4;
        if header < TCP_HEADER_MIN {
            return None;
        }
        let word = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
        Some(Segment {
            source: word(0)?,
            destination: word(2)?,
            sequence: u32::from(word(4)?) << 16 | u32::from(word(6)?),
            syn: tcp.get(13)? & SYN != 0,
            payload: tcp.get(header..)?,
        })
    }
}

/// Bytes in order, with the time at which the last of them was there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) at_ns: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Puts segments in order.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The sequence number of the next byte; unknown until the first segment.
    next: Option<u32>,
    /// Number of bytes in order.
    position: u64,
    /// Pieces that came before their turn, by position.
    waiting: BTreeMap<u64, Piece>,
    /// The latest time of anything in order.
    latest_ns: u64,
    /// Bytes that came again.
    pub(crate) repeated_bytes: u64,
    /// Set if the capture misses something, so that nothing after it is known.
    pub(crate) lost: bool,
}

impl Stream {
    /// Takes a segment and gives what is in order now.
    pub(crate) fn take(&mut self, segment: &Segment<'_>, at_ns: u64) -> Vec<Piece> {
        // A SYN takes a sequence number of its own.
        let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
        let next = *self.next.get_or_insert(sequence);
        // Numbers wrap; what is less than half of them ahead is ahead.
        let ahead = i64::from(sequence.wrapping_sub(next).cast_signed());
        let behind = usize::try_from(-ahead).unwrap_or(0).min(segment.payload.len());
        self.repeated_bytes += behind as u64;
        let fresh = &segment.payload[behind..];
        if !fresh.is_empty() && !self.lost {
            let start = self.position + u64::try_from(ahead).unwrap_or(0);
            match self.waiting.get(&start) {
                Some(other) if other.bytes.len() >= fresh.len() => self.repeated_bytes += fresh.len() as u64,
                _ => drop(self.waiting.insert(start, Piece { at_ns, bytes: fresh.to_vec() })),
            }
        }
        let pieces = self.in_order();
        self.lost |= self.waiting.len() > WAITING_MAX;
        pieces
    }

    fn in_order(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some(first) = self.waiting.first_entry() {
            if *first.key() > self.position {
                break;
            }
            let (start, mut piece) = first.remove_entry();
            let known = ((self.position - start) as usize).min(piece.bytes.len());
            self.repeated_bytes += known as u64;
            piece.bytes.drain(..known);
            if piece.bytes.is_empty() {
                continue;
            }
            self.position += piece.bytes.len() as u64;
            self.next = self.next.map(|next| next.wrapping_add(piece.bytes.len() as u32));
            // Bytes that had to wait were of use only when the others had come.
            self.latest_ns = self.latest_ns.max(piece.at_ns);
            piece.at_ns = self.latest_ns;
            pieces.push(piece);
        }
        pieces
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An Ethernet frame with a segment from `source` to `destination`.
    pub(crate) fn frame(source: u16, destination: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(ETHERTYPE_IPV4);
        let total = (IP_HEADER_MIN + TCP_HEADER_MIN + payload.len()) as u16;
        frame.extend([0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, PROTOCOL_TCP, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        frame.extend(source.to_be_bytes());
        frame.extend(destination.to_be_bytes());
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 0, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(payload);
        frame
    }

    fn segment(sequence: u32, payload: &[u8]) -> Segment<'_> {
        Segment { source: 1, destination: 2, sequence, syn: false, payload }
    }

    #[test]
    fn finds_the_payload_and_nothing_in_what_is_cut() {
        let whole = frame(4420, 50_000, 7, b"abc");
        let found = Segment::of(&whole).unwrap();
        assert_eq!((found.source, found.destination, found.sequence), (4420, 50_000, 7));
        assert_eq!((found.payload, found.syn), (&b"abc"[..], false));
        for length in 0..whole.len() {
            assert_eq!(Segment::of(&whole[..length]), None, "cut at {length}");
        }
        let padded = [&whole[..], &[0; 20]].concat();
        assert_eq!(Segment::of(&padded).unwrap().payload, b"abc");
        let mut udp = whole.clone();
        udp[ETHERNET_HEADER + 9] = 17;
        assert_eq!(Segment::of(&udp), None);
    }

    #[test]
    fn what_came_again_is_left_out() {
        let mut stream = Stream::default();
        assert_eq!(stream.take(&segment(10, b"abcd"), 1), [Piece { at_ns: 1, bytes: b"abcd".to_vec() }]);
        assert_eq!(stream.take(&segment(10, b"abcd"), 2), []);
        assert_eq!(stream.take(&segment(12, b"cdef"), 3), [Piece { at_ns: 3, bytes: b"ef".to_vec() }]);
        // A probe that keeps a connection alive is a byte that is long known.
        assert_eq!(stream.take(&segment(15, b"f"), 4), []);
        assert_eq!((stream.repeated_bytes, stream.lost), (7, false));
    }

    #[test]
    fn what_came_early_waits_for_what_is_missing() {
        let mut stream = Stream::default();
        let syn = Segment { syn: true, ..segment(u32::MAX - 2, b"") };
        assert_eq!(stream.take(&syn, 0), []);
        assert_eq!(stream.take(&segment(1, b"cd"), 5), []);
        assert_eq!(stream.take(&segment(3, b"e"), 6), []);
        let (first, second, third) = (b"-_ab".to_vec(), b"cd".to_vec(), b"e".to_vec());
        let pieces = stream.take(&segment(u32::MAX - 1, b"-_ab"), 9);
        // They were of use at 9 only.
        let expected = [first, second[1..].to_vec(), third].map(|bytes| Piece { at_ns: 9, bytes });
        assert_eq!(pieces, expected);
    }

    #[test]
    fn any_order_gives_the_same_bytes() {
        let data: Vec<u8> = (0..=255).collect();
        for seed in 0..200u64 {
            // A generator of its own is enough here, and its seed is in the message.
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut chance = |below: usize| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state % below as u64) as usize
            };
            let origin = u32::MAX - 100;
            let mut stream = Stream::default();
            let mut bytes = Vec::new();
            let mut cuts: Vec<(usize, usize)> =
                (0..256).step_by(16).map(|at| (at, (at + 16 + chance(20)).min(256))).collect();
            for at in 1..cuts.len() {
                let other = 1 + chance(cuts.len() - 1);
                cuts.swap(at, other);
            }
            for (at_ns, &(from, to)) in cuts.iter().enumerate() {
                let sequence = origin.wrapping_add(from as u32);
                let pieces = stream.take(&segment(sequence, &data[from..to]), at_ns as u64);
                bytes.extend(pieces.into_iter().flat_map(|piece| piece.bytes));
            }
            assert_eq!(bytes, data, "seed {seed}");
        }
    }

    #[test]
    fn a_hole_that_stays_is_noticed() {
        let mut stream = Stream::default();
        stream.take(&segment(0, b"a"), 0);
        for number in 0..=WAITING_MAX as u32 {
            assert_eq!(stream.take(&segment(10 + number, b"x"), 1), []);
        }
        assert!(stream.lost);
    }
}
