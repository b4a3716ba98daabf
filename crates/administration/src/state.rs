//! The state file: what the target serves, kept so that a restart serves it again. How a file is kept is the directory's
//! concern, and what is served is not decided here.

use std::io;
use std::sync::Arc;

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, WriteProtection, write_down_former_uuids};
use private_folder::Replacement;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::state_directory::StateDirectory;

/// The version this program writes, and the newest it reads.
const VERSION: u32 = 2;
/// The version in which a UUID that was not configured followed from names and numbers.
const VERSION_OF_NAMES: u32 = 1;
const NAME: &str = "state.json";
/// Bytes of a state that is read: many times what a target with all that `limits` lets it have takes.
const BYTES_MAX: u64 = 1 << 30;

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

/// The state file in its directory.
#[derive(Debug)]
pub struct StateFile {
    directory: Arc<StateDirectory>,
}

impl StateFile {
    /// The state file in a directory that this process has taken.
    pub const fn new(directory: Arc<StateDirectory>) -> Self {
        Self { directory }
    }

    /// Takes the directory for this process; makes it when it is missing.
    #[cfg(test)]
    pub fn open(directory: &std::path::Path) -> Result<Self, Failure> {
        Ok(Self::new(Arc::new(StateDirectory::take(directory)?)))
    }

    /// Reads the last configuration; `None` if there is none.
    pub fn read(&self) -> Result<Option<FabricConfig>, Failure> {
        let path = self.directory.folder.path().join(NAME);
        let Some(text) = self.directory.folder.read(NAME, BYTES_MAX).map_err(Failure::failed)? else {
            return Ok(None);
        };
        read_text(&text).map(Some).map_err(|what| Failure::failed(format!("{}: {what}", path.display())))
    }

    /// Writes a state beside the one that counts, so that a full disk is found out before anything is changed.
    pub fn prepare(&self, fabric: &FabricConfig) -> io::Result<Replacement<'_>> {
        Ok(self.directory.folder.prepare(NAME, &write_text(fabric)?)?)
    }

    /// Makes `fabric` the state.
    pub fn write(&self, fabric: &FabricConfig) -> io::Result<()> {
        Ok(self.prepare(fabric)?.commit()?)
    }
}

/// Content of the file of this configuration.
pub fn write_text(fabric: &FabricConfig) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec_pretty(&Written { version: VERSION, fabric })
}

/// Reads the content of a state file.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn read_text(text: &[u8]) -> Result<FabricConfig, String> {
    let damaged = |error: serde_json::Error| {
        format!("it is damaged ({error}); put a copy in its place, or remove it and serve a file with -c")
    };
    let Versioned { version } = serde_json::from_slice(text).map_err(damaged)?;
    if version > VERSION {
        return Err(format!(
            "it was written by a newer selvedge (version {version}, this one knows {VERSION}); use that one"
        ));
    }
    if ![VERSION_OF_NAMES, VERSION].contains(&version) {
        return Err(format!("version {version} is none that there ever was; put a copy in its place"));
    }
    let Read { mut fabric, .. } = serde_json::from_slice(text).map_err(damaged)?;
    if version == VERSION_OF_NAMES {
        // What was lost at the last end anyway is another disk from now on.
        write_down_former_uuids(&mut fabric, |namespace| {
            !matches!(namespace.backend, BackendConfig::Memory { .. } | BackendConfig::Null { .. })
        });
    }
    fabric.check().map_err(|error| format!("it contradicts itself ({error}); put a copy in its place"))?;
    for namespace in fabric.subsystems.iter_mut().flat_map(|subsystem| &mut subsystem.namespaces) {
        // This is the restart it waited for.
        if namespace.write_protection == WriteProtection::UntilRestart {
            namespace.write_protection = WriteProtection::None;
            namespace.protected_by_host = false;
        }
    }
    Ok(fabric)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use engine::target::{KnownHost, NamespaceConfig, PortConfig, SubsystemConfig};

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
        assert_eq!(state.read(), Ok(Some(fabric("A"))));
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
            ("{\"version\": 3, \"something\": []}", "newer selvedge"),
            ("{\"version\": 0, \"fabric\": {}}", "none that there ever was"),
            (&twice, "contradicts itself"),
        ] {
            fs::write(folder.path().join(NAME), text).unwrap();
            let line = state.read().unwrap_err().line().unwrap();
            assert!(line.contains(expected) && line.contains(NAME), "{text}: {line}");
        }
    }

    #[test]
    fn disks_of_a_former_version_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder);
        let mut kept = fabric("A");
        let file = BackendConfig::File { path: "/disk".into(), size: None };
        kept.subsystems[0].namespaces.push(NamespaceConfig::new(2, file, 4096));
        let text = |version| serde_json::to_string(&Written { version, fabric: &kept }).unwrap();
        fs::write(folder.path().join(NAME), text(2)).unwrap();
        assert_eq!(state.read(), Ok(Some(kept.clone())));
        fs::write(folder.path().join(NAME), text(1)).unwrap();
        let read = state.read().unwrap().unwrap();
        let uuids: Vec<_> = read.subsystems[0].namespaces.iter().map(|namespace| namespace.uuid).collect();
        assert_eq!(uuids, [None, Some("105d92d9-9a1c-576a-b1f0-195f6a3500fb".parse().unwrap())]);
        // It is written down for good with the first state of this version.
        state.write(&read).unwrap();
        assert_eq!(state.read(), Ok(Some(read)));
    }

    #[test]
    fn protection_until_a_restart_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder);
        let mut protected = fabric("A");
        protected.subsystems[0].namespaces[0].write_protection = WriteProtection::UntilRestart;
        for by_host in [false, true] {
            protected.subsystems[0].namespaces[0].protected_by_host = by_host;
            state.write(&protected).unwrap();
            assert_eq!(state.read(), Ok(Some(fabric("A"))));
        }
    }

    #[test]
    fn a_namespace_whose_owner_was_not_kept_yet_is_the_operators() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder);
        // As it was written before there were owners.
        let text = r#"{ "version": 1, "fabric": {
            "ports": [{ "id": 1, "address": "127.0.0.1:4420" }],
            "subsystems": [{
                "nqn": "nqn.test:a", "serial": "A", "model": "Selvedge", "allow_any_host": true, "hosts": [],
                "namespaces": [{
                    "nsid": 1, "backend": { "file": { "path": "/srv/hosts/a.img", "size": 1048576 } },
                    "block_size": 4096, "uuid": "11111111-2222-3333-4444-555555555555", "ana_group": 1,
                    "visible": { "only": ["nqn.test:host"] }, "write_protection": "on", "created_by_host": true
                }],
                "storage": { "directory": "/srv/hosts", "bytes_max": 1073741824 }
            }]
        } }"#;
        fs::write(folder.path().join(NAME), text).unwrap();
        let fabric = state.read().unwrap().unwrap();
        let subsystem = &fabric.subsystems[0];
        let namespace = &subsystem.namespaces[0];
        assert!(namespace.created_by_host && namespace.owner.is_none());
        // Nor does any host lift a protection whose origin is unknown.
        assert!(!namespace.protected_by_host && namespace.host_write_protection.is_none());
        let storage = subsystem.storage.as_ref().unwrap();
        assert_eq!((storage.host_bytes_max(), storage.host_namespaces_max()), (1 << 29, 64));
        // It is written as it was read.
        state.write(&fabric).unwrap();
        assert_eq!(state.read(), Ok(Some(fabric)));
    }

    #[test]
    fn owners_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder);
        let mut owned = fabric("A");
        let host_id = uuid::Uuid::from_u128(7);
        let namespace = &mut owned.subsystems[0].namespaces[0];
        namespace.owner = Some(KnownHost { nqn: "nqn.test:host".to_owned(), host_id });
        namespace.host_write_protection = WriteProtection::On;
        (namespace.write_protection, namespace.protected_by_host) = (WriteProtection::On, true);
        state.write(&owned).unwrap();
        assert_eq!(state.read(), Ok(Some(owned.clone())));
        let without_id = KnownHost { nqn: "nqn.test:host".to_owned(), host_id: uuid::Uuid::nil() };
        owned.subsystems[0].namespaces[0].owner = Some(without_id);
        assert!(owned.check().is_err(), "a host without identifier owns nothing");
    }
}
