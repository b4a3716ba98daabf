//! The initiator against a target that lies.
#![no_main]

use fuzz::hostile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::check(bytes));
