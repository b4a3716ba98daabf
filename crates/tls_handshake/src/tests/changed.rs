//! Handshakes with one byte changed on the way, or cut off: no two ends ever have different channels, and nothing panics.

use proptest::prelude::*;

use secure_channel::Suite;

use super::{Outcome, controller, exchange_by, flights, host, is_channel, key, step};

/// Result of a handshake with a byte of a flight changed. Flights are as long each time.
fn changed(suite: Suite, flight: usize, at: usize, mask: u8) -> [Outcome; 2] {
    let key = key(7, suite);
    exchange_by(&mut host(std::slice::from_ref(&key)), &mut controller(&key), |number, mut bytes| {
        if number == flight && at < bytes.len() {
            bytes[at] ^= mask;
        }
        bytes
    })
}

#[test]
fn no_changed_byte_leads_to_different_channels() {
    for suite in Suite::ALL {
        for (flight, bytes) in flights(&key(7, suite)).iter().enumerate() {
            let mut complete = Vec::new();
            for at in 0..bytes.len() {
                // Lengths grow and shrink with one bit, and what is random changes with any.
                for mask in [0x01, 0x80] {
                    let outcomes = changed(suite, flight, at, mask);
                    let [Some(Ok(host)), Some(Ok(controller))] = &outcomes else { continue };
                    assert!(is_channel(host, controller), "flight {flight}, byte {at}");
                    complete.push(at);
                }
            }
            // What may differ is the version in the header of the first record of each side (RFC 8446, 5.1).
            let expected: &[usize] = if flight < 2 { &[2, 2] } else { &[] };
            assert_eq!(complete, expected, "{suite}, flight {flight}");
        }
    }
}

/// A host has its channel before the controller has seen its Finished, and the first record tells it otherwise.
#[test]
fn a_controller_has_no_channel_without_the_hosts_finished() {
    for suite in Suite::ALL {
        let [_, _, finished] = flights(&key(7, suite));
        for at in 0..finished.len() {
            let [host, controller] = changed(suite, 2, at, 0x10);
            assert!(matches!(host, Some(Ok(_))), "{host:?}");
            assert!(!matches!(controller, Some(Ok(_))), "byte {at}");
        }
    }
}

#[test]
fn nothing_is_complete_before_the_last_byte() {
    for suite in Suite::ALL {
        let key = key(7, suite);
        for (flight, bytes) in flights(&key).iter().enumerate() {
            for end in 0..bytes.len() {
                let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
                let outcomes = exchange_by(&mut host, &mut controller, |number, mut bytes| {
                    if number == flight {
                        bytes.truncate(end.min(bytes.len().saturating_sub(1)));
                    }
                    bytes
                });
                let receiver = &outcomes[1 - flight % 2];
                assert!(receiver.is_none(), "flight {flight}, {end} bytes: {receiver:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_refused_or_waited_for(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        kind in prop::sample::select(vec![20_u8, 21, 22, 23]),
        is_framed in any::<bool>(),
    ) {
        let mut stream = bytes;
        if is_framed {
            let length = stream.len() as u16;
            stream.splice(0..0, [kind, 3, 3, (length >> 8) as u8, length as u8]);
        }
        let key = key(7, Suite::Aes128Gcm);
        let mut host = host(std::slice::from_ref(&key));
        step(&mut host, &[]);
        for mut end in [host, controller(&key)] {
            let (outcome, sent, _) = step(&mut end, &stream);
            prop_assert!(!matches!(outcome, Some(Ok(_))));
            prop_assert!(sent.len() < 2048);
        }
    }

    #[test]
    fn no_spoiled_answer_leads_to_different_channels(
        bytes in prop::collection::vec(any::<u8>(), 1..100),
        at in any::<prop::sample::Index>(),
        suite in prop::sample::select(Suite::ALL.to_vec()),
    ) {
        let key = key(7, suite);
        let (mut host, mut controller) = (host(std::slice::from_ref(&key)), controller(&key));
        let outcomes = exchange_by(&mut host, &mut controller, |number, mut flight| {
            if number == 1 {
                let at = at.index(flight.len());
                let end = flight.len().min(at + bytes.len());
                flight.splice(at..end, bytes.iter().copied());
            }
            flight
        });
        if let [Some(Ok(host)), Some(Ok(controller))] = &outcomes {
            prop_assert!(is_channel(host, controller));
        }
    }
}
