//! Requests made from the control API's own description.
#![no_main]

use fuzz::control;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| control::check(bytes));
