//! Who may administer a target: what each request needs is in the table of routes, what its sender has is decided here.

mod access;
mod access_file;
mod allowed_storage;
mod caller;
mod name_modules;
mod rights;

pub(crate) use access::Access;
pub use access_file::{AccessFile, TokenEntry};
pub use allowed_storage::AllowedStorage;
pub(in crate::control) use caller::is_operator;
pub use caller::{Caller, Identity, Peer};
pub use rights::Rights;
