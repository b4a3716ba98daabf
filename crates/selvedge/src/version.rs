//! What this program is: its version, the commit it was made from, and what is in it.

/// The commit, where whoever built it has said it: packages do.
const COMMIT: Option<&str> = option_env!("SELVEDGE_COMMIT");

/// The version's number.
pub(crate) const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// What `--version` prints after the program's name.
pub(crate) fn long() -> String {
    let (libc, ceph) = if cfg!(target_feature = "crt-static") {
        ("in the program", "not in this build; the deb and rpm packages have it")
    } else {
        ("the machine's", "by librados2 and librbd1, where they are installed")
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
