//! How busy the machine and one process have been between two moments, from /proc. A figure from a machine without idle
//! time is a figure of the machine.

use serde::Serialize;

/// Clock ticks per second in /proc, on every architecture that Linux still has (USER_HZ).
const TICKS_PER_S: f64 = 100.0;

/// Load of processors and processes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Load {
    /// Of all processors together.
    pub(crate) idle_percent: f64,
    /// The emulator, of one processor.
    pub(crate) emulator_percent: f64,
}

/// The counters at one moment.
pub(crate) struct Moment {
    all_ticks: f64,
    idle_ticks: f64,
    process_ticks: f64,
    at: std::time::Instant,
}

impl Moment {
    /// Now, with the process `id`.
    pub(crate) fn now(id: u32) -> Moment {
        let machine = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let process = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let (all_ticks, idle_ticks) = machine_ticks(&machine).unwrap_or_default();
        let process_ticks = process_ticks(&process).unwrap_or_default();
        Moment { all_ticks, idle_ticks, process_ticks, at: std::time::Instant::now() }
    }

    /// The load from this moment until now.
    pub(crate) fn until_now(&self, id: u32) -> Load {
        let now = Moment::now(id);
        let elapsed_s = (now.at - self.at).as_secs_f64().max(0.001);
        Load {
            idle_percent: 100.0 * (now.idle_ticks - self.idle_ticks)
                / (now.all_ticks - self.all_ticks).max(1.0),
            emulator_percent: 100.0 * (now.process_ticks - self.process_ticks) / TICKS_PER_S / elapsed_s,
        }
    }
}

/// User and system time of a process and of those of its children that it has waited for, in seconds. None when there is
/// no such process.
pub(crate) fn cpu_s(id: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let words = text.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
    (ticks.len() == 4).then(|| ticks.iter().sum::<f64>() / TICKS_PER_S)
}

/// Time of all processors together since the machine began, in ticks.
#[derive(Clone, Copy)]
pub(crate) struct Clocks {
    all: f64,
    idle: f64,
    stolen: f64,
}

/// Shares of all processors' time between two moments, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shares {
    pub(crate) idle_percent: f64,
    /// Time that the hypervisor did not give although there was work.
    pub(crate) steal_percent: f64,
}

impl Clocks {
    /// Now. None when the system does not say.
    pub(crate) fn now() -> Option<Clocks> {
        Clocks::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn of(text: &str) -> Option<Clocks> {
        let (all, idle) = machine_ticks(text)?;
        let stolen = text.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
        Some(Clocks { all, idle, stolen })
    }

    /// From this moment until `later`.
    pub(crate) fn until(&self, later: &Clocks) -> Shares {
        let percent = |ticks: f64| 100.0 * ticks / (later.all - self.all).max(1.0);
        Shares {
            idle_percent: percent(later.idle - self.idle),
            steal_percent: percent(later.stolen - self.stolen),
        }
    }
}

/// Time that all processors together have not been idle since the machine began, in seconds, with what the machine below did
/// not give. None when the system does not tell.
pub(crate) fn busy_s() -> Option<f64> {
    let (all, idle) = machine_ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
    Some((all - idle) / TICKS_PER_S)
}

/// All ticks and the idle ones, from /proc/stat. Time that a guest got is in the user's already.
fn machine_ticks(text: &str) -> Option<(f64, f64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    Some((ticks.iter().sum(), ticks.get(3)? + ticks.get(4)?))
}

/// User and system ticks of a process, from its stat. The name in it may hold anything, so it is skipped by its end.
fn process_ticks(text: &str) -> Option<f64> {
    let mut words = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(words.next()?.parse::<f64>().ok()? + words.next()?.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_counters() {
        let machine = "cpu  10 0 20 60 5 1 2 2 9 9\ncpu0 1 2 3\n";
        assert_eq!(machine_ticks(machine), Some((100.0, 65.0)));
        let process = "77 (a) b) S 1 77 77 0 -1 4194560 1 2 3 4 120 30 5 6 20 0";
        assert_eq!(process_ticks(process), Some(150.0));
        assert_eq!((machine_ticks(""), process_ticks("1 (x) S 1")), (None, None));
    }

    #[test]
    fn stolen_time_is_what_was_not_given() {
        let [before, after] = ["cpu  10 0 20 60 5 1 2 2 9 9\n", "cpu  50 0 40 90 15 1 2 102 9 9\n"]
            .map(|text| Clocks::of(text).unwrap());
        assert_eq!(before.until(&after), Shares { idle_percent: 20.0, steal_percent: 50.0 });
        assert!(Clocks::of("cpu  1 2 3 4 5 6 7\n").is_none());
    }

    #[test]
    fn knows_this_process() {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(process_ticks(&text).is_some());
        assert!(cpu_s(std::process::id()).is_some());
        assert!(busy_s().is_some_and(|seconds| seconds > 0.0));
        assert!(Clocks::now().is_some());
    }
}
