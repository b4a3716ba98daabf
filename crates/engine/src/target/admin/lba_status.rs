//! Get LBA Status: that the command is right is checked here. The file system is asked by a worker, since it may have to read.

use nvme::lba_status::{
    DESCRIPTOR_BYTES, GetLbaStatus, LIST_HEAD_BYTES, LbaStatusDescriptor, LbaStatusList, condition,
};
use nvme::{Status, SubmissionEntry};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use super::answer::Answer;
use crate::limits::{BUFFER_LENGTH_MAX, LBA_STATUS_DESCRIPTORS_MAX};
use crate::target::controller::Controller;
use crate::target::fabric::Fabric;
use crate::target::messaging::{AllocationJob, Asker};

/// Hands a command to the worker.
pub(crate) fn answer(
    entry: &SubmissionEntry,
    controller: &Controller,
    fabric: &Fabric,
    asker: Asker,
) -> Answer {
    match job(entry, controller, fabric, asker).and_then(|job| fabric.allocation_jobs.hand(job)) {
        Ok(()) => Answer::Held,
        Err(status) => status.into(),
    }
}

fn job(
    entry: &SubmissionEntry,
    controller: &Controller,
    fabric: &Fabric,
    asker: Asker,
) -> Result<AllocationJob, Status> {
    let command = GetLbaStatus::decode(entry)?;
    let table = controller.table();
    let attachment = table.attachment(entry.nsid.get());
    let attachment = attachment.ok_or(Status::INVALID_NAMESPACE.do_not_retry())?;
    if let Some(status) = attachment.access.refusal() {
        return Err(status);
    }
    let namespace = attachment.namespace.clone();
    if command.start >= namespace.blocks() {
        return Err(Status::LBA_OUT_OF_RANGE.do_not_retry());
    }
    let room = entry.data_pointer().map_or(0, |pointer| u64::from(pointer.length()));
    let length = command.room_bytes.min(room).min(BUFFER_LENGTH_MAX as u64);
    if room < command.room_bytes.min(BUFFER_LENGTH_MAX as u64) {
        return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
    }
    let share = fabric.shares.allocations.take(&controller.guest)?;
    Ok(AllocationJob { asker, namespace, command, length: length as usize, _share: share })
}

/// The list for a command: asks the file system, and waits for it.
pub(crate) fn list(job: &AllocationJob) -> Result<Vec<u8>, Status> {
    let AllocationJob { namespace, command, length, .. } = job;
    let shift = namespace.block_shift();
    let until = match command.blocks {
        0 => namespace.blocks(),
        blocks => command.start.saturating_add(blocks.into()).min(namespace.blocks()),
    };
    let most = ((length - LIST_HEAD_BYTES) / DESCRIPTOR_BYTES).min(LBA_STATUS_DESCRIPTORS_MAX);
    let found = namespace.backend.allocated(command.start << shift, until << shift, most);
    let (ranges, mut is_complete) = found.map_err(|error| {
        tracing::debug!(%error, nsid = namespace.nsid, "the file system does not tell which blocks are allocated");
        Status::INTERNAL_ERROR
    })?;
    let mut bytes = vec![0; *length];
    let mut count = 0;
    // A block of which a part is allocated is; two of a block are one.
    let mut last_end = command.start;
    for range in ranges {
        let mut start = (range.start >> shift).max(last_end);
        let end = range.end.div_ceil(1 << shift).min(until);
        while start < end {
            if count == most {
                is_complete = false;
                break;
            }
            let blocks = u32::try_from(end - start).unwrap_or(u32::MAX);
            let descriptor =
                LbaStatusDescriptor { start: U64::new(start), blocks: U32::new(blocks), reserved: [0; 4] };
            let at = LIST_HEAD_BYTES + count * DESCRIPTOR_BYTES;
            bytes[at..at + DESCRIPTOR_BYTES].copy_from_slice(descriptor.as_bytes());
            count += 1;
            start += u64::from(blocks);
        }
        last_end = end;
    }
    let condition = if is_complete { condition::COMPLETE } else { condition::INCOMPLETE };
    let head = LbaStatusList { count: U32::new(count as u32), condition, reserved: [0; 3] };
    bytes[..LIST_HEAD_BYTES].copy_from_slice(head.as_bytes());
    Ok(bytes)
}
