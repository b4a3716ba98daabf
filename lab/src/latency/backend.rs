//! Where the bridge's requests go: a namespace of an NVMe/TCP target, or memory. It keeps out who asks.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::remote::Remote;

/// Executor of requests, one after the other.
pub(crate) enum Backend {
    Memory(Vec<u8>),
    Nvme(Box<Remote>),
}

impl Backend {
    /// Namespace 1 of `nqn`.
    ///
    /// # Errors
    /// What could not be connected, and why.
    pub(crate) fn connect(address: SocketAddr, nqn: &str) -> Result<Backend, String> {
        Remote::connect(address, nqn, 1).map(|remote| Backend::Nvme(Box::new(remote)))
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        match self {
            Backend::Memory(bytes) => bytes.len() as u64,
            Backend::Nvme(remote) => remote.size_bytes(),
        }
    }

    /// Fills `data` from `offset` on, both within the size, and says how long the command itself took.
    ///
    /// # Errors
    /// The target does not do it.
    pub(crate) fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<Duration, String> {
        let began = Instant::now();
        match self {
            Backend::Memory(bytes) => {
                data.copy_from_slice(&bytes[offset as usize..][..data.len()]);
                Ok(began.elapsed())
            }
            Backend::Nvme(remote) => remote.read(offset, data),
        }
    }

    /// Writes `data` from `offset` on, both within the size, and says how long the command itself took.
    ///
    /// # Errors
    /// The target does not do it.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<Duration, String> {
        let began = Instant::now();
        match self {
            Backend::Memory(bytes) => {
                bytes[offset as usize..][..data.len()].copy_from_slice(data);
                Ok(began.elapsed())
            }
            Backend::Nvme(remote) => remote.write(offset, data),
        }
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// The target does not do it.
    pub(crate) fn flush(&mut self) -> Result<Duration, String> {
        match self {
            Backend::Memory(_) => Ok(Duration::ZERO),
            Backend::Nvme(remote) => remote.flush(),
        }
    }
}
