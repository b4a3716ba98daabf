//! Admin commands that several tests send, and what the target then says of its host.

use engine::target::Peculiarity;
use nvme::SubmissionEntry;
use nvme::command::admin_opcode;
use nvme::features::{FeatureId, SetFeatures};

use super::TestTarget;

/// On how many connections of the target this was seen.
pub(crate) fn seen(target: &TestTarget, peculiarity: Peculiarity) -> u64 {
    let counts = target.target().metrics().peculiarities;
    counts.into_iter().find(|(known, _)| *known == peculiarity).map_or(0, |(_, connections)| connections)
}

pub(crate) fn set_features(id: FeatureId, value: u32) -> SubmissionEntry {
    let (cdw10, cdw11, cdw14) = SetFeatures { id, save: false, value, uuid_index: 0 }.encode();
    let mut entry = SubmissionEntry::new(admin_opcode::SET_FEATURES, 0);
    (entry.cdw10, entry.cdw11, entry.cdw14) = (cdw10.into(), cdw11.into(), cdw14.into());
    entry
}

/// Abort of this command of an I/O queue, or of the admin queue (0).
pub(crate) fn abort(queue_id: u16, command_id: u16) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(admin_opcode::ABORT, 0);
    entry.cdw10 = (u32::from(command_id) << 16 | u32::from(queue_id)).into();
    entry
}

pub(crate) fn identify_controller() -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(admin_opcode::IDENTIFY, 0);
    entry.cdw10 = 1.into();
    entry
}
