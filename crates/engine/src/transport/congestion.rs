//! Congestion control by its name in the kernel: the default, and its setting on a socket. `info`
//! reports its effect on a connection.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

/// The word that leaves the choice to the system, where the name of a congestion control is asked for.
pub const SYSTEM: &str = "system";
/// The word that lets it follow the path of each connection.
pub const AUTO: &str = "auto";
/// The control that does not slow down where segments are lost.
pub(super) const BBR: &str = "bbr";

/// Controls that the kernel has, loaded or built in, those that any process may choose, and the
/// system's default.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Characters of a name (TCP_CA_NAME_MAX without the zero at the end). The kernel would cut off the rest.
const NAME_LENGTH_MAX: usize = 15;

/// First control of a connection whose control follows its path, which it keeps while its path
/// loses nothing. It is the system's, unless that is bbr, whose pacing costs short, fast paths up
/// to half of what they can carry.
pub(super) fn calm() -> &'static str {
    static CALM: OnceLock<String> = OnceLock::new();
    CALM.get_or_init(|| {
        let system = std::fs::read_to_string(DEFAULT).unwrap_or_default().trim().to_owned();
        if system != BBR && is_name(&system) {
            return system;
        }
        let calm = ["cubic", "reno"].into_iter().find(|name| check(name).is_ok());
        calm.unwrap_or(BBR).to_owned()
    })
}

/// The name to set for a new connection where `asked` is what was asked for: nothing, [`SYSTEM`], [`AUTO`] or a name. The
/// system decides where there is none.
pub fn choice(asked: Option<&str>) -> Option<&str> {
    match asked {
        None | Some(SYSTEM) => None,
        Some(AUTO) => Some(calm()),
        name => name,
    }
}

/// Lets the congestion control of `socket` follow its path from now on, if that is what was asked for.
#[cfg(not(feature = "simulation"))]
pub(crate) fn follow<S: AsFd + Send + Sync + 'static>(asked: Option<&str>, socket: &Arc<S>) {
    if asked == Some(AUTO) {
        let socket: Arc<dyn AsFd + Send + Sync> = socket.clone();
        super::follower::follow(Arc::downgrade(&socket));
    }
}

/// A simulated network has no congestion control.
#[cfg(feature = "simulation")]
pub(crate) fn follow<S>(_: Option<&str>, _: &Arc<S>) {}

/// Number of changes of connections of this process whose control follows their path, with the name
/// of what they were changed to.
pub fn changes() -> Vec<(&'static str, u64)> {
    #[cfg(not(feature = "simulation"))]
    {
        let [to_calm, to_bbr] = super::follower::changes();
        vec![(calm(), to_calm), (BBR, to_bbr)]
    }
    #[cfg(feature = "simulation")]
    Vec::new()
}

/// True if `name` can be the name of a congestion control at all.
pub fn is_name(name: &str) -> bool {
    let printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    !name.is_empty() && name.len() <= NAME_LENGTH_MAX && printable
}

/// Checks that a connection could have the congestion control with this name. One that is not
/// loaded is loaded, if the process may.
///
/// # Errors
/// When there is none with that name, or this process may not use it. The message says which there are.
pub fn check(name: &str) -> io::Result<()> {
    let open = |family| {
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))
    };
    set_now(&open(AddressFamily::INET).or_else(|_| open(AddressFamily::INET6))?, name)
}

/// True if every process may choose the one with this name, and not only one that may administer
/// the network.
pub fn is_allowed(name: &str) -> bool {
    std::fs::read_to_string(ALLOWED).unwrap_or_default().split_whitespace().any(|allowed| allowed == name)
}

/// Gives `socket`, which may be one of MPTCP, the congestion control with this name. Connections that a listener
/// accepts have the listener's.
///
/// # Errors
/// As [`check`].
pub(crate) fn set(socket: &OwnedFd, name: &str) -> io::Result<()> {
    // MPTCP takes any name, and finds out later, with each subflow, where the error is lost.
    if sockopt::socket_protocol(socket)? == Some(ipproto::MPTCP) {
        check(name)?;
    }
    set_now(socket, name)
}

/// Gives `socket` the congestion control that the system gives to new ones.
///
/// # Errors
/// When the system does not tell which one that is.
pub(crate) fn reset(socket: &OwnedFd) -> io::Result<()> {
    let name = std::fs::read_to_string(DEFAULT)
        .map_err(|error| io::Error::new(error.kind(), format!("{DEFAULT} cannot be read: {error}")))?;
    set_now(socket, name.trim())
}

/// Gives a connection the congestion control with this name while it is in use.
///
/// # Errors
/// As [`check`].
#[cfg(not(feature = "simulation"))]
pub(super) fn set_in_use(socket: &dyn AsFd, name: &str) -> io::Result<()> {
    set_now(socket, name)
}

fn set_now(socket: impl AsFd, name: &str) -> io::Result<()> {
    let refused = |error: Errno| {
        let list = |path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let reason = match error {
            Errno::NOENT => format!("this kernel does not have it; it has: {}", list(AVAILABLE)),
            Errno::PERM => format!(
                "it takes CAP_NET_ADMIN, which `serve` keeps only where it starts with such a port; all may use: {} \
                 (sysctl net.ipv4.tcp_allowed_congestion_control)",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_chosen() {
        assert_eq!(choice(Some("reno")), Some("reno"));
        assert_eq!((choice(Some(SYSTEM)), choice(None)), (None, None));
    }

    #[test]
    fn what_follows_the_path_begins_with_a_control_that_can_be_set() {
        let name = choice(Some(AUTO)).unwrap();
        check(name).unwrap();
        assert!(name != BBR, "reno is always there");
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        for name in ["nonsense", "", "sixteen_letters_", "a b", "reno\0"] {
            let error = check(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name:?}: {error}");
            assert!(error.to_string().contains("reno"), "reno is always there: {error}");
        }
        check("reno").unwrap();
        assert!(is_allowed("reno") && !is_allowed("nonsense"));
    }
}
