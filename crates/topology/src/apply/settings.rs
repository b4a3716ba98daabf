//! The settings of a machine that a plan changes, as far as making and undoing changes needs them.

use std::io;

use super::reach::QUEUE_FILES;
use crate::plan::Change;
use crate::{Channels, CpuSet, NtupleRule};

/// A machine's settings. Paths are below the root, without a slash before them. An interface that has gone is
/// `NotFound`.
///
/// # Errors
/// All of them: what the system says.
#[allow(clippy::missing_errors_doc, reason = "said once, for all of them")]
pub trait Settings {
    /// Identifier of this boot; settings do not outlive it.
    fn boot_id(&self) -> String;

    /// Cookie of this network namespace, which is unique. Absent where the kernel does not report
    /// it.
    fn network_cookie(&self) -> Option<u64> {
        None
    }

    /// A file's content.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes a file of the system with one call.
    fn write(&self, path: &str, content: &str) -> io::Result<()>;

    /// Names in a directory, in order.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// An interface's numbers of queues.
    fn channels(&self, interface: &str) -> io::Result<Channels>;

    /// Changes them.
    fn set_channels(&self, interface: &str, channels: Channels) -> io::Result<()>;

    /// True if rules for single flows are switched on.
    fn ntuple(&self, interface: &str) -> io::Result<bool>;

    /// Switches them.
    fn set_ntuple(&self, interface: &str, on: bool) -> io::Result<()>;

    /// The rule at a place.
    fn rule(&self, interface: &str, location: u32) -> io::Result<Option<NtupleRule>>;

    /// Sets the rule at its place.
    fn insert_rule(&self, interface: &str, rule: &NtupleRule) -> io::Result<()>;

    /// Takes the rule at a place away.
    fn delete_rule(&self, interface: &str, location: u32) -> io::Result<()>;

    /// The table of receive side scaling.
    fn rss_table(&self, interface: &str) -> io::Result<Vec<u32>>;

    /// Changes it.
    fn set_rss_table(&self, interface: &str, table: &[u32]) -> io::Result<()>;

    /// Processors a thread may run on, and its start time, which distinguishes it from a later
    /// thread of its number.
    fn thread(&self, thread: u32) -> io::Result<(CpuSet, u64)>;

    /// Changes its processors.
    fn set_thread_cpus(&self, thread: u32, cpus: &CpuSet) -> io::Result<()>;
}

/// The files of an interface's queues that a change of their number may lose.
pub(super) fn queue_files(settings: &dyn Settings, interface: &str) -> io::Result<Vec<(String, String)>> {
    let folder = format!("sys/class/net/{interface}/queues");
    let mut files = Vec::new();
    for queue in settings.list(&folder)? {
        let names =
            QUEUE_FILES.iter().filter(|(kind, _)| queue.starts_with(kind)).flat_map(|(_, names)| names);
        for name in names {
            let path = format!("{folder}/{queue}/{name}");
            // A queue alone has no XPS, and its file cannot be read.
            if let Ok(content) = settings.read(&path) {
                files.push((path, content));
            }
        }
    }
    Ok(files)
}

/// Adds a hint about the missing right to an error.
pub(super) fn named(change: &Change, error: io::Error) -> io::Error {
    let gone = |name: &str| io::Error::new(error.kind(), format!("{name} is gone: {error}"));
    match (error.kind(), change.interface()) {
        (io::ErrorKind::NotFound, Some(interface)) => gone(interface),
        (io::ErrorKind::PermissionDenied, _) => {
            io::Error::new(error.kind(), format!("{error}: it takes root, and a system that lets root do it"))
        }
        _ => error,
    }
}
