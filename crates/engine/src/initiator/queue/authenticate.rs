//! Authentication of a queue when the target asks for it: a message to the controller, one from it,
//! and so on, before the queue is live. The content of the messages is the crate
//! `authentication`'s.

use std::time::Duration;

use authentication::{
    Concatenation, Fault as Failed, GeneratedPsk, Group, Hash, HostSide, HostStep, HostTerms,
};
use nvme::authentication::{Transfer, required};
use secure_channel::Names;

use super::fault::Fault;
use super::secure::Securing;
use super::{Completion, Data, Queue, QueueState, Request};
use crate::initiator::InitiatorError;
use crate::initiator::authentication_worker::{PendingStep, StepState};
use crate::ring::{self, Buffer, Ring};

/// Bytes of a message that the controller is asked for, as Linux does.
const RECEIVE_BYTES: usize = 4096;

/// Event that a queue's authentication waits for.
pub(super) enum Exchange {
    /// The controller's acceptance of a message, after which it is asked for one.
    Sent(Box<HostSide>),
    /// A message of the controller.
    Message(Box<HostSide>),
    /// The worker's result.
    Step(PendingStep<(Box<HostSide>, HostStep)>),
    /// The controller's acceptance of the last message.
    Last(Result<Option<GeneratedPsk>, Failed>),
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exchange")
    }
}

impl Queue {
    /// Goes on after a Connect by what the controller asks for in its result.
    pub(super) fn prove(&mut self, result: u64) -> Result<(), Box<Fault>> {
        let address = self.options.address;
        let Some(secrets) = &self.options.secrets else {
            if result & (required::AUTHENTICATION | required::SECURE_CHANNEL) != 0 {
                return Err(Fault::ended(InitiatorError::AuthenticationRequired { address }));
            }
            self.state = QueueState::Live;
            return Ok(());
        };
        let wants_key = self.options.concat.is_some();
        if result & required::SECURE_CHANNEL != 0 && !wants_key {
            return Err(self.failed(
                "the target wants a TLS key to come out of it (secure channel concatenation): connect with \
                 --concat",
            ));
        }
        if result & required::AUTHENTICATION == 0 {
            if wants_key && self.secure.is_some() {
                // The key shows that both know each other. The admin queue's comes out of its
                // authentication, which it repeats.
                self.is_proved();
                return Ok(());
            }
            if wants_key {
                return Err(self.failed(
                    "no TLS key comes out of it, since the target does not ask this host for it: give the host a \
                     secret there with tls_concat, or connect without --concat",
                ));
            }
            // Linux' target of 7.3 asks on the admin queue alone, where it has authenticated then.
            if secrets.controller_secret.is_some() && self.options.queue_id == 0 {
                // It may be anybody who has the target's address.
                return Err(self.failed("the target was to authenticate, and does not ask this host for it"));
            }
            self.state = QueueState::Live;
            return Ok(());
        }
        self.state = QueueState::Authenticating;
        self.begin_exchange();
        Ok(())
    }

    /// Begins to authenticate, again where it is live: beside the commands that are under way.
    pub(super) fn begin_exchange(&mut self) {
        let Some(secrets) = &self.options.secrets else { return };
        let terms = HostTerms {
            host_nqn: self.options.host.nqn.clone(),
            subsystem_nqn: self.options.subsystem_nqn.clone(),
            secret: secrets.secret.clone(),
            controller_secret: secrets.controller_secret.clone(),
            hashes: Hash::ALL.to_vec(),
            groups: Group::ALL.to_vec(),
            concatenation: self.concatenation(),
        };
        let side = HostSide::new(terms, ring::random() as u16);
        self.message = Some(side.offer());
        self.exchange = Some(Exchange::Sent(Box::new(side)));
        self.send_message();
    }

    /// Kind of TLS key to come out of its authentication: that of the admin queue alone.
    fn concatenation(&self) -> Concatenation {
        match (&self.options.concat, &self.secure) {
            (Some(_), None) if self.options.queue_id == 0 => Concatenation::New,
            (Some(_), Some(_)) if self.options.queue_id == 0 => Concatenation::Replace,
            _ => Concatenation::None,
        }
    }

    /// Takes the TLS key that has come out of an authentication: the next connections have it.
    fn has_key(&self, psk: Option<GeneratedPsk>) -> Result<(), Box<Fault>> {
        let (Some(concat), Some(psk)) = (&self.options.concat, psk) else { return Ok(()) };
        let names = Names::new(&self.options.host.nqn, &self.options.subsystem_nqn);
        let names = names.map_err(|error| self.failed(error.to_string()))?;
        concat.set(&names, &psk).map_err(|error| self.failed(error.to_string()))
    }

    /// Both are who they say they are.
    fn is_proved(&mut self) {
        self.state = QueueState::Live;
        // With a key that comes out of it the admin queue alone authenticates.
        let is_due = self.options.concat.is_none() || self.options.queue_id == 0;
        let secrets = self.options.secrets.as_ref().filter(|_| is_due);
        let interval = secrets.and_then(|secrets| secrets.reauth_interval);
        // Up to a tenth sooner, so that many queues that came together do not all come together again.
        let sooner = |interval: Duration| interval / 10 * (ring::random() % 1024) as u32 / 1024;
        self.exchange_at = interval.map(|interval| ring::now().after(interval - sooner(interval)));
    }

    /// True if it waits for the authentication worker.
    pub(in crate::initiator) const fn is_computing(&self) -> bool {
        matches!(self.exchange, Some(Exchange::Step(_))) || matches!(self.securing, Some(Securing::Step(_)))
    }

    /// Takes what was computed for its handshake or authentication: call it when the ring was woken (`Event::Woken`).
    pub fn on_woken(&mut self, ring: &mut Ring) {
        if let Err(fault) = self.handshake_goes_on() {
            return self.fail(ring, *fault);
        }
        let Some(Exchange::Step(pending)) = &self.exchange else { return };
        let outcome = match pending.state() {
            StepState::Working => return,
            StepState::Done((side, step)) => self.stepped(side, step),
            StepState::GivenUp => Err(self.failed("its computation has failed")),
        };
        if let Err(fault) = outcome {
            self.fail(ring, *fault);
        }
    }

    /// Takes the completion of a command that carries authentication.
    pub(super) fn exchanged(&mut self, completion: &Completion) -> Result<(), Box<Fault>> {
        if !completion.status.is_success() {
            return Err(self.failed(format!("the target answers `{}`", completion.status)));
        }
        match self.exchange.take() {
            Some(Exchange::Sent(side)) => {
                self.exchange = Some(Exchange::Message(side));
                self.ask_for_message();
            }
            Some(Exchange::Message(side)) => {
                let message = completion.data.as_deref().unwrap_or_default();
                return self.take_message(side, message);
            }
            Some(Exchange::Last(Ok(psk))) => {
                self.has_key(psk)?;
                self.is_proved();
            }
            Some(Exchange::Last(Err(fault))) => return Err(self.failed(fault.why)),
            other @ (Some(Exchange::Step(_)) | None) => self.exchange = other,
        }
        Ok(())
    }

    fn take_message(&mut self, mut side: Box<HostSide>, message: &[u8]) -> Result<(), Box<Fault>> {
        if !side.costs_work(message) {
            // Other messages cost a hash or two. A refusal is taken at once, for the end of the connection may be behind it.
            let step = side.take(message, &mut ring::fill_random);
            return self.stepped(side, step);
        }
        let message = message.to_vec();
        let step = move || {
            let step = side.take(&message, &mut ring::fill_random);
            (side, step)
        };
        let Some(pending) = self.worker.hand(step) else {
            return Err(self.failed("too many queues do so at this time"));
        };
        self.exchange = Some(Exchange::Step(pending));
        Ok(())
    }

    /// Goes on after a step.
    fn stepped(&mut self, mut side: Box<HostSide>, step: HostStep) -> Result<(), Box<Fault>> {
        let (exchange, message) = match step {
            HostStep::Exchange(message) => (Exchange::Sent(side), message),
            HostStep::Done(_, None) => {
                self.exchange = None;
                self.has_key(side.take_psk())?;
                self.is_proved();
                return Ok(());
            }
            HostStep::Done(_, Some(message)) => (Exchange::Last(Ok(side.take_psk())), message),
            HostStep::Failed(fault, None) => return Err(self.failed(fault.why)),
            HostStep::Failed(fault, Some(message)) => (Exchange::Last(Err(fault)), message),
        };
        self.exchange = Some(exchange);
        self.message = Some(message);
        self.send_message();
        Ok(())
    }

    fn failed(&self, why: impl Into<String>) -> Box<Fault> {
        let address = self.options.address;
        Fault::ended(InitiatorError::AuthenticationFailed { address, why: why.into() })
    }

    /// Error of a queue whose connection ends while it authenticates: there are targets that close
    /// it at once, while the reason of the failure is being sent to them, or instead of the answer
    /// that gives it.
    pub(super) fn unproved(&mut self, error: InitiatorError) -> InitiatorError {
        let address = self.options.address;
        match (self.exchange.take(), &error) {
            (Some(Exchange::Last(Err(fault))), _) => {
                InitiatorError::AuthenticationFailed { address, why: fault.why }
            }
            (Some(_), InitiatorError::Closed { .. }) if self.state == QueueState::Authenticating => {
                InitiatorError::NotAuthenticated { reason: Box::new(error) }
            }
            _ => error,
        }
    }

    /// Sends the message that waits for a slot, if there is one.
    pub(super) fn send_message(&mut self) {
        if self.slots.free() == 0 {
            return;
        }
        let Some(message) = self.message.take() else { return };
        let mut buffer = Buffer::zeroed(message.len());
        buffer.copy_from_slice(&message);
        let entry = Transfer { length: message.len() as u32 }.encode_send();
        let _ = self.start(Request { entry, data: Data::Send(buffer), user: 0 }, true);
    }

    /// Asks for the controller's message, in the slot that the own one has just left.
    fn ask_for_message(&mut self) {
        let entry = Transfer { length: RECEIVE_BYTES as u32 }.encode_receive();
        let data = Data::Receive(Buffer::zeroed(RECEIVE_BYTES));
        let _ = self.start(Request { entry, data, user: 0 }, true);
    }
}
