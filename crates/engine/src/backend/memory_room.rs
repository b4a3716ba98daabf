//! Memory that this process may have, as the machine and its control groups tell: where a host fills a memory namespace and there
//! is less, the kernel ends the process with all that it serves. Nothing is reserved here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::BackendError;
use crate::units::Size;

/// Bytes that all memory of this process promises together.
static PROMISED: AtomicU64 = AtomicU64::new(0);

/// Bytes that one memory promises, until it is dropped.
#[derive(Debug)]
pub(super) struct Promise(AtomicU64);

impl Promise {
    /// Promises this number of bytes.
    pub(super) fn of(bytes: u64) -> Self {
        PROMISED.fetch_add(bytes, Ordering::Relaxed);
        Self(AtomicU64::new(bytes))
    }

    /// Changes the promise to this number of bytes; a remark where they do not fit now.
    ///
    /// # Errors
    /// `BackendError::NoRoom`; the promise stays as it was.
    pub(super) fn change(&self, bytes: u64) -> Result<Option<String>, BackendError> {
        let before = self.0.load(Ordering::Relaxed);
        if bytes <= before {
            self.set(bytes);
            return Ok(None);
        }
        let remark = check(bytes - before)?;
        self.set(bytes);
        Ok(remark)
    }

    fn set(&self, bytes: u64) {
        let before = self.0.swap(bytes, Ordering::Relaxed);
        PROMISED.fetch_add(bytes, Ordering::Relaxed);
        PROMISED.fetch_sub(before, Ordering::Relaxed);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        PROMISED.fetch_sub(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Memory that the machine or a control group lets this process have.
#[derive(Debug, PartialEq, Eq)]
struct Room {
    whose: String,
    /// Bytes in all, swap included.
    total: u64,
    /// Bytes that are not used now.
    available: u64,
}

/// Checks all that is promised, and `more`; a remark where it does not fit now.
///
/// # Errors
/// `BackendError::NoRoom`.
pub(super) fn check(more: u64) -> Result<Option<String>, BackendError> {
    check_on(PROMISED.load(Ordering::Relaxed).saturating_add(more), Path::new("/"))
}

/// Checks all that is `promised` against the machine below this root.
fn check_on(promised: u64, root: &Path) -> Result<Option<String>, BackendError> {
    let rooms = rooms(root);
    if let Some(room) = rooms.iter().filter(|room| promised > room.total).min_by_key(|room| room.total) {
        return Err(BackendError::NoRoom { promised, place: room.whose.clone(), total: room.total });
    }
    let unfilled = promised.saturating_sub(filled(root));
    let short = rooms.iter().filter(|room| unfilled > room.available).min_by_key(|room| room.available);
    Ok(short.map(|room| {
        format!(
            "hosts can fill {} of memory more, and of {} only {} are free now: the kernel may end this process then (out of memory)",
            Size(unfilled),
            room.whose,
            Size(room.available)
        )
    }))
}

/// Bytes of memory that this process has by now, its namespaces' among them.
fn filled(root: &Path) -> u64 {
    let text = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    ["RssAnon", "RssShmem"].into_iter().filter_map(|name| kibibytes(&text, name)).sum()
}

/// All limits of this process that are known.
fn rooms(root: &Path) -> Vec<Room> {
    let Some(machine) = machine(root) else { return Vec::new() };
    let swap = swap_of(root).unwrap_or(0);
    let mut rooms = groups(root, swap);
    rooms.push(machine);
    rooms
}

/// A line of /proc/meminfo, in bytes.
fn of_machine(root: &Path, name: &str) -> Option<u64> {
    kibibytes(&fs::read_to_string(root.join("proc/meminfo")).ok()?, name)
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn swap_of(root: &Path) -> Option<u64> {
    of_machine(root, "SwapTotal")
}

fn machine(root: &Path) -> Option<Room> {
    let total = of_machine(root, "MemTotal")?.saturating_add(swap_of(root).unwrap_or(0));
    let free_swap = of_machine(root, "SwapFree").unwrap_or(0);
    let available = of_machine(root, "MemAvailable")?.saturating_add(free_swap);
    Some(Room { whose: "this machine".to_owned(), total, available })
}

/// The names of files of a control group, which the two versions have of their own.
struct Names {
    limit: &'static str,
    usage: &'static str,
    swap: &'static str,
    /// Set where the limit of swap is one of memory and swap together.
    is_swap_together: bool,
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    is_swap_together: true,
};
const VERSION_2: Names =
    Names { limit: "memory.max", usage: "memory.current", swap: "memory.swap.max", is_swap_together: false };

/// Control groups that this process is in, from its own up to the root, where they have limits.
fn groups(root: &Path, swap: u64) -> Vec<Room> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut rooms = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (names, mounts) = match controllers {
            "" => (VERSION_2, ["sys/fs/cgroup", "sys/fs/cgroup/unified"]),
            list if list.split(',').any(|name| name == "memory") => {
                (VERSION_1, ["sys/fs/cgroup/memory", "sys/fs/cgroup"])
            }
            _ => continue,
        };
        for mount in mounts.map(|mount| root.join(mount)) {
            rooms.extend(ancestors(&mount, path).filter_map(|folder| group(&folder, &names, swap)));
        }
    }
    rooms
}

/// The folders of a control group and of those above it. A container may know its group by a path of outside, and has it as the
/// root of its mount.
fn ancestors(mount: &Path, path: &str) -> impl Iterator<Item = PathBuf> {
    let relative = Path::new(path.trim_start_matches('/')).to_owned();
    let all: Vec<PathBuf> = relative.ancestors().map(|above| mount.join(above)).collect();
    all.into_iter()
}

fn group(folder: &Path, names: &Names, swap: u64) -> Option<Room> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // `max` is not a number, and not a limit.
    let limit = number(names.limit)?;
    let more = match number(names.swap) {
        Some(both) if names.is_swap_together => both.saturating_sub(limit),
        Some(more) => more,
        None => swap,
    };
    let more = more.min(swap);
    let used = number(names.usage).unwrap_or(0).saturating_sub(reclaimable(folder));
    let whose = "its control group (a container's or a service's limit)".to_owned();
    let total = limit.saturating_add(more);
    Some(Room { whose, total, available: total.saturating_sub(used) })
}

/// Bytes of files that a group has in memory, and gives up when it needs them.
fn reclaimable(folder: &Path) -> u64 {
    let text = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let value = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        matches!(name, "inactive_file" | "active_file").then(|| value.trim().parse::<u64>().ok())?
    };
    text.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A machine of 8 GiB with 6 free, and 2 GiB of swap.
    fn machine_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let meminfo = "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 6291456 kB\n\
                       SwapTotal: 2097152 kB\nSwapFree: 2097152 kB\n";
        for (name, text) in [&[("proc/meminfo", meminfo)][..], files].concat() {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn what_the_machine_has_is_promised_and_no_more() {
        let machine = machine_with(&[]);
        assert_eq!(check_on(4 * GIB, machine.path()).unwrap(), None);
        let tight = check_on(9 * GIB, machine.path()).unwrap().unwrap();
        assert!(tight.contains("9 GiB of memory more") && tight.contains("8 GiB are free"), "{tight}");
        let refused = check_on(11 * GIB, machine.path()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "memory namespaces would have 11 GiB together, and this machine has 10 GiB: make them smaller, or \
             serve a file"
        );
        let unknown = tempfile::tempdir().unwrap();
        assert_eq!(check_on(u64::MAX, unknown.path()).unwrap(), None);
    }

    #[test]
    fn a_control_group_of_either_version_limits_it() {
        let limit = (GIB / 2).to_string();
        for files in [
            vec![("proc/self/cgroup", "0::/a/b\n"), ("sys/fs/cgroup/a/memory.max", &*limit)],
            vec![
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/memory.max", &limit),
            ],
            vec![
                ("proc/self/cgroup", "12:cpu:/a\n11:memory:/a\n"),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", &limit),
                ("sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", &limit),
            ],
            // Docker without a namespace of control groups.
            vec![
                ("proc/self/cgroup", "4:memory:/docker/1234\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", &limit),
                ("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", &limit),
            ],
        ] {
            let files = [files, vec![("sys/fs/cgroup/a/memory.swap.max", "0")]].concat();
            let machine = machine_with(&files);
            let is_swap_free = files.iter().any(|(name, _)| *name == "sys/fs/cgroup/memory.max");
            let (fits, too_large) = if is_swap_free { (2 * GIB, 3 * GIB) } else { (GIB / 4, GIB) };
            assert_eq!(check_on(fits, machine.path()).unwrap(), None, "{files:?}");
            let refused = check_on(too_large, machine.path()).unwrap_err().to_string();
            assert!(refused.contains("control group"), "{files:?}: {refused}");
        }
    }

    #[test]
    fn files_in_memory_are_given_up_and_the_rest_is_not() {
        let stat =
            format!("anon {GIB}\nfile 7\ninactive_file {}\nactive_file {}\nshmem 9\n", GIB / 4, GIB / 4);
        let machine = machine_with(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", &(2 * GIB).to_string()),
            ("sys/fs/cgroup/memory.swap.max", "0"),
            ("sys/fs/cgroup/memory.current", &(GIB + GIB / 2).to_string()),
            ("sys/fs/cgroup/memory.stat", &stat),
        ]);
        assert_eq!(check_on(GIB, machine.path()).unwrap(), None);
        let tight = check_on(GIB + 4096, machine.path()).unwrap().unwrap();
        assert!(tight.contains("1 GiB are free"), "{tight}");
    }

    #[test]
    fn promises_are_counted_until_they_end() {
        // Other tests have memory too: the sum is theirs as well.
        let promise = Promise::of(5 * GIB);
        promise.change(GIB).unwrap();
        assert_eq!(promise.0.load(Ordering::Relaxed), GIB);
        assert!(PROMISED.load(Ordering::Relaxed) >= GIB);
        assert!(promise.change(u64::MAX / 2).is_err(), "no machine has so much");
        assert_eq!(promise.0.load(Ordering::Relaxed), GIB);
    }
}
