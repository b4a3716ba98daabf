//! Any text in place of a recorded machine.
#![no_main]

use fuzz::machine;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| machine::check(bytes));
