//! Admin commands of other hosts are answered as other targets do.

use crate::raw_host::admin::{abort, identify_controller, seen, set_features};
use crate::raw_host::{ENGINES, Give, SPACES, TestTarget, assert_status};
use engine::target::Peculiarity;
use nvme::command::admin_opcode;
use nvme::fabrics::{PropertyAccess, property};
use nvme::features::{AsyncEventConfig, FeatureId, Select};
use nvme::identify::CommandSet;
use nvme::io::IoCommand;
use nvme::log_page::{LogPageId, LogPageRequest};
use nvme::tcp::Event;
use nvme::{Status, SubmissionEntry};

#[test]
fn admin_commands_are_judged_by_what_they_are_before_their_data_is() {
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        // `nvme fw-download`, and namespace management where it is not offered.
        for opcode in [admin_opcode::FIRMWARE_DOWNLOAD, admin_opcode::NAMESPACE_MANAGEMENT, 0xc1] {
            let entry = SubmissionEntry::new(opcode, 0);
            for give in [Give::Nothing, Give::Capsule(&[1; 4096]), Give::Asked(&[1; 65536]), Give::Room(4096)]
            {
                let reply = host.admin.run(entry, give);
                assert_status(reply.status, Status::INVALID_OPCODE, &format!("opcode {opcode:02x}h"));
                assert_eq!(reply.asked, 0);
            }
        }
        let status = PropertyAccess { offset: property::STATUS, wide: false, value: 0 };
        for fused in [1, 2, 3] {
            for mut entry in [identify_controller(), status.encode_get()] {
                entry.flags |= fused;
                let reply = host.admin.run(entry, Give::Room(4096));
                assert_status(reply.status, Status::INVALID_FIELD, "admin commands come in no pairs");
            }
        }
        for room in [4, 1024, 4092] {
            let reply = host.admin.run(identify_controller(), Give::Room(room));
            assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "Identify has 4,096 bytes");
            assert_eq!(reply.data.len(), 0);
        }
        let reply = host.admin.get_feature(FeatureId::TIMESTAMP, Select::Current, 0, 4);
        assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "half a timestamp");
        let mut log = LogPageRequest::new(LogPageId::COMMANDS_SUPPORTED, 0, 4096);
        let own = host.admin.log_page(&log).data;
        for set in [2, 3, 9] {
            log.command_set = CommandSet(set);
            let other = host.admin.log_page(&log).data;
            assert!(other[..1024] == own[..1024], "the same admin commands");
            assert!(other[1024..2048].iter().all(|byte| *byte == 0), "and none of another set");
        }
        let id = host.admin.set_feature(FeatureId::HOST_IDENTIFIER, 1, false, Give::Capsule(&[3; 16]));
        assert_status(id.status, Status::COMMAND_SEQUENCE_ERROR, "the identifier came with Connect");
        let mut queue = host.io(1);
        for kind in [0x02, 0x05, 0x06, 0x3f, 0xff] {
            let entry = SubmissionEntry::new(admin_opcode::FABRICS, kind);
            for client in [&mut queue, &mut host.admin] {
                let reply = client.run(entry, Give::Nothing);
                assert_status(reply.status, Status::INVALID_OPCODE, &format!("FCTYPE {kind:02x}h"));
            }
        }
        assert!(queue.read(SPACES[0], 0, 1).status.is_success());
    }
}

#[test]
fn log_pages_of_the_controller_are_the_same_whatever_namespace_is_named() {
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        for id in [
            LogPageId::SUPPORTED_LOG_PAGES,
            LogPageId::ERROR_INFORMATION,
            LogPageId::SMART,
            LogPageId::FIRMWARE_SLOT,
            LogPageId::CHANGED_NAMESPACES,
            LogPageId::ANA,
            LogPageId::COMMANDS_SUPPORTED,
            LogPageId::FEATURES_SUPPORTED,
            LogPageId::CROSS_CONTROLLER_RESET,
            LogPageId::RESERVATION_NOTIFICATION,
        ] {
            let page = LogPageRequest::new(id, 0, 512);
            let of_all = host.admin.log_page(&page);
            assert_eq!(of_all.status, Status::SUCCESS, "{id:?}");
            for nsid in [0, 1, SPACES[5].nsid, 5, 0xffff_fffe] {
                let named = host.admin.log_page_of(nsid, &page);
                assert_eq!(named.status, Status::SUCCESS, "{id:?} of {nsid:#x}");
                assert!(named.data == of_all.data, "{id:?} of {nsid:#x}");
            }
        }
        // A page of a namespace has to be of one that is there.
        let page = LogPageRequest::new(LogPageId::COMMAND_STAGES, 0, 64);
        for nsid in [0, 5, 0xffff_ffff] {
            assert_status(host.admin.log_page_of(nsid, &page).status, Status::INVALID_NAMESPACE, "no such");
        }
        assert_eq!(host.admin.log_page_of(1, &page).status, Status::SUCCESS);
    }
}

#[test]
fn no_more_aborts_are_under_way_than_the_controller_says() {
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        let identify = host.admin.identified_controller();
        let limit = u16::from(identify.abort_command_limit) + 1;
        // All at once, so that none is answered before the last is there.
        let mut bytes = Vec::new();
        for number in 0..limit + 3 {
            let abort = SubmissionEntry { command_id: (1000 + number).into(), ..abort(1, 1) };
            bytes.extend_from_slice(&host.admin.frame_command(abort, &[]));
            host.admin.expect_reply_to(1000 + number);
        }
        host.admin.send(&bytes);
        let mut refused = Vec::new();
        for _ in 0..limit + 3 {
            let reply = host.admin.wait();
            match reply.status.without_flags() {
                Status::SUCCESS => assert_eq!(reply.result & 1, 1, "there was nothing to abort"),
                Status::ABORT_LIMIT_EXCEEDED => refused.push(reply.command_id),
                other => panic!("{other}"),
            }
        }
        assert_eq!(refused, (1000 + limit..1000 + limit + 3).collect::<Vec<_>>());
        let abort = abort(1, 1);
        assert_eq!(host.admin.run(abort, Give::Nothing).status, Status::SUCCESS, "they make room again");
    }
}

#[test]
fn an_identifier_is_one_commands_until_its_answer() {
    for engine in ENGINES {
        let (_target, mut host, mut queue) = TestTarget::with_queue(engine);
        queue.answers = false;
        let write = IoCommand::Write { start: 0, blocks: 32, force_unit_access: false };
        let id = queue.submit(write.encode(SPACES[4].nsid), Give::Asked(&[1; 16384]));
        let request = queue.ready_to_transfer();
        host.admin.answers = false;
        let timestamp = host.admin.submit(set_features(FeatureId::TIMESTAMP, 0), Give::Asked(&[1; 8]));
        let admin_request = host.admin.ready_to_transfer();
        let keep_alive = SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0);
        let flush = IoCommand::Flush.encode(SPACES[0].nsid);
        for (client, mut entry, taken) in [(&mut host.admin, keep_alive, timestamp), (&mut queue, flush, id)]
        {
            entry.command_id = taken.into();
            let bytes = client.frame_command(entry, &[]);
            client.send(&bytes);
            let Some(Event::Response(answer)) = client.event() else { panic!("an answer") };
            assert_eq!(answer.command_id.get(), taken);
            assert_status(
                answer.status(),
                Status::COMMAND_ID_CONFLICT,
                "the identifier is another command's",
            );
        }
        for (client, request) in [(&mut queue, request), (&mut host.admin, admin_request)] {
            client.answer(&request);
            assert_eq!(client.wait().status, Status::SUCCESS, "which goes on");
        }
    }
}

/// Test suites that know NVMe over PCIe take these features for mandatory.
#[test]
fn features_of_interrupts_say_that_there_is_nothing_to_set() {
    for engine in ENGINES {
        let (target, mut host) = TestTarget::with_host(engine);
        for (id, parameter, expected) in [
            (FeatureId::INTERRUPT_COALESCING, 0, 0),
            (FeatureId::INTERRUPT_VECTOR, 0, 1 << 16),
            (FeatureId::INTERRUPT_VECTOR, 7, 7 | 1 << 16),
        ] {
            let reply = host.admin.get_feature(id, Select::Current, parameter, 0);
            assert_eq!((reply.status, reply.result), (Status::SUCCESS, expected), "{id:?}");
            let reply = host.admin.set_feature(id, 1, false, Give::Nothing);
            assert_status(reply.status, Status::FEATURE_NOT_CHANGEABLE, "there are no interrupts");
        }
        assert_eq!(seen(&target, Peculiarity::InterruptFeature), 1);
    }
}

/// SPDK's host forgets its event requests before it shuts a controller down, and uses their identifiers again.
#[test]
fn an_event_request_whose_identifier_comes_again_is_forgotten() {
    for engine in ENGINES {
        let (target, mut host) = TestTarget::with_host(engine);
        let wanted = AsyncEventConfig::NAMESPACE_ATTRIBUTE;
        let reply = host.admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, wanted, false, Give::Nothing);
        assert!(reply.status.is_success());
        let request = SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0);
        let [first, second] = [(); 2].map(|()| host.admin.submit(request, Give::Nothing));
        let mut again =
            PropertyAccess { offset: property::CONFIGURATION, wide: false, value: 0 }.encode_get();
        again.command_id = first.into();
        let bytes = host.admin.frame_command(again, &[]);
        host.admin.send(&bytes);
        let reply = host.admin.wait();
        assert_eq!((reply.command_id, reply.status, reply.result & 1), (first, Status::SUCCESS, 1));
        assert_eq!(seen(&target, Peculiarity::ForgottenEventRequest), 1);
        // Events go to the other one.
        target.apply(|fabric| drop(fabric.subsystems[0].namespaces.pop()));
        let reply = host.admin.wait();
        assert_eq!((reply.command_id, reply.status), (second, Status::SUCCESS));
    }
}
