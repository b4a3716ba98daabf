//! Bringing lost controllers to rest: a write whose answer was lost may still be at work in its old controller, and must
//! not be sent again before it can no longer take effect. Either another controller resets the old one (Cross-Controller
//! Reset, TP8028), or its keep alive and command quiesce times (TP4129) have passed. The same is done for the controllers of
//! an earlier process. What waits for it is known to `PathQueues`.

use std::sync::Arc;
use std::time::Duration;

use nvme::Status;
use nvme::cross_reset::{ControllerInstance, IMMEDIATE_RESET_SUCCESSFUL};
use nvme::log_page::{CROSS_RESET_REMOVE_COMPLETED, CrossResetLog, CrossResetStatus, LogPageId};

use super::controller_record::ControllerRecord;
use super::quiescing::{Of, Quiescing};
use super::shared::{Shared, lock};
use crate::initiator::{Controller, InitiatorError};
use crate::ring::{self, Moment};

/// Time for which a controller may keep us waiting for its answer to a reset of another one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which a log page is read without an event: an event may have been lost with its
/// controller.
const LOG_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes of the log page that are read: more entries than any host has controllers here.
const LOG_LENGTH: usize = 4096;

/// Begins with an association that was lost.
pub(super) fn begin(shared: &Shared, path: usize, association: u64, controller: &Controller) {
    if !shared.options.quiesce {
        shared.paths[path].lay_to_rest(association);
        shared.is_at_rest(&ControllerRecord::of(controller));
        shared.changed();
        return;
    }
    add(shared, Of::Path(path, association), ControllerRecord::of(controller));
}

/// Begins with controllers of an earlier process, which has ended.
pub(super) fn begin_left(shared: &Shared, left_controllers: &[ControllerRecord]) {
    if shared.options.quiesce {
        left_controllers.iter().for_each(|record| add(shared, Of::EarlierProcess, record.clone()));
    }
}

fn add(shared: &Shared, of: Of, record: ControllerRecord) {
    let (host, unknown) = (&shared.options.paths[0], shared.options.unknown_quiesce);
    let quiescing = Quiescing::new(of, record, host, unknown, ring::now());
    let mut all = lock(&shared.quiescing);
    if of == Of::EarlierProcess {
        shared.hold_for_left_controllers(true);
    }
    // On the list before the notification: the thread that wakes must find it.
    all.push(quiescing);
    drop(all);
    if of == Of::EarlierProcess { shared.changed() } else { shared.event_count.notify_all() }
}

/// Brings what is lost to rest, until the set ends.
pub(super) fn serve(shared: &Arc<Shared>) {
    while !shared.is_stopping() {
        let seen = shared.event_count.count();
        let mut wait = Duration::from_secs(60);
        let count = lock(&shared.quiescing).len();
        for at in 0..count {
            if let Some(again) = attend(shared, at) {
                wait = wait.min(again);
            }
        }
        // After all were looked at: one that is quiesced may have kept a later one of its path waiting.
        finish(shared);
        // With the count from before the round: a notification meanwhile ends the wait at once.
        shared.event_count.wait(seen, wait);
    }
}

/// Does what can be done for one of them now, and says when to look again. New ones are added behind it meanwhile, and
/// only this thread takes any away.
fn attend(shared: &Arc<Shared>, at: usize) -> Option<Duration> {
    let now = ring::now();
    let (of, address, instance) = {
        let mut all = lock(&shared.quiescing);
        let one = all.get_mut(at)?;
        // The time counts from when the last thread has closed its queues: until then this host may still have commands sent.
        if let Of::Path(path, association) = one.of
            && one.left_at.is_none()
            && shared.paths[path].is_left(association)
        {
            one.left_at = Some(now);
        }
        // It may still have to wait for an older one of its path, and there is nothing to be done for it meanwhile.
        if one.is_over(now) {
            return None;
        }
        one.forget_the_busy(now);
        (one.of, one.record.address, one.record.instance())
    };
    // A helper is asked before the logs are followed: one that only seems to reset costs a second, not the whole time.
    if lock(&shared.quiescing)[at].may_ask(now)
        && let Some((helper, of_helper, controller)) = helper_for(shared, at)
    {
        // Recorded before it is asked: the reset may succeed, and its log entry be read and removed by the thread that received
        // the event, before the reply is looked at here.
        {
            let mut all = lock(&shared.quiescing);
            all[at].resetting.push((helper, of_helper));
            all[at].asked_at = now;
        }
        let outcome = ask(&controller, instance);
        let mut all = lock(&shared.quiescing);
        let one = &mut all[at];
        match outcome {
            Ok(true) => {
                tracing::info!(%address, ?of, "lost controller quiesced by a cross-controller reset");
                one.has_ended(now);
            }
            Ok(false) => one.asked_at = ring::now(),
            Err(error) if is_busy(&error) => one.ask_again(helper, ring::now()),
            Err(error) => {
                tracing::info!(address = %controller.address(), %error, "cross-controller reset failed");
                one.give_up(helper);
            }
        }
        return Some(Duration::ZERO);
    }
    if !lock(&shared.quiescing)[at].resetting.is_empty() {
        follow(shared, at, now);
        return Some(LOG_INTERVAL);
    }
    lock(&shared.quiescing)[at].wait(now)
}

/// True if a controller may take the reset later: it has as many in progress as it can, or is at
/// this one still. Where the lost controller has gone, that answers only when its last commands
/// have ended.
fn is_busy(error: &InitiatorError) -> bool {
    match error {
        InitiatorError::TimedOut { .. } => true,
        InitiatorError::CommandFailed { status, .. } => matches!(
            status.without_flags(),
            Status::CROSS_CONTROLLER_RESET_IN_PROGRESS | Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED
        ),
        _ => false,
    }
}

/// Looks how far the resets have come that paths were asked for.
fn follow(shared: &Arc<Shared>, at: usize, now: Moment) {
    let (resetting, due) = {
        let mut all = lock(&shared.quiescing);
        let due = now.since(all[at].read_at) >= LOG_INTERVAL;
        if due {
            all[at].read_at = now;
        }
        (all[at].resetting.clone(), due)
    };
    for (helper, of) in resetting {
        let path = &shared.paths[helper];
        let controller = path.details().controller.clone().filter(|_| path.live() == of);
        let is_well = match controller {
            Some(controller) if due => read_log(shared, helper, &controller).is_ok(),
            controller => controller.is_some(),
        };
        if !is_well {
            lock(&shared.quiescing)[at].give_up(helper);
        }
    }
}

/// A live controller that can be asked for the reset and was not yet.
fn helper_for(shared: &Arc<Shared>, at: usize) -> Option<(usize, u64, Controller)> {
    let asked = {
        let all = lock(&shared.quiescing);
        [&all[at].asked[..], &all[at].busy, &all[at].resetting].concat()
    };
    shared.paths.iter().enumerate().find_map(|(index, path)| {
        let details = path.details();
        let controller = details.controller.as_ref().filter(|_| path.live() == details.association)?;
        let can = controller.identify().cross_controller_reset_limit > 0;
        (can && !asked.contains(&(index, details.association)))
            .then(|| (index, details.association, controller.clone()))
    })
}

/// Asks `controller` to reset another one: whether that is at rest already.
fn ask(controller: &Controller, instance: ControllerInstance) -> Result<bool, InitiatorError> {
    let reply = controller.admin_within(instance.encode_reset(), ANSWER_TIMEOUT)?;
    let reply = reply.success("Cross-Controller Reset")?;
    Ok(reply.result & IMMEDIATE_RESET_SUCCESSFUL != 0)
}

/// Reads which resets the controller of path `helper` has finished.
pub(super) fn read_log(
    shared: &Shared,
    helper: usize,
    controller: &Controller,
) -> Result<(), InitiatorError> {
    const WHAT: &str = "Get Log Page (Cross-Controller Reset)";
    let page = controller.read_log_with(
        LogPageId::CROSS_CONTROLLER_RESET,
        CROSS_RESET_REMOVE_COMPLETED,
        LOG_LENGTH,
    )?;
    let log = CrossResetLog::parse(&page)
        .map_err(|error| InitiatorError::BadAnswer { what: WHAT, reason: error.to_string() })?;
    let now = ring::now();
    let mut all = lock(&shared.quiescing);
    for entry in &log.entries {
        let named = (entry.impacted_controller_id.get(), entry.uniquifier);
        let of = all.iter_mut().filter(|one| one.resetting.iter().any(|(path, _)| *path == helper));
        for one in of.filter(|one| (one.record.controller_id, one.record.uniquifier) == named) {
            match entry.status() {
                Some(CrossResetStatus::Successful) => one.has_ended(now),
                Some(CrossResetStatus::InProgress) => {}
                _ => one.give_up(helper),
            }
        }
    }
    drop(all);
    shared.event_count.notify_all();
    Ok(())
}

/// Lets go what is quiesced. Associations of a path do so in order: a path knows only up to which association its commands
/// can no longer take effect, and a later one must not vouch for an earlier one.
fn finish(shared: &Shared) {
    let now = ring::now();
    let mut all = lock(&shared.quiescing);
    for (index, path) in shared.paths.iter().enumerate() {
        let of_path = all.iter().filter_map(|one| match one.of {
            Of::Path(of, association) if of == index => Some((association, one.is_over(now))),
            _ => None,
        });
        let blocked =
            of_path.clone().filter(|(_, is_over)| !is_over).map(|(association, _)| association).min();
        let rested = of_path.filter(|(_, is_over)| *is_over).map(|(association, _)| association);
        if let Some(rested) = rested.filter(|rested| blocked.is_none_or(|blocked| *rested < blocked)).max() {
            path.lay_to_rest(rested);
        }
    }
    let is_at_rest = |one: &mut Quiescing| match one.of {
        Of::Path(path, association) => shared.paths[path].is_at_rest(association),
        Of::EarlierProcess => one.is_over(now),
    };
    let rested: Vec<Quiescing> = all.extract_if(.., is_at_rest).collect();
    if !all.iter().any(|one| one.of == Of::EarlierProcess) {
        shared.hold_for_left_controllers(false);
    }
    drop(all);
    let goes_on = shared.end_hold_of_writes();
    if goes_on || !rested.is_empty() {
        shared.changed();
        rested.iter().for_each(|one| shared.is_at_rest(&one.record));
    }
}
