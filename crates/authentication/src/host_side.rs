//! The host's side of an exchange: makes its messages, and checks the controller's. It says which side is wrong when it ends
//! badly.

use nvme::authentication::{Body, Challenge, Failure, Message, Negotiate, Reply};
use zeroize::Zeroizing;

use crate::controller_side::sequence;
use crate::response::{Question, Role};
use crate::{Authenticated, Concatenation, Entropy, Fault, GeneratedPsk, Group, Hash, Secret, key_exchange};

/// Offers and requirements of a host.
#[derive(Clone, Debug)]
pub struct HostTerms {
    /// The host's name.
    pub host_nqn: String,
    /// The subsystem's.
    pub subsystem_nqn: String,
    /// The host's secret.
    pub secret: Secret,
    /// The secret by which the controller has to authenticate; it need not without one.
    pub controller_secret: Option<Secret>,
    /// Hash functions.
    pub hashes: Vec<Hash>,
    /// Groups.
    pub groups: Vec<Group>,
    /// TLS key that the exchange is to generate, if any.
    pub concatenation: Concatenation,
}

/// Result of a message of the controller.
#[derive(Debug, PartialEq, Eq)]
pub enum HostStep {
    /// This is to be sent, and then a message to be asked for.
    Exchange(Vec<u8>),
    /// The exchange is complete once this message, if any, is sent.
    Done(Authenticated, Option<Vec<u8>>),
    /// The exchange failed. The message, if any, is to be sent before the queue is closed.
    Failed(Fault, Option<Vec<u8>>),
}

enum State {
    AwaitsChallenge,
    AwaitsSuccess1(Box<Replied>),
    Ended,
}

struct Replied {
    hash: Hash,
    group: Group,
    session_key: Option<Zeroizing<Vec<u8>>>,
    /// The own challenge and its number; the controller has to authenticate where that is not 0.
    own: Option<(Vec<u8>, u32)>,
    /// The TLS key, which is believed when the controller has succeeded.
    psk: Option<GeneratedPsk>,
}

/// Host's side of an exchange.
pub struct HostSide {
    terms: HostTerms,
    transaction: u16,
    state: State,
    psk: Option<GeneratedPsk>,
}

impl HostSide {
    /// An exchange with this number, which no other of the queue has.
    pub fn new(mut terms: HostTerms, transaction: u16) -> Self {
        // No key comes of these.
        let concatenation = terms.concatenation;
        terms.hashes.retain(|hash| concatenation.takes(*hash));
        terms.groups.retain(|group| !concatenation.generates() || *group != Group::Null);
        Self { terms, transaction, state: State::AwaitsChallenge, psk: None }
    }

    /// The TLS key that has come out of the exchange, once it is done.
    pub const fn take_psk(&mut self) -> Option<GeneratedPsk> {
        self.psk.take()
    }

    /// The first message.
    pub fn offer(&self) -> Vec<u8> {
        self.message(Body::Negotiate(Negotiate {
            concatenation: self.terms.concatenation.id(),
            hashes: self.terms.hashes.iter().map(|hash| hash.id()).collect(),
            groups: self.terms.groups.iter().map(|group| group.id()).collect(),
        }))
    }

    /// True if this message of the controller is its challenge, which costs public-key work.
    pub fn costs_work(&self, bytes: &[u8]) -> bool {
        let is_challenge = |message: &Message| matches!(message.body, Body::Challenge(_));
        matches!(self.state, State::AwaitsChallenge)
            && Message::decode(bytes).as_ref().is_ok_and(is_challenge)
    }

    /// Takes a message of the controller.
    pub fn take(&mut self, bytes: &[u8], entropy: Entropy<'_>) -> HostStep {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => {
                let why = format!("the controller sent what is not a message: {error}");
                return self.fail(error.reason, why);
            }
        };
        if message.transaction != self.transaction {
            let (theirs, ours) = (message.transaction, self.transaction);
            let why = format!("the controller sent a message of transaction {theirs} during {ours}");
            return self.fail(Failure::PAYLOAD, why);
        }
        match (std::mem::replace(&mut self.state, State::Ended), message.body) {
            (_, Body::Failure1(reason)) => {
                HostStep::Failed(Fault::new(reason, refusal(reason, self.terms.concatenation)), None)
            }
            (State::AwaitsChallenge, Body::Challenge(challenge)) => self.challenged(&challenge, entropy),
            (State::AwaitsSuccess1(mut replied), Body::Success1 { response, .. }) => {
                let psk = replied.psk.take();
                let step = self.succeeded(&replied, response.as_deref());
                if matches!(step, HostStep::Done(..)) {
                    self.psk = psk;
                }
                step
            }
            (_, body) => {
                let why = format!("the controller sent {} when another message was due", body.name());
                self.fail(Failure::MESSAGE, why)
            }
        }
    }

    fn message(&self, body: Body) -> Vec<u8> {
        Message { transaction: self.transaction, body }.encode()
    }

    fn fail(&mut self, reason: Failure, why: impl Into<String>) -> HostStep {
        self.state = State::Ended;
        HostStep::Failed(Fault::new(reason, why), Some(self.message(Body::Failure2(reason))))
    }

    fn challenged(&mut self, challenge: &Challenge, entropy: Entropy<'_>) -> HostStep {
        let hash = Hash::of(challenge.hash).filter(|hash| self.terms.hashes.contains(hash));
        let Some(hash) = hash.filter(|hash| hash.length() == challenge.challenge.len()) else {
            let why = format!("the controller chose hash function {}, which was not offered", challenge.hash);
            return self.fail(Failure::HASH, why);
        };
        // Linux' target chooses the group that it is configured for whether the host has offered it or not.
        let Some(group) = Group::of(challenge.group).filter(|group| self.terms.groups.contains(group)) else {
            let why = format!("the controller chose group {:#04x}, which was not offered", challenge.group);
            return self.fail(Failure::GROUP, why);
        };
        let Some((exchange, shared)) = key_exchange::answer(group, &challenge.exchange, entropy) else {
            let why = format!("the controller's half of the key exchange is not {group}'s");
            return self.fail(Failure::PAYLOAD, why);
        };
        let session_key = (group != Group::Null).then(|| Zeroizing::new(hash.digest(&shared)));
        let question = self.question(
            (hash, session_key.as_deref().map(|key| &key[..])),
            &challenge.challenge,
            challenge.sequence,
            Role::Host,
        );
        let response = question.response(&self.terms.secret);
        let (generates, is_bidirectional) =
            (self.terms.concatenation.generates(), self.terms.controller_secret.is_some());
        let own = (generates || is_bidirectional).then(|| {
            let mut own = vec![0; hash.length()];
            entropy(&mut own);
            // Number 0 says that the challenge is for the TLS key alone.
            (own, if is_bidirectional { sequence(entropy) } else { 0 })
        });
        let psk = match (generates, &session_key, &own) {
            (true, Some(key), Some((own, _))) => {
                Some(GeneratedPsk::new(hash, key, (&challenge.challenge, own)))
            }
            _ => None,
        };
        let reply = Reply {
            response,
            challenge: own.as_ref().map(|(challenge, _)| challenge.clone()),
            sequence: own.as_ref().map_or(0, |(_, sequence)| *sequence),
            exchange,
        };
        self.state = State::AwaitsSuccess1(Box::new(Replied { hash, group, session_key, own, psk }));
        HostStep::Exchange(self.message(Body::Reply(reply)))
    }

    fn succeeded(&mut self, replied: &Replied, response: Option<&[u8]>) -> HostStep {
        let Replied { hash, group, session_key, own, .. } = replied;
        let is_bidirectional = self.terms.controller_secret.is_some();
        let authenticated = Authenticated { hash: *hash, group: *group, is_bidirectional, secret: 0 };
        let (Some((challenge, sequence)), Some(secret)) = (own, &self.terms.controller_secret) else {
            return HostStep::Done(authenticated, None);
        };
        let Some(response) = response else {
            return self.fail(Failure::FAILED, "the controller does not authenticate, and was asked to");
        };
        let session_key = session_key.as_deref().map(|key| &key[..]);
        let question = self.question((*hash, session_key), challenge, *sequence, Role::Controller);
        if !question.is_answered(secret, response) {
            let without = Question { concatenation: Concatenation::None, ..question };
            if self.terms.concatenation.generates() && without.is_answered(secret, response) {
                return self.fail(Failure::FAILED, OLD_KERNEL);
            }
            let why = "the controller's response is wrong: its secret is not the one that this host has for the \
                       subsystem";
            return self.fail(Failure::FAILED, why);
        }
        HostStep::Done(authenticated, Some(self.message(Body::Success2)))
    }

    fn question<'a>(
        &'a self,
        (hash, session_key): (Hash, Option<&'a [u8]>),
        challenge: &'a [u8],
        sequence: u32,
        role: Role,
    ) -> Question<'a> {
        Question {
            hash,
            challenge,
            session_key,
            sequence,
            transaction: self.transaction,
            concatenation: self.terms.concatenation,
            role,
            host_nqn: &self.terms.host_nqn,
            subsystem_nqn: &self.terms.subsystem_nqn,
        }
    }
}

/// Fault of a controller whose response is right but for SC_C: Linux' target from 6.16 until 2026.
const OLD_KERNEL: &str = "the controller's response leaves out that a TLS key is wanted (SC_C): Linux' target does so \
     before commit 5d10069e1a16; give it a newer kernel, or concatenate without the controller's secret";

/// Why a controller refuses a host, by what it says.
fn refusal(reason: Failure, concatenation: Concatenation) -> String {
    let hint = match reason {
        Failure::FAILED => ": this host's secret is not the one that the target has for it",
        Failure::HASH | Failure::GROUP => ": the target has none of those that were offered",
        Failure::CONCATENATION if concatenation.generates() => {
            ": the target makes no TLS key for this host (tls_concat); connect without --concat"
        }
        Failure::CONCATENATION => ": the target wants a TLS key to come out of it; connect with --concat",
        _ => "",
    };
    format!("the controller says: {}{hint}", reason.name())
}
