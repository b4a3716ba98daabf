//! Handshakes that succeed: with each kind of key, however the bytes come, and with what follows right behind them.

use secure_channel::{
    ClientHello, Derivation, FirstBytes, Hash, IdentityVersion, OVERHEAD_BYTES, Peer, RecordLimit, Sealer,
    Suite,
};

use super::{controller, established, exchange, exchange_by, flights, host, is_channel, key, key_of, step};
use crate::Handshake;

#[test]
fn each_kind_of_key_leads_to_a_channel() {
    for suite in Suite::ALL {
        for version in IdentityVersion::ALL {
            for derivation in Derivation::ALL {
                for hash in [None, Some(Hash::Sha256), Some(Hash::Sha384)] {
                    let key = key_of(7, hash, suite, version, derivation);
                    let outcomes = exchange(&mut host(std::slice::from_ref(&key)), &mut controller(&key));
                    let [host, controller] = established(outcomes);
                    assert!(is_channel(&host, &controller), "{key:?} {hash:?}");
                    assert_eq!((host.suite, host.key, controller.key), (suite, 0, 0));
                }
            }
        }
    }
}

#[test]
fn the_controllers_key_is_found_among_those_of_the_host() {
    let mut keys: Vec<_> = (0..7).map(|seed| key(seed, Suite::Aes128Gcm)).collect();
    keys.insert(3, key(9, Suite::Aes256Gcm));
    for (place, key) in keys.iter().enumerate() {
        let [host, controller] = established(exchange(&mut host(&keys), &mut controller(key)));
        assert!(is_channel(&host, &controller));
        assert_eq!((host.key, controller.key, host.suite), (place, 0, key.suite()));
    }
}

/// Compares the listener's reading of a hello with the library's.
#[test]
fn a_hello_offers_what_nvme_has_and_nothing_else() {
    let hello = |keys: &[_]| -> Box<ClientHello> {
        let (_, hello, _) = step(&mut host(keys), &[]);
        assert!(hello.len() < secure_channel::HELLO_BYTES_MAX);
        match FirstBytes::of(&hello) {
            Ok(FirstBytes::Hello(hello)) => hello,
            other => panic!("{other:?}"),
        }
    };
    let [short, long] = Suite::ALL.map(|suite| key(7, suite));
    for (keys, suites) in [
        (vec![short.clone()], &Suite::ALL[..]),
        (vec![long.clone()], &[Suite::Aes256Gcm][..]),
        (vec![long, short], &Suite::ALL[..]),
    ] {
        let hello = hello(&keys);
        assert_eq!((hello.suites(), hello.has_version(), hello.has_dhe()), (suites, true, Some(true)));
        assert_eq!(hello.choose(&keys), Ok(0));
        let identities: Vec<_> = keys.iter().map(|key| key.identity().to_string().into_bytes()).collect();
        assert!(hello.identities().eq(identities.iter().map(Vec::as_slice)));
    }
}

/// The record's header and what the RFC has before the suites are 5, 4, 2, 32 and 33 bytes.
#[test]
fn no_other_suite_is_offered() {
    for (suite, suites) in Suite::ALL.into_iter().zip([&[0, 4, 0x13, 1, 0x13, 2][..], &[0, 2, 0x13, 2]]) {
        let [hello, ..] = flights(&key(7, suite));
        assert_eq!(&hello[43..44], &[32]);
        assert_eq!(&hello[76..][..suites.len()], suites);
        // psk_dhe_ke alone.
        assert_eq!(hello.windows(6).filter(|bytes| *bytes == [0, 45, 0, 2, 1, 1]).count(), 1);
    }
}

#[test]
fn bytes_may_come_in_any_pieces() {
    for suite in Suite::ALL {
        let key = key(7, suite);
        let flights = flights(&key);
        // One cut at each place, and then a cut behind each byte.
        let cuts = (0..flights[0].len().max(flights[1].len())).map(|at| vec![at]);
        let all = std::iter::once((0..4096).collect::<Vec<usize>>());
        for cuts in cuts.step_by(3).chain(all) {
            let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
            let (mut outcomes, mut flight) = ([None, None], Vec::new());
            for number in 0..4 {
                let end = if number % 2 == 0 { &mut host } else { &mut controller };
                (outcomes[number % 2], flight) = in_pieces(end, &flight, &cuts);
            }
            let [host, controller] = established(outcomes);
            assert!(is_channel(&host, &controller), "{cuts:?}");
        }
    }
}

fn in_pieces(end: &mut Handshake, flight: &[u8], cuts: &[usize]) -> (super::Outcome, Vec<u8>) {
    let mut cuts: Vec<usize> = cuts.iter().copied().filter(|at| *at < flight.len()).collect();
    cuts.push(flight.len());
    let (mut sent, mut from, mut outcome) = (Vec::new(), 0, None);
    for to in cuts {
        assert!(outcome.is_none(), "it was complete before its last byte");
        let (came_to, output, left) = step(end, &flight[from..to]);
        assert_eq!(left, 0);
        sent.extend(output);
        (outcome, from) = (came_to, to);
    }
    (outcome, sent)
}

#[test]
fn what_is_behind_a_handshake_is_left_for_the_channel() {
    let key = key(7, Suite::Aes128Gcm);
    let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
    let (_, hello, _) = step(&mut host, &[]);
    let (_, answer, _) = step(&mut controller, &hello);
    let (outcome, mut finished, _) = step(&mut host, &answer);
    let host = outcome.unwrap().unwrap();
    let mut record = vec![0; 100 + OVERHEAD_BYTES];
    Sealer::new(&host.sending, RecordLimit::default()).seal(&mut record, 100).unwrap();
    for _ in 0..3 {
        finished.extend_from_slice(&record);
    }
    let (outcome, sent, left) = step(&mut controller, &finished);
    let controller = outcome.unwrap().unwrap();
    assert_eq!((left, sent.len()), (3 * record.len(), 0));
    let rest = finished.len() - left;
    let opened = secure_channel::Opener::new(&controller.receiving, Peer::Host).open(&mut finished[rest..]);
    assert!(matches!(opened, Ok(secure_channel::Opened::Data { .. })));
}

/// The controller sends all before the host's Finished, and the host nothing behind it: neither tickets nor KeyUpdates.
#[test]
fn a_handshake_has_three_flights_and_few_bytes() {
    for suite in Suite::ALL {
        let key = key(7, suite);
        let mut lengths = Vec::new();
        let outcomes =
            exchange_by(&mut host(std::slice::from_ref(&key)), &mut controller(&key), |_, flight| {
                lengths.push(flight.len());
                flight
            });
        established(outcomes);
        assert!(
            matches!(lengths[..], [hello, answer, finished, 0]
            if hello < 2048 && answer < 2048 && finished < 100),
            "{lengths:?}"
        );
    }
}

#[test]
fn nothing_follows_a_complete_handshake() {
    let key = key(7, Suite::Aes128Gcm);
    let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
    established(exchange(&mut host, &mut controller));
    for mut end in [host, controller] {
        let (outcome, sent, left) = step(&mut end, &[23, 3, 3, 0, 0]);
        assert_eq!(outcome.unwrap().unwrap_err(), crate::HandshakeError::Complete);
        assert_eq!((sent.len(), left), (0, 5));
    }
}

#[test]
fn secrets_are_not_shown() {
    let key = key(0x5e, Suite::Aes128Gcm);
    let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
    let shown = format!("{host:?} {controller:?}");
    let [host, controller] = established(exchange(&mut host, &mut controller));
    let shown = format!("{shown} {host:?} {controller:?}");
    assert!(shown.contains("nqn.2014-08.org.example:host") && !shown.contains("5e5e"), "{shown}");
    assert!(!shown.contains("94, 94"), "{shown}");
}

#[test]
fn a_handshake_may_move_between_threads() {
    fn check<T: Send>() {}
    check::<Handshake>();
    crate::prepare().unwrap();
    let key = key(7, Suite::Aes128Gcm);
    let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
    let (_, hello, _) = step(&mut host, &[]);
    let (controller, answer) = std::thread::spawn(move || {
        let (_, answer, _) = step(&mut controller, &hello);
        (controller, answer)
    })
    .join()
    .unwrap();
    let mut controller = controller;
    let (host, finished, _) = std::thread::spawn(move || step(&mut host, &answer)).join().unwrap();
    let (controller, ..) = step(&mut controller, &finished);
    assert!(is_channel(&host.unwrap().unwrap(), &controller.unwrap().unwrap()));
}
