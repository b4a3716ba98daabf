//! Messages as bytes: each with the version of its format, its length and a checksum. The transport
//! of the bytes, and of descriptors beside them, is elsewhere.

use std::io::{self, Read as _};

use nvme::tcp::digest::crc32c;
use zeroize::Zeroizing;

use super::Protocol;
use super::words::Word;

/// Magic, format, checksum, length and the number of descriptors.
const HEADER_BYTES: usize = 24;
/// Bytes of the longest word: a hundred thousand queues take about a fifth of it.
const WORD_BYTES_MAX: usize = 256 << 20;
/// Descriptors of one word: more than a process may have.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// A word as bytes, of which is said that this number of descriptors comes with it. There are keys among it: it is wiped behind,
/// and written where it has room.
///
/// # Errors
/// When it is longer than any may be.
pub fn encode<P: Protocol>(word: &Word<P>, descriptors: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut length = Length(0);
    serde_json::to_writer(&mut length, word)?;
    let Length(length) = length;
    let mut bytes = Zeroizing::new(vec![0; HEADER_BYTES + length]);
    let (header, body) = bytes.split_at_mut(HEADER_BYTES);
    serde_json::to_writer(&mut &mut *body, word)?;
    let length = u32::try_from(length).map_err(io::Error::other)?;
    header[..P::MAGIC.len()].copy_from_slice(&P::MAGIC);
    let numbers = [P::FORMAT, crc32c(body), length, descriptors as u32];
    for (place, number) in header[P::MAGIC.len()..].chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    Ok(bytes)
}

/// Number of bytes written to it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The next word of a stream, and how many descriptors come with it.
///
/// # Errors
/// Those of the stream; `InvalidData` for anything but a word, and for one of another format.
pub fn decode<P: Protocol>(mut stream: impl io::Read) -> io::Result<(Word<P>, usize)> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let Header { checksum, length, descriptors } = Header::of::<P>(&header)?;
    // Room at once: no part of it is left in memory that was given back.
    let mut body = Zeroizing::new(Vec::new());
    body.try_reserve_exact(length).map_err(io::Error::other)?;
    stream.take(length as u64).read_to_end(&mut body)?;
    Ok((word(&body, checksum, length)?, descriptors))
}

/// Header of a message.
struct Header {
    checksum: u32,
    length: usize,
    descriptors: usize,
}

impl Header {
    fn of<P: Protocol>(bytes: &[u8; HEADER_BYTES]) -> io::Result<Self> {
        let number = |at: usize| {
            let mut number = [0; 4];
            number.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(number)
        };
        if bytes[..P::MAGIC.len()] != P::MAGIC {
            return Err(invalid("it is not a hand-over of selvedge"));
        }
        if number(8) != P::FORMAT {
            let (format, own) = (number(8), P::FORMAT);
            return Err(invalid(&format!("it is a hand-over of format {format}, and this is {own}")));
        }
        let (length, descriptors) = (number(16) as usize, number(20) as usize);
        if length > WORD_BYTES_MAX || descriptors > DESCRIPTORS_MAX {
            return Err(invalid("it is longer than any hand-over"));
        }
        Ok(Self { checksum: number(12), length, descriptors })
    }
}

fn word<P: Protocol>(body: &[u8], checksum: u32, length: usize) -> io::Result<Word<P>> {
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if crc32c(body) != checksum {
        return Err(invalid("the hand-over is damaged"));
    }
    serde_json::from_slice(body).map_err(|error| invalid(&format!("the hand-over cannot be read: {error}")))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}
