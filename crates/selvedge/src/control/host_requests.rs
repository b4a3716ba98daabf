//! What hosts may change by themselves: namespaces in a subsystem's storage directory, who sees them, and their write
//! protection. Every wish becomes a change of the administration's, and its outcome the status of a command.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::limits::{ANA_GROUPS_MAX, NAMESPACES_MAX};
use engine::target::{
    FabricConfig, HostRequest, HostRequests, NamespaceConfig, StorageConfig, SubsystemConfig, Target,
    Visibility, WriteProtection,
};
use nvme::Status;
use uuid::Uuid;

use super::administration::Administration;
use super::bodies::free_nsid;
use super::guard::Permissions;
use super::refusal::Refusal;
use crate::failure::Failure;

/// How long the thread waits before it looks whether it is still wanted.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The thread that answers hosts. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct HostDesk {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HostDesk {
    /// Answers the hosts of `target` from now on.
    pub(crate) fn open(
        target: &Target,
        administration: Arc<Administration>,
    ) -> Result<Option<Self>, Failure> {
        let Some(requests) = target.host_requests() else { return Ok(None) };
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("host-requests".to_owned()).spawn({
            let stop = stop.clone();
            move || answer_all(&requests, &administration, &stop)
        });
        let thread = thread.map_err(|error| Failure::failed(format!("cannot answer hosts: {error}")))?;
        Ok(Some(Self { stop, thread: Some(thread) }))
    }
}

impl Drop for HostDesk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer_all(requests: &HostRequests, administration: &Administration, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match requests.next(LOOK_INTERVAL) {
            Ok(Some(pending)) => {
                let outcome = answer(administration, &pending.request);
                if let Err(status) = &outcome {
                    tracing::warn!(host = %pending.host, request = ?pending.request, %status, "Refused what a host asked for");
                }
                pending.answer(outcome);
            }
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// Does what a host asks. The result is the identifier of a namespace that was created, else 0.
fn answer(administration: &Administration, request: &HostRequest) -> Result<u32, Status> {
    match request {
        HostRequest::CreateNamespace { nqn, blocks, block_size, ana_group } => {
            create(administration, nqn, *blocks, *block_size, *ana_group)
        }
        HostRequest::DeleteNamespace { nqn, nsid } => delete(administration, nqn, *nsid).map(|()| 0),
        HostRequest::Attach { nqn, nsid, hosts } => {
            change_namespace(administration, nqn, *nsid, |namespace| {
                attach(&mut namespace.visible, hosts, true)
            })
        }
        HostRequest::Detach { nqn, nsid, hosts } => {
            change_namespace(administration, nqn, *nsid, |namespace| {
                attach(&mut namespace.visible, hosts, false)
            })
        }
        HostRequest::Protect { nqn, nsid, protection } => {
            change_namespace(administration, nqn, *nsid, |namespace| protect(namespace, *protection))
        }
    }
}

/// Makes a change whose mistakes are statuses.
fn change<T>(
    administration: &Administration,
    edit: impl FnOnce(&mut FabricConfig) -> Result<T, Status>,
) -> Result<T, Status> {
    let mut refused = None;
    let outcome = administration.change(Permissions::default(), |fabric| {
        edit(fabric).map_err(|status| {
            refused = Some(status);
            Refusal::conflict(status)
        })
    });
    outcome.map(|(value, _)| value).map_err(|refusal| {
        refused.unwrap_or_else(|| {
            tracing::warn!(%refusal, "a change that a host asked for cannot be made");
            match refusal.status {
                500 => Status::INTERNAL_ERROR,
                507 => Status::NAMESPACE_INSUFFICIENT_CAPACITY,
                _ => Status::INVALID_FIELD.do_not_retry(),
            }
        })
    })
}

fn subsystem<'a>(fabric: &'a mut FabricConfig, nqn: &str) -> Result<&'a mut SubsystemConfig, Status> {
    fabric.subsystem_mut(nqn).ok_or(Status::INVALID_FIELD.do_not_retry())
}

fn change_namespace(
    administration: &Administration,
    nqn: &str,
    nsid: u32,
    edit: impl FnOnce(&mut NamespaceConfig) -> Result<(), Status>,
) -> Result<u32, Status> {
    change(administration, |fabric| {
        let namespaces = &mut subsystem(fabric, nqn)?.namespaces;
        let namespace = namespaces.iter_mut().find(|namespace| namespace.nsid == nsid);
        edit(namespace.ok_or(Status::INVALID_NAMESPACE.do_not_retry())?)
    })?;
    Ok(0)
}

fn attach(visible: &mut Visibility, hosts: &[String], wanted: bool) -> Result<(), Status> {
    // All of them or none: a host that is already there makes the whole command fail.
    if hosts.iter().any(|host| visible.includes(host) == wanted) {
        let status = if wanted { Status::NAMESPACE_ALREADY_ATTACHED } else { Status::NAMESPACE_NOT_ATTACHED };
        return Err(status.do_not_retry());
    }
    for host in hosts {
        if wanted {
            visible.attach(host);
        } else {
            visible.detach(host);
        }
    }
    Ok(())
}

fn protect(namespace: &mut NamespaceConfig, wanted: WriteProtection) -> Result<(), Status> {
    let fixed =
        matches!(namespace.write_protection, WriteProtection::Permanent | WriteProtection::UntilRestart);
    // A host cannot take back what was to hold until a restart, or for ever (Base 8.1.16).
    if fixed && namespace.write_protection != wanted {
        return Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry());
    }
    namespace.write_protection = wanted;
    Ok(())
}

fn create(
    administration: &Administration,
    nqn: &str,
    blocks: u64,
    block_size: u32,
    ana_group: u32,
) -> Result<u32, Status> {
    let bytes = blocks.checked_mul(u64::from(block_size)).filter(|bytes| i64::try_from(*bytes).is_ok());
    let bytes = bytes.ok_or(Status::NAMESPACE_INSUFFICIENT_CAPACITY.do_not_retry())?;
    if bytes == 0 {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    if ana_group > ANA_GROUPS_MAX {
        return Err(Status::ANA_GROUP_ID_INVALID.do_not_retry());
    }
    let uuid = Uuid::new_v4();
    let mut file = None;
    let made = change(administration, |fabric| {
        let subsystem = subsystem(fabric, nqn)?;
        let storage = subsystem.storage.as_ref().ok_or(Status::INVALID_FIELD.do_not_retry())?;
        check_capacity(storage, bytes)?;
        let taken: Vec<u32> = subsystem.namespaces.iter().map(|namespace| namespace.nsid).collect();
        let nsid = free_nsid(&taken);
        if nsid > NAMESPACES_MAX {
            return Err(Status::NAMESPACE_ID_UNAVAILABLE.do_not_retry());
        }
        let path = storage.directory.join(format!("{uuid}.img"));
        file = Some(path.clone());
        let backend = BackendConfig::File { path, size: Some(bytes) };
        let config = NamespaceConfig {
            uuid: Some(uuid),
            ana_group: ana_group.max(1),
            visible: Visibility::Only(Vec::new()),
            created_by_host: true,
            ..NamespaceConfig::new(nsid, backend, block_size)
        };
        subsystem.namespaces.push(config);
        Ok(nsid)
    });
    if let (Err(_), Some(path)) = (&made, &file) {
        // Its name was made up here, so whatever is there is what this attempt left.
        remove(path);
    }
    made
}

/// All files of a storage directory count, whosever they are: they all share its space.
fn check_capacity(storage: &StorageConfig, bytes: u64) -> Result<(), Status> {
    let used = used_bytes(&storage.directory).map_err(|error| {
        tracing::warn!(%error, directory = %storage.directory.display(), "the storage directory cannot be read");
        Status::INTERNAL_ERROR
    })?;
    match used.checked_add(bytes) {
        Some(sum) if sum <= storage.bytes_max => Ok(()),
        _ => Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY.do_not_retry()),
    }
}

fn used_bytes(directory: &Path) -> io::Result<u64> {
    let mut sum = 0u64;
    for entry in fs::read_dir(directory)? {
        let metadata = entry?.metadata()?;
        if metadata.is_file() {
            sum = sum.saturating_add(metadata.len());
        }
    }
    Ok(sum)
}

fn delete(administration: &Administration, nqn: &str, nsid: Option<u32>) -> Result<(), Status> {
    let files = change(administration, |fabric| {
        let subsystem = subsystem(fabric, nqn)?;
        let chosen = |namespace: &NamespaceConfig| {
            nsid.map_or(namespace.created_by_host, |nsid| namespace.nsid == nsid)
        };
        let mut files = Vec::new();
        for namespace in subsystem.namespaces.iter().filter(|namespace| chosen(namespace)) {
            if !namespace.created_by_host {
                return Err(Status::OPERATION_DENIED.do_not_retry());
            }
            if !namespace.write_protection.is_none() {
                return Err(Status::WRITE_PROTECTED.do_not_retry());
            }
            files.extend(file_of(subsystem.storage.as_ref(), namespace));
        }
        let before = subsystem.namespaces.len();
        subsystem.namespaces.retain(|namespace| !chosen(namespace));
        if nsid.is_some() && subsystem.namespaces.len() == before {
            return Err(Status::INVALID_NAMESPACE.do_not_retry());
        }
        Ok(files)
    })?;
    // Only now: a state that still has the namespace must find its file.
    files.iter().for_each(|file| remove(file));
    Ok(())
}

/// The file that goes with a namespace: one that lies where hosts create them, and no other, whatever a configuration
/// says.
fn file_of(storage: Option<&StorageConfig>, namespace: &NamespaceConfig) -> Option<PathBuf> {
    let BackendConfig::File { path, .. } = &namespace.backend else { return None };
    let uuid = namespace.uuid?;
    (*path == storage?.directory.join(format!("{uuid}.img"))).then(|| path.clone())
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, path = %path.display(), "a deleted namespace's file stays"),
    }
}

#[cfg(test)]
mod tests {
    use engine::ring::Engine;
    use engine::target::{PortConfig, Reactors, TargetConfig};

    use super::*;
    use crate::state::StateFile;

    const NQN: &str = "nqn.2026-01.io.selvedge:a";
    const MIB: u64 = 1 << 20;

    struct Bed {
        folder: tempfile::TempDir,
        target: Arc<Target>,
        administration: Administration,
    }

    impl Bed {
        /// A subsystem with one namespace of its own, and 8 MiB for its hosts.
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("storage");
            fs::create_dir(&directory).unwrap();
            let own = NamespaceConfig::new(1, BackendConfig::Memory { size: MIB }, 4096);
            let subsystem = SubsystemConfig {
                storage: Some(StorageConfig::new(directory, 8 * MIB)),
                ..SubsystemConfig::new(NQN, "A", "Selvedge").with(vec![own])
            };
            let fabric = FabricConfig {
                ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
                subsystems: vec![subsystem],
                ..FabricConfig::default()
            };
            let target = Arc::new(
                Target::start(&TargetConfig {
                    fabric,
                    reactors: Reactors::Count(1),
                    engine: Engine::Automatic,
                    poll_us_max: 0,
                    state_dir: None,
                    ..TargetConfig::default()
                })
                .unwrap(),
            );
            let state = StateFile::open(&folder.path().join("state")).unwrap();
            let administration = Administration::new(target.clone(), Some(state)).unwrap();
            Self { folder, target, administration }
        }

        fn create(&self, bytes: u64) -> Result<u32, Status> {
            let request = HostRequest::CreateNamespace {
                nqn: NQN.to_owned(),
                blocks: bytes / 4096,
                block_size: 4096,
                ana_group: 0,
            };
            answer(&self.administration, &request)
        }

        fn delete(&self, nsid: Option<u32>) -> Result<u32, Status> {
            answer(&self.administration, &HostRequest::DeleteNamespace { nqn: NQN.to_owned(), nsid })
        }

        fn files(&self) -> usize {
            fs::read_dir(self.folder.path().join("storage")).unwrap().count()
        }

        fn namespace(&self, nsid: u32) -> Option<NamespaceConfig> {
            let fabric = self.target.config();
            fabric.subsystem(NQN)?.namespaces.iter().find(|namespace| namespace.nsid == nsid).cloned()
        }

        fn kept(&self) -> String {
            fs::read_to_string(self.folder.path().join("state/state.json")).unwrap()
        }
    }

    #[test]
    fn a_host_creates_and_deletes_namespaces_within_the_capacity() {
        let bed = Bed::new();
        assert_eq!(bed.create(4 * MIB), Ok(2));
        let made = bed.namespace(2).unwrap();
        assert!(made.created_by_host && made.visible == Visibility::Only(Vec::new()));
        assert!(bed.kept().contains(&made.uuid.unwrap().to_string()));
        assert_eq!(bed.create(4 * MIB), Ok(3));
        let full = Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY.do_not_retry());
        assert_eq!(bed.create(4096), full);
        assert_eq!(bed.create(u64::MAX), full);
        assert_eq!(bed.create(0), Err(Status::INVALID_FIELD.do_not_retry()));
        assert_eq!(bed.files(), 2);
        assert_eq!(bed.delete(Some(2)), Ok(0));
        assert_eq!((bed.files(), bed.namespace(2)), (1, None));
        assert!(!bed.kept().contains(&made.uuid.unwrap().to_string()));
        assert_eq!(bed.create(4 * MIB), Ok(2));
        assert_eq!(bed.delete(None), Ok(0));
        assert_eq!(bed.files(), 0);
        assert!(bed.namespace(1).is_some(), "the administrator's own stays");
    }

    #[test]
    fn a_host_deletes_what_hosts_have_created_and_nothing_else() {
        let bed = Bed::new();
        assert_eq!(bed.delete(Some(1)), Err(Status::OPERATION_DENIED.do_not_retry()));
        assert_eq!(bed.delete(Some(7)), Err(Status::INVALID_NAMESPACE.do_not_retry()));
        // A configuration may say that a host created it: the file elsewhere stays all the same.
        let precious = bed.folder.path().join("precious.img");
        let backend = BackendConfig::File { path: precious.clone(), size: Some(MIB) };
        let odd = NamespaceConfig {
            created_by_host: true,
            uuid: Some(Uuid::new_v4()),
            ..NamespaceConfig::new(5, backend, 4096)
        };
        change(&bed.administration, |fabric| {
            subsystem(fabric, NQN)?.namespaces.push(odd);
            Ok(())
        })
        .unwrap();
        assert_eq!(bed.delete(Some(5)), Ok(0));
        assert!(precious.exists() && bed.namespace(5).is_none());
    }

    #[test]
    fn attaching_twice_and_detaching_what_is_not_attached_fail() {
        let bed = Bed::new();
        let nsid = bed.create(MIB).unwrap();
        let hosts = vec!["nqn.host:1".to_owned(), "nqn.host:2".to_owned()];
        let ask = |attach: bool, hosts: &[String]| {
            let (nqn, hosts) = (NQN.to_owned(), hosts.to_vec());
            let request = if attach {
                HostRequest::Attach { nqn, nsid, hosts }
            } else {
                HostRequest::Detach { nqn, nsid, hosts }
            };
            answer(&bed.administration, &request)
        };
        assert_eq!(ask(false, &hosts), Err(Status::NAMESPACE_NOT_ATTACHED.do_not_retry()));
        assert_eq!(ask(true, &hosts[..1]), Ok(0));
        assert_eq!(ask(true, &hosts), Err(Status::NAMESPACE_ALREADY_ATTACHED.do_not_retry()));
        assert_eq!(bed.namespace(nsid).unwrap().visible, Visibility::Only(hosts[..1].to_vec()));
        assert_eq!(ask(true, &hosts[1..]), Ok(0));
        assert_eq!(ask(false, &hosts), Ok(0));
        assert_eq!(bed.namespace(nsid).unwrap().visible, Visibility::Only(Vec::new()));
    }

    #[test]
    fn protection_that_was_to_last_is_not_taken_back() {
        let bed = Bed::new();
        let ask = |protection| {
            answer(&bed.administration, &HostRequest::Protect { nqn: NQN.to_owned(), nsid: 1, protection })
        };
        assert_eq!(ask(WriteProtection::On), Ok(0));
        assert_eq!(ask(WriteProtection::None), Ok(0));
        assert_eq!(ask(WriteProtection::Permanent), Ok(0));
        assert_eq!(ask(WriteProtection::None), Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry()));
        assert_eq!(ask(WriteProtection::Permanent), Ok(0));
        assert!(bed.kept().contains("permanent"));
    }
}
