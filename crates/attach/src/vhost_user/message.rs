//! A front end's next message: it is read once all of it has come, and there is room for its reply, so that hearing a front end
//! never blocks. A part of it stays in the socket, where another process finds it after an upgrade.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionread;
use rustix::net::{RecvFlags, recv};

use crate::limits::MESSAGE_TIMEOUT_MS;

/// Bytes of a header, whose last four say how many follow.
const HEADER_BYTES: u64 = 12;
/// Bytes that may follow. A header that says more is refused by the reader, without waiting for them.
const BODY_BYTES_MAX: u32 = 4096;

/// Arrival of the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// No bytes have arrived.
    Nothing,
    /// Some has come, and more may; or its reply would have to wait.
    Part,
    /// All has come, or no more will.
    Whole,
}

/// Arrival of messages, one after the other.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Time at which a message began that is not whole.
    begun: Option<Instant>,
}

impl Message {
    /// Arrival at present.
    pub(super) fn arrival(&mut self, stream: &UnixStream) -> Arrival {
        // The reader reports the fault.
        let arrival = look(stream).unwrap_or(Arrival::Whole);
        match arrival {
            Arrival::Part => self.begun = self.begun.or_else(|| Some(Instant::now())),
            Arrival::Nothing | Arrival::Whole => self.begun = None,
        }
        arrival
    }

    /// True if the rest of a message has not come in time.
    pub(super) fn is_late(&self) -> bool {
        self.begun.is_some_and(|begun| begun.elapsed() >= Duration::from_millis(MESSAGE_TIMEOUT_MS))
    }
}

fn look(stream: &UnixStream) -> io::Result<Arrival> {
    let mut polled = [PollFd::new(stream, PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP)];
    let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&none))?;
    let events = polled[0].revents();
    let (has_ended, is_writable) = (
        events.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR),
        events.contains(PollFlags::OUT),
    );
    let bytes = ioctl_fionread(stream)?;
    if bytes == 0 {
        return Ok(if has_ended { Arrival::Whole } else { Arrival::Nothing });
    }
    let is_whole = bytes >= HEADER_BYTES && bytes >= message_bytes(stream)?;
    // A writable socket of a Unix stream has three quarters of its room left, far more than a reply needs.
    Ok(if has_ended || is_whole && is_writable { Arrival::Whole } else { Arrival::Part })
}

/// Bytes of the message whose header has come.
fn message_bytes(stream: &UnixStream) -> io::Result<u64> {
    let mut header = [0; HEADER_BYTES as usize];
    let (length, _) = recv(stream, &mut header, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    if length < header.len() {
        // Sent in pieces with descriptors, of which the kernel shows one at a time. No monitor does so, and the reader could wait
        // for the rest without end: it never becomes whole.
        return Ok(u64::MAX);
    }
    let [.., a, b, c, d] = header;
    let body_bytes = u32::from_ne_bytes([a, b, c, d]);
    Ok(HEADER_BYTES + u64::from(if body_bytes > BODY_BYTES_MAX { 0 } else { body_bytes }))
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    /// A message with this number of bytes after its header.
    fn message(body_bytes: u32, sent: usize) -> Vec<u8> {
        let header = [1, 1, body_bytes].into_iter().flat_map(u32::to_ne_bytes);
        header.chain(std::iter::repeat_n(0, sent)).collect()
    }

    fn arrivals(pieces: &[&[u8]]) -> Vec<Arrival> {
        let (mut front, back) = UnixStream::pair().unwrap();
        let mut next = Message::default();
        let arrive = |piece: &&[u8]| {
            front.write_all(piece).unwrap();
            next.arrival(&back)
        };
        pieces.iter().map(arrive).collect()
    }

    #[test]
    fn a_message_is_whole_with_its_last_byte() {
        use Arrival::{Nothing, Part, Whole};
        let eight = message(8, 8);
        assert_eq!(arrivals(&[&[], &eight]), [Nothing, Whole]);
        assert_eq!(
            arrivals(&[&eight[..4], &eight[4..12], &eight[12..19], &eight[19..]]),
            [Part, Part, Part, Whole]
        );
        assert_eq!(arrivals(&[&message(0, 0)]), [Whole]);
        assert_eq!(arrivals(&[&message(4096, 4095), &[0]]), [Part, Whole]);
        // The reader refuses those.
        assert_eq!(arrivals(&[&message(4097, 0)]), [Whole]);
        assert_eq!(arrivals(&[&message(u32::MAX, 0)]), [Whole]);
    }

    #[test]
    fn a_header_in_pieces_with_descriptors_is_never_whole() {
        let (mut front, back) = UnixStream::pair().unwrap();
        let sent = message(8, 0);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut descriptors = SendAncillaryBuffer::new(&mut space);
        let file = std::fs::File::open("/dev/null").unwrap();
        let own = [file.as_fd()];
        assert!(descriptors.push(SendAncillaryMessage::ScmRights(&own)));
        sendmsg(&front, &[IoSlice::new(&sent[..4])], &mut descriptors, SendFlags::empty()).unwrap();
        front.write_all(&sent[4..]).unwrap();
        let mut next = Message::default();
        assert_eq!(next.arrival(&back), Arrival::Part, "its reader would wait for eight more bytes");
        front.write_all(&[0; 8]).unwrap();
        assert_eq!(next.arrival(&back), Arrival::Part);
        drop(front);
        assert_eq!(next.arrival(&back), Arrival::Whole);
    }

    #[test]
    fn an_end_leaves_nothing_to_wait_for() {
        for sent in [0, 4, 12] {
            let (mut front, back) = UnixStream::pair().unwrap();
            front.write_all(&message(8, 0)[..sent]).unwrap();
            drop(front);
            assert_eq!(Message::default().arrival(&back), Arrival::Whole, "after {sent} bytes");
        }
    }

    #[test]
    fn a_front_end_that_reads_no_replies_has_to_wait() {
        let (front, mut back) = UnixStream::pair().unwrap();
        (&front).write_all(&message(0, 0)).unwrap();
        let mut next = Message::default();
        assert_eq!(next.arrival(&back), Arrival::Whole);
        back.set_nonblocking(true).unwrap();
        let mut replies = 0;
        while let Ok(count) = back.write(&[0; 12]) {
            replies += count;
        }
        assert_eq!(next.arrival(&back), Arrival::Part);
        assert!(next.begun.is_some());
        (&front).read_exact(&mut vec![0; replies]).unwrap();
        assert_eq!(next.arrival(&back), Arrival::Whole);
        assert!(next.begun.is_none());
    }
}
