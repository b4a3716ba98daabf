//! The thread that monitors one path: connects it, listens to what its controller says, notices its loss, and connects it
//! again for as long as it may. Commands, and what becomes of those on a lost path, are not its concern.

use std::sync::Arc;
use std::time::Duration;

use nvme::Status;
use nvme::fabrics::InvalidParameter;
use nvme::features::AsyncEvent;
use nvme::log_page::{AnaState, LogPageId};

use super::controller_record::ControllerRecord;
use super::distance;
use super::identity;
use super::policy::{Access, IoPolicy};
use super::quiesce;
use super::shared::Shared;
use crate::initiator::{ConnectOptions, Controller, InitiatorError, NamespaceInfo};
use crate::limits::CONNECT_TIMEOUT_MS;
use crate::ring::{self, Moment};

/// Interval at which a monitor looks without a ring: it keeps a lost ring from costing a path.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// An attempt to connect again takes no longer than this or the time between attempts, whichever is longer: an address
/// that came back is not to be missed because an old attempt is still waiting in front of it.
const ATTEMPT_TIMEOUT_MIN: Duration = Duration::from_secs(2);
/// Time between two looks at an ANA state that is changing.
const CHANGE_INTERVAL: Duration = Duration::from_millis(500);

/// Connects path `index` and monitors it until the set ends or the path is given up.
pub(super) fn run(shared: &Arc<Shared>, index: usize) {
    let path = &shared.paths[index];
    let mut first = true;
    while !shared.is_stopping() {
        let error = match connect(shared, index, first) {
            Ok((controller, namespace, association)) => {
                shared.changed();
                let Some(error) = watch(shared, index, &controller, namespace, association) else {
                    if controller.shut_down() {
                        shared.is_at_rest(&ControllerRecord::of(&controller));
                    }
                    return;
                };
                shared.lose(index, association, error);
                quiesce::begin(shared, index, association, &controller);
                path.details().controller = None;
                controller.abandon();
                if !is_given_up(shared, index) {
                    // The first attempt to connect again follows at once.
                    first = false;
                    continue;
                }
                None
            }
            Err(error) => Some(error),
        };
        first = false;
        if let Some(error) = &error {
            match error {
                InitiatorError::PathDoubtful { .. } => tracing::warn!("{error}"),
                _ => tracing::debug!(address = %path.options.address, %error, "a path cannot be connected"),
            }
        }
        if error.as_ref().is_none_or(is_final) || is_given_up(shared, index) {
            path.give_up(error);
            shared.changed();
            return;
        }
        path.details().error = error;
        shared.changed();
        pause(shared, shared.options.reconnect_delay);
    }
}

/// True if the path has been lost for as long as it may.
fn is_given_up(shared: &Shared, index: usize) -> bool {
    let lost_at = shared.paths[index].details().lost_at;
    shared.options.controller_loss.is_some_and(|limit| ring::now().since(lost_at) >= limit)
}

/// True if another attempt is useless.
fn is_final(error: &InitiatorError) -> bool {
    match error {
        InitiatorError::PathRefused { .. }
        | InitiatorError::ApiMisuse(_)
        | InitiatorError::AuthenticationRequired { .. } => true,
        InitiatorError::Refused { queue_id, status, field, .. } => {
            // A queue number that is just being freed is refused in this way, and the number is not at fault.
            let is_freed = status.without_flags() == Status::COMMAND_SEQUENCE_ERROR;
            // The controller has ended since its admin queue was connected; Linux' target says so for good.
            let has_ended = *queue_id > 0 && *field == Some(InvalidParameter::CONTROLLER_ID);
            status.is_do_not_retry() && !is_freed && !has_ended
        }
        _ => false,
    }
}

/// Waits, unless the set ends.
fn pause(shared: &Shared, time: Duration) {
    let until = ring::now().after(time);
    loop {
        let seen = shared.event_count.count();
        let left = until.since(ring::now());
        if left.is_zero() || shared.is_stopping() {
            return;
        }
        shared.event_count.wait(seen, left);
    }
}

/// Connects a controller, and finds the namespace there.
fn connect(
    shared: &Arc<Shared>,
    index: usize,
    first: bool,
) -> Result<(Controller, NamespaceInfo, u64), InitiatorError> {
    let path = &shared.paths[index];
    let attempt = shared.options.reconnect_delay.max(ATTEMPT_TIMEOUT_MIN);
    let connect_timeout = if first {
        path.options.connect_timeout
    } else {
        attempt.min(Duration::from_millis(CONNECT_TIMEOUT_MS)).min(path.options.connect_timeout)
    };
    let options = ConnectOptions { connect_timeout, ..path.options.clone() };
    let controller = Controller::connect_with(options, Some(shared.event_count.clone()))?;
    if controller.io_queues() == 0 {
        let reason = "its controller grants no I/O queue".to_owned();
        return Err(InitiatorError::PathRefused { address: path.options.address, reason });
    }
    let namespace = controller.namespace(shared.options.nsid)?;
    let ana = identity::ana_state(&controller, &namespace)?;
    let Some(_guard) = shared.join_lock.acquire(|| shared.is_stopping()) else {
        return Err(InitiatorError::Disconnected { address: path.options.address });
    };
    shared.compare(&controller, &namespace)?;
    shared.recognize(index, &controller, &namespace, first)?;
    shared.agree(&controller, &namespace)?;
    if shared.options.policy == IoPolicy::Numa {
        path.set_distances(distance::distances(&path.options));
    }
    // What a thread may send as soon as it is live has to be known to a later process.
    if let Some(record_store) = &shared.options.record_store {
        let kept = record_store.save(&ControllerRecord::of(&controller));
        let address = path.options.address;
        kept.map_err(|error| InitiatorError::NotKept { address, reason: error.to_string() })?;
    }
    let association = path.revive(controller.clone(), ana);
    // No one may ask before it is lost again.
    shared.optional_nvm_commands();
    Ok((controller, namespace, association))
}

/// Listens to the controller until it is lost (and says why), or the set ends.
fn watch(
    shared: &Arc<Shared>,
    index: usize,
    controller: &Controller,
    mut namespace: NamespaceInfo,
    association: u64,
) -> Option<InitiatorError> {
    let path = &shared.paths[index];
    let mut known = path.ana();
    // Since when the ANA state is changing, and when that was asked for last.
    let mut changing: Option<(Moment, Moment)> = None;
    loop {
        let seen = shared.event_count.count();
        if shared.is_stopping() {
            return None;
        }
        if let Err(error) = controller.check() {
            return Some(error);
        }
        if path.live() != association {
            let error = path.details().error.clone();
            return Some(error.unwrap_or(InitiatorError::Disconnected { address: path.options.address }));
        }
        if let Err(error) = hear(shared, index, controller, &mut namespace, &mut known) {
            return Some(error);
        }
        let now = ring::now();
        let timeout = match (path.ana(), changing) {
            (Some(AnaState::Change), None) => {
                changing = Some((now, now));
                CHANGE_INTERVAL
            }
            // Bells ring for other reasons, too.
            (Some(AnaState::Change), Some((_, asked))) if now.since(asked) < CHANGE_INTERVAL => {
                asked.after(CHANGE_INTERVAL).since(now)
            }
            (Some(AnaState::Change), Some((since, _))) => {
                let limit = Duration::from_secs(controller.identify().ana_transition_time_s.max(1).into());
                if now.since(since) > limit {
                    let what = "the end of the namespace's ANA transition";
                    return Some(InitiatorError::TimedOut {
                        address: path.options.address,
                        what,
                        after: limit,
                    });
                }
                path.doubt_ana();
                changing = Some((since, now));
                continue;
            }
            _ => {
                changing = None;
                LOOK_INTERVAL
            }
        };
        shared.event_count.wait(seen, timeout);
    }
}

/// Takes in what the controller has to tell.
fn hear(
    shared: &Arc<Shared>,
    index: usize,
    controller: &Controller,
    namespace: &mut NamespaceInfo,
    known: &mut Option<AnaState>,
) -> Result<(), InitiatorError> {
    let path = &shared.paths[index];
    let events = controller.events();
    if events.contains(&AsyncEvent::CROSS_CONTROLLER_RESET_COMPLETED) {
        quiesce::read_log(shared, index, controller)?;
    }
    let has_changed = events.contains(&AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
    if has_changed {
        // Reading the list is what makes the controller report the next change.
        controller.log_page(LogPageId::CHANGED_NAMESPACES, 0, 0, 4096)?;
        *namespace = controller.namespace(shared.options.nsid)?;
        shared.agree(controller, namespace)?;
    }
    if has_changed || events.contains(&AsyncEvent::ANA_CHANGE) || path.doubts_ana() {
        let was_in_doubt = path.doubts_ana();
        let ana = identity::ana_state(controller, namespace)?;
        path.set_ana(ana);
        let is_new = known.replace(ana) != Some(ana);
        if is_new {
            tracing::info!(address = %path.options.address, ?ana, "ANA state");
        }
        // What is asked for again and again while it changes does not concern those who wait for its end.
        if is_new || (was_in_doubt && path.access() != Access::None) {
            shared.changed();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_good_ends_the_path_unless_only_its_controller_has_ended() {
        let invalid = Status::CONNECT_INVALID_PARAMETERS.do_not_retry();
        let (gone, name) = (Some(InvalidParameter::CONTROLLER_ID), Some(InvalidParameter::SUBSYSTEM_NQN));
        for (queue_id, status, field, expected) in [
            (0, invalid, name, true),
            (0, invalid, gone, true),
            (0, Status::CONNECT_CONTROLLER_BUSY, None, false),
            (1, invalid, Some(InvalidParameter::QUEUE_ID), true),
            (1, invalid, gone, false),
            (1, Status::CONNECT_INVALID_PARAMETERS, gone, false),
            (1, Status::COMMAND_SEQUENCE_ERROR.do_not_retry(), None, false),
        ] {
            let address = ([127, 0, 0, 1], 4420).into();
            let refused = InitiatorError::Refused { address, queue_id, status, field };
            assert_eq!(is_final(&refused), expected, "queue {queue_id}: {status:?} {field:?}");
        }
    }
}
