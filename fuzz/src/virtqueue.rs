//! A guest of any kind: regions of memory, rings, descriptors and requests that are mostly as a driver has them, memory that is cut
//! short, and any bytes in between. Nothing ends the process, and nothing is written outside of the shared memory.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use arbitrary::{Result, Unstructured};
use attach::{GuestModel, HandedRegion};
use rustix::fs::{MemfdFlags, memfd_create};

const PAGE: u64 = 4096;
/// Pages that are shared. One before and one behind them are not.
const PAGES: u64 = 16;
/// Content of the pages that are not shared.
const CANARY: u8 = 0xc5;
/// Address of the memory in the front end.
const HERE: u64 = 0x7000_0000_0000;
/// Places of the tables, of headers and of data, in the guest's memory.
const AVAILABLE: u64 = PAGE;
const USED: u64 = 2 * PAGE;
const HEADERS: u64 = 3 * PAGE;
const DATA: u64 = 4 * PAGE;

/// Plays what the bytes say.
pub fn check(bytes: &[u8]) {
    // Too few bytes for a choice are a short life.
    let _ = play(&mut Unstructured::new(bytes));
}

struct Guest {
    model: GuestModel,
    file: File,
    /// The front end keeps its file as long as it says.
    is_whole: bool,
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory"));
    let page = [CANARY; PAGE as usize];
    [0, (PAGES + 1) * PAGE].into_iter().for_each(|at| file.write_all_at(&page, at).expect("memory"));
    let mut guest = Guest { model: GuestModel::new(), file, is_whole: true };
    // Most guests begin as they should.
    if input.ratio(7, 8)? {
        let shared = guest.model.share(vec![(region(0, PAGES), guest.copy())]);
        shared.expect("whole pages of memory are accepted");
        guest.model.start(8, tables(), 0, input.arbitrary()?).expect("rings in memory are accepted");
    }
    for _ in 0..input.int_in_range(0..=32)? {
        step(input, &mut guest)?;
    }
    guest.model.serve();
    if guest.is_whole {
        for at in [0, (PAGES + 1) * PAGE] {
            let mut found = [0; PAGE as usize];
            guest.file.read_exact_at(&mut found, at).expect("memory");
            assert!(found == page, "memory that is not shared was written");
        }
    }
    Ok(())
}

fn step(input: &mut Unstructured<'_>, guest: &mut Guest) -> Result<()> {
    match input.int_in_range(0..=15)? {
        0..=3 => guest.request(input)?,
        4 | 5 => guest.descriptor(input)?,
        6 => {
            let (at, value) = (input.int_in_range(0..=9u64)?, input.arbitrary::<u16>()?);
            guest.write(AVAILABLE + at * 2, &value.to_le_bytes());
        }
        7 => {
            let (at, bytes) = (input.int_in_range(0..=PAGES * PAGE)?, input.arbitrary::<[u8; 16]>()?);
            guest.write(at, &bytes);
        }
        8 => {
            let (entries, next) = (1 << input.int_in_range(0..=11)?, input.arbitrary::<u16>()?);
            let mut tables = tables();
            if input.ratio(1, 2)? {
                tables[input.choose_index(3)?] = HERE.wrapping_add(number(input)?);
            }
            let _ = guest.model.start(entries, tables, next, input.arbitrary()?);
        }
        9 => {
            let (first, second) = (input.int_in_range(1..=PAGES)?, input.int_in_range(1..=PAGES)?);
            let regions = vec![(region(0, first), guest.copy()), (region(first, second), guest.copy())];
            // Both end before the page that is not shared, or reach into it.
            let is_within = first + second <= PAGES;
            if guest.model.share(regions).is_ok() {
                guest.is_whole &= is_within;
            }
        }
        10 => {
            let region = HandedRegion {
                guest: number(input)?,
                front_end: number(input)?,
                size: number(input)?,
                offset: number(input)?,
            };
            let added = guest.model.add(&region, guest.copy());
            // A region like that may reach into the pages that are not shared otherwise.
            guest.is_whole &= added.is_err();
        }
        11 => {
            let _ = guest.model.remove(&region(0, input.int_in_range(1..=PAGES)?));
        }
        12 => {
            let _ = guest.file.set_len(input.int_in_range(0..=PAGES + 2)? * PAGE);
            guest.is_whole = false;
        }
        _ => {
            guest.model.serve();
        }
    }
    Ok(())
}

impl Guest {
    fn copy(&self) -> File {
        self.file.try_clone().expect("a descriptor")
    }

    /// Writes into the guest's memory, as far as it goes.
    fn write(&self, at: u64, bytes: &[u8]) {
        let length = bytes.len().min((PAGES * PAGE).saturating_sub(at) as usize);
        self.file.write_all_at(&bytes[..length], PAGE + at).expect("memory");
    }

    fn describe(&self, table: u64, at: u16, (address, length, flags, next): (u64, u32, u16, u16)) {
        let bytes =
            [&address.to_le_bytes()[..], &length.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()]
                .concat();
        self.write(table.wrapping_add(u64::from(at) * 16), &bytes);
    }

    /// A request that a driver could make, mostly, from descriptor 0 on.
    fn request(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let kind: u32 = *input.choose(&[0, 1, 4, 8, 11, 13, 99])?;
        let sector = if input.ratio(3, 4)? { input.int_in_range(0..=2047)? } else { number(input)? };
        let header = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        self.write(HEADERS, &header);
        let is_filled = matches!(kind, 0 | 8);
        let length =
            if input.ratio(3, 4)? { input.int_in_range(0..=64)? * 512 } else { input.arbitrary()? };
        let address = if input.ratio(3, 4)? { DATA } else { number(input)? };
        self.describe(0, 0, (HEADERS, 16, 1, 1));
        self.describe(0, 1, (address, length, if is_filled { 3 } else { 1 }, 2));
        self.describe(0, 2, (HEADERS + 64, 1, 2, 0));
        self.announce(0)
    }

    /// A descriptor with any content, in the table or in one that it refers to.
    fn descriptor(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let table = *input.choose(&[0, DATA])?;
        let (at, flags) = (input.int_in_range(0..=8)?, input.int_in_range(0..=7)?);
        let next = if input.ratio(7, 8)? { input.int_in_range(0..=8)? } else { input.arbitrary()? };
        let length = if input.ratio(1, 2)? { input.int_in_range(0..=8)? * 16 } else { input.arbitrary()? };
        self.describe(table, at, (number(input)?, length, flags, next));
        self.announce(input.int_in_range(0..=8)?)
    }

    /// Puts a request into the available ring, by its first descriptor.
    fn announce(&mut self, head: u16) -> Result<()> {
        let mut index = [0; 2];
        // A file that was cut short has none.
        if self.file.read_exact_at(&mut index, PAGE + AVAILABLE + 2).is_err() {
            return Ok(());
        }
        let index = u16::from_le_bytes(index);
        self.write(AVAILABLE + 4 + u64::from(index % 8) * 2, &head.to_le_bytes());
        self.write(AVAILABLE + 2, &index.wrapping_add(1).to_le_bytes());
        Ok(())
    }
}

/// Region of whole pages from a page of the guest's memory on.
const fn region(first: u64, pages: u64) -> HandedRegion {
    HandedRegion {
        guest: first * PAGE,
        front_end: HERE + first * PAGE,
        size: pages * PAGE,
        offset: (first + 1) * PAGE,
    }
}

const fn tables() -> [u64; 3] {
    [HERE, HERE + AVAILABLE, HERE + USED]
}

/// A number that matters for some check: small, of pages, at an end, or any.
fn number(input: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match input.int_in_range(0..=4)? {
        0 => input.int_in_range(0..=64)?,
        1 => input.int_in_range(0..=PAGES + 2)? * PAGE,
        2 => PAGES * PAGE - input.int_in_range(0..=64)?,
        3 => u64::MAX - input.int_in_range(0..=PAGE)?,
        _ => input.arbitrary()?,
    })
}
