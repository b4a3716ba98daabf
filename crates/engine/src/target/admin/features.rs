//! Get and Set Features: what a host may turn on a controller, and what it finds there.
//! Values live in the controller's state and go back to their defaults with a reset. Features of which every namespace
//! has its own are in `namespace_features`.

use std::num::NonZero;
use std::sync::Arc;

use nvme::command::admin_opcode;
use nvme::features::{
    AsyncEventConfig, FeatureId, GetFeatures, HostBehavior, NumberOfQueues, Select, SetFeatures, Timestamp,
    capabilities, value,
};
use nvme::log_page::{FeaturesSupported, feature_effects};
use nvme::{Status, SubmissionEntry};
use zerocopy::{FromBytes, IntoBytes};

use super::answer::Answer;
use super::namespace_features;
use crate::limits::{DISCOVERY_KEEP_ALIVE_MS_MAX, KEEP_ALIVE_MS_DEFAULT};
use crate::ring::{self};
use crate::target::controller::{Controller, Features};
use crate::target::fabric::Fabric;
use crate::target::messaging::{Asker, Message};

/// Capabilities of a feature on controllers of this kind; `None` if they do not have it.
fn capability(id: FeatureId, is_discovery: bool) -> Option<u32> {
    let changeable = capabilities::CHANGEABLE;
    match id {
        FeatureId::ASYNC_EVENT_CONFIG | FeatureId::KEEP_ALIVE_TIMER => Some(changeable),
        FeatureId::HOST_IDENTIFIER => Some(0),
        _ if is_discovery => None,
        // It is there, but a namespace whose writes go to a file's cache needs it: it cannot be turned off.
        FeatureId::VOLATILE_WRITE_CACHE => Some(0),
        // There are no interrupts, and nothing to set. Hosts and test suites that know NVMe over PCIe ask all the same.
        FeatureId::INTERRUPT_COALESCING | FeatureId::INTERRUPT_VECTOR => Some(0),
        FeatureId::POWER_MANAGEMENT
        | FeatureId::ARBITRATION
        | FeatureId::TEMPERATURE_THRESHOLD
        | FeatureId::ERROR_RECOVERY
        | FeatureId::NUMBER_OF_QUEUES
        | FeatureId::WRITE_ATOMICITY
        | FeatureId::TIMESTAMP
        | FeatureId::HOST_BEHAVIOR => Some(changeable),
        _ => None,
    }
}

fn capability_of(id: FeatureId, controller: &Controller, fabric: &Fabric) -> Option<u32> {
    let is_discovery = controller.subsystem.is_discovery;
    capability(id, is_discovery).or_else(|| {
        let of_namespace = namespace_features::capability(id, fabric);
        of_namespace.filter(|_| !is_discovery)
    })
}

/// The features that the controller has, for the log page that lists them.
pub(crate) fn supported(controller: &Controller, fabric: &Fabric) -> FeaturesSupported {
    let mut log = FeaturesSupported::default();
    for id in (0..=u8::MAX).map(FeatureId) {
        if let Some(capability) = capability_of(id, controller, fabric) {
            let is_of_namespace = capability & capabilities::NAMESPACE_SPECIFIC != 0;
            let of_namespace = feature_effects::NAMESPACE_SCOPE;
            log.set(id, if is_of_namespace { of_namespace } else { feature_effects::CONTROLLER_SCOPE });
        }
    }
    log
}

/// True for a Get Features command of a feature that only exists with interrupts.
pub(crate) fn is_about_interrupts(entry: &SubmissionEntry) -> bool {
    let id = FeatureId(entry.cdw10.get() as u8);
    entry.opcode == admin_opcode::GET_FEATURES
        && matches!(id, FeatureId::INTERRUPT_COALESCING | FeatureId::INTERRUPT_VECTOR)
}

/// Answers Get Features.
pub(crate) fn get(entry: &SubmissionEntry, controller: &Controller, fabric: &Fabric) -> Answer {
    let invalid = Status::INVALID_FIELD.do_not_retry();
    let Ok(request) = GetFeatures::decode(entry.cdw10.get(), entry.cdw11.get(), entry.cdw14.get()) else {
        return invalid.into();
    };
    let Some(capability) = capability_of(request.id, controller, fabric) else { return invalid.into() };
    let of_namespace = namespace_features::capability_of(request.id, entry.nsid.get(), controller, fabric);
    let capability = of_namespace.unwrap_or(capability);
    if request.select != Select::Capabilities && capability & capabilities::NAMESPACE_SPECIFIC != 0 {
        return namespace_features::get(&request, entry.nsid.get(), controller);
    }
    let default = Features::new(controller.subsystem.state().config.io_queues_max());
    let state = controller.state();
    let features = match request.select {
        Select::Capabilities => return Answer::Status(Status::SUCCESS, u64::from(capability)),
        Select::Current => &state.features,
        // Nothing is saved beyond a controller's life: what is saved is the default.
        Select::Default | Select::Saved => &default,
    };
    let current = request.select == Select::Current;
    let result = match request.id {
        FeatureId::ARBITRATION => features.arbitration,
        FeatureId::POWER_MANAGEMENT => 0,
        FeatureId::TEMPERATURE_THRESHOLD => features.temperature_threshold,
        FeatureId::ERROR_RECOVERY => features.error_recovery,
        FeatureId::VOLATILE_WRITE_CACHE => value::WRITE_CACHE_ENABLE,
        FeatureId::INTERRUPT_COALESCING => 0,
        FeatureId::INTERRUPT_VECTOR => {
            request.parameter & value::INTERRUPT_VECTOR | value::COALESCING_DISABLE
        }
        FeatureId::NUMBER_OF_QUEUES => {
            NumberOfQueues::pairs(NonZero::new(features.io_queues).unwrap_or(NonZero::<u16>::MIN)).encode()
        }
        FeatureId::WRITE_ATOMICITY => features.write_atomicity,
        FeatureId::ASYNC_EVENT_CONFIG => features.async_events,
        FeatureId::KEEP_ALIVE_TIMER if current => controller.keep_alive_ms(),
        FeatureId::KEEP_ALIVE_TIMER => KEEP_ALIVE_MS_DEFAULT,
        FeatureId::TIMESTAMP => {
            let (time_ms, attributes) = features.time_ms();
            return Answer::Data(Timestamp::new(time_ms, attributes).as_bytes().to_vec());
        }
        FeatureId::HOST_BEHAVIOR => return Answer::Data(features.host_behavior.as_bytes().to_vec()),
        FeatureId::HOST_IDENTIFIER => {
            // Only the 128-bit form exists over fabrics (EXHID).
            if request.parameter & value::EXTENDED_HOST_ID == 0 {
                return invalid.into();
            }
            return Answer::Data(controller.host.id.to_vec());
        }
        _ => return invalid.into(),
    };
    Answer::Status(Status::SUCCESS, u64::from(result))
}

/// Answers Set Features.
pub(crate) fn set(
    entry: &SubmissionEntry,
    controller: &Arc<Controller>,
    data: &[u8],
    fabric: &Fabric,
    asker: Asker,
) -> Answer {
    let invalid = Status::INVALID_FIELD.do_not_retry();
    let request = SetFeatures::decode(entry.cdw10.get(), entry.cdw11.get(), entry.cdw14.get());
    match capability_of(request.id, controller, fabric) {
        None => return invalid.into(),
        // It is the one that Connect gave (Base 5.1.25.1.28).
        Some(_) if request.id == FeatureId::HOST_IDENTIFIER => {
            return Status::COMMAND_SEQUENCE_ERROR.do_not_retry().into();
        }
        Some(capability) if capability & capabilities::CHANGEABLE == 0 => {
            return Status::FEATURE_NOT_CHANGEABLE.do_not_retry().into();
        }
        Some(_) if request.save => return Status::FEATURE_NOT_SAVEABLE.do_not_retry().into(),
        Some(capability) if capability & capabilities::NAMESPACE_SPECIFIC != 0 => {
            return namespace_features::set(&request, entry.nsid.get(), controller, fabric, asker);
        }
        Some(_) => {}
    }
    let queues_max = controller.subsystem.state().config.io_queues_max();
    let mut state = controller.state();
    let has_queues = state.has_io_queues();
    let features = &mut state.features;
    match request.id {
        FeatureId::ARBITRATION => features.arbitration = request.value,
        // There is one power state.
        FeatureId::POWER_MANAGEMENT if request.value & 0x1f != 0 => return invalid.into(),
        FeatureId::POWER_MANAGEMENT => {}
        FeatureId::TEMPERATURE_THRESHOLD => features.temperature_threshold = request.value,
        // Errors on deallocated blocks are not offered (DULBE).
        FeatureId::ERROR_RECOVERY if request.value & value::DEALLOCATED_ERROR != 0 => return invalid.into(),
        FeatureId::ERROR_RECOVERY => features.error_recovery = request.value,
        FeatureId::WRITE_ATOMICITY => {
            features.write_atomicity = request.value & value::DISABLE_NORMAL_ATOMICITY;
        }
        FeatureId::ASYNC_EVENT_CONFIG => features.async_events = AsyncEventConfig(request.value).0,
        FeatureId::NUMBER_OF_QUEUES => {
            if has_queues {
                return Status::COMMAND_SEQUENCE_ERROR.do_not_retry().into();
            }
            let Ok(asked) = NumberOfQueues::decode(request.value) else { return invalid.into() };
            features.io_queues = asked.submission.min(asked.completion).get().min(queues_max);
            let granted = NonZero::new(features.io_queues).unwrap_or(NonZero::<u16>::MIN);
            return Answer::Status(Status::SUCCESS, u64::from(NumberOfQueues::pairs(granted).encode()));
        }
        FeatureId::KEEP_ALIVE_TIMER => set_keep_alive(request.value, controller, fabric),
        FeatureId::TIMESTAMP => {
            let Ok((timestamp, _)) = Timestamp::read_from_prefix(data) else {
                return Status::DATA_SGL_LENGTH_INVALID.do_not_retry().into();
            };
            features.timestamp = Some((timestamp.milliseconds(), ring::now()));
        }
        FeatureId::HOST_BEHAVIOR => {
            let Ok((behavior, _)) = HostBehavior::read_from_prefix(data) else {
                return Status::DATA_SGL_LENGTH_INVALID.do_not_retry().into();
            };
            features.host_behavior = behavior;
        }
        _ => return invalid.into(),
    }
    Status::SUCCESS.into()
}

fn set_keep_alive(keep_alive_ms: u32, controller: &Controller, fabric: &Fabric) {
    let before = controller.silent_at();
    // As for the value of Connect.
    let most = if controller.subsystem.is_discovery { DISCOVERY_KEEP_ALIVE_MS_MAX } else { u32::MAX };
    controller.set_keep_alive_ms(keep_alive_ms.min(most));
    // Reactors that have a queue of it may sleep for longer than that now.
    if controller.silent_at().is_some_and(|moment| before.is_none_or(|before| moment < before)) {
        fabric.tell_reactors(|| Message::KeepAliveChanged);
    }
}
