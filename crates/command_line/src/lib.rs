//! Nouns that all commands share: failures with their exit status, short forms of objects, flags of
//! several commands, the log, and the program's version. The crate opens and serves nothing.

#![allow(missing_docs, reason = "the program alone uses it; names say enough")]

pub mod failure;
pub mod flags;
pub mod log;
pub mod spec;
pub mod version;
