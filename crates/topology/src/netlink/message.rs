//! Messages and attributes of netlink as bytes, in the machine's own order of bytes (netlink(7)).

use std::io;

use rustix::io::Errno;

/// Bytes of a message's header.
pub(crate) const HEADER_LENGTH: usize = 16;
/// Bytes of an attribute's header.
const ATTRIBUTE_HEADER_LENGTH: usize = 4;
/// Messages and attributes begin at multiples of it.
const ALIGNMENT: usize = 4;
/// The bits of an attribute's type that are none of its number: nested, network byte order.
const TYPE_FLAGS: u16 = 0xc000;
/// The bit that says that an attribute has attributes.
const NESTED: u16 = 0x8000;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// Type (`nlmsg_type`).
    pub(crate) kind: u16,
    /// Flags (`NLM_F_`).
    pub(crate) flags: u16,
    /// Number of the question it answers.
    pub(crate) sequence: u32,
    /// Bytes after the header.
    pub(crate) payload: &'a [u8],
}

/// Messages one after the other, as one receive call returns them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = io::Result<Message<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let found = (|| {
            let length = u32_at(self.0, 0)? as usize;
            let whole = self.0.get(..length).filter(|_| length >= HEADER_LENGTH)?;
            let (kind, flags, sequence) = (u16_at(whole, 4)?, u16_at(whole, 6)?, u32_at(whole, 8)?);
            let next = self.0.get(aligned(length)..).unwrap_or_default();
            Some((Message { kind, flags, sequence, payload: &whole[HEADER_LENGTH..] }, next))
        })();
        match found {
            Some((message, next)) => {
                self.0 = next;
                Some(Ok(message))
            }
            None => {
                self.0 = &[];
                Some(Err(malformed()))
            }
        }
    }
}

/// Attributes one after the other: number and value of each. They end at the first that is not complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let number = u16_at(self.0, 2)? & !TYPE_FLAGS;
        let value = self.0.get(ATTRIBUTE_HEADER_LENGTH..length)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some((number, value))
    }
}

impl<'a> Attributes<'a> {
    /// The value of the first attribute with this number.
    pub(crate) fn value(mut self, number: u16) -> Option<&'a [u8]> {
        self.find(|(found, _)| *found == number).map(|(_, value)| value)
    }

    /// The same as a number of 32 bits; of one with 8 or 16 bits too.
    pub(crate) fn number(self, number: u16) -> Option<u32> {
        let value = self.value(number)?;
        match value.len() {
            1 => Some(u32::from(value[0])),
            2 => u16_at(value, 0).map(u32::from),
            _ => u32_at(value, 0),
        }
    }

    /// The same as attributes.
    pub(crate) fn nested(self, number: u16) -> Option<Attributes<'a>> {
        self.value(number).map(Attributes)
    }

    /// The same as a text, up to its end or the first zero.
    pub(crate) fn text(self, number: u16) -> Option<String> {
        let value = self.value(number)?;
        let length = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        Some(String::from_utf8_lossy(&value[..length]).into_owned())
    }
}

/// Writes attributes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// With what comes before the attributes, of whole multiples of four bytes.
    pub(crate) fn new(fixed: &[u8]) -> Self {
        debug_assert!(fixed.len().is_multiple_of(ALIGNMENT), "attributes begin at multiples of {ALIGNMENT}");
        Self { bytes: fixed.to_vec() }
    }

    /// Adds an attribute. A value of more than 65,531 bytes has no place in one, and is none that we send.
    pub(crate) fn value(mut self, number: u16, value: &[u8]) -> Self {
        let length = u16::try_from(ATTRIBUTE_HEADER_LENGTH + value.len()).expect("values we send are short");
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(number.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(aligned(self.bytes.len()), 0);
        self
    }

    /// Adds a number of 32 bits.
    pub(crate) fn number(self, number: u16, value: u32) -> Self {
        self.value(number, &value.to_ne_bytes())
    }

    /// Adds a text, with a zero behind it.
    pub(crate) fn text(self, number: u16, text: &str) -> Self {
        self.value(number, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute with attributes.
    pub(crate) fn nested(self, number: u16, inner: &Writer) -> Self {
        self.value(number | NESTED, &inner.bytes)
    }

    /// Returns the message.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// A message with its header.
pub(super) fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER_LENGTH + payload.len()).expect("questions we ask are short");
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The kernel fills in whose it is.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

/// A length as far as the next multiple of four.
pub(super) fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

/// Two bytes at a place, where there are two.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// Four bytes at a place, where there are four.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Eight bytes at a place, where there are eight.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The error for an answer with lengths that do not fit.
pub(crate) fn malformed() -> io::Error {
    Errno::BADMSG.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn random_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for message in Messages(&bytes).flatten() {
                prop_assert!(Attributes(message.payload).count() <= bytes.len());
            }
            let mut attributes = 0;
            for (number, value) in Attributes(&bytes) {
                prop_assert!(value.len() <= bytes.len());
                prop_assert_eq!(number & TYPE_FLAGS, 0);
                attributes += 1;
            }
            // Every attribute takes four bytes at least, so that the end comes.
            prop_assert!(attributes <= bytes.len() / ATTRIBUTE_HEADER_LENGTH + 1);
        }

        #[test]
        fn what_is_written_is_read_again(
            kind in any::<u16>(),
            sequence in any::<u32>(),
            values in proptest::collection::vec(
                (0_u16..0x4000, proptest::collection::vec(any::<u8>(), 0..40)), 0..8),
        ) {
            let mut writer = Writer::default();
            let mut inner = Writer::new(&[]);
            for (number, value) in &values {
                writer = writer.value(*number, value);
                inner = inner.value(*number, value);
            }
            let flat: Vec<(u16, Vec<u8>)> =
                Attributes(&writer.clone().finish()).map(|(number, value)| (number, value.to_vec())).collect();
            prop_assert_eq!(&flat, &values);
            let nested = Writer::new(&[]).nested(7, &inner).finish();
            let again: Vec<(u16, Vec<u8>)> = Attributes(&nested)
                .nested(7)
                .unwrap()
                .map(|(number, value)| (number, value.to_vec()))
                .collect();
            prop_assert_eq!(&again, &values);

            let first = message(kind, 5, sequence, &writer.finish());
            let mut two = first.clone();
            two.extend(&first);
            let read: Vec<Message<'_>> = Messages(&two).collect::<io::Result<_>>().unwrap();
            prop_assert_eq!(read.len(), 2);
            prop_assert_eq!(read[0], read[1]);
            prop_assert_eq!((read[0].kind, read[0].flags, read[0].sequence), (kind, 5, sequence));
            prop_assert_eq!(Attributes(read[0].payload).count(), values.len());
        }
    }

    #[test]
    fn a_message_longer_than_what_came_is_malformed() {
        let mut bytes = message(1, 0, 0, &[0; 4]);
        bytes[0] = 40;
        assert!(Messages(&bytes).next().unwrap().is_err());
        bytes[0] = 15;
        let mut messages = Messages(&bytes);
        assert!(messages.next().unwrap().is_err(), "shorter than its header");
        assert!(messages.next().is_none());
    }

    #[test]
    fn texts_end_at_their_zero() {
        let bytes = Writer::new(&[]).text(3, "eth0").number(4, 9).finish();
        assert_eq!(Attributes(&bytes).text(3).unwrap(), "eth0");
        assert_eq!(Attributes(&bytes).number(4), Some(9));
        assert_eq!(Attributes(&bytes).number(5), None);
    }
}
