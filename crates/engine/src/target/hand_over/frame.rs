//! Words as bytes: each with the version of its format, its length and a checksum. Who moves the bytes, and what is open and goes
//! with them, is not known here.

use std::io::{self, Read as _};

use nvme::tcp::digest::crc32c;

use super::words::{FORMAT, Word};

const MAGIC: [u8; 8] = *b"selvedge";
/// Magic, format, checksum, length and the number of descriptors.
const HEADER_BYTES: usize = 24;
/// Bytes of the longest word: a hundred thousand queues take about a fifth of it.
const WORD_BYTES_MAX: usize = 256 << 20;
/// Descriptors of one word: more than a process may have.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// A word as bytes, of which is said that this number of descriptors comes with it.
///
/// # Errors
/// When it is longer than any may be.
pub fn encode(word: &Word, descriptors: usize) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(word)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend(MAGIC);
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    for number in [FORMAT, crc32c(&body), length, descriptors as u32] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(body);
    Ok(bytes)
}

/// The next word of a stream, and how many descriptors come with it.
///
/// # Errors
/// Those of the stream; `InvalidData` for anything but a word, and for one of another format.
pub fn decode(mut stream: impl io::Read) -> io::Result<(Word, usize)> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let Header { checksum, length, descriptors } = Header::of(&header)?;
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body)?;
    Ok((word(&body, checksum, length)?, descriptors))
}

/// What stands before a word.
struct Header {
    checksum: u32,
    length: usize,
    descriptors: usize,
}

impl Header {
    fn of(bytes: &[u8; HEADER_BYTES]) -> io::Result<Self> {
        let number = |at: usize| {
            let mut number = [0; 4];
            number.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(number)
        };
        if bytes[..MAGIC.len()] != MAGIC {
            return Err(invalid("it is not a hand-over of selvedge"));
        }
        if number(8) != FORMAT {
            return Err(invalid(&format!("it is a hand-over of format {}, and this is {FORMAT}", number(8))));
        }
        let (length, descriptors) = (number(16) as usize, number(20) as usize);
        if length > WORD_BYTES_MAX || descriptors > DESCRIPTORS_MAX {
            return Err(invalid("it is longer than any hand-over"));
        }
        Ok(Self { checksum: number(12), length, descriptors })
    }
}

fn word(body: &[u8], checksum: u32, length: usize) -> io::Result<Word> {
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
