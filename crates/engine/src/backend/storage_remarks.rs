//! Remarks on storage that is opened: peculiarities that its users hardly expect.

use std::path::Path;

use super::block_queue::BlockQueue;
use super::image_format;
use super::partition_table;
use crate::units::{Size, counted};

/// Remark on storage that cannot be written.
pub(super) fn read_only_remark(reason: Option<String>) -> Option<String> {
    reason.map(|reason| format!("read-only storage ({reason}): hosts find the namespace write protected"))
}

/// Remark on space that hosts give back and the device keeps.
pub(super) fn discard_remark(queue: &BlockQueue) -> Option<String> {
    queue.discards_in_vain().then(|| {
        "the device has discard, but cannot zero by it (write_zeroes_max_bytes is 0): what hosts deallocate stays allocated"
            .to_owned()
    })
}

/// Remark on partitions that hosts do not find.
pub(super) fn table_remark(path: &Path, block_size: u32) -> Option<String> {
    let sector = partition_table::other_sector(path, block_size).ok()??;
    Some(format!(
        "partition table for sectors of {sector} bytes: hosts that see blocks of {block_size} bytes find no partitions; serve it \
         with block_size={sector}"
    ))
}

/// Remark on a disk within an image.
pub(super) fn format_remark(path: &Path) -> Option<String> {
    let format = image_format::of(path).ok()??;
    Some(format!(
        "image in the format {format}: hosts see it as it is, not the disk in it, which their writes destroy; serve what \
         `qemu-img convert -O raw` makes of it"
    ))
}

/// Remark on the rest of a file that is longer than its namespace.
pub(super) fn rest_remark(present: u64, size: u64) -> Option<String> {
    (size < present).then(|| {
        let (size, present) = (Size(size), Size(present));
        format!(
            "hosts see the first {size} of {present}, as its size says: leave it out to serve the whole file"
        )
    })
}

/// Remark on bytes that hosts do not see.
pub(super) fn tail_remark(bytes: u64, block_size: u32) -> Option<String> {
    let lost = bytes % u64::from(block_size);
    (lost > 0).then(|| {
        let smaller = if lost.is_multiple_of(512) { ", or use block_size=512" } else { "" };
        format!(
            "hosts do not see its last {}, which fill no block of {block_size} bytes: make the file a whole number of blocks \
             long{smaller}",
            counted(lost, "byte")
        )
    })
}
