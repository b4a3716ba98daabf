//! One handshake, of the server's side, however clients prove who they are.

use rustls::ServerConnection;
use secure_channel::{Alert, ChoiceError, ClientHello, FirstBytes, HelloError, NamedPsk, TrafficSecret};
use thiserror::Error;
use tls_handshake::{HandshakeError as KeyError, Progress};

use super::certificate_handshake::CertificateHandshake;
use super::{Proof, ServerTls};

/// A handshake that is not complete.
pub(crate) struct Handshake(Stage);

enum Stage {
    /// Received part of the ClientHello, which names the key.
    Hello(Vec<u8>),
    Key(Box<tls_handshake::Handshake>),
    Certificate(Box<CertificateHandshake>),
}

/// Result of a handshake: the secrets of both directions.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) sending: TrafficSecret,
    pub(crate) receiving: TrafficSecret,
}

/// Why there is no TLS with a client, for the log.
#[derive(Debug, Error)]
pub(crate) enum HandshakeError {
    #[error("it sends something that is not TLS")]
    InClear,
    #[error("{0}")]
    Hello(#[from] HelloError),
    #[error("{}", reason(.0))]
    Choice(#[from] ChoiceError),
    #[error("{0}")]
    Key(KeyError),
    #[error("{0}")]
    Certificate(rustls::Error),
    #[error("it {0}")]
    Violation(&'static str),
    #[error("the TLS library gave no secrets")]
    NoSecrets,
}

/// Reason why no key was chosen, for administrators, who know keys by their names.
fn reason(error: &ChoiceError) -> String {
    match error {
        ChoiceError::Version => "it does not offer TLS 1.3".to_owned(),
        ChoiceError::NoPsk => {
            "it offers no pre-shared key, as a client that expects a certificate".to_owned()
        }
        ChoiceError::NoModes | ChoiceError::NoDhe => {
            "it uses its key without a key exchange: enable ECDHE-PSK there".to_owned()
        }
        ChoiceError::Identity(name) => format!("no key has the name `{name}`"),
        ChoiceError::Suite(name, suite) => format!("it has the key of `{name}`, and does not offer {suite}"),
        ChoiceError::Binder(name) => format!("it has another key of the name `{name}`"),
        ChoiceError::BinderHash(name, _) => {
            format!("it uses the key of `{name}` with another hash than SHA-256")
        }
    }
}

impl Handshake {
    /// New handshake.
    ///
    /// # Errors
    /// When the library gives none.
    pub(crate) fn begin(tls: &ServerTls) -> Result<Self, HandshakeError> {
        Ok(Self(match &tls.proof {
            Proof::Keys(_) => Stage::Hello(Vec::new()),
            Proof::Certificate(config) => {
                let connection =
                    ServerConnection::new(config.clone()).map_err(HandshakeError::Certificate)?;
                Stage::Certificate(Box::new(CertificateHandshake::new(connection)))
            }
        }))
    }

    /// Takes of `input` what belongs to the handshake, and appends what the client is to get to `output`, an alert too where
    /// one is due. What is left of `input` when it is complete are records behind it.
    ///
    /// # Errors
    /// When there will be no TLS.
    pub(crate) fn step(
        &mut self,
        tls: &ServerTls,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Established>, HandshakeError> {
        if let (Stage::Hello(hello), Proof::Keys(keys)) = (&mut self.0, &tls.proof) {
            hello.extend_from_slice(std::mem::take(input));
            let begun = begin_with(keys, hello).inspect_err(|error| match error {
                HandshakeError::Hello(error) => output.extend(error.alert().in_clear()),
                HandshakeError::Choice(error) => output.extend(error.alert().in_clear()),
                HandshakeError::InClear => output.extend(Alert::UNEXPECTED_MESSAGE.in_clear()),
                _ => output.extend(Alert::INTERNAL_ERROR.in_clear()),
            })?;
            let Some(mut handshake) = begun else { return Ok(None) };
            let (taken, mut rest) = (std::mem::take(hello), Vec::new());
            let mut bytes = &taken[..];
            let done = with_key(&mut handshake, &mut bytes, output);
            // Nothing is behind a ClientHello before it was answered.
            rest.extend_from_slice(bytes);
            self.0 = Stage::Key(Box::new(handshake));
            return match done {
                Ok(_) if !rest.is_empty() => {
                    Err(HandshakeError::Violation("sent more than a handshake needs"))
                }
                done => done,
            };
        }
        match &mut self.0 {
            Stage::Hello(_) => Err(HandshakeError::NoSecrets),
            Stage::Key(handshake) => with_key(handshake, input, output),
            Stage::Certificate(handshake) => handshake.step(input, output),
        }
    }
}

/// The handshake with the key that a ClientHello means, when all of it has come.
fn begin_with(keys: &[NamedPsk], stream: &[u8]) -> Result<Option<tls_handshake::Handshake>, HandshakeError> {
    let hello: Box<ClientHello> = match FirstBytes::of(stream)? {
        FirstBytes::Incomplete => return Ok(None),
        FirstBytes::InClear => return Err(HandshakeError::InClear),
        FirstBytes::Hello(hello) => hello,
    };
    let key = &keys[hello.choose(keys)?];
    tls_handshake::Handshake::of_controller(key).map(Some).map_err(HandshakeError::Key)
}

fn with_key(
    handshake: &mut tls_handshake::Handshake,
    input: &mut &[u8],
    output: &mut Vec<u8>,
) -> Result<Option<Established>, HandshakeError> {
    match handshake.step(input, output).map_err(HandshakeError::Key)? {
        Progress::Continues => Ok(None),
        Progress::Done(established) => {
            let tls_handshake::Established { sending, receiving, .. } = established;
            Ok(Some(Established { sending, receiving }))
        }
    }
}

#[cfg(test)]
mod tests {
    use secure_channel::{Opened, Opener, Peer, RecordLimit, Sealer};

    use super::*;

    fn key(text: &str) -> NamedPsk {
        format!("{text}{}", "07".repeat(16)).parse().unwrap()
    }

    /// Both ends of a handshake, the client's bytes in pieces of this length: what each has at the end.
    fn play(
        tls: &ServerTls,
        key: &NamedPsk,
        piece: usize,
    ) -> Result<(Established, tls_handshake::Established), HandshakeError> {
        let mut client = tls_handshake::Handshake::of_host(std::slice::from_ref(key)).unwrap();
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        client.step(&mut &[][..], &mut to_server).unwrap();
        let (mut server, mut of_client) = (Handshake::begin(tls)?, None);
        loop {
            assert!(!to_server.is_empty(), "both wait");
            let mut done = None;
            for piece in std::mem::take(&mut to_server).chunks(piece) {
                done = server.step(tls, &mut &piece[..], &mut to_client)?;
            }
            let answer = std::mem::take(&mut to_client);
            if !answer.is_empty()
                && let Progress::Done(established) = client.step(&mut &answer[..], &mut to_server).unwrap()
            {
                of_client = Some(established);
            }
            if let Some(done) = done {
                return Ok((done, of_client.expect("a client that has ended it")));
            }
        }
    }

    #[test]
    fn both_ends_have_the_same_secrets() {
        let tls = ServerTls::with_keys(vec![key("bob:00"), key("alice:01")]);
        for piece in [1, 7, usize::MAX] {
            let (server, client) = play(&tls, &key("alice:01"), piece).unwrap();
            let mut record = vec![0; 5 + 3 + 1 + 16];
            record[5..8].copy_from_slice(b"abc");
            Sealer::new(&server.sending, RecordLimit::default()).seal(&mut record, 3).unwrap();
            let opened = Opener::new(&client.receiving, Peer::Controller).open(&mut record).unwrap();
            assert!(matches!(opened, Opened::Data { data, .. } if data == (5..8)));
        }
    }

    #[test]
    fn why_there_is_no_tls_is_said() {
        let tls = ServerTls::with_keys(vec![key("bob:00"), key("alice:01")]);
        for (other, said) in [
            ("carol:01", "no key has the name `carol`"),
            ("alice:02", "it has another key of the name `alice`"),
        ] {
            assert_eq!(play(&tls, &key(other), usize::MAX).unwrap_err().to_string(), said);
        }
        for bytes in [&b"IHAVEOPT"[..], &[22, 3, 1, 0, 0], &[22, 3, 1, 0, 4, 2, 0, 0, 0]] {
            let (mut handshake, mut output) = (Handshake::begin(&tls).unwrap(), Vec::new());
            handshake.step(&tls, &mut &bytes[..], &mut output).unwrap_err();
            assert_eq!(output[..5], [21, 3, 3, 0, 2], "an alert in clear");
        }
    }
}
