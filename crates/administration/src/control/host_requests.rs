//! What hosts may change by themselves: namespaces in a subsystem's storage directory, who sees them, and their write
//! protection. Every wish becomes a change of the administration's, and its outcome the status of a command. Which host
//! may have what is the engine's to say.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use engine::backend::{BackendConfig, FilePin};
use engine::limits::{ANA_GROUPS_MAX, NAMESPACES_MAX};
use engine::ring::Vital;
use engine::target::{
    AskingHost, Denial, FabricConfig, HostRequest, HostRequests, KnownHost, NamespaceConfig, NamespaceOwned,
    RefusedHost, RefusedHosts, StorageConfig, SubsystemConfig, Target, Visibility,
};
use nvme::Status;
use serde_json::Value;
use uuid::Uuid;

use super::access::Identity;
use super::administration::Administration;
use super::audit::{AuditLog, Event, Kind};
use crate::failure::Failure;

/// The thread that answers hosts. Dropping it ends it.
#[derive(Debug)]
pub struct HostRequestWorker {
    target: Arc<Target>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HostRequestWorker {
    /// Answers the hosts of `target` from now on.
    pub fn open(target: &Arc<Target>, administration: Arc<Administration>) -> Result<Option<Self>, Failure> {
        let Some(requests) = target.host_requests() else { return Ok(None) };
        let refused =
            [(Kind::FailedLogin, target.failed_logins()), (Kind::RefusedConnect, target.refused_connects())];
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("host-requests".to_owned()).spawn({
            let stop = stop.clone();
            move || {
                // Without it every host that asks for something waits forever.
                let _vital = Vital::begin();
                answer_all(&requests, &refused, &administration, &stop);
            }
        });
        let thread = thread.map_err(|error| Failure::failed(format!("cannot answer hosts: {error}")))?;
        Ok(Some(Self { target: target.clone(), stop, thread: Some(thread) }))
    }
}

impl Drop for HostRequestWorker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.target.call_administration();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer_all(
    requests: &HostRequests,
    refused: &[(Kind, Option<RefusedHosts>)],
    administration: &Administration,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        match requests.next() {
            Ok(Some(pending)) => {
                let outcome = answer_and_record(administration, &pending.host, &pending.request);
                if let Err(denial) = &outcome {
                    let (host, request) = (&pending.host, &pending.request);
                    tracing::warn!(%host, status = %denial.status, "Refused to {request}: {denial}");
                }
                pending.answer(outcome.map_err(|denial| denial.status));
            }
            Ok(None) => {}
            Err(_) => return,
        }
        for (kind, hosts) in refused {
            hosts.iter().for_each(|hosts| record_refused(*kind, hosts, administration.audit()));
        }
    }
}

/// Records hosts that did not come in.
fn record_refused(kind: Kind, hosts: &RefusedHosts, audit: &AuditLog) {
    let (hosts, mut omitted) = hosts.take();
    for RefusedHost { host, subsystem, address, reason } in hosts {
        let who = host.map_or(Identity::Unknown, |nqn| Identity::Host { nqn, host_id: None });
        let what = subsystem.map_or_else(|| "connect".to_owned(), |nqn| format!("connect to {nqn}"));
        let event = Event::failed_login(who, address, reason);
        audit.write(Event { kind, what: Some(what), omitted: std::mem::take(&mut omitted), ..event });
    }
}

/// Does what a host asks, and records it before the host learns of it.
fn answer_and_record(
    administration: &Administration,
    host: &AskingHost,
    request: &HostRequest,
) -> Result<u32, Denial> {
    let audit = administration.audit();
    audit.check().map_err(|refusal| Denial {
        status: Status::NAMESPACE_INSUFFICIENT_CAPACITY.do_not_retry(),
        rule: refusal.to_string(),
    })?;
    let record = RefCell::default();
    let outcome = answer(&RequestHandler { administration, record: &record }, &host.known, request);
    let (kind, result) = match &outcome {
        Ok(_) => (Kind::Change, "done".to_owned()),
        Err(denial) => (Kind::Refused, denial.rule.clone()),
    };
    let KnownHost { nqn, host_id } = host.known.clone();
    audit.write(Event {
        kind,
        who: Some(Identity::Host { nqn, host_id: Some(host_id.to_string()) }),
        from: Some(format!("{}, controller {}", host.address, host.controller)),
        what: Some(request.to_string()),
        changes: record.take(),
        result,
        ..Event::default()
    });
    outcome
}

/// Parts of a handler of host requests.
struct RequestHandler<'a> {
    administration: &'a Administration,
    /// Changes made, for the audit log.
    record: &'a RefCell<Vec<Value>>,
}

/// Does what a host asks, if it may. The result is the identifier of a namespace that was created, else 0.
fn answer(handler: &RequestHandler<'_>, host: &KnownHost, request: &HostRequest) -> Result<u32, Denial> {
    let edit = |nqn: &str, edit: &dyn Fn(&mut SubsystemConfig) -> Result<(), Denial>| {
        change(handler, host, |fabric| edit(subsystem(fabric, nqn)?)).map(|()| 0)
    };
    match request {
        HostRequest::CreateNamespace { nqn, blocks, block_size, ana_group } => {
            create(handler, host, nqn, (*blocks, *block_size), *ana_group)
        }
        HostRequest::DeleteNamespace { nqn, nsid } => delete(handler, host, nqn, *nsid).map(|()| 0),
        HostRequest::Attach { nqn, nsid, hosts } => {
            edit(nqn, &|subsystem| subsystem.attach_for(host, *nsid, hosts, true))
        }
        HostRequest::Detach { nqn, nsid, hosts } => {
            edit(nqn, &|subsystem| subsystem.attach_for(host, *nsid, hosts, false))
        }
        HostRequest::Protect { nqn, nsid, protection } => {
            edit(nqn, &|subsystem| subsystem.protect_for(host, *nsid, *protection))
        }
    }
}

/// Makes a change for a host whose mistakes are statuses.
fn change<T>(
    handler: &RequestHandler<'_>,
    host: &KnownHost,
    edit: impl FnOnce(&mut FabricConfig) -> Result<T, Denial>,
) -> Result<T, Denial> {
    let made = handler.administration.change_for(host, |fabric| Ok(edit(fabric)?));
    let made = made.map(|(outcome, made)| {
        handler.record.borrow_mut().extend(made.record);
        outcome
    });
    made.map_err(|refusal| {
        let status = refusal.for_host.unwrap_or(match refusal.status {
            421 => Status::COMMAND_INTERRUPTED,
            500 => Status::INTERNAL_ERROR,
            507 => Status::NAMESPACE_INSUFFICIENT_CAPACITY,
            _ => Status::INVALID_FIELD.do_not_retry(),
        });
        Denial { status, rule: refusal.to_string() }
    })
}

fn deny<T>(status: Status, rule: impl Into<String>) -> Result<T, Denial> {
    Err(Denial { status: status.do_not_retry(), rule: rule.into() })
}

fn subsystem<'a>(fabric: &'a mut FabricConfig, nqn: &str) -> Result<&'a mut SubsystemConfig, Denial> {
    match fabric.subsystem_mut(nqn) {
        Some(subsystem) => Ok(subsystem),
        None => deny(Status::INVALID_FIELD, "there is no such subsystem"),
    }
}

fn create(
    handler: &RequestHandler<'_>,
    host: &KnownHost,
    nqn: &str,
    (blocks, block_size): (u64, u32),
    ana_group: u32,
) -> Result<u32, Denial> {
    let bytes = blocks.checked_mul(u64::from(block_size)).filter(|bytes| i64::try_from(*bytes).is_ok());
    let Some(bytes) = bytes else {
        return deny(Status::NAMESPACE_INSUFFICIENT_CAPACITY, "it is more than 8 EiB");
    };
    if bytes == 0 {
        return deny(Status::INVALID_FIELD, "it has no blocks");
    }
    if ana_group > ANA_GROUPS_MAX {
        return deny(Status::ANA_GROUP_ID_INVALID, format!("ANA groups go from 1 to {ANA_GROUPS_MAX}"));
    }
    let uuid = Uuid::new_v4();
    let mut file = None;
    let made = change(handler, host, |fabric| {
        let NamespaceOwned { owner, host_write_protection } = fabric.created_for(host, nqn, bytes)?;
        let subsystem = subsystem(fabric, nqn)?;
        let Some(storage) = &subsystem.storage else {
            return deny(Status::INVALID_FIELD, "the subsystem has no storage for namespaces of hosts");
        };
        check_capacity(storage, bytes)?;
        let taken: Vec<u32> = subsystem.namespaces.iter().map(|namespace| namespace.nsid).collect();
        let nsid = engine::target::free_nsid(&taken);
        if nsid > NAMESPACES_MAX {
            return deny(
                Status::NAMESPACE_ID_UNAVAILABLE,
                format!("all {NAMESPACES_MAX} namespaces are there"),
            );
        }
        let path = storage.directory.join(format!("{uuid}.img"));
        file = Some(path.clone());
        let backend = BackendConfig::File { path, size: Some(bytes) };
        let config = NamespaceConfig {
            uuid: Some(uuid),
            ana_group: ana_group.max(1),
            visible: Visibility::Only(Vec::new()),
            created_by_host: true,
            owner: Some(owner),
            host_write_protection,
            file_pin: storage.pinned_below.clone().map(|directory| FilePin { directory, file: None }),
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
fn check_capacity(storage: &StorageConfig, bytes: u64) -> Result<(), Denial> {
    let directory = storage.directory.display();
    let used = match used_bytes(&storage.directory) {
        Ok(used) => used,
        Err(error) => {
            let rule = format!("the storage directory {directory} cannot be read: {error}");
            return Err(Denial { status: Status::INTERNAL_ERROR, rule });
        }
    };
    if used.checked_add(bytes).is_some_and(|sum| sum <= storage.bytes_max) {
        return Ok(());
    }
    let max = storage.bytes_max;
    let rule = format!("{bytes} bytes more than the {used} in {directory} are over its {max}");
    deny(Status::NAMESPACE_INSUFFICIENT_CAPACITY, rule)
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

fn delete(
    handler: &RequestHandler<'_>,
    host: &KnownHost,
    nqn: &str,
    nsid: Option<u32>,
) -> Result<(), Denial> {
    let files: Vec<PathBuf> = change(handler, host, |fabric| {
        let subsystem = subsystem(fabric, nqn)?;
        let deleted = subsystem.delete_for(host, nsid)?;
        Ok(deleted.iter().filter_map(|namespace| file_of(subsystem.storage.as_ref(), namespace)).collect())
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
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot remove the file of a deleted namespace");
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::target::{PortConfig, WriteProtection};

    use super::super::administration::Permissions;
    use super::super::patches::NamespacePatch;
    use super::super::test_target;
    use super::*;
    use crate::state::StateFile;

    const NQN: &str = "nqn.2026-01.io.selvedge:a";
    const MIB: u64 = 1 << 20;

    struct Testbed {
        folder: tempfile::TempDir,
        target: Arc<Target>,
        administration: Administration,
    }

    impl Testbed {
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
            let target = test_target::start(fabric);
            let state = StateFile::open(&folder.path().join("state")).unwrap();
            let administration = Administration::new(target.clone(), Some(state)).unwrap();
            Self { folder, target, administration }
        }

        fn ask(&self, host: u128, request: &HostRequest) -> Result<u32, Status> {
            let asking =
                AskingHost { known: self::host(host), controller: 1, address: ([10, 0, 0, 1], 1).into() };
            let outcome = answer_and_record(&self.administration, &asking, request);
            outcome.map_err(|denial| denial.status)
        }

        fn create(&self, host: u128, bytes: u64) -> Result<u32, Status> {
            let nqn = NQN.to_owned();
            let blocks = bytes / 4096;
            self.ask(host, &HostRequest::CreateNamespace { nqn, blocks, block_size: 4096, ana_group: 0 })
        }

        fn delete(&self, host: u128, nsid: Option<u32>) -> Result<u32, Status> {
            self.ask(host, &HostRequest::DeleteNamespace { nqn: NQN.to_owned(), nsid })
        }

        fn attach(&self, host: u128, nsid: u32, other: u128) -> Result<u32, Status> {
            let hosts = vec![self::host(other).nqn];
            self.ask(host, &HostRequest::Attach { nqn: NQN.to_owned(), nsid, hosts })
        }

        fn protect(&self, host: u128, nsid: u32, protection: WriteProtection) -> Result<u32, Status> {
            self.ask(host, &HostRequest::Protect { nqn: NQN.to_owned(), nsid, protection })
        }

        fn files(&self) -> usize {
            fs::read_dir(self.folder.path().join("storage")).unwrap().count()
        }

        fn namespace(&self, nsid: u32) -> Option<NamespaceConfig> {
            let fabric = self.target.config();
            fabric.subsystem(NQN)?.namespaces.iter().find(|namespace| namespace.nsid == nsid).cloned()
        }

        /// Changes a namespace as the operator does.
        fn operate(&self, edit: impl FnOnce(&mut SubsystemConfig)) {
            let edit = |fabric: &mut FabricConfig| {
                edit(fabric.subsystem_mut(NQN).unwrap());
                Ok(())
            };
            self.administration.change(Permissions::default(), edit).unwrap();
        }

        fn kept(&self) -> String {
            fs::read_to_string(self.folder.path().join("state/state.json")).unwrap()
        }
    }

    fn host(number: u128) -> KnownHost {
        KnownHost { nqn: format!("nqn.host:{number}"), host_id: Uuid::from_u128(number) }
    }

    #[test]
    fn a_host_creates_and_deletes_namespaces_within_the_capacity() {
        let testbed = Testbed::new();
        assert_eq!(testbed.create(1, 4 * MIB), Ok(2));
        let made = testbed.namespace(2).unwrap();
        assert!(made.created_by_host && made.visible == Visibility::Only(Vec::new()));
        assert_eq!(made.owner, Some(host(1)));
        assert!(
            testbed.kept().contains(&made.uuid.unwrap().to_string()) && testbed.kept().contains("nqn.host:1")
        );
        let full = Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY.do_not_retry());
        assert_eq!(testbed.create(1, 4096), full, "half is one host's");
        assert_eq!(testbed.create(2, 4 * MIB), Ok(3));
        assert_eq!(testbed.create(3, 4096), full, "there is no more");
        assert_eq!(testbed.create(3, u64::MAX), full);
        assert_eq!(testbed.create(3, 0), Err(Status::INVALID_FIELD.do_not_retry()));
        assert_eq!(testbed.create(0, 4096), Err(Status::HOST_ID_NOT_INITIALIZED.do_not_retry()));
        assert_eq!(testbed.files(), 2);
        assert_eq!(testbed.delete(1, Some(2)), Ok(0));
        assert_eq!((testbed.files(), testbed.namespace(2)), (1, None));
        assert!(!testbed.kept().contains(&made.uuid.unwrap().to_string()));
        assert_eq!(testbed.create(1, 4 * MIB), Ok(2));
        assert_eq!(testbed.delete(1, None), Ok(0));
        assert_eq!((testbed.files(), testbed.namespace(2)), (1, None), "what is another host's stays");
        assert!(
            testbed.namespace(1).is_some() && testbed.namespace(3).is_some(),
            "and what is the operator's"
        );
    }

    #[test]
    fn a_file_elsewhere_stays_whatever_a_configuration_says() {
        let testbed = Testbed::new();
        let precious = testbed.folder.path().join("precious.img");
        let backend = BackendConfig::File { path: precious.clone(), size: Some(MIB) };
        let odd = NamespaceConfig {
            created_by_host: true,
            owner: Some(host(1)),
            uuid: Some(Uuid::new_v4()),
            ..NamespaceConfig::new(5, backend, 4096)
        };
        testbed.operate(|subsystem| subsystem.namespaces.push(odd));
        assert_eq!(testbed.delete(1, Some(5)), Ok(0));
        assert!(precious.exists() && testbed.namespace(5).is_none());
    }

    #[test]
    fn what_hosts_made_before_there_were_owners_is_the_operators() {
        let testbed = Testbed::new();
        let nsid = testbed.create(1, MIB).unwrap();
        testbed.operate(|subsystem| {
            subsystem.namespaces[1].owner = None;
            subsystem.namespaces[1].visible = Visibility::default();
        });
        let denied = Err(Status::OPERATION_DENIED.do_not_retry());
        for number in [1, 2] {
            assert_eq!(testbed.delete(number, Some(nsid)), denied);
            assert_eq!(testbed.delete(number, None), Ok(0));
            assert_eq!(testbed.attach(number, nsid, number), denied);
        }
        assert_eq!(testbed.files(), 1);
        // The operator may give it to another host.
        testbed.operate(|subsystem| subsystem.namespaces[1].owner = Some(host(2)));
        assert_eq!(testbed.delete(1, Some(nsid)), denied);
        assert_eq!(testbed.delete(2, Some(nsid)), Ok(0));
        assert_eq!(testbed.files(), 0);
    }

    #[test]
    fn attaching_is_kept() {
        let testbed = Testbed::new();
        let nsid = testbed.create(1, MIB).unwrap();
        assert_eq!(testbed.attach(2, nsid, 2), Err(Status::INVALID_NAMESPACE.do_not_retry()));
        assert_eq!(testbed.attach(1, nsid, 2), Ok(0));
        assert_eq!(testbed.namespace(nsid).unwrap().visible, Visibility::Only(vec![host(2).nqn]));
        assert!(testbed.kept().contains("nqn.host:2"));
        assert_eq!(testbed.attach(1, nsid, 2), Err(Status::NAMESPACE_ALREADY_ATTACHED.do_not_retry()));
        let (nqn, hosts) = (NQN.to_owned(), vec![host(2).nqn]);
        assert_eq!(testbed.ask(1, &HostRequest::Detach { nqn, nsid, hosts }), Ok(0));
        assert_eq!(testbed.namespace(nsid).unwrap().visible, Visibility::Only(Vec::new()));
    }

    #[test]
    fn protection_that_was_to_last_is_not_taken_back() {
        let testbed = Testbed::new();
        let fixed = Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry());
        assert_eq!(testbed.protect(1, 1, WriteProtection::On), fixed, "the operator has not said so");
        testbed
            .operate(|subsystem| subsystem.namespaces[0].host_write_protection = WriteProtection::Permanent);
        assert_eq!(testbed.protect(1, 1, WriteProtection::On), Ok(0));
        assert_eq!(testbed.protect(2, 1, WriteProtection::None), Ok(0));
        assert_eq!(testbed.protect(1, 1, WriteProtection::Permanent), Ok(0));
        assert_eq!(testbed.protect(1, 1, WriteProtection::None), fixed);
        assert_eq!(testbed.protect(1, 1, WriteProtection::Permanent), Ok(0));
        assert!(testbed.kept().contains("permanent"));
    }

    #[test]
    fn what_the_operator_sets_is_his_from_then_on() {
        let testbed = Testbed::new();
        testbed.operate(|subsystem| subsystem.namespaces[0].host_write_protection = WriteProtection::On);
        assert_eq!(testbed.protect(1, 1, WriteProtection::On), Ok(0));
        let patch = r#"{ "write_protection": "on" }"#;
        let patch: NamespacePatch = serde_json::from_str(patch).unwrap();
        testbed.operate(|subsystem| patch.apply(&mut subsystem.namespaces[0]).unwrap());
        let fixed = Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry());
        assert_eq!(testbed.protect(1, 1, WriteProtection::None), fixed);
        assert!(!testbed.kept().contains("protected_by_host"));
    }
}
