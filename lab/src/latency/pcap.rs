//! tcpdump's files: packets with the time the kernel saw them. It keeps out what is in a packet.

/// The magic number of files whose times are in microseconds, and in nanoseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;
/// LINKTYPE_ETHERNET, which the loopback has too.
const ETHERNET: u32 = 1;

/// Packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    /// Nanoseconds since 1970.
    pub(crate) at_ns: u64,
    /// As much of it as was captured, from the Ethernet header on.
    pub(crate) bytes: &'a [u8],
}

/// The packets of a file, in its order.
#[derive(Debug)]
pub(crate) struct Packets<'a> {
    rest: &'a [u8],
    big_endian: bool,
    fraction_ns: u64,
    /// True if the file ended in the middle of a packet.
    pub(crate) truncated: bool,
}

impl<'a> Packets<'a> {
    /// Reads the header of `file`.
    ///
    /// # Errors
    /// It is not a capture, or not one of Ethernet.
    pub(crate) fn new(file: &'a [u8]) -> Result<Self, String> {
        let (header, rest) = file.split_first_chunk::<FILE_HEADER>().ok_or("not a capture: too short")?;
        let magic = header.first_chunk::<4>().copied().unwrap_or_default();
        let (big_endian, fraction_ns) = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
            (NANOSECONDS, _) => (false, 1),
            (_, NANOSECONDS) => (true, 1),
            (MICROSECONDS, _) => (false, 1000),
            (_, MICROSECONDS) => (true, 1000),
            _ => return Err("not a capture: no magic number of pcap at the beginning".to_owned()),
        };
        let packets = Packets { rest, big_endian, fraction_ns, truncated: false };
        // The upper bits say whether packets end with a checksum, which the loopback's do not.
        match packets.number(header, 20) & 0x0fff_ffff {
            ETHERNET => Ok(packets),
            other => Err(format!("a capture of link type {other}, not of Ethernet")),
        }
    }

    /// The number at `at`, which lies within `bytes`.
    fn number(&self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk::<4>()).copied().unwrap_or_default();
        if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((header, rest)) = self.rest.split_first_chunk::<PACKET_HEADER>() else {
            (self.rest, self.truncated) = (&[], true);
            return None;
        };
        let (seconds, fraction) = (self.number(header, 0), self.number(header, 4));
        let length = self.number(header, 8) as usize;
        let Some((bytes, rest)) = rest.split_at_checked(length) else {
            (self.rest, self.truncated) = (&[], true);
            return None;
        };
        self.rest = rest;
        let at_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns;
        Some(Packet { at_ns, bytes })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A little-endian capture in nanoseconds.
    pub(crate) fn file(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = NANOSECONDS.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
        for (at_ns, packet) in packets {
            let length = packet.len() as u32;
            let words = [(at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32, length, length];
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend(packet);
        }
        bytes
    }

    #[test]
    fn every_cut_gives_the_packets_before_it() {
        let packets =
            [(1_000_000_005, vec![1, 2, 3]), (2_000_000_000, vec![]), (3_000_000_001, vec![4; 100])];
        let whole = file(&packets);
        for length in 0..=whole.len() {
            let Ok(mut reader) = Packets::new(&whole[..length]) else {
                assert!(length < FILE_HEADER);
                continue;
            };
            let read: Vec<Packet<'_>> = reader.by_ref().collect();
            let ends = [24, 43, 59, 175];
            let expected = ends.iter().filter(|&&end| end <= length).count() - 1;
            assert_eq!(read.len(), expected, "cut at {length}");
            assert_eq!(reader.truncated, !ends.contains(&length), "cut at {length}");
            for (packet, (at_ns, bytes)) in read.iter().zip(&packets) {
                assert_eq!((packet.at_ns, packet.bytes), (*at_ns, &bytes[..]));
            }
        }
    }

    #[test]
    fn knows_both_byte_orders_and_both_units() {
        let mut bytes = MICROSECONDS.to_be_bytes().to_vec();
        bytes.extend([0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1]);
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 9, 0xaa]);
        let packets: Vec<Packet<'_>> = Packets::new(&bytes).unwrap().collect();
        assert_eq!(packets, [Packet { at_ns: 1_000_007_000, bytes: &[0xaa] }]);
    }

    #[test]
    fn refuses_what_is_no_capture() {
        assert!(Packets::new(&[7; 24]).unwrap_err().contains("magic"));
        let mut other = file(&[]);
        other[20] = 113;
        assert!(Packets::new(&other).unwrap_err().contains("113"));
    }
}
