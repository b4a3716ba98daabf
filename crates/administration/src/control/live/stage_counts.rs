//! Histograms of the stages of a step, in few bytes: most commands are in few stages, and most
//! buckets are empty. It keeps out the sums of their times.

use std::collections::BTreeMap;

use engine::target::{Histogram, Stage};

use super::done::STAGES;

/// Bits of a number in a byte of it; the last bit says that another one follows.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

/// Commands by their time in each stage: for each stage with commands its number, the numbers of
/// its first bucket with commands and of the last after that, and what is in these buckets.
#[derive(Clone, Debug, Default)]
pub(super) struct StageCounts(Box<[u8]>);

impl StageCounts {
    pub(super) fn new(stages: &[Histogram; STAGES]) -> Self {
        let mut bytes = Vec::new();
        for (stage, times) in stages.iter().enumerate() {
            let has_any = |commands: &u64| *commands > 0;
            let first = times.buckets.iter().position(has_any);
            let last = times.buckets.iter().rposition(has_any);
            let Some((first, last)) = first.zip(last) else { continue };
            bytes.extend([stage as u8, first as u8, (last - first) as u8]);
            times.buckets[first..=last].iter().for_each(|commands| write(&mut bytes, *commands));
        }
        Self(bytes.into())
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Commands by bucket in each stage that has any, by its name.
    pub(super) fn buckets(&self) -> BTreeMap<&'static str, Vec<u64>> {
        let mut stages = BTreeMap::new();
        let mut bytes = self.0.iter().copied();
        while let (Some(stage), Some(first), Some(after)) = (bytes.next(), bytes.next(), bytes.next()) {
            let mut buckets = vec![0; usize::from(first)];
            buckets.extend((0..=after).map(|_| read(&mut bytes)));
            stages.insert(Stage::ALL[usize::from(stage)].name(), buckets);
        }
        stages
    }
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= u64::from(MORE) {
        bytes.push(number as u8 | MORE);
        number >>= BITS;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut impl Iterator<Item = u8>) -> u64 {
    let (mut number, mut place) = (0_u64, 0_u32);
    for byte in bytes {
        number |= u64::from(byte & !MORE) << place;
        if byte & MORE == 0 {
            break;
        }
        place += BITS;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut stages = [Histogram::default(); STAGES];
        for (bucket, commands) in [(0, 1), (3, 127), (4, 128), (5, 1 << 21), (25, u64::MAX)] {
            stages[Stage::Storage as usize].buckets[bucket] = commands;
        }
        stages[Stage::Receive as usize].buckets[7] = 5;
        let read = StageCounts::new(&stages).buckets();
        assert_eq!(read.keys().copied().collect::<Vec<_>>(), ["receive", "storage"]);
        assert_eq!(read["receive"], [0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(read["storage"], stages[Stage::Storage as usize].buckets);
    }

    #[test]
    fn a_usual_step_takes_few_bytes() {
        let mut storage = Histogram::default();
        storage.buckets[5..11].copy_from_slice(&[20, 16_000, 40_000, 20_000, 4_000, 900]);
        let mut stages = [Histogram::default(); STAGES];
        assert_eq!(StageCounts::new(&stages).bytes(), 0);
        stages[Stage::Storage as usize] = storage;
        assert!(StageCounts::new(&stages).bytes() <= 20);
    }
}
