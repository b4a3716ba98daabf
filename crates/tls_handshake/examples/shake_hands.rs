//! Completes a handshake of TLS 1.3 with a pre-shared key, without a connection between both ends:
//! `cargo run -p selvedge-tls-handshake --example shake_hands`.

use std::error::Error;

use secure_channel::{ConfiguredPsk, Derivation, IdentityVersion, Names, Suite};
use tls_handshake::{Established, Handshake, HandshakeError, Progress};

fn main() -> Result<(), Box<dyn Error>> {
    let names = Names::new("nqn.2014-08.org.example:host", "nqn.2014-08.org.example:disk")?;
    let suite = Suite::Aes128Gcm;
    let configured = ConfiguredPsk::new(&[7; 32], Some(suite.hash()))?;
    let retained = configured.retained(&names, Derivation::Standard);
    let key = retained.tls_psk(&names, suite, IdentityVersion::One)?;

    let mut host = Handshake::of_host(std::slice::from_ref(&key))?;
    let mut controller = Handshake::of_controller(&key)?;
    let (mut to_host, mut to_controller) = (Vec::new(), Vec::new());
    let (mut at_host, mut at_controller) = (None, None);
    while at_host.is_none() || at_controller.is_none() {
        if at_host.is_none() {
            at_host = step(&mut host, &mut to_host, &mut to_controller)?;
        }
        if at_controller.is_none() {
            at_controller = step(&mut controller, &mut to_controller, &mut to_host)?;
        }
    }
    for (name, end) in [("host", at_host), ("controller", at_controller)] {
        let Some(end) = end else { continue };
        println!("{name}: {}, {}", end.suite, end.group);
    }
    Ok(())
}

/// Hands an end what has come for it, and gathers what it sends.
fn step(
    end: &mut Handshake,
    input: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> Result<Option<Established>, HandshakeError> {
    let taken = std::mem::take(input);
    match end.step(&mut &taken[..], output)? {
        Progress::Continues => Ok(None),
        Progress::Done(established) => Ok(Some(established)),
    }
}
