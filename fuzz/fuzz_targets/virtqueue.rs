//! A guest of any bytes, and one that keeps to virtio most of the time.
#![no_main]

use fuzz::virtqueue;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| virtqueue::check(bytes));
