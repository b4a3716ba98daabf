//! The questions to the live system that are not one file: directories, the sockets with their processes, routes.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use super::{Refusal, Sockets};
use crate::netlink::{route as routes, sock_diag};

/// Names in a directory, in order.
pub(super) fn list(path: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(format!("/{path}"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// All TCP sockets, with the processes that have them open.
pub(super) fn sockets() -> Sockets {
    let mut found = Sockets::default();
    for family in [sock_diag::Family::Ipv4, sock_diag::Family::Ipv6] {
        match sock_diag::tcp_sockets(family) {
            Ok(sockets) => found.sockets.extend(sockets),
            Err(error) => {
                let question = format!("TCP sockets over {family}");
                found.refusals.push(Refusal::new(&question, &error));
            }
        }
    }
    let (owners, unread_processes) = socket_owners();
    for socket in &mut found.sockets {
        socket.pid = owners.get(&socket.inode).copied();
    }
    found.unread_processes = unread_processes;
    found
}

/// Process that has a socket open, by the socket's inode, and number of processes that could not be
/// read. The lowest process where there are several.
fn socket_owners() -> (HashMap<u32, u32>, u32) {
    let mut owners = HashMap::new();
    let mut unread = 0;
    let names = list("proc").unwrap_or_default();
    let mut processes: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    processes.sort_unstable();
    for pid in processes {
        let descriptors = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                // A process that has ended meanwhile has no sockets.
                unread += u32::from(error.kind() == io::ErrorKind::PermissionDenied);
                continue;
            }
        };
        for descriptor in descriptors.flatten() {
            let Ok(target) = std::fs::read_link(descriptor.path()) else { continue };
            let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
            if let Some(inode) = inode.and_then(|digits| digits.parse().ok()) {
                owners.entry(inode).or_insert(pid);
            }
        }
    }
    (owners, unread)
}

/// Name of the interface to an address.
pub(super) fn route(destination: IpAddr, source: Option<IpAddr>) -> io::Result<String> {
    interface_name(routes::interface_to(destination, source)?)
}

/// Name of the interface with this index, in this network namespace.
pub(super) fn interface_name(index: u32) -> io::Result<String> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(rustix::net::netdevice::index_to_name(socket, index)?)
}

/// The folder of records of the user whose program this is, where the environment names one.
pub(super) fn runtime_directory() -> Option<String> {
    let directory = std::env::var("XDG_RUNTIME_DIR").ok()?;
    let directory = directory.strip_prefix('/')?.trim_end_matches('/');
    let is_plain = directory.split('/').all(|name| !matches!(name, "" | "." | ".."));
    is_plain.then(|| format!("{directory}/selvedge/queues"))
}
