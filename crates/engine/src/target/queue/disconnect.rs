//! Why a connection ends, and the header of the PDU that is to blame, for the termination request.
//! What is then sent is the connection's.

use nvme::SubmissionEntry;
use nvme::tcp::digest::DIGEST_LENGTH;
use nvme::tcp::{CapsuleCommand, CommonHeader, DecodeError, Digests, PduType, flags};
use secure_channel::RecordError;
use zerocopy::IntoBytes;

/// Why a connection ends.
pub(crate) enum Disconnect {
    /// The peer sent what no conforming host sends.
    Decode(DecodeError),
    /// The same, found only when the header of the PDU, given here, had been taken.
    Faulty(DecodeError, Vec<u8>),
    /// The peer sent a record that cannot be opened, or means nothing here.
    Record(RecordError),
    /// The stream is at its end or broken.
    Gone,
}

impl From<DecodeError> for Disconnect {
    fn from(error: DecodeError) -> Self {
        Disconnect::Decode(error)
    }
}

impl From<RecordError> for Disconnect {
    fn from(error: RecordError) -> Self {
        Disconnect::Record(error)
    }
}

impl Disconnect {
    /// Adds the header of the faulty PDU.
    #[cold]
    pub(crate) fn within(self, header: &[u8]) -> Self {
        match self {
            Disconnect::Decode(error) => Disconnect::Faulty(error, header.to_vec()),
            other => other,
        }
    }

    /// Adds the header of a faulty command capsule, put together again as its host has sent it.
    #[cold]
    pub(crate) fn within_command(
        self,
        entry: &SubmissionEntry,
        data_length: usize,
        digests: Digests,
    ) -> Self {
        let digest = |used: bool, flag: u8| if used { (flag, DIGEST_LENGTH) } else { (0, 0) };
        let (header_flag, header_digest) = digest(digests.header, flags::HEADER_DIGEST);
        let (data_flag, data_digest) = digest(digests.data && data_length > 0, flags::DATA_DIGEST);
        let mut common = CommonHeader::new(PduType::CapsuleCommand, header_flag | data_flag);
        let offset = size_of::<CapsuleCommand>() + header_digest;
        common.data_offset = if data_length > 0 { offset as u8 } else { 0 };
        common.pdu_length = ((offset + data_length + data_digest) as u32).into();
        self.within(CapsuleCommand { common, entry: *entry }.as_bytes())
    }
}
