//! Fabrics commands of an admin queue: Property Get and Set, which drive a controller's state. What a configuration does is
//! the controller's.

use std::sync::Arc;

use nvme::fabrics::{Capabilities, PropertyAccess, VERSION_2_0, fabrics_type, property};
use nvme::{Status, SubmissionEntry};

use super::answer::Answer;
use crate::limits::{ADMIN_QUEUE_ENTRIES_MAX, CONTROLLER_QUIESCE_MS_MAX, QUEUE_ENTRIES_MAX};
use crate::target::controller::{Controller, Quiesce};
use crate::target::fabric::Fabric;

/// Longest time until a controller is ready or reset, in units of 500 ms (CAP.TO). A controller is
/// ready at once; its reset is complete with its last command, which can take longer than the host
/// waits for the command itself.
const READY_TIMEOUT_500MS: u8 = (CONTROLLER_QUIESCE_MS_MAX / 500) as u8;

/// Answers a Fabrics command on an admin queue; true if the command resets the controller.
pub(super) fn answer(
    entry: &SubmissionEntry,
    controller: &Arc<Controller>,
    fabric: &Fabric,
) -> (Answer, bool) {
    let answer = match entry.fabrics_type() {
        fabrics_type::PROPERTY_GET => get_property(entry, controller),
        fabrics_type::PROPERTY_SET => match set_property(entry, controller) {
            Ok((is_reset, begun)) => {
                // After the controller is no longer ready: a command that begins behind the fence would outlive the reset.
                if let Some(quiesce) = begun {
                    fabric.quiesce(controller, quiesce);
                }
                return (Status::SUCCESS.into(), is_reset);
            }
            Err(status) => status.into(),
        },
        fabrics_type::CONNECT => Status::COMMAND_SEQUENCE_ERROR.do_not_retry().into(),
        fabrics_type::DISCONNECT => Status::INVALID_QUEUE_TYPE.do_not_retry().into(),
        _ => Status::INVALID_OPCODE.do_not_retry().into(),
    };
    (answer, false)
}

fn get_property(entry: &SubmissionEntry, controller: &Controller) -> Answer {
    let access = match PropertyAccess::decode(entry) {
        Ok(access) => access,
        Err(status) => return status.into(),
    };
    let state = controller.state();
    let value = match (access.offset, access.wide) {
        (property::CAPABILITIES, true) => {
            let entries =
                if controller.subsystem.is_discovery { ADMIN_QUEUE_ENTRIES_MAX } else { QUEUE_ENTRIES_MAX };
            Capabilities::new(entries, READY_TIMEOUT_500MS).0
        }
        (property::VERSION, false) => u64::from(VERSION_2_0),
        (property::CONFIGURATION, false) => u64::from(state.configuration),
        (property::STATUS, false) => u64::from(state.status),
        // Controller Ready With Media Timeout, as long as CAP.TO.
        (property::READY_TIMEOUTS, false) => u64::from(READY_TIMEOUT_500MS),
        _ => return Status::INVALID_FIELD.do_not_retry().into(),
    };
    Answer::Status(Status::SUCCESS, value)
}

/// Sets a property; the effect is that of [`Controller::configure`].
fn set_property(entry: &SubmissionEntry, controller: &Controller) -> Result<(bool, Option<Quiesce>), Status> {
    let access = PropertyAccess::decode(entry)?;
    match (access.offset, access.wide) {
        (property::CONFIGURATION, false) => Ok(controller.configure(access.value as u32)),
        _ => Err(Status::INVALID_FIELD.do_not_retry()),
    }
}
