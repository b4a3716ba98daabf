//! A driver of any descriptors and completions, and one that keeps to the block layer's rules most of the time.
#![no_main]

use fuzz::ublk;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ublk::check(bytes));
