//! The kernel's driver of block devices, with any descriptors and completions: requests that are mostly as the block layer makes
//! them, and any numbers in between. Commands lie within the namespace, in whole blocks, and change nothing that is read-only; the
//! data of a request is that of its tag alone; each command of the driver has one answer; parameters and descriptions of devices
//! are refused, or fit.

use arbitrary::{Result, Unstructured};
use attach::ublk::{DriverModel, Geometry};
use nvme::SubmissionEntry;
use nvme::io::IoCommand;

const NSID: u32 = 3;
const DEPTH: u16 = 4;
/// Bytes of a tag's data that are looked at. No request has more.
const DATA_BYTES: usize = 32 << 10;
const SECTOR_BYTES: u64 = 512;

/// Plays what the bytes say.
pub fn check(bytes: &[u8]) {
    // Too few bytes for a choice are a short life.
    let _ = play(&mut Unstructured::new(bytes));
}

struct Driver {
    model: DriverModel,
    geometry: Geometry,
    /// Data of each tag, as it has to be.
    data: Vec<Vec<u8>>,
    /// True for tags whose command the driver has.
    has_command: [bool; DEPTH as usize],
    ended: usize,
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let geometry = geometry(input)?;
    let mut model = DriverModel::new(geometry, DEPTH, input.arbitrary()?).expect("memory");
    let data: Vec<Vec<u8>> = (0..DEPTH).map(|tag| vec![0x50 + tag as u8; DATA_BYTES]).collect();
    for (tag, data) in (0..).zip(&data) {
        model.give(tag, data).expect("each tag has room");
    }
    let has_command = [true; DEPTH as usize];
    let mut driver = Driver { model, geometry, data, has_command, ended: 0 };
    for _ in 0..input.int_in_range(0..=32)? {
        match input.int_in_range(0..=7)? {
            0..=4 => driver.request(input)?,
            5 => driver.complete(input.int_in_range(0..=DEPTH + 1)?, input.arbitrary()?, true),
            6 => {
                let parameters: [u8; 64] = input.arbitrary()?;
                behind(&geometry, &parameters);
                // Most of them are such as the device has.
                let mut parameters = usual_parameters(&geometry);
                parameters[input.choose_index(64)?] ^= input.arbitrary::<u8>()?;
                behind(&geometry, &parameters);
            }
            _ => {
                let description: [u8; 64] = input.arbitrary()?;
                let found = DriverModel::found(&description).expect("any bytes describe a device");
                assert!(found.process != Some(0), "there is no such process");
            }
        }
    }
    Ok(())
}

fn geometry(input: &mut Unstructured<'_>) -> Result<Geometry> {
    let block_bytes: u32 = *input.choose(&[512, 1024, 4096])?;
    let bytes = |blocks: u64| blocks * u64::from(block_bytes);
    Ok(Geometry {
        nsid: NSID,
        size_bytes: bytes(input.int_in_range(1..=64)?),
        block_bytes,
        request_bytes_max: bytes(input.int_in_range(1..=8)?),
        discard_bytes_max: bytes(input.int_in_range(0..=64)?),
        write_zeroes_bytes_max: bytes(input.int_in_range(0..=64)?),
        zeroes_deallocate: input.arbitrary()?,
        has_volatile_cache: input.arbitrary()?,
        is_read_only: input.ratio(1, 8)?,
    })
}

impl Driver {
    /// Describes a request, mostly as the block layer would, and says that it has come.
    fn request(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let tag =
            if input.ratio(15, 16)? { input.int_in_range(0..=DEPTH - 1)? } else { input.arbitrary()? };
        let flags = if input.ratio(1, 4)? { input.arbitrary::<u32>()? & !0xff } else { 0 };
        let operation: u32 = *input.choose(&[0, 1, 2, 3, 5, 1, 0, 4, 0xff])?;
        let of_block = u64::from(self.geometry.block_bytes) / SECTOR_BYTES;
        let (sectors, start) = match input.int_in_range(0..=7)? {
            0 => (input.arbitrary()?, input.arbitrary()?),
            1 => (input.int_in_range(0..=80)?, input.int_in_range(0..=80)?),
            2 => (input.int_in_range(0..=80)?, u64::MAX - input.int_in_range(0..=80)?),
            _ => (
                input.int_in_range(0..=9u32)? * of_block as u32,
                input.int_in_range(0..=self.geometry.size_bytes / SECTOR_BYTES / of_block)? * of_block,
            ),
        };
        // The page has descriptors beyond the last tag.
        if tag < 128 {
            self.model.describe(tag, operation | flags, sectors, start).expect("it is in the page");
        }
        self.complete(tag, 0, input.ratio(7, 8)?);
        Ok(())
    }

    /// Completes a command, of which the driver may have none.
    fn complete(&mut self, tag: u16, result: i32, succeeds: bool) {
        let geometry = self.geometry;
        let expected = self.data.get(usize::from(tag)).cloned().unwrap_or_default();
        let fill = 0xa0 ^ tag as u8 ^ (self.ended as u8);
        let mut performed = None;
        let answer = self.model.complete(tag, result, |entry, data| {
            perform(entry, data, &geometry, &expected, fill);
            performed = Some((entry.opcode, data.len()));
            succeeds
        });
        let had_command = self.has_command.get(usize::from(tag)).copied().unwrap_or(false);
        assert_eq!(
            answer.is_some(),
            had_command && result == 0,
            "a command has one answer, and no other has one"
        );
        assert!(performed.is_none() || answer.is_some(), "what is not answered is not begun");
        if had_command && result != 0 {
            self.has_command[usize::from(tag)] = false;
            self.ended += 1;
        }
        assert_eq!(self.model.is_over(), self.ended == usize::from(DEPTH));
        if let Some(answer) = answer {
            let is_done = performed.is_some() && succeeds;
            let is_answer = if is_done { answer >= 0 } else { (-4095..0).contains(&answer) };
            assert!(is_answer, "{answer} after {performed:?}");
            // Only a read that has succeeded changes data, which is its tag's.
            if let (Some((READ, length)), true) = (performed, is_done) {
                assert_eq!(answer as usize, length, "all of it was read");
                self.data[usize::from(tag)][..length].fill(fill);
            }
        }
        self.compare();
    }

    fn compare(&self) {
        let mut found = vec![0; DATA_BYTES];
        for (tag, data) in (0..).zip(&self.data) {
            self.model.take(tag, &mut found).expect("each tag has data");
            assert!(found == *data, "data of tag {tag}");
        }
    }
}

/// Opcode of Read in the NVM command set.
const READ: u8 = 0x02;

/// Does a command as a target would: what it covers lies within the namespace.
fn perform(entry: &SubmissionEntry, data: &mut [u8], geometry: &Geometry, expected: &[u8], fill: u8) {
    assert_eq!(entry.nsid.get(), NSID);
    let block_bytes = u64::from(geometry.block_bytes);
    let inside = |start: u64, blocks: u32, bytes_max: u64| {
        let bytes = u64::from(blocks) * block_bytes;
        assert!(blocks > 0 && bytes <= bytes_max, "{blocks} blocks");
        let end = start.checked_add(blocks.into()).expect("no block is beyond 64 bits");
        assert!(end <= geometry.size_bytes / block_bytes, "{blocks} blocks from {start} on");
        bytes as usize
    };
    let command = IoCommand::decode(entry).expect("a command of the namespace");
    assert!(!geometry.is_read_only || matches!(command, IoCommand::Read { .. } | IoCommand::Flush));
    match command {
        IoCommand::Read { start, blocks, .. } => {
            assert_eq!(data.len(), inside(start, blocks, geometry.request_bytes_max));
            data.fill(fill);
        }
        IoCommand::Write { start, blocks, .. } => {
            assert_eq!(data.len(), inside(start, blocks, geometry.request_bytes_max));
            assert!(data == &expected[..data.len()], "the data is that of the tag");
        }
        IoCommand::WriteZeroes { start, blocks, deallocate, .. } => {
            assert!(data.is_empty() && (geometry.zeroes_deallocate || !deallocate));
            inside(start, blocks, geometry.write_zeroes_bytes_max);
        }
        IoCommand::DatasetManagement { ranges, deallocate } => {
            assert!(ranges == 1 && deallocate && data.len() == 16);
            let blocks = u32::from_le_bytes(data[4..8].try_into().expect("four bytes"));
            let start = u64::from_le_bytes(data[8..].try_into().expect("eight bytes"));
            inside(start, blocks, geometry.discard_bytes_max);
        }
        IoCommand::Flush => assert!(data.is_empty()),
        other => panic!("the block layer has no {other:?}"),
    }
}

/// Parameters of a device for this namespace, as the driver has them (`ublk_params`).
fn usual_parameters(geometry: &Geometry) -> [u8; 64] {
    let mut bytes = [0; 64];
    let sectors = |bytes: u64| ((bytes / SECTOR_BYTES) as u32).to_le_bytes();
    bytes[0] = 60;
    bytes[4] = 3;
    bytes[8] = u8::from(geometry.is_read_only) | u8::from(geometry.has_volatile_cache) << 2;
    bytes[12] = geometry.block_bytes.trailing_zeros() as u8;
    bytes[16..20].copy_from_slice(&sectors(geometry.request_bytes_max));
    bytes[24..32].copy_from_slice(&(geometry.size_bytes / SECTOR_BYTES).to_le_bytes());
    bytes[48..52].copy_from_slice(&sectors(geometry.discard_bytes_max));
    bytes[52..56].copy_from_slice(&sectors(geometry.write_zeroes_bytes_max));
    bytes
}

/// A device with these parameters goes on only if it asks for nothing that the namespace cannot do.
fn behind(geometry: &Geometry, parameters: &[u8]) {
    let Some(behind) = DriverModel::behind(*geometry, parameters) else { return };
    assert_eq!((behind.nsid, behind.block_bytes), (geometry.nsid, geometry.block_bytes));
    assert!(behind.request_bytes_max <= geometry.request_bytes_max);
    assert!(behind.discard_bytes_max == 0 || geometry.discard_bytes_max > 0);
    assert!(behind.write_zeroes_bytes_max <= geometry.write_zeroes_bytes_max);
    assert!(behind.has_volatile_cache || !geometry.has_volatile_cache, "a cache is flushed");
}
