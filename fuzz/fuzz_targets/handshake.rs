//! Whole TLS handshakes, with an attacker on the way.
#![no_main]

use fuzz::handshake;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| handshake::check(bytes));
