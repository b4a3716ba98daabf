//! Samples of targets and machines as data, their differences as rates, and rules that name faults:
//! for `doctor`, `top` and `tune`, and for a target's own console. The crate sends no requests, and
//! changes nothing.

#![allow(missing_docs, reason = "the program alone uses it; names say enough")]

use command_line::failure;

pub mod diagnosis;
pub mod packet_path;
pub mod target_rates;
