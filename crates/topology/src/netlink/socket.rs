//! A netlink socket: one question at a time, and all messages of its answer, bounded in time and size.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::message::{Attributes, HEADER_LENGTH, Messages, aligned, message, u32_at};
use crate::ethtool_ioctl;
use crate::limits::{NETLINK_BYTES_MAX, NETLINK_TIMEOUT_MS};

/// Flags of a message (`NLM_F_`): a question.
const REQUEST: u16 = 0x01;
/// Tell how it ended.
const ACKNOWLEDGE: u16 = 0x04;
/// The dump is inconsistent, since its subject changed meanwhile.
const DUMP_INTERRUPTED: u16 = 0x10;
/// All there is.
const DUMP: u16 = 0x300;
/// Of an error: the question is not repeated in it.
const CAPPED: u16 = 0x100;
/// Of an error: attributes follow.
const HAS_ATTRIBUTES: u16 = 0x200;

/// Kinds of messages that every protocol has (`NLMSG_`).
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Smaller numbers are netlink's own.
const KIND_MIN: u16 = 0x10;
/// The attribute of an error with the kernel's words.
const ERROR_WORDS: u16 = 1;

/// Attempts at a dump that is interrupted.
const DUMP_ATTEMPTS: usize = 5;

/// A connection with one protocol of netlink.
#[derive(Debug)]
pub(crate) struct NetlinkSocket {
    socket: OwnedFd,
    sequence: u32,
}

/// A message of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Type of the message.
    pub(crate) kind: u16,
    /// Bytes after its header.
    pub(crate) payload: Vec<u8>,
}

/// Progress of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    is_complete: bool,
    is_interrupted: bool,
}

impl NetlinkSocket {
    /// `protocol` is none for that of routes.
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(NETLINK_TIMEOUT_MS)))?;
        set_socket_timeout(&socket, Timeout::Send, Some(Duration::from_millis(NETLINK_TIMEOUT_MS)))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        // Kernels before 4.12 do not know it, and then say the number of an error only.
        let _ = ethtool_ioctl::ask_for_words(&socket);
        Ok(Self { socket, sequence: 0 })
    }

    /// Asks one question, or has something done.
    ///
    /// # Errors
    /// What the kernel says, in its words where it has some.
    pub(crate) fn ask(&mut self, kind: u16, payload: &[u8]) -> io::Result<Vec<Answer>> {
        Ok(self.exchange(kind, ACKNOWLEDGE, payload)?.0)
    }

    /// Asks for all there is, again where it changed meanwhile.
    ///
    /// # Errors
    /// What the kernel says; `EAGAIN` where it changed every time.
    pub(crate) fn dump(&mut self, kind: u16, payload: &[u8]) -> io::Result<Vec<Answer>> {
        for _ in 0..DUMP_ATTEMPTS {
            let (answers, is_interrupted) = self.exchange(kind, DUMP, payload)?;
            if !is_interrupted {
                return Ok(answers);
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Sends one question and reads all of its answer. The flag is set if the subject changed
    /// meanwhile.
    fn exchange(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<(Vec<Answer>, bool)> {
        self.sequence += 1;
        let question = message(kind, REQUEST | flags, self.sequence, payload);
        rustix::net::send(&self.socket, &question, SendFlags::empty())?;
        let deadline = Instant::now() + Duration::from_millis(NETLINK_TIMEOUT_MS);
        let (mut answers, mut bytes, mut is_interrupted) = (Vec::new(), 0, false);
        loop {
            if Instant::now() > deadline {
                return Err(Errno::TIMEDOUT.into());
            }
            let received = self.receive()?;
            bytes += received.len();
            if bytes > NETLINK_BYTES_MAX {
                return Err(Errno::MSGSIZE.into());
            }
            let progress = take(&received, self.sequence, &mut answers)?;
            is_interrupted |= progress.is_interrupted;
            if progress.is_complete {
                return Ok((answers, is_interrupted));
            }
        }
    }

    /// Reads the messages of one call, whole.
    fn receive(&self) -> io::Result<Vec<u8>> {
        // The first call tells the length and leaves the message.
        let peek = RecvFlags::PEEK | RecvFlags::TRUNC;
        let (_, length) = retried(|| rustix::net::recv(&self.socket, &mut [0_u8; 0][..], peek))?;
        if length > NETLINK_BYTES_MAX {
            return Err(Errno::MSGSIZE.into());
        }
        let mut bytes = vec![0; length.max(HEADER_LENGTH)];
        let (_, received, sender) =
            retried(|| rustix::net::recvfrom(&self.socket, &mut bytes[..], RecvFlags::empty()))?;
        let sender = sender.map(SocketAddrNetlink::try_from);
        // The kernel's port is 0. A message from another process is not a response.
        let is_kernels = matches!(sender, Some(Ok(sender)) if sender.pid() == 0);
        bytes.truncate(if is_kernels { received } else { 0 });
        Ok(bytes)
    }
}

/// Does it again when a signal came.
fn retried<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(Errno::TIMEDOUT.into()),
            done => return Ok(done?),
        }
    }
}

/// Takes what belongs to the answer out of what was received.
fn take(received: &[u8], sequence: u32, answers: &mut Vec<Answer>) -> io::Result<Progress> {
    let mut progress = Progress::default();
    for message in Messages(received) {
        let message = message?;
        if message.sequence != sequence {
            continue;
        }
        progress.is_interrupted |= message.flags & DUMP_INTERRUPTED != 0;
        match message.kind {
            ERROR | DONE => {
                refusal(message.flags, message.payload)?;
                progress.is_complete = true;
                return Ok(progress);
            }
            kind if kind >= KIND_MIN => answers.push(Answer { kind, payload: message.payload.to_vec() }),
            _ => {}
        }
    }
    Ok(progress)
}

/// The error that a message of an error or of the end has in it, if any.
fn refusal(flags: u16, payload: &[u8]) -> io::Result<()> {
    let Some(number) = u32_at(payload, 0) else { return Ok(()) };
    let errno = i32::from_ne_bytes(number.to_ne_bytes()).wrapping_neg();
    if errno == 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(errno);
    // Behind the number comes the question, its header alone where it is capped, and then the words.
    let question = u32_at(payload, 4).map_or(0, |length| length as usize);
    let skipped = if flags & CAPPED != 0 { HEADER_LENGTH } else { aligned(question.min(NETLINK_BYTES_MAX)) };
    let words = payload.get(4 + skipped..).filter(|_| flags & HAS_ATTRIBUTES != 0);
    match words.and_then(|words| Attributes(words).text(ERROR_WORDS)) {
        Some(words) => Err(io::Error::new(error.kind(), KernelWords { words, errno })),
        None => Err(error),
    }
}

/// An error of the kernel with its own words.
#[derive(Debug, thiserror::Error)]
#[error("{words}: {}", io::Error::from_raw_os_error(*errno))]
pub(crate) struct KernelWords {
    words: String,
    /// Error number.
    pub(crate) errno: i32,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::Writer;
    use super::*;

    fn error_message(errno: i32, flags: u16, rest: &[u8]) -> Vec<u8> {
        let mut payload = (-errno).to_ne_bytes().to_vec();
        payload.extend(rest);
        message(ERROR, flags, 7, &payload)
    }

    #[test]
    fn the_kernels_words_are_passed_on() {
        let question = message(20, REQUEST, 7, &[]);
        let words = Writer::new(&[]).text(ERROR_WORDS, "too few channels").finish();
        let bytes = error_message(22, CAPPED | HAS_ATTRIBUTES, &[question, words].concat());
        let error = take(&bytes, 7, &mut Vec::new()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().starts_with("too few channels: Invalid argument"), "{error}");
        let error = take(&error_message(1, 0, &[]), 7, &mut Vec::new()).err().unwrap();
        assert_eq!(error.raw_os_error(), Some(1));
    }

    #[test]
    fn an_answer_ends_with_its_own_acknowledgement_only() {
        let mut bytes = message(DONE, 0, 6, &[0; 4]);
        bytes.extend(message(20, 2, 7, &[1, 2, 3, 4]));
        let mut answers = Vec::new();
        assert_eq!(take(&bytes, 7, &mut answers).unwrap(), Progress::default());
        assert_eq!((answers.len(), answers[0].kind, answers[0].payload.len()), (1, 20, 4));
        assert!(take(&error_message(0, 0, &[]), 7, &mut answers).unwrap().is_complete);
    }

    #[test]
    fn a_dump_that_was_interrupted_says_so_at_its_end() {
        let done = message(DONE, DUMP_INTERRUPTED, 7, &[0; 4]);
        let progress = take(&done, 7, &mut Vec::new()).unwrap();
        assert_eq!(progress, Progress { is_complete: true, is_interrupted: true });
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = take(&bytes, 7, &mut Vec::new());
            let _ = refusal(HAS_ATTRIBUTES, &bytes);
            let _ = refusal(HAS_ATTRIBUTES | CAPPED, &bytes);
        }
    }
}
