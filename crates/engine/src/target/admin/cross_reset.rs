//! Cross-Controller Reset (TP8028): a host that has lost its path to one of its controllers has
//! another controller reset it, and learns when no command of the lost controller can still take
//! effect. A fence determines that; for a controller of another target, the gateway does. This
//! module checks the request and keeps the log.

use std::sync::Arc;

use nvme::cross_reset::ControllerInstance;
use nvme::{Status, SubmissionEntry};

use super::answer::Answer;
use crate::target::controller::Controller;
use crate::target::fabric::Fabric;
use crate::target::messaging::{Asker, CrossReset, Fenced, LostController, PeerReset, PeerResets, Then};

/// Answers a Cross-Controller Reset command that came to `asked`.
pub(crate) fn answer(
    entry: &SubmissionEntry,
    asked: &Arc<Controller>,
    fabric: &Arc<Fabric>,
    asker: &Asker,
) -> Answer {
    let impacted = ControllerInstance::decode(entry);
    let invalid = Status::INVALID_FIELD.do_not_retry();
    if !fabric.has_made(&impacted) {
        return ask_peers(impacted, asked, fabric).into();
    }
    if impacted.controller_id == asked.id {
        return invalid.into();
    }
    let is_meant = |known: &Arc<Controller>| known.instance.random_number == impacted.random_number;
    let controller = fabric.controller_or_ending(impacted.controller_id).filter(is_meant);
    let may_ask = |known: &Arc<Controller>| {
        known.instance == impacted
            && known.host == asked.host
            && Arc::ptr_eq(&known.subsystem, &asked.subsystem)
    };
    if let Some(known) = controller.as_ref().filter(|known| !may_ask(known)) {
        let (host, subsystem, owner) = (asker.host(asked), &known.subsystem.nqn, &known.host.nqn);
        tracing::warn!(%host, subsystem, "Refused to reset controller {}: it is one of {owner}", known.id);
        return invalid.into();
    }
    let living = controller.filter(|known| !known.has_ended());
    let begun = asked.state().cross_resets.begin(impacted, asked.id, living.is_some());
    if let Err(status) = begun {
        return status.into();
    }
    let raise = |command| {
        let reset = CrossReset { asked: asked.clone(), impacted, command };
        fabric.mailboxes().raise(Fenced::Controller(impacted), Then::Reset(reset));
    };
    let Some(controller) = living else {
        // It is gone, but the storage may still work for it.
        raise(Some((asker.address(), asker.command_id)));
        return Answer::Held;
    };
    tracing::warn!(
        controller = controller.id,
        asked = asked.id,
        host = controller.host.nqn,
        "a controller is reset because its host asked another one for it"
    );
    fabric.end_controller(&controller);
    raise(None);
    Answer::Status(Status::SUCCESS, 0)
}

/// Ends a controller whose host asked another target for that. `at_rest` is called when nothing of it can still take
/// effect. Whether it is one that was made here, and this host's as far as that is still known.
pub(crate) fn answer_peer(
    lost: &LostController,
    fabric: &Fabric,
    at_rest: impl Fn() + Send + Sync + 'static,
) -> bool {
    if !fabric.has_made(&lost.instance) {
        return false;
    }
    let known = fabric.controller_or_ending(lost.instance.controller_id);
    if let Some(controller) = known.filter(|known| known.instance == lost.instance) {
        if !lost.is_of(&controller) {
            return false;
        }
        tracing::warn!(
            controller = controller.id,
            host = controller.host.nqn,
            "a controller is reset because its host asked another target for it"
        );
        fabric.end_controller(&controller);
    }
    fabric.mailboxes().raise(Fenced::Controller(lost.instance), Then::Tell(Box::new(at_rest)));
    true
}

/// Passes a reset on to the target that has the controller. The result reaches the host by the log
/// in any case, because the gateway has to ask other targets first.
fn ask_peers(impacted: ControllerInstance, asked: &Arc<Controller>, fabric: &Arc<Fabric>) -> Status {
    // Without anybody who knows of other targets, hosts have to wait for as long as that one promised.
    let peers = fabric.peer_resets().filter(|_| impacted.random_number != 0);
    let Some(PeerResets(peers)) = peers else { return Status::INVALID_FIELD.do_not_retry() };
    if let Err(status) = asked.state().cross_resets.begin(impacted, asked.id, true) {
        return status;
    }
    if !peers(PeerReset::new(asked.clone(), impacted, fabric.mailboxes().clone())) {
        asked.state().cross_resets.take_back(&impacted);
        return Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED;
    }
    Status::SUCCESS
}
