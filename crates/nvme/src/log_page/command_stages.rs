//! The Command Stages log page of Selvedge's targets, which says what the time of a namespace's commands was spent on there. No
//! other target has it: [`IdentifyController::has_command_stages`](crate::identify::IdentifyController::has_command_stages)
//! tells who does.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identify::zeroed_default;

/// The name at its beginning: other vendors have other pages under this identifier.
const NAME: [u8; 16] = *b"Selvedge stages\0";
/// Version of the fields.
const VERSION: u32 = 1;

/// Command Stages log page, 128 bytes (LID D5h, vendor specific). All times are sums over all hosts' commands that went well,
/// since the target was started.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CommandStagesLog {
    /// Name that identifies the page.
    pub name: [u8; 16],
    /// Version of the fields.
    pub version: U32,
    /// The namespace.
    pub nsid: U32,
    /// Commands.
    pub commands: U64,
    /// Sum of their times, from when each was received until its response was queued, in
    /// nanoseconds.
    pub took_ns: U64,
    /// Stages on which these times were spent, in nanoseconds: data on the way from the host,
    /// limits, waiting for a buffer, the storage, and others that go first. The rest is reserved.
    pub stages_ns: [U64; 8],
    /// Number of the counters, the same through all controllers that share them; 0 from targets
    /// without it.
    pub counters: U64,
    /// Reserved.
    pub reserved_112: [u8; 16],
}

const _: () = assert!(size_of::<CommandStagesLog>() == 128);

zeroed_default!(CommandStagesLog);

impl CommandStagesLog {
    /// The page of a namespace.
    pub fn new(nsid: u32, commands: u64, took_ns: u64, stages_ns: &[u64]) -> Self {
        let mut log = Self {
            name: NAME,
            version: VERSION.into(),
            nsid: nsid.into(),
            commands: commands.into(),
            took_ns: took_ns.into(),
            ..Self::default()
        };
        log.stages_ns.iter_mut().zip(stages_ns).for_each(|(field, ns)| *field = (*ns).into());
        log
    }

    /// True if it is this page, of this namespace.
    pub fn is_of(&self, nsid: u32) -> bool {
        self.name == NAME && self.version.get() == VERSION && self.nsid.get() == nsid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_page_of_this_namespace_is_taken() {
        let log = CommandStagesLog::new(7, 3, 900, &[1, 2, 3, 4, 5]);
        assert!(log.is_of(7) && !log.is_of(8));
        let stages = log.stages_ns.map(U64::get);
        assert_eq!((log.commands.get(), log.took_ns.get(), stages), (3, 900, [1, 2, 3, 4, 5, 0, 0, 0]));
        assert!(!CommandStagesLog { version: 2.into(), ..log }.is_of(7));
        assert!(!CommandStagesLog { name: [0; 16], ..log }.is_of(7), "it may be another vendor's");
        assert!(!CommandStagesLog::default().is_of(0));
    }
}
