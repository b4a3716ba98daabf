//! The line between the two processes of an upgrade, and whether the other one lives, as the machine has it.

use std::io;
use std::time::Duration;

use super::words::Word;
use crate::ring::Socket;

/// The other of the two processes.
pub trait Process {
    /// Whether it has died, or does within this time.
    fn has_died(&self, time: Duration) -> bool;
}

/// One end of the line.
pub trait Line {
    /// Something open that comes with a word.
    type Descriptor;

    /// How long a word may be awaited; without it, for as long as the other end lives.
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

    /// What came is a socket.
    ///
    /// # Errors
    /// When it is not.
    fn socket(descriptor: Self::Descriptor) -> io::Result<Socket>;
}
