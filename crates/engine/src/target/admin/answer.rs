//! What an admin command comes to.

use nvme::Status;

/// What an admin command comes to.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A status and a result.
    Status(Status, u64),
    /// Success, with data for the host.
    Data(Vec<u8>),
    /// Nothing now: somebody else answers it, later.
    Held,
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        Answer::Status(status, 0)
    }
}
