//! The connection between the two processes of an upgrade: a Unix socket, which carries messages
//! and descriptors.

use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use engine::hand_over::{self, Protocol, Word};
use engine::ring::Socket;
use engine::target::hand_over::SocketChannel;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// Descriptors of one message; the kernel takes 253.
const AT_ONCE: usize = 200;

/// End of the connection.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
}

impl Channel {
    /// Connects to the process that listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self::new(UnixStream::connect(path)?))
    }

    pub const fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// Sets the time to wait for a message; `None` waits as long as the other end lives.
    pub fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(time)?;
        self.stream.set_write_timeout(time)
    }

    /// Sends a message, with these descriptors.
    pub fn say<P: Protocol>(&self, word: &Word<P>, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = hand_over::encode(word, descriptors.len())?;
        (&self.stream).write_all(&bytes)?;
        for some in descriptors.chunks(AT_ONCE) {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(some)) {
                return Err(io::Error::other("too many descriptors at once"));
            }
            rustix::net::sendmsg(&self.stream, &[IoSlice::new(b"+")], &mut ancillary, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// The next word.
    ///
    /// # Errors
    /// Those of the socket; `InvalidData` for anything but a word, and for one of another format.
    pub fn hear<P: Protocol>(&self) -> io::Result<(Word<P>, Vec<OwnedFd>)> {
        let (word, descriptors) = hand_over::decode(&self.stream)?;
        let mut received = Vec::new();
        while received.len() < descriptors {
            self.receive_some(&mut received)?;
        }
        Ok((word, received))
    }

    fn receive_some(&self, received: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message =
            rustix::net::recvmsg(&self.stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
        let before = received.len();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                received.extend(descriptors);
            }
        }
        if message.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if received.len() == before {
            return Err(invalid("descriptors are missing"));
        }
        Ok(())
    }
}

impl<P: Protocol> hand_over::Channel<P> for Channel
where
    P::Descriptor: AsFd,
{
    type Descriptor = OwnedFd;

    fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        Self::wait_at_most(self, time)
    }

    fn say(&self, word: &Word<P>, descriptors: &[P::Descriptor]) -> io::Result<()> {
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        Self::say(self, word, &descriptors)
    }

    fn hear(&self) -> io::Result<(Word<P>, Vec<OwnedFd>)> {
        Self::hear(self)
    }
}

impl SocketChannel for Channel {
    fn socket(descriptor: OwnedFd) -> io::Result<Socket> {
        Socket::new(descriptor)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use engine::target::hand_over::{TargetProtocol, Word};

    use super::*;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one), Channel::new(other))
    }

    #[test]
    fn words_come_with_more_descriptors_than_one_message_takes() {
        let (one, other) = pair();
        let file = File::open("/dev/null").unwrap();
        let many = vec![file.as_fd(); 450];
        let sender = std::thread::spawn(move || {
            let (word, received) = other.hear::<TargetProtocol>().unwrap();
            assert!(matches!(word, Word::Ready));
            received.len()
        });
        one.say(&Word::Ready, &many).unwrap();
        assert_eq!(sender.join().unwrap(), 450);
    }

    #[test]
    fn what_is_damaged_cut_short_or_of_another_format_is_refused() {
        let written = |change: &dyn Fn(&mut Vec<u8>)| {
            let (mut one, other) = UnixStream::pair().unwrap();
            let channel = Channel::new(other);
            let (writer, reader) = pair();
            writer.say(&Word::Refused(vec!["a reason".to_owned()]), &[]).unwrap();
            drop(writer);
            let mut bytes = Vec::new();
            (&reader.stream).read_to_end(&mut bytes).unwrap();
            change(&mut bytes);
            one.write_all(&bytes).unwrap();
            drop(one);
            channel.hear::<TargetProtocol>().map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(written(&|_| ()), Ok(()));
        assert!(written(&|bytes| bytes[0] = b'x').unwrap_err().contains("not a hand-over"));
        assert!(written(&|bytes| bytes[8] = 9).unwrap_err().contains("format 9"));
        assert!(written(&|bytes| *bytes.last_mut().unwrap() ^= 1).unwrap_err().contains("damaged"));
        assert!(written(&|bytes| bytes[19] = 255).unwrap_err().contains("longer"));
        for length in [3, 20, 30] {
            assert!(written(&|bytes| bytes.truncate(length)).is_err());
        }
        assert!(written(&|bytes| bytes[20] = 1).is_err(), "a descriptor that does not come");
        let byte_alone = |bytes: &mut Vec<u8>| {
            bytes[20] = 1;
            bytes.push(b'+');
        };
        assert!(written(&byte_alone).unwrap_err().contains("missing"));
    }
}
