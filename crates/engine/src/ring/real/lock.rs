//! Locks between threads, with the standard library's words.

pub use std::sync::{Condvar, Mutex, MutexGuard};
