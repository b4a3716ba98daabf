//! Any bytes in place of what a target describes itself with.
#![no_main]

use fuzz::parsers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| parsers::check(bytes));
