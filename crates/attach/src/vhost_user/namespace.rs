//! A namespace as one thread serves it to guests.

use std::sync::Arc;

use engine::initiator::{Data, Paths};
use engine::ring::Ring;
use nvme::io::DatasetRange;

use super::device::Device;
use super::work::Kind;
use crate::disk_queues::DiskQueues;

pub(super) struct Namespace {
    pub(super) device: Device,
    pub(super) queues: DiskQueues,
}

impl Namespace {
    /// The share of thread `number` of `count`, with tokens from `token` on.
    pub(super) fn open(
        (paths, device): &(Arc<Paths>, Device),
        ring: &mut Ring,
        token: u32,
        (number, count): (u16, u16),
    ) -> Self {
        let queues = DiskQueues::open((paths, device.export.block_bytes), ring, token, (number, count));
        Self { device: device.clone(), queues }
    }

    /// Bytes of one command that does this, in whole blocks.
    pub(super) fn piece_bytes(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Read | Kind::Write => self.queues.data_bytes_max(),
            Kind::Zeroes { .. } => self.queues.zeroes_bytes_max(),
            Kind::Flush | Kind::Discard { .. } | Kind::Serial => 1,
        }
    }

    /// Bytes of the data of a command of `length` bytes of work.
    pub(super) const fn data_bytes(kind: Kind, length: u64) -> usize {
        match kind {
            Kind::Read | Kind::Write => length as usize,
            Kind::Discard { ranges } => ranges as usize * size_of::<DatasetRange>(),
            Kind::Flush | Kind::Zeroes { .. } | Kind::Serial => 0,
        }
    }

    /// Sends the command for `length` bytes at `offset`, for which there is room. Blocks are durable at its end where
    /// `is_write_through`.
    pub(super) fn submit(
        &mut self,
        (kind, is_write_through): (Kind, bool),
        extent: (u64, u64),
        data: Data,
        user: u64,
    ) {
        let command = |start, blocks| kind.command(start, blocks, is_write_through);
        self.queues.submit(command, extent, data, user);
    }
}
