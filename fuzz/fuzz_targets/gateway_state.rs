//! The objects of a group of gateways, with any content.
#![no_main]

use fuzz::gateway_state;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| gateway_state::check(bytes));
