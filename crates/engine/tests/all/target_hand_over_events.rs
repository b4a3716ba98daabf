//! Notifications of hosts when a target hands them to the new one: of what that one serves
//! otherwise, and of nothing else.

use engine::backend::BackendConfig;
use engine::ring::Engine;
use nvme::command::admin_opcode;
use nvme::features::{AsyncEvent, FeatureId};
use nvme::log_page::{ChangedNamespaceList, LogPageId, LogPageRequest};
use nvme::{Status, SubmissionEntry};
use zerocopy::FromBytes;

use crate::raw_host::{Give, Host, assert_status};
use crate::target_hand_over::Testbed;

#[test]
fn a_host_is_notified_of_what_has_changed_between_two_targets_and_of_nothing_else() {
    const ALL_CHANGES: u32 = 0x900;
    let mut testbed = Testbed::new(Engine::Automatic, |_| ());
    let mut host = Host::connect(testbed.address());
    let reply = host.admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, ALL_CHANGES, false, Give::Nothing);
    assert_status(reply.status, Status::SUCCESS, "events are wanted");
    let ask = |host: &mut Host| {
        host.admin.submit(SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0), Give::Nothing)
    };
    let changed = |host: &mut Host| {
        let reply = host.admin.log_page(&LogPageRequest::new(LogPageId::CHANGED_NAMESPACES, 0, 4096));
        assert_status(reply.status, Status::SUCCESS, "the list of changed namespaces");
        ChangedNamespaceList::read_from_bytes(&reply.data[..]).unwrap().decode().unwrap()
    };
    let first = ask(&mut host);
    testbed.pass_on();
    // The first answer is to this command, and to no request for an event.
    assert_eq!(changed(&mut host), Some(vec![]), "all is as it was");
    let namespaces = &mut testbed.config.fabric.subsystems[0].namespaces;
    let mut more = namespaces[0].clone();
    (more.nsid, more.backend, more.uuid) = (2, BackendConfig::Null { size: 1 << 20 }, None);
    more.shared_storage = false;
    namespaces.push(more);
    testbed.pass_on();
    let notice = host.admin.wait();
    assert_eq!((notice.command_id, notice.status), (first, Status::SUCCESS));
    assert_eq!(AsyncEvent::decode(notice.result as u32), AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
    assert_eq!(changed(&mut host), None, "any may have changed");
    let second = ask(&mut host);
    let notice = host.admin.wait();
    assert_eq!((notice.command_id, notice.status), (second, Status::SUCCESS));
    assert_eq!(AsyncEvent::decode(notice.result as u32), AsyncEvent::ANA_CHANGE);
}
