//! Reservations that are kept while the power may be lost at any step, and while steps fail; and
//! backlogs of changes.

use std::sync::atomic::AtomicU64;

use nvme::reservation::ReservationType;
use private_folder::power::{self, Fault, Medium};

use super::*;
use crate::backend::{Backend, BackendConfig, Clusters};
use crate::target::config::NamespaceConfig;
use crate::target::fabric::TargetConfig;
use crate::target::reservation::{Access, Registrant, Reservation};

const UUID: Uuid = Uuid::from_u128(7);

fn namespace() -> Namespace {
    let config = NamespaceConfig::new(1, BackendConfig::Null { size: 1 << 20 }, 4096);
    let backend = Backend::Null(AtomicU64::new(1 << 20));
    Namespace::on("nqn.2014-08.org.example:test", &config, UUID, Arc::new(backend))
}

fn name(number: u8) -> String {
    format!("nqn.test:{number}")
}

fn host(number: u8) -> HostDigest {
    HostDigest::of(&name(number), &[number; 16])
}

fn state(holder: u8, persists: bool) -> Reservations {
    let registrant = |number: u8| Registrant::new([number; 16], name(number), 1);
    let reservation = Reservation { kind: ReservationType::WriteExclusive, holder: Some(host(holder)) };
    let registrants = (1..=3).map(registrant).collect();
    Reservations::restore(u32::from(holder), registrants, Some(reservation), persists).expect("possible")
}

/// Checks the state that a starting target finds after a power loss at any point.
fn look(media: &[Medium], possible: &[Option<Reservations>], fault: Option<Fault>) {
    for remains in power::remains(media) {
        let folder = power::found(&remains);
        let found = power::apart(|| {
            let archive = ReservationDirectory::open(folder.path()).expect("opens");
            archive.load(UUID).unwrap_or_else(|error| panic!("{fault:?}: {error}"))
        });
        assert!(possible.contains(&found), "{fault:?}: {found:?} instead of {possible:?}");
    }
}

/// Reservations that change, and persist or not; how many steps that takes.
fn change_over_and_over(fault: Option<Fault>) -> usize {
    let (scratch, namespace) = (tempfile::tempdir().unwrap(), namespace());
    let archive = ReservationDirectory::open(scratch.path()).expect("opens");
    let kept = |state: &Reservations| state.persists().then(|| state.clone());
    let mut counts = state(1, true);
    commit(Some(&archive), &namespace, counts.clone()).expect("nothing fails yet");
    let mut possible = vec![kept(&counts)];
    power::watch(scratch.path(), fault);
    for next in [state(2, true), state(3, false), state(1, true), state(2, true)] {
        let outcome = commit(Some(&archive), &namespace, next.clone());
        let seen = power::seen();
        let (last, midst) = seen.media.split_last().expect("one at least");
        let either: Vec<_> = possible.iter().cloned().chain([kept(&next)]).collect();
        look(midst, &either, fault);
        match outcome {
            Ok(()) => (counts, possible) = (next.clone(), vec![kept(&next)]),
            // What counted before is written again where the medium lets that be done.
            Err(status) => {
                assert_eq!(status, Status::INTERNAL_ERROR);
                if seen.has_failed_at_last && fault.is_some_and(|fault| fault.lasts) {
                    possible = either;
                }
            }
        }
        assert_eq!(*lock(&namespace.reservations), counts, "{fault:?}");
        let holder = counts.reservation().and_then(|reservation| reservation.holder).expect("one");
        for number in 1..=3 {
            let is_kept_off = namespace.reservation_forbids(host(number), Access::Write);
            assert_eq!(is_kept_off, host(number) != holder, "{fault:?}: host {number}");
        }
        look(std::slice::from_ref(last), &possible, fault);
    }
    power::end()
}

#[test]
fn a_reservation_that_was_acknowledged_outlives_the_power_and_one_that_was_refused_never_counts() {
    power::with_faults(change_over_and_over);
}

#[test]
fn the_persistence_of_one_namespace_waits_for_no_other() {
    let several = [(); 2].map(|()| Arc::new(namespace()));
    assert_eq!(backlog_of_persistence(&several[..1]), Backlog::Namespace(UUID.into_bytes()));
    assert_eq!(backlog_of_persistence(&several), Backlog::Persistence);
    assert_eq!(backlog_of_persistence(&[]), Backlog::Persistence);
}

#[test]
fn a_command_waits_in_the_backlog_of_its_namespace_if_that_is_shared() {
    let fabric = Fabric::new(None, &TargetConfig::default(), Clusters::default());
    let task = |namespace: Namespace| Task::Command {
        namespace: Arc::new(namespace),
        command: IoCommand::ReservationReport { dwords: 4, extended: true },
        data: Vec::new(),
        slot: 0,
    };
    let shared = task(namespace().sharing_reservations(1));
    assert_eq!(backlog(&fabric, &shared), Some(Backlog::Namespace(UUID.into_bytes())));
    assert_eq!(backlog(&fabric, &task(namespace())), None, "its file answers soon");
}
