//! Partition tables, as far as they say for sectors of which size they were made: a disk that is served in blocks of another size
//! looks empty to hosts. Nothing else of a table is read.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// First bytes of a GUID partition table's header, in the second sector of its disk.
const GPT: &[u8; 8] = b"EFI PART";
/// Sectors that tables are made for.
const SECTORS: [u32; 2] = [512, 4096];
/// Last bytes of a table of the older kind, and the place of its four entries.
const MBR: [u8; 2] = [0x55, 0xaa];
const MBR_AT: usize = 510;
const ENTRIES_AT: usize = 446;
const ENTRY_BYTES: usize = 16;
/// The kind of an entry that only keeps others off a GUID partition table.
const PROTECTIVE: u8 = 0xee;

/// The bytes of a sector that the table in this file or device was made for, where blocks of `block_size` are others. It is read
/// by way of the page cache, as blkid(8) does.
pub(super) fn other_sector(path: &Path, block_size: u32) -> io::Result<Option<u32>> {
    let file = fs::File::open(path)?;
    let length = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
    let mut first = vec![0; SECTORS[1] as usize + GPT.len()];
    match file.read_exact_at(&mut first, 0) {
        Ok(()) => Ok(sector(&first, length, block_size).filter(|sector| *sector != block_size)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The bytes of a sector, by the first bytes of a disk that is this long.
fn sector(first: &[u8], length: u64, block_size: u32) -> Option<u32> {
    let has_header = |sector: &u32| first.get(*sector as usize..).is_some_and(|rest| rest.starts_with(GPT));
    // A disk that was partitioned twice may have both; what hosts find counts.
    if has_header(&block_size) {
        return Some(block_size);
    }
    SECTORS.into_iter().find(has_header).or_else(|| sector_of_entries(first, length))
}

/// A table of the older kind counts sectors and does not say how large they are: only small ones may fit on the disk.
fn sector_of_entries(first: &[u8], length: u64) -> Option<u32> {
    let number = |at: usize| {
        let bytes = first.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(|bytes| u64::from(u32::from_le_bytes(bytes)))
    };
    if first.get(MBR_AT..MBR_AT + 2)? != MBR {
        return None;
    }
    let mut end = 0;
    for at in (0..4).map(|entry| ENTRIES_AT + entry * ENTRY_BYTES) {
        let (status, kind) = (first.get(at)?, first.get(at + 4)?);
        if status & 0x7f != 0 || *kind == PROTECTIVE {
            // The first sector of a file system may end like a table.
            return None;
        }
        if *kind != 0 {
            end = end.max(number(at + 8)? + number(at + 12)?);
        }
    }
    let [small, large] = SECTORS.map(u64::from);
    (end > 0 && end * small <= length && end * large > length).then_some(SECTORS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: u64 = 64 << 20;

    fn disk(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut first = vec![0; 4096 + 8];
        first[at..at + bytes.len()].copy_from_slice(bytes);
        first
    }

    /// A disk with one partition of this kind, from this sector and for this number of them.
    fn old_disk(status: u8, kind: u8, from: u32, sectors: u32) -> Vec<u8> {
        let mut first = disk(MBR_AT, &MBR);
        let entry = ENTRIES_AT + ENTRY_BYTES;
        first[entry] = status;
        first[entry + 4] = kind;
        first[entry + 8..entry + 12].copy_from_slice(&from.to_le_bytes());
        first[entry + 12..entry + 16].copy_from_slice(&sectors.to_le_bytes());
        first
    }

    #[test]
    fn a_header_says_in_which_sector_it_is() {
        for (at, sector_bytes) in [(512, 512), (4096, 4096)] {
            for block_size in SECTORS {
                assert_eq!(sector(&disk(at, GPT), LENGTH, block_size), Some(sector_bytes), "{at}");
            }
        }
        let mut both = disk(512, GPT);
        both[4096..].copy_from_slice(GPT);
        assert_eq!([512, 4096].map(|block| sector(&both, LENGTH, block)), [Some(512), Some(4096)]);
        assert_eq!(sector(&disk(0, GPT), LENGTH, 4096), None);
        assert_eq!(sector(&[], LENGTH, 4096), None);
    }

    #[test]
    fn an_older_table_is_known_by_what_fits() {
        let sectors = (LENGTH / 512) as u32;
        assert_eq!(sector(&old_disk(0x80, 0x83, 2048, sectors - 2048), LENGTH, 4096), Some(512));
        // Both fit, or neither does, or it is not a table.
        assert_eq!(sector(&old_disk(0, 0x83, 256, sectors / 8 - 256), LENGTH, 4096), None);
        assert_eq!(sector(&old_disk(0, 0x83, 2048, sectors), LENGTH, 4096), None);
        assert_eq!(sector(&old_disk(0x12, 0x83, 2048, sectors - 2048), LENGTH, 4096), None);
        assert_eq!(sector(&old_disk(0, PROTECTIVE, 1, u32::MAX), LENGTH, 4096), None);
        assert_eq!(sector(&old_disk(0, 0x83, u32::MAX, u32::MAX), LENGTH, 4096), None);
    }

    #[test]
    fn a_file_is_looked_into_and_may_be_short() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::write(&path, disk(512, GPT)).unwrap();
        assert_eq!(other_sector(&path, 4096).unwrap(), Some(512));
        assert_eq!(other_sector(&path, 512).unwrap(), None);
        fs::write(&path, b"short").unwrap();
        assert_eq!(other_sector(&path, 4096).unwrap(), None);
    }
}
