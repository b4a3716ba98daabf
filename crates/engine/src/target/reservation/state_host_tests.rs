//! Registrations of hosts that share an identifier, and those that an operator drops.

use super::*;

#[test]
fn two_names_with_one_identifier_are_two_hosts() {
    let mut reservations = held_by_a(ReservationType::WriteExclusive, &[1]);
    let other = HostDigest::of("nqn.other", &A);
    let view = reservations.view().expect("A holds it");
    assert!(view.allows_write(of(A)) && !view.allows_write(other), "the other one has no part in it");
    let replace = Register { ignore_existing_key: true, ..register(RegisterAction::Replace, 0, 9) };
    reservations.register(A, "nqn.other", &replace).expect("it gets a registration of its own");
    assert_eq!(reservations.registrants().iter().map(|of| of.key).collect::<Vec<_>>(), [1, 9]);
    let taken = reservations.release(other, &release(ReservationType::WriteExclusive, 9)).expect("its key");
    assert!(!taken.changed && reservations.holds(of(A)), "it has nothing to release");
    let controllers = |host| if host == other { vec![7] } else { vec![8] };
    let reported = reservations.reported(controllers);
    let seen: Vec<_> = reported.iter().map(|one| (one.host_id, one.controller_id, one.holds)).collect();
    assert_eq!(seen, [(A, 8, true), (A, 7, false)]);
    let own = register(RegisterAction::Unregister, 9, 0);
    reservations.register(A, "nqn.other", &own).expect("its own goes");
    assert!(reservations.holds(of(A)));
}

#[test]
fn dropped_hosts_lose_their_registration_and_others_are_notified_where_they_may_go_on() {
    for kind in ReservationType::ALL {
        let mut reservations = held_by_a(kind, &[1]);
        reservations.register(B, "nqn.b", &register(RegisterAction::Register, 0, 2)).expect("a new host");
        let b = HostDigest::of("nqn.b", &B);
        let before = reservations.clone();
        assert_eq!(reservations.drop_hosts(|nqn| nqn == "nqn.c"), Outcome::default());
        assert_eq!(reservations, before, "a host without registration loses none");
        let outcome = reservations.drop_hosts(|nqn| nqn == "nqn");
        let mut notices = vec![(of(A), RegistrationPreempted)];
        notices.extend(kind.registrants_only().then_some((b, ReservationReleased)));
        assert_eq!((outcome.notices, outcome.changed), (notices, true), "{kind:?}");
        assert_eq!(reservations.holds(b), kind.all_registrants(), "{kind:?}");
        assert!(reservations.is_registered(b) && reservations.generation() == before.generation() + 1);
        let all = reservations.drop_hosts(|_| true);
        assert_eq!(all.notices, [(b, RegistrationPreempted)]);
        assert_eq!((reservations.registrants(), reservations.reservation()), (&[][..], None));
    }
}

#[test]
fn a_name_has_its_share_of_registrations_and_those_that_are_not_proved_leave_room_to_others() {
    const ADDS: RegisterAction = RegisterAction::Register;
    let mut reservations = Reservations::default();
    let id = |number: usize| (number as u128).to_le_bytes();
    let add = |reservations: &mut Reservations, number: usize, name: &str, is_proved: bool| {
        reservations.check_room((&id(number), name), is_proved, ADDS)?;
        reservations.register(id(number), name, &register(ADDS, 0, 1)).map(drop)
    };
    for number in 0..REGISTRANTS_PER_NAME_MAX {
        assert_eq!(add(&mut reservations, number, "nqn.greedy", true), Ok(()));
    }
    let one_more = add(&mut reservations, REGISTRANTS_PER_NAME_MAX, "nqn.greedy", true);
    assert_eq!(one_more, Err(Status::INTERNAL_ERROR));
    assert_eq!(add(&mut reservations, 0, "nqn.greedy", true), Ok(()), "a repetition adds none");
    let leaves = reservations.check_room((&id(99), "nqn.greedy"), true, RegisterAction::Unregister);
    assert_eq!(leaves, Ok(()));
    for number in REGISTRANTS_PER_NAME_MAX..REGISTRANTS_MAX - PROVED_REGISTRANTS_RESERVE {
        assert_eq!(add(&mut reservations, number, &format!("nqn.{number}"), false), Ok(()));
    }
    assert_eq!(add(&mut reservations, 999, "nqn.stranger", false), Err(Status::INTERNAL_ERROR));
    assert_eq!(add(&mut reservations, 999, "nqn.proved", true), Ok(()));
}

#[test]
fn a_report_names_holders_and_controllers() {
    let reservations = held_by_a(ReservationType::WriteExclusive, &[1, 2]);
    let reported = reservations.reported(|host| if host == of(B) { vec![9, 12] } else { Vec::new() });
    let seen: Vec<_> =
        reported.iter().map(|one| (one.host_id, one.controller_id, one.holds, one.key)).collect();
    assert_eq!(seen, [(A, 0xffff, true, 1), (B, 9, false, 2), (B, 12, false, 2)]);
    let all = held_by_a(ReservationType::WriteExclusiveAllRegistrants, &[1, 2]);
    assert!(all.reported(|_| Vec::new()).iter().all(|registrant| registrant.holds));
}
