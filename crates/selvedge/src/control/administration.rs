//! The one owner of what is served: every change, by whomever it is asked for, is checked, put into effect and kept
//! here, one after the other. What is kept on disk is always what was served before a change or after it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::target::{Change, FabricConfig, Metrics, Target, TargetStatus};

use super::guard::{self, Permissions};
use super::refusal::Refusal;
use crate::state::{Prepared, StateFile};

/// What is served, and where that is kept.
#[derive(Debug)]
pub(crate) struct Administration {
    target: Arc<Target>,
    /// Whoever holds this may change what is served.
    state: Mutex<Option<StateFile>>,
}

impl Administration {
    /// Administers `target`. With a state file, what is served now is kept from here on.
    pub(crate) fn new(target: Arc<Target>, state: Option<StateFile>) -> io::Result<Self> {
        if let Some(state) = &state {
            state.write(&target.config())?;
        }
        Ok(Self { target, state: Mutex::new(state) })
    }

    /// What is served now.
    pub(crate) fn fabric(&self) -> FabricConfig {
        self.target.config()
    }

    /// Who is connected, and where.
    pub(crate) fn status(&self) -> TargetStatus {
        self.target.status()
    }

    /// What was done.
    pub(crate) fn metrics(&self) -> Metrics {
        self.target.metrics()
    }

    /// Ends a controller; whether there was one.
    pub(crate) fn reset_controller(&self, cntlid: u16) -> bool {
        self.target.reset_controller(cntlid)
    }

    /// What `edit` would change, without changing it.
    pub(crate) fn rehearse(
        &self,
        permissions: Permissions,
        edit: impl FnOnce(&mut FabricConfig) -> Result<(), Refusal>,
    ) -> Result<Vec<Change>, Refusal> {
        let before = self.fabric();
        let mut wanted = before.clone();
        edit(&mut wanted)?;
        guard::check(&before, &wanted, permissions)?;
        wanted.check()?;
        Ok(before.changes_to(&wanted))
    }

    /// Changes what is served as `edit` says, and keeps it. Nothing is changed by an error.
    pub(crate) fn change<T>(
        &self,
        permissions: Permissions,
        edit: impl FnOnce(&mut FabricConfig) -> Result<T, Refusal>,
    ) -> Result<(T, Vec<Change>), Refusal> {
        let state = self.lock();
        let before = self.fabric();
        let mut wanted = before.clone();
        let outcome = edit(&mut wanted)?;
        if wanted == before {
            return Ok((outcome, Vec::new()));
        }
        guard::check(&before, &wanted, permissions)?;
        wanted.check()?;
        // The state is written first and counts last: a full disk is found out before anything is in effect, and
        // whoever cuts the power in between finds the state from before.
        let prepared = match &*state {
            Some(state) => Some(state.prepare(&wanted).map_err(|error| Refusal::not_kept(&error))?),
            None => None,
        };
        let changes = self.target.apply(&wanted)?;
        let kept = self.keep(state.as_ref(), prepared, &wanted);
        if let Err(error) = kept {
            tracing::error!(%error, "the state could not be written; what was served before is served again");
            if let Err(error) = self.target.apply(&before) {
                tracing::error!(%error, "what was served before cannot be served again");
            }
            return Err(Refusal::not_kept(&error));
        }
        for change in &changes {
            tracing::info!(%change, "the configuration changed");
        }
        Ok((outcome, changes))
    }

    fn keep(
        &self,
        state: Option<&StateFile>,
        prepared: Option<Prepared<'_>>,
        wanted: &FabricConfig,
    ) -> io::Result<()> {
        let (Some(state), Some(prepared)) = (state, prepared) else { return Ok(()) };
        let served = self.fabric();
        // A free service that was asked for has become a real one, and hosts will look for that one.
        if served == *wanted {
            prepared.commit()
        } else {
            drop(prepared);
            state.write(&served)
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<StateFile>> {
        // A change that panicked has been applied and kept, or not; each question is asked of the target anew.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
