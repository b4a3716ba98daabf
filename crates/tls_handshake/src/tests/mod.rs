//! Handshakes of both sides with each other, in memory, and what all tests share.

mod changed;
mod complete;
mod refused;

use secure_channel::{
    ConfiguredPsk, Derivation, HEADER_BYTES, Hash, IdentityVersion, Names, OVERHEAD_BYTES, Opened, Opener,
    Peer, RecordLimit, Sealer, Suite, TlsPsk, TrafficSecret,
};

use crate::{Established, Handshake, HandshakeError, Progress};

/// A key of a host and a subsystem.
fn key_of(
    seed: u8,
    hash: Option<Hash>,
    suite: Suite,
    version: IdentityVersion,
    derivation: Derivation,
) -> TlsPsk {
    let names = Names::new("nqn.2014-08.org.example:host", "nqn.2014-08.org.example:subsystem").unwrap();
    let length = hash.unwrap_or(suite.hash()).length();
    let psk = ConfiguredPsk::new(&vec![seed; length], hash).unwrap();
    psk.retained(&names, derivation).tls_psk(&names, suite, version).unwrap()
}

/// The usual key of a suite. Keys of other seeds have other identities.
fn key(seed: u8, suite: Suite) -> TlsPsk {
    key_of(seed, Some(suite.hash()), suite, IdentityVersion::One, Derivation::Standard)
}

/// A key whose identity says nothing of it.
fn key_of_version_0(seed: u8) -> TlsPsk {
    key_of(seed, None, Suite::Aes128Gcm, IdentityVersion::Zero, Derivation::Standard)
}

fn host(keys: &[TlsPsk]) -> Handshake {
    Handshake::of_host(keys).unwrap()
}

fn controller(key: &TlsPsk) -> Handshake {
    Handshake::of_controller(key).unwrap()
}

/// Result of an end: `None` until it has ended.
type Outcome = Option<Result<Established, HandshakeError>>;

/// Gives an end what it can take, and says what it has come to, what it sends, and what it leaves.
fn step(end: &mut Handshake, input: &[u8]) -> (Outcome, Vec<u8>, usize) {
    let (mut rest, mut output) = (input, Vec::new());
    let outcome = match end.step(&mut rest, &mut output) {
        Ok(Progress::Continues) => None,
        Ok(Progress::Done(established)) => Some(Ok(established)),
        Err(error) => Some(Err(error)),
    };
    (outcome, output, rest.len())
}

/// Results of a host and a controller, when `between` passes on the flights of each: the host's
/// have even numbers.
fn exchange_by(
    host: &mut Handshake,
    controller: &mut Handshake,
    mut between: impl FnMut(usize, Vec<u8>) -> Vec<u8>,
) -> [Outcome; 2] {
    let (mut outcomes, mut flight) = ([None, None], Vec::new());
    for number in 0..6 {
        let end = if number % 2 == 0 { &mut *host } else { &mut *controller };
        let outcome = &mut outcomes[number % 2];
        if number > 0 && flight.is_empty() || outcome.is_some() {
            break;
        }
        (*outcome, flight, _) = step(end, &flight);
        flight = between(number, flight);
    }
    outcomes
}

fn exchange(host: &mut Handshake, controller: &mut Handshake) -> [Outcome; 2] {
    exchange_by(host, controller, |_, flight| flight)
}

/// Flights of a handshake with this key, in the order of time: a ClientHello, the controller's
/// flight, and the host's Finished.
fn flights(key: &TlsPsk) -> [Vec<u8>; 3] {
    let mut flights: [Vec<u8>; 3] = Default::default();
    exchange_by(&mut host(std::slice::from_ref(key)), &mut controller(key), |number, flight| {
        flights.get_mut(number).into_iter().for_each(|place| place.clone_from(&flight));
        flight
    });
    flights
}

/// Records that are sealed with one secret are opened with the other.
fn is_same(sending: &TrafficSecret, receiving: &TrafficSecret) -> bool {
    let mut record = vec![0; 4 + OVERHEAD_BYTES];
    record[HEADER_BYTES..][..4].copy_from_slice(b"data");
    Sealer::new(sending, RecordLimit::default()).seal(&mut record, 4).unwrap();
    let opened = Opener::new(receiving, Peer::Host).open(&mut record);
    matches!(opened, Ok(Opened::Data { data, .. }) if record[data.clone()] == *b"data")
}

fn is_channel(host: &Established, controller: &Established) -> bool {
    is_same(&host.sending, &controller.receiving)
        && is_same(&controller.sending, &host.receiving)
        && !is_same(&host.sending, &host.receiving)
        && (host.suite, &host.group) == (controller.suite, &controller.group)
}

/// Both ends of a handshake that is to succeed.
fn established(outcomes: [Outcome; 2]) -> [Established; 2] {
    outcomes.map(|outcome| outcome.expect("an end waits").unwrap_or_else(|error| panic!("{error}")))
}
