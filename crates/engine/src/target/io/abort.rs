//! Taking commands back that have not reached the storage: for Abort, for Preempt and Abort, and where their namespace is lost.

use std::sync::Arc;

use nvme::Status;

use super::commands::Commands;
use super::context::Context;
use super::request::{Next, Reply, Request, State};
use crate::target::messaging::Loss;
use crate::target::reservation::HostDigest;
use crate::target::served::Namespace;

impl Request {
    /// True if the request waits only for something of this queue, and can therefore be taken back.
    const fn waits(&self) -> bool {
        match self.state {
            State::AwaitsBuffer
            | State::Throttled { .. }
            | State::AwaitsPartner { .. }
            | State::HeldBack { .. }
            | State::AwaitsTurn { .. } => true,
            // The host may be sending its data this moment; the storage or the worker may have done it already.
            State::InHand
            | State::AwaitsData { .. }
            | State::AtWorker
            | State::AtStorage(_)
            | State::Exclusive { .. }
            | State::Joined { .. }
            | State::AwaitsSyncs { .. } => false,
        }
    }
}

impl Commands {
    /// Takes the command with this identifier back, if it still waits; its answer then.
    pub(crate) fn abort(&mut self, command_id: u16, ctx: &mut Context<'_>) -> Option<Next> {
        let index = self.slots.find(command_id)?;
        self.slots.get(index)?.waits().then(|| {
            let data = self.leave_waiting(index);
            self.finish(index, Status::ABORT_REQUESTED, data, ctx)
        })
    }

    /// Ends the commands of preempted hosts that have not reached the storage.
    pub(crate) fn end_fenced(
        &mut self,
        namespace: &Arc<Namespace>,
        hosts: &[HostDigest],
        ctx: &mut Context<'_>,
    ) -> Vec<Next> {
        if !hosts.contains(&self.owner().host) {
            return Vec::new();
        }
        let is_meant = |request: &Request| {
            request.attachment().is_some_and(|attachment| Arc::ptr_eq(&attachment.namespace, namespace))
        };
        let fenced: Vec<u16> =
            self.slots.iter().filter(|(_, request)| is_meant(request)).map(|(index, _)| index).collect();
        fenced.into_iter().filter_map(|index| self.take_back(index, Status::ABORTED_PREEMPT, ctx)).collect()
    }

    /// Ends a command that waits; one whose data is on its way ends with it.
    fn take_back(&mut self, index: u16, status: Status, ctx: &mut Context<'_>) -> Option<Next> {
        // A pair's second command may have ended with its first.
        let request = self.slots.get_mut(index)?;
        if let State::AwaitsData { refused } = &mut request.state {
            *refused = Some(status);
            return None;
        }
        request.waits().then(|| {
            let data = self.leave_waiting(index);
            self.finish(index, status, data, ctx)
        })
    }

    /// Answers commands that are at the storage although their namespaces can no longer be reached
    /// here, or were reopened. Hosts retry them on another path, or here. The caller of a failover
    /// or of a reopening ensures that leftover operations have ended before a retry succeeds.
    pub(crate) fn give_up(&mut self, loss: Loss, ctx: &mut Context<'_>) -> Vec<Next> {
        let refusal = |request: &Request| {
            let attachment =
                request.attachment().filter(|_| !request.is_paired() && !request.is_given_up())?;
            match loss {
                Loss::Unreachable if request.is_at_storage() => attachment.access.refusal(),
                Loss::Unreachable => None,
                Loss::ShutOut => {
                    attachment.namespace.backend.is_shut_out().then_some(Status::NAMESPACE_NOT_READY)
                }
            }
        };
        let given_up: Vec<(u16, Status)> =
            self.slots.iter().filter_map(|(index, request)| Some((index, refusal(request)?))).collect();
        let answers = given_up.into_iter().filter_map(|(index, status)| match self.slots.get(index)?.state {
            State::AtStorage(_) => {
                let command_id = self.slots.get(index)?.command_id;
                self.slots.give_up(index, loss == Loss::ShutOut);
                Some(Next::Reply(Reply::new(command_id, status, 0)))
            }
            State::AwaitsPartner { .. } => None,
            _ => self.take_back(index, status, ctx),
        });
        answers.collect()
    }
}
