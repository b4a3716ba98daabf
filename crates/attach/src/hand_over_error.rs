//! Reasons for which a server or device is not handed over to another process, or not taken over from one.

use std::io;

use thiserror::Error;

use crate::disk::DiskError;

/// Reason for which a hand-over fails. The old process serves on.
#[derive(Debug, Error)]
pub enum HandOverError {
    /// Requests of NBD clients that do not end in time.
    #[error("requests of clients take too long to end")]
    ClientsBusy,
    /// The same of guests.
    #[error("requests of guests take too long to end")]
    GuestsBusy,
    /// The same of the guest of one socket.
    #[error("requests of a guest take too long to end")]
    GuestBusy,
    /// The same of the kernel, for a block device.
    #[error("requests to the block device take too long to end")]
    DeviceBusy,
    /// Thread of the server that has failed.
    #[error("a thread that serves clients has ended")]
    ThreadEnded,
    /// Front end that is being handed over already.
    #[error("it is quiesced already")]
    Quiesced,
    /// Descriptors that do not fit the clients of the old process.
    #[error("the number of descriptors is not that of the clients")]
    Descriptors,
    /// Sockets or descriptors that do not fit this server.
    #[error("the old process has other sockets, or hands over other descriptors")]
    OtherSockets,
    /// Disk that cannot be offered now.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Descriptor or memory that the system does not give.
    #[error(transparent)]
    System(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_hand_over_says_why() {
        for (error, said) in [
            (HandOverError::ClientsBusy, "requests of clients take too long to end"),
            (HandOverError::GuestsBusy, "requests of guests take too long to end"),
            (HandOverError::GuestBusy, "requests of a guest take too long to end"),
            (HandOverError::DeviceBusy, "requests to the block device take too long to end"),
            (HandOverError::ThreadEnded, "a thread that serves clients has ended"),
            (HandOverError::Descriptors, "the number of descriptors is not that of the clients"),
            (
                HandOverError::OtherSockets,
                "the old process has other sockets, or hands over other descriptors",
            ),
        ] {
            assert_eq!(error.to_string(), said);
        }
    }
}
