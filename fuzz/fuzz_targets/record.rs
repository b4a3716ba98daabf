//! Records on their way, and records of a peer that has the key.
#![no_main]

use fuzz::record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| record::check(bytes));
