//! `selvedge connect`: has the kernel's own initiator connect to subsystems, and says which controllers and disks that gives.

#![expect(dead_code, reason = "the command follows")]

mod explanation;
mod persistence;
mod request;
mod tls;

#[cfg(test)]
use self::request::requests;
