//! Any text in place of what nvmetcli saved.
#![no_main]

use fuzz::nvmet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| nvmet::check(bytes));
