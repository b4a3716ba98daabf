//! Channel between the two processes of an upgrade, and the life of the other process.

use std::io;
use std::time::Duration;

use super::words::Word;
use crate::ring::Socket;

/// The other of the two processes.
pub trait Process {
    /// True if the process has died, or dies within this time.
    fn has_died(&self, time: Duration) -> bool;
}

/// Either end of the connection between the two processes.
pub trait Channel {
    /// Something open that comes with a word.
    type Descriptor;

    /// Limits the time that a message is awaited; `None` waits as long as the other end lives.
    ///
    /// # Errors
    /// Those of the machine.
    fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()>;

    /// Says a word, with these sockets.
    ///
    /// # Errors
    /// When the other end is gone or does not listen, or the process gets no memory.
    fn say(&self, word: &Word, sockets: &[&Socket]) -> io::Result<()>;

    /// The next word, and what came with it.
    ///
    /// # Errors
    /// Those of the machine; `InvalidData` for anything but a word, and for one of another format.
    fn hear(&self) -> io::Result<(Word, Vec<Self::Descriptor>)>;

    /// Converts a received descriptor to a socket.
    ///
    /// # Errors
    /// When it is not.
    fn socket(descriptor: Self::Descriptor) -> io::Result<Socket>;
}
