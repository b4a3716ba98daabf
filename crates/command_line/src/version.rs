//! What this program is: its version, the commit it was made from, and what is in it.

use std::sync::OnceLock;

use crate::name_sources;

/// Linkage of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// The machine's own is loaded.
    Dynamic,
    /// Static: the machine needs no libraries.
    Static,
}

static LINKAGE: OnceLock<Linkage> = OnceLock::new();

/// To be said before anything else is asked of the program.
pub fn start(linkage: Linkage) {
    if LINKAGE.set(linkage).is_ok() && linkage == Linkage::Static {
        // A C library inside the program cannot load others: it crashes on the way.
        name_sources::keep_to_own();
        engine::ceph::leave_out("a static program cannot load them; install the deb or rpm package");
    }
}

/// True if the C library is in the program, and cannot load others.
pub fn is_static() -> bool {
    LINKAGE.get() == Some(&Linkage::Static)
}

/// Commit of the build, if the build sets it, as packages do.
const COMMIT: Option<&str> = option_env!("SELVEDGE_COMMIT");

/// The version's number.
pub const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// Text of `--version` after the program's name.
pub fn long() -> String {
    let (libc, ceph) = match LINKAGE.get() {
        Some(Linkage::Static) => ("in the program", "not in this build; the deb and rpm packages have it"),
        _ => ("the machine's", "by librados2 and librbd1, where they are installed"),
    };
    format!(
        "{}\ncommit: {}\nmachine: {} {}\nI/O: io_uring, epoll\nC library: {libc}\nCeph: {ceph}\nlicence: {}",
        NUMBER,
        COMMIT.unwrap_or("not recorded"),
        std::env::consts::ARCH,
        std::env::consts::OS,
        env!("CARGO_PKG_LICENSE"),
    )
}
