//! Why a queue cannot go on, and what the target learns of it.

use nvme::CompletionEntry;
use nvme::tcp::{CapsuleResponse, CommonHeader, DataPdu, DecodeError, FatalError, PduType, ReadyToTransfer};
use secure_channel::RecordError;
use zerocopy::IntoBytes;

use crate::initiator::{InitiatorError, PeerMisbehaved};

/// Why a queue cannot go on. Boxed, since it is rare and results are returned for every PDU.
#[derive(Debug)]
pub(super) enum Fault {
    /// Bytes that no target sends.
    Decode(DecodeError),
    /// A PDU the target may not send.
    Misbehaved { misbehaviour: PeerMisbehaved, error: FatalError, information: u32, header: [u8; 24] },
    /// A record that cannot be used.
    Record(RecordError),
    /// The target did not take what was offered, and may take a part of it.
    NotTaken(InitiatorError),
    /// The connection has ended, and cannot carry a reason.
    Ended(InitiatorError),
}

impl Fault {
    pub(super) fn decode(error: DecodeError) -> Box<Self> {
        Box::new(Self::Decode(error))
    }

    pub(super) fn ended(error: InitiatorError) -> Box<Self> {
        Box::new(Self::Ended(error))
    }

    pub(super) fn misbehaved(
        misbehaviour: PeerMisbehaved,
        error: FatalError,
        information: u32,
        header: &impl PduHeader,
    ) -> Box<Self> {
        Box::new(Self::Misbehaved { misbehaviour, error, information, header: header.bytes() })
    }
}

/// The headers that a fault may be about: all of one length.
pub(super) trait PduHeader {
    fn bytes(&self) -> [u8; 24];
}

impl PduHeader for DataPdu {
    fn bytes(&self) -> [u8; 24] {
        std::array::from_fn(|at| self.as_bytes()[at])
    }
}

impl PduHeader for ReadyToTransfer {
    fn bytes(&self) -> [u8; 24] {
        std::array::from_fn(|at| self.as_bytes()[at])
    }
}

impl PduHeader for CompletionEntry {
    fn bytes(&self) -> [u8; 24] {
        let pdu = CapsuleResponse { common: CommonHeader::new(PduType::CapsuleResponse, 0), entry: *self };
        std::array::from_fn(|at| pdu.as_bytes()[at])
    }
}
