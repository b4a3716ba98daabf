//! What is asked of every storage server alike: kind of access, block size, commands outstanding, connections. It keeps
//! out how each client is told.

use serde::Serialize;

/// One workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    pub(crate) write: bool,
    pub(crate) random: bool,
    pub(crate) block_bytes: u32,
    /// Commands outstanding, over all connections.
    pub(crate) depth: u32,
    pub(crate) connections: u32,
}

/// All of them.
pub(crate) const PATTERNS: [Pattern; 5] = [
    read("4k random read, depth 1", 1, 1),
    read("4k random read, depth 32", 32, 1),
    read("4k random read, depth 32 over 2 connections", 32, 2),
    Pattern { write: true, ..read("4k random write, depth 32", 32, 1) },
    Pattern { random: false, block_bytes: 128 << 10, ..read("128k sequential read, depth 8", 8, 1) },
];

const fn read(name: &'static str, depth: u32, connections: u32) -> Pattern {
    Pattern { name, write: false, random: true, block_bytes: 4096, depth, connections }
}

impl Pattern {
    /// Commands outstanding on each connection.
    pub(crate) const fn depth_per_connection(&self) -> u32 {
        self.depth / self.connections
    }

    /// fio's word for it, which is ours too.
    pub(crate) const fn rw(&self) -> &'static str {
        match (self.write, self.random) {
            (false, false) => "read",
            (false, true) => "randread",
            (true, false) => "write",
            (true, true) => "randwrite",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_has_the_same_share() {
        for pattern in PATTERNS {
            assert_eq!(
                pattern.depth_per_connection() * pattern.connections,
                pattern.depth,
                "{}",
                pattern.name
            );
        }
    }
}
