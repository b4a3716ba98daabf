//! Any bytes at the initiator's end of a connection.
#![no_main]

use fuzz::receive;
use libfuzzer_sys::fuzz_target;
use nvme::tcp::Role;

fuzz_target!(|bytes: &[u8]| receive::check(Role::Host, bytes));
