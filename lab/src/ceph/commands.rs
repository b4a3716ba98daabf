//! Commands beside reading and writing: what they leave in the image, and what they say.

use engine::initiator::Volume;
use nvme::Status;

use super::target::said;
use super::testbed::{OBJECT_BYTES, Testbed, same};
use crate::remote::Remote;

const MIB: u64 = 16;
const BYTES: u64 = MIB << 20;
/// Increments of one counter by each of two hosts.
const INCREMENTS: u64 = 40;
/// A host that loses the race this often in a row has met a fault, not bad luck.
const BEATEN_MAX: u32 = 10_000;
/// Bit of the values a deallocated block may read as: zeroes (DLFEAT, bits 2:0 are 001b).
const READS_ZEROES: u8 = 1;

pub(super) fn zeroes_are_written(testbed: &mut Testbed) -> Result<(), String> {
    for (which, block) in [(20, 512), (21, 4096)] {
        let name = format!("zeroes-{block}");
        let target = testbed.serve(&[&format!("{},block={block}", testbed.image(&name, MIB)?)])?;
        let namespace = target.namespace(1)?;
        let mut wanted = filled(testbed, &namespace, which)?;
        // Less than an object, more than one, whole ones, and with leave to free them.
        let ranges = [
            (block, block, false),
            (OBJECT_BYTES - block, 2 * block, false),
            (OBJECT_BYTES + 3 * block, OBJECT_BYTES, true),
            (3 * OBJECT_BYTES, OBJECT_BYTES, true),
        ];
        for (offset, length, deallocate) in ranges {
            namespace.write_zeroes(offset, length, deallocate).map_err(said)?;
            wanted[offset as usize..][..length as usize].fill(0);
        }
        namespace.flush().map_err(said)?;
        let mut found = vec![0; wanted.len()];
        namespace.read_at(0, &mut found).map_err(said)?;
        same(&format!("blocks of {block} read"), &found, &wanted)?;
        same(&format!("blocks of {block} exported"), &testbed.export(&name)?, &wanted)?;
        target.end()?;
    }
    Ok(())
}

pub(super) fn deallocated_objects_are_gone(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&testbed.image("deallocated", MIB)?])?;
    let namespace = target.namespace(1)?;
    let mut wanted = filled(testbed, &namespace, 22)?;
    let before = testbed.objects("deallocated")?;
    namespace.deallocate(OBJECT_BYTES, 2 * OBJECT_BYTES).map_err(said)?;
    wanted[OBJECT_BYTES as usize..][..2 * OBJECT_BYTES as usize].fill(0);
    let after = testbed.objects("deallocated")?;
    if (before, after) != (4, 2) {
        return Err(format!("there were {before} objects and are {after}, not 4 and 2"));
    }
    let mut found = vec![0; wanted.len()];
    namespace.read_at(0, &mut found).map_err(said)?;
    same("read", &found, &wanted)?;
    // A deallocation of less than Ceph frees reads as the host was informed: zeroes, or the former
    // data.
    let block = namespace.block_size() as usize;
    namespace.deallocate(0, block as u64).map_err(said)?;
    namespace.read_at(0, &mut found).map_err(said)?;
    let must_be_zero = namespace.info().deallocate_features & 7 == READS_ZEROES;
    if must_be_zero || found[..block].iter().all(|byte| *byte == 0) {
        wanted[..block].fill(0);
    }
    same("one block", &found, &wanted)?;
    same("rbd export", &testbed.export("deallocated")?, &wanted)
}

pub(super) fn compare_tells_differences(testbed: &mut Testbed) -> Result<(), String> {
    for (which, block) in [(23, 512), (24, 4096)] {
        let spec = format!("{},block={block}", testbed.image(&format!("compared-{block}"), MIB)?);
        let target = testbed.serve(&[&spec])?;
        let namespace = target.namespace(1)?;
        let content = filled(testbed, &namespace, which)?;
        // One block, many, and across two objects.
        for (offset, length) in [(0, block), (block, 64 * block), (OBJECT_BYTES - block, 2 * block)] {
            let mut data = content[offset as usize..][..length as usize].to_vec();
            let place = format!("{length} bytes at {offset}, blocks of {block}");
            if !namespace.compare(offset, &data).map_err(said)? {
                return Err(format!("{place}: what is there compares as different"));
            }
            data[length as usize - 1] ^= 1;
            if namespace.compare(offset, &data).map_err(said)? {
                return Err(format!("{place}: one wrong bit compares as equal"));
            }
        }
        let mut found = vec![0; content.len()];
        namespace.read_at(0, &mut found).map_err(said)?;
        same("after comparing", &found, &content)?;
        target.end()?;
    }
    Ok(())
}

pub(super) fn pairs_compare_and_write(testbed: &mut Testbed) -> Result<(), String> {
    for (which, block) in [(25, 512), (26, 4096)] {
        let name = format!("pairs-{block}");
        let target = testbed.serve(&[&format!("{},block={block}", testbed.image(&name, MIB)?)])?;
        let mut wanted = filled(testbed, &target.namespace(1)?, which)?;
        let mut remote = target.remote(1)?;
        for (offset, length) in [(0, block), (3 * block, 8 * block), (OBJECT_BYTES - block, 2 * block)] {
            let place = format!("{length} bytes at {offset}, blocks of {block}");
            let range = offset as usize..(offset + length) as usize;
            let (old, new) = (wanted[range.clone()].to_vec(), testbed.content(which + 100, length as usize));
            let mut wrong = old.clone();
            wrong[length as usize - 1] ^= 1;
            pair(&mut remote, offset, [&wrong, &new], [COMPARE_FAILURE, ABORTED], &place)?;
            pair(&mut remote, offset, [&old, &new], [Status::SUCCESS; 2], &place)?;
            pair(&mut remote, offset, [&old, &old], [COMPARE_FAILURE, ABORTED], &place)?;
            wanted[range].copy_from_slice(&new);
        }
        remote.flush()?;
        same(&name, &testbed.export(&name)?, &wanted)?;
        drop(remote);
        target.end()?;
    }
    Ok(())
}

const COMPARE_FAILURE: Status = Status::COMPARE_FAILURE;
const ABORTED: Status = Status::ABORTED_FAILED_FUSED;

fn pair(
    remote: &mut Remote,
    offset: u64,
    data: [&[u8]; 2],
    wanted: [Status; 2],
    place: &str,
) -> Result<(), String> {
    let found = remote.compare_and_write(offset, data[0], data[1])?.map(Status::without_flags);
    if found == wanted {
        return Ok(());
    }
    Err(format!("{place}: {} and {} instead of {} and {}", found[0], found[1], wanted[0], wanted[1]))
}

/// Two hosts count in one block, each adding one if the other has not meanwhile.
pub(super) fn pairs_are_atomic(testbed: &mut Testbed) -> Result<(), String> {
    for block in [512, 4096] {
        let name = format!("counted-{block}");
        let target = testbed.serve(&[&format!("{},block={block}", testbed.image(&name, 4)?)])?;
        let target = &target;
        let counted: Result<Vec<u32>, String> = std::thread::scope(|scope| {
            // A queue belongs to the thread that works with it.
            let hosts = [(); 2].map(|()| scope.spawn(move || count(&mut target.remote(1)?, block)));
            hosts.into_iter().map(|host| host.join().map_err(|_| "a host ended".to_owned())?).collect()
        });
        let beaten: u32 = counted?.iter().sum();
        println!("        blocks of {block}: {} pairs, {beaten} came too late", 2 * INCREMENTS);
        let found = u64::from_le_bytes(testbed.export(&name)?[..8].try_into().map_err(said)?);
        if found != 2 * INCREMENTS {
            return Err(format!(
                "blocks of {block}: {} increments were said to be done, {found} are",
                2 * INCREMENTS
            ));
        }
    }
    Ok(())
}

/// Number of attempts in which the other host was faster.
fn count(remote: &mut Remote, block: usize) -> Result<u32, String> {
    let (mut old, mut beaten, mut done) = (vec![0; block], 0, 0);
    while done < INCREMENTS {
        remote.read(0, &mut old)?;
        let mut new = old.clone();
        let counter = u64::from_le_bytes(old[..8].try_into().map_err(said)?) + 1;
        new[..8].copy_from_slice(&counter.to_le_bytes());
        // The whole block changes, so that a torn one is noticed.
        new[8..].fill(counter as u8);
        match remote.compare_and_write(0, &old, &new)?.map(Status::without_flags) {
            [first, second] if first.is_success() && second.is_success() => done += 1,
            [COMPARE_FAILURE, ABORTED] if beaten < BEATEN_MAX => beaten += 1,
            other => return Err(format!("increment {done}: {} and {}", other[0], other[1])),
        }
    }
    Ok(beaten)
}

/// Durable data outlives a target that is killed at once.
pub(super) fn durable_outlives_the_target(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&testbed.image("durable", MIB)?])?;
    let namespace = target.namespace(1)?;
    let half = (BYTES / 2) as usize;
    let content = testbed.content(27, BYTES as usize);
    namespace.write_at(0, &content[..half]).map_err(said)?;
    namespace.flush().map_err(said)?;
    namespace.write_durable_at(half as u64, &content[half..]).map_err(said)?;
    target.kill();
    same("rbd export", &testbed.export("durable")?, &content)
}

/// Fills the whole namespace, and says with what.
fn filled(testbed: &Testbed, namespace: &Volume, which: u64) -> Result<Vec<u8>, String> {
    let content = testbed.content(which, namespace.size_bytes() as usize);
    namespace.write_at(0, &content).map_err(said)?;
    Ok(content)
}
