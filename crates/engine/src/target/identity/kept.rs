//! Identities that nothing gives, made once and kept in the state directory: the machine's where it has none, and those of
//! files and devices that nothing distinguishes from others. What has an identity of its own is not here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use private_folder::PrivateFolder;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::machine_id::{MachineId, random_uuid};
use crate::limits::{IDENTITIES_FILE_BYTES_MAX, IDENTITIES_KEPT_MAX};

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;
const NAME: &str = "identities.json";

/// The file in a state directory.
#[derive(Clone, Debug)]
pub(crate) struct KeptIdentities {
    directory: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    /// Machine identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<Uuid>,
    /// UUIDs of files and devices, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    places: BTreeMap<String, Uuid>,
}

impl KeptIdentities {
    /// Opens the store in this directory, which belongs to this process.
    pub(crate) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Machine identity, if one was ever created.
    pub(crate) fn machine(&self) -> io::Result<Option<MachineId>> {
        Ok(self.read()?.machine.map(MachineId::from_uuid))
    }

    /// Machine identity, created if there is none yet.
    pub(crate) fn make_machine(&self) -> io::Result<MachineId> {
        let mut content = self.read()?;
        if let Some(machine) = content.machine {
            return Ok(MachineId::from_uuid(machine));
        }
        let machine = MachineId::random();
        content.machine = Some(machine.as_uuid());
        self.write(&content)?;
        Ok(machine)
    }

    /// The UUID of what is at this path; it is made if there is none yet.
    pub(crate) fn place(&self, path: &Path) -> io::Result<Uuid> {
        let mut content = self.read()?;
        let path = path.to_string_lossy().into_owned();
        if let Some(known) = content.places.get(&path) {
            return Ok(*known);
        }
        if content.places.len() >= IDENTITIES_KEPT_MAX {
            let what = format!(
                "it has {IDENTITIES_KEPT_MAX} identities already; remove those of files that are gone"
            );
            return Err(self.wrong(what));
        }
        let made = random_uuid();
        content.places.insert(path, made);
        self.write(&content)?;
        Ok(made)
    }

    fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    fn wrong(&self, what: impl std::fmt::Display) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", self.path().display()))
    }

    fn read(&self) -> io::Result<Content> {
        let folder = PrivateFolder::make(&self.directory).map_err(io::Error::other)?;
        let Some(text) = folder.read(NAME, IDENTITIES_FILE_BYTES_MAX).map_err(io::Error::other)? else {
            return Ok(Content::default());
        };
        let damaged = |error| {
            self.wrong(format!(
                "it is damaged ({error}); restore it, or remove it and have hosts see other disks"
            ))
        };
        let content: Content = serde_json::from_slice(&text).map_err(damaged)?;
        if content.version != VERSION {
            let version = content.version;
            return Err(
                self.wrong(format!("it has version {version}, and this program knows {VERSION} only"))
            );
        }
        Ok(content)
    }

    /// Puts another content in its place, whole or not at all.
    fn write(&self, content: &Content) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&Content {
            version: VERSION,
            machine: content.machine,
            places: content.places.clone(),
        })?;
        let folder = PrivateFolder::make(&self.directory).map_err(io::Error::other)?;
        folder.replace(NAME, &text).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_made_once_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = KeptIdentities::of(folder.path());
        assert_eq!(kept.machine().expect("empty"), None);
        let machine = kept.make_machine().expect("writes");
        let disk = kept.place(Path::new("/a/disk")).expect("writes");
        let other = kept.place(Path::new("/a/other")).expect("writes");
        let again = KeptIdentities::of(folder.path());
        assert_eq!(again.machine().expect("reads"), Some(machine));
        assert_eq!(again.make_machine().expect("reads"), machine);
        assert_eq!(again.place(Path::new("/a/disk")).expect("reads"), disk);
        assert_ne!(disk, other);
    }

    #[test]
    fn a_damaged_file_is_not_replaced_by_new_identities() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = KeptIdentities::of(folder.path());
        kept.make_machine().expect("writes");
        let whole = fs::read(folder.path().join(NAME)).expect("there");
        for (bytes, expected) in [
            (&whole[..whole.len() / 2], "damaged"),
            (br#"{"version": 2}"#.as_slice(), "version 2"),
            (b"".as_slice(), "damaged"),
            (vec![b' '; IDENTITIES_FILE_BYTES_MAX as usize + 1].as_slice(), "more than"),
        ] {
            fs::write(folder.path().join(NAME), bytes).expect("writes");
            let error = kept.make_machine().expect_err("damaged").to_string();
            assert!(error.contains(expected) && error.contains(NAME), "{error}");
            assert_eq!(fs::read(folder.path().join(NAME)).expect("there"), bytes);
        }
    }

    #[test]
    fn there_is_a_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = KeptIdentities::of(folder.path());
        let places = (0..IDENTITIES_KEPT_MAX).map(|number| (number.to_string(), Uuid::nil())).collect();
        kept.write(&Content { version: VERSION, machine: None, places }).expect("writes");
        assert!(kept.place(Path::new("one more")).expect_err("full").to_string().contains("identities"));
        assert!(kept.place(Path::new("1")).is_ok());
    }
}
