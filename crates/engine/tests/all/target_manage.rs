//! Namespaces that hosts create, attach and delete: what is checked before the administration learns of it, what it is
//! asked, and how its answer comes back.

use crate::raw_host::{Client, ENGINES, Give, Host, NQN, Options, SIZE, TestTarget, assert_status};
use crate::reservation_party::Party;
use engine::backend::BackendConfig;
use engine::limits::{ANA_GROUPS_MAX, HOST_CHANGES_AT_ONCE, HOST_REQUESTS_MAX, JOBS_SHARE_OF_HOST};
use engine::ring::Engine;
use engine::target::{
    HostRequest, HostRequests, KnownHost, NamespaceConfig, PendingRequest, StorageConfig, TargetError,
    Visibility, WriteProtection,
};
use nvme::command::admin_opcode;
use nvme::features::FeatureId;
use nvme::identify::bits::{ana_capabilities, optional_admin_commands, sharing, write_protection};
use nvme::identify::{
    Cns, CommandSet, ControllerList, IdentifyNamespace, IdentifyRequest, NSID_ALL, NamespaceList,
};
use nvme::log_page::{CommandsSupported, LogPageId, command_effects};
use nvme::namespace_management::{NamespaceAttachment, NamespaceManagement};
use nvme::reservation::ReservationType;
use nvme::{Status, SubmissionEntry};
use zerocopy::{FromBytes, IntoBytes};

const OTHER_HOST: &str = "nqn.2014-08.org.example:other-host";
const SECOND: &str = "nqn.2014-08.org.example:second";
/// Bytes that hosts may use.
const ROOM: u64 = 32 << 20;

pub(crate) fn start(engine: Engine) -> (TestTarget, HostRequests) {
    let target = TestTarget::start_with(engine, |config| {
        let directory = match &config.fabric.subsystems[0].namespaces[5].backend {
            BackendConfig::File { path, .. } => path.parent().unwrap().join("hosts"),
            _ => unreachable!("the last namespace is a file"),
        };
        std::fs::create_dir(&directory).unwrap();
        config.fabric.subsystems[0].storage =
            Some(StorageConfig { bytes_max_per_host: Some(ROOM), ..StorageConfig::new(directory, ROOM) });
        config.fabric.subsystems.push(crate::raw_host::subsystem(SECOND, Vec::new()));
    });
    let requests = target.target().host_requests().expect("the first to ask for them");
    assert!(target.target().host_requests().is_none(), "there is one administration");
    (target, requests)
}

pub(crate) fn known(host: &Host) -> KnownHost {
    let (nqn, id) = (host.options.host_nqn.clone(), host.options.host_id);
    KnownHost { nqn, host_id: uuid::Uuid::from_bytes(id) }
}

fn wanted() -> IdentifyNamespace {
    let mut wanted = IdentifyNamespace::default();
    wanted.size_blocks = 2048.into();
    wanted.capacity_blocks = 2048.into();
    wanted.formatted_lba_size = 1;
    wanted.sharing = sharing::SHARED;
    wanted.ana_group_id = 3.into();
    wanted
}

fn create() -> SubmissionEntry {
    NamespaceManagement::Create { command_set: CommandSet::NVM }.encode(0)
}

pub(crate) fn controllers(ids: &[u16]) -> ControllerList {
    ControllerList::starting_at(0, ids.iter().copied())
}

fn namespaces(admin: &mut Client, cns: Cns) -> Vec<u32> {
    NamespaceList::read_from_bytes(&admin.identified(0, cns)).unwrap().decode(0).unwrap()
}

fn next(requests: &HostRequests) -> PendingRequest {
    requests.next().unwrap().expect("a request comes")
}

/// Sends a command whose request the administration answers as `answer` says.
pub(crate) fn asked(
    host: &mut Host,
    requests: &HostRequests,
    (entry, give): (SubmissionEntry, Give<'_>),
    answer: Result<u32, Status>,
) -> (HostRequest, crate::raw_host::Reply) {
    let id = host.admin.submit(entry, give);
    let probe = host.admin.submit(SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0), Give::Nothing);
    // The admin queue's R2T is answered on the way.
    assert_eq!(host.admin.wait().command_id, probe, "others do not wait for the administration");
    let pending = next(requests);
    let request = pending.request.clone();
    assert_eq!(pending.host.known.nqn, host.options.host_nqn);
    assert_eq!(pending.host.known.host_id.as_bytes(), &host.options.host_id);
    assert_eq!(pending.host.controller, host.controller_id);
    assert_eq!(pending.host.address, host.admin.stream.local_addr().unwrap());
    pending.answer(answer);
    let reply = host.admin.wait();
    assert_eq!(reply.command_id, id);
    (request, reply)
}

#[test]
fn a_host_whose_requests_wait_leaves_others_theirs() {
    const SHARE: usize = HOST_REQUESTS_MAX / JOBS_SHARE_OF_HOST;
    let (target, requests) = start(ENGINES[0]);
    let mut greedy = Host::connect(target.address());
    let mut other = Host::connect_with(target.address(), Options::named(OTHER_HOST));
    let delete = NamespaceManagement::Delete.encode(NSID_ALL);
    let ids: Vec<u16> = (0..=SHARE).map(|_| greedy.admin.submit(delete, Give::Nothing)).collect();
    let refused = greedy.admin.wait();
    assert_eq!(refused.command_id, ids[SHARE], "the one beyond its share");
    assert_status(refused.status, Status::COMMAND_INTERRUPTED, "it may come again");
    let others = other.admin.submit(delete, Give::Nothing);
    for _ in 0..=SHARE {
        next(&requests).answer(Ok(0));
    }
    let reply = other.admin.wait();
    assert_eq!((reply.command_id, reply.status), (others, Status::SUCCESS));
    for _ in 0..SHARE {
        assert_eq!(greedy.admin.wait().status, Status::SUCCESS);
    }
    let again = greedy.admin.submit(delete, Give::Nothing);
    next(&requests).answer(Ok(0));
    assert_eq!(greedy.admin.wait().command_id, again, "its share is free again");
}

/// Sends a change and lets the administration answer it; `false` if it is refused before.
fn is_asked(host: &mut Host, requests: &HostRequests, entry: SubmissionEntry) -> bool {
    let id = host.admin.submit(entry, Give::Nothing);
    let probe = host.admin.submit(SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0), Give::Nothing);
    let first = host.admin.wait();
    if first.command_id == id {
        assert_status(first.status, Status::COMMAND_INTERRUPTED, "it may come again");
        assert_eq!(host.admin.wait().command_id, probe);
        return false;
    }
    next(requests).answer(Ok(0));
    assert_eq!(host.admin.wait().command_id, id);
    true
}

#[test]
fn a_host_that_changes_something_again_and_again_is_refused_and_others_are_not() {
    let (target, requests) = start(ENGINES[0]);
    let mut greedy = Host::connect(target.address());
    let mut other = Host::connect_with(target.address(), Options::named(OTHER_HOST));
    let delete = NamespaceManagement::Delete.encode(NSID_ALL);
    let most = 10 * HOST_CHANGES_AT_ONCE as usize;
    let asked = (0..most).take_while(|_| is_asked(&mut greedy, &requests, delete)).count();
    assert!((HOST_CHANGES_AT_ONCE as usize..most).contains(&asked), "{asked}");
    assert!(is_asked(&mut other, &requests, delete), "another host has its own");
    assert_eq!(target.target().metrics().changes_refused, 1);
}

/// Something that makes a description wrong, and what it is refused with.
type Spoiled = (fn(&mut IdentifyNamespace), Status);

#[test]
fn namespaces_are_created_attached_and_deleted_by_the_administration() {
    for engine in ENGINES {
        let (target, requests) = start(engine);
        let mut host = Host::connect(target.address());
        let other = Options::named(OTHER_HOST);
        let mut other = Host::connect_with(target.address(), other);
        let data = wanted();
        let (request, reply) =
            asked(&mut host, &requests, (create(), Give::Capsule(data.as_bytes())), Ok(40));
        let nqn = || NQN.to_owned();
        let expected =
            HostRequest::CreateNamespace { nqn: nqn(), blocks: 2048, block_size: 4096, ana_group: 3 };
        assert_eq!((request, reply.status, reply.result), (expected, Status::SUCCESS, 40));
        // What the administration does of it.
        let path = target.file(7).parent().unwrap().join("hosts/40");
        let config = NamespaceConfig {
            visible: Visibility::Only(Vec::new()),
            created_by_host: true,
            owner: Some(known(&host)),
            ana_group: 3,
            ..NamespaceConfig::new(40, BackendConfig::File { path, size: Some(SIZE) }, 4096)
        };
        target.apply(|fabric| fabric.subsystems[0].namespaces.push(config));
        assert_eq!(namespaces(&mut host.admin, Cns::ACTIVE_NAMESPACE_LIST), [1, 2, 3, 4, 7, 8]);
        assert_eq!(namespaces(&mut host.admin, Cns::ALLOCATED_NAMESPACE_LIST), [1, 2, 3, 4, 7, 8, 40]);
        assert_eq!(namespaces(&mut other.admin, Cns::ALLOCATED_NAMESPACE_LIST), [1, 2, 3, 4, 7, 8]);
        assert!(other.admin.identified(40, Cns::ALLOCATED_NAMESPACE).iter().all(|byte| *byte == 0));
        let reply = other.admin.identify(40, IdentifyRequest::new(Cns::ATTACHED_CONTROLLER_LIST));
        assert_status(reply.status, Status::INVALID_NAMESPACE, "it is nothing to another host");
        let allocated = host.admin.identified(40, Cns::ALLOCATED_NAMESPACE);
        let allocated = IdentifyNamespace::read_from_bytes(&allocated).unwrap();
        assert_eq!((allocated.size_blocks.get(), allocated.ana_group_id.get()), (2048, 3));
        assert!(host.admin.identified(40, Cns::NAMESPACE).iter().all(|byte| *byte == 0), "not attached");
        let attached = |admin: &mut Client| admin.identified(40, Cns::ATTACHED_CONTROLLER_LIST)[..2].to_vec();
        assert_eq!(attached(&mut host.admin), [0, 0]);
        let both = controllers(&[host.controller_id, other.controller_id]);
        let hosts = vec![host.options.host_nqn.clone(), OTHER_HOST.to_owned()];
        let entry = NamespaceAttachment::Attach.encode(40);
        let (request, reply) = asked(&mut host, &requests, (entry, Give::Asked(both.as_bytes())), Ok(0));
        assert_eq!(request, HostRequest::Attach { nqn: nqn(), nsid: 40, hosts });
        assert_eq!(reply.status, Status::SUCCESS);
        target.apply(|fabric| {
            fabric.subsystems[0].namespaces[6].visible = Visibility::Only(vec![OTHER_HOST.to_owned()]);
        });
        assert_eq!(attached(&mut host.admin), [1, 0], "the other host's alone");
        assert!(namespaces(&mut other.admin, Cns::ACTIVE_NAMESPACE_LIST).contains(&40));
        let entry = NamespaceAttachment::Detach.encode(40);
        let one = controllers(&[other.controller_id]);
        let denied = Err(Status::OPERATION_DENIED);
        let (request, reply) = asked(&mut host, &requests, (entry, Give::Asked(one.as_bytes())), denied);
        let hosts = vec![OTHER_HOST.to_owned()];
        assert_eq!(request, HostRequest::Detach { nqn: nqn(), nsid: 40, hosts });
        assert_status(reply.status, Status::OPERATION_DENIED, "as the administration says");
        for (nsid, expected) in [(40, Some(40)), (NSID_ALL, None)] {
            let entry = NamespaceManagement::Delete.encode(nsid);
            let (request, reply) = asked(&mut host, &requests, (entry, Give::Nothing), Ok(0));
            assert_eq!(request, HostRequest::DeleteNamespace { nqn: nqn(), nsid: expected });
            assert_eq!(reply.status, Status::SUCCESS);
        }
    }
}

#[test]
fn namespaces_that_cannot_be_are_refused_before_anybody_is_asked() {
    for engine in ENGINES {
        let (target, requests) = start(engine);
        let mut host = Host::connect(target.address());
        let elsewhere = Options { subsystem_nqn: SECOND.to_owned(), ..Options::default() };
        let elsewhere = Host::connect_with(target.address(), elsewhere);
        let wrong: [Spoiled; 12] = [
            (|n| n.size_blocks = 0.into(), Status::INVALID_FIELD),
            (|n| n.capacity_blocks = 2047.into(), Status::THIN_PROVISIONING_NOT_SUPPORTED),
            (|n| n.capacity_blocks = 2049.into(), Status::INVALID_FIELD),
            (|n| n.formatted_lba_size = 2, Status::INVALID_FORMAT),
            (|n| n.formatted_lba_size = 0x10, Status::INVALID_FORMAT),
            (|n| n.protection_settings = 1, Status::INVALID_FORMAT),
            (|n| n.sharing = 0, Status::INVALID_FIELD),
            (|n| n.sharing = 3, Status::INVALID_FIELD),
            (|n| n.nvm_set_id = 1.into(), Status::INVALID_FIELD),
            (|n| n.endurance_group_id = 1.into(), Status::INVALID_FIELD),
            (|n| n.ana_group_id = (ANA_GROUPS_MAX + 1).into(), Status::ANA_GROUP_ID_INVALID),
            (|n| n.ana_group_id = u32::MAX.into(), Status::ANA_GROUP_ID_INVALID),
        ];
        for (at, (change, expected)) in wrong.into_iter().enumerate() {
            let mut data = wanted();
            change(&mut data);
            let reply = host.admin.run(create(), Give::Asked(data.as_bytes()));
            assert_status(reply.status, expected, &format!("change {at}"));
        }
        let zoned = NamespaceManagement::Create { command_set: CommandSet::ZONED }.encode(0);
        let reply = host.admin.run(zoned, Give::Capsule(wanted().as_bytes()));
        assert_status(reply.status, Status::COMMAND_SET_NOT_SUPPORTED, "zones");
        let reply = host.admin.run(create(), Give::Capsule(&wanted().as_bytes()[..512]));
        assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "a part of the structure");
        let reply = host.admin.run(create(), Give::Nothing);
        assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "nothing of it");
        let mut reserved = create();
        reserved.cdw10 = 7.into();
        assert_status(host.admin.run(reserved, Give::Nothing).status, Status::INVALID_FIELD, "SEL 7");
        let own = host.controller_id;
        let mut backwards = controllers(&[own, own + 1]);
        backwards.entries.swap(0, 1);
        let mut endless = controllers(&[own]);
        endless.count = 2048.into();
        for (list, what) in [
            (controllers(&[]), "empty"),
            (controllers(&[own + 100]), "unknown"),
            (controllers(&[elsewhere.controller_id]), "of another subsystem"),
            (controllers(&[own, elsewhere.controller_id]), "one of another subsystem"),
            (backwards, "out of order"),
            (endless, "longer than a list can be"),
        ] {
            let entry = NamespaceAttachment::Detach.encode(1);
            let reply = host.admin.run(entry, Give::Asked(list.as_bytes()));
            assert_status(reply.status, Status::CONTROLLER_LIST_INVALID, what);
        }
        target.target().call_administration();
        assert!(requests.next().unwrap().is_none(), "no request was made");
    }
}

/// Finding 2: what a host may have is looked at where it is done, and not where its command came in.
#[test]
fn a_reservation_that_comes_before_the_deletion_counts() {
    for engine in ENGINES {
        let (target, requests) = start(engine);
        let nsid = 2;
        let mut owner = Party::connect(target.address(), 1);
        let mut other = Party::connect(target.address(), 2);
        target.apply(|fabric| {
            fabric.subsystems[0].namespaces[1].owner = Some(known(&owner.host));
        });
        owner.host.admin.submit(NamespaceManagement::Delete.encode(nsid), Give::Nothing);
        let pending = next(&requests);
        other.register(nsid);
        other.acquire(nsid, ReservationType::WriteExclusive);
        let host = &pending.host.known;
        let mut wanted = target.target().config();
        assert_eq!(wanted.subsystems[0].delete_for(host, Some(nsid)).map(|deleted| deleted.len()), Ok(1));
        let refused = target.target().apply_for(&wanted, host);
        assert!(matches!(refused, Err(TargetError::Reserved { nsid: 2, .. })), "{refused:?}");
        pending.answer(Err(Status::RESERVATION_CONFLICT));
        assert_status(owner.host.admin.wait().status, Status::RESERVATION_CONFLICT, "it is not deleted");
        assert!(namespaces(&mut owner.host.admin, Cns::ACTIVE_NAMESPACE_LIST).contains(&nsid));
        // To hide it from the other host, or to protect it, is no less.
        for change in [
            (|n: &mut NamespaceConfig| n.visible.detach("nqn.2014-08.org.example:host-2"))
                as fn(&mut NamespaceConfig),
            |n| n.write_protection = WriteProtection::On,
        ] {
            let mut wanted = target.target().config();
            change(&mut wanted.subsystems[0].namespaces[1]);
            let refused = target.target().apply_for(&wanted, &known(&owner.host));
            assert!(matches!(refused, Err(TargetError::Reserved { nsid: 2, .. })), "{refused:?}");
            // Who has reserved it may.
            target.target().apply_for(&wanted, &known(&other.host)).unwrap();
            target.apply(|fabric| {
                let namespace = &mut fabric.subsystems[0].namespaces[1];
                (namespace.visible, namespace.write_protection) = Default::default();
            });
        }
        other.clear(nsid);
        target.target().apply_for(&wanted, &known(&owner.host)).unwrap();
        assert!(!namespaces(&mut owner.host.admin, Cns::ACTIVE_NAMESPACE_LIST).contains(&nsid));
    }
}

#[test]
fn namespace_management_is_offered_where_it_is_done() {
    for engine in ENGINES {
        let (target, requests) = start(engine);
        let mut host = Host::connect(target.address());
        let identify = host.admin.identified_controller();
        let offered = optional_admin_commands::NAMESPACE_MANAGEMENT | optional_admin_commands::GET_LBA_STATUS;
        assert_eq!(identify.optional_admin_commands.get(), offered);
        assert_ne!(identify.ana_capabilities & ana_capabilities::GROUP_ID_MANAGED, 0);
        assert_ne!(identify.write_protection & write_protection::WRITE_PROTECT, 0);
        assert_eq!(identify.unallocated_capacity_bytes.get(), u128::from(ROOM));
        assert_eq!(identify.total_capacity_bytes.get(), u128::from(ROOM + 6 * SIZE));
        let common = host.admin.identified_namespace(NSID_ALL);
        let sizes = common.lba_formats[..2].iter().map(|format| format.block_bytes());
        assert_eq!(sizes.collect::<Vec<_>>(), [Some(512), Some(4096)], "for new namespaces");
        assert_eq!((common.lba_formats_count, common.size_blocks.get()), (1, 0), "0's based");
        let log = host.admin.logged(LogPageId::COMMANDS_SUPPORTED, 0, 4096);
        let log = CommandsSupported::read_from_bytes(&log).unwrap();
        let effects = log.admin[usize::from(admin_opcode::NAMESPACE_MANAGEMENT)].get();
        assert_ne!(effects & command_effects::NAMESPACE_INVENTORY_CHANGE, 0);
        let options = Options { subsystem_nqn: SECOND.to_owned(), ..Options::default() };
        let mut second = Host::connect_with(target.address(), options);
        let identify = second.admin.identified_controller();
        let offered = identify.optional_admin_commands.get();
        assert_eq!(offered, optional_admin_commands::GET_LBA_STATUS, "it has no storage");
        for entry in [create(), NamespaceAttachment::Attach.encode(1)] {
            let reply = second.admin.run(entry, Give::Asked(wanted().as_bytes()));
            assert_status(reply.status, Status::INVALID_OPCODE, "not offered");
        }
        // An administration that is gone is reported, and one that is slow can be asked so often only.
        let set = |host: &mut Host| {
            let mut entry = SubmissionEntry::new(admin_opcode::SET_FEATURES, 1);
            entry.cdw10 = u32::from(FeatureId::NAMESPACE_WRITE_PROTECTION.0).into();
            entry.cdw11 = 1.into();
            host.admin.submit(entry, Give::Nothing)
        };
        let held = set(&mut host);
        drop(next(&requests));
        drop(requests);
        let delete = host.admin.submit(NamespaceManagement::Delete.encode(1), Give::Nothing);
        let reply = host.admin.wait();
        assert_eq!(reply.command_id, delete);
        assert_status(reply.status, Status::INTERNAL_ERROR, "no administration is there");
        assert_ne!(held, delete);
    }
}
