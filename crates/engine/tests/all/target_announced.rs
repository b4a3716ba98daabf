//! Lists by which a controller describes itself, compared with its conduct: every command, log page and feature that it lists
//! is there, and no other.

use std::collections::{BTreeMap, BTreeSet};

use crate::raw_host::{Client, ENGINES, Give, Host, Options, TestTarget, assert_status, subsystem};
use engine::target::{AnaGroupConfig, GroupState};
use nvme::command::admin_opcode;
use nvme::discovery::{
    CONTROLLER_ID_DYNAMIC, DISCOVERY_NQN, DiscoveryLog, DiscoveryLogHeader, TransportType, tcp_security,
    transport_requirements,
};
use nvme::fabrics::{Capabilities, configuration, controller_status, property};
use nvme::features::{FeatureId, Select, capabilities};
use nvme::identify::{Cns, CommandSet, IdentifyRequest};
use nvme::log_page::{
    AnaLog, CommandsSupported, FeaturesSupported, LogPageId, LogPageRequest, SupportedLogPages,
    command_effects, feature_effects,
};
use nvme::{Status, SubmissionEntry};
use prerequisite::wait_until;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

fn discovery() -> Options {
    Options { subsystem_nqn: DISCOVERY_NQN.to_owned(), ..Options::default() }
}

/// Opcodes that a queue does not refuse as unknown. Fabrics commands, which no log lists, and event requests, which wait, are
/// left out.
fn known(client: &mut Client, nsid: u32) -> BTreeSet<u8> {
    let left_out = [admin_opcode::FABRICS, admin_opcode::ASYNC_EVENT_REQUEST];
    let mut known = BTreeSet::new();
    for opcode in (0..=u8::MAX).filter(|opcode| !left_out.contains(opcode)) {
        let reply = client.run(SubmissionEntry::new(opcode, nsid), Give::Nothing);
        if reply.status.without_flags() != Status::INVALID_OPCODE {
            known.insert(opcode);
        }
    }
    known
}

fn listed(effects: &[U32]) -> BTreeSet<u8> {
    let supported = |opcode: &u8| effects[usize::from(*opcode)].get() & command_effects::SUPPORTED != 0;
    (0..=u8::MAX).filter(supported).collect()
}

#[test]
fn the_log_of_commands_lists_those_that_are_served() {
    for engine in ENGINES {
        let (_target, mut host, mut queue) = TestTarget::with_queue(engine);
        let log = host.admin.logged(LogPageId::COMMANDS_SUPPORTED, 0, 4096);
        let log = CommandsSupported::read_from_bytes(&log).unwrap();
        let mut admin = known(&mut host.admin, 0);
        admin.insert(admin_opcode::ASYNC_EVENT_REQUEST);
        assert_eq!(admin, listed(&log.admin));
        let mut io = known(&mut queue, 1);
        // The opcode of event requests is Verify's here.
        let verify = queue.run(SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 1), Give::Nothing);
        assert_ne!(verify.status.without_flags(), Status::INVALID_OPCODE);
        io.insert(admin_opcode::ASYNC_EVENT_REQUEST);
        assert_eq!(io, listed(&log.io));
    }
}

#[test]
fn a_discovery_controller_has_its_own_commands_only() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let mut host = Host::connect_with(target.address(), discovery());
        let expected = [
            admin_opcode::GET_LOG_PAGE,
            admin_opcode::IDENTIFY,
            admin_opcode::SET_FEATURES,
            admin_opcode::GET_FEATURES,
            admin_opcode::KEEP_ALIVE,
        ];
        assert_eq!(known(&mut host.admin, 0), BTreeSet::from(expected));
        for cns in (0..=u8::MAX).map(Cns).filter(|cns| *cns != Cns::CONTROLLER) {
            let status = host.admin.identify(0, IdentifyRequest::new(cns)).status;
            assert_status(status, Status::INVALID_FIELD, &format!("{cns:?} of a discovery controller"));
        }
    }
}

#[test]
fn the_log_of_log_pages_lists_those_that_are_served() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for options in [Options::default(), discovery()] {
            let mut host = Host::connect_with(target.address(), options);
            let log = host.admin.logged(LogPageId::SUPPORTED_LOG_PAGES, 0, 1024);
            let log = SupportedLogPages::read_from_bytes(&log).unwrap();
            for id in (0..=u8::MAX).map(LogPageId) {
                let status = host.admin.log_page(&LogPageRequest::new(id, 0, 4)).status;
                let is_served = status.without_flags() != Status::INVALID_LOG_PAGE;
                assert_eq!(is_served, log.supports(id), "{id:?} of {}: {status}", host.options.subsystem_nqn);
            }
        }
    }
}

#[test]
fn the_log_of_features_lists_those_that_are_there_with_their_scope() {
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        let log = host.admin.logged(LogPageId::FEATURES_SUPPORTED, 0, 1024);
        let log = FeaturesSupported::read_from_bytes(&log).unwrap();
        for id in (0..=u8::MAX).map(FeatureId) {
            let reply = host.admin.get_feature(id, Select::Capabilities, 0, 0);
            assert_eq!(reply.status.is_success(), log.supports(id), "{id:?}: {}", reply.status);
            if reply.status.is_success() {
                let is_of_namespace = reply.result as u32 & capabilities::NAMESPACE_SPECIFIC != 0;
                let of_namespace = feature_effects::NAMESPACE_SCOPE;
                let scope = if is_of_namespace { of_namespace } else { feature_effects::CONTROLLER_SCOPE };
                assert_eq!(log.features[usize::from(id.0)].get(), feature_effects::SUPPORTED | scope);
            }
        }
        for mandatory in [
            FeatureId::ARBITRATION,
            FeatureId::POWER_MANAGEMENT,
            FeatureId::NUMBER_OF_QUEUES,
            FeatureId::WRITE_ATOMICITY,
            FeatureId::ASYNC_EVENT_CONFIG,
            FeatureId::KEEP_ALIVE_TIMER,
        ] {
            assert!(log.supports(mandatory), "{mandatory:?}");
        }
    }
}

#[test]
fn get_features_refuses_reserved_selections() {
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        for select in 4..8_u32 {
            let mut entry = SubmissionEntry::new(admin_opcode::GET_FEATURES, 0);
            entry.cdw10 = (u32::from(FeatureId::ARBITRATION.0) | select << 8).into();
            let status = host.admin.run(entry, Give::Nothing).status;
            assert_status(status, Status::INVALID_FIELD, &format!("selection {select}"));
        }
        // No value can be saved: what is saved is the default.
        let id = FeatureId::TEMPERATURE_THRESHOLD;
        assert_eq!(host.admin.set_feature(id, 350, false, Give::Nothing).status, Status::SUCCESS);
        let mut value = |select| host.admin.get_feature(id, select, 0, 0).result;
        assert_eq!(value(Select::Saved), value(Select::Default));
        assert_eq!(value(Select::Current), 350);
    }
}

#[test]
fn a_reset_brings_back_the_default_of_every_feature() {
    let changed = [
        (FeatureId::ARBITRATION, 3),
        (FeatureId::TEMPERATURE_THRESHOLD, 350),
        (FeatureId::ERROR_RECOVERY, 10),
        (FeatureId::WRITE_ATOMICITY, 1),
        (FeatureId::ASYNC_EVENT_CONFIG, 0x100),
        (FeatureId::NUMBER_OF_QUEUES, 0x0003_0003),
    ];
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        let value = |host: &mut Host, id, select| host.admin.get_feature(id, select, 0, 0).result;
        for (id, set) in changed {
            assert_eq!(host.admin.set_feature(id, set, false, Give::Nothing).status, Status::SUCCESS);
            assert_eq!(value(&mut host, id, Select::Current), u64::from(set), "{id:?}");
            assert_ne!(value(&mut host, id, Select::Default), u64::from(set), "{id:?}");
        }
        reset(&mut host);
        for (id, _) in changed {
            let default = value(&mut host, id, Select::Default);
            assert_eq!(value(&mut host, id, Select::Current), default, "{id:?}");
        }
    }
}

/// Resets the controller, and enables it again.
fn reset(host: &mut Host) {
    assert_eq!(host.admin.set_property(property::CONFIGURATION, 0).status, Status::SUCCESS);
    wait_until("the reset is complete", || host.admin.property(property::STATUS, false).result == 0);
    host.enable();
}

#[test]
fn host_behavior_is_kept_until_a_reset() {
    let id = FeatureId::HOST_BEHAVIOR;
    let mut behavior = vec![0; 512];
    behavior[..3].copy_from_slice(&[1, 0, 1]);
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        assert_eq!(host.admin.get_feature(id, Select::Current, 0, 512).data, vec![0; 512]);
        for give in [Give::Capsule(&behavior), Give::Asked(&behavior)] {
            assert_eq!(host.admin.set_feature(id, 0, false, give).status, Status::SUCCESS);
            assert_eq!(host.admin.get_feature(id, Select::Current, 0, 512).data, behavior);
        }
        let short = host.admin.set_feature(id, 0, false, Give::Capsule(&behavior[..4])).status;
        assert_status(short, Status::DATA_SGL_LENGTH_INVALID, "a part of the structure");
        reset(&mut host);
        assert_eq!(host.admin.get_feature(id, Select::Current, 0, 512).data, vec![0; 512]);
    }
}

#[test]
fn the_ana_log_counts_its_changes() {
    let counts = |host: &mut Host| {
        let page = host.admin.logged(LogPageId::ANA, 0, 4096);
        let log = AnaLog::parse(&page).unwrap();
        let groups: Vec<(u32, u64)> = log.groups.iter().map(|group| (group.id, group.change_count)).collect();
        (log.change_count, groups)
    };
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        target.apply_to(8, |namespace| namespace.ana_group = 5);
        let mut host = Host::connect(target.address());
        let (mut count, mut groups) = counts(&mut host);
        for state in [GroupState::NonOptimized, GroupState::Optimized] {
            target.apply(|fabric| {
                fabric.subsystems[0].ana_groups =
                    vec![AnaGroupConfig { id: 5, state, ports: BTreeMap::new() }];
            });
            let (later, found) = counts(&mut host);
            assert!(later > count, "the page has changed");
            assert_eq!(found[0], groups[0], "another group has not");
            assert_eq!(found[1], (5, later), "the group has changed with the page");
            (count, groups) = (later, found);
        }
    }
}

#[test]
fn properties_agree_with_each_other_and_with_identify() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for options in [Options::default(), discovery()] {
            let mut host = Host::connect_with(target.address(), options);
            let value = host.admin.property(property::CAPABILITIES, true).result;
            let capabilities = Capabilities(value);
            assert_eq!(value >> 16 & 1, 1, "queues are contiguous over fabrics (CQR)");
            assert_eq!(value >> 32 & 0x1f, 0, "neither doorbells nor a subsystem reset (DSTRD, NSSRS)");
            assert_eq!(value >> 37 & 1, 1, "the NVM command set");
            assert_eq!(value >> 48 & 0xff, 0, "pages of 4 KiB (MPSMIN, MPSMAX)");
            assert_eq!(value >> 59, 1, "ready with its media (CRWMS), and not before them (CRIMS)");
            assert!(capabilities.selects_command_sets() && capabilities.ready_timeout_ms() > 0);
            assert!(capabilities.is_ready_with_media());
            let timeouts = host.admin.property(property::READY_TIMEOUTS, false).result;
            let ready_ms = (timeouts & 0xffff) * 500;
            assert!(ready_ms >= u64::from(capabilities.ready_timeout_ms()), "CRTO is not below CAP.TO");
            assert_eq!(timeouts >> 16, 0, "no time without media (CRIMT)");
            let version = host.admin.property(property::VERSION, false).result;
            assert_eq!(u64::from(host.admin.identified_controller().version.get()), version);
        }
    }
}

#[test]
fn each_field_of_a_configuration_is_checked() {
    let sizes = configuration::SUBMISSION_ENTRY_SIZE | configuration::COMPLETION_ENTRY_SIZE;
    let enabled = configuration::ENABLE | sizes;
    let all_sets = configuration::COMMAND_SET_ALL << configuration::COMMAND_SET_SHIFT;
    let (ready, fatal) = (controller_status::READY, controller_status::FATAL);
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for (value, expected) in [
            (enabled, ready),
            (enabled | all_sets, ready),
            (enabled | 1 << configuration::COMMAND_SET_SHIFT, fatal),
            (enabled | 1 << configuration::PAGE_SIZE_SHIFT, fatal),
            (enabled | 1 << configuration::ARBITRATION_SHIFT, fatal),
            (enabled & !configuration::SUBMISSION_ENTRY_SIZE, fatal),
            (enabled & !configuration::COMPLETION_ENTRY_SIZE, fatal),
        ] {
            let mut host = Host::connect_admin(target.address(), Options::default());
            let reply = host.admin.set_property(property::CONFIGURATION, value.into());
            assert_eq!(reply.status, Status::SUCCESS);
            let status = host.admin.property(property::STATUS, false).result;
            assert_eq!(status, u64::from(expected), "configuration {value:#x}");
            assert_eq!(host.admin.property(property::CONFIGURATION, false).result, u64::from(value));
        }
    }
}

#[test]
fn structures_of_the_nvm_command_set_agree_with_those_of_all_sets() {
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        for (own, common, nsid) in [
            (Cns::COMMAND_SET_ACTIVE_NAMESPACE_LIST, Cns::ACTIVE_NAMESPACE_LIST, 0),
            (Cns::COMMAND_SET_ACTIVE_NAMESPACE_LIST, Cns::ACTIVE_NAMESPACE_LIST, 3),
            (Cns::COMMAND_SET_ALLOCATED_NAMESPACE_LIST, Cns::ALLOCATED_NAMESPACE_LIST, 0),
            (Cns::COMMAND_SET_ALLOCATED_NAMESPACE, Cns::COMMAND_SET_NAMESPACE, 1),
            (Cns::INDEPENDENT_ALLOCATED_NAMESPACE, Cns::INDEPENDENT_NAMESPACE, 1),
        ] {
            let found = host.admin.identified(nsid, own);
            assert!(found == host.admin.identified(nsid, common), "{own:?} and {common:?}");
        }
        for cns in [
            Cns::COMMAND_SET_ACTIVE_NAMESPACE_LIST,
            Cns::COMMAND_SET_ALLOCATED_NAMESPACE_LIST,
            Cns::COMMAND_SET_ALLOCATED_NAMESPACE,
        ] {
            let request = IdentifyRequest { command_set: CommandSet::ZONED, ..IdentifyRequest::new(cns) };
            let status = host.admin.identify(1, request).status;
            assert_status(status, Status::INVALID_FIELD, &format!("{cns:?} of another command set"));
        }
    }
}

#[test]
fn entries_of_the_discovery_log_say_how_to_connect() {
    let generation = |host: &mut Host| {
        let header = host.admin.logged(LogPageId::DISCOVERY, 0, 1024);
        DiscoveryLogHeader::read_from_bytes(&header).unwrap().generation_counter.get()
    };
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let mut host = Host::connect_with(target.address(), discovery());
        let page = host.admin.logged(LogPageId::DISCOVERY, 0, 8192);
        let log = DiscoveryLog::parse(&page).unwrap();
        assert_eq!((log.header.record_format.get(), log.entries.len()), (0, 2));
        for entry in log.entries {
            assert_eq!(entry.transport_type, TransportType::TCP);
            assert_eq!(entry.controller_id.get(), CONTROLLER_ID_DYNAMIC);
            assert!(entry.admin_queue_size_max.get() >= 32, "the least there may be");
            let security = (entry.tcp_security(), entry.secure_channel());
            assert_eq!(security, (tcp_security::NONE, transport_requirements::SECURE_CHANNEL_NOT_SPECIFIED));
            assert_ne!(entry.transport_requirements & transport_requirements::FLOW_CONTROL_DISABLE, 0);
        }
        let before = log.header.generation_counter.get();
        assert_eq!(generation(&mut host), before, "nothing has changed");
        target.apply(|fabric| fabric.subsystems.push(subsystem("nqn.2014-08.org.example:b", Vec::new())));
        assert_ne!(generation(&mut host), before, "an entry has come");
    }
}
