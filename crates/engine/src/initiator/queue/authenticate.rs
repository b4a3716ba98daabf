//! How a queue authenticates when the target asks for it: a message to the controller, one from it, and so on, before the
//! queue is live. What the messages say is the crate `authentication`'s.

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
            if secrets.controller_secret.is_some() {
                // It may be anybody who has the target's address.
                return failed("the target was to authenticate, and does not ask this host for it");
            }
            self.state = QueueState::Live;
            return Ok(());
        }
        let side = HostSide::new(
            HostTerms {
                host_nqn: self.options.host.nqn.clone(),
                subsystem_nqn: self.options.subsystem_nqn.clone(),
                secret: secrets.secret.clone(),
                controller_secret: secrets.controller_secret.clone(),
                hashes: Hash::ALL.to_vec(),
                groups: Group::ALL.to_vec(),
            },
            ring::random() as u16,
        );
        self.state = QueueState::Authenticating;
        let offer = side.offer();
        self.exchange = Some(Box::new(Exchange { side, awaits: Awaits::Sent }));
        self.send_message(&offer);
        Ok(())
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
                        self.state = QueueState::Live;
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
                self.state = QueueState::Live;
                return Ok(());
            }
            Awaits::Last(Err(fault)) => return Err(failed(fault.why)),
        }
        self.exchange = Some(exchange);
        Ok(())
    }

    fn send_message(&mut self, message: &[u8]) {
        let mut buffer = Buffer::zeroed(message.len());
        buffer.copy_from_slice(message);
        let entry = Transfer { length: message.len() as u32 }.encode_send();
        // It is the only command of a queue that is not live, so that there is a slot.
        let _ = self.start(Request { entry, data: Data::Send(buffer), user: 0 });
    }

    fn ask_for_message(&mut self) {
        let entry = Transfer { length: RECEIVE_BYTES as u32 }.encode_receive();
        let data = Data::Receive(Buffer::zeroed(RECEIVE_BYTES));
        let _ = self.start(Request { entry, data, user: 0 });
    }
}
