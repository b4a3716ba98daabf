//! Exchanges that generate a TLS key: both sides have the same one, and otherwise neither has one.

use nvme::authentication::{Body, Failure, Message, Negotiate};

use super::{Chance, HOST, HOST_SECRET, SUBSYSTEM, between, secret, usual};
use crate::response::{Question, Role};
use crate::{
    Concatenation, ControllerSide, ControllerTerms, GeneratedPsk, Group, Hash, HostSide, HostTerms, Progress,
    Secret,
};

const GROUPS: [Group; 4] = [Group::Ffdhe2048, Group::Secp256r1, Group::MlKem768, Group::Secp384r1MlKem1024];

type Terms = (ControllerTerms, HostTerms);

/// Keys of both sides in the end, or the reasons.
type Keys = (Result<GeneratedPsk, String>, Result<GeneratedPsk, String>);

fn with(change: impl FnOnce(&mut ControllerTerms, &mut HostTerms)) -> Terms {
    let (mut controller, mut host) = usual();
    (controller.concatenation, host.concatenation) = (Concatenation::New, Concatenation::New);
    change(&mut controller, &mut host);
    (controller, host)
}

fn keys((controller, host): Terms, on_the_way: impl FnMut(usize, &mut Vec<u8>)) -> Keys {
    let (mut controller, mut host) = (ControllerSide::new(controller), HostSide::new(host, 0x4321));
    let mut chance = Chance(11);
    let (at_controller, at_host) = between(&mut controller, &mut host, &mut chance, on_the_way);
    let (theirs, ours) = (controller.take_psk(), host.take_psk());
    assert_eq!((theirs.is_some(), ours.is_some()), (at_controller.is_ok(), at_host.is_ok()));
    assert!(controller.take_psk().is_none() && host.take_psk().is_none(), "it is given once");
    let at_controller = at_controller.map_err(|fault| fault.why).map(|_| theirs.unwrap());
    (at_controller, at_host.map_err(|fault| fault.why).map(|_| ours.unwrap()))
}

fn honest(terms: Terms) -> Keys {
    keys(terms, |_, _| {})
}

#[test]
fn both_sides_have_the_same_key() {
    let mut all = Vec::new();
    for hash in [Hash::Sha256, Hash::Sha384] {
        for group in GROUPS {
            for is_bidirectional in [false, true] {
                for concatenation in [Concatenation::New, Concatenation::Replace] {
                    let ends = honest(with(|controller, host| {
                        (controller.hashes, controller.groups) = (vec![hash], vec![group]);
                        (controller.concatenation, host.concatenation) = (concatenation, concatenation);
                        if !is_bidirectional {
                            (controller.controller_secret, host.controller_secret) = (None, None);
                        }
                    }));
                    let (theirs, ours) = (ends.0.unwrap(), ends.1.unwrap());
                    assert!(theirs == ours, "{hash} {group} {is_bidirectional}");
                    assert_eq!((ours.hash(), ours.reveal().len()), (hash, hash.length()));
                    all.push(ours.reveal().to_vec());
                }
            }
        }
    }
    assert!(all.iter().all(|key| key.iter().any(|byte| *byte != 0)));
    all.dedup();
    // The randomness is the same each time.
    assert_eq!(all.len(), 2 * GROUPS.len());
}

/// A controller that could authenticate need not where the host has no secret for it: the host's challenge has number 0.
#[test]
fn a_host_without_the_controllers_secret_gets_a_key_too() {
    let ends = honest(with(|_, host| host.controller_secret = None));
    assert!(ends.0.unwrap() == ends.1.unwrap());
}

#[test]
fn no_key_comes_of_the_null_group_or_of_sha512() {
    let ends = honest(with(|controller, _| controller.groups = vec![Group::Null]));
    assert!(ends.0.unwrap_err().contains("none of the groups") && ends.1.is_err());
    let ends = honest(with(|controller, host| {
        controller.groups = vec![Group::Null, Group::Secp256r1];
        host.groups = vec![Group::Null];
    }));
    assert!(ends.0.is_err() && ends.1.is_err());
    let ends = honest(with(|controller, _| controller.hashes = vec![Hash::Sha512]));
    assert!(ends.0.unwrap_err().contains("none of the hash functions") && ends.1.is_err());
    // A host that offers it all the same.
    let (controller, _) = with(|controller, _| controller.groups = vec![Group::Null]);
    let offer = Negotiate {
        concatenation: Concatenation::New.id(),
        hashes: vec![Hash::Sha256.id()],
        groups: vec![Group::Null.id()],
    };
    let message = Message { transaction: 1, body: Body::Negotiate(offer) }.encode();
    let progress = ControllerSide::new(controller).take(&message);
    assert!(matches!(progress, Progress::Failed(fault) if fault.reason == Failure::GROUP));
    // A controller that chooses it all the same: it was not offered.
    let (_, host) = with(|_, host| host.groups = vec![Group::Null, Group::Ffdhe2048]);
    let challenge = nvme::authentication::Challenge {
        hash: 1,
        group: Group::Null.id(),
        sequence: 1,
        challenge: vec![1; 32],
        exchange: Vec::new(),
    };
    let message = Message { transaction: 1, body: Body::Challenge(challenge) }.encode();
    let mut side = HostSide::new(host, 1);
    let step = side.take(&message, &mut |bytes| bytes.fill(1));
    assert!(matches!(step, crate::HostStep::Failed(fault, _) if fault.reason == Failure::GROUP));
    assert!(side.take_psk().is_none());
}

#[test]
fn what_one_side_alone_wants_is_a_mismatch() {
    use Concatenation::{New, None, Replace};
    for (ours, theirs, why) in [
        (None, New, "which the target does not make here"),
        (New, None, "connect with --concat"),
        (New, Replace, "replace a TLS key that its connection does not have"),
        (Replace, None, "without another TLS key"),
        (Replace, New, "on a connection that has one"),
    ] {
        let terms = with(|controller, host| {
            (controller.concatenation, host.concatenation) = (ours, theirs);
        });
        let mut controller = ControllerSide::new(terms.0.clone());
        let offer = HostSide::new(terms.1.clone(), 1).offer();
        let crate::Progress::Failed(fault) = controller.take(&offer) else { panic!("it was taken") };
        assert_eq!(fault.reason, Failure::CONCATENATION);
        let (at_controller, at_host) = honest(terms);
        assert!(at_controller.unwrap_err().contains(why), "{ours:?} {theirs:?}");
        assert!(at_host.unwrap_err().contains("connect with"), "{ours:?} {theirs:?}");
    }
}

/// The numbers are those of libnvme's `enum nvmf_auth_sc_c`, in the byte where Linux has them.
#[test]
fn offers_are_written_as_other_programs_write_them() {
    for (concatenation, id) in
        [(Concatenation::None, 0), (Concatenation::New, 2), (Concatenation::Replace, 3)]
    {
        let (controller, host) = with(|controller, host| {
            (controller.concatenation, host.concatenation) = (concatenation, concatenation);
        });
        let mut offer = HostSide::new(host, 1).offer();
        assert_eq!(offer[6], id, "{concatenation:?}");
        offer[6] = 1;
        let crate::Progress::Failed(fault) = ControllerSide::new(controller).take(&offer) else {
            panic!("it was taken");
        };
        assert!(fault.reason == Failure::CONCATENATION && fault.why.contains("no longer has"), "{fault}");
    }
}

#[test]
fn no_key_is_given_to_a_host_with_a_wrong_secret() {
    let ends = honest(with(|_, host| host.secret = secret(None, 32, &mut Chance(1))));
    assert!(ends.0.unwrap_err().starts_with("the host's response is wrong") && ends.1.is_err());
    // Nor does a host take one of a controller that has not proved who it is.
    let ends = honest(with(|controller, _| {
        controller.controller_secret = Some(secret(None, 32, &mut Chance(1)));
    }));
    assert!(ends.1.unwrap_err().starts_with("the controller's response is wrong"));
    assert!(ends.0.is_err());
}

#[test]
fn a_controller_has_no_key_before_the_host_is_proved() {
    let (controller, host) = with(|_, _| {});
    let (mut controller, mut host) = (ControllerSide::new(controller), HostSide::new(host, 1));
    let mut chance = Chance(12);
    controller.take(&host.offer());
    let (challenge, _) = controller.give(&mut |bytes| chance.fill(bytes));
    let crate::HostStep::Exchange(reply) = host.take(&challenge, &mut |bytes| bytes.fill(7)) else {
        panic!("it has no reply");
    };
    controller.take(&reply);
    assert!(controller.take_psk().is_none(), "Success1 is not given yet");
    let (_, _) = controller.give(&mut |bytes| bytes.fill(7));
    assert!(controller.take_psk().is_none() && host.take_psk().is_none(), "Success2 has not come");
}

#[test]
fn a_reply_without_the_value_that_the_key_is_made_of_is_refused() {
    let terms =
        with(|controller, host| (controller.controller_secret, host.controller_secret) = (None, None));
    let (at_controller, _) = keys(terms, |number, bytes| {
        if number == 2 {
            bytes[8] = 0;
        }
    });
    assert!(at_controller.unwrap_err().contains("C2"));
}

/// Linux' target, before the commit that the message names.
#[test]
fn a_controller_that_leaves_sc_c_out_of_its_response_is_named() {
    let (_, host) = with(|_, _| {});
    let kernels = host.controller_secret.clone().unwrap();
    let mut chance = Chance(13);
    let (controller, _) = with(|_, _| {});
    let (mut controller, mut host) = (ControllerSide::new(controller), HostSide::new(host, 0x4321));
    controller.take(&host.offer());
    let (challenge, _) = controller.give(&mut |bytes| chance.fill(bytes));
    let Body::Challenge(said) = Message::decode(&challenge).unwrap().body else { panic!("no challenge") };
    // The session key is not known outside the sides: it is made once more with the same randomness.
    let (_, shared) = crate::key_exchange::answer(Group::Secp256r1, &said.exchange, &mut |bytes| {
        bytes.fill(7);
    })
    .unwrap();
    let crate::HostStep::Exchange(reply) = host.take(&challenge, &mut |bytes| bytes.fill(7)) else {
        panic!("no reply");
    };
    let Body::Reply(reply) = Message::decode(&reply).unwrap().body else { panic!("no reply") };
    let session_key = Hash::Sha256.digest(&shared);
    let question = Question {
        hash: Hash::Sha256,
        challenge: &reply.challenge.unwrap(),
        session_key: Some(&session_key),
        sequence: reply.sequence,
        transaction: 0x4321,
        concatenation: Concatenation::None,
        role: Role::Controller,
        host_nqn: HOST,
        subsystem_nqn: SUBSYSTEM,
    };
    let response = Some(question.response(&kernels));
    let success1 = Message { transaction: 0x4321, body: Body::Success1 { length: 32, response } }.encode();
    let crate::HostStep::Failed(fault, _) = host.take(&success1, &mut |bytes| bytes.fill(7)) else {
        panic!("it was believed");
    };
    assert!(fault.why.contains("5d10069e1a16"), "{fault}");
    assert!(host.take_psk().is_none());
}

/// The first 32 bytes of a key, a host's and a controller's response, as Python's `hmac` computes them.
const OTHERS: [(Hash, [&str; 3]); 2] = [
    (
        Hash::Sha256,
        [
            "9145f54f51271cb238dc98f5c6cc046025db6b25eeda7e8be75a738d94685a58",
            "9a2c9aa7e6d8c592794da944b5159d8751191fd2fc70ad519c89b93ddf669359",
            "652c0eedcb5b6ea55ae7b2b07741fd1bd0fb9eede68c962c7b862f14fc7545d6",
        ],
    ),
    (
        Hash::Sha384,
        [
            "e54ef984540be03a82c38ef26b255141c027b0fd2304f99a9906f896c063c9d6",
            "a779f8dc55534e7b5ee3cb3d0420f881aba6e96eb6932fe11daaec4e3fb2defd",
            "35298c00b21713ce303d2d7729bfa51d874e9489f647832d9588a493696e79e4",
        ],
    ),
];

#[test]
fn keys_and_responses_are_those_of_another_implementation() {
    let hex = |bytes: &[u8]| bytes[..32].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let host_secret: Secret = HOST_SECRET.parse().unwrap();
    for (hash, [psk, of_host, of_controller]) in OTHERS {
        let (first, second) = ([0x5a; 48], [0xa5; 48]);
        let (first, second) = (&first[..hash.length()], &second[..hash.length()]);
        let session_key = hash.digest(&[0x77; 256]);
        assert_eq!(hex(GeneratedPsk::new(hash, &session_key, (first, second)).reveal()), psk);
        let question = Question {
            hash,
            challenge: first,
            session_key: Some(&session_key),
            sequence: 0x0102_0304,
            transaction: 0x0506,
            concatenation: Concatenation::New,
            role: Role::Host,
            host_nqn: HOST,
            subsystem_nqn: SUBSYSTEM,
        };
        assert_eq!(hex(&question.response(&host_secret)), of_host);
        let question = Question {
            challenge: second,
            concatenation: Concatenation::Replace,
            role: Role::Controller,
            ..question
        };
        assert_eq!(hex(&question.response(&Secret::new(&[0x33; 32], None).unwrap())), of_controller);
    }
}
