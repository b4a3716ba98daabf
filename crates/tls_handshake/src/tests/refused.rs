//! Handshakes that fail: who says what, and which alert the other end gets.

use secure_channel::{Alert, ChoiceError, Opened, Opener, Peer, Suite};

use super::{controller, exchange, exchange_by, flights, host, key, key_of_version_0, step};
use crate::framing::RECORDS_MAX;
use crate::key_log::Secrets;
use crate::library::Library;
use crate::{Handshake, HandshakeError, KEYS_MAX};

fn error(outcome: super::Outcome) -> HandshakeError {
    outcome.expect("an end waits").expect_err("an end has a channel")
}

fn refused(peer: Peer, alert: Alert) -> HandshakeError {
    HandshakeError::Refused { peer, alert }
}

#[test]
fn a_host_with_another_key_gets_an_alert() {
    let (ours, theirs) = (key_of_version_0(1), key_of_version_0(2));
    let [host, controller] =
        exchange(&mut host(std::slice::from_ref(&theirs)), &mut controller(&ours)).map(error);
    let identity = ours.identity().to_string();
    assert_eq!(controller, HandshakeError::Choice(ChoiceError::Binder(identity)));
    assert_eq!(controller.alert(), Some(Alert::DECRYPT_ERROR));
    assert_eq!(host, refused(Peer::Controller, Alert::DECRYPT_ERROR));
    assert_eq!(
        host.to_string(),
        "the controller ended the TLS handshake with decrypt_error: it has another key for this host, or derives it \
         differently; compare the keys, and try the other derivation"
    );
}

#[test]
fn a_host_with_an_unknown_identity_learns_the_reason() {
    let (ours, theirs) = (key(1, Suite::Aes128Gcm), key(2, Suite::Aes128Gcm));
    let [host, controller] =
        exchange(&mut host(std::slice::from_ref(&theirs)), &mut controller(&ours)).map(error);
    let identity = theirs.identity().to_string();
    assert_eq!(controller, HandshakeError::Choice(ChoiceError::Identity(identity)));
    assert_eq!(host, refused(Peer::Controller, Alert::UNKNOWN_PSK_IDENTITY));
    assert!(host.to_string().ends_with("configure the host's key there"), "{host}");
    assert_eq!(host.alert(), None);
}

#[test]
fn ends_without_a_common_suite_say_so() {
    let key = key(1, Suite::Aes256Gcm);
    let [host, controller] =
        exchange_by(&mut host(std::slice::from_ref(&key)), &mut controller(&key), |number, mut flight| {
            if number == 0 {
                assert_eq!(&flight[78..80], &[0x13, 2]);
                flight[79] = 3;
            }
            flight
        })
        .map(error);
    let identity = key.identity().to_string();
    assert_eq!(controller, HandshakeError::Choice(ChoiceError::Suite(identity, Suite::Aes256Gcm)));
    assert_eq!(host, refused(Peer::Controller, Alert::HANDSHAKE_FAILURE));
}

/// Error of a controller for these bytes, and its answer.
fn answer_to(stream: &[u8]) -> (HandshakeError, Vec<u8>) {
    let (outcome, sent, _) = step(&mut controller(&key(1, Suite::Aes128Gcm)), stream);
    (error(outcome), sent)
}

#[test]
fn a_host_that_expects_certificates_is_refused() {
    let mut hello = Vec::new();
    let mut library = Library::new(Peer::Controller, &[]).unwrap();
    assert!(!library.negotiate(&[], &mut hello, &mut Secrets::default()).unwrap());
    let (error, sent) = answer_to(&hello);
    assert_eq!(error, HandshakeError::Choice(ChoiceError::NoPsk));
    assert_eq!(sent, Alert::HANDSHAKE_FAILURE.in_clear());
}

#[test]
fn a_host_of_an_older_version_is_refused() {
    // A random of zeros, no session, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, no compression, no extensions.
    let hello = [&[22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3][..], &[0; 32], &[0, 0, 2, 0xc0, 0x2f, 1, 0]].concat();
    let (error, sent) = answer_to(&hello);
    assert_eq!(error, HandshakeError::Choice(ChoiceError::Version));
    assert_eq!(sent, Alert::PROTOCOL_VERSION.in_clear());
}

#[test]
fn what_is_not_tls_is_refused() {
    let violation = |what, alert| HandshakeError::Violation { peer: Peer::Host, what, alert };
    let not_tls = violation("sent something that is not TLS", Alert::UNEXPECTED_MESSAGE);
    // An ICReq, a request of HTTP, and a ClientHello of SSL 2.
    for stream in [&[0, 0, 128, 0, 128, 0, 0, 0][..], b"GET / HTTP/1.1", &[0x80, 0x2e, 1, 3, 3, 0, 3]] {
        let (error, sent) = answer_to(stream);
        assert_eq!(error, not_tls);
        assert_eq!(sent, Alert::UNEXPECTED_MESSAGE.in_clear());
    }
    let empty = violation("sent an empty record", Alert::UNEXPECTED_MESSAGE);
    assert_eq!(answer_to(&[22, 3, 3, 0, 0]).0, empty);
    let long = violation("sent a record that is too long", Alert::RECORD_OVERFLOW);
    assert_eq!(answer_to(&[22, 3, 3, 0x41, 0x12]).0, long);
    assert_eq!(long.to_string(), "TLS handshake failed: the host sent a record that is too long");
}

#[test]
fn neither_end_takes_more_than_a_handshake_needs() {
    // The beginning of a message of 64 KiB (8: EncryptedExtensions, which a host does not expect; 1: a ClientHello), and its
    // next two bytes and its next 16 KiB.
    let begin = |kind| [22, 3, 3, 0, 6, kind, 0, 0xff, 0xf0, 3, 3];
    let (short, long) = ([22, 3, 3, 0, 2, 0, 0], [&[22, 3, 3, 0x40, 0][..], &[0; 0x4000]].concat());
    let many = [&begin(1)[..], &short.repeat(RECORDS_MAX)].concat();
    let much = [&begin(1)[..], &long, &long].concat();
    for stream in [many, much] {
        let (error, sent) = answer_to(&stream);
        assert!(error.to_string().contains("more than a handshake needs"), "{error}");
        assert_eq!(sent, Alert::UNEXPECTED_MESSAGE.in_clear());
    }
    let key = key(1, Suite::Aes128Gcm);
    let many = [&begin(8)[..], &short.repeat(RECORDS_MAX)].concat();
    for stream in [many, [20, 3, 3, 0, 1, 1].repeat(RECORDS_MAX + 1)] {
        let mut host = host(std::slice::from_ref(&key));
        step(&mut host, &[]);
        assert!(error(step(&mut host, &stream).0).alert().is_some());
    }
}

#[test]
fn an_alert_of_the_peer_is_passed_on_as_it_is() {
    for (alert, end) in [
        (Alert::UNKNOWN_PSK_IDENTITY, "configure the host's key there"),
        (Alert::HANDSHAKE_FAILURE, "the hash function of the key"),
        (Alert::PROTOCOL_VERSION, "it does not support TLS 1.3"),
        (Alert::ILLEGAL_PARAMETER, "compare the keys, and see its log"),
        (Alert::INTERNAL_ERROR, "SPDK knows identities of version 0 alone: --tls-identity 0); see its log"),
        (Alert::CLOSE_NOTIFY, "it does not want this connection; see its log"),
        (Alert(99), "see its log"),
    ] {
        let key = key(1, Suite::Aes128Gcm);
        let mut host = host(std::slice::from_ref(&key));
        step(&mut host, &[]);
        // In two pieces.
        let record = alert.in_clear();
        assert!(step(&mut host, &record[..6]).0.is_none());
        let (outcome, sent, _) = step(&mut host, &record[6..]);
        let error = error(outcome);
        assert_eq!((&error, sent.len()), (&refused(Peer::Controller, alert), 0));
        assert!(error.to_string().ends_with(end), "{error}");
    }
}

/// A host that finds the controller's Finished wrong says so under its key for the handshake; the controller can read that.
#[test]
fn alerts_are_sealed_once_there_are_keys() {
    for suite in Suite::ALL {
        let key = key(1, suite);
        let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
        let outcomes = exchange_by(&mut host, &mut controller, |number, mut flight| {
            match number {
                1 => *flight.last_mut().unwrap() ^= 1,
                2 => assert_eq!(&flight[..5], &[23, 3, 3, 0, 19]),
                _ => {}
            }
            flight
        });
        let [host, controller] = outcomes.map(error);
        assert_eq!(host.alert(), Some(Alert::BAD_RECORD_MAC));
        assert_eq!(controller, refused(Peer::Host, Alert::BAD_RECORD_MAC));
    }
}

/// A host that does not understand the controller's first message has no keys.
#[test]
fn a_controller_reads_the_alert_of_a_host_without_keys() {
    let key = key(1, Suite::Aes128Gcm);
    let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
    let [host, controller] = exchange_by(&mut host, &mut controller, |number, mut flight| {
        if number == 1 {
            // The version, in the extension behind the suite.
            assert_eq!(&flight[81..87], &[0, 43, 0, 2, 3, 4]);
            flight[86] = 3;
        }
        flight
    })
    .map(error);
    let alert = host.alert().unwrap();
    assert_eq!(controller, refused(Peer::Host, alert));
}

/// The other way round the host has its channel already, and reads the alert as any record of it.
#[test]
fn a_host_reads_the_alert_of_a_controller_in_its_channel() {
    for suite in Suite::ALL {
        let key = key(1, suite);
        let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
        let mut last = Vec::new();
        let [host, controller] = exchange_by(&mut host, &mut controller, |number, mut flight| {
            if number == 2 {
                *flight.last_mut().unwrap() ^= 1;
            }
            last.clone_from(&flight);
            flight
        });
        assert_eq!(error(controller).alert(), Some(Alert::BAD_RECORD_MAC));
        let host = host.unwrap().unwrap();
        let opened = Opener::new(&host.receiving, Peer::Controller).open(&mut last);
        assert!(format!("{opened:?}").contains("Alert(20)"), "{opened:?}");
        assert!(!matches!(opened, Ok(Opened::Incomplete { .. })));
    }
}

#[test]
fn a_controller_that_chooses_no_key_is_refused_before_its_certificates() {
    let key = key(1, Suite::Aes128Gcm);
    let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
    let [host, _] = exchange_by(&mut host, &mut controller, |number, mut flight| {
        if number == 1 {
            // The extension that names the key is the last of the ServerHello: its kind, and the length and place of a key.
            let at = flight.windows(6).position(|bytes| bytes == [0, 41, 0, 2, 0, 0]).unwrap();
            flight[at] = 0x7f;
        }
        flight
    });
    let host = error(host);
    assert_eq!(host, HandshakeError::NoKey);
    assert_eq!(host.alert(), Some(Alert::HANDSHAKE_FAILURE));
}

#[test]
fn keys_that_cannot_be_offered_together_are_refused() {
    let [one, other] = [1, 2].map(key_of_version_0);
    assert_eq!(Handshake::of_host::<secure_channel::TlsPsk>(&[]).unwrap_err(), HandshakeError::KeyCount(0));
    let many: Vec<_> = (0..=KEYS_MAX as u8).map(|seed| key(seed, Suite::Aes128Gcm)).collect();
    assert_eq!(Handshake::of_host(&many).unwrap_err(), HandshakeError::KeyCount(KEYS_MAX + 1));
    assert!(Handshake::of_host(&many[1..]).is_ok());
    let identity = one.identity().to_string();
    let refused = Handshake::of_host(&[one, other]).unwrap_err();
    assert_eq!(refused, HandshakeError::SameIdentity(identity));
    assert_eq!(refused.alert(), None);
}

#[test]
fn after_an_error_each_call_says_the_same() {
    let key = key(1, Suite::Aes128Gcm);
    let mut controller = controller(&key);
    let first = error(step(&mut controller, b"GET /").0);
    let [hello, ..] = flights(&key);
    let (outcome, sent, left) = step(&mut controller, &hello);
    assert_eq!((error(outcome), sent.len(), left), (first, 0, hello.len()));
    assert!(controller.closed().to_string().starts_with("the host closed the connection"));
}
