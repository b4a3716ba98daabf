//! Abort: a command of any queue on any reactor is taken back where it still waits; one that the storage has is not.
//! The Abort command is answered when the last reactor has looked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nvme::Status;
use nvme::io::Fused;

use super::connection::{Connection, Environment, Session};
use super::fabric::Fabric;
use super::mailbox::{Loss, Message};
use super::namespace::Namespace;
use super::request::Asker;
use super::reservation::HostId;
use super::slot::{Slot, Stage};

/// Bit 0 of the result: the command was not aborted (Base 5.1.1).
const NOT_ABORTED: u64 = 1;

/// An Abort command that reactors work on.
#[derive(Debug)]
pub(super) struct Abort {
    pub(super) controller_id: u16,
    pub(super) queue_id: u16,
    pub(super) command_id: u16,
    left: AtomicUsize,
    aborted: AtomicBool,
    asker: Asker,
}

impl Abort {
    /// Asks all reactors for the command.
    pub(super) fn ask(fabric: &Fabric, (controller_id, queue_id, command_id): (u16, u16, u16), asker: Asker) {
        let left = AtomicUsize::new(fabric.reactors().len());
        let aborted = AtomicBool::new(false);
        let abort = Arc::new(Self { controller_id, queue_id, command_id, left, aborted, asker });
        fabric.tell_reactors(|| Message::Abort(abort.clone()));
    }

    /// A reactor has tried.
    pub(super) fn tried(&self, aborted: bool) {
        self.aborted.fetch_or(aborted, Ordering::AcqRel);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let aborted = self.aborted.load(Ordering::Acquire);
            self.asker.answer(Status::SUCCESS, if aborted { 0 } else { NOT_ABORTED });
        }
    }
}

impl Connection {
    /// Takes a command of this queue back, if it still waits; whether it did.
    pub(super) fn abort(&mut self, command_id: u16, env: &mut Environment<'_>) -> bool {
        let Some(index) = self.slots.find(command_id) else { return false };
        match self.slots.at(index).stage {
            Stage::Buffer | Stage::Limits | Stage::Partner | Stage::Exclusive | Stage::Turn => {
                self.leave_waiting(index);
                self.finish(index, Status::ABORT_REQUESTED, env);
                true
            }
            // The host may be sending its data this moment, the storage or the clerk may have done it already.
            Stage::Data | Stage::Clerk | Stage::Storage | Stage::Syncs | Stage::Sending => false,
        }
    }

    /// Ends the commands of a preempted host that have not reached the storage.
    pub(super) fn end_fenced(
        &mut self,
        namespace: &Arc<Namespace>,
        hosts: &[HostId],
        env: &mut Environment<'_>,
    ) {
        let is_io = matches!(self.session, Session::Io { .. });
        if !is_io || !self.owner().is_some_and(|owner| hosts.contains(&owner.host_id)) {
            return;
        }
        let fenced: Vec<(u16, Stage)> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.attachment().is_some_and(|a| Arc::ptr_eq(&a.namespace, namespace)))
            .map(|(index, slot)| (index, slot.stage))
            .collect();
        for (index, stage) in fenced {
            // A pair's second command may have ended with its first.
            if self.slots.get_mut(index).is_none() {
                continue;
            }
            match stage {
                Stage::Buffer | Stage::Limits | Stage::Partner | Stage::Exclusive | Stage::Turn => {
                    self.leave_waiting(index);
                    self.finish(index, Status::ABORTED_PREEMPT, env);
                }
                Stage::Data => self.slots.at(index).failed = Some(Status::ABORTED_PREEMPT),
                Stage::Clerk | Stage::Storage | Stage::Syncs | Stage::Sending => {}
            }
        }
    }

    /// Answers the commands that the storage has, where their namespaces are not to be reached here any more, or are open anew:
    /// their hosts try them elsewhere, or again. Somebody else sees to it that what the storage still does of them is over
    /// before that succeeds.
    pub(super) fn give_up(&mut self, loss: Loss, env: &mut Environment<'_>) {
        if self.terminated || !matches!(self.session, Session::Io { .. }) {
            return;
        }
        let refusal = |slot: &Slot| {
            let attachment = slot.attachment().filter(|_| slot.fused == Fused::No && !slot.is_given_up)?;
            match loss {
                Loss::Unreachable if slot.stage == Stage::Storage => attachment.access.refusal(),
                Loss::Unreachable => None,
                Loss::ShutOut => {
                    attachment.namespace.backend.is_shut_out().then_some(Status::NAMESPACE_NOT_READY)
                }
            }
        };
        let given_up: Vec<(u16, Status)> =
            self.slots.iter().filter_map(|(index, slot)| Some((index, refusal(slot)?))).collect();
        for (index, status) in given_up {
            // One that waited may have had its turn, as others were given up.
            let Some(slot) = self.slots.get_mut(index) else { continue };
            match slot.stage {
                Stage::Storage => {
                    let command_id = slot.command_id;
                    self.slots.give_up(index);
                    if loss == Loss::ShutOut {
                        self.slots.discount(index);
                    }
                    self.respond(command_id, status, 0);
                }
                Stage::Buffer | Stage::Limits | Stage::Exclusive | Stage::Turn => {
                    self.leave_waiting(index);
                    self.finish(index, status, env);
                }
                Stage::Data => slot.failed = Some(status),
                Stage::Partner | Stage::Clerk | Stage::Syncs | Stage::Sending => {}
            }
        }
        if loss == Loss::ShutOut {
            self.wake_waiting(env);
        }
    }

    /// Takes a command out of whatever list it waits in.
    pub(super) fn leave_waiting(&mut self, index: u16) {
        match self.slots.at(index).stage {
            Stage::Buffer => self.waiting.retain(|waiting| *waiting != index),
            Stage::Limits => self.leave_lane(index),
            Stage::Exclusive => self.held_back.retain(|held| *held != index),
            Stage::Turn => self.deferred.retain(|deferred| *deferred != index),
            _ => {}
        }
    }
}
