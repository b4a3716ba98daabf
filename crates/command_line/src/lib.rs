//! Nouns that all commands share: failures with their exit status, short forms of objects, flags of
//! several commands, requests to stop, lines on stderr, the log, and the program's version. The crate
//! opens and serves nothing.

#![allow(missing_docs, reason = "the program alone uses it; names say enough")]

pub mod failure;
pub mod flags;
pub mod log;
pub mod name_sources;
pub mod plain_text;
pub mod spec;
mod standard_error;
pub mod stop;
pub mod version;
