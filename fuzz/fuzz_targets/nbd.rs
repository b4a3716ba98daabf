//! An NBD client of any bytes, and one that speaks the protocol most of the time.
#![no_main]

use fuzz::nbd;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| nbd::check(bytes));
