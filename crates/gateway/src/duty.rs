//! Whether a process acts for its gateway, where there may be two of them: the one that does beats, decides and writes. It knows
//! nothing of what that is.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::ring::lock::Mutex;

/// Role of a process: whether it acts for its gateway, and whether another process is to replace
/// it.
#[derive(Debug)]
pub(super) struct Duty {
    acts: AtomicBool,
    /// Set while another process prepares to act in place of this one. This process then leaves
    /// that one's work alone.
    is_offered: AtomicBool,
    /// Held for as long as a sign of life is under way.
    beating: Mutex<()>,
}

impl Duty {
    pub(super) const fn new(acts: bool) -> Self {
        let (acts, is_offered) = (AtomicBool::new(acts), AtomicBool::new(false));
        Self { acts, is_offered, beating: Mutex::new(()) }
    }

    /// True if this process acts for the gateway.
    pub(super) fn acts(&self) -> bool {
        self.acts.load(Ordering::Acquire)
    }

    /// Acts from now on.
    pub(super) fn begin(&self) {
        self.acts.store(true, Ordering::Release);
    }

    /// Does no more from now on: when this returns, nothing that [`Self::beat`] has begun is under way.
    pub(super) fn rest(&self) {
        self.acts.store(false, Ordering::Release);
        drop(self.beating.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Gives a sign of life, if it acts.
    pub(super) fn beat(&self, beat: impl FnOnce()) {
        let _beating = self.beating.lock().unwrap_or_else(PoisonError::into_inner);
        if self.acts() {
            beat();
        }
    }

    /// True if another process is about to take over.
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Acquire)
    }

    pub(super) fn offer(&self, is_offered: bool) {
        self.is_offered.store(is_offered, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_rests_has_no_beat_under_way_and_begins_none() {
        let duty = Duty::new(true);
        let (begun, is_under_way) = channel();
        let (go, waits) = channel::<()>();
        thread::scope(|scope| {
            let duty = &duty;
            let beating = scope.spawn(move || {
                duty.beat(|| {
                    begun.send(()).unwrap();
                    waits.recv().unwrap();
                });
            });
            is_under_way.recv().unwrap();
            let resting = scope.spawn(move || duty.rest());
            while duty.acts() {
                thread::yield_now();
            }
            // Who does not wait has its chance to be done.
            thread::sleep(Duration::from_millis(50));
            let has_waited = !resting.is_finished();
            go.send(()).unwrap();
            resting.join().unwrap();
            assert!(has_waited, "a beat is under way");
            assert!(beating.join().is_ok());
        });
        duty.beat(|| panic!("it rests"));
        duty.begin();
        let mut beats = 0;
        duty.beat(|| beats += 1);
        assert_eq!(beats, 1);
    }
}
