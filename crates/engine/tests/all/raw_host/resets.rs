//! Requests of a host about lost controllers: the instance of a controller, its reset by another one, and the log of
//! such resets.

use nvme::Status;
use nvme::SubmissionEntry;
use nvme::command::admin_opcode;
use nvme::cross_reset::ControllerInstance;
use nvme::features::{AsyncEventConfig, FeatureId};
use nvme::log_page::{
    CROSS_RESET_REMOVE_COMPLETED, CrossResetEntry, CrossResetLog, LogPageId, LogPageRequest,
};

use super::{Client, Give, Host, Reply};

/// The life of the host's controller.
pub(crate) fn instance(host: &mut Host) -> ControllerInstance {
    let identify = host.admin.identified_controller();
    ControllerInstance {
        controller_id: identify.controller_id.get(),
        uniquifier: identify.instance_uniquifier,
        random_number: identify.instance_random_number.get(),
    }
}

pub(crate) fn reset(admin: &mut Client, impacted: ControllerInstance) -> Reply {
    admin.run(impacted.encode_reset(), Give::Nothing)
}

/// The log of resets; `remove` takes those that have ended out of it.
pub(crate) fn log(admin: &mut Client, remove: bool) -> Vec<CrossResetEntry> {
    let mut request = LogPageRequest::new(LogPageId::CROSS_CONTROLLER_RESET, 0, 4096);
    request.specific_parameter = if remove { CROSS_RESET_REMOVE_COMPLETED } else { 0 };
    let reply = admin.log_page(&request);
    assert_eq!(reply.status, Status::SUCCESS);
    CrossResetLog::parse(&reply.data).unwrap().entries
}

/// Asks to be notified of resets that have ended; the command that is answered then.
pub(crate) fn listen(admin: &mut Client) -> u16 {
    let wanted = AsyncEventConfig::CROSS_CONTROLLER_RESET;
    let reply = admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, wanted, false, Give::Nothing);
    assert_eq!(reply.status, Status::SUCCESS);
    admin.submit(SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0), Give::Nothing)
}
