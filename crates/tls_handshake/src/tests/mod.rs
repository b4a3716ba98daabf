//! Handshakes of both sides with each other, in memory.

use secure_channel::{
    ConfiguredPsk, Derivation, HEADER_BYTES, Hash, IdentityVersion, Names, OVERHEAD_BYTES, Opened, Opener,
    Peer, RecordLimit, Sealer, Suite, TlsPsk, TrafficSecret,
};

use crate::{Established, Handshake, HandshakeError, Progress};

/// A key of a host and a subsystem.
fn key(
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

/// Both ends of a stream.
type Ends = (Result<Option<Established>, HandshakeError>, Result<Option<Established>, HandshakeError>);

/// What both ends come to, when they get what the other one sends.
fn exchange(host: &mut Handshake, controller: &mut Handshake) -> Ends {
    let (mut to_host, mut to_controller) = (Vec::new(), Vec::new());
    let (mut ends, mut is_first): (Ends, bool) = ((Ok(None), Ok(None)), true);
    while is_first || !to_host.is_empty() || !to_controller.is_empty() {
        is_first = false;
        step(host, &mut std::mem::take(&mut to_host), &mut to_controller, &mut ends.0);
        step(controller, &mut std::mem::take(&mut to_controller), &mut to_host, &mut ends.1);
    }
    ends
}

fn step(
    end: &mut Handshake,
    input: &mut Vec<u8>,
    output: &mut Vec<u8>,
    came_to: &mut Result<Option<Established>, HandshakeError>,
) {
    if !matches!(came_to, Ok(None)) {
        return;
    }
    let mut rest = &input[..];
    match end.step(&mut rest, output) {
        Ok(Progress::Continues) => {}
        Ok(Progress::Done(established)) => *came_to = Ok(Some(established)),
        Err(error) => *came_to = Err(error),
    }
    let left = rest.len();
    input.drain(..input.len() - left);
}

/// Records that are sealed with one secret are opened with the other.
fn is_same(sending: &TrafficSecret, receiving: &TrafficSecret) -> bool {
    let mut record = vec![0; 4 + OVERHEAD_BYTES];
    record[HEADER_BYTES..][..4].copy_from_slice(b"data");
    Sealer::new(sending, RecordLimit::default()).seal(&mut record, 4).unwrap();
    let opened = Opener::new(receiving, Peer::Host).open(&mut record);
    matches!(opened, Ok(Opened::Data { data, .. }) if record[data.clone()] == *b"data")
}

fn assert_channel(host: &Established, controller: &Established) {
    assert!(is_same(&host.sending, &controller.receiving) && is_same(&controller.sending, &host.receiving));
    assert!(!is_same(&host.sending, &host.receiving));
    assert_eq!((host.suite, &host.group), (controller.suite, &controller.group));
}

#[test]
fn both_ends_come_to_the_same_secrets() {
    for suite in Suite::ALL {
        let key = key(7, Some(suite.hash()), suite, IdentityVersion::One, Derivation::Standard);
        let mut host = Handshake::of_host(std::slice::from_ref(&key)).unwrap();
        let mut controller = Handshake::of_controller(&key).unwrap();
        let (host, controller) = exchange(&mut host, &mut controller);
        let (host, controller) = (host.unwrap().unwrap(), controller.unwrap().unwrap());
        assert_channel(&host, &controller);
        assert_eq!(host.suite, suite);
    }
}
