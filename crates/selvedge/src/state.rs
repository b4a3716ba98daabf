//! The state file: what the target serves, kept so that a restart serves it again. A new state is there whole or not at
//! all, whenever the machine stops; what is served is not decided here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use engine::target::{FabricConfig, WriteProtection};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The version this program writes, and the newest it reads.
const VERSION: u32 = 1;
const NAME: &str = "state.json";
const NEW_NAME: &str = "state.json.new";
const LOCK_NAME: &str = "lock";

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    fabric: &'a FabricConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "version")]
    _version: u32,
    fabric: FabricConfig,
}

/// The one field that every version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A directory for state, which belongs to this process until it ends.
#[derive(Debug)]
pub(crate) struct StateFile {
    directory: PathBuf,
    handle: File,
    _lock: File,
}

/// A state that is written, and takes the old one's place when it is committed.
#[must_use]
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    state: &'a StateFile,
}

impl StateFile {
    /// Takes the directory for this process; makes it when it is missing.
    pub(crate) fn open(directory: &Path) -> Result<Self, Failure> {
        let failed = |what: &str, error: &io::Error| {
            Failure::failed(format!("the state directory {} {what}: {error}", directory.display()))
        };
        fs::create_dir_all(directory).map_err(|error| failed("cannot be made", &error))?;
        // The working directory is nobody's to rely on for as long as a target runs.
        let directory = fs::canonicalize(directory).map_err(|error| failed("cannot be found", &error))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock =
            options.open(directory.join(LOCK_NAME)).map_err(|error| failed("cannot be written", &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Failure::failed(format!(
                    "the state directory {} is in use by another target; end that one, or choose another directory",
                    directory.display()
                )));
            }
            Err(error) => return Err(failed("cannot be locked", &error.into())),
        }
        let handle = File::open(&directory).map_err(|error| failed("cannot be opened", &error))?;
        Ok(Self { directory, handle, _lock: lock })
    }

    /// The directory, as an absolute path.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What was served last, if anything was.
    pub(crate) fn read(&self) -> Result<Option<FabricConfig>, Failure> {
        let path = self.directory.join(NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Failure::failed(format!("{} cannot be read: {error}", path.display())));
            }
        };
        parse(&text).map(Some).map_err(|what| Failure::failed(format!("{}: {what}", path.display())))
    }

    /// Writes a state beside the one that counts, so that a full disk is found out before anything is changed.
    pub(crate) fn prepare(&self, fabric: &FabricConfig) -> io::Result<Prepared<'_>> {
        let path = self.directory.join(NEW_NAME);
        let text = serde_json::to_vec_pretty(&Written { version: VERSION, fabric })?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(path)?;
        // Dropped on an error, it removes what there is of it.
        let prepared = Prepared { state: self };
        file.write_all(&text)?;
        file.sync_all()?;
        Ok(prepared)
    }

    /// Makes `fabric` the state.
    pub(crate) fn write(&self, fabric: &FabricConfig) -> io::Result<()> {
        self.prepare(fabric)?.commit()
    }
}

impl Prepared<'_> {
    /// Puts it in the old one's place. On an error the old one stands.
    pub(crate) fn commit(self) -> io::Result<()> {
        let directory = &self.state.directory;
        fs::rename(directory.join(NEW_NAME), directory.join(NAME))?;
        // Without this the new name may be lost with the power, and the old state be back.
        self.state.handle.sync_all()
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // After a commit there is none, and what cannot be removed is overwritten the next time.
        let _ = fs::remove_file(self.state.directory.join(NEW_NAME));
    }
}

fn parse(text: &str) -> Result<FabricConfig, String> {
    let damaged = |error: serde_json::Error| {
        format!("it is damaged ({error}); put a copy in its place, or remove it and serve a file with -c")
    };
    let Versioned { version } = serde_json::from_str(text).map_err(damaged)?;
    if version > VERSION {
        return Err(format!(
            "it was written by a newer selvedge (version {version}, this one knows {VERSION}); use that one"
        ));
    }
    if version != VERSION {
        return Err(format!("version {version} is none that there ever was; put a copy in its place"));
    }
    let Read { mut fabric, .. } = serde_json::from_str(text).map_err(damaged)?;
    fabric.check().map_err(|error| format!("it contradicts itself ({error}); put a copy in its place"))?;
    for namespace in fabric.subsystems.iter_mut().flat_map(|subsystem| &mut subsystem.namespaces) {
        // This is the restart it waited for.
        if namespace.write_protection == WriteProtection::UntilRestart {
            namespace.write_protection = WriteProtection::None;
        }
    }
    Ok(fabric)
}

#[cfg(test)]
mod tests {
    use engine::backend::BackendConfig;
    use engine::target::{NamespaceConfig, PortConfig, SubsystemConfig};

    use super::*;

    fn fabric(serial: &str) -> FabricConfig {
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 4420).into())],
            subsystems: vec![SubsystemConfig::new("nqn.test:a", serial, "Selvedge").with(vec![namespace])],
            ..FabricConfig::default()
        }
    }

    fn open(folder: &tempfile::TempDir) -> StateFile {
        StateFile::open(folder.path()).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder);
        assert_eq!(state.read(), Ok(None));
        state.write(&fabric("A")).unwrap();
        state.write(&fabric("B")).unwrap();
        drop(state);
        assert_eq!(open(&folder).read(), Ok(Some(fabric("B"))));
    }

    #[test]
    fn what_is_prepared_does_not_count_before_it_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder);
        state.write(&fabric("A")).unwrap();
        let prepared = state.prepare(&fabric("B")).unwrap();
        assert_eq!(state.read(), Ok(Some(fabric("A"))));
        drop(prepared);
        assert!(!folder.path().join(NEW_NAME).exists());
        assert_eq!(state.read(), Ok(Some(fabric("A"))));
    }

    #[test]
    fn two_targets_do_not_share_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder);
        let second = StateFile::open(folder.path()).unwrap_err();
        assert!(second.line().unwrap().contains("in use by another target"), "{second:?}");
        drop(state);
        open(&folder);
    }

    #[test]
    fn a_file_that_is_not_a_state_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder);
        let whole = serde_json::to_string(&Written { version: VERSION, fabric: &fabric("A") }).unwrap();
        let twice = whole.replace("\"ports\":[", "\"ports\":[{\"id\":1,\"address\":\"127.0.0.1:1\"},");
        for (text, expected) in [
            ("", "damaged"),
            (&whole[..whole.len() / 2], "damaged"),
            ("[]", "damaged"),
            ("{\"version\": 1}", "damaged"),
            ("{\"version\": 2, \"something\": []}", "newer selvedge"),
            ("{\"version\": 0, \"fabric\": {}}", "none that there ever was"),
            (&twice, "contradicts itself"),
        ] {
            fs::write(folder.path().join(NAME), text).unwrap();
            let line = state.read().unwrap_err().line().unwrap();
            assert!(line.contains(expected) && line.contains(NAME), "{text}: {line}");
        }
    }

    #[test]
    fn protection_until_a_restart_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder);
        let mut protected = fabric("A");
        protected.subsystems[0].namespaces[0].write_protection = WriteProtection::UntilRestart;
        state.write(&protected).unwrap();
        assert_eq!(state.read(), Ok(Some(fabric("A"))));
    }
}
