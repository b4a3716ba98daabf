//! TLS for the control API: the target's certificate and key, read again when their files change, and what a client trusts.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use engine::ring::now;
use engine::secret_file;
use engine::seldom::Seldom;
use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    RootCertStore, ServerConfig, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::access::Access;
use super::file_stamp::FileStamp;
use super::limits::PEM_BYTES_MAX;
use crate::failure::Failure;

/// Authorities that the system trusts.
const SYSTEM_CA: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The files of a side that shows a certificate.
#[derive(Clone, Debug)]
pub struct OwnCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A target's side.
#[derive(Debug)]
pub struct ServerTls {
    own: OwnCertificate,
    /// Authority of clients' certificates.
    client_ca: Option<PathBuf>,
    /// Callers, whose own certificates may be in the file of the authority.
    access: Arc<Access>,
    /// Protocol inside TLS, by its name in ALPN.
    spoken: &'static [u8],
    loaded: Mutex<Loaded>,
    /// Clients whose certificates are refused.
    refused: Seldom,
}

/// HTTP/1.1 and HTTP/2 by their names in ALPN.
pub(crate) const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";

#[derive(Debug)]
struct Loaded {
    stamps: Vec<Option<FileStamp>>,
    config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Reads the files.
    pub fn new(
        own: OwnCertificate,
        client_ca: Option<PathBuf>,
        spoken: &'static [u8],
        access: Arc<Access>,
    ) -> Result<Self, Failure> {
        let ca = client_ca.as_deref();
        let stamps = stamps(&own, ca, &access);
        let config = server_config(&own, ca, spoken, &access).map_err(Failure::usage)?;
        let loaded = Mutex::new(Loaded { stamps, config });
        Ok(Self { own, client_ca, access, spoken, loaded, refused: Seldom::default() })
    }

    /// Counts a client whose certificate is refused; the number if it is one to be logged.
    pub(super) fn count_refused(&self) -> Option<u64> {
        self.refused.count_to_log(now())
    }

    /// Acceptor for the next connection, with the current files. Files that do not fit together, as
    /// while they are being replaced, leave the previous ones in force.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let ca = self.client_ca.as_deref();
        let now = stamps(&self.own, ca, &self.access);
        if now != loaded.stamps {
            match server_config(&self.own, ca, self.spoken, &self.access) {
                Ok(config) => {
                    tracing::info!(path = %self.own.certificate.display(), "the certificate is read again");
                    loaded.config = config;
                }
                Err(error) => tracing::error!("the certificate stays as it was: {error}"),
            }
            loaded.stamps = now;
        }
        loaded.config.clone().into()
    }
}

fn stamps(own: &OwnCertificate, ca: Option<&Path>, access: &Access) -> Vec<Option<FileStamp>> {
    let files = [Some(own.certificate.as_path()), Some(&own.key), ca];
    // Entries of clients say which certificates of the authority's file are theirs.
    files.into_iter().flatten().map(FileStamp::of).chain(ca.map(|_| access.stamp())).collect()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn server_config(
    own: &OwnCertificate,
    client_ca: Option<&Path>,
    spoken: &[u8],
    access: &Access,
) -> Result<Arc<ServerConfig>, String> {
    let (chain, key) = read_own(own)?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?;
    let builder = match client_ca {
        Some(path) => {
            let trusted = certificates(path)?;
            let verifier = |roots| {
                // A client without a certificate may have a token.
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
                let built = verifier.allow_unauthenticated().build();
                built.map_err(|error| format!("{}: {error}", path.display()))
            };
            let others: Vec<_> = trusted.iter().filter(|one| !access.has_certificate(one)).cloned().collect();
            let authorities = roots(path, &others).ok().map(verifier).transpose()?;
            let inner = verifier(roots(path, &trusted)?)?;
            let pinned = TrustOrPin { inner, trusted };
            builder.with_client_cert_verifier(Arc::new(ClientVerifier { pinned, authorities }))
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| unfit(own, &error))?;
    config.alpn_protocols = vec![spoken.to_vec()];
    Ok(Arc::new(config))
}

/// Error message for a certificate and its key.
pub fn unfit(own: &OwnCertificate, error: &Error) -> String {
    format!("{} and {} cannot be used together: {error}", own.certificate.display(), own.key.display())
}

/// The certificate with what signed it, and its key, which others must not be able to read.
pub fn read_own(
    own: &OwnCertificate,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = certificates(&own.certificate)?;
    let text = secret_file::text(&own.key, PEM_BYTES_MAX).map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
    let wrong = |error| format!("{} has no private key in PEM: {error}", own.key.display());
    Ok((chain, key.map_err(wrong)?))
}

/// The certificates of a file.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("{shown} cannot be read: {error}");
    let mut text = Vec::new();
    File::open(path).map_err(failed)?.take(PEM_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| format!("{shown} is not PEM: {error}"))?;
    if found.is_empty() { Err(format!("{shown} has no certificate in PEM")) } else { Ok(found) }
}

/// Certificates of these that can sign others.
pub fn roots(path: &Path, certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
    if added == 0 {
        Err(format!("{} has no certificate that can sign others", path.display()))
    } else {
        Ok(roots)
    }
}

/// A client's side.
#[derive(Clone, Debug)]
pub(crate) struct ClientTls {
    config: Arc<ClientConfig>,
    /// File of the trusted authorities, for messages.
    ca: PathBuf,
}

impl ClientTls {
    /// Trusts what is in `ca`, or what the system trusts, and shows its own certificate if it has one.
    pub(crate) fn new(ca: Option<&Path>, own: Option<&OwnCertificate>) -> Result<Self, Failure> {
        let ca = ca.unwrap_or(Path::new(SYSTEM_CA));
        let config = client_config(ca, own).map_err(|error| {
            let hint = if ca == Path::new(SYSTEM_CA) {
                "; give the certificate that signs the target's with --control-ca FILE"
            } else {
                ""
            };
            Failure::usage(format!("{error}{hint}"))
        })?;
        Ok(Self { config: Arc::new(config), ca: ca.to_owned() })
    }

    pub(super) fn connector(&self) -> TlsConnector {
        self.config.clone().into()
    }

    /// Reason why a connection failed, with a remedy; `None` if TLS is not the reason.
    pub(super) fn explain(&self, error: &io::Error) -> Option<String> {
        let error = error.get_ref()?.downcast_ref::<Error>()?;
        let ca = self.ca.display();
        Some(match error {
            // A new authority with the old one's name has another key.
            Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
                format!(
                    "its certificate is signed by none of {ca}; give the one that signed it, or itself, with --control-ca FILE"
                )
            }
            // An authority's own certificate, which rustls takes for no server's unless it is a trusted one itself.
            Error::InvalidCertificate(error @ CertificateError::Other(_))
                if error.to_string().contains("CaUsedAsEndEntity") =>
            {
                format!("its certificate signs itself and is not in {ca}; give it with --control-ca FILE")
            }
            Error::InvalidCertificate(error) => match expiry(error) {
                Some(when) => format!("its certificate has expired at {when}"),
                None => format!("its certificate is not the one of this host: {error}"),
            },
            Error::AlertReceived(AlertDescription::CertificateExpired) => {
                "it says that the certificate of --control-cert has expired; its log says when".to_owned()
            }
            Error::AlertReceived(alert) => format!("it refuses the connection ({alert:?}); its log says why"),
            Error::InvalidMessage(_) => {
                "it does not speak TLS there; without TLS it is tcp:ADDR:PORT".to_owned()
            }
            other => other.to_string(),
        })
    }
}

/// Time at which a certificate expired, if that is the error.
fn expiry(error: &CertificateError) -> Option<String> {
    let CertificateError::ExpiredContext { not_after, .. } = error else { return None };
    Timestamp::from_second(not_after.as_secs() as i64).ok().map(|when| when.to_string())
}

/// Reason why a client's certificate was refused; `None` for other failures.
pub(super) fn refused_certificate(error: &io::Error) -> Option<String> {
    let Error::InvalidCertificate(error) = error.get_ref()?.downcast_ref::<Error>()? else { return None };
    Some(match expiry(error) {
        Some(when) => format!("its certificate has expired at {when}"),
        None => format!("its certificate is refused: {error}"),
    })
}

fn client_config(ca: &Path, own: Option<&OwnCertificate>) -> Result<ClientConfig, String> {
    let trusted = certificates(ca)?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(ca, &trusted)?), provider());
    let inner = verifier.build().map_err(|error| format!("{}: {error}", ca.display()))?;
    let verifier = Arc::new(TrustOrPin { inner, trusted });
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    match own {
        Some(own) => {
            let (chain, key) = read_own(own)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| unfit(own, &error))
        }
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Trusts what a trusted certificate has signed, and a trusted certificate itself, as those are that `openssl req -x509`
/// makes: for rustls, an authority is neither a server nor a client.
#[derive(Debug)]
struct TrustOrPin<V: ?Sized> {
    inner: Arc<V>,
    trusted: Vec<CertificateDer<'static>>,
}

impl<V: ?Sized> TrustOrPin<V> {
    /// True if the certificate is itself a trusted one, and rustls refuses it for that alone. Its
    /// expiry has been checked before.
    fn is_pinned<T>(&self, verified: &Result<T, Error>, end_entity: &CertificateDer<'_>) -> bool {
        matches!(verified, Err(Error::InvalidCertificate(CertificateError::Other(_))))
            && self.trusted.contains(end_entity)
    }
}

/// Trusts certificates of clients that are trusted ones themselves, and those that authorities have signed. The certificate of a
/// client is not an authority: the client could sign one with the name of another client.
#[derive(Debug)]
struct ClientVerifier {
    pinned: TrustOrPin<dyn ClientCertVerifier>,
    authorities: Option<Arc<dyn ClientCertVerifier>>,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.pinned.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.pinned.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.pinned.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let Self { pinned, authorities } = self;
        if !pinned.trusted.contains(end_entity) {
            return match authorities {
                Some(authorities) => authorities.verify_client_cert(end_entity, intermediates, now),
                None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
            };
        }
        let verified = pinned.inner.verify_client_cert(end_entity, intermediates, now);
        if pinned.is_pinned(&verified, end_entity) { Ok(ClientCertVerified::assertion()) } else { verified }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.pinned.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.pinned.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.pinned.inner.supported_verify_schemes()
    }
}

impl ServerCertVerifier for TrustOrPin<WebPkiServerVerifier> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if self.is_pinned(&verified, end_entity) {
            rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
