//! The settings of the machine that this runs on.

use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};

use super::settings::Settings;
use crate::process_stat::{STARTED, stat_field};
use crate::{Channels, CpuSet, Machine, NtupleRule, ethtool, ethtool_ioctl};

/// procfs and sysfs, by what statfs says of them.
const KERNEL_FILE_SYSTEMS: [u64; 2] = [0x9fa0, 0x6265_6572];

/// This machine's settings, in this network namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveSettings;

/// The network namespace that this process is in, by its inode.
///
/// # Errors
/// When /proc cannot be read.
pub fn network_namespace() -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(std::fs::metadata("/proc/self/ns/net")?.ino())
}

/// Maps every error of an interface that is gone to `NotFound`.
fn of_interface<T>(interface: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| match Path::new("/sys/class/net").join(interface).exists() {
        true => error,
        false => io::Error::new(io::ErrorKind::NotFound, error),
    })
}

fn absent(what: &str, interface: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("the driver of {interface} does not tell its {what}"))
}

impl Settings for LiveSettings {
    fn boot_id(&self) -> String {
        self.read("proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
    }

    fn network_cookie(&self) -> Option<u64> {
        // Kernels before 5.14 have none.
        ethtool_ioctl::network_cookie().ok()
    }

    fn read(&self, path: &str) -> io::Result<String> {
        Machine::live().read(path)
    }

    fn write(&self, path: &str, content: &str) -> io::Result<()> {
        let path = Path::new("/").join(path);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::empty())?;
        // Only the kernel creates names and links there, so none of them leads to another user's
        // file.
        let kind = rustix::fs::fstatfs(&file)?.f_type;
        if !KERNEL_FILE_SYSTEMS.contains(&(kind as u64)) {
            let reason = format!("{} is not a kernel setting (in procfs or sysfs)", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        // One call: the kernel takes each as a value of its own.
        let written = rustix::io::write(&file, content.as_bytes())?;
        match written == content.len() {
            true => Ok(()),
            false => {
                Err(io::Error::new(io::ErrorKind::WriteZero, "the system took only a part of the value"))
            }
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        Machine::live().list(path)
    }

    fn channels(&self, interface: &str) -> io::Result<Channels> {
        of_interface(interface, ethtool::channels(interface))
    }

    fn set_channels(&self, interface: &str, channels: Channels) -> io::Result<()> {
        of_interface(interface, ethtool::set_channels(interface, channels))
    }

    fn ntuple(&self, interface: &str) -> io::Result<bool> {
        let ntuple = of_interface(interface, ethtool::ntuple_now(interface))?;
        Ok(ntuple.is_enabled)
    }

    fn set_ntuple(&self, interface: &str, on: bool) -> io::Result<()> {
        of_interface(interface, ethtool::set_ntuple(interface, on))
    }

    fn rule(&self, interface: &str, location: u32) -> io::Result<Option<NtupleRule>> {
        let ntuple = of_interface(interface, ethtool::ntuple_now(interface))?;
        Ok(ntuple.rules.into_iter().find(|rule| rule.location == location))
    }

    fn insert_rule(&self, interface: &str, rule: &NtupleRule) -> io::Result<()> {
        of_interface(interface, ethtool::insert_rule(interface, rule))
    }

    fn delete_rule(&self, interface: &str, location: u32) -> io::Result<()> {
        of_interface(interface, ethtool::delete_rule(interface, location))
    }

    fn rss_table(&self, interface: &str) -> io::Result<Vec<u32>> {
        let rss = of_interface(interface, ethtool::rss_now(interface))?;
        rss.map(|rss| rss.table).ok_or_else(|| absent("table of receive side scaling", interface))
    }

    fn set_rss_table(&self, interface: &str, table: &[u32]) -> io::Result<()> {
        of_interface(interface, ethtool::set_rss_table(interface, table))
    }

    fn thread(&self, thread: u32) -> io::Result<(CpuSet, u64)> {
        let pid = pid(thread)?;
        let stat = self.read(&format!("proc/{thread}/stat"))?;
        let started = stat_field(&stat, STARTED);
        let started =
            started.ok_or_else(|| io::Error::other(format!("/proc/{thread}/stat has no start time")))?;
        let mask = sched_getaffinity(Some(pid)).map_err(gone)?;
        let cpus = (0..Mask::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).map(|cpu| cpu as u32).collect();
        Ok((cpus, started))
    }

    fn set_thread_cpus(&self, thread: u32, cpus: &CpuSet) -> io::Result<()> {
        let mut mask = Mask::new();
        for cpu in cpus.iter() {
            if cpu as usize >= Mask::MAX_CPU {
                let reason =
                    format!("a thread cannot be kept on CPU {cpu}: only on those below {}", Mask::MAX_CPU);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
            }
            mask.set(cpu as usize);
        }
        sched_setaffinity(Some(pid(thread)?), &mask).map_err(gone)
    }
}

fn pid(thread: u32) -> io::Result<Pid> {
    let number = i32::try_from(thread).ok().and_then(Pid::from_raw);
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{thread} is not a thread ID")))
}

fn gone(error: rustix::io::Errno) -> io::Error {
    match error {
        rustix::io::Errno::SRCH => io::Error::new(io::ErrorKind::NotFound, "the thread has ended"),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_moved_and_read_back() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (before, started) = LiveSettings.thread(thread).unwrap();
        let one = CpuSet::one(before.first().unwrap());
        LiveSettings.set_thread_cpus(thread, &one).unwrap();
        assert_eq!(LiveSettings.thread(thread).unwrap(), (one, started));
        LiveSettings.set_thread_cpus(thread, &before).unwrap();
        assert_eq!(LiveSettings.thread(thread).unwrap(), (before, started));
        assert!(LiveSettings.set_thread_cpus(thread, &CpuSet::one(5000)).is_err());
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let not_found = |error: io::Error| assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        not_found(LiveSettings.channels("no-such-nic0").unwrap_err());
        not_found(LiveSettings.set_channels("no-such-nic0", Channels::default()).unwrap_err());
        not_found(LiveSettings.rss_table("no-such-nic0").unwrap_err());
        not_found(LiveSettings.rule("no-such-nic0", 1).unwrap_err());
        not_found(LiveSettings.read("sys/class/net/no-such-nic0/queues/rx-0/rps_cpus").unwrap_err());
        not_found(LiveSettings.thread(i32::MAX as u32).unwrap_err());
        assert!(!LiveSettings.boot_id().is_empty() && network_namespace().unwrap() > 0);
    }
}
