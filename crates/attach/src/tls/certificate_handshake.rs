//! A handshake with certificates, by rustls, of which nothing is left but the secrets of both directions. The library gets one
//! record at a time, so that it takes none that is behind the handshake.

use std::cell::RefCell;

use rustls::{KeyLog, ServerConnection};
use secure_channel::{Alert, Suite, TrafficSecret};
use tls_handshake::Framing;

use super::handshake::{Established, HandshakeError};

/// Handshake in progress.
pub(super) struct CertificateHandshake {
    connection: ServerConnection,
    framing: Framing,
    secrets: Secrets,
}

/// The secrets of a handshake, as far as it has come.
#[derive(Default)]
struct Secrets {
    client: Option<TrafficSecret>,
    server: Option<TrafficSecret>,
}

thread_local! {
    /// Secrets that the library has logged during a handshake in this thread.
    static LOGGED: RefCell<Secrets> = RefCell::default();
}

/// Key log of the library, which gives the secrets out in no other way.
#[derive(Debug)]
pub(super) struct SecretLog;

impl KeyLog for SecretLog {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        let suite = Suite::ALL.into_iter().find(|suite| suite.hash().length() == secret.len());
        let Some(secret) = suite.and_then(|suite| TrafficSecret::new(suite, secret)) else { return };
        LOGGED.with_borrow_mut(|logged| match label {
            "CLIENT_TRAFFIC_SECRET_0" => logged.client = Some(secret),
            "SERVER_TRAFFIC_SECRET_0" => logged.server = Some(secret),
            _ => {}
        });
    }
}

impl CertificateHandshake {
    pub(super) fn new(connection: ServerConnection) -> Self {
        Self { connection, framing: Framing::default(), secrets: Secrets::default() }
    }

    /// Takes of `input` what belongs to the handshake, and appends what the client is to get, an alert too where one is due.
    pub(super) fn step(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Established>, HandshakeError> {
        while !input.is_empty() {
            let of_record = self.framing.next(input).map_err(|violation| {
                output.extend(violation.alert.in_clear());
                HandshakeError::Violation(violation.what)
            })?;
            let (bytes, rest) = input.split_at(of_record);
            *input = rest;
            self.take(bytes, output)?;
            if !self.connection.is_handshaking() {
                let secrets = std::mem::take(&mut self.secrets);
                let (Some(receiving), Some(sending)) = (secrets.client, secrets.server) else {
                    output.extend(Alert::INTERNAL_ERROR.in_clear());
                    return Err(HandshakeError::NoSecrets);
                };
                return Ok(Some(Established { sending, receiving }));
            }
        }
        Ok(None)
    }

    fn take(&mut self, mut bytes: &[u8], output: &mut Vec<u8>) -> Result<(), HandshakeError> {
        LOGGED.set(Secrets::default());
        let mut processed = Ok(());
        while processed.is_ok() && !bytes.is_empty() {
            processed = match self.connection.read_tls(&mut bytes) {
                Ok(_) => self.connection.process_new_packets().map(drop).map_err(HandshakeError::Certificate),
                Err(_) => Err(HandshakeError::Violation("sent more than a handshake needs")),
            };
        }
        let logged = LOGGED.take();
        self.secrets.client = logged.client.or(self.secrets.client.take());
        self.secrets.server = logged.server.or(self.secrets.server.take());
        while self.connection.wants_write() {
            // Memory takes all there is.
            if !self.connection.write_tls(output).is_ok_and(|count| count > 0) {
                break;
            }
        }
        processed
    }
}
