//! Admin commands of a controller: its reports are true, and it lives and ends as its host, its
//! timers and its target want.

use std::collections::HashSet;

use crate::raw_host::host::give;
use crate::raw_host::{
    Client, ENGINES, Give, HOST_NQN, Host, Kind, NQN, Options, SIZE, SPACES, TestTarget, assert_status,
    pattern,
};
use engine::backend::BackendConfig;
use engine::limits::{
    ANA_GROUPS_MAX, ASYNC_EVENTS_MAX, ERROR_LOG_ENTRIES, IN_CAPSULE_LENGTH_MAX, IO_QUEUES_MAX,
    KEEP_ALIVE_MS_DEFAULT, NAMESPACES_MAX, QUEUE_ENTRIES_MAX, VERIFY_LENGTH_MAX,
};
use engine::target::{NamespaceConfig, PortConfig, ReferralConfig, SubsystemConfig};
use nvme::Status;
use nvme::SubmissionEntry;
use nvme::command::{admin_opcode, io_opcode};
use nvme::discovery::{AddressFamily, DISCOVERY_NQN, DiscoveryLog, DiscoveryLogHeader, SubsystemType};
use nvme::fabrics::{Capabilities, VERSION_2_0, property};
use nvme::features::{FeatureId, NumberOfQueues, Select, Timestamp, capabilities, value};
use nvme::identify::bits::{
    common_features, controller_type, deallocate_features, features, fused_operations,
    multipath_capabilities, optional_admin_commands, optional_async_events, optional_nvm_commands, sharing,
    status, volatile_write_cache,
};
use nvme::identify::{
    Cns, ControllerList, IdentifyControllerNvm, IdentifyNamespace, IdentifyNamespaceIndependent,
    IdentifyRequest, IoCommandSetList, NSID_ALL, NamespaceIdentifiers, NamespaceList, ascii,
};
use nvme::io::IoCommand;
use nvme::log_page::{
    AnaLog, CommandsSupported, ErrorLogEntry, FirmwareSlotLog, LogPageId, LogPageRequest, SmartLog,
    SupportedLogPages, command_effects,
};
use prerequisite::wait_until;
use zerocopy::FromBytes;

fn namespaces(bytes: &[u8], after: u32) -> Vec<u32> {
    NamespaceList::read_from_bytes(bytes).unwrap().decode(after).unwrap()
}

fn controllers(bytes: &[u8]) -> Vec<u16> {
    ControllerList::read_from_bytes(bytes).unwrap().decode().unwrap()
}

#[test]
fn a_controller_says_what_is_true_of_it() {
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        let capabilities = Capabilities(host.admin.property(property::CAPABILITIES, true).result);
        assert_eq!(capabilities.queue_entries_max(), u32::from(QUEUE_ENTRIES_MAX));
        assert_eq!(host.admin.property(property::VERSION, false).result, u64::from(VERSION_2_0));
        let identify = host.admin.identified_controller();
        assert_eq!(identify.controller_id.get(), host.controller_id);
        assert_eq!(ascii(&identify.serial_number), "SELVEDGE-1");
        assert_eq!(ascii(&identify.model_number), "Selvedge test");
        assert_eq!(&identify.subsystem_nqn[..=NQN.len()], format!("{NQN}\0").as_bytes());
        assert_eq!(identify.controller_type, controller_type::IO);
        assert_eq!(4096 << identify.max_data_transfer_size, 1 << 20, "transfers of 1 MiB are tested to work");
        let capsule = identify.io_command_capsule_size.get() as usize * 16;
        assert_eq!(capsule, 64 + IN_CAPSULE_LENGTH_MAX);
        assert_eq!(identify.in_capsule_data_offset.get(), 0);
        assert_eq!(usize::from(identify.async_event_request_limit) + 1, ASYNC_EVENTS_MAX);
        assert_eq!(usize::from(identify.error_log_page_entries) + 1, ERROR_LOG_ENTRIES);
        assert!(identify.namespaces.get() >= 8 && identify.keep_alive_granularity.get() > 0);
        let commands = identify.optional_nvm_commands.get();
        for supported in [
            optional_nvm_commands::COMPARE,
            optional_nvm_commands::WRITE_ZEROES,
            optional_nvm_commands::DATASET_MANAGEMENT,
            optional_nvm_commands::VERIFY,
            optional_nvm_commands::COPY,
            optional_nvm_commands::WRITE_UNCORRECTABLE,
            optional_nvm_commands::RESERVATIONS,
        ] {
            assert_ne!(commands & supported, 0);
        }
        assert_eq!(identify.fused_operations.get(), fused_operations::COMPARE_AND_WRITE);
        assert_eq!(identify.atomic_compare_write_unit.get(), 0, "a read may see a part of more than a block");
        let optional = identify.optional_admin_commands.get();
        assert_eq!(optional, optional_admin_commands::GET_LBA_STATUS, "requests are not answered here");
        assert_eq!(identify.write_protection, 0, "nor changes protection for a host");
        assert_eq!(identify.copy_descriptor_formats.get(), 3, "formats 0 and 1");
        assert_ne!(identify.multipath_capabilities & multipath_capabilities::ANA_REPORTING, 0);
        assert_eq!((identify.ana_capabilities, identify.ana_group_id_max.get()), (0x1f, ANA_GROUPS_MAX));
        assert!(identify.ana_transition_time_s > 0 && identify.ana_groups.get() == ANA_GROUPS_MAX);
        let events = optional_async_events::NAMESPACE_ATTRIBUTE
            | optional_async_events::ANA_CHANGE
            | optional_async_events::CROSS_CONTROLLER_RESET;
        assert_eq!(identify.optional_async_events.get(), events);
        assert_ne!(identify.volatile_write_cache & volatile_write_cache::PRESENT, 0, "files have a cache");
        let bytes = host.admin.identified(0, Cns::COMMAND_SET_CONTROLLER);
        let nvm = IdentifyControllerNvm::read_from_bytes(&bytes).unwrap();
        assert_eq!(4096_u64 << nvm.write_zeroes_size_limit, 32 << 20, "tested to be the limit");
        assert_eq!(4096_u64 << nvm.verify_size_limit, VERIFY_LENGTH_MAX);
        assert_eq!(nvm.dataset_management_range_size_limit.get(), 2_097_152, "1 GiB of the smallest blocks");
        let sets =
            IoCommandSetList::read_from_bytes(&host.admin.identified(0, Cns::COMMAND_SET_LIST)).unwrap();
        assert_eq!(sets.iter().collect::<Vec<_>>(), [1], "the NVM command set");
    }
}

#[test]
fn each_namespace_says_whether_it_has_a_volatile_cache() {
    let (_target, mut host) = TestTarget::with_host(engine::ring::Engine::Automatic);
    let identify = host.admin.identified_controller();
    assert_ne!(
        identify.volatile_write_cache & volatile_write_cache::PRESENT,
        0,
        "a file may come at any time"
    );
    for space in SPACES {
        let bytes = host.admin.identified(space.nsid, Cns::INDEPENDENT_NAMESPACE);
        let independent = IdentifyNamespaceIndependent::read_from_bytes(&bytes).unwrap();
        let has_none = independent.features & common_features::NO_VOLATILE_WRITE_CACHE != 0;
        assert_eq!(has_none, space.kind != Kind::File, "{space:?}");
    }
    let reply = host.admin.get_feature(FeatureId::VOLATILE_WRITE_CACHE, Select::Current, 0, 0);
    assert_eq!(reply.result as u32, value::WRITE_CACHE_ENABLE);
}

#[test]
fn namespaces_are_described_as_they_are() {
    for engine in ENGINES {
        let mut target = TestTarget::start(engine);
        let mut names = Vec::new();
        for _ in 0..2 {
            let mut host = Host::connect(target.address());
            let admin = &mut host.admin;
            for list in [Cns::ACTIVE_NAMESPACE_LIST, Cns::ALLOCATED_NAMESPACE_LIST] {
                assert_eq!(namespaces(&admin.identified(0, list), 0), [1, 2, 3, 4, 7, 8]);
                assert_eq!(namespaces(&admin.identified(3, list), 3), [4, 7, 8]);
                assert_eq!(namespaces(&admin.identified(8, list), 8), [0; 0]);
            }
            names.push(SPACES.map(|space| described(admin, space)));
            let common = admin.identify(NSID_ALL, IdentifyRequest::new(Cns::NAMESPACE));
            assert_status(common.status, Status::INVALID_NAMESPACE, "it is for who makes namespaces");
            let inactive = [
                Cns::NAMESPACE,
                Cns::ALLOCATED_NAMESPACE,
                Cns::COMMAND_SET_NAMESPACE,
                Cns::INDEPENDENT_NAMESPACE,
            ];
            for cns in inactive {
                assert!(admin.identified(5, cns).iter().all(|byte| *byte == 0), "{cns:?} of an inactive one");
            }
            drop(host);
            target.restart();
        }
        for (space, (before, after)) in SPACES.iter().zip(names[0].iter().zip(&names[1])) {
            assert_eq!(before == after, space.kind == Kind::File, "{space:?}: what has lasted is the same");
        }
        let distinct: HashSet<_> = names[0].iter().collect();
        assert_eq!(distinct.len(), SPACES.len(), "each has its own");
    }
}

/// Checks what Identify says of a namespace, and gives its UUID.
fn described(admin: &mut Client, space: crate::raw_host::Space) -> [u8; 16] {
    let identify = admin.identified_namespace(space.nsid);
    assert_eq!(identify.size_blocks.get(), space.blocks(), "{space:?}");
    assert_eq!(identify.capacity_blocks.get(), space.blocks(), "{space:?}");
    assert_eq!(identify.format().block_bytes(), Some(u64::from(space.block)), "{space:?}");
    assert_eq!(identify.sharing, sharing::SHARED, "{space:?}");
    let zeroes = deallocate_features::READS_ZEROES | deallocate_features::WRITE_ZEROES_DEALLOCATE;
    assert_eq!(identify.deallocate_features, zeroes, "{space:?}");
    assert_eq!(identify.capacity_bytes.get(), u128::from(SIZE), "{space:?}");
    assert_eq!((identify.ana_group_id.get(), identify.attributes), (1, 0), "{space:?}");
    assert_eq!(identify.reservation_capabilities, 0xfe, "all types, and none outlives this target");
    let page = if space.kind == Kind::File { 4096 / space.block as u16 - 1 } else { 0 };
    let preferred = [identify.preferred_write_granularity, identify.preferred_deallocate_alignment];
    assert_eq!(preferred.map(|blocks| blocks.get()), [page; 2], "{space:?}");
    assert_eq!(identify.features & features::OPTIMAL_PERFORMANCE != 0, space.kind == Kind::File, "{space:?}");
    let limits = (identify.copy_range_length_max.get(), identify.copy_length_max.get());
    assert_eq!(limits, (((4 << 20) / space.block) as u16, (16 << 20) / space.block), "{space:?}");
    let allocated = admin.identified(space.nsid, Cns::ALLOCATED_NAMESPACE);
    assert_eq!(IdentifyNamespace::read_from_bytes(&allocated).unwrap(), identify);
    let bytes = admin.identified(space.nsid, Cns::INDEPENDENT_NAMESPACE);
    let independent = IdentifyNamespaceIndependent::read_from_bytes(&bytes).unwrap();
    assert_eq!((independent.sharing, independent.status), (sharing::SHARED, status::READY), "{space:?}");
    assert_eq!(
        (independent.ana_group_id.get(), independent.reservation_capabilities),
        (1, 0xfe),
        "{space:?}"
    );
    admin.identified(space.nsid, Cns::COMMAND_SET_NAMESPACE);
    let bytes = admin.identified(space.nsid, Cns::NAMESPACE_DESCRIPTORS);
    let identifiers = NamespaceIdentifiers::decode(&bytes).unwrap();
    assert_eq!(identifiers.nguid, Some(identify.nguid), "{space:?}");
    assert!(identifiers.command_set.is_some(), "{space:?}");
    identifiers.uuid.expect("every namespace has a UUID")
}

#[test]
fn controller_lists_follow_who_comes_and_goes() {
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| {
            config
                .fabric
                .subsystems
                .push(crate::raw_host::subsystem("nqn.2014-08.org.example:second", Vec::new()));
        });
        let mut first = Host::connect(target.address());
        let other =
            Options { subsystem_nqn: "nqn.2014-08.org.example:second".to_owned(), ..Options::default() };
        let _elsewhere = Host::connect_with(target.address(), other);
        let second = Host::connect(target.address());
        let third = Host::connect(target.address());
        let (one, two, three) = (first.controller_id, second.controller_id, third.controller_id);
        assert_eq!(controllers(&first.admin.identified(0, Cns::CONTROLLER_LIST)), [one, two, three]);
        assert_eq!(controllers(&first.admin.identified(1, Cns::ATTACHED_CONTROLLER_LIST)), [one, two, three]);
        let from = IdentifyRequest { controller_id: two, ..IdentifyRequest::new(Cns::CONTROLLER_LIST) };
        assert_eq!(controllers(&first.admin.identify(0, from).data), [two, three]);
        drop(second);
        wait_until("the second has left the list", || {
            controllers(&first.admin.identified(0, Cns::CONTROLLER_LIST)) == [one, three]
        });
    }
}

#[test]
fn the_discovery_log_is_the_same_however_it_is_read() {
    let target = TestTarget::start(ENGINES[0]);
    let options = Options { subsystem_nqn: DISCOVERY_NQN.to_owned(), ..Options::default() };
    let mut host = Host::connect_with(target.address(), options);
    let header = host.admin.logged(LogPageId::DISCOVERY, 0, 1024);
    let header = DiscoveryLogHeader::read_from_bytes(&header).unwrap();
    let length = header.total_length.get();
    assert_eq!(u64::from(length), 1024 * (header.record_count.get() + 1));
    let whole = host.admin.logged(LogPageId::DISCOVERY, 0, length.into());
    for piece in [4, 1020, 1024, 1028, 2044] {
        let mut joined = Vec::new();
        while joined.len() < whole.len() {
            let left = whole.len() as u64 - joined.len() as u64;
            joined.extend(host.admin.logged(LogPageId::DISCOVERY, joined.len() as u64, left.min(piece)));
        }
        assert!(joined == whole, "in pieces of {piece}");
    }
    let past = host.admin.logged(LogPageId::DISCOVERY, u64::from(length) - 4, 4096);
    assert_eq!((&past[..4], &past[4..]), (&whole[whole.len() - 4..], &[0; 4092][..]));
    assert!(host.admin.logged(LogPageId::DISCOVERY, length.into(), 8).iter().all(|byte| *byte == 0));
}

#[test]
fn log_pages_can_be_read_in_pieces() {
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        let admin = &mut host.admin;
        for (id, length) in [
            (LogPageId::SUPPORTED_LOG_PAGES, 1024),
            (LogPageId::ERROR_INFORMATION, 64 * ERROR_LOG_ENTRIES as u64),
            (LogPageId::SMART, 512),
            (LogPageId::FIRMWARE_SLOT, 512),
            (LogPageId::CHANGED_NAMESPACES, 4096),
            (LogPageId::COMMANDS_SUPPORTED, 4096),
            (LogPageId::CROSS_CONTROLLER_RESET, 8),
        ] {
            let whole = admin.logged(id, 0, length);
            for piece in [4, 64, 508] {
                let mut joined = Vec::new();
                while joined.len() < whole.len() {
                    let left = whole.len() as u64 - joined.len() as u64;
                    joined.extend(admin.logged(id, joined.len() as u64, left.min(piece)));
                }
                assert!(joined == whole, "{id:?} in pieces of {piece}");
            }
            let past = admin.logged(id, length - 4, 64);
            assert!(past[4..].iter().all(|byte| *byte == 0), "{id:?}: zeroes past its end");
            let supported = SupportedLogPages::read_from_bytes(&admin.logged(LogPageId(0), 0, 1024)).unwrap();
            assert!(supported.supports(id), "{id:?}");
        }
        let log = FirmwareSlotLog::read_from_bytes(&admin.logged(LogPageId::FIRMWARE_SLOT, 0, 512)).unwrap();
        assert_eq!(log.active & 7, 1);
        assert_eq!(ascii(&log.revisions[0]), env!("CARGO_PKG_VERSION"));
        let log = admin.logged(LogPageId::COMMANDS_SUPPORTED, 0, 4096);
        let commands = CommandsSupported::read_from_bytes(&log).unwrap();
        let supports = |entry: u32| entry & command_effects::SUPPORTED != 0;
        assert!(supports(commands.io[usize::from(io_opcode::READ)].get()));
        let effects = commands.io[usize::from(io_opcode::WRITE)].get();
        assert!(supports(effects) && effects & command_effects::CONTENT_CHANGE != 0);
        for opcode in [io_opcode::COPY, io_opcode::WRITE_UNCORRECTABLE] {
            let effects = commands.io[usize::from(opcode)].get();
            assert!(supports(effects) && effects & command_effects::CONTENT_CHANGE != 0, "{opcode:#x}");
        }
        for opcode in [io_opcode::VERIFY, io_opcode::RESERVATION_REGISTER] {
            assert_eq!(commands.io[usize::from(opcode)].get(), command_effects::SUPPORTED, "{opcode:#x}");
        }
        assert!(!supports(commands.io[0x7e].get()) && supports(commands.admin[0x06].get()));
        assert!(supports(commands.admin[usize::from(admin_opcode::CROSS_CONTROLLER_RESET)].get()));
        assert!(!supports(commands.admin[usize::from(admin_opcode::NAMESPACE_MANAGEMENT)].get()));
    }
}

#[test]
fn health_counts_what_was_done() {
    for engine in ENGINES {
        let (target, mut host) = TestTarget::with_host(engine);
        let before = host.admin.smart();
        assert_eq!((before.host_read_commands.get(), before.data_units_written.get()), (0, 0));
        let mut queues = [host.io(1), host.io(2)];
        let length = 64 << 10;
        let data = pattern(length, 1);
        for space in SPACES {
            for queue in &mut queues {
                assert!(queue.write(space, 0, &data, false).status.is_success());
                for _ in 0..2 {
                    assert!(queue.read(space, 0, length as u32 / space.block).status.is_success());
                }
                let compare = IoCommand::Compare { start: 0, blocks: 8192 / space.block }.encode(space.nsid);
                queue.run(compare, give(&data[..8192], true));
                assert!(queue.run(IoCommand::Flush.encode(space.nsid), Give::Nothing).status.is_success());
            }
        }
        let (rounds, units) = (2 * SPACES.len() as u64, |bytes: u64| u128::from(bytes.div_ceil(512_000)));
        let check = |log: &SmartLog, what: &str| {
            assert_eq!(log.host_write_commands.get(), u128::from(rounds), "{what}");
            assert_eq!(log.host_read_commands.get(), u128::from(rounds * 3), "{what}");
            assert_eq!(log.data_units_written.get(), units(rounds * length as u64), "{what}");
            assert_eq!(log.data_units_read.get(), units(rounds * (2 * length as u64 + 8192)), "{what}");
            assert_eq!((log.media_errors.get(), log.critical_warning), (0, 0), "{what}");
        };
        check(&host.admin.smart(), "while the queues are there");
        drop(queues);
        wait_until("the queues are gone", || target.connections() == 1);
        check(&host.admin.smart(), "when they are gone");
        let mut other = Host::connect(target.address());
        check(&other.admin.smart(), "seen by another controller");
    }
}

fn errors(admin: &mut Client) -> Vec<ErrorLogEntry> {
    let length = size_of::<ErrorLogEntry>() * ERROR_LOG_ENTRIES;
    let bytes = admin.logged(LogPageId::ERROR_INFORMATION, 0, length as u64);
    let entries = <[ErrorLogEntry]>::ref_from_bytes(&bytes).unwrap();
    entries.iter().filter(|entry| entry.error_count.get() != 0).cloned().collect()
}

#[test]
fn the_error_log_tells_of_the_commands_that_failed() {
    for engine in ENGINES {
        let (target, mut host) = TestTarget::with_host(engine);
        assert_eq!(errors(&mut host.admin), [], "nothing has failed yet");
        let mut queue = host.io(3);
        let space = SPACES[1];
        let outside = queue.read(space, space.blocks() + 5, 1);
        let data = pattern(4096, 9);
        let compare = IoCommand::Compare { start: 0, blocks: 1 }.encode(space.nsid);
        let different = queue.run(compare, Give::Capsule(&data));
        assert_eq!(different.status, Status::COMPARE_FAILURE);
        let unknown = host.admin.run(SubmissionEntry::new(0xc5, 0), Give::Nothing);
        let log = errors(&mut host.admin);
        let logged: Vec<_> = log
            .iter()
            .map(|entry| {
                (entry.error_count.get(), entry.queue_id.get(), entry.command_id.get(), entry.opcode)
            })
            .collect();
        let expected = [
            (3, 0, unknown.command_id, 0xc5),
            (2, 3, different.command_id, io_opcode::COMPARE),
            (1, 3, outside.command_id, io_opcode::READ),
        ];
        assert_eq!(logged, expected, "newest first");
        for (entry, reply) in log.iter().zip([&unknown, &different, &outside]) {
            assert_eq!(entry.status.get() >> 1, reply.status.bits());
            assert_eq!((entry.version, entry.transport_type), (1, 3));
        }
        assert_eq!(log[2].lba.get(), space.blocks() + 5);
        let places: Vec<u16> = log.iter().map(|entry| entry.parameter_location.get()).collect();
        assert_eq!(places, [0, ErrorLogEntry::NONE, 40], "the opcode, nothing, and the first block");
        assert_eq!((log[1].namespace_id.get(), log[2].namespace_id.get()), (space.nsid, space.nsid));
        for _ in 0..ERROR_LOG_ENTRIES + 10 {
            queue.read(space, space.blocks(), 1);
        }
        let log = errors(&mut host.admin);
        assert_eq!(log.len(), ERROR_LOG_ENTRIES, "the oldest are forgotten");
        let total = 3 + ERROR_LOG_ENTRIES as u64 + 10;
        assert_eq!(log[0].error_count.get(), total);
        assert_eq!(host.admin.smart().error_log_entries.get(), u128::from(total));
        assert_eq!(errors(&mut Host::connect(target.address()).admin), [], "another controller's is its own");
    }
}

#[test]
fn features_keep_what_is_set_until_a_reset() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let options = Options { keep_alive_ms: 60_000, ..Options::default() };
        let mut host = Host::connect_with(target.address(), options);
        let admin = &mut host.admin;
        for (id, default, set) in [
            (FeatureId::ARBITRATION, 0, 3),
            (FeatureId::TEMPERATURE_THRESHOLD, 0xffff, 350),
            (FeatureId::ERROR_RECOVERY, 0, 10),
            (FeatureId::WRITE_ATOMICITY, 0, 1),
            (FeatureId::ASYNC_EVENT_CONFIG, 0, 0x100),
            (FeatureId::KEEP_ALIVE_TIMER, 60_000, 90_000),
        ] {
            let get = |admin: &mut Client, select| admin.get_feature(id, select, 0, 0).result as u32;
            assert_eq!(get(admin, Select::Current), default, "{id:?}");
            assert_eq!(get(admin, Select::Capabilities), capabilities::CHANGEABLE, "{id:?}");
            assert_eq!(admin.set_feature(id, set, false, Give::Nothing).status, Status::SUCCESS, "{id:?}");
            assert_eq!(get(admin, Select::Current), set, "{id:?}");
            // The timer begins with the value of Connect, and its default is the transport's.
            let default = if id == FeatureId::KEEP_ALIVE_TIMER { KEEP_ALIVE_MS_DEFAULT } else { default };
            assert_eq!(get(admin, Select::Default), default, "{id:?}");
            assert_eq!(get(admin, Select::Saved), default, "{id:?}");
        }
        let cache = admin.get_feature(FeatureId::VOLATILE_WRITE_CACHE, Select::Current, 0, 0);
        assert_eq!(cache.result as u32, value::WRITE_CACHE_ENABLE);
        let id = admin.get_feature(FeatureId::HOST_IDENTIFIER, Select::Current, value::EXTENDED_HOST_ID, 16);
        assert_eq!(id.data, [7; 16]);
        for in_capsule in [true, false] {
            let time = Timestamp::new(1_234_567_890_123, 0);
            let bytes = zerocopy::IntoBytes::as_bytes(&time).to_vec();
            let reply = admin.set_feature(FeatureId::TIMESTAMP, 0, false, give(&bytes, in_capsule));
            assert_eq!(reply.status, Status::SUCCESS);
            let data = admin.get_feature(FeatureId::TIMESTAMP, Select::Current, 0, 8).data;
            let read = Timestamp::read_from_bytes(&data).unwrap();
            let passed_ms = read.milliseconds().checked_sub(1_234_567_890_123).unwrap();
            assert!(passed_ms < 60_000, "the clock goes on from what was set");
            assert_eq!(read.attributes & 0xe, Timestamp::SET_BY_HOST);
        }
        let reply = admin.set_feature(FeatureId::NUMBER_OF_QUEUES, 0x0004_0009, false, Give::Nothing);
        let granted = NumberOfQueues::decode(reply.result as u32).unwrap();
        assert_eq!((granted.submission.get(), granted.completion.get()), (5, 5), "pairs only");
        let reply = admin.set_feature(FeatureId::NUMBER_OF_QUEUES, 0x1fff_1fff, false, Give::Nothing);
        let granted = NumberOfQueues::decode(reply.result as u32).unwrap();
        assert_eq!(granted.submission.get(), IO_QUEUES_MAX, "as many as there are");
        assert_eq!(admin.set_property(property::CONFIGURATION, 0).status, Status::SUCCESS);
        wait_until("the reset is complete", || admin.property(property::STATUS, false).result == 0);
        host.enable();
        let reply = host.admin.get_feature(FeatureId::ARBITRATION, Select::Current, 0, 0);
        assert_eq!(reply.result, 0, "a reset brings the defaults back");
    }
}

#[test]
fn the_ana_log_names_every_namespace_however_it_is_read() {
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| {
            let namespaces = (1..=NAMESPACES_MAX).map(|nsid| NamespaceConfig {
                ana_group: if (1001..=1024).contains(&nsid) { nsid } else { nsid % 7 + 1 },
                ..NamespaceConfig::new(nsid, BackendConfig::Null { size: 4096 }, 4096)
            });
            config.fabric.subsystems[0].namespaces = namespaces.collect();
        });
        let mut host = Host::connect(target.address());
        let groups = 7 + 24;
        let length = 16 + 32 * groups + 4 * u64::from(NAMESPACES_MAX);
        let whole = host.admin.logged(LogPageId::ANA, 0, length + 64);
        assert!(whole[length as usize..].iter().all(|byte| *byte == 0), "nothing behind it");
        let log = AnaLog::parse(&whole).unwrap();
        assert_eq!(log.groups.len() as u64, groups);
        let mut nsids: Vec<u32> = log.groups.iter().flat_map(|g| g.nsids.iter().map(|n| n.get())).collect();
        nsids.sort_unstable();
        assert_eq!(nsids, (1..=NAMESPACES_MAX).collect::<Vec<u32>>());
        assert!(log.groups.is_sorted_by(|before, after| before.id < after.id));
        for piece in [68, 1024, 4096] {
            let mut joined = Vec::new();
            while (joined.len() as u64) < length {
                let left = length - joined.len() as u64;
                joined.extend(host.admin.logged(LogPageId::ANA, joined.len() as u64, left.min(piece)));
            }
            assert!(joined == whole[..length as usize], "in pieces of {piece}");
        }
        let request = LogPageRequest::new(LogPageId::ANA, 0, 16 + 32 * groups);
        let page = host.admin.log_page(&LogPageRequest { specific_parameter: 1, ..request }).data;
        let log = AnaLog::parse(&page).unwrap();
        assert_eq!(log.groups.len() as u64, groups);
        assert!(log.groups.iter().all(|group| group.nsids.is_empty()), "groups only");
    }
}

const LOCKED_NQN: &str = "nqn.2014-08.org.example:locked";

#[test]
fn discovery_tells_each_host_what_it_may_use() {
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| {
            config.fabric.ports.push(PortConfig {
                advertise: Some("192.0.2.7".to_owned()),
                ..PortConfig::new(2, "127.0.0.1:0".parse().unwrap())
            });
            config.fabric.ports.push(PortConfig::new(3, "0.0.0.0:0".parse().unwrap()));
            config.fabric.referrals.push(ReferralConfig {
                address: "192.0.2.9".to_owned(),
                service: "8009".to_owned(),
                nqn: None,
            });
            config.fabric.subsystems.push(SubsystemConfig {
                allow_any_host: false,
                hosts: vec!["nqn.2014-08.org.example:friend".to_owned()],
                ..crate::raw_host::subsystem(LOCKED_NQN, Vec::new())
            });
        });
        let ports: Vec<String> = target.ports().iter().map(|port| port.port().to_string()).collect();
        for (host_nqn, subsystems) in
            [(HOST_NQN, &[NQN][..]), ("nqn.2014-08.org.example:friend", &[NQN, LOCKED_NQN])]
        {
            for address in [target.address(), ([127, 0, 0, 1], target.ports()[2].port()).into()] {
                let options = Options {
                    subsystem_nqn: DISCOVERY_NQN.to_owned(),
                    host_nqn: host_nqn.to_owned(),
                    ..Options::default()
                };
                let mut host = Host::connect_admin(address, options);
                let identify = host.admin.identified_controller();
                assert_eq!(identify.controller_type, controller_type::DISCOVERY);
                let events = identify.optional_async_events.get();
                assert_eq!(events, optional_async_events::DISCOVERY_LOG_CHANGE);
                let page = host.admin.logged(LogPageId::DISCOVERY, 0, 16 << 10);
                let log = DiscoveryLog::parse(&page).unwrap();
                let mut found = Vec::new();
                for entry in log.entries {
                    assert_eq!(entry.address_family, AddressFamily::IPV4);
                    let kind = entry.subsystem_type;
                    found.push((kind, entry.nqn().unwrap().to_string(), entry.address(), entry.service_id()));
                }
                let own = (SubsystemType::CURRENT_DISCOVERY, DISCOVERY_NQN);
                let mut expected = Vec::new();
                for (kind, nqn) in subsystems.iter().map(|nqn| (SubsystemType::NVM, *nqn)).chain([own]) {
                    for (address, port) in ["127.0.0.1", "192.0.2.7", "127.0.0.1"].iter().zip(&ports) {
                        expected.push((kind, nqn.to_owned(), (*address).to_owned(), port.clone()));
                    }
                }
                let referral = ("192.0.2.9".to_owned(), "8009".to_owned());
                let elsewhere = (SubsystemType::REFERRAL, DISCOVERY_NQN.to_owned(), referral.0, referral.1);
                expected.push(elsewhere);
                assert_eq!(found, expected, "what {host_nqn} may use");
                assert_eq!(host.admin.logged(LogPageId::DISCOVERY, 1024, 1024), page[1024..2048]);
                let reply = host.admin.run(SubmissionEntry::new(admin_opcode::ABORT, 0), Give::Nothing);
                assert_status(reply.status, Status::INVALID_OPCODE, "not of a discovery controller");
            }
        }
    }
}
