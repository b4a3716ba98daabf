//! Writes that the storage holds back, so that a test finds them under way. What becomes of them is the test's.

use engine::ring::Engine;
use engine::target::Change;
use nvme::io::IoCommand;

use super::{Client, ENGINES, Give, SPACES, Space, TestTarget};

/// A namespace in memory, and one in a file, whose writes are held back.
pub(crate) const MEMORY: Space = SPACES[1];
pub(crate) const FILE: Space = SPACES[5];

/// Does a test with each engine at the same time: it waits for most of it.
pub(crate) fn each_engine(test: fn(Engine)) {
    std::thread::scope(|scope| {
        for engine in ENGINES {
            scope.spawn(move || test(engine));
        }
    });
}

/// Holds writes to the file back from now on; what that has changed.
pub(crate) fn hold_back(target: &TestTarget, write_delay_ms: u32) -> Vec<Change> {
    target.apply_to(FILE.nsid, |namespace| namespace.write_delay_ms = write_delay_ms)
}

/// Sends a write, which is held back; when this returns the target has taken it.
pub(crate) fn begin_write(queue: &mut Client, block: u64, data: &[u8]) -> u16 {
    let write = IoCommand::Write { start: block, blocks: 1, force_unit_access: false };
    let write = queue.submit(write.encode(FILE.nsid), Give::Capsule(data));
    let read = IoCommand::Read { start: 0, blocks: 1, force_unit_access: false };
    let read = queue.submit(read.encode(MEMORY.nsid), Give::Room(MEMORY.block));
    assert_eq!(queue.wait().command_id, read, "the write is held back, and nothing else");
    write
}
