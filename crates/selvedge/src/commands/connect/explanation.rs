//! Why the kernel has not connected, in words, and what to do.

use std::io;

use super::request::Request;

/// Options that are not in every kernel, and since when they are, or what they need.
const SINCE: [(&str, &str); 10] = [
    ("tls", "Linux 6.7 with CONFIG_NVME_TCP_TLS"),
    ("tls_key", "Linux 6.7 with CONFIG_NVME_TCP_TLS"),
    ("keyring", "Linux 6.7 with CONFIG_NVME_TCP_TLS"),
    ("concat", "Linux 6.16 with CONFIG_NVME_HOST_AUTH and CONFIG_NVME_TCP_TLS"),
    ("dhchap_secret", "Linux 6.0 with CONFIG_NVME_HOST_AUTH"),
    ("dhchap_ctrl_secret", "Linux 6.0 with CONFIG_NVME_HOST_AUTH"),
    ("host_iface", "Linux 5.14"),
    ("fast_io_fail_tmo", "Linux 5.11"),
    ("tos", "Linux 5.6"),
    ("tclass", "patches of May 2026 that are not in Linux yet"),
];

/// Why nothing was asked for.
pub(super) fn of_unknown(unknown: &[&str]) -> String {
    let since = |name: &str| {
        let known = SINCE.iter().find(|(option, _)| *option == name);
        known.map_or(String::new(), |(_, since)| format!(" (it takes {since})"))
    };
    let names: Vec<String> = unknown.iter().map(|name| format!("`{name}`{}", since(name))).collect();
    format!("this kernel does not know the option {}", names.join(", "))
}

/// Explains the kernel's error for this request, with its log.
pub(super) fn of_refusal(error: &io::Error, log: &[String], request: &Request) -> String {
    let is_tls = request.path.tls.is_some();
    let has_secret = request.path.secrets.is_some();
    let meaning = match error.raw_os_error().unwrap_or_default() {
        libc::ECONNREFUSED => "connection refused (is a target listening there?)",
        libc::EINVAL => "the kernel refuses these options",
        libc::EADDRNOTAVAIL => "this machine does not have the address of --host-traddr",
        libc::ENODEV if request.path.host_iface.is_some() => "there is no such interface (--host-iface)",
        libc::ESRCH if is_tls => {
            "no program does TLS handshakes for the kernel: start tlshd (package ktls-utils)"
        }
        libc::ENOKEY if !is_tls => {
            "the target asks this host to authenticate: name the file of its secret with --dhchap-secret-file"
        }
        libc::ENOKEY => {
            "the kernel has no TLS key for this host and subsystem: name its file with --tls-key-file"
        }
        libc::EACCES | libc::EKEYREJECTED | libc::ETIMEDOUT if is_tls => {
            "the TLS handshake failed: the target has another key, or none, or no TLS; tlshd's log says more"
        }
        libc::EKEYREJECTED => {
            "authentication failed: the secret is not the one that the other side has for this host and subsystem"
        }
        libc::ECONNRESET | libc::EPIPE if !is_tls => {
            "the target closes the connection: it may require TLS (--tls-key-file)"
        }
        libc::EIO if has_secret => "the target refuses this host or its secret",
        libc::EIO => "the target refuses this host, or has no such subsystem",
        _ => return with_log(error.to_string(), log),
    };
    with_log(meaning.to_owned(), log)
}

fn with_log(what: String, log: &[String]) -> String {
    if log.is_empty() { what } else { format!("{what}; the kernel's log: {}", log.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::connection::Connection;
    use crate::flags::connect::ConnectFlags;

    fn request() -> Request {
        let flags = ConnectFlags::of("-a 127.0.0.1 -n nqn.a");
        let connection = Connection::new(&flags.connection).unwrap();
        super::super::requests(&flags, &connection).unwrap().remove(0)
    }

    #[test]
    fn answers_are_words() {
        let explained = |number, log: &[&str]| {
            let log: Vec<String> = log.iter().map(|line| (*line).to_owned()).collect();
            of_refusal(&io::Error::from_raw_os_error(number), &log, &request())
        };
        assert!(explained(libc::ECONNREFUSED, &[]).contains("is a target listening"));
        let refused = explained(libc::EIO, &["nvme nvme0: Connect for subsystem nqn.a is not allowed"]);
        assert!(refused.contains("refuses this host"), "{refused}");
        assert!(
            refused.ends_with("; the kernel's log: nvme nvme0: Connect for subsystem nqn.a is not allowed")
        );
        assert!(explained(libc::EKEYREJECTED, &[]).contains("authentication failed"));
        assert!(explained(libc::ECONNRESET, &[]).contains("it may require TLS"));
        assert!(explained(libc::ENOKEY, &[]).contains("--dhchap-secret-file"));
        assert!(explained(libc::EHOSTUNREACH, &[]).contains("No route to host"));
        assert!(!explained(libc::ESRCH, &[]).contains("tlshd"), "there is no TLS here");
    }

    #[test]
    fn a_missing_option_says_what_it_takes() {
        let text = of_unknown(&["concat", "nr_io_queues"]);
        assert!(text.contains("`concat` (it takes Linux 6.16") && text.ends_with("`nr_io_queues`"), "{text}");
    }
}
