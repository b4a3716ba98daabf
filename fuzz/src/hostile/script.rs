//! What a hostile target does otherwise than a good one, as data: which of the PDUs it sends is not what it should be,
//! and how. Everything else of a conversation is a good target's.

use arbitrary::{Arbitrary, Result, Unstructured};

/// Bends of one input.
const BENDS_MAX: usize = 12;

/// Everything that one input does.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) session: Session,
    pub(super) digests: u8,
    pub(super) uses_epoll: bool,
    /// In the order of the PDUs they change.
    pub(super) bends: Vec<Bend>,
}

/// Session of the host with the target.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Session {
    Discovery,
    Namespaces,
    Blocks,
}

impl<'a> Arbitrary<'a> for Script {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let (session, digests, uses_epoll) = input.arbitrary()?;
        let mut bends = Vec::new();
        while bends.len() < BENDS_MAX && !input.is_empty() {
            bends.push(input.arbitrary()?);
        }
        Ok(Self { session, digests, uses_epoll, bends })
    }
}

/// A PDU that is not what it should be.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) struct Bend {
    /// PDUs that pass before it, after the last one that was bent.
    pub(super) after: u8,
    pub(super) how: How,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum How {
    Status(u16),
    /// The result of a completion becomes this, or has these bits turned.
    Result(u64),
    TurnResult {
        bit: u8,
    },
    CommandId(u16),
    /// Bytes of the data become others.
    Data {
        at: u16,
        value: u8,
    },
    Number {
        at: u16,
        value: u32,
    },
    /// The same where something stands that is counted with, shifted by or looked for.
    Field {
        which: u8,
        value: u8,
    },
    Fill(u8),
    /// The data says that it belongs elsewhere, or comes shorter.
    Offset(i32),
    Shorter(u16),
    Flags(u8),
    /// A byte of the PDU as it is framed.
    Byte {
        at: u8,
        turned: u8,
    },
    Split(u8),
    Hold,
    Drop,
    Twice,
    Digest,
    Request {
        id: u16,
        tag: u16,
        offset: u32,
        length: u32,
    },
    /// The same, for the command of this PDU.
    RequestOwn {
        offset: u16,
        length: u16,
    },
    Response {
        id: u16,
        status: u16,
    },
    Terminate(u8),
    Raw([u8; 16]),
    Close,
    Reset,
}
