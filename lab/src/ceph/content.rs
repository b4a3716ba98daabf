//! What a host writes is what Ceph's own program finds in the image, and the other way round.

use super::ground::{Ground, same};
use super::target::said;

/// Several objects of an image, and not all of them whole.
const MIB: u64 = 34;

pub(super) fn written_is_exported(ground: &mut Ground) -> Result<(), String> {
    let target = ground.serve(&[&ground.image("written", MIB)?])?;
    let namespace = target.namespace(1)?;
    let content = ground.content(1, (MIB << 20) as usize);
    if namespace.size_bytes() != content.len() as u64 {
        return Err(format!("the namespace has {} bytes and not {MIB} MiB", namespace.size_bytes()));
    }
    namespace.write_at(0, &content).map_err(said)?;
    namespace.flush().map_err(said)?;
    same("rbd export", &ground.export("written")?, &content)?;
    let mut found = vec![0; content.len()];
    namespace.read_at(0, &mut found).map_err(said)?;
    same("read back", &found, &content)?;
    target.end()
}

pub(super) fn imported_is_read(ground: &mut Ground) -> Result<(), String> {
    let (path, content) = (ground.file("imported.img"), ground.content(2, (MIB << 20) as usize));
    std::fs::write(&path, &content).map_err(|error| format!("{}: {error}", path.display()))?;
    ground.cluster.rbd(&["import", "--no-progress", &path.display().to_string(), "rbd/imported"])?;
    let target = ground.serve(&[&ground.spec("imported")])?;
    let mut found = vec![0; content.len()];
    target.namespace(1)?.read_at(0, &mut found).map_err(said)?;
    same("read", &found, &content)
}

/// Writes of one block to many, in any order, over two queues, all of them read back by the bench itself.
pub(super) fn verified_is_exported(ground: &mut Ground) -> Result<(), String> {
    let target = ground.serve(&[&ground.image("verified", MIB)?])?;
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
    same("rbd export", &ground.export("verified")?, &found)
}

/// Blocks of 512 bytes and of 4096 are the same image.
pub(super) fn block_sizes_agree(ground: &mut Ground) -> Result<(), String> {
    let spec = ground.image("blocks", 8)?;
    let mut wanted = vec![0; 8 << 20];
    for (which, block) in [(3, 512), (4, 4096)] {
        let target = ground.serve(&[&format!("{spec},block={block}")])?;
        let namespace = target.namespace(1)?;
        if namespace.block_size() != block {
            return Err(format!("a block has {} bytes and not {block}", namespace.block_size()));
        }
        // One block, in the middle of an object, across two, and at the end.
        let block = u64::from(block);
        let places = [block, (4 << 20) - block, (8 << 20) - block];
        for (number, offset) in places.into_iter().enumerate() {
            let length = if number == 1 { 2 * block } else { block };
            let content = ground.content(which * 10 + number as u64, length as usize);
            namespace.write_at(offset, &content).map_err(said)?;
            wanted[offset as usize..][..content.len()].copy_from_slice(&content);
        }
        let mut found = vec![0; wanted.len()];
        namespace.read_at(0, &mut found).map_err(said)?;
        same(&format!("blocks of {block}"), &found, &wanted)?;
        target.end()?;
    }
    same("rbd export", &ground.export("blocks")?, &wanted)
}
