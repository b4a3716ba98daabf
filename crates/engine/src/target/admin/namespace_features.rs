//! Features of which each namespace has its own value: which reservation notifications its host wants, whether
//! reservations persist, and write protection. Features of the controller are in `features`.

use std::sync::Arc;

use nvme::Status;
use nvme::features::{FeatureId, GetFeatures, Select, SetFeatures, capabilities, value};

use super::answer::Answer;
use crate::target::config::WriteProtection;
use crate::target::controller::Controller;
use crate::target::fabric::Fabric;
use crate::target::lock::lock;
use crate::target::messaging::{Asker, HostRequest, Job, PendingRequest, Task};
use crate::target::served::Namespace;

/// The identifier that stands for every namespace.
const ALL_NAMESPACES: u32 = 0xffff_ffff;

/// All bits of the Reservation Notification Mask.
const MASK_ALL: u32 =
    value::MASK_REGISTRATION_PREEMPTED | value::MASK_RESERVATION_RELEASED | value::MASK_RESERVATION_PREEMPTED;

/// Capabilities of a feature; `None` if this target does not have it.
pub(crate) fn capability(id: FeatureId, fabric: &Fabric) -> Option<u32> {
    let changeable = match id {
        FeatureId::RESERVATION_NOTIFICATION_MASK => true,
        FeatureId::RESERVATION_PERSISTENCE => fabric.keeps_reservations(),
        // Write protection is a part of the configuration, which only its administrator changes.
        FeatureId::NAMESPACE_WRITE_PROTECTION => fabric.answers_requests(),
        _ => return None,
    };
    Some(capabilities::NAMESPACE_SPECIFIC | if changeable { capabilities::CHANGEABLE } else { 0 })
}

/// The same of one namespace, as the host of this controller may use it.
pub(crate) fn capability_of(
    id: FeatureId,
    nsid: u32,
    controller: &Controller,
    fabric: &Fabric,
) -> Option<u32> {
    let all = capability(id, fabric)?;
    if id != FeatureId::NAMESPACE_WRITE_PROTECTION || nsid == ALL_NAMESPACES {
        return Some(all);
    }
    let state = controller.subsystem.state();
    let config = state.configured(nsid);
    let host = controller.host.known();
    let may_change = config.is_some_and(|config| host.check_protection_change(config).is_ok());
    Some(if may_change { all } else { all & !capabilities::CHANGEABLE })
}

/// Answers Get Features of one namespace.
pub(crate) fn get(request: &GetFeatures, nsid: u32, controller: &Controller) -> Answer {
    if nsid == ALL_NAMESPACES {
        return Status::INVALID_FIELD.do_not_retry().into();
    }
    let table = controller.table();
    let Some(namespace) = table.get(nsid) else { return Status::INVALID_NAMESPACE.do_not_retry().into() };
    if let Some(status) = table.refusal(nsid) {
        return status.into();
    }
    let current = request.select == Select::Current;
    let result = match request.id {
        // Nothing is masked, kept or protected by default.
        _ if !current => 0,
        FeatureId::RESERVATION_NOTIFICATION_MASK => controller.state().features.reservation_mask(nsid),
        FeatureId::RESERVATION_PERSISTENCE if lock(&namespace.reservations).persists() => {
            value::PERSIST_THROUGH_POWER_LOSS
        }
        FeatureId::NAMESPACE_WRITE_PROTECTION => match namespace.protection() {
            WriteProtection::None => value::WRITE_PROTECTION_NONE,
            WriteProtection::On => value::WRITE_PROTECTION_ON,
            WriteProtection::UntilRestart => value::WRITE_PROTECTION_UNTIL_POWER_CYCLE,
            WriteProtection::Permanent => value::WRITE_PROTECTION_PERMANENT,
        },
        _ => 0,
    };
    Answer::Status(Status::SUCCESS, u64::from(result))
}

/// Answers Set Features of one namespace, or of all that the host sees.
pub(crate) fn set(
    request: &SetFeatures,
    nsid: u32,
    controller: &Arc<Controller>,
    fabric: &Fabric,
    asker: Asker,
) -> Answer {
    let all = nsid == ALL_NAMESPACES && request.id != FeatureId::NAMESPACE_WRITE_PROTECTION;
    let table = controller.table();
    let concerned = table.attachments().filter(|attachment| all || attachment.namespace.nsid == nsid);
    let namespaces: Vec<Arc<Namespace>> = concerned.map(|attachment| attachment.namespace.clone()).collect();
    if namespaces.is_empty() && !all {
        return Status::INVALID_NAMESPACE.do_not_retry().into();
    }
    // A mask for all is the controller's own: a host that sets it once would have none where one of many groups is
    // inaccessible, as it always is at a gateway.
    let is_mask_of_all = all && request.id == FeatureId::RESERVATION_NOTIFICATION_MASK;
    if !is_mask_of_all && let Some(status) = table.refusal(nsid) {
        return status.into();
    }
    match request.id {
        FeatureId::RESERVATION_NOTIFICATION_MASK => {
            let nsids = namespaces.iter().map(|namespace| namespace.nsid);
            controller.state().features.set_reservation_masks(nsids, request.value & MASK_ALL);
            Status::SUCCESS.into()
        }
        FeatureId::RESERVATION_PERSISTENCE if controller.host.is_nameless() => {
            Status::HOST_ID_NOT_INITIALIZED.do_not_retry().into()
        }
        FeatureId::RESERVATION_PERSISTENCE => {
            let persists = request.value & value::PERSIST_THROUGH_POWER_LOSS != 0;
            let (changes, task) = (namespaces.len(), Task::Persistence { namespaces, persists });
            let hand = |share| {
                let job = Job { controller: controller.clone(), asker, task, share };
                fabric.change_reservations(changes, controller, || fabric.reservation_jobs.hand(job))
            };
            held(fabric.shares.reservations.take(&controller.guest).and_then(hand))
        }
        FeatureId::NAMESPACE_WRITE_PROTECTION => match namespaces.first() {
            Some(namespace) => protect(request.value, namespace, controller, fabric, asker),
            None => Status::INVALID_NAMESPACE.do_not_retry().into(),
        },
        _ => Status::INVALID_FIELD.do_not_retry().into(),
    }
}

fn protect(
    wanted: u32,
    namespace: &Namespace,
    controller: &Controller,
    fabric: &Fabric,
    asker: Asker,
) -> Answer {
    let protection = match wanted & value::WRITE_PROTECTION_MASK {
        value::WRITE_PROTECTION_NONE => WriteProtection::None,
        value::WRITE_PROTECTION_ON => WriteProtection::On,
        value::WRITE_PROTECTION_UNTIL_POWER_CYCLE => WriteProtection::UntilRestart,
        value::WRITE_PROTECTION_PERMANENT => WriteProtection::Permanent,
        _ => return Status::INVALID_FIELD.do_not_retry().into(),
    };
    // Whether this host may have it is seen to where it is changed.
    let (nqn, nsid) = (controller.subsystem.nqn.clone(), namespace.nsid);
    let request = HostRequest::Protect { nqn, nsid, protection };
    let share = fabric.shares.requests.take(&controller.guest);
    held(share.and_then(|share| {
        let request = PendingRequest::new(request, controller, asker, share);
        fabric.change_namespace(controller, || fabric.ask(request))
    }))
}

/// The administration answers, if it has taken it.
fn held(taken: Result<(), Status>) -> Answer {
    match taken {
        Ok(()) => Answer::Held,
        Err(status) => status.into(),
    }
}
