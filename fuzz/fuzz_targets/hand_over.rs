//! What the old process of a target is said to hand over.
#![no_main]

use fuzz::hand_over;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hand_over::check(bytes));
