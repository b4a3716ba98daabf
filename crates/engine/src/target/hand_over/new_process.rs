//! The new process of a target's hand-over: the old one's hosts at each step. The steps are
//! [`hand_over`](crate::hand_over)'s.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::Value;

use super::HandOver;
use super::beside::TakesOver;
use super::words::{KNOWN, Offer, State, TargetProtocol, known};
use crate::hand_over::{self, Channel, HandOverError, NewService, NotOffered, OldProcess, TakeOverOutcome};
use crate::ring::Socket;
use crate::target::Target;

/// Channel that carries sockets of hosts.
pub trait SocketChannel: Channel<TargetProtocol> {
    /// Converts a received descriptor to a socket.
    ///
    /// # Errors
    /// When it is not one.
    fn socket(descriptor: Self::Descriptor) -> io::Result<Socket>;
}

impl Offer {
    /// Greets the old process. Returns its offer, with descriptors.
    ///
    /// # Errors
    /// Reason for which it offers nothing.
    pub fn ask<C: SocketChannel>(
        channel: &C,
        version: &str,
    ) -> Result<(Self, Vec<C::Descriptor>), NotOffered> {
        let (offer, descriptors) = hand_over::ask::<TargetProtocol, C>(channel, version, known())?;
        match offer.needs.iter().find(|need| !KNOWN.contains(&need.as_str())) {
            Some(need) => {
                let reason = format!("what it hands over needs {need}, which this version does not know");
                Err(NotOffered::Refused(reason))
            }
            None => Ok((offer, descriptors)),
        }
    }
}

impl Target {
    /// Takes over what the old process serves, and serves it. That one is to hear `Serving` then.
    /// If it serves neither, operations at the storage keep their lock, and the archive of
    /// reservations is ahead of the state that was handed over: the target has to be restarted.
    ///
    /// # Errors
    /// Reason for which it does not serve: the old process does.
    pub fn take_place<C: SocketChannel>(
        &self,
        channel: &C,
        old: &impl OldProcess,
        beside: &mut impl TakesOver,
    ) -> Result<TakeOverOutcome, HandOverError> {
        let mut service = HostService { target: self, beside, channel: PhantomData::<C> };
        hand_over::take_over::<TargetProtocol, C>(channel, old, &mut service)
    }
}

/// Hosts that a target takes over, with the state beside it.
struct HostService<'a, I, C> {
    target: &'a Target,
    beside: &'a mut I,
    channel: PhantomData<C>,
}

impl<I: TakesOver, C: SocketChannel> NewService<TargetProtocol, C::Descriptor> for HostService<'_, I, C> {
    fn prepare(&mut self) -> Result<Option<Value>, HandOverError> {
        self.beside.introduction()
    }

    fn take(
        &mut self,
        state: State,
        descriptors: Vec<C::Descriptor>,
    ) -> Result<Vec<(String, String)>, HandOverError> {
        self.beside.take(&state.beside)?;
        // Reservations are in the state: without them, hosts would write what is reserved against them.
        self.target.take_over(hand_over_of::<C>(state, descriptors)?)
    }

    fn give_back(&mut self) {
        self.beside.give_back();
    }

    fn go_on(&mut self, _has_died: bool) -> Result<(), HandOverError> {
        self.beside.go_on()?;
        self.target.go_on();
        Ok(())
    }

    fn disown(&mut self) {
        self.target.disown();
    }
}

fn hand_over_of<C: SocketChannel>(
    state: State,
    descriptors: Vec<C::Descriptor>,
) -> Result<HandOver, HandOverError> {
    let State { target, arrivals, beside: _ } = state;
    if descriptors.len() != target.queues.len() + arrivals.len() {
        return Err(HandOverError::Sockets);
    }
    let sockets: io::Result<Vec<Arc<Socket>>> =
        descriptors.into_iter().map(|descriptor| C::socket(descriptor).map(Arc::new)).collect();
    let mut queues = sockets?;
    let untouched = queues.split_off(target.queues.len());
    let arrivals = arrivals.into_iter().zip(untouched);
    let arrivals = arrivals.map(|((port, peer), socket)| (port, peer, socket)).collect();
    Ok(HandOver { state: target, queues, arrivals })
}
