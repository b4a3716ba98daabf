//! Any text in place of a target.toml.
#![no_main]

use fuzz::config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| config::check(bytes));
