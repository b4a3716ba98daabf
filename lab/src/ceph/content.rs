//! What a host writes is what Ceph's own program finds in the image, and the other way round.

use super::target::said;
use super::testbed::{Testbed, same};

/// Several objects of an image, and not all of them whole.
const MIB: u64 = 34;

pub(super) fn written_is_exported(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&testbed.image("written", MIB)?])?;
    let namespace = target.namespace(1)?;
    let content = testbed.content(1, (MIB << 20) as usize);
    if namespace.size_bytes() != content.len() as u64 {
        return Err(format!("the namespace has {} bytes and not {MIB} MiB", namespace.size_bytes()));
    }
    namespace.write_at(0, &content).map_err(said)?;
    namespace.flush().map_err(said)?;
    same("rbd export", &testbed.export("written")?, &content)?;
    let mut found = vec![0; content.len()];
    namespace.read_at(0, &mut found).map_err(said)?;
    same("read back", &found, &content)?;
    target.end()
}

pub(super) fn imported_is_read(testbed: &mut Testbed) -> Result<(), String> {
    let (path, content) = (testbed.file("imported.img"), testbed.content(2, (MIB << 20) as usize));
    std::fs::write(&path, &content).map_err(|error| format!("{}: {error}", path.display()))?;
    testbed.cluster.rbd(&["import", "--no-progress", &path.display().to_string(), "rbd/imported"])?;
    let target = testbed.serve(&[&testbed.spec("imported")])?;
    let mut found = vec![0; content.len()];
    target.namespace(1)?.read_at(0, &mut found).map_err(said)?;
    same("read", &found, &content)
}

/// Writes of one block to many, in any order, over two queues, all of them read back by the bench itself.
pub(super) fn verified_is_exported(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&testbed.image("verified", MIB)?])?;
    for (bs, depth) in [("4k", "16"), ("64k", "4"), ("1m", "2")] {
        let words = ["--rw", "randwrite", "--bs", bs, "--iodepth", depth, "--numjobs", "2", "-i", "2"];
        let report =
            target.bench(1, &[&words[..], &["--size", "16m", "--verify", "--fsync", "64"]].concat())?;
        let verify = &report["verify"];
        println!(
            "        {bs}: {} writes, {} blocks read back",
            verify["writes"], verify["blocks_read_back"]
        );
        if report["ended"] != "complete" || verify["blocks_wrong"] != 0 {
            return Err(format!("{bs}: {report}"));
        }
    }
    let mut found = vec![0; (MIB << 20) as usize];
    target.namespace(1)?.read_at(0, &mut found).map_err(said)?;
    same("rbd export", &testbed.export("verified")?, &found)
}

/// Blocks of 512 bytes and of 4096 are the same image.
pub(super) fn block_sizes_agree(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.image("blocks", 8)?;
    let mut wanted = vec![0; 8 << 20];
    for (which, block) in [(3, 512), (4, 4096)] {
        let target = testbed.serve(&[&format!("{spec},block={block}")])?;
        let namespace = target.namespace(1)?;
        if namespace.block_size() != block {
            return Err(format!("a block has {} bytes and not {block}", namespace.block_size()));
        }
        // One block, in the middle of an object, across two, and at the end.
        let block = u64::from(block);
        let places = [block, (4 << 20) - block, (8 << 20) - block];
        for (number, offset) in places.into_iter().enumerate() {
            let length = if number == 1 { 2 * block } else { block };
            let content = testbed.content(which * 10 + number as u64, length as usize);
            namespace.write_at(offset, &content).map_err(said)?;
            wanted[offset as usize..][..content.len()].copy_from_slice(&content);
        }
        let mut found = vec![0; wanted.len()];
        namespace.read_at(0, &mut found).map_err(said)?;
        same(&format!("blocks of {block}"), &found, &wanted)?;
        target.end()?;
    }
    same("rbd export", &testbed.export("blocks")?, &wanted)
}
