//! When the target is looked at for what is wrong with it: for all who ask together, and no more often than that is worth. It
//! keeps out how a look is taken and what the rules are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::limits::{FINDINGS_INTERVAL, LOOK_AGE_MAX, LOOK_AGE_MIN};
use super::findings::Findings;
use crate::diagnosis::look::{Look, Moment};

/// The last look and what was found last.
#[derive(Debug)]
pub(in crate::control) struct Examiner {
    began: Instant,
    /// The last look, for comparison with the next. The holder of the lock examines.
    former: Mutex<Former>,
    found: Mutex<Option<Found>>,
}

#[derive(Debug, Default)]
struct Former {
    /// The last look, kept while there are viewers.
    look: Option<Moment>,
    /// Duration of the last examination.
    took: Duration,
}

#[derive(Clone, Debug)]
struct Found {
    at_s: f64,
    findings: Arc<Findings>,
}

impl Default for Examiner {
    fn default() -> Self {
        Self { began: Instant::now(), former: Mutex::default(), found: Mutex::default() }
    }
}

impl Examiner {
    /// Latest findings, unless they are older than `LOOK_AGE_MAX`.
    pub(super) fn latest(&self) -> Option<Arc<Findings>> {
        self.found_within(LOOK_AGE_MAX)
    }

    /// Examines the target if it is time to, for viewers; returns new findings. It never waits.
    pub(super) fn renew(&self, look: impl Fn(f64) -> Look) -> Option<Arc<Findings>> {
        let mut former = match self.former.try_lock() {
            Ok(former) => former,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread examines it now.
            Err(TryLockError::WouldBlock) => return None,
        };
        let now_s = self.now_s();
        let is_recent = |former: &Moment| now_s - former.at_s <= LOOK_AGE_MAX.as_secs_f64();
        let is_early = |former: &Moment| now_s - former.at_s < LOOK_AGE_MIN.as_secs_f64();
        former.look = former.look.take().filter(is_recent);
        // A large target is looked at less often, so that this takes a hundredth of a processor.
        let pause = (former.took * 100).clamp(FINDINGS_INTERVAL, LOOK_AGE_MAX / 2);
        if former.look.as_ref().is_some_and(is_early) || self.found_within(pause).is_some() {
            return None;
        }
        let findings = match look(now_s).read() {
            Ok(now) => {
                let findings =
                    former.look.as_ref().map(|former| self.keep(Findings::of(former, &now), now_s));
                former.look = Some(now);
                findings
            }
            Err(reason) => Some(self.keep(Findings::unread(&reason), now_s)),
        };
        former.took = Duration::try_from_secs_f64(self.now_s() - now_s).unwrap_or_default();
        findings
    }

    /// Current findings for a single request: those of the last seconds, or those of two looks a
    /// second apart.
    pub(super) fn examine(&self, look: impl Fn(f64) -> Look) -> Arc<Findings> {
        let former = lock(&self.former);
        // The previous holder of the lock may just have examined it.
        if let Some(found) = self.found_within(FINDINGS_INTERVAL) {
            return found;
        }
        let first = look(self.now_s()).read();
        thread::sleep(LOOK_AGE_MIN);
        let now_s = self.now_s();
        let both = first.and_then(|first| Ok((first, look(now_s).read()?)));
        let findings = match both {
            Ok((first, second)) => Findings::of(&first, &second),
            Err(reason) => Findings::unread(&reason),
        };
        let found = self.keep(findings, now_s);
        drop(former);
        found
    }

    /// Drops the last look, which takes as much memory as the metrics, since there will be no
    /// second one to compare with.
    pub(super) fn rest(&self) {
        if let Ok(mut former) = self.former.try_lock() {
            former.look = None;
        }
    }

    fn keep(&self, findings: Findings, at_s: f64) -> Arc<Findings> {
        let findings = Arc::new(findings);
        *lock(&self.found) = Some(Found { at_s, findings: findings.clone() });
        findings
    }

    fn found_within(&self, age_max: Duration) -> Option<Arc<Findings>> {
        let found = lock(&self.found).clone()?;
        (self.now_s() - found.at_s < age_max.as_secs_f64()).then_some(found.findings)
    }

    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
