//! What a packet from a TUN device is on the wire: one segment, or many that the kernel left in one piece (GSO), and
//! how some of them are cut out. It knows no device and no clock.

use std::ops::Range;

/// Bytes of the virtio-net header that stands before each packet of a TUN device with IFF_VNET_HDR.
pub(crate) const VNET_HEADER: usize = 10;
/// Bytes of an Ethernet header: what a packet takes on a link besides its own bytes, as netem counts them too.
const ETHERNET_HEADER: usize = 14;

/// virtio-net: the checksum of the bytes from `csum_start` on has yet to be made.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
/// The bit that says that a segment has CWR set, beside the type.
const GSO_ECN: u8 = 0x80;

const PROTOCOL_TCP: u8 = 6;
const IP_HEADER_MIN: usize = 20;
/// Bytes of an IPv6 header, which stands alone: the kernel leaves no packet with extension headers in one piece.
const IPV6_HEADER: usize = 40;
const TCP_HEADER_MIN: usize = 20;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
/// Offset of the checksum in a TCP header.
const TCP_CHECKSUM: usize = 16;

/// Division of a packet into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of the IP header.
    ip_header: usize,
    /// Bytes of both headers, which every segment has.
    headers: usize,
    /// Payload of a segment; the last may have less.
    segment: usize,
    /// Payload of all segments.
    payload: usize,
}

impl Shape {
    /// The shape of `packet`, which begins with its virtio-net header. Anything but a well-formed TCP packet of many
    /// segments counts as one segment, and its headers are not read.
    pub(crate) fn of(packet: &[u8]) -> Shape {
        let bytes = packet.get(VNET_HEADER..).unwrap_or_default();
        let single = Shape { ip_header: 0, headers: 0, segment: bytes.len().max(1), payload: bytes.len() };
        let Some(&[_, gso, _, _, size0, size1, ..]) = packet.first_chunk::<VNET_HEADER>() else {
            return single;
        };
        let segment = usize::from(u16::from_ne_bytes([size0, size1]));
        let version = match gso & !GSO_ECN {
            GSO_TCP4 => 4,
            GSO_TCP6 => 6,
            _ => return single,
        };
        if segment == 0 {
            return single;
        }
        let Some((ip_header, headers)) = header_lengths(bytes, version) else { return single };
        let payload = bytes.len() - headers;
        if payload <= segment {
            return single;
        }
        Shape { ip_header, headers, segment, payload }
    }

    /// Segments on the wire.
    pub(crate) fn segments(&self) -> usize {
        self.payload.div_ceil(self.segment).max(1)
    }

    /// Bytes that some of the segments take on the wire, headers of all layers included.
    pub(crate) fn wire_bytes(&self, segments: Range<usize>) -> u64 {
        let count = segments.len();
        let payload = self.payload_of(segments);
        (payload.len() + count * (self.headers + ETHERNET_HEADER)) as u64
    }

    /// Bytes of the payload in some of the segments.
    fn payload_of(&self, segments: Range<usize>) -> Range<usize> {
        let at = |segment: usize| segment.saturating_mul(self.segment).min(self.payload);
        at(segments.start)..at(segments.end)
    }

    /// Puts some of the segments of `packet` into `out`, as a packet of their own with a virtio-net header. `self` is
    /// the packet's shape, and has more than one segment.
    pub(crate) fn cut_out(&self, packet: &[u8], segments: Range<usize>, out: &mut Vec<u8>) {
        let first = segments.start;
        let part = self.payload_of(segments);
        let payload_at = VNET_HEADER + self.headers;
        out.clear();
        out.extend_from_slice(&packet[..payload_at]);
        out.extend_from_slice(&packet[payload_at + part.start..payload_at + part.end]);
        let (vnet, bytes) = out.split_at_mut(VNET_HEADER);
        self.write_vnet(vnet, part.len() > self.segment);
        let (ip, tcp) = bytes.split_at_mut(self.ip_header);
        let length = self.headers + part.len();
        write_ip(ip, length, first);
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(part.start as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if part.end < self.payload {
            tcp[13] &= !(FIN | PSH);
        }
        if first > 0 {
            tcp[13] &= !CWR;
        }
        // The kernel adds the rest to the sum of the pseudo header, since NEEDS_CHECKSUM is set.
        let pseudo = folded(pseudo_header(ip, length - self.ip_header));
        tcp[TCP_CHECKSUM..TCP_CHECKSUM + 2].copy_from_slice(&pseudo.to_be_bytes());
    }

    fn write_vnet(&self, vnet: &mut [u8], many: bool) {
        vnet[0] = NEEDS_CHECKSUM;
        if !many {
            vnet[1] = GSO_NONE;
            vnet[4..6].fill(0);
        }
        vnet[2..4].copy_from_slice(&(self.headers as u16).to_ne_bytes());
        vnet[6..8].copy_from_slice(&(self.ip_header as u16).to_ne_bytes());
        vnet[8..10].copy_from_slice(&(TCP_CHECKSUM as u16).to_ne_bytes());
    }
}

/// Makes an IP header that of a part of `length` bytes, which begins with segment `first`.
fn write_ip(ip: &mut [u8], length: usize, first: usize) {
    // The kernel makes no packet longer than its length field can say, and a part is shorter than the whole.
    if ip[0] >> 4 == 6 {
        ip[4..6].copy_from_slice(&((length - IPV6_HEADER) as u16).to_be_bytes());
        return;
    }
    let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(first as u16);
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&identification.to_be_bytes());
    ip[10..12].fill(0);
    let sum = !folded(sum(ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The lengths of the IP header, and of it and the TCP header together, where both are whole and of this version.
fn header_lengths(bytes: &[u8], version: u8) -> Option<(usize, usize)> {
    let first = *bytes.first()?;
    let (ip_header, protocol_at) =
        if version == 6 { (IPV6_HEADER, 6) } else { (usize::from(first & 0x0f) * 4, 9) };
    if first >> 4 != version || ip_header < IP_HEADER_MIN || *bytes.get(protocol_at)? != PROTOCOL_TCP {
        return None;
    }
    let tcp_header = usize::from(bytes.get(ip_header + 12)? >> 4) * 4;
    let headers = ip_header + tcp_header;
    (tcp_header >= TCP_HEADER_MIN && headers <= bytes.len()).then_some((ip_header, headers))
}

/// The sum of TCP's pseudo header: addresses, protocol, length.
fn pseudo_header(ip: &[u8], tcp_bytes: usize) -> u64 {
    let addresses = if ip[0] >> 4 == 6 { &ip[8..IPV6_HEADER] } else { &ip[12..20] };
    sum(addresses) + u64::from(PROTOCOL_TCP) + tcp_bytes as u64
}

/// The sum of all 16-bit words, not yet folded. An odd last byte counts as if a zero followed.
fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let total: u64 = words.by_ref().map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    total + words.remainder().first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// A sum in ones' complement, in 16 bits.
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: usize = 100;
    const TCP_HEADER: usize = 32;
    const HEADERS: usize = IP_HEADER_MIN + TCP_HEADER;
    const SEQUENCE: u32 = u32::MAX - 250;

    /// A packet as the kernel hands it over: `payload` bytes in segments of 100, CWR, PSH and FIN set.
    fn packet(payload: usize) -> Vec<u8> {
        let mut packet = vec![NEEDS_CHECKSUM, GSO_TCP4 | GSO_ECN];
        for field in [HEADERS as u16, SEGMENT as u16, IP_HEADER_MIN as u16, 16] {
            packet.extend_from_slice(&field.to_ne_bytes());
        }
        let mut ip = vec![0x45, 0];
        ip.extend_from_slice(&((HEADERS + payload) as u16).to_be_bytes());
        ip.extend_from_slice(&[0xff, 0xfe, 0x40, 0, 64, PROTOCOL_TCP, 0, 0, 10, 1, 2, 1, 10, 1, 2, 2]);
        packet.extend_from_slice(&ip);
        let mut tcp = vec![0x11, 0x44, 0x9c, 0x40];
        tcp.extend_from_slice(&SEQUENCE.to_be_bytes());
        tcp.extend_from_slice(&[
            0,
            0,
            0,
            9,
            (TCP_HEADER as u8 / 4) << 4,
            FIN | PSH | CWR | 0x10,
            1,
            0,
            0,
            0,
            0,
            0,
        ]);
        tcp.resize(TCP_HEADER, 1);
        packet.extend_from_slice(&tcp);
        packet.extend((0..payload).map(|at| (at * 7 % 251) as u8));
        packet
    }

    fn part(whole: &[u8], segments: Range<usize>) -> Vec<u8> {
        let mut out = Vec::new();
        Shape::of(whole).cut_out(whole, segments, &mut out);
        out
    }

    fn sequence(packet: &[u8]) -> u32 {
        let at = VNET_HEADER + IP_HEADER_MIN + 4;
        u32::from_be_bytes(packet[at..at + 4].try_into().unwrap())
    }

    fn flags(packet: &[u8]) -> u8 {
        packet[VNET_HEADER + IP_HEADER_MIN + 13]
    }

    /// Finishes the TCP checksum as hardware would, and says whether the segment then is right.
    fn checksums_hold(packet: &[u8]) -> bool {
        let mut bytes = packet[VNET_HEADER..].to_vec();
        let (ip, tcp) = bytes.split_at_mut(IP_HEADER_MIN);
        let finished = !folded(sum(tcp));
        tcp[16..18].copy_from_slice(&finished.to_be_bytes());
        let whole = sum(tcp) + sum(&ip[12..20]) + 6 + tcp.len() as u64;
        folded(sum(ip)) == 0xffff && folded(whole) == 0xffff
    }

    #[test]
    fn counts_segments_and_their_bytes_on_the_wire() {
        let shape = Shape::of(&packet(950));
        assert_eq!(shape.segments(), 10);
        assert_eq!(shape.wire_bytes(0..1), (SEGMENT + HEADERS + 14) as u64);
        assert_eq!(shape.wire_bytes(9..10), (50 + HEADERS + 14) as u64);
        assert_eq!(shape.wire_bytes(0..10), (950 + 10 * (HEADERS + 14)) as u64);
    }

    #[test]
    fn what_is_not_many_segments_is_one() {
        let mut plain = packet(950);
        plain[1] = GSO_NONE;
        let other_version = {
            let mut p = packet(950);
            p[VNET_HEADER] = 0x65;
            p
        };
        let other_protocol = {
            let mut p = packet(950);
            p[VNET_HEADER + 9] = 17;
            p
        };
        let header_beyond_end = packet(950)[..VNET_HEADER + 40].to_vec();
        let short_header = {
            let mut p = packet(950);
            p[VNET_HEADER] = 0x42;
            p
        };
        for bytes in [plain, other_version, other_protocol, header_beyond_end, short_header, packet(100)] {
            let shape = Shape::of(&bytes);
            assert_eq!(shape.segments(), 1);
            assert_eq!(shape.wire_bytes(0..1), (bytes.len() - VNET_HEADER + 14) as u64);
        }
        assert_eq!(Shape::of(&[0; 4]).segments(), 1);
    }

    #[test]
    fn parts_are_packets_of_their_own() {
        let whole = packet(950);
        let parts = [part(&whole, 0..3), part(&whole, 3..4), part(&whole, 4..9), part(&whole, 9..10)];
        let mut payload = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            assert!(checksums_hold(part), "part {at}");
            let length = u16::from_be_bytes([part[VNET_HEADER + 2], part[VNET_HEADER + 3]]);
            assert_eq!(usize::from(length), part.len() - VNET_HEADER);
            assert_eq!(sequence(part), SEQUENCE.wrapping_add(payload.len() as u32));
            payload.extend_from_slice(&part[VNET_HEADER + HEADERS..]);
        }
        assert_eq!(payload, whole[VNET_HEADER + HEADERS..]);
        let identifications: Vec<_> =
            parts.iter().map(|p| u16::from_be_bytes([p[VNET_HEADER + 4], p[VNET_HEADER + 5]])).collect();
        assert_eq!(identifications, [0xfffe, 1, 2, 7]);
    }

    /// The same over IPv6.
    fn packet6(payload: usize) -> Vec<u8> {
        let whole = packet(payload);
        let (vnet, bytes) = whole.split_at(VNET_HEADER);
        let mut packet = vec![vnet[0], GSO_TCP6 | GSO_ECN];
        packet.extend_from_slice(&((IPV6_HEADER + TCP_HEADER) as u16).to_ne_bytes());
        packet.extend_from_slice(&vnet[4..6]);
        packet.extend_from_slice(&(IPV6_HEADER as u16).to_ne_bytes());
        packet.extend_from_slice(&vnet[8..10]);
        packet.extend_from_slice(&[0x60, 0, 0, 0]);
        packet.extend_from_slice(&((TCP_HEADER + payload) as u16).to_be_bytes());
        packet.extend_from_slice(&[PROTOCOL_TCP, 64]);
        packet.extend((0..32).map(|at| at * 5));
        packet.extend_from_slice(&bytes[IP_HEADER_MIN..]);
        packet
    }

    #[test]
    fn ipv6_is_cut_as_ipv4_is() {
        let whole = packet6(950);
        let shape = Shape::of(&whole);
        assert_eq!(
            (shape.segments(), shape.wire_bytes(9..10)),
            (10, (50 + IPV6_HEADER + TCP_HEADER + 14) as u64)
        );
        let parts = [part(&whole, 0..3), part(&whole, 3..4), part(&whole, 4..10)];
        let mut payload = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let (ip, tcp) = part[VNET_HEADER..].split_at(IPV6_HEADER);
            assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), tcp.len());
            assert_eq!(ip[8..], whole[VNET_HEADER + 8..VNET_HEADER + IPV6_HEADER], "addresses stay");
            let sequence = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
            assert_eq!(sequence, SEQUENCE.wrapping_add(payload.len() as u32));
            let mut finished = tcp.to_vec();
            finished[16..18].copy_from_slice(&(!folded(sum(tcp))).to_be_bytes());
            let pseudo = sum(&ip[8..IPV6_HEADER]) + 6 + tcp.len() as u64;
            assert_eq!(folded(sum(&finished) + pseudo), 0xffff, "part {at}");
            payload.extend_from_slice(&tcp[TCP_HEADER..]);
        }
        assert_eq!(payload, whole[VNET_HEADER + IPV6_HEADER + TCP_HEADER..]);
        let mut of_version_4 = whole;
        of_version_4[1] = GSO_TCP4;
        assert_eq!(Shape::of(&of_version_4).segments(), 1);
    }

    #[test]
    fn flags_stay_at_the_ends() {
        let whole = packet(950);
        assert_eq!(flags(&part(&whole, 0..3)), CWR | 0x10);
        assert_eq!(flags(&part(&whole, 3..9)), 0x10);
        assert_eq!(flags(&part(&whole, 9..10)), FIN | PSH | 0x10);
    }

    #[test]
    fn a_part_of_one_segment_needs_no_further_segmentation() {
        let whole = packet(950);
        let many = part(&whole, 2..4);
        assert_eq!((many[1], u16::from_ne_bytes([many[4], many[5]])), (GSO_TCP4 | GSO_ECN, SEGMENT as u16));
        let one = part(&whole, 2..3);
        assert_eq!((one[0], one[1], u16::from_ne_bytes([one[4], one[5]])), (NEEDS_CHECKSUM, GSO_NONE, 0));
    }
}
