//! Cross-Controller Reset (TP8028): a host that has lost its way to one of its controllers has another one end it, and
//! learns when none of its commands can take effect any more. A fence finds that out, or for a controller of another target
//! whoever knows of that; here is who may ask, and the log.

use std::fmt;
use std::sync::Arc;

use nvme::cross_reset::{ControllerInstance, IMMEDIATE_RESET_SUCCESSFUL};
use nvme::log_page::{CrossResetEntry, CrossResetLog, CrossResetStatus, cross_reset_flags};
use nvme::{Status, SubmissionEntry};
use zerocopy::little_endian::U16;

use super::admin::Answer;
use super::controller::Controller;
use super::event::Notice;
use super::fabric::Fabric;
use super::fence::{Fence, Fenced, Then};
use super::request::Asker;
use crate::limits::{CROSS_RESET_ENTRIES, CROSS_RESETS_MAX};

/// A reset that waits for its fence.
#[derive(Debug)]
pub(super) struct CrossReset {
    /// The controller that was asked.
    asked: Arc<Controller>,
    impacted: ControllerInstance,
    /// The command that waits, where the controller was gone when it came.
    asker: Option<Asker>,
}

impl CrossReset {
    /// No command of the controller can take effect any more.
    pub(super) fn done(&self, fabric: &Fabric) {
        let ended = CrossResetStatus::Successful;
        let logged = self.asked.state().cross_resets.end(&self.impacted, ended);
        if let Some(asker) = &self.asker {
            asker.answer(Status::SUCCESS, IMMEDIATE_RESET_SUCCESSFUL);
        } else if logged {
            fabric.notify(&self.asked, Notice::CrossControllerReset);
        }
    }
}

/// Answers a Cross-Controller Reset command that came to `asked`.
pub(super) fn answer(
    entry: &SubmissionEntry,
    asked: &Arc<Controller>,
    fabric: &Arc<Fabric>,
    asker: Asker,
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
    let raise = |asker| {
        let reset = CrossReset { asked: asked.clone(), impacted, asker };
        Fence::raise(fabric, Fenced::Controller(impacted), Then::Reset(reset));
    };
    let Some(controller) = living else {
        // It is gone, but the storage may still work for it.
        raise(Some(asker));
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

/// Ends a controller whose host asked another target for that. `at_rest` is called when nothing of it can take effect any
/// more. Whether it is one that was made here, and this host's as far as that is still known.
pub(super) fn answer_peer(
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
    Fence::raise(fabric, Fenced::Controller(lost.instance), Then::Tell(Box::new(at_rest)));
    true
}

/// Passes a reset of a controller of another target on. What becomes of it is told by the log in any case: whoever knows
/// of that target asks others first.
fn ask_peers(impacted: ControllerInstance, asked: &Arc<Controller>, fabric: &Arc<Fabric>) -> Status {
    // Without anybody who knows of other targets, hosts have to wait for as long as that one promised.
    let peers = fabric.peer_resets().filter(|_| impacted.random_number != 0);
    let Some(PeerResets(peers)) = peers else { return Status::INVALID_FIELD.do_not_retry() };
    if let Err(status) = asked.state().cross_resets.begin(impacted, asked.id, true) {
        return status;
    }
    if !peers(PeerReset { asked: asked.clone(), impacted, fabric: fabric.clone() }) {
        asked.state().cross_resets.take_back(&impacted);
        return Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED;
    }
    Status::SUCCESS
}

/// Takes resets of controllers that another target has made; `false` when it has too many. It is called on a reactor, and
/// waits for nothing.
#[derive(Clone)]
pub struct PeerResets(pub Arc<TakeReset>);

/// Takes a reset, or says by `false` that it has too many.
pub type TakeReset = dyn Fn(PeerReset) -> bool + Send + Sync;

impl fmt::Debug for PeerResets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerResets")
    }
}

/// A host's wish to know when nothing of a controller of another target can take effect any more.
#[derive(Debug)]
pub struct PeerReset {
    asked: Arc<Controller>,
    impacted: ControllerInstance,
    fabric: Arc<Fabric>,
}

/// A controller that its host has lost, as the target that was asked tells the one that has made it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostController {
    /// The controller.
    pub instance: ControllerInstance,
    /// The name of its subsystem.
    pub subsystem: String,
    /// The name of the host that asks, whose controller it has to be.
    pub host_nqn: String,
    /// The identifier of that host.
    pub host_id: uuid::Uuid,
}

impl LostController {
    /// Whether it is told by the host that has this controller.
    fn is_of(&self, controller: &Controller) -> bool {
        self.subsystem == controller.subsystem.nqn
            && self.host_nqn == controller.host.nqn
            && self.host_id.as_bytes() == &controller.host.id
    }
}

impl PeerReset {
    /// The controller that the host has lost.
    pub const fn controller(&self) -> ControllerInstance {
        self.impacted
    }

    /// The same with whose it has to be, for the target that has made it (`Target::reset_for_peer`).
    pub fn lost(&self) -> LostController {
        LostController {
            instance: self.impacted,
            subsystem: self.asked.subsystem.nqn.clone(),
            host_nqn: self.asked.host.nqn.clone(),
            host_id: uuid::Uuid::from_bytes(self.asked.host.id),
        }
    }

    /// Tells the host that nothing of the controller takes effect after anything that it does from now on; or that this
    /// cannot be brought about here, so that it has to wait for as long as the other target promised.
    pub fn end(self, is_at_rest: bool) {
        let status = if is_at_rest { CrossResetStatus::Successful } else { CrossResetStatus::Failed };
        if self.asked.state().cross_resets.end(&self.impacted, status) {
            self.fabric.notify(&self.asked, Notice::CrossControllerReset);
        }
    }
}

/// The resets that one controller was asked for.
#[derive(Debug, Default)]
pub(super) struct CrossResets {
    log: Vec<Entry>,
    /// Those whose commands are answered when they have ended, so that no log tells of them.
    held: Vec<ControllerInstance>,
}

#[derive(Debug)]
struct Entry {
    impacted: ControllerInstance,
    asked_id: u16,
    status: CrossResetStatus,
}

impl Entry {
    fn has_ended(&self) -> bool {
        self.status != CrossResetStatus::InProgress
    }
}

impl CrossResets {
    /// Takes note of a reset that begins; one of a living controller gets an entry in the log.
    fn begin(&mut self, impacted: ControllerInstance, asked_id: u16, is_living: bool) -> Result<(), Status> {
        let in_progress: Vec<&ControllerInstance> = self
            .log
            .iter()
            .filter(|entry| !entry.has_ended())
            .map(|entry| &entry.impacted)
            .chain(&self.held)
            .collect();
        if in_progress.contains(&&impacted) {
            return Err(Status::CROSS_CONTROLLER_RESET_IN_PROGRESS);
        }
        if in_progress.len() >= usize::from(CROSS_RESETS_MAX) {
            return Err(Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED);
        }
        if !is_living {
            self.held.push(impacted);
            return Ok(());
        }
        if self.log.len() >= CROSS_RESET_ENTRIES {
            return Err(Status::CROSS_CONTROLLER_RESET_LOG_FULL);
        }
        self.log.push(Entry { impacted, asked_id, status: CrossResetStatus::InProgress });
        Ok(())
    }

    /// Takes note of what has become of a reset; whether the log tells of it.
    fn end(&mut self, impacted: &ControllerInstance, status: CrossResetStatus) -> bool {
        self.held.retain(|held| held != impacted);
        let entry = self.log.iter_mut().find(|entry| !entry.has_ended() && entry.impacted == *impacted);
        entry.is_some_and(|entry| {
            entry.status = status;
            true
        })
    }

    /// A reset that was to begin does not.
    fn take_back(&mut self, impacted: &ControllerInstance) {
        self.log.retain(|entry| entry.has_ended() || entry.impacted != *impacted);
    }

    /// Forgets the log: its controller is reset itself.
    pub(super) fn clear_log(&mut self) {
        self.log.clear();
    }

    /// The log page.
    pub(super) fn page(&self) -> CrossResetLog {
        let entry = |entry: &Entry| CrossResetEntry {
            impacted_controller_id: U16::new(entry.impacted.controller_id),
            uniquifier: entry.impacted.uniquifier,
            reserved_3: 0,
            asked_controller_id: U16::new(entry.asked_id),
            status: entry.status as u8,
            // A request that is not valid, or not begun, gets no entry.
            flags: cross_reset_flags::VALIDATED | cross_reset_flags::INITIATED,
        };
        CrossResetLog { entries: self.log.iter().map(entry).collect() }
    }

    /// Removes the entries of resets that have ended, as far as they stand within bytes `from` to `to` of the log page
    /// `page` that the host was given.
    pub(super) fn remove_ended(&mut self, page: &CrossResetLog, from: u64, to: u64) {
        let mut at = 0;
        self.log.retain(|entry| {
            let (start, end) = (CrossResetLog::length_bytes(at), CrossResetLog::length_bytes(at + 1));
            let shown = page.entries.get(at).and_then(CrossResetEntry::status);
            at += 1;
            // One that has ended since the page was made stays, for the host does not know it yet.
            let is_known = entry.has_ended() && shown == Some(entry.status);
            !(is_known && start as u64 >= from && end as u64 <= to)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCESSFUL: CrossResetStatus = CrossResetStatus::Successful;

    fn instance(controller_id: u16) -> ControllerInstance {
        ControllerInstance { controller_id, uniquifier: 1, random_number: 7 }
    }

    #[test]
    fn so_many_are_in_progress_and_no_more() {
        let mut resets = CrossResets::default();
        for id in 0..u16::from(CROSS_RESETS_MAX) {
            assert_eq!(resets.begin(instance(id), 99, id % 2 == 0), Ok(()));
            let again = resets.begin(instance(id), 99, id % 2 != 0);
            assert_eq!(again, Err(Status::CROSS_CONTROLLER_RESET_IN_PROGRESS));
        }
        for is_living in [true, false] {
            let more = resets.begin(instance(50), 99, is_living);
            assert_eq!(more, Err(Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED));
        }
        assert!(!resets.end(&instance(1), SUCCESSFUL), "it had no entry");
        assert_eq!(resets.begin(instance(50), 99, false), Ok(()));
        assert!(resets.end(&instance(0), SUCCESSFUL) && !resets.end(&instance(0), SUCCESSFUL));
        assert_eq!(resets.begin(instance(0), 99, true), Ok(()));
    }

    #[test]
    fn a_log_that_nobody_empties_is_full_at_some_time() {
        let mut resets = CrossResets::default();
        for id in 0..CROSS_RESET_ENTRIES as u16 {
            assert_eq!(resets.begin(instance(id), 99, true), Ok(()));
            assert!(resets.end(&instance(id), SUCCESSFUL));
        }
        let full = resets.begin(instance(500), 99, true);
        assert_eq!(full, Err(Status::CROSS_CONTROLLER_RESET_LOG_FULL));
        assert_eq!(resets.begin(instance(500), 99, false), Ok(()), "one that is gone needs no entry");
        let page = resets.page();
        resets.remove_ended(&page, 0, 8 + 8 * 3 + 7);
        let left: Vec<u16> = resets.page().entries.iter().map(|e| e.impacted_controller_id.get()).collect();
        assert_eq!(left, (3..CROSS_RESET_ENTRIES as u16).collect::<Vec<u16>>());
    }

    #[test]
    fn only_what_the_host_has_seen_ended_is_removed() {
        let mut resets = CrossResets::default();
        resets.begin(instance(1), 99, true).expect("room");
        resets.begin(instance(2), 99, true).expect("room");
        resets.end(&instance(1), SUCCESSFUL);
        let page = resets.page();
        resets.end(&instance(2), SUCCESSFUL);
        resets.remove_ended(&page, 0, u64::MAX);
        let left = resets.page().entries;
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].impacted_controller_id.get(), left[0].status), (2, 1));
        let page = resets.page();
        resets.remove_ended(&page, 9, u64::MAX);
        assert_eq!(resets.page().entries.len(), 1, "only a part of it was read");
    }
    #[test]
    fn what_has_failed_or_was_never_begun_may_be_asked_for_again() {
        let mut resets = CrossResets::default();
        resets.begin(instance(1), 99, true).expect("room");
        resets.take_back(&instance(1));
        assert!(resets.page().entries.is_empty());
        resets.begin(instance(1), 99, true).expect("it was taken back");
        assert!(resets.end(&instance(1), CrossResetStatus::Failed));
        resets.take_back(&instance(1));
        assert_eq!(resets.page().entries[0].status(), Some(CrossResetStatus::Failed), "it has ended");
        resets.begin(instance(1), 99, true).expect("the first has failed");
        let page = resets.page();
        resets.remove_ended(&page, 0, u64::MAX);
        let left: Vec<u8> = resets.page().entries.iter().map(|entry| entry.status).collect();
        assert_eq!(left, [CrossResetStatus::InProgress as u8]);
    }
}
