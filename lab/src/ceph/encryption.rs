//! Images that Ceph's library encrypts: hosts have what they have written, and the cluster has nothing that could be read.

use std::os::unix::fs::OpenOptionsExt as _;

use std::io::Write as _;

use engine::initiator::Volume;

use super::refusals::refused;
use super::target::{Target, said};
use super::testbed::{OBJECT_BYTES, Testbed, same, soon};

/// The larger of both headers takes 16 of them.
const MIB: u64 = 32;

/// An image in this format, and what `--namespace` takes for it.
fn encrypted(testbed: &Testbed, name: &str, format: &str, passphrase: &str) -> Result<String, String> {
    let spec = testbed.image(name, MIB)?;
    let path = testbed.file(&format!("{name}.pass"));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    file.as_mut().map_err(said)?.write_all(passphrase.as_bytes()).map_err(said)?;
    let path = path.display().to_string();
    testbed.cluster.rbd(&["encryption", "format", &format!("rbd/{name}"), format, &path])?;
    Ok(format!("{spec},{format}={path}"))
}

fn whole(volume: &Volume) -> Result<Vec<u8>, String> {
    let mut found = vec![0; usize::try_from(volume.info().size_bytes()).map_err(said)?];
    volume.read_at(0, &mut found).map_err(said)?;
    Ok(found)
}

/// Writes of a host can be read again, from another process too, and only there: in both formats,
/// after a snapshot, with blocks freed and made zeroes.
pub(super) fn images_are_encrypted(testbed: &mut Testbed) -> Result<(), String> {
    for format in ["luks1", "luks2"] {
        let name = &format!("sealed-{format}");
        let spec = encrypted(testbed, name, format, "a passphrase\n")?;
        let target = testbed.serve(&[&spec])?;
        // Deriving the key takes a processor a second or more, as LUKS means it to.
        let (volume, took) = soon("the image", || target.namespace(1))?;
        println!("        {format}: served after {} ms", (target.start + took).as_millis());
        let bytes = whole(&volume)?.len();
        let header = (usize::try_from(MIB).map_err(said)? << 20).checked_sub(bytes);
        println!("        {format}: a header of {} MiB", header.unwrap_or_default() >> 20);
        if header.is_none_or(|header| header == 0) {
            return Err(format!("hosts have {bytes} bytes"));
        }
        let mut wanted = testbed.content(60, bytes);
        volume.write_at(0, &wanted).map_err(said)?;
        testbed.cluster.rbd(&["snap", "create", "--no-progress", &format!("rbd/{name}@then")])?;
        let before = wanted.clone();
        let (object, block) = (OBJECT_BYTES as usize, volume.block_size() as usize);
        volume.write_zeroes(0, OBJECT_BYTES, true).map_err(said)?;
        wanted[..object].fill(0);
        volume.write_zeroes((object + block) as u64, block as u64, false).map_err(said)?;
        wanted[object + block..][..block].fill(0);
        volume.deallocate(2 * OBJECT_BYTES, OBJECT_BYTES).map_err(said)?;
        wanted[2 * object..3 * object].fill(0);
        volume.write_at((3 * object - block) as u64, &before[..3 * block]).map_err(said)?;
        wanted[3 * object - block..][..3 * block].copy_from_slice(&before[..3 * block]);
        same("what was written", &whole(&volume)?, &wanted)?;
        target.end()?;
        let at_snapshot = spec.replace(name, &format!("{name}@then")).replace("@then.pass", ".pass");
        let target = testbed.serve(&[&spec, &at_snapshot])?;
        for (nsid, content) in [(1, &wanted), (2, &before)] {
            let (volume, _) = soon("the image in the new process", || target.namespace(nsid))?;
            same(&format!("namespace {nsid}"), &whole(&volume)?, content)?;
        }
        target.end()?;
        let raw = testbed.export(name)?;
        if raw.windows(64).step_by(16).any(|found| found == &before[before.len() - 64..]) {
            return Err("a block is in the cluster as the host wrote it".to_owned());
        }
    }
    Ok(())
}

/// A wrong passphrase, a wrong format, and a file that others may read: each is reported, and
/// nothing is served.
pub(super) fn only_by_the_passphrase(testbed: &mut Testbed) -> Result<(), String> {
    let spec = encrypted(testbed, "locked", "luks1", "right")?;
    let (image, file) = spec.rsplit_once("luks1=").ok_or("no option")?;
    let other = encrypted(testbed, "other-key", "luks1", "wrong")?;
    let (_, wrong) = other.rsplit_once("luks1=").ok_or("no option")?;
    refused(testbed, &format!("{image}luks1={wrong}"), &["rbd/locked", "the passphrase is another one"])?;
    refused(testbed, &format!("{image}luks2={file}"), &["rbd/locked", "in another format"])?;
    let plain = testbed.image("plain", MIB)?;
    refused(testbed, &format!("{plain},luks1={file}"), &["rbd/plain", "not encrypted"])?;
    std::fs::set_permissions(wrong, std::os::unix::fs::PermissionsExt::from_mode(0o644)).map_err(said)?;
    refused(testbed, &other, &[wrong, "is readable by other users"])?;
    // Without a passphrase it is what is in the cluster, header and all.
    let target: Target = testbed.serve(&[image.trim_end_matches(',')])?;
    let found = whole(&target.namespace(1)?)?;
    if found.len() as u64 == MIB << 20 && found.starts_with(b"LUKS") {
        Ok(())
    } else {
        Err("no header".to_owned())
    }
}
