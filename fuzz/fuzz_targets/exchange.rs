//! Authentication with an attacker on the way.
#![no_main]

use fuzz::exchange;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| exchange::check(bytes));
