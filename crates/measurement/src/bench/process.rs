//! Processor time and page faults of this process, from the kernel. The workers measure their own
//! time.

use std::fs;
use std::time::Duration;

/// Counts of `/proc/self/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    minor_faults: u64,
    major_faults: u64,
    user_ticks: u64,
    system_ticks: u64,
}

/// Processor use and page faults of this process during a run; those of its workers are known only
/// as a sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUse {
    /// User time in user and system time together, from 0 to 1.
    pub(crate) user_share: f64,
    pub(crate) major_faults: u64,
    pub(crate) minor_faults: u64,
}

/// Knows the counts from a moment ago.
pub struct ProcessWatch(Counts);

impl ProcessWatch {
    /// Begins.
    pub fn start() -> Self {
        Self(Counts::now())
    }

    /// Returns the use since the start.
    pub fn end(&self) -> ProcessUse {
        let (before, now) = (self.0, Counts::now());
        let user = now.user_ticks.saturating_sub(before.user_ticks) as f64;
        let system = now.system_ticks.saturating_sub(before.system_ticks) as f64;
        ProcessUse {
            user_share: if user + system > 0.0 { user / (user + system) } else { 0.0 },
            major_faults: now.major_faults.saturating_sub(before.major_faults),
            minor_faults: now.minor_faults.saturating_sub(before.minor_faults),
        }
    }
}

/// Processor time of any process of this machine.
///
/// # Errors
/// When there is no such process, or it cannot be seen.
pub fn process_time(pid: u32) -> Result<Duration, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"));
    let text = text.map_err(|error| format!("process {pid}: {error}"))?;
    let counts = Counts::read(&text).ok_or_else(|| format!("process {pid}: its times cannot be read"))?;
    Ok(counts.time())
}

impl Counts {
    /// All 0 where the kernel does not say.
    fn now() -> Self {
        fs::read_to_string("/proc/self/stat").ok().and_then(|text| Self::read(&text)).unwrap_or_default()
    }

    fn time(&self) -> Duration {
        let ticks = self.user_ticks.saturating_add(self.system_ticks);
        Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    fn read(text: &str) -> Option<Self> {
        // The program's name is in parentheses, and may have spaces and parentheses itself. What follows begins with
        // field 3 (proc_pid_stat(5)).
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        Some(Self {
            minor_faults: field(10)?,
            major_faults: field(12)?,
            user_ticks: field(14)?,
            system_ticks: field(15)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        let line = "17 (a ) b) S 1 17 17 0 -1 4194304 101 0 3 0 250 50 0 0 20 0 1 0 100";
        let expected = Counts { minor_faults: 101, major_faults: 3, user_ticks: 250, system_ticks: 50 };
        assert_eq!(Counts::read(line), Some(expected));
        for line in ["", "17", "17 (a)", "17 (a) S 1 2 3 x"] {
            assert_eq!(Counts::read(line), None);
        }
    }

    #[test]
    fn processes_have_times() {
        assert!(process_time(std::process::id()).is_ok());
        assert!(process_time(u32::MAX).unwrap_err().contains("4294967295"));
    }

    #[test]
    fn faults_of_this_process_are_seen() {
        let watch = ProcessWatch::start();
        let pages = vec![1_u8; 8 << 20];
        assert!(pages.iter().step_by(4096).all(|byte| *byte == 1));
        let used = watch.end();
        assert!(used.minor_faults > 0, "{used:?}");
        assert!((0.0..=1.0).contains(&used.user_share));
    }
}
