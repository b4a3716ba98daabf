//! Sending: what a connection has queued becomes one vectored send, of bytes wherever they are. Bytes of memory namespaces
//! go to the socket from where they are, and nobody writes them meanwhile; what is queued, and when it is sent, is decided
//! elsewhere.

use std::io;

use nvme::tcp::Part;

use super::connection::{Connection, Environment, Payload, Session};
use crate::backend::{Backend, Memory};
use crate::limits::{BUFFER_LENGTH_MAX, BUFFER_LENGTH_MIN, SEND_PARTS_MAX};
use crate::ring::{Buffer, Span};

/// Zeroes to send for namespaces that hold nothing.
static ZEROES: [u8; BUFFER_LENGTH_MAX] = [0; BUFFER_LENGTH_MAX];

/// Bytes of a page, whose beginning has left.
const PAGE: u64 = BUFFER_LENGTH_MIN as u64;
/// What memory is copied in.
const WORD: u64 = size_of::<u64>() as u64;

/// The rest of a page of a memory namespace whose beginning has left: it stays as it was then, while the page may be written.
#[derive(Debug)]
pub(super) struct Remainder {
    page: Buffer,
    /// Where in the page the rest begins.
    at: usize,
}

impl Remainder {
    fn bytes(&self) -> &[u8] {
        &self.page[self.at..]
    }
}

/// Bytes of a memory namespace in the send list that are not of the remainder.
struct Piece<'a> {
    memory: &'a Memory,
    offset: u64,
    length: usize,
}

impl Connection {
    /// One send call: the bytes that left, and those it was asked to send. It ends before a page that is being written.
    pub(super) fn send_once(&mut self, env: &mut Environment<'_>) -> io::Result<(usize, usize)> {
        let insists = self.contention.insists(env.now);
        let mut spans = [Span::EMPTY; SEND_PARTS_MAX];
        let (mut count, mut wanted, mut is_cut, mut in_memory) = (0, 0, false, false);
        // One place is the remainder's.
        for (at, part) in self.transmitter.parts().take(SEND_PARTS_MAX - 1).enumerate() {
            let mut rest = &[][..];
            let span = match part {
                Part::Bytes(bytes) => Span::new(bytes),
                Part::Payload { payload: Payload::Slot(index), start, end } => {
                    Span::new(&self.slots.data(index)[start..end])
                }
                Part::Payload { payload: Payload::Zeroes, start, end } => Span::new(&ZEROES[start..end]),
                Part::Payload { payload: Payload::Memory { nsid, view, offset }, start, end } => {
                    rest = self.rest_before(at);
                    let piece = piece(&self.session, (nsid, view), offset, start + rest.len()..end);
                    let held = piece.memory.hold(piece.offset, piece.length, insists);
                    in_memory |= held > 0;
                    is_cut = held < piece.length;
                    piece.memory.span(piece.offset, held)
                }
            };
            for span in [Span::new(rest), span] {
                if !span.is_empty() {
                    spans[count] = span;
                    count += 1;
                    wanted += span.len();
                }
            }
            if is_cut {
                break;
            }
        }
        let sent = match count {
            0 => Ok(0),
            _ => self.socket.send(&spans[..count]),
        };
        let sent = match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        };
        // A socket that takes no more tells when it does, and there is nothing to try again before.
        self.contention.cuts = is_cut && sent.as_ref().is_ok_and(|sent| *sent == wanted);
        if in_memory || self.remainder.is_some() {
            self.let_go(wanted, *sent.as_ref().unwrap_or(&0), env);
        }
        sent.map(|sent| (sent, wanted))
    }

    /// Gives the pages back that were held for a send of `wanted` bytes, of which `sent` have left. Of a page that has left in
    /// part, the rest is kept as it is.
    fn let_go(&mut self, wanted: usize, sent: usize, env: &mut Environment<'_>) {
        let (mut begin, mut kept) = (0, None);
        for (at, part) in self.transmitter.parts().enumerate() {
            if begin >= wanted {
                break;
            }
            let Part::Payload { payload: Payload::Memory { nsid, view, offset }, start, end } = part else {
                begin += match part {
                    Part::Bytes(bytes) => bytes.len(),
                    Part::Payload { start, end, .. } => end - start,
                };
                continue;
            };
            begin += self.rest_before(at).len();
            let piece = piece(&self.session, (nsid, view), offset, start + self.rest_before(at).len()..end);
            let held = piece.length.min(wanted - begin);
            let left = piece.offset + sent.saturating_sub(begin).min(held) as u64;
            if left > piece.offset && left < piece.offset + held as u64 && !left.is_multiple_of(PAGE) {
                let end = (left - left % PAGE + PAGE).min(piece.offset + held as u64);
                let from = left - left % WORD;
                let mut page = env.pool.take((end - from) as usize);
                piece.memory.read_held(from, &mut page);
                kept = Some(Remainder { page, at: (left - from) as usize });
            }
            piece.memory.release(piece.offset, held);
            begin += held;
        }
        match &mut self.remainder {
            // It has not all left: nothing behind it has.
            Some(remainder) if sent < remainder.bytes().len() => remainder.at += sent,
            remainder => {
                if let Some(former) = std::mem::replace(remainder, kept) {
                    env.pool.give(former.page);
                }
            }
        }
    }

    /// What of the first part in the send list was kept when its beginning left.
    fn rest_before(&self, part: usize) -> &[u8] {
        match &self.remainder {
            Some(remainder) if part == 0 => remainder.bytes(),
            _ => &[],
        }
    }
}

/// Bytes of a memory namespace that a queued payload names.
fn piece(
    session: &Session,
    (nsid, view): (u32, u32),
    offset: u64,
    range: std::ops::Range<usize>,
) -> Piece<'_> {
    if let Session::Io { views, .. } = session
        && let Some(namespace) = views.numbered(view).and_then(|view| view.get(nsid))
        && let Backend::Memory(memory) = &*namespace.backend
    {
        return Piece { memory, offset: offset + range.start as u64, length: range.len() };
    }
    unreachable!("a payload in memory is queued only for a memory namespace of this session");
}
