//! In-band authentication: the two commands that carry it, and the messages of DH-HMAC-CHAP, which is KX-HMAC-CHAP since
//! Base 2.4 (Base 8.3.5). It knows no key and computes nothing.

use alloc::vec::Vec;

use zerocopy::little_endian::U32;

use crate::fabrics::{fabrics, fabrics_type};
use crate::{SglDescriptor, Status, SubmissionEntry};

/// The security protocol of NVMe over Fabrics (SECP).
const SECURITY_PROTOCOL: u8 = 0xe9;
/// The only protocol specific value (SPSP0, SPSP1).
const PROTOCOL_SPECIFIC: u8 = 1;

/// Authentication Send and Authentication Receive (Base 6.1, 6.2): how many bytes go which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of the message (TL), or the most that the host takes (AL).
    pub length: u32,
}

impl Transfer {
    /// Reads either command out of `entry`.
    ///
    /// # Errors
    /// Invalid Field for another security protocol.
    pub fn decode(entry: &SubmissionEntry) -> Result<Self, Status> {
        let [_, spsp0, spsp1, protocol] = entry.cdw10.get().to_le_bytes();
        if protocol != SECURITY_PROTOCOL || spsp0 != PROTOCOL_SPECIFIC || spsp1 != PROTOCOL_SPECIFIC {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok(Self { length: entry.cdw11.get() })
    }

    /// The entry of an Authentication Send, its data within the capsule.
    pub fn encode_send(self) -> SubmissionEntry {
        let mut entry = self.encode(fabrics_type::AUTHENTICATION_SEND);
        entry.data = SglDescriptor::in_capsule(self.length);
        entry
    }

    /// The entry of an Authentication Receive.
    pub fn encode_receive(self) -> SubmissionEntry {
        let mut entry = self.encode(fabrics_type::AUTHENTICATION_RECEIVE);
        entry.data = SglDescriptor::transport(self.length);
        entry
    }

    fn encode(self, kind: u8) -> SubmissionEntry {
        let mut entry = fabrics(kind);
        let word = [0, PROTOCOL_SPECIFIC, PROTOCOL_SPECIFIC, SECURITY_PROTOCOL];
        entry.cdw10 = U32::new(u32::from_le_bytes(word));
        entry.cdw11 = U32::new(self.length);
        entry
    }
}

/// Bits of the Connect result by which a controller asks for authentication (AUTHREQ, Base 6.3).
pub mod required {
    /// The queue has to authenticate (ATR).
    pub const AUTHENTICATION: u64 = 1 << 17;
    /// The same, and a TLS key is to come out of it (ASCR).
    pub const SECURE_CHANNEL: u64 = 1 << 18;
}

/// Why an exchange has failed (RCODEEX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure(pub u8);

impl Failure {
    /// A response is wrong.
    pub const FAILED: Self = Self(1);
    /// No protocol is common to both.
    pub const PROTOCOL: Self = Self(2);
    /// Only one of them wants a TLS key.
    pub const CONCATENATION: Self = Self(3);
    /// No hash function is common to both.
    pub const HASH: Self = Self(4);
    /// No group is common to both.
    pub const GROUP: Self = Self(5);
    /// A message has a wrong content.
    pub const PAYLOAD: Self = Self(6);
    /// Another message was due.
    pub const MESSAGE: Self = Self(7);

    /// Meaning, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FAILED => "authentication failed",
            Self::PROTOCOL => "authentication protocol not usable",
            Self::CONCATENATION => "secure channel concatenation mismatch",
            Self::HASH => "hash function not usable",
            Self::GROUP => "key exchange group not usable",
            Self::PAYLOAD => "incorrect payload",
            Self::MESSAGE => "incorrect protocol message",
            _ => "unknown reason",
        }
    }
}

/// Fault of a malformed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Malformed {
    /// Description for people.
    pub what: &'static str,
    /// Reason that its sender gets.
    pub reason: Failure,
}

const fn malformed(what: &'static str) -> Malformed {
    Malformed { what, reason: Failure::PAYLOAD }
}

/// First offer of a host (AUTH_Negotiate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiate {
    /// Kind of TLS key that is to come out of the exchange (SC_C); 0 for none.
    pub concatenation: u8,
    /// Identifiers of hash functions, empty where the host does not offer this protocol.
    pub hashes: Vec<u8>,
    /// Identifiers of groups.
    pub groups: Vec<u8>,
}

/// Challenge of the controller to the host (Challenge).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Identifier of the hash function that the controller has chosen.
    pub hash: u8,
    /// Identifier of the group that it has chosen.
    pub group: u8,
    /// Sequence number (S1).
    pub sequence: u32,
    /// Challenge value (C1).
    pub challenge: Vec<u8>,
    /// Controller's half of the key exchange, empty with the null group.
    pub exchange: Vec<u8>,
}

/// The host's answer to it (Reply).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Response value (R1).
    pub response: Vec<u8>,
    /// Challenge value (C2), where the controller has to authenticate too.
    pub challenge: Option<Vec<u8>>,
    /// Sequence number (S2).
    pub sequence: u32,
    /// Host's half of the key exchange, empty with the null group.
    pub exchange: Vec<u8>,
}

/// Message of an exchange, without its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// From the host.
    Negotiate(Negotiate),
    /// From the controller.
    Challenge(Challenge),
    /// From the host.
    Reply(Reply),
    /// The controller takes the host for what it says it is; with its own response (R2) where the host wants one. The
    /// length is the hash function's.
    Success1 {
        /// Length of a response.
        length: u8,
        /// Response value (R2).
        response: Option<Vec<u8>>,
    },
    /// The host takes the controller for what it says it is.
    Success2,
    /// From the controller: the exchange has failed.
    Failure1(Failure),
    /// From the host: the exchange has failed.
    Failure2(Failure),
}

/// A message of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The host's number for the exchange (T_ID).
    pub transaction: u16,
    /// Content of the message.
    pub body: Body,
}

/// AUTH_TYPE of messages of all protocols, and of this one.
const COMMON: u8 = 0;
const CHAP: u8 = 1;
/// AUTH_ID of common messages.
const NEGOTIATE: u8 = 0;
const FAILURE2: u8 = 0xf0;
const FAILURE1: u8 = 0xf1;
/// AUTH_ID of this protocol's messages.
const CHALLENGE: u8 = 1;
const REPLY: u8 = 2;
const SUCCESS1: u8 = 3;
const SUCCESS2: u8 = 4;

/// Bytes of a protocol descriptor, and where its lists begin.
const DESCRIPTOR_BYTES: usize = 64;
const LIST_BYTES: usize = 30;
/// Bytes of a message before its values.
const HEADER_BYTES: usize = 16;
/// Bytes of the largest message: values of 64 bytes, and half of an exchange in the largest group.
pub const MESSAGE_BYTES_MAX: usize = HEADER_BYTES + 2 * 64 + 97 + 1568;

impl Message {
    /// Reads a message; bytes behind it are not looked at.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let [kind, id, _, _, low, high, ..] = *bytes else { return Err(malformed("a message is cut off")) };
        let transaction = u16::from_le_bytes([low, high]);
        let body = match (kind, id) {
            (COMMON, NEGOTIATE) => Body::Negotiate(Negotiate::decode(bytes)?),
            (COMMON, FAILURE1) => Body::Failure1(failure(bytes)?),
            (COMMON, FAILURE2) => Body::Failure2(failure(bytes)?),
            (CHAP, CHALLENGE) => Body::Challenge(Challenge::decode(bytes)?),
            (CHAP, REPLY) => Body::Reply(Reply::decode(bytes)?),
            (CHAP, SUCCESS1) => decode_success1(bytes)?,
            (CHAP, SUCCESS2) => Body::Success2,
            _ => {
                return Err(Malformed { what: "there is no such message", reason: Failure::MESSAGE });
            }
        };
        Ok(Self { transaction, body })
    }

    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, id) = self.body.identifiers();
        let mut bytes = Vec::with_capacity(MESSAGE_BYTES_MAX);
        bytes.extend([kind, id, 0, 0]);
        bytes.extend(self.transaction.to_le_bytes());
        match &self.body {
            Body::Negotiate(negotiate) => negotiate.encode(&mut bytes),
            Body::Challenge(challenge) => challenge.encode(&mut bytes),
            Body::Reply(reply) => reply.encode(&mut bytes),
            Body::Success1 { length, response } => {
                bytes.extend([*length, 0, u8::from(response.is_some())]);
                bytes.resize(HEADER_BYTES, 0);
                bytes.extend(response.iter().flatten());
                bytes.resize(HEADER_BYTES + usize::from(*length), 0);
            }
            Body::Success2 => bytes.resize(HEADER_BYTES, 0),
            // RCODE 1: the exchange has failed. There is no other.
            Body::Failure1(reason) | Body::Failure2(reason) => bytes.extend([1, reason.0]),
        }
        bytes
    }
}

impl Body {
    const fn identifiers(&self) -> (u8, u8) {
        match self {
            Self::Negotiate(_) => (COMMON, NEGOTIATE),
            Self::Challenge(_) => (CHAP, CHALLENGE),
            Self::Reply(_) => (CHAP, REPLY),
            Self::Success1 { .. } => (CHAP, SUCCESS1),
            Self::Success2 => (CHAP, SUCCESS2),
            Self::Failure1(_) => (COMMON, FAILURE1),
            Self::Failure2(_) => (COMMON, FAILURE2),
        }
    }

    /// Name in the specification.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Negotiate(_) => "AUTH_Negotiate",
            Self::Challenge(_) => "Challenge",
            Self::Reply(_) => "Reply",
            Self::Success1 { .. } => "Success1",
            Self::Success2 => "Success2",
            Self::Failure1(_) => "AUTH_Failure1",
            Self::Failure2(_) => "AUTH_Failure2",
        }
    }
}

fn failure(bytes: &[u8]) -> Result<Failure, Malformed> {
    bytes.get(7).map(|reason| Failure(*reason)).ok_or(malformed("a failure is cut off"))
}

/// A response or challenge value is as long as a hash: 32, 48 or 64 bytes.
fn value(bytes: &[u8], at: usize, length: u8) -> Result<Vec<u8>, Malformed> {
    if !matches!(length, 32 | 48 | 64) {
        return Err(malformed("a value is not as long as a hash"));
    }
    let value = bytes.get(at..at + usize::from(length));
    value.map(<[u8]>::to_vec).ok_or(malformed("a value is cut off"))
}

/// The fields that Challenge and Reply have in common: the length of a hash, two bytes, the half of the exchange behind
/// `values` values of that length, and the sequence number.
fn decode_common(bytes: &[u8], values: usize) -> Result<(u8, [u8; 2], Vec<u8>, u32), Malformed> {
    let header = bytes.get(..HEADER_BYTES).ok_or(malformed("a message is cut off"))?;
    let length = header[6];
    let exchange_length = usize::from(u16::from_le_bytes([header[10], header[11]]));
    let at = HEADER_BYTES + values * usize::from(length);
    let exchange = bytes.get(at..at + exchange_length).ok_or(malformed("a key exchange is cut off"))?;
    let sequence = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    Ok((length, [header[8], header[9]], exchange.to_vec(), sequence))
}

fn decode_success1(bytes: &[u8]) -> Result<Body, Malformed> {
    let header = bytes.get(..HEADER_BYTES).ok_or(malformed("a message is cut off"))?;
    let length = header[6];
    let response = if header[8] & 1 == 1 { Some(value(bytes, HEADER_BYTES, length)?) } else { None };
    Ok(Body::Success1 { length, response })
}

impl Negotiate {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (header, descriptors) = bytes.split_at_checked(8).ok_or(malformed("an offer is cut off"))?;
        let count = usize::from(header[7]);
        let descriptors =
            descriptors.get(..count * DESCRIPTOR_BYTES).ok_or(malformed("an offer is cut off"))?;
        let found = descriptors.chunks_exact(DESCRIPTOR_BYTES).find(|descriptor| descriptor[0] == CHAP);
        let (mut hashes, mut groups) = (Vec::new(), Vec::new());
        if let Some(descriptor) = found {
            let (hash_count, group_count) = (usize::from(descriptor[2]), usize::from(descriptor[3]));
            if hash_count > LIST_BYTES || group_count > LIST_BYTES {
                return Err(malformed("an offer has more entries than its lists"));
            }
            hashes.extend(&descriptor[4..][..hash_count]);
            groups.extend(&descriptor[4 + LIST_BYTES..][..group_count]);
        }
        Ok(Self { concatenation: header[6], hashes, groups })
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend([self.concatenation, 1]);
        let (hashes, groups) = (cut(&self.hashes), cut(&self.groups));
        bytes.extend([CHAP, 0, hashes.len() as u8, groups.len() as u8]);
        for list in [hashes, groups] {
            let end = bytes.len() + LIST_BYTES;
            bytes.extend(list);
            bytes.resize(end, 0);
        }
    }
}

fn cut(list: &[u8]) -> &[u8] {
    &list[..list.len().min(LIST_BYTES)]
}

impl Challenge {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (length, [hash, group], exchange, sequence) = decode_common(bytes, 1)?;
        let challenge = value(bytes, HEADER_BYTES, length)?;
        Ok(Self { hash, group, sequence, challenge, exchange })
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend([self.challenge.len() as u8, 0, self.hash, self.group]);
        bytes.extend((self.exchange.len() as u16).to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(&self.challenge);
        bytes.extend(&self.exchange);
    }
}

impl Reply {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (length, [flags, _], exchange, sequence) = decode_common(bytes, 2)?;
        let response = value(bytes, HEADER_BYTES, length)?;
        let challenge = value(bytes, HEADER_BYTES + usize::from(length), length)?;
        Ok(Self { response, challenge: (flags & 1 == 1).then_some(challenge), sequence, exchange })
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let length = self.response.len();
        bytes.extend([length as u8, 0, u8::from(self.challenge.is_some()), 0]);
        bytes.extend((self.exchange.len() as u16).to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(&self.response);
        bytes.extend(self.challenge.iter().flatten());
        bytes.resize(HEADER_BYTES + 2 * length, 0);
        bytes.extend(&self.exchange);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn all() -> Vec<Message> {
        let challenge = Challenge {
            hash: 2,
            group: 1,
            sequence: 0x0102_0304,
            challenge: vec![7; 48],
            exchange: vec![9; 256],
        };
        let reply =
            Reply { response: vec![5; 64], challenge: Some(vec![6; 64]), sequence: 8, exchange: vec![3; 65] };
        let one_way = Reply { challenge: None, exchange: Vec::new(), ..reply.clone() };
        let negotiate = Negotiate { concatenation: 0, hashes: vec![1, 2, 3], groups: vec![0, 1, 0x31] };
        [
            Body::Negotiate(negotiate),
            Body::Challenge(challenge),
            Body::Reply(reply),
            Body::Reply(one_way),
            Body::Success1 { length: 32, response: None },
            Body::Success1 { length: 32, response: Some(vec![1; 32]) },
            Body::Success2,
            Body::Failure1(Failure::HASH),
            Body::Failure2(Failure::FAILED),
        ]
        .into_iter()
        .map(|body| Message { transaction: 0x1234, body })
        .collect()
    }

    #[test]
    fn every_message_is_read_as_it_was_written_and_cut_ones_are_refused() {
        for message in all() {
            let mut bytes = message.encode();
            assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            assert_eq!(Message::decode(&bytes), Ok(message.clone()));
            let whole = bytes.len();
            bytes.resize(4096, 0xff);
            assert_eq!(Message::decode(&bytes), Ok(message.clone()), "with something behind it");
            for length in 0..whole {
                // Success2 has nothing behind its number, and Success1 perhaps nothing that is looked at.
                let cut = Message::decode(&bytes[..length]);
                assert!(cut.is_err() || cut == Ok(message.clone()), "{message:?} cut to {length}");
            }
        }
    }

    /// First message of Linux 6.12, by its structures: three hashes and six groups.
    #[test]
    fn the_offer_of_linux_is_read() {
        let mut bytes = vec![0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 3, 6, 1, 2, 3];
        bytes.resize(8 + 34, 0);
        bytes.extend([0, 1, 2, 3, 4, 5]);
        bytes.resize(72, 0);
        let negotiate = Negotiate { concatenation: 0, hashes: vec![1, 2, 3], groups: vec![0, 1, 2, 3, 4, 5] };
        let message = Message { transaction: 1, body: Body::Negotiate(negotiate) };
        assert_eq!(Message::decode(&bytes), Ok(message.clone()));
        assert_eq!(message.encode(), bytes);
    }

    #[test]
    fn lists_that_are_longer_than_their_room_are_refused() {
        let mut bytes = all()[0].encode();
        for at in [10, 11] {
            let kept = core::mem::replace(&mut bytes[at], 31);
            assert_eq!(Message::decode(&bytes).map_err(|error| error.reason), Err(Failure::PAYLOAD));
            bytes[at] = kept;
        }
        bytes[7] = 2;
        assert!(Message::decode(&bytes).is_err(), "the second descriptor is missing");
        assert_eq!(Message::decode(&[1, 9, 0, 0, 0, 0]).map_err(|error| error.reason), Err(Failure::MESSAGE));
    }

    #[test]
    fn the_commands_are_read_as_they_were_written() {
        let transfer = Transfer { length: 4096 };
        for entry in [transfer.encode_send(), transfer.encode_receive()] {
            assert_eq!(Transfer::decode(&entry), Ok(transfer));
            let mut other = entry;
            other.cdw10 = U32::new(entry.cdw10.get() ^ 1 << 24);
            assert!(Transfer::decode(&other).is_err(), "another security protocol");
        }
        assert_eq!(transfer.encode_send().cdw10.get(), 0xe901_0100);
    }
}
