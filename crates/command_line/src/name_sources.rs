//! Sources of names for a static program (nss(5)): those that its C library has in itself, whatever the machine is configured to use.
//! A C library inside the program that loads a module for another source crashes, then or at a look-up.

#[cfg(target_env = "gnu")]
use std::ffi::{CStr, c_char, c_int};

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no library has this function")]
unsafe extern "C" {
    /// Sets the sources of a database for this process (nss.h).
    fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
}

/// Databases of users, groups, the groups of a user, and hosts, each with its sources: `/etc/passwd`, `/etc/group`, `/etc/hosts` and
/// DNS. From version 2.34 on, the C library has both in itself.
#[cfg(target_env = "gnu")]
const OWN: [(&CStr, &CStr); 4] =
    [(c"passwd", c"files"), (c"group", c"files"), (c"initgroups", c"files"), (c"hosts", c"files dns")];

/// Has all further look-ups of names use these alone.
///
/// # Panics
/// If the C library does not know one of them, or has no memory: a look-up could crash.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no library has this function")]
pub fn keep_to_own() {
    for (database, sources) in OWN {
        // SAFETY: both texts end in a zero byte, and the function keeps neither. It takes the C library's own locks.
        let status = unsafe { __nss_configure_lookup(database.as_ptr(), sources.as_ptr()) };
        assert_eq!(status, 0, "cannot keep look-ups in {database:?} to {sources:?}");
    }
}

/// Other C libraries look nowhere else.
#[cfg(not(target_env = "gnu"))]
pub const fn keep_to_own() {}
