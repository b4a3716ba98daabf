//! What other people's hosts do differently is accepted where it harms nobody, and counted.

mod raw_host;

use engine::target::Peculiarity;
use nvme::command::admin_opcode;
use nvme::features::{AsyncEventConfig, FeatureId, NumberOfQueues, SetFeatures};
use nvme::{SglDescriptor, Status, SubmissionEntry};
use raw_host::{ENGINES, Give, Host, SPACES, TestTarget, assert_status};

/// On how many connections of the target this was seen.
fn seen(target: &TestTarget, peculiarity: Peculiarity) -> u64 {
    let counts = target.target().metrics().peculiarities;
    counts.into_iter().find(|(known, _)| *known == peculiarity).map_or(0, |(_, connections)| connections)
}

/// A descriptor of no length and this type.
fn nothing(kind: u8) -> SglDescriptor {
    let mut descriptor = SglDescriptor::transport(0);
    descriptor.kind = kind;
    descriptor
}

fn set_features(id: FeatureId, value: u32) -> SubmissionEntry {
    let (cdw10, cdw11, cdw14) = SetFeatures { id, save: false, value, uuid_index: 0 }.encode();
    let mut entry = SubmissionEntry::new(admin_opcode::SET_FEATURES, 0);
    (entry.cdw10, entry.cdw11, entry.cdw14) = (cdw10.into(), cdw11.into(), cdw14.into());
    entry
}

/// SPDK's host describes the data that these commands do not have as a block of no length in the capsule.
#[test]
fn a_command_without_data_may_describe_it_as_it_likes() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let mut host = Host::connect(target.address());
        let queues = NumberOfQueues::pairs(std::num::NonZero::new(2).unwrap()).encode();
        for kind in [0x00, 0x01, 0x10, 0x40, 0x5a, 0xff] {
            for entry in [
                set_features(FeatureId::NUMBER_OF_QUEUES, queues),
                set_features(FeatureId::ASYNC_EVENT_CONFIG, AsyncEventConfig::NAMESPACE_ATTRIBUTE),
                SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0),
            ] {
                let entry = SubmissionEntry { data: nothing(kind), ..entry };
                let reply = host.admin.run(entry, Give::AsIs(&[]));
                assert_eq!(reply.status, Status::SUCCESS, "opcode {:02x}h, type {kind:02x}h", entry.opcode);
            }
            let identify = SubmissionEntry { data: nothing(kind), ..identify_controller() };
            let reply = host.admin.run(identify, Give::AsIs(&[]));
            assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "what has data needs room for it");
        }
        // However often, it is one connection.
        assert_eq!(seen(&target, Peculiarity::EmptyDescriptor), 1);
        assert_eq!(target.target().status().peculiarities.get("empty_descriptor"), Some(&1));
        let mut queue = host.io(2);
        assert!(queue.read(SPACES[0], 0, 1).status.is_success());
        Host::connect(target.address());
        assert_eq!(seen(&target, Peculiarity::EmptyDescriptor), 1, "the usual host does nothing of it");
    }
}

fn identify_controller() -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(admin_opcode::IDENTIFY, 0);
    entry.cdw10 = 1.into();
    entry
}
