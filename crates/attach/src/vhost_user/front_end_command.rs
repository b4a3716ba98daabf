//! Commands to the thread of a front end's socket while it serves.

use std::sync::Arc;

use engine::ring::channel::{Receiver, Sender, channel};

use super::handed_front_end::HandedSocket;
use super::machine::Wake;
use crate::hand_over_error::HandOverError;
use crate::machine::Descriptor;

/// State that a socket's thread hands over, with the descriptors.
pub(super) type HandedWithFds = (HandedSocket, Vec<Descriptor>);

/// Command to the thread of a socket.
pub(super) enum FrontEndCommand {
    /// Hear nothing, end what the guest has asked for, and say how the front end is then.
    Freeze(Sender<Result<HandedWithFds, HandOverError>>),
    /// Serve the state that another process has left, after `Thaw`. Reports the reason
    /// if that is impossible.
    Adopt(Box<HandedWithFds>, Sender<Option<String>>),
    /// Go on. Where another process may have heard the front end meanwhile (`true`), its connection is closed.
    Thaw(bool),
    /// End without a word to the front end: another process hears it.
    Leave,
}

/// End of a quiescence.
pub(super) enum QuiesceEnd {
    /// The thread resumes, or its front end cannot be resumed.
    GoesOn(vhost::vhost_user::Result<()>),
    /// The thread resumes without its front end, which another process may have heard.
    Disowned,
    /// Another process serves.
    Leaves,
}

/// Handle of the thread, for other threads.
#[derive(Clone)]
pub(super) struct FrontEndThreadHandle {
    commands: Sender<FrontEndCommand>,
    wake: Arc<Wake>,
}

impl FrontEndThreadHandle {
    /// Handle, receiver of its commands, and a descriptor that is signalled when there are some.
    pub(super) fn new() -> std::io::Result<(Self, Receiver<FrontEndCommand>, Arc<Wake>)> {
        let (commands, ordered) = channel();
        let wake = Arc::new(Wake::new()?);
        Ok((Self { commands, wake: wake.clone() }, ordered, wake))
    }

    /// Sends a command. A thread that has ended receives none.
    pub(super) fn send(&self, command: FrontEndCommand) {
        let _ = self.commands.send(command);
        self.wake.signal();
    }
}
