//! SIGINT, SIGTERM, and the SIGHUP of a terminal that is closed, as a request to stop: the first asks, a second SIGINT or SIGTERM
//! ends the process at once. What stopping means is for each command to say.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// The signal that came last, 0 for none.
static CAME: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Set by the first SIGINT or SIGTERM: the next one ends the process. One flag for all that watch the signals, which may be
/// several threads: the first of them registers the end, so that no other finds the flag up by the same signal.
static URGENT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The signal that asked this process to stop, if one did.
pub fn signal() -> Option<u8> {
    let signal = CAME.get()?.load(Ordering::Relaxed);
    u8::try_from(signal).ok().filter(|signal| *signal > 0)
}

/// True if the last signal was that of a closed terminal.
pub fn has_hung_up() -> bool {
    signal().is_some_and(|signal| i32::from(signal) == SIGHUP)
}

/// Longest delay until a sleeper notices a signal.
const LATENCY: Duration = Duration::from_millis(50);

/// The signals that ask. A process that was started to outlive its terminal (nohup(1)) has SIGHUP ignored, and keeps it so.
pub fn asking() -> Vec<i32> {
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hang_up).collect()
}

/// Looks up whether this process ignores a signal, as Linux tells.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

/// Requests to stop this process, by signals.
#[derive(Debug)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    signals: Signals,
}

impl Stop {
    /// Watches the signals from now on.
    pub fn on_signals() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        let came = CAME.get_or_init(Arc::default);
        let is_first = URGENT.set(Arc::default()).is_ok();
        let is_urgent = URGENT.get_or_init(Arc::default);
        let register = || {
            let signals = asking();
            for signal in &signals {
                // From here on the signal does not end the process, so that it must not be lost either.
                signal_hook::flag::register_usize(*signal, came.clone(), *signal as usize)?;
                signal_hook::flag::register(*signal, flag.clone())?;
                // Of a closed terminal both the shell and the kernel send a SIGHUP: it never ends anything at once.
                if is_first && *signal != SIGHUP {
                    // In this order the first signal finds the flag down and raises it; the second finds it up.
                    signal_hook::flag::register_conditional_shutdown(
                        *signal,
                        128 + signal,
                        is_urgent.clone(),
                    )?;
                    signal_hook::flag::register(*signal, is_urgent.clone())?;
                }
            }
            Signals::new(signals)
        };
        let signals =
            register().map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
        // It may have come between the two registrations.
        if is_first && came.load(Ordering::Relaxed) != 0 {
            flag.store(true, Ordering::Relaxed);
        }
        Ok(Self { flag, signals })
    }

    /// True if a signal has come.
    pub fn is_asked(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Forgets the signals that have come: the next one asks again, and does not end the process at once.
    pub fn postpone(&self) {
        self.flag.store(false, Ordering::Relaxed);
        if let Some(is_urgent) = URGENT.get() {
            is_urgent.store(false, Ordering::Relaxed);
        }
    }

    /// Sleeps for a time or until a signal comes; true if the whole time has passed.
    pub fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.is_asked() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LATENCY));
        }
        false
    }

    /// The flag alone, for other threads.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }

    /// Waits for a signal, without using the processor.
    pub fn wait(&mut self) {
        while !self.is_asked() {
            self.signals.wait().for_each(drop);
        }
    }
}
