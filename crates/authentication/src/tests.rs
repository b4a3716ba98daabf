//! Both sides against each other: every hash function, group, direction, transformation and length of a secret; and what
//! happens when one side lies.

mod concatenation;

use std::cell::Cell;

use nvme::authentication::{Body, Failure, Message};

use crate::{
    Authenticated, Concatenation, ControllerSide, ControllerTerms, Fault, Group, Hash, HostSide, HostStep,
    HostTerms, Progress, Secret,
};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:0a1b2c3d-0000-4000-8000-000000000001";
const SUBSYSTEM: &str = "nqn.2026-01.io.selvedge:a";

/// Random bytes that are the same each time (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

fn secret(transform: Option<Hash>, length: usize, chance: &mut Chance) -> Secret {
    let mut key = vec![0; length];
    chance.fill(&mut key);
    Secret::new(&key, transform).unwrap()
}

fn sides(hash: Hash, group: Group, secrets: (Secret, Option<Secret>)) -> (ControllerTerms, HostTerms) {
    let (secret, controller_secret) = secrets;
    let controller = ControllerTerms {
        host_nqn: HOST.to_owned(),
        subsystem_nqn: SUBSYSTEM.to_owned(),
        secrets: vec![secret.clone()],
        controller_secret: controller_secret.clone(),
        hashes: vec![hash],
        groups: vec![group],
        concatenation: Concatenation::None,
    };
    let host = HostTerms {
        host_nqn: HOST.to_owned(),
        subsystem_nqn: SUBSYSTEM.to_owned(),
        secret,
        controller_secret,
        hashes: Hash::ALL.to_vec(),
        groups: Group::ALL.to_vec(),
        concatenation: Concatenation::None,
    };
    (controller, host)
}

fn usual() -> (ControllerTerms, HostTerms) {
    let mut chance = Chance(7);
    let secrets = (secret(Some(Hash::Sha256), 32, &mut chance), Some(secret(None, 32, &mut chance)));
    sides(Hash::Sha256, Group::Secp256r1, secrets)
}

/// Results of an exchange, for the controller and for the host.
type Ends = (Result<Authenticated, Fault>, Result<Authenticated, Fault>);

/// Runs an exchange. `change` may change messages on the way: each comes with its number, in the
/// order of the exchange.
fn exchange(
    (controller, host): (ControllerTerms, HostTerms),
    chance: &mut Chance,
    on_the_way: impl FnMut(usize, &mut Vec<u8>),
) -> Ends {
    let (mut controller, mut host) = (ControllerSide::new(controller), HostSide::new(host, 0x4321));
    between(&mut controller, &mut host, chance, on_the_way)
}

fn between(
    controller: &mut ControllerSide,
    host: &mut HostSide,
    chance: &mut Chance,
    mut on_the_way: impl FnMut(usize, &mut Vec<u8>),
) -> Ends {
    let mut number = 0..;
    let mut pass = |mut bytes: Vec<u8>| {
        on_the_way(number.next().unwrap_or_default(), &mut bytes);
        bytes
    };
    let (mut at_controller, mut sent) = (None, Some(host.offer()));
    let mut note = |progress: Progress| match progress {
        Progress::Continues => {}
        Progress::Authenticated(how) => at_controller = at_controller.take().or(Some(Ok(how))),
        Progress::Failed(fault) => at_controller = Some(Err(fault)),
    };
    let at_host = loop {
        if let Some(bytes) = sent.take() {
            note(controller.take(&pass(bytes)));
        }
        let (given, progress) = controller.give(&mut |bytes| chance.fill(bytes));
        note(progress);
        match host.take(&pass(given), &mut |bytes| chance.fill(bytes)) {
            HostStep::Exchange(bytes) => sent = Some(bytes),
            HostStep::Done(how, last) => {
                last.map(|bytes| controller.take(&pass(bytes))).into_iter().for_each(&mut note);
                break Ok(how);
            }
            HostStep::Failed(fault, last) => {
                last.map(|bytes| controller.take(&pass(bytes))).into_iter().for_each(&mut note);
                break Err(fault);
            }
        }
    };
    let nothing = Fault { reason: Failure(0), why: "nothing was said".to_owned() };
    (at_controller.unwrap_or(Err(nothing)), at_host)
}

fn honest(terms: (ControllerTerms, HostTerms), chance: &mut Chance) -> Ends {
    exchange(terms, chance, |_, _| {})
}

/// Every hash function, direction, transformation and length of both secrets with one group.
fn all_cells(group: Group) {
    let transforms = [None, Some(Hash::Sha256), Some(Hash::Sha384), Some(Hash::Sha512)];
    let mut chance = Chance(u64::from(group.id()));
    for hash in Hash::ALL {
        for is_bidirectional in [false, true] {
            for transform in transforms {
                for length in [32, 48, 64] {
                    let own = secret(transform, length, &mut chance);
                    let other = is_bidirectional.then(|| secret(transform, length, &mut chance));
                    let (at_controller, at_host) = honest(sides(hash, group, (own, other)), &mut chance);
                    let expected = Authenticated { hash, group, is_bidirectional, secret: 0 };
                    assert_eq!(at_controller, Ok(expected), "{hash} {transform:?} {length}");
                    assert_eq!(at_host, Ok(expected), "{hash} {transform:?} {length}");
                }
            }
        }
    }
}

macro_rules! every_cell {
    ($($name:ident: $group:ident,)*) => {$(
        #[test]
        fn $name() {
            all_cells(Group::$group);
        }
    )*};
}

every_cell! {
    every_cell_with_null: Null,
    every_cell_with_ffdhe2048: Ffdhe2048,
    every_cell_with_ffdhe3072: Ffdhe3072,
    every_cell_with_ffdhe4096: Ffdhe4096,
    every_cell_with_ffdhe6144: Ffdhe6144,
    every_cell_with_ffdhe8192: Ffdhe8192,
    every_cell_with_secp256r1: Secp256r1,
    every_cell_with_secp384r1: Secp384r1,
    every_cell_with_mlkem768: MlKem768,
    every_cell_with_mlkem1024: MlKem1024,
    every_cell_with_secp256r1mlkem768: Secp256r1MlKem768,
    every_cell_with_secp384r1mlkem1024: Secp384r1MlKem1024,
}

/// The wrong side is named, whichever it is, and neither believes the other.
#[test]
fn a_wrong_secret_is_refused_by_the_side_that_sees_it() {
    let mut chance = Chance(1);
    let (mut controller, host) = usual();
    controller.secrets = vec![secret(None, 32, &mut chance)];
    let (at_controller, at_host) = honest((controller, host), &mut chance);
    let fault = at_controller.unwrap_err();
    assert_eq!(fault.reason, Failure::FAILED);
    assert!(fault.why.starts_with("the host's response is wrong"), "{fault}");
    assert!(at_host.unwrap_err().why.contains("this host's secret is not the one that the target has"));

    let (mut controller, host) = usual();
    controller.controller_secret = Some(secret(None, 32, &mut chance));
    let (at_controller, at_host) = honest((controller, host), &mut chance);
    assert!(at_host.unwrap_err().why.starts_with("the controller's response is wrong"));
    assert!(at_controller.unwrap_err().why.contains("does not accept the controller's response"));
}

#[test]
fn both_secrets_are_taken_while_one_takes_the_others_place() {
    let mut chance = Chance(2);
    let (mut controller, mut host) = usual();
    let fresh = secret(Some(Hash::Sha512), 64, &mut chance);
    controller.secrets.push(fresh.clone());
    let terms = (controller.clone(), host.clone());
    assert_eq!(honest(terms, &mut chance).0.map(|how| how.secret), Ok(0));
    host.secret = fresh;
    assert_eq!(honest((controller.clone(), host.clone()), &mut chance).0.map(|how| how.secret), Ok(1));
    controller.secrets.truncate(1);
    assert!(honest((controller, host), &mut chance).0.is_err());
}

#[test]
fn a_wrong_name_is_a_wrong_response() {
    for (wrong_host, wrong_subsystem) in [(true, false), (false, true)] {
        let (controller, mut host) = usual();
        if wrong_host {
            host.host_nqn.push('x');
        }
        if wrong_subsystem {
            host.subsystem_nqn.push('x');
        }
        let (at_controller, at_host) = honest((controller, host), &mut Chance(3));
        assert_eq!(at_controller.unwrap_err().reason, Failure::FAILED);
        assert!(at_host.is_err());
    }
}

#[test]
fn what_is_not_common_to_both_is_named() {
    let with = |change: fn(&mut ControllerTerms, &mut HostTerms)| {
        let (mut controller, mut host) = usual();
        change(&mut controller, &mut host);
        let (at_controller, at_host) = honest((controller, host), &mut Chance(4));
        let (fault, at_host) = (at_controller.unwrap_err(), at_host.unwrap_err());
        assert_eq!(fault.reason, at_host.reason);
        (fault.reason, fault.why)
    };
    let (reason, why) = with(|_, host| host.hashes = vec![Hash::Sha512]);
    assert_eq!((reason, &*why), (Failure::HASH, "the host offers none of the hash functions sha256"));
    let (reason, why) = with(|_, host| host.groups = vec![Group::Null, Group::Ffdhe2048]);
    assert_eq!((reason, &*why), (Failure::GROUP, "the host offers none of the groups secp256r1"));
    let (reason, _) = with(|_, host| (host.hashes, host.groups) = (Vec::new(), Vec::new()));
    assert_eq!(reason, Failure::PROTOCOL);
    let (reason, why) = with(|controller, _| controller.controller_secret = None);
    assert_eq!(reason, Failure::FAILED);
    assert!(why.contains("which has no secret for it"), "{why}");
}

/// A host that knows none of the newer groups gets one that it knows.
#[test]
fn the_preferred_group_of_those_that_are_common_is_chosen() {
    let chosen = |offered: &[Group]| {
        let (mut controller, mut host) = usual();
        controller.groups = Group::DEFAULT.to_vec();
        host.groups = offered.to_vec();
        honest((controller, host), &mut Chance(5)).1.map(|how| how.group)
    };
    assert_eq!(chosen(&Group::ALL), Ok(Group::Secp256r1MlKem768));
    let of_linux = [
        Group::Null,
        Group::Ffdhe2048,
        Group::Ffdhe3072,
        Group::Ffdhe4096,
        Group::Ffdhe6144,
        Group::Ffdhe8192,
    ];
    assert_eq!(chosen(&of_linux), Ok(Group::Ffdhe3072));
    assert_eq!(chosen(&[Group::Null]), Ok(Group::Null));
    for expensive in [Group::Ffdhe6144, Group::Ffdhe8192] {
        assert_eq!(chosen(&[expensive]).unwrap_err().reason, Failure::GROUP, "no usable group");
    }
}

/// Changes one bit of one message after the other: the two sides never trust each other by a
/// changed value, and the side that sees it says so.
#[test]
fn a_flipped_bit_is_never_believed() {
    for group in [Group::Null, Group::Secp256r1, Group::MlKem768, Group::Secp256r1MlKem768] {
        for target in 0..5 {
            let length = Cell::new(1);
            let run = |bit: Option<usize>| {
                let (mut controller, host) = usual();
                controller.groups = vec![group];
                exchange((controller, host), &mut Chance(6), |number, bytes| {
                    if number == target {
                        length.set(bytes.len());
                        bit.into_iter().for_each(|bit| bytes[bit / 8 % length.get()] ^= 1 << (bit % 8));
                    }
                })
            };
            assert!(matches!(run(None), (Ok(_), Ok(_))));
            let mut chance = Chance(target as u64);
            for _ in 0..300 {
                let bit = chance.next() as usize % (2048 * 8);
                let (at_controller, at_host) = run(Some(bit));
                let byte = bit / 8 % length.get();
                assert!(
                    at_controller.is_err() || at_host.is_err() || is_not_looked_at(target, byte),
                    "{group} message {target} byte {byte} bit {}: {at_controller:?} {at_host:?}",
                    bit % 8
                );
            }
        }
    }
}

/// Bytes that no side looks at: reserved ones, the offer beyond what is chosen (it is not signed), reserved flags, and the
/// rest of a Success2.
fn is_not_looked_at(message: usize, byte: usize) -> bool {
    match message {
        0 => true,
        1..=3 => {
            matches!(byte, 2 | 3 | 7) || message != 1 && (8..10).contains(&byte) || message == 3 && byte < 16
        }
        _ => byte >= 6 || matches!(byte, 2 | 3),
    }
}

/// Messages in the wrong order, and after the end, are refused by their names.
#[test]
fn a_message_out_of_order_ends_the_exchange() {
    let (controller, _) = usual();
    let mut side = ControllerSide::new(controller.clone());
    let success2 = Message { transaction: 1, body: Body::Success2 }.encode();
    let Progress::Failed(fault) = side.take(&success2) else { panic!("it was taken") };
    assert_eq!(fault.why, "the host sent Success2 when another message was due");
    assert_eq!(fault.reason, Failure::MESSAGE);

    let mut side = ControllerSide::new(controller);
    let (given, progress) = side.give(&mut |bytes| bytes.fill(1));
    assert!(matches!(progress, Progress::Failed(_)) && side.has_ended());
    let said = Message::decode(&given).unwrap().body;
    assert_eq!(said, Body::Failure1(Failure::MESSAGE));
}

/// The first reply once more, to another challenge; with no key exchange that would make it useless anyway.
#[test]
fn a_reply_to_another_challenge_is_refused() {
    let (mut controller, host) = usual();
    controller.groups = vec![Group::Null];
    let (mut chance, mut kept) = (Chance(8), Vec::new());
    let terms = (controller.clone(), host.clone());
    let first = exchange(terms, &mut chance, |number, bytes| {
        if number == 2 {
            kept.clone_from(bytes);
        }
    });
    assert!(first.0.is_ok());
    let (at_controller, _) = exchange((controller, host), &mut chance, |number, bytes| {
        if number == 2 {
            bytes.clone_from(&kept);
        }
    });
    assert!(at_controller.unwrap_err().why.starts_with("the host's response is wrong"));
}

/// Linux' target chooses the group that it is set to, whatever the host has offered.
#[test]
fn a_group_that_was_not_offered_is_refused() {
    let (_, mut host) = usual();
    host.groups = vec![Group::Ffdhe2048];
    let mut side = HostSide::new(host, 1);
    let challenge = nvme::authentication::Challenge {
        hash: 1,
        group: Group::Null.id(),
        sequence: 1,
        challenge: vec![1; 32],
        exchange: Vec::new(),
    };
    let message = Message { transaction: 1, body: Body::Challenge(challenge) }.encode();
    let HostStep::Failed(fault, Some(failure)) = side.take(&message, &mut |bytes| bytes.fill(1)) else {
        panic!("it was taken");
    };
    assert_eq!(fault.why, "the controller chose group 0x00, which was not offered");
    assert_eq!(Message::decode(&failure).unwrap().body, Body::Failure2(Failure::GROUP));
}

/// A controller without the secret cannot have it made by the host's own answers: what it is asked is not what it asks.
#[test]
fn a_challenge_that_comes_back_is_refused() {
    let (controller, host) = usual();
    let mut challenge = Vec::new();
    let (at_controller, _) = exchange((controller, host), &mut Chance(9), |number, bytes| match number {
        1 => challenge = bytes[16..48].to_vec(),
        2 => bytes[48..80].copy_from_slice(&challenge),
        _ => {}
    });
    assert!(at_controller.unwrap_err().why.contains("own challenge"));
}

/// The first 32 bytes of responses to what stands in the test below.
const HOST_SECRET: &str =
    "DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:";
const RESPONSES: [&str; 3] = [
    "76ba0f8b226c748d69c1815d48a747cee4628eb431d43ddf2e19dd59e75800fc",
    "05318b31aa88f87b9a693eac2391f44e4623df11c1b76414127a49900ebe7776",
    "9fa000f70bb58a9602a0add20b52b3c877c12b766b0e19b25292c6005437c610",
];

/// Values and secrets with zeroes in front come up once in 256 times each, and are as long as others. More exchanges than usual
/// are made with `SELVEDGE_EXCHANGES=65536`.
#[test]
fn no_exchange_fails_for_its_numbers() {
    let count = std::env::var("SELVEDGE_EXCHANGES").ok().and_then(|count| count.parse().ok()).unwrap_or(500);
    let mut chance = Chance(10);
    for group in Group::ALL {
        // Those of the larger fields are made by the same code, and take long.
        let count = if group == Group::Ffdhe2048 { count } else { (count / 32).min(2000) };
        for number in 0..count {
            let secrets = (secret(None, 32, &mut chance), Some(secret(None, 32, &mut chance)));
            let ends = honest(sides(Hash::Sha256, group, secrets), &mut chance);
            assert!(matches!(ends, (Ok(_), Ok(_))), "{group} {number}: {ends:?}");
        }
    }
}

/// Responses with the null group, as Python's `hmac` computes them: an implementation that is not this one.
#[test]
fn responses_are_those_of_another_implementation() {
    let host_secret: Secret = HOST_SECRET.parse().unwrap();
    let question = |hash: Hash| crate::response::Question {
        hash,
        challenge: &[0x5a; 64][..hash.length()],
        session_key: None,
        sequence: 0x0102_0304,
        transaction: 0x0506,
        concatenation: Concatenation::None,
        role: crate::response::Role::Host,
        host_nqn: HOST,
        subsystem_nqn: SUBSYSTEM,
    };
    for (hash, expected) in Hash::ALL.into_iter().zip(RESPONSES) {
        let found: String =
            question(hash).response(&host_secret).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(&found[..64], expected, "{hash}");
    }
}
