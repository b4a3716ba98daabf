//! What hosts may expect of reservations: the table of who may do what, the rules command by command, and a
//! slow model made from the rules that random commands are compared with.

use std::collections::{BTreeMap, BTreeSet};

use nvme::log_page::ReservationNotification::{
    RegistrationPreempted, ReservationPreempted, ReservationReleased,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[path = "state_host_tests.rs"]
mod hosts;

const A: HostId = [1; 16];
const B: HostId = [2; 16];
const C: HostId = [3; 16];
const D: HostId = [4; 16];
const HOSTS: [HostId; 4] = [A, B, C, D];

/// The host with this HOSTID, by the name that most hosts have here.
fn of(host_id: HostId) -> HostDigest {
    HostDigest::of("nqn", &host_id)
}

fn invalid_field() -> Status {
    Status::INVALID_FIELD.do_not_retry()
}

fn register(action: RegisterAction, current_key: u64, new_key: u64) -> Register {
    let persistence = PersistenceChange::NoChange;
    Register { action, ignore_existing_key: false, persistence, current_key, new_key }
}

fn acquire(action: AcquireAction, kind: ReservationType, current_key: u64, preempt_key: u64) -> Acquire {
    Acquire { action, ignore_existing_key: false, kind, current_key, preempt_key }
}

fn release(kind: ReservationType, current_key: u64) -> Release {
    Release { action: ReleaseAction::Release, ignore_existing_key: false, kind: Some(kind), current_key }
}

/// Hosts A, B, ... registered with these keys; A holds a reservation of `kind`.
fn held_by_a(kind: ReservationType, keys: &[u64]) -> Reservations {
    let mut reservations = registered(keys);
    reservations.acquire(of(A), &acquire(AcquireAction::Acquire, kind, keys[0], 0)).expect("it is free");
    reservations
}

fn registered(keys: &[u64]) -> Reservations {
    let mut reservations = Reservations::default();
    for (host, key) in HOSTS.iter().zip(keys) {
        reservations
            .register(*host, "nqn", &register(RegisterAction::Register, 0, *key))
            .expect("a new host");
    }
    reservations
}

#[test]
fn who_may_read_and_write_follows_the_table() {
    use ReservationType as Type;
    // Type, then read and write of the holder, of another registrant, and of a stranger.
    let table = [
        (Type::WriteExclusive, [true, true, true, false, true, false]),
        (Type::ExclusiveAccess, [true, true, false, false, false, false]),
        (Type::WriteExclusiveRegistrantsOnly, [true, true, true, true, true, false]),
        (Type::ExclusiveAccessRegistrantsOnly, [true, true, true, true, false, false]),
        (Type::WriteExclusiveAllRegistrants, [true, true, true, true, true, false]),
        (Type::ExclusiveAccessAllRegistrants, [true, true, true, true, false, false]),
    ];
    for (kind, allowed) in table {
        let reservations = held_by_a(kind, &[1, 2]);
        let view = reservations.view().expect("a reservation is held");
        for (host, allowed) in [A, B, C].iter().zip(allowed.chunks(2)) {
            let gate = view.gate(of(*host));
            assert_eq!([gate.allows_read, gate.allows_write], allowed, "{kind:?} {host:?}");
            for (access, allowed) in [(Access::Read, allowed[0]), (Access::Write, allowed[1])] {
                assert_eq!(
                    reservations.conflicts(of(*host), access),
                    !allowed,
                    "{kind:?} {host:?} {access:?}"
                );
                assert_eq!(gate.allows(access), allowed);
            }
        }
    }
    assert_eq!(registered(&[1, 2]).view(), None, "without a reservation everything is allowed");
    assert!(!registered(&[1]).conflicts(of(B), Access::Write));
}

#[test]
fn commands_belong_to_the_groups_of_the_specification() {
    let groups = [
        (Some(Access::Read), &[io_opcode::READ, io_opcode::COMPARE, io_opcode::VERIFY][..]),
        (Some(Access::Write), &[io_opcode::WRITE, io_opcode::WRITE_ZEROES, io_opcode::WRITE_UNCORRECTABLE]),
        (Some(Access::Write), &[io_opcode::DATASET_MANAGEMENT, io_opcode::COPY, io_opcode::FLUSH]),
        // These have rules of their own.
        (None, &[io_opcode::RESERVATION_REGISTER, io_opcode::RESERVATION_REPORT]),
        (None, &[io_opcode::RESERVATION_ACQUIRE, io_opcode::RESERVATION_RELEASE]),
    ];
    for (group, opcodes) in groups {
        assert!(opcodes.iter().all(|opcode| Access::of_io(*opcode) == group), "{opcodes:x?}");
    }
}

#[test]
fn a_host_registers_again_with_its_own_key_only() {
    let mut reservations = registered(&[1]);
    assert!(reservations.register(A, "nqn", &register(RegisterAction::Register, 0, 1)).is_ok());
    assert_eq!(reservations.generation(), 2, "a repeated registration is a successful one");
    let before = reservations.clone();
    let other = reservations.register(A, "nqn", &register(RegisterAction::Register, 0, 2));
    assert_eq!(other, Err(conflict()));
    assert_eq!(
        reservations.register(B, "nqn", &register(RegisterAction::Register, 0, 0)),
        Err(invalid_field())
    );
    assert_eq!(reservations, before);
}

#[test]
fn keys_are_replaced_and_taken_back_by_who_knows_them_or_ignores_them() {
    let mut reservations = registered(&[1]);
    let replace = register(RegisterAction::Replace, 9, 5);
    assert_eq!(reservations.register(A, "nqn", &replace), Err(conflict()));
    let ignoring = Register { ignore_existing_key: true, ..replace };
    assert!(reservations.register(A, "nqn", &ignoring).is_ok());
    assert_eq!(reservations.registrants()[0].key, 5);
    assert_eq!(reservations.register(B, "nqn", &replace), Err(conflict()), "it has no key to replace");
    assert!(reservations.register(B, "nqn-b", &ignoring).is_ok(), "without regard to whether it had one");
    assert_eq!(reservations.registrants()[1].host_nqn, "nqn-b");
    let unregister = register(RegisterAction::Unregister, 9, 0);
    assert_eq!(reservations.register(A, "nqn", &unregister), Err(conflict()));
    let ignoring = Register { ignore_existing_key: true, ..unregister };
    assert!(reservations.register(A, "nqn", &ignoring).is_ok());
    assert_eq!(reservations.register(A, "nqn", &ignoring), Err(conflict()), "it is gone already");
    assert!(!reservations.is_registered(of(A)));
    assert!(reservations.is_registered(HostDigest::of("nqn-b", &B)));
}

#[test]
fn persistence_changes_only_with_a_command_that_succeeds() {
    let mut reservations = Reservations::default();
    let persistence = PersistenceChange::PersistThroughPowerLoss;
    let failing = Register { persistence, ..register(RegisterAction::Unregister, 0, 0) };
    assert!(reservations.register(A, "nqn", &failing).is_err());
    assert!(!reservations.persists());
    let persisting = Register { persistence, ..register(RegisterAction::Register, 0, 1) };
    assert!(reservations.register(A, "nqn", &persisting).expect("a new host").changed);
    assert!(reservations.persists());
    reservations.register(A, "nqn", &register(RegisterAction::Register, 0, 1)).expect("the same key");
    assert!(reservations.persists(), "it stays as it was");
    let persistence = PersistenceChange::ClearOnPowerLoss;
    let clearing = Register { persistence, ..persisting };
    reservations.register(A, "nqn", &clearing).expect("the same key");
    assert!(!reservations.persists());
    assert!(reservations.set_persists(true) && !reservations.set_persists(true));
}

#[test]
fn the_holders_end_releases_and_tells_registrants_where_they_had_access() {
    for kind in ReservationType::ALL {
        let mut reservations = held_by_a(kind, &[1, 2]);
        let unregister = register(RegisterAction::Unregister, 1, 0);
        let outcome = reservations.register(A, "nqn", &unregister).expect("it knows its key");
        let notices = if kind.registrants_only() { vec![(of(B), ReservationReleased)] } else { vec![] };
        assert_eq!(outcome.notices, notices, "{kind:?}");
        assert_eq!(reservations.reservation().is_some(), kind.all_registrants(), "{kind:?}");
        let last = register(RegisterAction::Unregister, 2, 0);
        assert_eq!(reservations.register(B, "nqn", &last).expect("it knows its key").notices, vec![]);
        assert_eq!(reservations.reservation(), None, "with the last registrant it is released");
    }
}

#[test]
fn a_release_needs_the_holder_and_the_right_type() {
    for kind in ReservationType::ALL {
        let mut reservations = held_by_a(kind, &[1, 2]);
        let other = ReservationType::ALL.into_iter().find(|other| *other != kind).expect("there are six");
        assert_eq!(reservations.release(of(A), &release(other, 1)), Err(invalid_field()));
        assert_eq!(reservations.release(of(A), &release(kind, 2)), Err(conflict()));
        assert_eq!(reservations.release(of(C), &release(kind, 1)), Err(conflict()));
        let ignoring = Release { ignore_existing_key: true, ..release(kind, 1) };
        assert_eq!(reservations.release(of(A), &ignoring), Err(invalid_field()));
        let generation = reservations.generation();
        if kind.all_registrants() {
            let outcome = reservations.release(of(B), &release(kind, 2)).expect("every registrant holds it");
            assert_eq!(outcome.notices, vec![(of(A), ReservationReleased)]);
        } else {
            let nothing = Ok(Outcome::default());
            assert_eq!(reservations.release(of(B), &release(kind, 2)), nothing, "it is not a holder");
            let outcome = reservations.release(of(A), &release(kind, 1)).expect("it holds");
            assert_eq!(!outcome.notices.is_empty(), kind.registrants_only(), "{kind:?}");
        }
        assert_eq!((reservations.reservation(), reservations.generation()), (None, generation));
    }
}

#[test]
fn preempting_takes_over_or_removes_registrations() {
    use ReservationType::{ExclusiveAccess, WriteExclusive, WriteExclusiveAllRegistrants};
    let preempt = |kind, current, key| acquire(AcquireAction::PreemptAndAbort, kind, current, key);
    let mut taken = held_by_a(WriteExclusive, &[1, 2, 3, 1]);
    let outcome = taken.acquire(of(B), &preempt(ExclusiveAccess, 2, 1)).expect("the holder's key");
    let notices =
        [(of(A), RegistrationPreempted), (of(D), RegistrationPreempted), (of(C), ReservationReleased)];
    assert_eq!(outcome.notices, notices);
    assert_eq!(outcome.aborts, [of(A), of(D)]);
    assert_eq!(taken.reservation(), Some(Reservation { kind: ExclusiveAccess, holder: Some(of(B)) }));

    let mut kept = held_by_a(WriteExclusive, &[1, 2, 3]);
    assert_eq!(kept.acquire(of(B), &preempt(WriteExclusive, 2, 0)), Err(invalid_field()));
    assert_eq!(kept.acquire(of(B), &preempt(WriteExclusive, 2, 7)), Err(conflict()), "no host has that key");
    let outcome = kept.acquire(of(B), &preempt(ExclusiveAccess, 2, 3)).expect("a registrant's key");
    assert_eq!((outcome.notices, outcome.aborts), (vec![(of(C), RegistrationPreempted)], vec![of(C)]));
    assert!(kept.holds(of(A)), "the reservation was not meant");
    let own = kept.acquire(of(A), &preempt(ExclusiveAccess, 1, 1)).expect("the holder preempts itself");
    assert_eq!((own.notices, own.aborts), (vec![(of(B), ReservationReleased)], vec![]));
    assert!(kept.holds(of(A)) && kept.is_registered(of(A)));
    let itself = kept.acquire(of(B), &preempt(ExclusiveAccess, 2, 2)).expect("its own key");
    assert_eq!((itself.notices, itself.aborts), (vec![], vec![]));
    assert!(!kept.is_registered(of(B)));

    let mut all = held_by_a(WriteExclusiveAllRegistrants, &[1, 2, 3]);
    let outcome = all.acquire(of(C), &preempt(WriteExclusive, 3, 0)).expect("0 means everybody else");
    assert_eq!(outcome.aborts, [of(A), of(B)]);
    assert_eq!(all.reservation(), Some(Reservation { kind: WriteExclusive, holder: Some(of(C)) }));
    assert_eq!(all.registrants().len(), 1);

    let mut free = registered(&[1, 1, 3]);
    assert_eq!(free.acquire(of(C), &preempt(WriteExclusive, 3, 0)), Err(conflict()));
    let outcome = free.acquire(of(C), &preempt(WriteExclusive, 3, 1)).expect("two have that key");
    assert_eq!(outcome.aborts, [of(A), of(B)]);
    assert_eq!(free.reservation(), None, "preempting registrations acquires nothing");
}

#[test]
fn a_clear_removes_everybody_and_tells_the_others() {
    let mut reservations = held_by_a(ReservationType::ExclusiveAccess, &[1, 2, 3]);
    let command = Release { action: ReleaseAction::Clear, ..release(ReservationType::ExclusiveAccess, 2) };
    let clear = Release { kind: None, ..command };
    assert_eq!(reservations.release(of(D), &clear), Err(conflict()));
    let outcome = reservations.release(of(B), &clear).expect("every registrant may");
    assert_eq!(outcome.notices, [(of(A), ReservationPreempted), (of(C), ReservationPreempted)]);
    assert_eq!((outcome.aborts, outcome.changed), (vec![], true));
    assert_eq!((reservations.registrants(), reservations.reservation()), (&[][..], None));
    assert_eq!(reservations.generation(), 4);
}

#[test]
fn more_registrants_than_the_limit_are_refused() {
    let mut reservations = Reservations::default();
    let command = register(RegisterAction::Register, 0, 1);
    for number in 0..REGISTRANTS_MAX as u128 {
        reservations.register(number.to_le_bytes(), "nqn", &command).expect("below the limit");
    }
    let before = reservations.clone();
    assert_eq!(reservations.register([0xff; 16], "nqn", &command), Err(Status::INTERNAL_ERROR));
    assert_eq!(reservations, before);
    assert!(reservations.register([0; 16], "nqn", &command).is_ok(), "who is registered may repeat itself");
}

#[test]
fn the_generation_wraps() {
    let mut reservations = Reservations::restore(u32::MAX, vec![], None, false).expect("a possible state");
    reservations.register(A, "nqn", &register(RegisterAction::Register, 0, 1)).expect("a new host");
    assert_eq!(reservations.generation(), 0);
}

#[test]
fn what_is_restored_is_checked() {
    let registrant = |host_id, key| Registrant::new(host_id, "nqn".to_owned(), key);
    let alone = |holder| Some(Reservation { kind: ReservationType::WriteExclusive, holder });
    let all = |holder| Some(Reservation { kind: ReservationType::WriteExclusiveAllRegistrants, holder });
    let both = vec![registrant(A, 1), registrant(B, 2)];
    let many = (0..=REGISTRANTS_MAX as u128).map(|number| registrant(number.to_le_bytes(), 1)).collect();
    let restore = |registrants, reservation| Reservations::restore(7, registrants, reservation, true);
    for (registrants, reservation, error) in [
        (vec![registrant(A, 0)], None, ImpossibleState::ZeroKey),
        (vec![registrant(A, 1), registrant(A, 2)], None, ImpossibleState::RegisteredTwice),
        (both.clone(), alone(Some(of(C))), ImpossibleState::UnknownHolder),
        (both.clone(), alone(None), ImpossibleState::HolderOfType),
        (both.clone(), all(Some(of(A))), ImpossibleState::HolderOfType),
        (vec![], all(None), ImpossibleState::NoHolder),
        (many, None, ImpossibleState::Registrants),
    ] {
        assert_eq!(restore(registrants, reservation), Err(error), "{reservation:?}");
    }
    for reservation in [None, alone(Some(of(B))), all(None)] {
        assert!(restore(both.clone(), reservation).is_ok(), "{reservation:?}");
    }
}

/// The rules once more, over sets and without a thought for speed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    generation: u64,
    keys: BTreeMap<HostDigest, u64>,
    /// The type, and who acquired it.
    held: Option<(ReservationType, HostDigest)>,
    persists: bool,
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Register(Register),
    Acquire(Acquire),
    Release(Release),
}

/// Result of a command of the model.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Conflict,
    Invalid,
    /// Notifications, and the hosts whose commands are aborted.
    Done(BTreeSet<(HostDigest, u8)>, BTreeSet<HostDigest>),
}

impl Model {
    fn everybody(&self) -> BTreeSet<HostDigest> {
        self.keys.keys().copied().collect()
    }

    fn holders(&self) -> BTreeSet<HostDigest> {
        match self.held {
            None => BTreeSet::new(),
            Some((kind, _)) if kind as u8 >= 5 => self.everybody(),
            Some((_, host)) => BTreeSet::from([host]),
        }
    }

    fn users(&self) -> BTreeSet<HostDigest> {
        match self.held {
            Some((kind, _)) if kind as u8 >= 3 => self.everybody(),
            _ => self.holders(),
        }
    }

    /// A reservation ends when none of its holders is registered any longer.
    fn settle(&mut self) {
        if self.holders().is_disjoint(&self.everybody()) {
            self.held = None;
        }
    }

    /// Executes a command. Its notifications follow from the difference between the states before
    /// and after it.
    fn execute(&mut self, host: HostDigest, command: &Command) -> End {
        let before = self.clone();
        let own_key = self.keys.get(&host).copied();
        let (ok, current, ignore) = match command {
            Command::Register(c) => (self.register(host, own_key, c), c.current_key, false),
            Command::Acquire(c) => (Ok(()), c.current_key, c.ignore_existing_key),
            Command::Release(c) => (Ok(()), c.current_key, c.ignore_existing_key),
        };
        let is_register = matches!(command, Command::Register(_));
        let ok = match command {
            _ if ignore => Err(End::Invalid),
            _ if !is_register && own_key != Some(current) => Err(End::Conflict),
            Command::Register(_) => ok,
            Command::Acquire(c) => self.acquire(host, c),
            Command::Release(c) => self.release(host, c),
        };
        if let Err(end) = ok {
            *self = before;
            return end;
        }
        self.settle();
        let others = |hosts: BTreeSet<HostDigest>| hosts.into_iter().filter(move |other| *other != host);
        let gone: BTreeSet<HostDigest> =
            others(before.everybody()).filter(|other| !self.keys.contains_key(other)).collect();
        let clears = matches!(command, Command::Release(c) if c.action == ReleaseAction::Clear);
        let gone_notice = if clears { 3 } else { 1 };
        let mut notices: BTreeSet<(HostDigest, u8)> =
            gone.iter().map(|other| (*other, gone_notice)).collect();
        let preempts = matches!(command, Command::Acquire(_));
        let tells_of_release = match (before.held, self.held) {
            (Some((old, _)), None) => {
                // No registrant is left to be notified of the end of a reservation of the
                // all-registrants types by their unregistration.
                if is_register { matches!(old as u8, 3 | 4) } else { old as u8 >= 3 }
            }
            (Some((old, _)), Some((new, _))) => preempts && old != new,
            (None, _) => false,
        };
        if tells_of_release {
            notices.extend(others(self.everybody()).map(|other| (other, 2)));
        }
        let aborts = matches!(command, Command::Acquire(c) if c.action == AcquireAction::PreemptAndAbort);
        End::Done(notices, if aborts { gone } else { BTreeSet::new() })
    }

    fn register(&mut self, host: HostDigest, own_key: Option<u64>, command: &Register) -> Result<(), End> {
        let proven = command.ignore_existing_key || own_key == Some(command.current_key);
        if command.action != RegisterAction::Unregister && command.new_key == 0 {
            return Err(End::Invalid);
        }
        let allowed = match command.action {
            RegisterAction::Register => own_key.is_none() || own_key == Some(command.new_key),
            RegisterAction::Unregister => own_key.is_some() && proven,
            RegisterAction::Replace => proven && (own_key.is_some() || command.ignore_existing_key),
        };
        if !allowed {
            return Err(End::Conflict);
        }
        if command.action == RegisterAction::Unregister {
            self.keys.remove(&host);
        } else {
            self.keys.insert(host, command.new_key);
        }
        match command.persistence as u8 {
            2 => self.persists = false,
            3 => self.persists = true,
            _ => {}
        }
        self.generation += 1;
        Ok(())
    }

    fn acquire(&mut self, host: HostDigest, command: &Acquire) -> Result<(), End> {
        if command.action == AcquireAction::Acquire {
            return match self.held {
                None => {
                    self.held = Some((command.kind, host));
                    Ok(())
                }
                Some((kind, _)) if kind == command.kind && self.holders().contains(&host) => Ok(()),
                Some(_) => Err(End::Conflict),
            };
        }
        let held_by_all = self.held.is_some_and(|(kind, _)| kind as u8 >= 5);
        let holder_key = self.held.filter(|_| !held_by_all).map(|(_, holder)| self.keys[&holder]);
        let key = command.preempt_key;
        if key == 0 && holder_key.is_some() {
            return Err(End::Invalid);
        }
        if (held_by_all && key == 0) || holder_key == Some(key) {
            self.keys.retain(|other, other_key| *other == host || (key != 0 && *other_key != key));
            self.held = Some((command.kind, host));
        } else {
            let count = self.keys.len();
            self.keys.retain(|_, other_key| *other_key != key);
            if self.keys.len() == count {
                return Err(End::Conflict);
            }
        }
        self.generation += 1;
        Ok(())
    }

    fn release(&mut self, host: HostDigest, command: &Release) -> Result<(), End> {
        if command.action == ReleaseAction::Clear {
            self.keys.clear();
            self.held = None;
            self.generation += 1;
        } else if self.holders().contains(&host) {
            if self.held.map(|(kind, _)| kind) != command.kind {
                return Err(End::Invalid);
            }
            self.held = None;
        }
        Ok(())
    }
}

fn kinds() -> impl Strategy<Value = ReservationType> {
    (0_usize..6).prop_map(|at| ReservationType::ALL[at])
}

fn key() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0_u64), 8 => 1_u64..4]
}

fn commands() -> impl Strategy<Value = Command> {
    let register = (0_u8..3, prop::bool::weighted(0.3), 0_u8..4, key(), key()).prop_map(
        |(action, ignore_existing_key, persistence, current_key, new_key)| Register {
            action: RegisterAction::from_wire(action).expect("there are three"),
            ignore_existing_key,
            persistence: PersistenceChange::from_wire(persistence).unwrap_or_default(),
            current_key,
            new_key,
        },
    );
    let acquire = (0_u8..3, prop::bool::weighted(0.05), kinds(), key(), key()).prop_map(
        |(action, ignore_existing_key, kind, current_key, preempt_key)| Acquire {
            action: AcquireAction::from_wire(action).expect("there are three"),
            ignore_existing_key,
            kind,
            current_key,
            preempt_key,
        },
    );
    let release = (prop::bool::weighted(0.15), prop::bool::weighted(0.05), kinds(), key()).prop_map(
        |(clear, ignore_existing_key, kind, current_key)| Release {
            action: if clear { ReleaseAction::Clear } else { ReleaseAction::Release },
            ignore_existing_key,
            kind: (!clear).then_some(kind),
            current_key,
        },
    );
    prop_oneof![
        3 => register.prop_map(Command::Register),
        4 => acquire.prop_map(Command::Acquire),
        1 => release.prop_map(Command::Release),
    ]
}

/// Half of the commands know the right key, since guessing alone seldom gets far.
fn with_right_key(command: Command, key: Option<u64>) -> Command {
    match (command, key) {
        (Command::Register(command), Some(current_key)) => {
            Command::Register(Register { current_key, ..command })
        }
        (Command::Acquire(command), Some(current_key)) => {
            Command::Acquire(Acquire { current_key, ..command })
        }
        (Command::Release(command), Some(current_key)) => {
            Command::Release(Release { current_key, ..command })
        }
        (command, None) => command,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn random_commands_do_what_the_rules_say(
        steps in vec((0_usize..4, commands(), prop::bool::weighted(0.7)), 1..60)
    ) {
        let mut reservations = Reservations::default();
        let mut model = Model::default();
        for (host, command, knows) in steps {
            let (host_id, host) = (HOSTS[host], of(HOSTS[host]));
            let key = model.keys.get(&host).copied().filter(|_| knows);
            let command = with_right_key(command, key);
            let before = reservations.clone();
            let result = match &command {
                Command::Register(command) => reservations.register(host_id, "nqn", command),
                Command::Acquire(command) => reservations.acquire(host, command),
                Command::Release(command) => reservations.release(host, command),
            };
            let expected = model.execute(host, &command);
            let actual = match result {
                Err(status) => {
                    prop_assert_eq!(&reservations, &before, "a command that fails changes nothing");
                    if status == conflict() { End::Conflict } else { End::Invalid }
                }
                Ok(outcome) => {
                    prop_assert!(outcome.changed || reservations == before, "{:?}", command);
                    let notices: BTreeSet<_> =
                        outcome.notices.iter().map(|(host, notice)| (*host, *notice as u8)).collect();
                    prop_assert_eq!(notices.len(), outcome.notices.len(), "no host is notified twice");
                    End::Done(notices, outcome.aborts.iter().copied().collect())
                }
            };
            prop_assert_eq!(actual, expected, "{:?} in {:?}", command, before);
            check(&reservations, &model)?;
        }
    }
}

/// Model and state agree, and what must always hold does.
fn check(reservations: &Reservations, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(u64::from(reservations.generation()), model.generation);
    prop_assert_eq!(reservations.persists(), model.persists);
    let keys: BTreeMap<_, _> =
        reservations.registrants().iter().map(|registrant| (registrant.host, registrant.key)).collect();
    prop_assert_eq!(&keys, &model.keys);
    prop_assert_eq!(keys.len(), reservations.registrants().len());
    prop_assert_eq!(reservations.reservation().map(|held| held.kind), model.held.map(|(kind, _)| kind));
    let view = reservations.view();
    prop_assert_eq!(view.is_some(), model.held.is_some());
    let exclusive = model.held.is_some_and(|(kind, _)| (kind as u8).is_multiple_of(2));
    for host in HOSTS.map(of) {
        let holds = reservations.holds(host);
        prop_assert_eq!(holds, model.holders().contains(&host));
        prop_assert!(!holds || reservations.is_registered(host), "a holder is registered");
        let may_write = model.held.is_none() || model.users().contains(&host);
        let may_read = may_write || !exclusive;
        prop_assert!(!holds || may_write, "a holder may do everything");
        prop_assert_eq!(reservations.conflicts(host, Access::Write), !may_write);
        prop_assert_eq!(reservations.conflicts(host, Access::Read), !may_read);
        let gate = view.as_ref().map_or(Gate::OPEN, |view| view.gate(host));
        prop_assert_eq!((gate.allows_read, gate.allows_write), (may_read, may_write));
    }
    let restored = Reservations::restore(
        reservations.generation(),
        reservations.registrants().to_vec(),
        reservations.reservation(),
        reservations.persists(),
    );
    prop_assert_eq!(restored.as_ref(), Ok(reservations), "every state can be kept and restored");
    Ok(())
}
