//! Files that an earlier process left, with any content.
#![no_main]

use fuzz::state_files;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| state_files::check(bytes));
