//! Channel between the two processes of an upgrade, and the life of the other process.

use std::io;
use std::time::Duration;

use super::Protocol;
use super::words::Word;

/// The other of the two processes.
pub trait Process {
    /// True if the process has died, or dies within this time.
    fn has_died(&self, time: Duration) -> bool;
}

/// The old process, as the new one sees it.
pub trait OldProcess: Process {
    /// True if the old process has resumed since it handed over: what it handed over is void.
    fn has_resumed(&self) -> bool;
}

/// Either end of the channel between the two processes.
pub trait Channel<P: Protocol> {
    /// Something open that is received with a word.
    type Descriptor;

    /// Limits the time that a message is awaited; `None` waits as long as the other end lives.
    ///
    /// # Errors
    /// Those of the machine.
    fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()>;

    /// Says a word, with these descriptors.
    ///
    /// # Errors
    /// When the other end is gone or does not listen, or the process gets no memory.
    fn say(&self, word: &Word<P>, descriptors: &[P::Descriptor]) -> io::Result<()>;

    /// The next word, with its descriptors.
    ///
    /// # Errors
    /// Those of the machine; `InvalidData` for anything but a word, and for one of another format.
    fn hear(&self) -> io::Result<(Word<P>, Vec<Self::Descriptor>)>;
}
