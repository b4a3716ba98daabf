//! Reservations on disk, for namespaces where they outlive the target: one file each, always whole, never
//! half written. What reservations mean is `reservation`'s; a reactor does not wait for a disk, so none of
//! this is called on one.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{fs, io};

use private_folder::{PrivateFileError, PrivateFolder};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::impossible_state::ImpossibleState;
use super::record::{RegistrantRecord, ReservationRecord, VERSION_OF_NAMES};
use super::state::Reservations;
use crate::limits::RESERVATIONS_BYTES_MAX;

/// The newest version of the format, which is written where an older one does not do.
const VERSION: u32 = 2;
const _: () = assert!(VERSION == VERSION_OF_NAMES);
const PREFIX: &str = "reservations-";
const SUFFIX: &str = ".json";
/// Files with this ending are being written, or were when the target or the machine stopped.
const TEMPORARY_SUFFIX: &str = ".json.new";

/// Why reservations could not be kept or read back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReservationFileError {
    /// The folder or a file in it cannot be used.
    #[error(transparent)]
    Private(#[from] PrivateFileError),
    /// Another target keeps its reservations there.
    #[error("{} is in use by another target; end that one first, or choose another directory", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The file was written by another version of this program.
    #[error("{} has format {version}, and this program reads formats up to {VERSION}; use the program that wrote \
             it, or remove the file to start without its reservations", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version it says it has.
        version: u64,
    },
    /// The file does not hold what it should.
    #[error("{} is damaged: {reason}; restore it, or remove it to start without its reservations", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
}

/// The part of a file that every version has.
#[derive(Deserialize)]
struct FileVersion {
    version: u64,
}

/// A file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileState {
    version: u32,
    namespace: Uuid,
    generation: u32,
    registrants: Vec<RegistrantRecord>,
    reservation: Option<ReservationRecord>,
}

/// The hold of the old process of this target. A simulation has none.
fn former_hold(folder: &PrivateFolder) -> Option<OwnedFd> {
    #[cfg(feature = "simulation")]
    let former = {
        let _ = folder;
        None
    };
    #[cfg(not(feature = "simulation"))]
    let former = crate::claims::of(folder);
    former
}

/// A directory with the reservations of a target's namespaces. No other target uses it at the same time.
#[derive(Debug)]
pub(crate) struct ReservationDirectory {
    /// The directory, locked.
    folder: PrivateFolder,
    /// Descriptor that holds the lock, if the old process of this target took it.
    former: Option<OwnedFd>,
}

impl ReservationDirectory {
    /// Opens the directory, and makes it where it is missing, for this target's user alone; removes what an interrupted
    /// target left half written.
    ///
    /// # Errors
    /// When it cannot be read and written, others may change it, or another target uses it.
    pub(crate) fn open(path: &Path) -> Result<Self, ReservationFileError> {
        let folder = PrivateFolder::make(path)?;
        folder.close_to_others()?;
        let former = match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => None,
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let locked = || ReservationFileError::Locked { path: path.to_owned() };
                Some(former_hold(&folder).ok_or_else(locked)?)
            }
            Err(error) => return Err(PrivateFileError::io("lock", path, error).into()),
        };
        let failed = |error: io::Error| PrivateFileError::io("list", path, error);
        for entry in fs::read_dir(folder.path()).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let is_left_over = name
                .to_str()
                .is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(TEMPORARY_SUFFIX));
            if is_left_over {
                folder.remove(&name)?;
            }
        }
        Ok(Self { folder, former })
    }

    /// Descriptor that holds the lock, for the process that replaces this one.
    pub(crate) fn held(&self) -> io::Result<OwnedFd> {
        match &self.former {
            Some(former) => former.try_clone(),
            None => self.folder.as_fd().try_clone_to_owned(),
        }
    }

    /// Reads the reservations of the namespace with this UUID; `None` where none were kept.
    ///
    /// # Errors
    /// When the file cannot be read or does not hold a possible state. To go on without it would hand a
    /// namespace to hosts that it is reserved against, so that is for a person to decide.
    pub(crate) fn load(&self, namespace: Uuid) -> Result<Option<Reservations>, ReservationFileError> {
        let name = file_name(namespace);
        let path = self.folder.path().join(&name);
        let bytes = match self.folder.read(&name, RESERVATIONS_BYTES_MAX) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(PrivateFileError::TooLong { path, length_max }) => {
                return Err(damaged(&path, format!("it has more than {length_max} bytes")));
            }
            Err(error) => return Err(error.into()),
        };
        // The version first: of a later one, nothing else needs to be understood.
        let FileVersion { version } =
            serde_json::from_slice(&bytes).map_err(|error| damaged(&path, error.to_string()))?;
        if !(1..=u64::from(VERSION)).contains(&version) {
            return Err(ReservationFileError::Version { path, version });
        }
        let state: FileState =
            serde_json::from_slice(&bytes).map_err(|error| damaged(&path, error.to_string()))?;
        if state.namespace != namespace {
            return Err(damaged(&path, format!("it belongs to namespace {}", state.namespace)));
        }
        restore(state).map(Some).map_err(|error| damaged(&path, error.to_string()))
    }

    /// Keeps the reservations of the namespace with this UUID, or removes what was kept where they do not
    /// persist. When it returns, they are on the medium. Calls for one namespace come one after the other.
    ///
    /// # Errors
    /// When they cannot be written: what was kept before is still there then, unless only the last step
    /// failed.
    pub(crate) fn save(
        &self,
        namespace: Uuid,
        reservations: &Reservations,
    ) -> Result<(), ReservationFileError> {
        if !reservations.persists() {
            return self.remove(namespace);
        }
        let name = file_name(namespace);
        let mut bytes = serde_json::to_vec_pretty(&file_state(namespace, reservations))
            .map_err(|error| PrivateFileError::io("write", &self.folder.path().join(&name), error))?;
        bytes.push(b'\n');
        Ok(self.folder.replace(&name, &bytes)?)
    }

    /// Removes what was kept for the namespace with this UUID, as when it is deleted.
    ///
    /// # Errors
    /// When the file is there and cannot be removed.
    pub(crate) fn remove(&self, namespace: Uuid) -> Result<(), ReservationFileError> {
        Ok(self.folder.remove(file_name(namespace))?)
    }
}

fn file_name(namespace: Uuid) -> String {
    format!("{PREFIX}{}{SUFFIX}", namespace.hyphenated())
}

fn damaged(path: &Path, reason: impl Into<String>) -> ReservationFileError {
    ReservationFileError::Damaged { path: path.to_owned(), reason: reason.into() }
}

fn file_state(namespace: Uuid, reservations: &Reservations) -> FileState {
    FileState {
        version: reservations.version(),
        namespace,
        generation: reservations.generation(),
        registrants: reservations.registrant_records(),
        reservation: reservations.reservation_record(),
    }
}

fn restore(state: FileState) -> Result<Reservations, ImpossibleState> {
    Reservations::recorded((state.version, state.generation), state.registrants, state.reservation, true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use nvme::reservation::ReservationType;

    use super::super::host_digest::HostDigest;
    use super::super::state::{REGISTRANTS_MAX, Registrant, Reservation};
    use super::*;

    fn file(directory: &ReservationDirectory) -> PathBuf {
        directory.folder.path().join(file_name(NAMESPACE))
    }

    const NAMESPACE: Uuid = Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0);

    fn name(number: u8) -> String {
        format!("nqn.2014-08.org.nvmexpress:uuid:\"{number}\" ü")
    }

    fn host(number: u8) -> HostDigest {
        HostDigest::of(&name(number), &[number; 16])
    }

    fn state(holder: Option<u8>, kind: ReservationType, persists: bool) -> Reservations {
        let registrants = (1..=3)
            .map(|number| Registrant::new([number; 16], name(number), u64::MAX - u64::from(number)))
            .collect();
        let reservation = Some(Reservation { kind, holder: holder.map(host) });
        Reservations::restore(u32::MAX, registrants, reservation, persists).expect("a possible state")
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).expect("readable");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("readable").file_name().into_string().expect("our own names"))
            .collect();
        names.sort_unstable();
        names
    }

    fn scratch() -> (tempfile::TempDir, ReservationDirectory) {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let directory = ReservationDirectory::open(scratch.path()).expect("opens");
        (scratch, directory)
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let (scratch, directory) = scratch();
        assert_eq!(directory.load(NAMESPACE).expect("readable"), None);
        for kind in ReservationType::ALL {
            let kept = state((!kind.all_registrants()).then_some(2), kind, true);
            directory.save(NAMESPACE, &kept).expect("writable");
            assert_eq!(directory.load(NAMESPACE).expect("readable"), Some(kept));
        }
        let empty = Reservations::restore(7, vec![], None, true).expect("a possible state");
        directory.save(NAMESPACE, &empty).expect("writable");
        drop(directory);
        let directory = ReservationDirectory::open(scratch.path()).expect("opens");
        assert_eq!(directory.load(NAMESPACE).expect("readable"), Some(empty), "persistence itself is kept");
        assert_eq!(directory.load(Uuid::nil()).expect("readable"), None, "another namespace");
        assert_eq!(names(scratch.path()), [format!("reservations-{NAMESPACE}.json")]);
    }

    #[test]
    fn only_hosts_that_share_an_identifier_need_the_newer_format() {
        let (_scratch, directory) = scratch();
        let version = |directory: &ReservationDirectory| {
            let text = fs::read_to_string(file(directory)).expect("readable");
            (text.contains("\"version\": 1"), text.contains("holder_nqn"))
        };
        directory.save(NAMESPACE, &state(Some(2), ReservationType::WriteExclusive, true)).expect("writable");
        assert_eq!(version(&directory), (true, false), "older versions read it");
        // The second of two with one HOSTID holds the reservation.
        let registrants = (1..=2).map(|number| Registrant::new([7; 16], name(number), 1)).collect();
        let holder = Some(HostDigest::of(&name(2), &[7; 16]));
        let reservation = Some(Reservation { kind: ReservationType::WriteExclusive, holder });
        let kept = Reservations::restore(1, registrants, reservation, true).expect("a possible state");
        directory.save(NAMESPACE, &kept).expect("writable");
        assert_eq!(version(&directory), (false, true));
        assert_eq!(directory.load(NAMESPACE).expect("readable").as_ref(), Some(&kept));
        let handed = kept.handed(NAMESPACE).expect("there is something");
        assert_eq!(Reservations::going_on(handed), Ok(kept), "the new process has the same holder");
    }

    #[test]
    fn as_many_registrants_as_are_allowed_fit() {
        let (_scratch, directory) = scratch();
        // A name of the greatest length, each byte of which is written as six.
        let name = "\u{1}".repeat(223);
        let registrant =
            |number: usize| Registrant::new((number as u128).to_le_bytes(), name.clone(), u64::MAX);
        let registrants = (0..REGISTRANTS_MAX).map(registrant).collect();
        let kept = Reservations::restore(1, registrants, None, true).expect("a possible state");
        directory.save(NAMESPACE, &kept).expect("writable");
        assert!(directory.load(NAMESPACE).expect("readable") == Some(kept));
    }

    #[test]
    fn what_does_not_persist_leaves_no_file() {
        let (scratch, directory) = scratch();
        directory.save(NAMESPACE, &state(Some(1), ReservationType::WriteExclusive, true)).expect("writable");
        directory.save(NAMESPACE, &state(Some(1), ReservationType::WriteExclusive, false)).expect("writable");
        assert_eq!(names(scratch.path()), [""; 0]);
        directory.remove(NAMESPACE).expect("nothing to remove is not an error");
    }

    #[test]
    fn a_torn_file_is_refused_wherever_it_ends() {
        let (scratch, directory) = scratch();
        directory.save(NAMESPACE, &state(Some(1), ReservationType::WriteExclusive, true)).expect("writable");
        let path = file(&directory);
        let whole = fs::read(&path).expect("readable");
        let text = whole.trim_ascii_end().len();
        for length in 0..text {
            fs::write(&path, &whole[..length]).expect("writable");
            let error = directory.load(NAMESPACE).expect_err("it is torn");
            assert!(matches!(error, ReservationFileError::Damaged { .. }), "{length}: {error}");
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        }
        assert_eq!(names(scratch.path()).len(), 1, "a damaged file is kept for repair");
    }

    #[test]
    fn a_damaged_file_is_refused_with_what_is_wrong() {
        let (_scratch, directory) = scratch();
        directory.save(NAMESPACE, &state(Some(1), ReservationType::WriteExclusive, true)).expect("writable");
        let path = file(&directory);
        let whole = fs::read_to_string(&path).expect("readable");
        let host_id = |number: u8| Uuid::from_bytes([number; 16]).to_string();
        for (from, to, expected) in [
            ("\"version\": 1", "\"version\": 3", "has format 3"),
            ("\"kind\": 1", "\"kind\": 7", "no reservation type 7"),
            ("\"kind\": 1", "\"kind\": 5", "does not fit its type"),
            ("\"generation\"", "\"generations\"", "unknown field"),
            (&host_id(2), &host_id(3), "registered twice"),
            (&host_id(1), &host_id(9), "holder is not registered"),
            (&NAMESPACE.to_string(), &Uuid::nil().to_string(), "belongs to namespace 0000"),
            ("18446744073709551614", "0", "the key 0"),
            ("{", "", "expected"),
        ] {
            assert!(whole.contains(from), "{from}");
            fs::write(&path, whole.replacen(from, to, 1)).expect("writable");
            let error = directory.load(NAMESPACE).expect_err("it is damaged").to_string();
            assert!(error.contains(expected) && error.contains("remove"), "{error}");
        }
        fs::write(&path, vec![b' '; RESERVATIONS_BYTES_MAX as usize + 1]).expect("writable");
        assert!(directory.load(NAMESPACE).expect_err("too long").to_string().contains("more than"));
    }

    #[test]
    fn what_was_half_written_is_ignored_and_cleaned_up() {
        let (scratch, directory) = scratch();
        let kept = state(Some(1), ReservationType::ExclusiveAccess, true);
        directory.save(NAMESPACE, &kept).expect("writable");
        fs::write(file(&directory).with_extension("json.new"), "{\"version\"").expect("writable");
        fs::write(scratch.path().join("notes.json.new"), "another program's").expect("writable");
        assert_eq!(directory.load(NAMESPACE).expect("readable").as_ref(), Some(&kept));
        drop(directory);
        let directory = ReservationDirectory::open(scratch.path()).expect("opens");
        let own = format!("reservations-{NAMESPACE}.json");
        assert_eq!(names(scratch.path()), ["notes.json.new", own.as_str()]);
        assert_eq!(directory.load(NAMESPACE).expect("readable"), Some(kept));
    }

    #[test]
    fn a_save_that_fails_keeps_what_was_there() {
        let (scratch, directory) = scratch();
        let kept = state(Some(1), ReservationType::ExclusiveAccess, true);
        directory.save(NAMESPACE, &kept).expect("writable");
        // A directory of the temporary file's name stands in its way, for root too.
        let in_the_way = file(&directory).with_extension("json.new");
        fs::create_dir(&in_the_way).expect("writable");
        let other = state(Some(2), ReservationType::ExclusiveAccess, true);
        let error = directory.save(NAMESPACE, &other).expect_err("in the way").to_string();
        assert!(error.contains("cannot write") && error.contains(".json.new"), "{error}");
        assert_eq!(directory.load(NAMESPACE).expect("readable"), Some(kept));
        drop(directory);
        let error = ReservationDirectory::open(scratch.path()).expect_err("still in the way").to_string();
        assert!(error.contains("cannot remove"), "{error}");
    }

    #[test]
    fn a_directory_has_one_target() {
        let (scratch, directory) = scratch();
        let error = ReservationDirectory::open(scratch.path()).expect_err("in use");
        assert!(matches!(error, ReservationFileError::Locked { .. }), "{error}");
        drop(directory);
        assert!(ReservationDirectory::open(scratch.path()).is_ok());
        fs::write(scratch.path().join("file"), "").expect("writable");
        let file = ReservationDirectory::open(&scratch.path().join("file")).expect_err("no directory");
        assert!(file.to_string().contains("file is not a folder"), "{file}");
    }

    #[test]
    fn reservations_are_their_targets_alone() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("reservations");
        // As an older version made them.
        fs::create_dir(&path).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        let directory = ReservationDirectory::open(&path).expect("opens");
        let kept = state(Some(1), ReservationType::ExclusiveAccess, true);
        directory.save(NAMESPACE, &kept).expect("writable");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&file(&directory))), (0o700, 0o600));
        // What others could have written decides nothing.
        fs::set_permissions(file(&directory), fs::Permissions::from_mode(0o666)).expect("ours");
        let error = directory.load(NAMESPACE).expect_err("others may change it").to_string();
        assert!(error.contains("may be changed by others") && error.contains("chmod 600"), "{error}");
        fs::rename(file(&directory), scratch.path().join("elsewhere")).expect("ours");
        symlink(scratch.path().join("elsewhere"), file(&directory)).expect("writable");
        let error = directory.load(NAMESPACE).expect_err("it is a link").to_string();
        assert!(error.contains("is a link"), "{error}");
        drop(directory);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("ours");
        let error = ReservationDirectory::open(&path).expect_err("others may write it").to_string();
        assert!(error.contains("may be changed by others") && error.contains("chmod 700"), "{error}");
    }
}
