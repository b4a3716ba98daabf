//! What the hosts of one input do, as data: mostly what a host would do, with single values that none would send.
//! How it is sent, and what has to come back, is the peer's.

use arbitrary::{Arbitrary, Result, Unstructured};

/// Connections of one input.
pub(super) const PEERS: usize = 3;
/// Steps of one input.
const STEPS_MAX: usize = 32;

/// A value that is there one time in ten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rarely<T>(pub(super) Option<T>);

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Rarely<T> {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self(if input.ratio(1, 10)? { Some(input.arbitrary()?) } else { None }))
    }
}

/// Everything that one input does.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) openings: [Opening; PEERS],
    pub(super) steps: Vec<Step>,
}

impl<'a> Arbitrary<'a> for Plan {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let openings = input.arbitrary()?;
        let mut steps = Vec::new();
        while steps.len() < STEPS_MAX && !input.is_empty() {
            steps.push(input.arbitrary()?);
        }
        Ok(Self { openings, steps })
    }
}

/// State of a connection when the steps begin.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Opening {
    Nothing,
    Opened,
    Initialized {
        digests: u8,
    },
    Admin {
        digests: u8,
    },
    /// A queue of the first connection's controller.
    Queue {
        digests: u8,
        number: u8,
        entries: u8,
    },
}

/// Next action of one connection.
#[derive(Arbitrary, Debug)]
pub(super) struct Step {
    pub(super) peer: u8,
    pub(super) action: Action,
    /// A byte of what is sent becomes another.
    pub(super) bend: Rarely<(u8, u8)>,
    /// Only this number of bytes is sent now, and the rest before what is sent next.
    pub(super) cut: Rarely<u8>,
}

#[derive(Arbitrary, Debug)]
pub(super) enum Action {
    Initialize(Initialization),
    Connect(Connecting),
    Property {
        sets: bool,
        wide: Rarely<bool>,
        which: u8,
        value: u32,
    },
    Enable,
    Admin {
        opcode: u8,
        nsid: u8,
        dwords: [Dword; 6],
        give: Give,
    },
    Command(Command),
    /// The same again, so that commands are drawn more often than the other actions.
    Other(Command),
    Data(DataPiece),
    Await,
    AwaitAll,
    Raw {
        bytes: [u8; 12],
        repeat: u8,
    },
    Terminate {
        error: u8,
    },
    HalfClose,
    Close,
    Reset,
    Reopen(Opening),
}

#[derive(Arbitrary, Debug)]
pub(super) struct Initialization {
    pub(super) version: Rarely<u16>,
    pub(super) alignment: Rarely<u8>,
    pub(super) digests: u8,
    pub(super) limit: u8,
}

#[derive(Arbitrary, Debug)]
pub(super) struct Connecting {
    pub(super) queue: u8,
    pub(super) wild_queue: Rarely<u16>,
    pub(super) entries: Rarely<u16>,
    pub(super) format: Rarely<u16>,
    pub(super) attributes: u8,
    pub(super) keep_alive_ms: Rarely<u32>,
    pub(super) host: u8,
    pub(super) subsystem: u8,
    pub(super) controller: Rarely<u16>,
    /// Bytes of its data that are missing.
    pub(super) missing: Rarely<u16>,
}

/// A dword that is one of those that mean something, or any.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Dword {
    Zero,
    Small(u8),
    Mark(u8),
    Any(u32),
}

impl Dword {
    pub(super) fn value(self) -> u32 {
        const MARKS: [u32; 8] =
            [1 << 16, 0x03ff_0000, u32::MAX, 0x7fff_ffff, 1 << 31, 0x0fff_0002, 0x0001_0001, 0x1000_0000];
        match self {
            Self::Zero => 0,
            Self::Small(value) => value.into(),
            Self::Mark(which) => MARKS[usize::from(which) % MARKS.len()],
            Self::Any(value) => value,
        }
    }
}

/// A command of an I/O queue.
#[derive(Arbitrary, Debug)]
pub(super) struct Command {
    pub(super) opcode: u8,
    pub(super) nsid: u8,
    pub(super) start: Start,
    pub(super) blocks: u8,
    pub(super) many_blocks: Rarely<u16>,
    pub(super) control: Rarely<u16>,
    pub(super) fused: Rarely<u8>,
    pub(super) dwords: Rarely<[u32; 4]>,
    pub(super) in_capsule: bool,
    /// Bytes that its descriptor names beyond or below the right number.
    pub(super) excess: Rarely<i16>,
    /// The identifier of an outstanding command is used.
    pub(super) same_id: Rarely<bool>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Start {
    Near(u8),
    /// This number of blocks before the end.
    AtEnd(u8),
    Any(u64),
}

/// The data of an admin command.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum Give {
    Nothing,
    Room { dwords: u16 },
    Page,
    Capsule { length: u16 },
    Asked { length: u16 },
    Wild { address: u64, length: u32, kind: u8 },
}

/// Data that was asked for, right but for what is given.
#[derive(Arbitrary, Debug)]
pub(super) struct DataPiece {
    pub(super) which: u8,
    pub(super) tag: Rarely<u16>,
    pub(super) id: Rarely<u16>,
    pub(super) offset: Rarely<i16>,
    pub(super) length: Rarely<u16>,
    pub(super) is_last: Rarely<bool>,
    pub(super) damaged: Rarely<bool>,
    /// Only a part of what is left.
    pub(super) half: bool,
}
