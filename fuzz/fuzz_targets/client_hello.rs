//! What a host says first, of any bytes.
#![no_main]

use fuzz::client_hello;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| client_hello::check(bytes));
