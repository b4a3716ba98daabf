//! The channel on which a front end hears from its back end (vhost-user's back-end channel): here, that the configuration space
//! has changed. The crate that hears front ends keeps the descriptor of it and has no such message, so that both are done here.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes};

/// VHOST_USER_SET_BACKEND_REQ_FD, with which the channel comes.
const SET_CHANNEL: u32 = 21;
/// VHOST_USER_BACKEND_CONFIG_CHANGE_MSG.
const CONFIG_CHANGE: u32 = 2;
/// The version of the protocol, and that no acknowledgement is asked for.
const FLAGS: u32 = 1;

/// Header of each message, in the machine's own order of bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Header {
    request: u32,
    flags: u32,
    length: u32,
}

/// A channel to a front end.
#[derive(Debug)]
pub(super) struct BackendChannel {
    socket: OwnedFd,
}

impl BackendChannel {
    /// The one that a front end's next message brings, if it brings one. The message stays where it is, to be heard.
    pub(super) fn coming(connection: impl AsFd) -> Option<Self> {
        let mut header = Header::new_zeroed();
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        // The reader of the message reports the fault.
        let (length, _) = recv(&connection, header.as_mut_bytes(), flags).ok()?;
        // One that comes in parts is as good as one without a channel.
        if length < size_of::<Header>() || header.request != SET_CHANNEL {
            return None;
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut descriptors = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        recvmsg(&connection, &mut [IoSliceMut::new(header.as_mut_bytes())], &mut descriptors, flags).ok()?;
        let sockets = descriptors.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        sockets.flatten().next().map(|socket| Self { socket })
    }

    /// The one that another process had.
    pub(super) const fn going_on(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Socket of the channel, for another process.
    pub(super) fn handed(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Says that the configuration space has changed. It does not wait for a front end that does not listen; whether it could be said.
    pub(super) fn say_config_changed(&self) -> io::Result<bool> {
        let header = Header { request: CONFIG_CHANGE, flags: FLAGS, length: 0 };
        match send(&self.socket, header.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(length) => Ok(length == size_of::<Header>()),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};

    use super::*;

    fn message(request: u32) -> Vec<u8> {
        Header { request, flags: FLAGS, length: 0 }.as_bytes().to_vec()
    }

    #[test]
    fn a_channel_is_taken_out_of_a_message_that_stays() {
        let (front, back) = UnixStream::pair().unwrap();
        let (theirs, ours) = UnixStream::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut descriptors = SendAncillaryBuffer::new(&mut space);
        let rights = [ours.as_fd()];
        assert!(descriptors.push(SendAncillaryMessage::ScmRights(&rights)));
        let bytes = message(SET_CHANNEL);
        sendmsg(&front, &[IoSlice::new(&bytes)], &mut descriptors, SendFlags::empty()).unwrap();
        drop(ours);
        let channel = BackendChannel::coming(&back).expect("a channel");
        let mut heard = [0; 12];
        (&back).read_exact(&mut heard).unwrap();
        assert_eq!(heard[..], bytes[..], "the message is there as well");
        assert!(channel.say_config_changed().unwrap());
        (&theirs).read_exact(&mut heard).unwrap();
        assert_eq!(heard[..], message(CONFIG_CHANGE)[..]);
        // A full channel is not waited for, and a closed one is ignored.
        while channel.say_config_changed().unwrap() {}
        drop(theirs);
        assert!(channel.say_config_changed().is_err());
    }

    #[test]
    fn messages_of_other_kinds_bring_none() {
        let (mut front, back) = UnixStream::pair().unwrap();
        assert!(BackendChannel::coming(&back).is_none(), "nothing has come");
        // In parts, of another kind, and without a descriptor.
        for bytes in [vec![SET_CHANNEL as u8], message(1), message(SET_CHANNEL)] {
            front.write_all(&bytes).unwrap();
            assert!(BackendChannel::coming(&back).is_none(), "{bytes:?}");
            (&back).read_exact(&mut vec![0; bytes.len()]).unwrap();
        }
        drop(front);
        assert!(BackendChannel::coming(&back).is_none(), "its end is heard by others");
    }
}
