//! The Toeplitz hash by which NICs spread flows over receive queues, as Microsoft's "RSS hashing functions" defines it.

use std::net::{IpAddr, SocketAddr};

/// Bytes of a key that cover both addresses and ports of IPv6.
pub const KEY_BYTES: usize = 40;

/// The hash of a received packet's addresses and ports, most significant bit first. Absent where the key is too short
/// for them or they are not of one family.
pub fn hash(key: &[u8], source: SocketAddr, destination: SocketAddr) -> Option<u32> {
    let mut input = addresses(source.ip(), destination.ip())?;
    input.extend(source.port().to_be_bytes());
    input.extend(destination.port().to_be_bytes());
    toeplitz(key, &input)
}

/// The same of the addresses alone.
pub fn hash_addresses(key: &[u8], source: IpAddr, destination: IpAddr) -> Option<u32> {
    toeplitz(key, &addresses(source, destination)?)
}

fn addresses(source: IpAddr, destination: IpAddr) -> Option<Vec<u8>> {
    match (source.to_canonical(), destination.to_canonical()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Some([source.octets(), destination.octets()].concat())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Some([source.octets(), destination.octets()].concat())
        }
        _ => None,
    }
}

/// For each bit of the input that is set, the 32 bits of the key that begin at its place.
fn toeplitz(key: &[u8], input: &[u8]) -> Option<u32> {
    if key.len() < input.len() + 4 {
        return None;
    }
    let mut window = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
    let mut hash = 0;
    for (byte, next) in input.iter().zip(&key[4..]) {
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    Some(hash)
}

/// A key as hexadecimal digits.
pub(super) mod key_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::ptr_arg, reason = "serde asks for the field's own type")]
    pub(crate) fn serialize<S: Serializer>(key: &Vec<u8>, serializer: S) -> Result<S::Ok, S::Error> {
        let digits: Vec<String> = key.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&digits.concat())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0);
        let digits =
            digits.ok_or_else(|| D::Error::custom("a key is an even number of hexadecimal digits"))?;
        Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of the published verification suite.
    const KEY: [u8; KEY_BYTES] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    /// Destination, source, hash of the addresses, hash with ports, as published for IPv4 and IPv6.
    const PUBLISHED: [(&str, &str, u32, u32); 8] = [
        ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
        ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
        ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
        ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
        ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
        ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
        ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
        (
            "[fe80::200:f8ff:fe21:67cf]:38024",
            "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    #[test]
    fn the_published_vectors_come_out() {
        for (destination, source, of_addresses, of_all) in PUBLISHED {
            let (source, destination): (SocketAddr, SocketAddr) =
                (source.parse().unwrap(), destination.parse().unwrap());
            assert_eq!(hash_addresses(&KEY, source.ip(), destination.ip()), Some(of_addresses), "{source}");
            assert_eq!(hash(&KEY, source, destination), Some(of_all), "{source}");
        }
    }

    #[test]
    fn a_short_key_or_mixed_families_have_no_hash() {
        let (v4, v6): (SocketAddr, SocketAddr) = ("1.2.3.4:5".parse().unwrap(), "[::2]:5".parse().unwrap());
        assert_eq!(hash(&KEY[..15], v4, v4), None);
        assert!(hash(&KEY[..16], v4, v4).is_some());
        assert_eq!(hash(&KEY[..39], v6, v6), None);
        assert_eq!(hash(&KEY, v4, v6), None);
    }
}
