//! What an admin command comes to.

use nvme::Status;

/// Outcome of an admin command.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A status and a result.
    Status(Status, u64),
    /// Success, with data for the host.
    Data(Vec<u8>),
    /// No reply yet: another thread sends it later.
    Held,
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        Answer::Status(status, 0)
    }
}
