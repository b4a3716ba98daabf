//! The old process of a target's hand-over: its hosts at each step. The steps are
//! [`hand_over`](crate::hand_over)'s.

use std::sync::Arc;

use serde_json::Value;

use super::HandOver;
use super::beside::Releases;
use super::words::{State, TargetProtocol};
use crate::hand_over::{self, Channel, HandOverError, OldService, Process};
use crate::ring::{Socket, thread};
use crate::target::Target;

/// Describes an extension in `needs` that a process does not know, if there is one.
pub fn unknown_to(knows: &[String], needs: &[&str]) -> Option<HandOverError> {
    let unknown = needs.iter().find(|need| !knows.iter().any(|known| known == *need))?;
    Some(HandOverError::Extension((*unknown).to_owned()))
}

impl Target {
    /// Hands over to the process `new`, which knows these extensions of the format, and to which it
    /// was said what is served. Returns true if that process serves now. If it has died after `Go`,
    /// this one does, without the hosts that it had. `mark_resumed` leaves behind, for the new
    /// process to find also after the death of this one, that the state handed over is void.
    ///
    /// # Errors
    /// Reason for which this process serves on as before.
    pub fn hand_over_to(
        &self,
        channel: &impl Channel<TargetProtocol>,
        (new, knows): (&impl Process, &[String]),
        beside: &mut impl Releases,
        mark_resumed: impl FnOnce(),
    ) -> Result<bool, HandOverError> {
        let mark_resumed = Some(mark_resumed);
        let quiesced = HandOver::default();
        let mut service = HostService { target: self, knows, beside, mark_resumed, quiesced };
        hand_over::hand_over::<TargetProtocol>(channel, new, &mut service)
    }

    /// Brings everything to rest, unless something has come about since it was offered that the new
    /// process would not know.
    fn freeze_as_offered(&self, knows: &[String]) -> Result<HandOver, HandOverError> {
        let hand_over = self.freeze()?;
        let obstacles = self.obstacles();
        let reason = if obstacles.is_empty() {
            unknown_to(knows, &self.needs())
        } else {
            Some(HandOverError::Obstacles(obstacles))
        };
        let Some(reason) = reason else { return Ok(hand_over) };
        self.go_on();
        Err(reason)
    }
}

/// Hosts of a target that is handed over, with the state beside it.
struct HostService<'a, L, F> {
    target: &'a Target,
    knows: &'a [String],
    beside: &'a mut L,
    mark_resumed: Option<F>,
    quiesced: HandOver,
}

impl<L: Releases, F: FnOnce()> OldService<TargetProtocol> for HostService<'_, L, F> {
    fn introduced(&mut self, said: Value) -> Result<(), HandOverError> {
        self.beside.introduced(said)
    }

    fn quiesce(&mut self) -> Result<(), HandOverError> {
        self.beside.hold_still()?;
        self.quiesced = self.target.freeze_as_offered(self.knows)?;
        Ok(())
    }

    fn give(&mut self) -> Result<(State, Vec<Arc<Socket>>), HandOverError> {
        let beside = self.beside.let_go()?;
        let HandOver { state, queues, arrivals } = std::mem::take(&mut self.quiesced);
        let places = arrivals.iter().map(|(port, peer, _)| (*port, *peer)).collect();
        let untouched = arrivals.into_iter().map(|(_, _, socket)| socket);
        let sockets = queues.into_iter().chain(untouched).collect();
        Ok((State { target: state, arrivals: places, beside }, sockets))
    }

    fn taken(&mut self, failed: Vec<(String, String)>) {
        for (host, reason) in failed {
            tracing::warn!(host, reason, "the new process cannot take a queue over; its host connects again");
        }
    }

    fn before_go(&mut self) {
        self.beside.rest();
    }

    fn is_awaited(&mut self) {
        self.beside.is_awaited();
    }

    fn mark_resumed(&mut self) {
        if let Some(mark_resumed) = self.mark_resumed.take() {
            mark_resumed();
        }
    }

    fn resume(&mut self, has_refused: bool) {
        self.beside.take_back(has_refused);
        self.target.go_on();
    }

    fn serve_again(&mut self, has_died: bool) {
        self.target.disown();
        if has_died {
            // Commands of the new process may be at the storage for the quiesce time reported to hosts.
            thread::sleep(self.target.fabric.longest_quiesce());
        }
        self.beside.begin_again();
        self.target.go_on();
    }

    fn leave(&mut self) {
        self.target.configurator.leave();
        self.beside.leave();
    }
}
