//! Any text in place of what a group of Ceph's own gateways keeps.
#![no_main]

use fuzz::ceph_nvmeof;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ceph_nvmeof::check(bytes));
