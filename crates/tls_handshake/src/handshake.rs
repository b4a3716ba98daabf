//! One handshake, of either side. It takes what the peer has sent and says what the peer is to get, until there are secrets or
//! an alert is due.

use std::fmt;

use secure_channel::{
    Alert, ClientHello, ExternalPsk, FirstBytes, Peer, RecordLimit, Sealer, Suite, TrafficSecret,
};

use crate::framing::{Framing, Violation};
use crate::key::Key;
use crate::key_log::Secrets;
use crate::library::{Error, ErrorType, Library};
use crate::{HandshakeError, KEYS_MAX};

/// A handshake that is not complete yet.
pub struct Handshake {
    /// Peer at the other end.
    peer: Peer,
    keys: Vec<Key>,
    /// Until it is complete or has failed: unfinished handshakes are large.
    library: Option<Library>,
    framing: Framing,
    secrets: Secrets,
    /// First message of a host, until it is answered: it shows why the library refuses it.
    hello: Option<Vec<u8>>,
    has_begun: bool,
    error: Option<HandshakeError>,
}

/// Progress of a handshake.
#[derive(Debug)]
pub enum Progress {
    /// The handshake waits for more of the peer's bytes.
    Continues,
    /// The handshake is complete.
    Done(Established),
}

/// Result of a handshake.
#[derive(Debug)]
pub struct Established {
    /// The secret of what is sent from here.
    pub sending: TrafficSecret,
    /// The secret of what the peer sends.
    pub receiving: TrafficSecret,
    /// The suite of both.
    pub suite: Suite,
    /// The place of the key that both ends have, among those that were offered.
    pub key: usize,
    /// The name of the group of the key exchange, for the log.
    pub group: String,
}

impl Handshake {
    /// The controller's side, with the key that the host's ClientHello was found to be made with.
    ///
    /// # Errors
    /// When the library cannot be set up.
    pub fn of_controller(key: &impl ExternalPsk) -> Result<Self, HandshakeError> {
        Self::new(Peer::Host, vec![Key::of(key)])
    }

    /// The host's side, which offers these keys in this order. Two keys cannot have one identity: of a key that was derived in
    /// two ways, the caller chooses one.
    ///
    /// # Errors
    /// When there are no keys, more than [`KEYS_MAX`] or two with one identity, or the library cannot be set up.
    pub fn of_host<K: ExternalPsk>(keys: &[K]) -> Result<Self, HandshakeError> {
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(HandshakeError::KeyCount(keys.len()));
        }
        for (place, key) in keys.iter().enumerate() {
            let identity = key.identity_bytes();
            if keys[..place].iter().any(|other| other.identity_bytes() == identity) {
                return Err(HandshakeError::SameIdentity(String::from_utf8_lossy(&identity).into_owned()));
            }
        }
        Self::new(Peer::Controller, keys.iter().map(Key::of).collect())
    }

    fn new(peer: Peer, keys: Vec<Key>) -> Result<Self, HandshakeError> {
        let library =
            Library::new(peer, &keys).map_err(|error| HandshakeError::Library(error.to_string()))?;
        Ok(Self {
            peer,
            keys,
            library: Some(library),
            framing: Framing::default(),
            secrets: Secrets::default(),
            hello: (peer == Peer::Host).then(Vec::new),
            has_begun: false,
            error: None,
        })
    }

    /// Takes of `input` what belongs to the handshake, and appends what the peer is to get to `output`. What is left of `input`
    /// when it is complete are records behind it. A host calls it first without input.
    ///
    /// # Errors
    /// When there will be no channel; `output` has the alert that the peer is due. Each further call says the same.
    pub fn step(&mut self, input: &mut &[u8], output: &mut Vec<u8>) -> Result<Progress, HandshakeError> {
        let Some(mut library) = self.library.take() else {
            return Err(self.error.clone().unwrap_or(HandshakeError::Complete));
        };
        let result = self.advance(&mut library, input, output);
        if matches!(result, Ok(Progress::Continues)) {
            self.library = Some(library);
            return result;
        }
        if let Err(error) = &result {
            error.alert().into_iter().for_each(|alert| self.append_alert(alert, output));
            self.error = Some(error.clone());
        }
        self.secrets = Secrets::default();
        self.keys = Vec::new();
        result
    }

    /// Error for a peer that closes the connection now.
    pub const fn closed(&self) -> HandshakeError {
        HandshakeError::Closed(self.peer)
    }

    fn advance(
        &mut self,
        library: &mut Library,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        while !input.is_empty() || !self.has_begun {
            self.has_begun = true;
            let of_record = self.framing.next(input).map_err(|violation| self.violation(violation))?;
            let (bytes, rest) = input.split_at(of_record);
            *input = rest;
            let sent_bytes = output.len();
            self.hello.iter_mut().for_each(|hello| hello.extend_from_slice(bytes));
            let done = library.negotiate(bytes, output, &mut self.secrets);
            if done.map_err(|error| self.failure(library, &error))? {
                return self.established(library).map(Progress::Done);
            }
            if output.len() > sent_bytes {
                self.hello = None;
            }
            // A controller that knows none of the keys goes on with certificates, which are not even read here.
            if self.secrets.controller_handshake.is_some() && library.identity().is_none() {
                return Err(HandshakeError::NoKey);
            }
        }
        Ok(Progress::Continues)
    }

    fn established(&mut self, library: &Library) -> Result<Established, HandshakeError> {
        let mismatch = |what| self.violation(Violation { what, alert: Alert::ILLEGAL_PARAMETER });
        if !library.is_tls_1_3() {
            return Err(mismatch("chose another version than TLS 1.3"));
        }
        let identity = library.identity().ok_or(HandshakeError::NoKey)?;
        let key = self.keys.iter().position(|key| key.identity == identity);
        let key = key.ok_or_else(|| mismatch("chose an identity that was not offered"))?;
        let suite = self.keys[key].suite;
        if library.suite() != Some(suite.name()) {
            return Err(mismatch("chose another suite than that of the key"));
        }
        let group = library.group().unwrap_or("an unknown group").to_owned();
        let (Some(host), Some(controller)) = (&self.secrets.host, &self.secrets.controller) else {
            return Err(HandshakeError::Library("it gave no secrets".to_owned()));
        };
        if host.suite() != suite || controller.suite() != suite {
            return Err(HandshakeError::Library("it gave secrets of another suite".to_owned()));
        }
        let (sending, receiving) = match self.peer {
            Peer::Host => (controller, host),
            Peer::Controller => (host, controller),
        };
        Ok(Established { sending: sending.clone(), receiving: receiving.clone(), suite, key, group })
    }

    fn violation(&self, violation: Violation) -> HandshakeError {
        HandshakeError::Violation { peer: self.peer, what: violation.what, alert: violation.alert }
    }

    /// Converts an error of the library, by the state of the handshake.
    fn failure(&self, library: &Library, error: &Error) -> HandshakeError {
        let peer = self.peer;
        if matches!(error.kind(), ErrorType::Alert | ErrorType::ConnectionClosed) {
            let alert = library.alert().map_or(Alert::CLOSE_NOTIFY, Alert);
            return HandshakeError::Refused { peer, alert };
        }
        self.refused_hello().unwrap_or_else(|| HandshakeError::of_library(peer, error))
    }

    /// Why a host's first bytes are refused, which this project knows better than the library says.
    fn refused_hello(&self) -> Option<HandshakeError> {
        let hello: Box<ClientHello> = match FirstBytes::of(self.hello.as_ref()?) {
            Ok(FirstBytes::Hello(hello)) => hello,
            Ok(_) => return None,
            Err(error) => return Some(error.into()),
        };
        hello.choose(&self.keys).err().map(HandshakeError::from)
    }

    /// Appends an alert, as the peer can read it now. A secret is used for this alone: what the library would send with it has
    /// not been sent, and will not be.
    fn append_alert(&self, alert: Alert, output: &mut Vec<u8>) {
        let secret = match self.peer {
            // Behind its Finished, a controller sends with the secret of the channel.
            Peer::Host => self.secrets.controller.as_ref(),
            Peer::Controller => self.secrets.host_handshake.as_ref(),
        };
        match secret {
            None => output.extend(alert.in_clear()),
            Some(secret) => {
                let record = Sealer::new(secret, RecordLimit::default()).alert(alert);
                output.extend(record.into_iter().flatten());
            }
        }
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("peer", &self.peer)
            .field("keys", &self.keys)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
