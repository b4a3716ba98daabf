//! The board of published sweeps: the last ones of each caller. It keeps out their content and the
//! routes to it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::super::access::Identity;
use super::super::limits::{SWEEPS_MAX, SWEEPS_PER_CALLER_MAX};
use super::super::refusal::Refusal;
use super::sweep_body::{Along, SweepBody, SweepPoint, SweepState};

/// All of them.
#[derive(Debug, Default)]
pub(in crate::control) struct SweepBoard {
    notes: Mutex<Vec<Note>>,
}

/// A sweep as last published.
#[derive(Debug)]
struct Note {
    subsystem: String,
    name: String,
    /// Owner of the sweep; other callers cannot replace it.
    owner: Identity,
    heard: Instant,
    heard_s: u64,
    body: SweepBody,
}

/// Name and owner of a sweep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Title<'a> {
    pub(super) subsystem: &'a str,
    pub(super) name: &'a str,
    pub(super) owner: &'a Identity,
}

/// State of a sweep, including that its reports have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "HeardSweepState")]
pub(super) enum HeardState {
    Running,
    /// No report within the time it had announced: the sweep may be killed, or cut off.
    Silent,
    Complete,
    Interrupted,
    Failed,
}

/// A sweep without its points.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "SweepProgress")]
pub(super) struct Progress {
    pub(super) name: String,
    pub(super) subsystem: String,
    nsid: u32,
    /// The machine that measures, as it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    /// Start of the sweep, as RFC 3339, by the clock of the machine that measures.
    began: String,
    pub(super) state: HeardState,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Time of the last report, in seconds since 1970, by this target's clock.
    heard_s: u64,
    /// Measurements that are made, those among them that failed, and all that are planned.
    done: u32,
    failed: u32,
    planned: u32,
    /// Estimate of the remaining time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_s: Option<f64>,
    /// The point that is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    measuring: Option<String>,
}

/// A sweep with its points.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Sweep")]
pub(in crate::control) struct PublishedSweep {
    #[serde(flatten)]
    pub(super) progress: Progress,
    /// Number on the horizontal axis of the sweep's charts.
    along: Along,
    /// The points that have been measured.
    pub(super) points: Vec<SweepPoint>,
    /// Measured points beyond those in `points`.
    points_omitted: u32,
}

impl Note {
    fn is_of(&self, subsystem: &str, name: &str) -> bool {
        self.subsystem == subsystem && self.name == name
    }

    fn state(&self, now: Instant) -> HeardState {
        match self.body.state {
            SweepState::Running => {
                let quiet = Duration::try_from_secs_f64(self.body.quiet_s).unwrap_or(Duration::MAX);
                let is_late = now.saturating_duration_since(self.heard) > quiet;
                if is_late { HeardState::Silent } else { HeardState::Running }
            }
            SweepState::Complete => HeardState::Complete,
            SweepState::Interrupted => HeardState::Interrupted,
            SweepState::Failed => HeardState::Failed,
        }
    }

    fn is_running(&self, now: Instant) -> bool {
        self.state(now) == HeardState::Running
    }

    fn progress(&self, now: Instant) -> Progress {
        let body = &self.body;
        Progress {
            name: self.name.clone(),
            subsystem: self.subsystem.clone(),
            nsid: body.nsid,
            machine: body.machine.clone(),
            began: body.began.clone(),
            state: self.state(now),
            reason: body.reason.clone(),
            heard_s: self.heard_s,
            done: body.done,
            failed: body.failed,
            planned: body.planned,
            left_s: body.left_s,
            measuring: body.measuring.clone(),
        }
    }
}

impl SweepBoard {
    /// Keeps what a sweep tells; whether it was not known before.
    pub(super) fn publish(&self, title: Title<'_>, body: SweepBody, now: Instant) -> Result<bool, Refusal> {
        let mut notes = self.lock();
        let heard_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if let Some(known) = notes.iter_mut().find(|note| note.is_of(title.subsystem, title.name)) {
            known.check(title, &body, now)?;
            let is_new = known.body.began != body.began;
            (known.body, known.heard, known.heard_s) = (body, now, heard_s);
            return Ok(is_new);
        }
        make_room(&mut notes, title.owner, now)?;
        notes.push(Note {
            subsystem: title.subsystem.to_owned(),
            name: title.name.to_owned(),
            owner: title.owner.clone(),
            heard: now,
            heard_s,
            body,
        });
        Ok(true)
    }

    /// All, the one that was heard of last first.
    pub(super) fn list(&self, now: Instant) -> Vec<Progress> {
        let mut notes = self.lock();
        notes.sort_by_key(|note| std::cmp::Reverse(note.heard));
        notes.iter().map(|note| note.progress(now)).collect()
    }

    /// Returns one sweep with its points.
    pub(super) fn get(&self, subsystem: &str, name: &str, now: Instant) -> Option<PublishedSweep> {
        let notes = self.lock();
        let note = notes.iter().find(|note| note.is_of(subsystem, name))?;
        let body = &note.body;
        let (points, points_omitted) = (body.points.clone(), body.points_omitted);
        Some(PublishedSweep { progress: note.progress(now), along: body.along, points, points_omitted })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Note>> {
        // Notes are put in whole; a thread that panicked in between has left nothing half.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Note {
    /// Refuses a replacement by another caller, or by another sweep while this one runs.
    fn check(&self, title: Title<'_>, body: &SweepBody, now: Instant) -> Result<(), Refusal> {
        let hint = "publish it by another name: --publish=NAME";
        if self.owner != *title.owner {
            let what = format!("a sweep {} of another caller is published here", self.name);
            return Err(Refusal::conflict(what).hint(hint));
        }
        if self.is_running(now) && self.body.began != body.began {
            let what = format!("another sweep {} runs, which began at {}", self.name, self.body.began);
            return Err(Refusal::conflict(what).hint(hint));
        }
        Ok(())
    }
}

/// Drops the sweep that has to go for one more of this caller: first an ended one of its own, then
/// one of the caller with most sweeps. Running sweeps stay.
fn make_room(notes: &mut Vec<Note>, owner: &Identity, now: Instant) -> Result<(), Refusal> {
    let count = |notes: &[Note], of: &Identity| notes.iter().filter(|note| note.owner == *of).count();
    let oldest = |notes: &[Note], may_go: &dyn Fn(&Note) -> bool| {
        let ended = notes.iter().enumerate().filter(|(_, note)| !note.is_running(now) && may_go(note));
        ended.min_by_key(|(_, note)| note.heard).map(|(at, _)| at)
    };
    let full = |most: usize, whose: &str| {
        let what = format!("{most} sweeps{whose} run at this target already");
        Refusal::new(503, what).hint("publish it when one of them has ended")
    };
    if count(notes, owner) >= SWEEPS_PER_CALLER_MAX {
        let own = oldest(notes, &|note| note.owner == *owner);
        let at = own.ok_or_else(|| full(SWEEPS_PER_CALLER_MAX, " of yours"))?;
        notes.remove(at);
    } else if notes.len() >= SWEEPS_MAX {
        let ended = notes.iter().filter(|note| !note.is_running(now));
        let most = ended.map(|note| count(notes, &note.owner)).max().unwrap_or_default();
        let at = oldest(notes, &|note| count(notes, &note.owner) == most);
        notes.remove(at.ok_or_else(|| full(SWEEPS_MAX, ""))?);
    }
    Ok(())
}
