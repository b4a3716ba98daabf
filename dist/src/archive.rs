//! Archives that are the same whenever they are made: sorted, of one date, everything owned by root.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};

use crate::contents::{Entry, Kind};

/// A tar of `entries`, each name with `prefix` before it.
pub(crate) fn tar<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    prefix: &str,
    date: u64,
) -> Result<Vec<u8>, String> {
    let mut tar = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_mtime(date);
        header.set_uid(u64::from(entry.owner));
        header.set_gid(u64::from(entry.owner));
        if entry.owner == 0 {
            header.set_username("root").and_then(|()| header.set_groupname("root")).map_err(said)?;
        }
        let name = format!("{prefix}{}", entry.path);
        match &entry.kind {
            Kind::Folder => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_size(0);
                tar.append_data(&mut header, format!("{name}/"), std::io::empty()).map_err(said)?;
            }
            Kind::File(bytes) => {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_size(bytes.len() as u64);
                tar.append_data(&mut header, name, &bytes[..]).map_err(said)?;
            }
            Kind::Link(to) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                tar.append_link(&mut header, name, to).map_err(said)?;
            }
        }
    }
    tar.into_inner().map_err(said)
}

/// Compressed, without a name or a date.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(bytes).map_err(said)?;
    gzip.finish().map_err(said)
}

fn said(error: std::io::Error) -> String {
    error.to_string()
}
