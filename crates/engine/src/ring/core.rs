//! The processor a thread runs on, the time it has used, and borrowing descriptors from what owns them.
//! Which thread belongs on which core is decided elsewhere.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Keeps the calling thread on `cpu`.
///
/// # Errors
/// When there is no such processor, or the process may not use it.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(|error| io::Error::new(error.kind(), format!("the process may not run on CPU {cpu}")))
}

/// Keeps the calling thread on these processors, those of them that there are and that the process may use.
///
/// # Errors
/// When there is none of them.
pub fn keep_on(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set)
        .map_err(|error| io::Error::new(error.kind(), format!("the process may not run on CPUs {cpus:?}")))
}

/// Lets another thread that waits for this processor run first, if there is one.
pub fn make_way() {
    rustix::thread::sched_yield();
}

/// Lets this process have as many descriptors as the system allows it: each connection needs one, and the usual limit
/// of 1,024 is for programs that wait with select(2).
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Where it is refused, the old limit holds, and connections over it are refused.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    descriptor_limit();
}

/// Number of descriptors that this process may have. It is looked up at the first call, which belongs before confinement, whose
/// filter has no such call.
pub fn descriptor_limit() -> usize {
    use rustix::process::{Resource, getrlimit};
    static LIMIT: OnceLock<usize> = OnceLock::new();
    let limit = || getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    *LIMIT.get_or_init(|| limit().unwrap_or(usize::MAX))
}

/// Has the system keep no image of this process when it crashes: there are secrets in it. The kernel obeys a limit of 0 for
/// files. A program that `core_pattern` names gets the image all the same, and has to obey the limit itself, as
/// systemd-coredump does.
pub fn forbid_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Where it is refused, an administrator has set a higher limit on purpose.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// A descriptor that is good for nothing but to be given up when the system has no other left.
pub(crate) fn spare_descriptor() -> Option<OwnedFd> {
    use rustix::event::{EventfdFlags, eventfd};
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

/// The processors this process may use: two in a simulation, whatever machine it runs on.
pub fn available() -> Vec<usize> {
    if cfg!(feature = "simulation") {
        return vec![0, 1];
    }
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => vec![0],
    }
}

/// Number of processors this process may use, by its affinity and its cgroup's quota: two in a simulation. It is looked up at the
/// first call, which belongs before threads are kept on processors, and before the process gives up access to files.
pub fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    if cfg!(feature = "simulation") {
        return 2;
    }
    *PROCESSORS.get_or_init(|| available_parallelism().map_or(1, usize::from))
}

/// Processor time the calling thread has used.
pub fn thread_time() -> Duration {
    used(ClockId::ThreadCPUTime)
}

/// The system's number of the calling thread.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Processor time a thread of this process has used, unless it has ended.
pub fn time_of_thread(thread_id: i32) -> Option<Duration> {
    // The first number of schedstat is the time on a processor in nanoseconds.
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread_id}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Processor time this process has used.
pub fn process_time() -> Duration {
    used(ClockId::ProcessCPUTime)
}

fn used(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Borrows the descriptor of something that owns one.
///
/// # Errors
/// When it has none.
pub(super) fn borrow_descriptor(owner: &impl AsRawFd) -> io::Result<BorrowedFd<'_>> {
    let descriptor = owner.as_raw_fd();
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it is not -1, and the owner keeps it open for as long as it is borrowed here.
    #[allow(unsafe_code)]
    Ok(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_kept_on_one_processor_counts_all() {
        let before = processors();
        let thread = std::thread::spawn(|| {
            pin_to(available()[0]).expect("a processor of this process");
            processors()
        });
        assert_eq!(thread.join().expect("no panic"), before);
    }
}
