//! Formats of image files, in which a program keeps a disk beside tables of its own. Served as it is, such a file is to hosts a disk
//! of something else, and what they write destroys the one in it. Nothing of a format but its mark is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Formats by qemu-img's names, with the place and the bytes of their marks.
const MARKS: [(&str, usize, &[u8]); 8] = [
    ("qcow2", 0, b"QFI\xfb"),
    ("qed", 0, b"QED\0"),
    ("vdi", 64, b"\x7f\x10\xda\xbe"),
    ("vhdx", 0, b"vhdxfile"),
    ("vmdk", 0, b"KDMV"),
    ("vmdk", 0, b"COWD"),
    ("vmdk", 0, b"# Disk DescriptorFile"),
    ("vpc", 0, b"conectix"),
];
/// Bytes of a file in which all marks are.
const HEAD_BYTES: usize = 512;

/// The format of this file or device, if it has one. It is read by way of the page cache, as blkid(8) does.
pub(super) fn of(path: &Path) -> io::Result<Option<&'static str>> {
    let mut head = [0; HEAD_BYTES];
    let length = File::open(path)?.read_at(&mut head, 0)?;
    Ok(marked(&head[..length]))
}

/// The format of a file that begins like this.
fn marked(head: &[u8]) -> Option<&'static str> {
    let mut marks = MARKS.iter();
    let found = marks.find(|(_, at, mark)| head.get(*at..).is_some_and(|rest| rest.starts_with(mark)));
    found.map(|(name, _, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_in_its_place_only() {
        for (name, at, mark) in MARKS {
            let mut head = vec![0; at];
            head.extend(mark);
            assert_eq!(marked(&head), Some(name));
            head.insert(0, 0);
            assert_eq!(marked(&head), None, "{name}");
        }
    }

    #[test]
    fn a_file_may_be_short() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        for (content, format) in [(&b"QFI\xfb\0\0\0\x03"[..], Some("qcow2")), (b"QFI", None), (b"", None)] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(of(&path).unwrap(), format);
        }
    }
}
