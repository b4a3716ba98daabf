//! A namespace: a backend seen as blocks, with its identity. Every block number from a host passes the check here.
//! It starts no I/O.

use uuid::Uuid;

use crate::backend::Backend;

use super::{NamespaceConfig, TargetError};

/// A namespace that is open.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) nsid: u32,
    pub(super) backend: Backend,
    pub(super) uuid: [u8; 16],
    block_shift: u32,
    blocks: u64,
}

/// A checked range of bytes within a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Namespace {
    pub(super) fn open(nqn: &str, config: &NamespaceConfig) -> Result<Self, TargetError> {
        let backend = Backend::open(&config.backend, config.block_size)
            .map_err(|source| TargetError::Namespace { nqn: nqn.to_owned(), nsid: config.nsid, source })?;
        let name = format!("{nqn}#{}", config.nsid);
        let uuid =
            config.uuid.unwrap_or_else(|| Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).into_bytes());
        let block_shift = config.block_size.trailing_zeros();
        let blocks = backend.length() >> block_shift;
        Ok(Self { nsid: config.nsid, backend, uuid, block_shift, blocks })
    }

    /// Blocks it has.
    pub(super) const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of a block as a power of two.
    pub(super) const fn block_shift(&self) -> u32 {
        self.block_shift
    }

    /// The bytes of `blocks` blocks from `start` on, or `None` when they do not lie within the namespace.
    pub(super) fn bytes(&self, start: u64, blocks: u64) -> Option<ByteRange> {
        let end = start.checked_add(blocks)?;
        (end <= self.blocks)
            .then(|| ByteRange { offset: start << self.block_shift, length: blocks << self.block_shift })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendConfig;

    #[test]
    fn ranges_are_checked_without_overflow() {
        let backend = BackendConfig::Null { size: 1 << 20 };
        let config = NamespaceConfig { nsid: 1, backend, block_size: 4096, uuid: None };
        let namespace = Namespace::open("nqn.2026-01.io.selvedge:a", &config).expect("opens");
        assert_eq!(namespace.blocks(), 256);
        assert_eq!(namespace.bytes(255, 1), Some(ByteRange { offset: 255 << 12, length: 4096 }));
        for (start, blocks) in [(255, 2), (256, 1), (u64::MAX, 1), (u64::MAX - 1, 3), (1 << 52, 1)] {
            assert_eq!(namespace.bytes(start, blocks), None);
        }
    }

    #[test]
    fn identity_stays_the_same() {
        let open = |nsid| {
            let backend = BackendConfig::Null { size: 4096 };
            let config = NamespaceConfig { nsid, backend, block_size: 512, uuid: None };
            Namespace::open("nqn.2026-01.io.selvedge:a", &config).expect("opens").uuid
        };
        assert_eq!(open(1), open(1));
        assert_ne!(open(1), open(2));
    }
}
