//! Keys of hosts when a target hands them to the new one: a replaced key is accepted there, too, as
//! long as its overlap lasts.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use engine::initiator::{ConnectOptions, Controller, HostIdentity, TlsKeys};
use engine::ring::Engine;
use prerequisite::wait_until;
use secure_channel::ConfiguredPsk;

use crate::raw_host::NQN;
use crate::target_hand_over::{TLS_HOST, Testbed};

fn psk(byte: u8) -> ConfiguredPsk {
    ConfiguredPsk::new(&[byte; 32], None).unwrap()
}

/// Writes this key into the file, and has it read: the former one is still accepted for `overlap`.
fn replace(testbed: &Testbed, byte: u8, overlap: Duration) {
    fs::write(testbed.folder.path().join("host"), &*psk(byte).reveal()).unwrap();
    testbed.target().replace_secrets(&testbed.target().config(), overlap).unwrap();
}

/// Connects the host with this key, and lets it leave; true if that succeeds.
fn connects(testbed: &Testbed, byte: u8) -> bool {
    let options = ConnectOptions {
        host: HostIdentity::from_nqn(TLS_HOST),
        tls: Some(Arc::new(TlsKeys::new(vec![psk(byte)]))),
        ..ConnectOptions::new(testbed.address(), NQN)
    };
    let Ok(controller) = Controller::connect(options) else { return false };
    controller.disconnect().unwrap();
    drop(controller);
    wait_until("it has left", || testbed.target().status().controllers.is_empty());
    true
}

#[test]
fn a_replaced_key_is_accepted_after_an_upgrade() {
    let mut testbed = Testbed::new(Engine::Epoll, |_| {});
    assert!(connects(&testbed, 7) && !connects(&testbed, 8));
    replace(&testbed, 8, Duration::from_secs(3600));
    // Handed over twice: the second process does not read it in its file either.
    for _ in 0..2 {
        testbed.pass_on();
        assert!(connects(&testbed, 7) && connects(&testbed, 8));
    }
    replace(&testbed, 9, Duration::ZERO);
    testbed.pass_on();
    assert!(connects(&testbed, 9) && connects(&testbed, 7));
    assert!(!connects(&testbed, 8), "it was replaced without an overlap");
}
