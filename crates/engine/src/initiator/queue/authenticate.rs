//! How a queue authenticates when the target asks for it: a message to the controller, one from it, and so on, before the
//! queue is live. What the messages say is the crate `authentication`'s.

use std::time::Duration;

use authentication::{Fault as Failed, Group, Hash, HostSide, HostStep, HostTerms};
use nvme::authentication::{Transfer, required};

use super::fault::Fault;
use super::{Completion, Data, Queue, QueueState, Request};
use crate::initiator::InitiatorError;
use crate::ring::{self, Buffer};

/// Bytes of a message that the controller is asked for, as Linux does.
const RECEIVE_BYTES: usize = 4096;

/// What a queue's authentication waits for.
pub(super) struct Exchange {
    side: HostSide,
    awaits: Awaits,
}

enum Awaits {
    /// That the controller has taken a message, after which it is asked for one.
    Sent,
    /// A message of the controller.
    Message,
    /// That the controller has taken the last message.
    Last(Result<(), Failed>),
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
        let failed = |why: &str| {
            Err(Fault::ended(InitiatorError::AuthenticationFailed { address, why: why.to_owned() }))
        };
        let Some(secrets) = &self.options.secrets else {
            if result & (required::AUTHENTICATION | required::SECURE_CHANNEL) != 0 {
                return Err(Fault::ended(InitiatorError::AuthenticationRequired { address }));
            }
            self.state = QueueState::Live;
            return Ok(());
        };
        if result & required::SECURE_CHANNEL != 0 {
            return failed("the target wants a TLS key to come out of it (secure channel concatenation)");
        }
        if result & required::AUTHENTICATION == 0 {
            // Linux' target of 7.3 asks on the admin queue alone, where it has authenticated then.
            if secrets.controller_secret.is_some() && self.options.queue_id == 0 {
                // It may be anybody who has the target's address.
                return failed("the target was to authenticate, and does not ask this host for it");
            }
            self.state = QueueState::Live;
            return Ok(());
        }
        self.state = QueueState::Authenticating;
        self.begin_exchange();
        Ok(())
    }

    /// Authenticates once more if it is time, beside the commands that are under way, when they have left a slot.
    pub(super) fn authenticate_anew(&mut self) {
        if self.wants_exchange && self.slots.free() > 0 {
            self.wants_exchange = false;
            self.begin_exchange();
        }
    }

    fn begin_exchange(&mut self) {
        let Some(secrets) = &self.options.secrets else { return };
        let terms = HostTerms {
            host_nqn: self.options.host.nqn.clone(),
            subsystem_nqn: self.options.subsystem_nqn.clone(),
            secret: secrets.secret.clone(),
            controller_secret: secrets.controller_secret.clone(),
            hashes: Hash::ALL.to_vec(),
            groups: Group::ALL.to_vec(),
        };
        let side = HostSide::new(terms, ring::random() as u16);
        let offer = side.offer();
        self.exchange = Some(Box::new(Exchange { side, awaits: Awaits::Sent }));
        self.send_message(&offer);
    }

    /// Both are who they say they are.
    fn is_proved(&mut self) {
        self.state = QueueState::Live;
        let interval = self.options.secrets.as_ref().and_then(|secrets| secrets.reauth_interval);
        // Up to a tenth sooner, so that many queues that came together do not all come together again.
        let sooner = |interval: Duration| interval / 10 * (ring::random() % 1024) as u32 / 1024;
        self.exchange_at = interval.map(|interval| ring::now().after(interval - sooner(interval)));
    }

    /// Takes the completion of a command that carries authentication.
    pub(super) fn exchanged(&mut self, completion: &Completion) -> Result<(), Box<Fault>> {
        let address = self.options.address;
        let failed = |why: String| Fault::ended(InitiatorError::AuthenticationFailed { address, why });
        if !completion.status.is_success() {
            return Err(failed(format!("the target answers `{}`", completion.status)));
        }
        let Some(mut exchange) = self.exchange.take() else { return Ok(()) };
        match std::mem::replace(&mut exchange.awaits, Awaits::Message) {
            Awaits::Sent => self.ask_for_message(),
            Awaits::Message => {
                let message = completion.data.as_deref().unwrap_or_default();
                match exchange.side.take(message, &mut ring::fill_random) {
                    HostStep::Exchange(bytes) => {
                        exchange.awaits = Awaits::Sent;
                        self.send_message(&bytes);
                    }
                    HostStep::Done(_, None) => {
                        self.is_proved();
                        return Ok(());
                    }
                    HostStep::Done(_, Some(bytes)) => {
                        exchange.awaits = Awaits::Last(Ok(()));
                        self.send_message(&bytes);
                    }
                    HostStep::Failed(fault, None) => return Err(failed(fault.why)),
                    HostStep::Failed(fault, Some(bytes)) => {
                        exchange.awaits = Awaits::Last(Err(fault));
                        self.send_message(&bytes);
                    }
                }
            }
            Awaits::Last(Ok(())) => {
                self.is_proved();
                return Ok(());
            }
            Awaits::Last(Err(fault)) => return Err(failed(fault.why)),
        }
        self.exchange = Some(exchange);
        Ok(())
    }

    /// Why the queue has failed already, whose end comes while the controller is told so: there are targets that close the
    /// connection at once.
    pub(super) fn failure(&mut self) -> Option<InitiatorError> {
        let address = self.options.address;
        match self.exchange.take()?.awaits {
            Awaits::Last(Err(fault)) => {
                Some(InitiatorError::AuthenticationFailed { address, why: fault.why })
            }
            _ => None,
        }
    }

    fn send_message(&mut self, message: &[u8]) {
        let mut buffer = Buffer::zeroed(message.len());
        buffer.copy_from_slice(message);
        let entry = Transfer { length: message.len() as u32 }.encode_send();
        // It is the only command of a queue that is not live, and has a slot of its own on one that is.
        let _ = self.start(Request { entry, data: Data::Send(buffer), user: 0 }, true);
    }

    fn ask_for_message(&mut self) {
        let entry = Transfer { length: RECEIVE_BYTES as u32 }.encode_receive();
        let data = Data::Receive(Buffer::zeroed(RECEIVE_BYTES));
        let _ = self.start(Request { entry, data, user: 0 }, true);
    }
}
