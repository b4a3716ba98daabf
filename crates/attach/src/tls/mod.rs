//! TLS of NBD clients: authentication of the server and of its clients. Each server has a thread
//! for handshakes, so that their public-key work delays no requests. Handshakes result in keys of
//! records, which are opened and sealed where the client is served.

mod certificate_handshake;
mod handshake;
mod handshake_thread;
mod handshakes;
mod securing;

use std::sync::Arc;

use nbd::Tls;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig};
use secure_channel::NamedPsk;
use thiserror::Error;

use self::certificate_handshake::SecretLog;
pub(crate) use self::handshake_thread::{HandshakeThread, Jobs};
pub(crate) use self::handshakes::Handshakes;
pub(crate) use self::securing::Securing;

/// TLS 1.3 of a server. Clients have to begin it unless it is made an offer.
#[derive(Clone, Debug)]
pub struct ServerTls {
    proof: Proof,
    is_required: bool,
}

/// Means of authentication.
#[derive(Clone, Debug)]
enum Proof {
    /// The server has a certificate, and clients have one if there is an authority for theirs.
    Certificate(Arc<ServerConfig>),
    /// Both have the client's key.
    Keys(Arc<[NamedPsk]>),
}

/// Why a certificate cannot be used.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// Certificate and key do not fit together, or are of a kind that is not known.
    #[error("{0}")]
    Own(rustls::Error),
    /// The authorities cannot sign certificates of clients.
    #[error("{0}")]
    Authorities(VerifierBuilderError),
}

impl ServerTls {
    /// A server that shows a certificate. With authorities, a client has to show one that they have signed.
    ///
    /// # Errors
    /// When something of these cannot be used.
    pub fn with_certificate(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        authorities: Option<RootCertStore>,
    ) -> Result<Self, CertificateError> {
        let provider = Arc::new(CryptoProvider {
            // Those that records are sealed with here.
            cipher_suites: vec![TLS13_AES_256_GCM_SHA384, TLS13_AES_128_GCM_SHA256],
            ..rustls::crypto::ring::default_provider()
        });
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(CertificateError::Own)?;
        let builder = match authorities {
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(CertificateError::Authorities)?)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(CertificateError::Own)?;
        config.key_log = Arc::new(SecretLog);
        // A ticket would be a record behind the handshake, and clients that connect again are few.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { proof: Proof::Certificate(Arc::new(config)), is_required: true })
    }

    /// A server whose clients have keys by their names.
    pub fn with_keys(keys: Vec<NamedPsk>) -> Self {
        Self { proof: Proof::Keys(keys.into()), is_required: true }
    }

    /// The same for clients that may do without TLS.
    #[must_use]
    pub fn offered(self) -> Self {
        Self { is_required: false, ..self }
    }

    /// TLS as it is offered to clients.
    pub(crate) const fn offer(&self) -> Tls {
        if self.is_required { Tls::Required } else { Tls::Offered }
    }
}
