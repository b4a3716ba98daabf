//! Reservations of an image that two gateways serve in turn, kept in a real cluster. The suite `ceph` runs it:
//! `SELVEDGE_CEPH_CONF` names a cluster's configuration that has a pool `rbd`.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::ceph::{ObjectChange, Pairs};
use engine::target::Directives;
use nvme::Status;
use nvme::features::FeatureId;
use nvme::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReservationType};

use crate::ceph_pair::{Pair, SPACE, directives};
use crate::raw_host::assert_status;
use prerequisite::wait_until;

const KIND: ReservationType = ReservationType::WriteExclusive;

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn reservations_go_with_the_image_to_the_gateway_that_takes_it() {
    let pair = Pair::start();
    let [mut one, mut two] = [1, 2].map(|number| pair.party(0, number));
    assert_eq!(pair.object().pairs("").unwrap(), None, "nothing is kept before there is something");
    one.register(1);
    two.register(1);
    one.acquire(1, KIND);
    two.check_access(SPACE, true, false, "another host");
    pair.hand_to(1);
    let kept = (one.key, one.key);
    let persists = PersistenceChange::NoChange;
    let status = one.register_with(1, RegisterAction::Register, kept, persists);
    assert_status(status, Status::INTERNAL_PATH_ERROR, "the former owner says nothing of it");
    let [mut one_there, mut two_there] = [1, 2].map(|number| pair.party(1, number));
    two_there.check_access(SPACE, true, false, "another host, at the next gateway");
    one_there.check_access(SPACE, true, true, "the holder, at the next gateway");
    let report = one_there.report(1);
    assert_eq!((report.generation, report.kind, report.registrants.len()), (2, Some(KIND), 2));
    two_there.preempt(1, AcquireAction::PreemptAndAbort, one.key);
    assert!(
        one_there.set_feature(FeatureId::RESERVATION_PERSISTENCE, 1, 1).without_flags()
            == Status::RESERVATION_CONFLICT
    );
    pair.hand_to(0);
    two.check_access(SPACE, true, true, "who has preempted it there");
    one.check_access(SPACE, true, false, "who was preempted there");
    assert_eq!(two.report(1).registrants.len(), 1);
    two.clear(1);
    one.check_access(SPACE, true, true, "it is not reserved");
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn what_a_gateway_asks_for_that_is_shut_out_is_neither_kept_nor_answered() {
    let pair = Pair::start();
    let [mut one, mut two] = [1, 2].map(|number| pair.party(0, number));
    one.register(1);
    two.register(1);
    one.acquire(1, KIND);
    let before = pair.object().pairs("state").unwrap();
    let connections = pair.gateways[0].target().cluster_connections().unwrap();
    pair.gateways[1].target().shut_out(&connections).unwrap();
    wait_until("the image is the other's", || pair.direct(1, &directives(true, 7)).is_ok());
    let status = two.acquire_with(1, AcquireAction::Preempt, KIND, (two.key, one.key));
    assert!(!status.is_success(), "{status}");
    assert_eq!(pair.object().pairs("state").unwrap(), before);
    let [mut one, mut two] = [1, 2].map(|number| pair.party(1, number));
    two.check_access(SPACE, true, false, "another host");
    one.check_access(SPACE, true, true, "the holder");
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn a_change_that_another_claim_has_overtaken_is_decided_again() {
    let pair = Pair::start();
    let [mut one, mut two] = [1, 2].map(|number| pair.party(0, number));
    one.register(1);
    let claim = |text: &str| Pairs::from([("claim".to_owned(), text.as_bytes().to_vec())]);
    let set = claim("a claim that came late");
    assert!(pair.object().change(&ObjectChange { set, ..ObjectChange::default() }).unwrap());
    two.register(1);
    assert_eq!(two.report(1).registrants.len(), 2);
    assert_ne!(pair.object().pairs("claim").unwrap(), Some(claim("a claim that came late")));
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn an_image_whose_reservations_are_damaged_is_not_served() {
    let pair = Pair::start();
    let mut one = pair.party(0, 1);
    one.register(1);
    one.acquire(1, KIND);
    pair.direct(0, &directives(false, 7)).unwrap();
    let whole = pair.object().pairs("state").unwrap().unwrap();
    let set = Pairs::from([("state".to_owned(), b"{".to_vec())]);
    assert!(pair.object().change(&ObjectChange { set, ..ObjectChange::default() }).unwrap());
    let refused = pair.direct(1, &directives(true, 7)).unwrap_err().to_string();
    assert!(refused.contains("selvedge.reservations.") && refused.contains("is damaged"), "{refused}");
    assert!(pair.object().change(&ObjectChange { set: whole, ..ObjectChange::default() }).unwrap());
    pair.direct(1, &directives(true, 7)).unwrap();
    pair.party(1, 2).check_access(SPACE, true, false, "another host");
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn a_removed_namespace_passes_its_reservations_to_no_other() {
    let pair = Pair::start();
    let mut one = pair.party(0, 1);
    one.register(1);
    one.acquire(1, KIND);
    // Who has not seen that it was removed in between.
    pair.direct(0, &directives(true, 8)).unwrap();
    let mut two = pair.party(0, 2);
    two.check_access(SPACE, true, true, "another host");
    pair.direct(0, &directives(false, 8)).unwrap();
    pair.direct(1, &directives(true, 8)).unwrap();
    let mut there = pair.party(1, 2);
    assert_eq!(there.report(1).registrants.len(), 0);
    there.register(1);
    assert!(pair.object().pairs("").unwrap().is_some());
    // Who sees it takes away what is kept.
    let target = pair.gateways[1].target();
    let mut without = target.config();
    without.subsystems[0].namespaces.clear();
    let none = Directives { reservations: Some(BTreeMap::new()), ..Directives::default() };
    target.apply_directed(&without, &none, Duration::ZERO).unwrap();
    wait_until("what was kept is gone", || pair.object().pairs("").unwrap().is_none());
}
