//! What a block holds: the mark of the write that wrote it and its own number, over and over, so that a block of two
//! writes, or in a wrong place, is seen as what it is.

/// A block's cell: mark, then the block's number and the cell's.
const CELL: usize = 16;

/// Why a block cannot have been written by one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Parts of these two writes.
    Torn(u64, u64),
    /// Data of a write to this other block.
    Misplaced(u64),
    /// Data of no write.
    Garbage,
}

/// Fills `data` with the blocks from `start` on of the write with this mark.
pub(crate) fn fill(data: &mut [u8], block_size: usize, start: u64, mark: u64) {
    for (block, data) in data.chunks_exact_mut(block_size).enumerate() {
        let number = (start + block as u64) << 16;
        for (cell, bytes) in data.chunks_exact_mut(CELL).enumerate() {
            bytes[..8].copy_from_slice(&mark.to_le_bytes());
            bytes[8..].copy_from_slice(&(number | cell as u64).to_le_bytes());
        }
    }
}

/// The mark of block `number`; 0 for one that was never written, or zeroed.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(data: &[u8], number: u64) -> Result<u64, Damage> {
    let word = |at: usize| data[at..at + 8].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mark = word(0);
    for at in (0..data.len()).step_by(CELL) {
        let (found, place) = (word(at), word(at + 8));
        if found != mark {
            return Err(Damage::Torn(mark, found));
        }
        let expected = if mark == 0 { 0 } else { number << 16 | (at / CELL) as u64 };
        if place != expected {
            let garbage = mark == 0 || place & 0xffff != expected & 0xffff;
            return Err(if garbage { Damage::Garbage } else { Damage::Misplaced(place >> 16) });
        }
    }
    Ok(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_tells_whose_it_is() {
        let mut data = vec![0; 1024];
        assert_eq!(read(&data[..512], 0), Ok(0));
        fill(&mut data, 512, 7, 42);
        assert_eq!((read(&data[..512], 7), read(&data[512..], 8)), (Ok(42), Ok(42)));
        assert_eq!(read(&data[..512], 9), Err(Damage::Misplaced(7)));
        let mut torn = data[..512].to_vec();
        fill(&mut torn[256..], 256, 7, 43);
        assert_eq!(read(&torn, 7), Err(Damage::Torn(42, 43)));
        assert_eq!(read(&[1; 512], 7), Err(Damage::Garbage));
    }
}
