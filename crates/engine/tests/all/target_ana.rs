//! Admin commands on namespaces whose ANA group is not accessible: those that need the namespace fail with the group's
//! status, and those that describe it, or change who sees it, go on.

use std::collections::BTreeMap;

use crate::raw_host::{ENGINES, Give, SPACES, TestTarget, assert_status};
use crate::reservation_party::Party;
use crate::target_manage::{asked, controllers, known, start};
use engine::target::{AnaGroupConfig, GroupState, Visibility, WriteProtection};
use nvme::Status;
use nvme::features::{FeatureId, Select, value};
use nvme::identify::{Cns, NSID_ALL};
use nvme::lba_status::GetLbaStatus;
use nvme::namespace_management::{NamespaceAttachment, NamespaceManagement};
use zerocopy::IntoBytes;

/// The group that changes its state, and its only namespace.
const GROUP: u32 = 5;
const NSID: u32 = 2;

const MASK: FeatureId = FeatureId::RESERVATION_NOTIFICATION_MASK;
const FEATURES: [FeatureId; 3] =
    [MASK, FeatureId::RESERVATION_PERSISTENCE, FeatureId::NAMESPACE_WRITE_PROTECTION];

/// Puts the group into a state.
fn put(target: &TestTarget, state: GroupState) {
    target.apply(|fabric| {
        fabric.subsystems[0].ana_groups = vec![AnaGroupConfig { id: GROUP, state, ports: BTreeMap::new() }];
    });
}

/// Checks that all commands fail that need the namespace.
fn refuses(host: &mut Party, refusal: Status) {
    for feature in FEATURES {
        for select in [Select::Current, Select::Default, Select::Saved] {
            assert_eq!(host.get_feature(feature, NSID, select), Err(refusal), "{feature:?}, {select:?}");
        }
        assert!(host.get_feature(feature, NSID, Select::Capabilities).is_ok(), "{feature:?}");
        assert!(host.get_feature(feature, 1, Select::Current).is_ok(), "{feature:?} of another group");
    }
    for feature in [MASK, FeatureId::NAMESPACE_WRITE_PROTECTION] {
        assert_eq!(host.set_feature(feature, NSID, 1), refusal, "{feature:?}, to be tried elsewhere");
    }
    let list = GetLbaStatus { start: 0, room_bytes: 4096, blocks: 0 }.encode(NSID);
    assert_eq!(host.host.admin.run(list, Give::Room(4096)).status, refusal);
    refuses_deletion(host, refusal);
}

/// Checks that no deletion reaches the administration.
fn refuses_deletion(host: &mut Party, refusal: Status) {
    for nsid in [NSID, NSID_ALL] {
        let delete = NamespaceManagement::Delete.encode(nsid);
        assert_eq!(host.host.admin.run(delete, Give::Nothing).status, refusal, "deletion of {nsid:#x}");
    }
}

/// Utilization of the namespace (NUSE).
fn used_blocks(host: &mut Party, cns: Cns) -> u64 {
    let identify = host.host.admin.identified(NSID, cns);
    u64::from_le_bytes(identify[16..24].try_into().expect("eight bytes"))
}

#[test]
fn admin_commands_that_need_a_namespace_fail_with_the_status_of_its_group() {
    for engine in ENGINES {
        let (target, requests) = start(engine);
        let mut host = Party::connect(target.address(), 1);
        let mut other = Party::connect(target.address(), 2);
        let owner = known(&host.host);
        target.apply_to(NSID, |namespace| {
            namespace.ana_group = GROUP;
            namespace.owner = Some(owner);
            namespace.host_write_protection = WriteProtection::UntilRestart;
        });
        for (state, refusal, mask) in [
            (GroupState::Inaccessible, Status::ANA_INACCESSIBLE, value::MASK_REGISTRATION_PREEMPTED),
            (GroupState::PersistentLoss, Status::ANA_PERSISTENT_LOSS, value::MASK_RESERVATION_RELEASED),
            (GroupState::Change, Status::ANA_TRANSITION, value::MASK_RESERVATION_PREEMPTED),
        ] {
            put(&target, state);
            refuses(&mut host, refusal);
            // The controller's own mask is for all namespaces, wherever they are.
            assert_status(host.set_feature(MASK, NSID_ALL, mask), Status::SUCCESS, "a mask of all");
            let identify = host.host.admin.identified_namespace(NSID);
            assert_eq!(identify.size_blocks.get(), SPACES[1].blocks(), "{state:?}");
            assert_eq!(identify.ana_group_id.get(), GROUP, "{state:?}");
            let used = if state == GroupState::Change { SPACES[1].blocks() } else { 0 };
            assert_eq!(used_blocks(&mut host, Cns::NAMESPACE), used, "{state:?}");
            assert_eq!(used_blocks(&mut host, Cns::ALLOCATED_NAMESPACE), used, "{state:?}, allocated");
            assert_ne!(host.host.admin.identified(NSID, Cns::NAMESPACE_DESCRIPTORS)[..4], [0; 4]);
            let list = controllers(&[host.host.controller_id]);
            let detach = (NamespaceAttachment::Detach.encode(NSID), Give::Asked(list.as_bytes()));
            let (_, reply) = asked(&mut host.host, &requests, detach, Ok(0));
            assert_eq!(reply.status, Status::SUCCESS, "attachment is not access");
            target.apply_to(NSID, |namespace| namespace.visible = Visibility::Only(Vec::new()));
            assert!(host.host.admin.identified(NSID, Cns::NAMESPACE).iter().all(|byte| *byte == 0));
            refuses_deletion(&mut host, refusal);
            let delete = (NamespaceManagement::Delete.encode(NSID), Give::Nothing);
            let (_, reply) = asked(&mut other.host, &requests, delete, Err(Status::INVALID_NAMESPACE));
            assert_eq!(reply.status, Status::INVALID_NAMESPACE, "another host learns nothing of the group");
            target.apply_to(NSID, |namespace| namespace.visible = Visibility::default());
            put(&target, GroupState::NonOptimized);
            assert_eq!(host.get_feature(MASK, NSID, Select::Current), Ok(mask), "after {state:?}");
            assert_eq!(used_blocks(&mut host, Cns::NAMESPACE), SPACES[1].blocks(), "after {state:?}");
            let list = GetLbaStatus { start: 0, room_bytes: 4096, blocks: 0 }.encode(NSID);
            assert_eq!(
                host.host.admin.run(list, Give::Room(4096)).status,
                Status::SUCCESS,
                "after {state:?}"
            );
        }
        let delete = (NamespaceManagement::Delete.encode(NSID), Give::Nothing);
        let (_, reply) = asked(&mut host.host, &requests, delete, Ok(0));
        assert_eq!(reply.status, Status::SUCCESS, "an accessible namespace");
    }
}
