//! Write protection that hosts set: the administration changes it, as far as the operator lets each of them, and unless
//! another host has reserved the namespace.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::raw_host::{SPACES, Space, TestTarget, assert_status, pattern};
use crate::reservation_party::Party;
use engine::ring::Engine;
use engine::target::{HostRequest, Target, TargetError, WriteProtection};
use nvme::Status;
use nvme::features::{FeatureId, Select, capabilities, value};
use nvme::identify::NSID_ALL;
use nvme::reservation::ReservationType;

const FEATURE: FeatureId = FeatureId::NAMESPACE_WRITE_PROTECTION;
const NOT_CHANGEABLE: Status = Status::FEATURE_NOT_CHANGEABLE;
/// The namespace whose write protection hosts may set.
const FREE: Space = SPACES[0];
const OTHER: Space = SPACES[1];

fn start() -> Arc<Target> {
    let mut target = TestTarget::start_with(Engine::Automatic, |config| {
        config.fabric.subsystems[0].namespaces[0].host_write_protection = WriteProtection::UntilRestart;
    });
    Arc::new(target.take())
}

/// Answers this number of requests as an administration does; what was asked for.
fn administer(target: &Arc<Target>, count: usize) -> JoinHandle<Vec<(u32, WriteProtection)>> {
    let requests = target.host_requests().unwrap();
    let target = target.clone();
    std::thread::spawn(move || {
        let mut answered = Vec::new();
        while answered.len() < count {
            let pending = requests.next().unwrap().expect("a host asks");
            let HostRequest::Protect { nsid, protection, .. } = pending.request else {
                panic!("{pending:?}")
            };
            let (host, mut wanted) = (&pending.host.known, target.config());
            let changed = wanted.subsystems[0].protect_for(host, nsid, protection);
            let outcome = changed.map_err(|denial| denial.status).and_then(|()| {
                target.apply_for(&wanted, host).map(|_| 0).map_err(|error| match error {
                    TargetError::Reserved { .. } => Status::RESERVATION_CONFLICT,
                    _ => Status::INTERNAL_ERROR,
                })
            });
            answered.push((nsid, protection));
            pending.answer(outcome);
        }
        answered
    })
}

#[test]
fn write_protection_is_the_administrations_to_change() {
    let target = start();
    let mut a = Party::connect(target.ports()[0], 1);
    assert_status(a.set_feature(FEATURE, FREE.nsid, 1), NOT_CHANGEABLE, "the administration does not answer");
    let capability = |a: &mut Party, space: Space| a.get_feature(FEATURE, space.nsid, Select::Capabilities);
    let specific = capabilities::NAMESPACE_SPECIFIC;
    assert_eq!(capability(&mut a, FREE), Ok(specific));
    let administrator = administer(&target, 5);
    assert_eq!(capability(&mut a, FREE), Ok(specific | capabilities::CHANGEABLE));
    assert_eq!(capability(&mut a, OTHER), Ok(specific), "it is the operator's");
    let mut set = |nsid, state| a.set_feature(FEATURE, nsid, state);
    assert_status(set(OTHER.nsid, value::WRITE_PROTECTION_ON), NOT_CHANGEABLE, "it is the operator's");
    assert_status(set(FREE.nsid, value::WRITE_PROTECTION_ON), Status::SUCCESS, "on");
    assert_eq!(a.get_feature(FEATURE, FREE.nsid, Select::Current), Ok(value::WRITE_PROTECTION_ON));
    let mut write = |space: Space| a.queues[0].write(space, 0, &pattern(4096, 1), true).status;
    assert_status(write(FREE), Status::WRITE_PROTECTED, "protected");
    assert_status(write(OTHER), Status::SUCCESS, "another namespace");
    let mut set = |nsid, state| a.set_feature(FEATURE, nsid, state);
    assert_status(set(FREE.nsid, value::WRITE_PROTECTION_NONE), Status::SUCCESS, "off");
    let until_restart = value::WRITE_PROTECTION_UNTIL_POWER_CYCLE;
    assert_status(set(FREE.nsid, until_restart), Status::SUCCESS, "until the target starts again");
    assert_status(set(FREE.nsid, value::WRITE_PROTECTION_NONE), NOT_CHANGEABLE, "not before that");
    assert_status(set(FREE.nsid, 7), Status::INVALID_FIELD, "a reserved state");
    assert_status(set(99, 0), Status::INVALID_NAMESPACE, "no such namespace");
    assert_status(set(NSID_ALL, 0), Status::INVALID_NAMESPACE, "all at once");
    assert_eq!(a.get_feature(FEATURE, FREE.nsid, Select::Current), Ok(until_restart));
    use WriteProtection::{None, On, UntilRestart};
    let asked = [(OTHER.nsid, On), (FREE.nsid, On), (FREE.nsid, None)];
    let expected = [&asked[..], &[(FREE.nsid, UntilRestart), (FREE.nsid, None)]].concat();
    assert_eq!(administrator.join().unwrap(), expected);
}

#[test]
fn a_host_that_a_reservation_keeps_from_writing_protects_nothing() {
    let target = start();
    let mut parties = [1, 2].map(|number| Party::connect(target.ports()[0], number));
    let [a, b] = &mut parties;
    a.register(FREE.nsid);
    a.acquire(FREE.nsid, ReservationType::WriteExclusiveRegistrantsOnly);
    let administrator = administer(&target, 3);
    let conflict = Status::RESERVATION_CONFLICT;
    assert_status(b.set_feature(FEATURE, FREE.nsid, 1), conflict, "B is not registered");
    b.register(FREE.nsid);
    assert_status(
        b.set_feature(FEATURE, FREE.nsid, 1),
        Status::SUCCESS,
        "B may write, and so it may protect",
    );
    assert_status(a.set_feature(FEATURE, FREE.nsid, 0), Status::SUCCESS, "A holds it");
    administrator.join().unwrap();
}
