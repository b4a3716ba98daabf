//! Work inside a network namespace: a thread goes there, does it, and ends. It keeps out how namespaces come to be.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Folder in which `ip netns` keeps namespaces by name.
pub(crate) const FOLDER: &str = "/run/netns";

/// Does `work` in the network namespace `name`. Sockets, devices and programs that `work` makes stay there for as long
/// as they exist; the calling thread stays where it is.
///
/// # Errors
/// There is no such namespace, or the caller may not enter it (that takes root); or `work` failed.
pub(crate) fn inside<T, F>(name: &str, work: F) -> Result<T, String>
where
    T: Send,
    F: FnOnce() -> Result<T, String> + Send,
{
    let path = format!("{FOLDER}/{name}");
    let namespace = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(
                |error| format!("cannot enter the network namespace {name}: {error}; are you root?"),
            )?;
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
