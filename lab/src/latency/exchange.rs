//! NVMe/TCP on the wire, read independently of the product's own decoders: when each command of the I/O queues passed, and
//! when the end of its answer did. It keeps out where packets come from.

use std::collections::HashMap;

use super::pcap::Packets;
use super::stream::{Piece, Segment, Stream};

/// PDU types (NVMe TCP Transport specification, 3.6.2).
const CAPSULE_COMMAND: u8 = 4;
const CAPSULE_RESPONSE: u8 = 5;
const C2H_DATA: u8 = 7;
/// The common header: type, flags, header length, data offset, PDU length.
const COMMON_HEADER: usize = 8;
/// Longest header: that and a submission queue entry.
const HEADER_MAX: usize = 72;
/// C2HData with the last data of its command, which stands for a response too (LAST_PDU, SUCCESS).
const LAST_AND_SUCCESS: u8 = 1 << 2 | 1 << 3;
/// Fabrics commands, and Connect among them, with the queue it is for.
const FABRICS: u8 = 0x7f;
const CONNECT: u8 = 1;
/// The largest PDU that is believed; the product's largest command has 1 MiB of data.
const PDU_BYTES_MAX: u32 = 16 << 20;

/// A PDU that has passed.
#[derive(Clone, Copy, Debug)]
struct Pdu {
    header: [u8; HEADER_MAX],
    /// Time at which its last byte had passed.
    at_ns: u64,
}

/// Cuts a stream into PDUs.
#[derive(Debug)]
struct Cutter {
    header: [u8; HEADER_MAX],
    /// Bytes of the current PDU that have passed.
    passed: usize,
    /// The stream is none of NVMe/TCP.
    broken: bool,
}

impl Default for Cutter {
    fn default() -> Self {
        Cutter { header: [0; HEADER_MAX], passed: 0, broken: false }
    }
}

impl Cutter {
    /// Takes bytes, and gives the PDUs that end in them.
    fn take(&mut self, piece: &Piece) -> Vec<Pdu> {
        let (mut bytes, mut pdus) = (&piece.bytes[..], Vec::new());
        while !bytes.is_empty() && !self.broken {
            if self.passed < HEADER_MAX {
                let length = self.pdu_length().unwrap_or(COMMON_HEADER).min(HEADER_MAX);
                let now = (length - self.passed).min(bytes.len());
                self.header[self.passed..self.passed + now].copy_from_slice(&bytes[..now]);
                (self.passed, bytes) = (self.passed + now, &bytes[now..]);
            }
            let Some(length) = self.pdu_length() else { continue };
            if length < COMMON_HEADER {
                self.broken = true;
                break;
            }
            if self.passed >= HEADER_MAX {
                let now = (length - self.passed).min(bytes.len());
                (self.passed, bytes) = (self.passed + now, &bytes[now..]);
            }
            if self.passed == length {
                pdus.push(Pdu { header: self.header, at_ns: piece.at_ns });
                self.passed = 0;
            }
        }
        pdus
    }

    /// The length of the current PDU, once it is known.
    fn pdu_length(&mut self) -> Option<usize> {
        if self.passed < COMMON_HEADER {
            return None;
        }
        let length = u32::from_le_bytes([self.header[4], self.header[5], self.header[6], self.header[7]]);
        self.broken |= length > PDU_BYTES_MAX;
        Some(length.min(PDU_BYTES_MAX) as usize)
    }
}

/// Connection in the capture.
#[derive(Debug, Default)]
struct Connection {
    to_target: (Stream, Cutter),
    to_host: (Stream, Cutter),
    /// Queue identifier, once it is known.
    queue_id: Option<u16>,
    /// Times at which commands passed, by their identifier.
    outstanding: HashMap<u16, u64>,
}

/// Commands and completions on the I/O queues.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// Time of each command, from its last byte to the last byte of its answer, in nanoseconds, in the order of the ends.
    pub(crate) latencies_ns: Vec<u64>,
    /// Time of the first command, and of the last answer.
    pub(crate) first_ns: Option<u64>,
    pub(crate) last_ns: u64,
    /// Commands whose answer was not seen, and answers whose command was not.
    pub(crate) unmatched: u64,
    /// Bytes that passed again.
    pub(crate) repeated_bytes: u64,
    /// Something is missing or unreadable, so that not all was counted.
    pub(crate) incomplete: bool,
}

impl Exchanges {
    /// All exchanges with the target at `port` in a capture.
    ///
    /// # Errors
    /// It is not a capture.
    pub(crate) fn of(file: &[u8], port: u16) -> Result<Exchanges, String> {
        let mut exchanges = Exchanges::default();
        let mut connections: HashMap<u16, Connection> = HashMap::new();
        let mut packets = Packets::new(file)?;
        for packet in packets.by_ref() {
            let Some(segment) = Segment::of(packet.bytes) else { continue };
            if segment.destination == port {
                let connection = connections.entry(segment.source).or_default();
                exchanges.take_commands(connection, &segment, packet.at_ns);
            } else if segment.source == port {
                let connection = connections.entry(segment.destination).or_default();
                exchanges.take_answers(connection, &segment, packet.at_ns);
            }
        }
        exchanges.incomplete |= packets.truncated;
        for connection in connections.values() {
            exchanges.unmatched += connection.outstanding.len() as u64;
            for (stream, cutter) in [&connection.to_target, &connection.to_host] {
                exchanges.repeated_bytes += stream.repeated_bytes;
                exchanges.incomplete |= stream.lost || cutter.broken;
            }
        }
        Ok(exchanges)
    }

    fn take_commands(&mut self, connection: &mut Connection, segment: &Segment<'_>, at_ns: u64) {
        let (stream, cutter) = &mut connection.to_target;
        let pieces = stream.take(segment, at_ns);
        for pdu in pieces.iter().flat_map(|piece| cutter.take(piece)) {
            if pdu.header[0] != CAPSULE_COMMAND {
                continue;
            }
            let entry = &pdu.header[COMMON_HEADER..];
            let word = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
            if entry[0] == FABRICS {
                if entry[4] == CONNECT {
                    connection.queue_id = Some(word(42));
                }
            } else if connection.queue_id.is_some_and(|id| id != 0) {
                self.first_ns.get_or_insert(pdu.at_ns);
                let forgotten = connection.outstanding.insert(word(2), pdu.at_ns);
                self.unmatched += u64::from(forgotten.is_some());
            }
        }
    }

    fn take_answers(&mut self, connection: &mut Connection, segment: &Segment<'_>, at_ns: u64) {
        let (stream, cutter) = &mut connection.to_host;
        let pieces = stream.take(segment, at_ns);
        for pdu in pieces.iter().flat_map(|piece| cutter.take(piece)) {
            let word = |at: usize| u16::from_le_bytes([pdu.header[at], pdu.header[at + 1]]);
            let command_id = match pdu.header[0] {
                C2H_DATA if pdu.header[1] & LAST_AND_SUCCESS == LAST_AND_SUCCESS => word(COMMON_HEADER),
                // Completion dword 3 begins with it.
                CAPSULE_RESPONSE => word(COMMON_HEADER + 12),
                _ => continue,
            };
            // The answer to Connect has no command here, nor do the admin queue's.
            if let Some(began_ns) = connection.outstanding.remove(&command_id) {
                self.latencies_ns.push(pdu.at_ns.saturating_sub(began_ns));
                self.last_ns = self.last_ns.max(pdu.at_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pcap::tests::file;
    use super::super::stream::tests::frame;
    use super::*;

    const HOST: u16 = 50_000;
    const TARGET: u16 = 4420;

    fn pdu(kind: u8, flags: u8, body: &[u8], data: usize) -> Vec<u8> {
        let mut bytes = vec![kind, flags, (8 + body.len()) as u8, 0];
        bytes.extend(((8 + body.len() + data) as u32).to_le_bytes());
        bytes.extend(body);
        bytes.extend(std::iter::repeat_n(0xee, data));
        bytes
    }

    fn command(opcode: u8, id: u16, data: usize) -> Vec<u8> {
        let mut entry = [0; 64];
        entry[0] = opcode;
        entry[2..4].copy_from_slice(&id.to_le_bytes());
        pdu(CAPSULE_COMMAND, 0, &entry, data)
    }

    fn connect(queue_id: u16) -> Vec<u8> {
        let mut bytes = command(FABRICS, 9, 1024);
        bytes[8 + 4] = CONNECT;
        bytes[8 + 42..8 + 44].copy_from_slice(&queue_id.to_le_bytes());
        bytes
    }

    fn data(id: u16, flags: u8, length: usize) -> Vec<u8> {
        let mut body = [0; 16];
        body[..2].copy_from_slice(&id.to_le_bytes());
        pdu(C2H_DATA, flags, &body, length)
    }

    fn response(id: u16) -> Vec<u8> {
        let mut entry = [0; 16];
        entry[12..14].copy_from_slice(&id.to_le_bytes());
        pdu(CAPSULE_RESPONSE, 0, &entry, 0)
    }

    /// Puts bytes into packets of at most `length`, 10 ns apart from `at_ns` on.
    fn packets(
        side: (u16, u16),
        sequence: &mut u32,
        at_ns: u64,
        bytes: &[u8],
        length: usize,
    ) -> Vec<(u64, Vec<u8>)> {
        let mut packets = Vec::new();
        for (number, chunk) in bytes.chunks(length).enumerate() {
            packets.push((at_ns + 10 * number as u64, frame(side.0, side.1, *sequence, chunk)));
            *sequence = sequence.wrapping_add(chunk.len() as u32);
        }
        packets
    }

    /// A connection of `queue_id` with a read of 100 bytes in two PDUs, a write, and two reads in one segment.
    fn conversation(queue_id: u16, length: usize) -> Vec<(u64, Vec<u8>)> {
        let (up, down) = ((HOST, TARGET), (TARGET, HOST));
        let (mut sent, mut received) = (u32::MAX - 500, 77);
        let mut all = packets(up, &mut sent, 1000, &connect(queue_id), length);
        all.extend(packets(down, &mut received, 20_000, &response(9), length));
        all.extend(packets(up, &mut sent, 100_000, &command(2, 1, 0), length));
        let answer = [data(1, 0, 60), data(1, 4, 40), response(1)].concat();
        all.extend(packets(down, &mut received, 200_000, &answer, length));
        all.extend(packets(up, &mut sent, 300_000, &command(1, 1, 512), length));
        all.extend(packets(down, &mut received, 450_000, &response(1), length));
        all.extend(packets(up, &mut sent, 500_000, &[command(2, 3, 0), command(2, 4, 0)].concat(), length));
        let both = [data(4, 12, 4096), data(3, 12, 4096)].concat();
        all.extend(packets(down, &mut received, 600_000, &both, length));
        all
    }

    #[test]
    fn commands_and_answers_are_matched() {
        let exchanges = Exchanges::of(&file(&conversation(1, 65_000)), TARGET).unwrap();
        assert_eq!(exchanges.latencies_ns, [100_000, 150_000, 100_000, 100_000]);
        assert_eq!((exchanges.first_ns, exchanges.last_ns), (Some(100_000), 600_000));
        assert_eq!((exchanges.unmatched, exchanges.repeated_bytes, exchanges.incomplete), (0, 0, false));
    }

    #[test]
    fn the_segments_boundaries_do_not_matter() {
        for length in [1, 2, 7, 24, 71, 72, 73, 100, 1448] {
            let exchanges = Exchanges::of(&file(&conversation(1, length)), TARGET).unwrap();
            assert_eq!(exchanges.latencies_ns.len(), 4, "segments of {length}");
            assert_eq!((exchanges.unmatched, exchanges.incomplete), (0, false), "segments of {length}");
            // The answer's last byte counts: the later it comes, the longer it took.
            let answer = (60 + 24 + 40 + 24 + 24usize).div_ceil(length) - 1;
            let question = 72usize.div_ceil(length) - 1;
            let expected = 100_000 + 10 * answer as u64 - 10 * question as u64;
            assert_eq!(exchanges.latencies_ns[0], expected, "segments of {length}");
        }
    }

    #[test]
    fn retransmissions_change_nothing() {
        let mut twice = Vec::new();
        for (at_ns, packet) in conversation(1, 1448) {
            twice.push((at_ns, packet.clone()));
            twice.push((at_ns + 3, packet));
        }
        let exchanges = Exchanges::of(&file(&twice), TARGET).unwrap();
        let once = Exchanges::of(&file(&conversation(1, 1448)), TARGET).unwrap();
        assert_eq!(exchanges.latencies_ns, once.latencies_ns);
        assert!(exchanges.repeated_bytes > 8000 && !exchanges.incomplete, "{}", exchanges.repeated_bytes);
    }

    #[test]
    fn the_admin_queue_and_others_do_not_count() {
        let admin = Exchanges::of(&file(&conversation(0, 1448)), TARGET).unwrap();
        assert_eq!((admin.latencies_ns.len(), admin.unmatched), (0, 0));
        let other = Exchanges::of(&file(&conversation(1, 1448)), 80).unwrap();
        assert_eq!((other.latencies_ns.len(), other.first_ns), (0, None));
    }

    #[test]
    fn what_is_missing_is_said() {
        let whole = conversation(1, 65_000);
        let mut unanswered = whole.clone();
        unanswered.pop();
        assert_eq!(Exchanges::of(&file(&unanswered), TARGET).unwrap().unmatched, 2);
        let bytes = file(&whole);
        let cut = Exchanges::of(&bytes[..bytes.len() - 1], TARGET).unwrap();
        assert_eq!((cut.incomplete, cut.latencies_ns.len()), (true, 2));
        let nonsense = vec![(5, frame(HOST, TARGET, 0, &[0xff; 40]))];
        assert!(Exchanges::of(&file(&nonsense), TARGET).unwrap().incomplete);
    }
}
