//! Whole connections of several hosts to a living target.
#![no_main]

use fuzz::connection;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| connection::check(bytes));
