//! The controller's side of an exchange: takes the host's messages, and has one to give when the host asks. It says which
//! side is wrong when it ends badly.

use nvme::authentication::{Body, Challenge, Failure, Message, Negotiate, Reply};
use zeroize::Zeroizing;

use crate::key_exchange::Opening;
use crate::response::{Question, Role};
use crate::{Authenticated, Concatenation, Entropy, Fault, GeneratedPsk, Group, Hash, Secret};

/// Requirements of a controller towards a host.
#[derive(Clone, Debug)]
pub struct ControllerTerms {
    /// The host's name.
    pub host_nqn: String,
    /// The subsystem's.
    pub subsystem_nqn: String,
    /// Secrets of the host, each of which is accepted: two while one takes the other's place.
    pub secrets: Vec<Secret>,
    /// The secret by which the controller authenticates to a host that asks it to.
    pub controller_secret: Option<Secret>,
    /// Hash functions, the preferred one first.
    pub hashes: Vec<Hash>,
    /// Groups, the preferred one first.
    pub groups: Vec<Group>,
    /// Concatenation that the host has to request.
    pub concatenation: Concatenation,
}

/// Progress of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something is still to come.
    Continues,
    /// The host is the one that it says it is.
    Authenticated(Authenticated),
    /// The exchange failed. A last message from `give` reports it to the host.
    Failed(Fault),
}

enum State {
    AwaitsNegotiate,
    OwesChallenge { hash: Hash, group: Group },
    AwaitsReply(Box<Challenged>),
    OwesSuccess1 { hash: Hash, response: Option<Vec<u8>>, authenticated: Authenticated },
    AwaitsSuccess2(Authenticated),
    OwesFailure(Failure),
    Ended,
}

struct Challenged {
    hash: Hash,
    group: Group,
    opening: Opening,
    challenge: Vec<u8>,
    sequence: u32,
}

/// Controller's side of an exchange.
pub struct ControllerSide {
    terms: ControllerTerms,
    transaction: u16,
    state: State,
    /// Generated TLS key, withheld until the host has authenticated.
    psk: Option<GeneratedPsk>,
    has_authenticated: bool,
}

impl ControllerSide {
    /// An exchange that begins with the host's first message.
    pub const fn new(terms: ControllerTerms) -> Self {
        Self { terms, transaction: 0, state: State::AwaitsNegotiate, psk: None, has_authenticated: false }
    }

    /// True if it has ended and no message is left to send.
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Group in which the next step exchanges keys, if it does.
    pub const fn next_group(&self) -> Option<Group> {
        match &self.state {
            State::OwesChallenge { group, .. } => Some(*group),
            State::AwaitsReply(challenged) => Some(challenged.group),
            _ => None,
        }
    }

    /// The TLS key that has come out of the exchange: once, and only when the host has authenticated.
    pub fn take_psk(&mut self) -> Option<GeneratedPsk> {
        if self.has_authenticated { self.psk.take() } else { None }
    }

    /// Takes a message of the host.
    pub fn take(&mut self, bytes: &[u8]) -> Progress {
        let progress = self.taken(bytes);
        self.note(progress)
    }

    fn note(&mut self, progress: Progress) -> Progress {
        self.has_authenticated |= matches!(progress, Progress::Authenticated(_));
        progress
    }

    fn taken(&mut self, bytes: &[u8]) -> Progress {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => {
                return self.fail(error.reason, format!("the host sent what is not a message: {error}"));
            }
        };
        let is_first = matches!(self.state, State::AwaitsNegotiate);
        if is_first {
            self.transaction = message.transaction;
        } else if message.transaction != self.transaction {
            let (theirs, ours) = (message.transaction, self.transaction);
            let why = format!("the host sent a message of transaction {theirs} during {ours}");
            return self.fail(Failure::PAYLOAD, why);
        }
        match (std::mem::replace(&mut self.state, State::Ended), message.body) {
            (State::AwaitsNegotiate, Body::Negotiate(negotiate)) => self.negotiate(&negotiate),
            (State::AwaitsReply(challenged), Body::Reply(reply)) => self.reply(&challenged, &reply),
            (State::AwaitsSuccess2(authenticated), Body::Success2) => Progress::Authenticated(authenticated),
            (State::AwaitsReply(_) | State::AwaitsSuccess2(_), Body::Failure2(reason)) => {
                let why = match reason {
                    Failure::FAILED => {
                        "the host does not accept the controller's response: it has another secret for the \
                         subsystem than the target"
                            .to_owned()
                    }
                    other => format!("the host ended the exchange: {}", other.name()),
                };
                Progress::Failed(Fault::new(reason, why))
            }
            (_, body) => {
                let why = format!("the host sent {} when another message was due", body.name());
                self.fail(Failure::MESSAGE, why)
            }
        }
    }

    /// The message that the host asks for.
    pub fn give(&mut self, entropy: Entropy<'_>) -> (Vec<u8>, Progress) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::OwesChallenge { hash, group } => {
                let opening = Opening::new(group, entropy);
                let mut challenge = vec![0; hash.length()];
                entropy(&mut challenge);
                let sequence = sequence(entropy);
                let body = Body::Challenge(Challenge {
                    hash: hash.id(),
                    group: group.id(),
                    sequence,
                    challenge: challenge.clone(),
                    exchange: opening.value.clone(),
                });
                let challenged = Challenged { hash, group, opening, challenge, sequence };
                self.state = State::AwaitsReply(Box::new(challenged));
                (self.message(body), Progress::Continues)
            }
            State::OwesSuccess1 { hash, response, authenticated } => {
                let progress = if response.is_some() {
                    self.state = State::AwaitsSuccess2(authenticated);
                    Progress::Continues
                } else {
                    Progress::Authenticated(authenticated)
                };
                let progress = self.note(progress);
                (self.message(Body::Success1 { length: hash.length() as u8, response }), progress)
            }
            State::OwesFailure(reason) => (self.message(Body::Failure1(reason)), Progress::Continues),
            _ => {
                let progress = self.fail(
                    Failure::MESSAGE,
                    "the host asked for a message when it had to send one".to_owned(),
                );
                self.state = State::Ended;
                (self.message(Body::Failure1(Failure::MESSAGE)), progress)
            }
        }
    }

    fn message(&self, body: Body) -> Vec<u8> {
        Message { transaction: self.transaction, body }.encode()
    }

    fn fail(&mut self, reason: Failure, why: String) -> Progress {
        self.state = State::OwesFailure(reason);
        Progress::Failed(Fault::new(reason, why))
    }

    fn negotiate(&mut self, negotiate: &Negotiate) -> Progress {
        if negotiate.concatenation != self.terms.concatenation.id() {
            let why = mismatch(self.terms.concatenation, negotiate.concatenation);
            return self.fail(Failure::CONCATENATION, why.to_owned());
        }
        if negotiate.hashes.is_empty() && negotiate.groups.is_empty() {
            let why = "the host does not offer DH-HMAC-CHAP";
            return self.fail(Failure::PROTOCOL, why.to_owned());
        }
        // No key comes of these.
        let concatenation = self.terms.concatenation;
        self.terms.hashes.retain(|hash| concatenation.takes(*hash));
        self.terms.groups.retain(|group| !concatenation.generates() || *group != Group::Null);
        let hash = self.terms.hashes.iter().copied().find(|hash| negotiate.hashes.contains(&hash.id()));
        let Some(hash) = hash else {
            let names = names(&self.terms.hashes, Hash::name);
            return self.fail(Failure::HASH, format!("the host offers none of the hash functions {names}"));
        };
        let group = self.terms.groups.iter().copied().find(|group| negotiate.groups.contains(&group.id()));
        let Some(group) = group else {
            let names = names(&self.terms.groups, Group::name);
            return self.fail(Failure::GROUP, format!("the host offers none of the groups {names}"));
        };
        self.state = State::OwesChallenge { hash, group };
        Progress::Continues
    }

    fn reply(&mut self, challenged: &Challenged, reply: &Reply) -> Progress {
        let Challenged { hash, group, opening, challenge, sequence } = challenged;
        if reply.response.len() != hash.length() {
            let why = format!("the host's response has {} bytes, not {hash}'s", reply.response.len());
            return self.fail(Failure::PAYLOAD, why);
        }
        let Some(shared) = opening.conclude(&reply.exchange) else {
            return self
                .fail(Failure::PAYLOAD, format!("the host's half of the key exchange is not {group}'s"));
        };
        let session_key = Zeroizing::new(hash.digest(&shared));
        let session_key = (*group != Group::Null).then_some(&session_key[..]);
        let question = Question {
            hash: *hash,
            challenge,
            session_key,
            sequence: *sequence,
            transaction: self.transaction,
            concatenation: self.terms.concatenation,
            role: Role::Host,
            host_nqn: &self.terms.host_nqn,
            subsystem_nqn: &self.terms.subsystem_nqn,
        };
        // All of them, so that the time does not say which was right.
        let right: Vec<bool> =
            self.terms.secrets.iter().map(|secret| question.is_answered(secret, &reply.response)).collect();
        let Some(secret) = right.iter().position(|is_right| *is_right) else {
            let why = "the host's response is wrong: its secret is not the one that the target has for it";
            return self.fail(Failure::FAILED, why.to_owned());
        };
        let generates = self.terms.concatenation.generates();
        let response = match (&reply.challenge, &self.terms.controller_secret) {
            (None, _) if generates => {
                let why = "the host's reply has no challenge value (C2), of which the TLS key is made";
                return self.fail(Failure::PAYLOAD, why.to_owned());
            }
            (None, _) => None,
            // The challenge is for the TLS key alone (S2 is 0).
            (Some(theirs), _) if generates && reply.sequence == 0 && theirs != challenge => None,
            (Some(_), None) => {
                let why = "the host asks the controller to authenticate, which has no secret for it";
                return self.fail(Failure::FAILED, why.to_owned());
            }
            (Some(theirs), Some(_)) if theirs == challenge => {
                // What it would be answered with was asked of itself.
                let why = "the host returns the controller's own challenge";
                return self.fail(Failure::FAILED, why.to_owned());
            }
            (Some(theirs), Some(own)) => {
                let (challenge, sequence) = (&theirs[..], reply.sequence);
                Some(Question { challenge, sequence, role: Role::Controller, ..question }.response(own))
            }
        };
        if let (true, Some(session_key), Some(theirs)) = (generates, session_key, &reply.challenge) {
            self.psk = Some(GeneratedPsk::new(*hash, session_key, (challenge, theirs)));
        }
        let is_bidirectional = response.is_some();
        let authenticated = Authenticated { hash: *hash, group: *group, is_bidirectional, secret };
        self.state = State::OwesSuccess1 { hash: *hash, response, authenticated };
        Progress::Continues
    }
}

/// Why a host cannot have what it asks for (SC_C).
const fn mismatch(ours: Concatenation, theirs: u8) -> &'static str {
    match (ours, theirs) {
        (_, 1) => "the host wants a secure channel by a way (SC) that the specification no longer has",
        (Concatenation::None, _) => {
            "the host wants a TLS key (secure channel concatenation), which the target does not make here"
        }
        (Concatenation::New, 0) => {
            "the host does not ask for a TLS key, and the target wants it to: connect with --concat"
        }
        (Concatenation::New, _) => "the host wants to replace a TLS key that its connection does not have",
        (Concatenation::Replace, 0) => {
            "the host authenticates again without another TLS key, which the target wants to come out of it"
        }
        (Concatenation::Replace, _) => {
            "the host wants a first TLS key (NEWTLSPSK) on a connection that has one, instead of another \
             (REPLACETLSPSK)"
        }
    }
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> String {
    all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ")
}

/// A random number that is not 0, which has a meaning of its own.
pub(crate) fn sequence(entropy: Entropy<'_>) -> u32 {
    let mut bytes = [0; 4];
    entropy(&mut bytes);
    u32::from_le_bytes(bytes).max(1)
}
