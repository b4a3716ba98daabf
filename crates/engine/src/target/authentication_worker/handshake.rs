//! A step of a host's TLS handshake: which of its keys it has, and what it gets. Whatever it sends, its connection alone is
//! concerned.

use std::sync::Arc;

use secure_channel::{ClientHello, Derivation, Names, Origin, PskIdentity, TlsPsk};
use tls_handshake::{Handshake, HandshakeError, Progress};

use crate::ring::Moment;
use crate::secure_stream::Protection;
use crate::target::fabric::Fabric;
use crate::target::messaging::{
    HandshakeDone, HandshakeOutcome, HandshakePermit, HandshakeStep, PendingHandshake,
};

/// Does a step. A handshake that begins keeps the permit.
pub(super) fn step(
    step: HandshakeStep,
    permit: Arc<HandshakePermit>,
    fabric: &Fabric,
    now: Moment,
) -> HandshakeDone {
    match step {
        HandshakeStep::Hello { hello, bytes, port } => match begin(&hello, port, fabric, now) {
            Ok((handshake, protection)) => {
                go_on(Box::new(PendingHandshake { handshake, protection, _permit: permit }), &bytes)
            }
            Err(error) => {
                let output = error.alert().map_or_else(Vec::new, |alert| alert.in_clear().to_vec());
                let names = said(&hello).next().map(|identity| identity.names);
                HandshakeDone { output, outcome: HandshakeOutcome::Failed { error, names } }
            }
        },
        HandshakeStep::Flight { pending, bytes } => go_on(pending, &bytes),
    }
}

/// Finds the key that the host has.
fn begin(
    hello: &ClientHello,
    port: u16,
    fabric: &Fabric,
    now: Moment,
) -> Result<(Handshake, Protection), HandshakeError> {
    let mut keys = candidates(hello, |names| fabric.psks(port, names, now));
    let generated = said(hello).filter(|identity| identity.origin == Origin::Generated);
    let generated = generated.filter_map(|identity| fabric.generated_key(port, &identity, now));
    keys.extend(generated.map(|key| key.psk.clone()));
    let key = &keys[hello.choose(&keys)?];
    let protection =
        Protection { suite: key.suite(), identity: key.identity().clone(), derivation: key.derivation() };
    Ok((Handshake::of_controller(key)?, protection))
}

/// The identities that the host says.
fn said(hello: &ClientHello) -> impl Iterator<Item = PskIdentity> {
    hello.identities().filter_map(|identity| std::str::from_utf8(identity).ok()?.parse().ok())
}

/// All keys that the identities may mean, in both derivations.
fn candidates(
    hello: &ClientHello,
    configured: impl Fn(&Names) -> Vec<secure_channel::ConfiguredPsk>,
) -> Vec<TlsPsk> {
    let mut found: Vec<TlsPsk> = Vec::new();
    for identity in said(hello).filter(|identity| identity.origin == Origin::Retained) {
        for psk in configured(&identity.names) {
            for derivation in Derivation::ALL {
                let input = psk.retained(&identity.names, derivation);
                let made = input.tls_psk(&identity.names, identity.suite, identity.version());
                if let Ok(made) = made
                    && *made.identity() == identity
                    && !found.contains(&made)
                {
                    found.push(made);
                }
            }
        }
    }
    found
}

fn go_on(mut pending: Box<PendingHandshake>, bytes: &[u8]) -> HandshakeDone {
    let (mut rest, mut output) = (bytes, Vec::new());
    let outcome = match pending.handshake.step(&mut rest, &mut output) {
        Ok(Progress::Continues) => HandshakeOutcome::Continues(pending),
        Ok(Progress::Done(established)) => HandshakeOutcome::Established {
            established: Box::new(established),
            protection: pending.protection,
            rest: rest.to_vec(),
        },
        Err(error) => HandshakeOutcome::Failed { error, names: Some(pending.protection.identity.names) },
    };
    HandshakeDone { output, outcome }
}
