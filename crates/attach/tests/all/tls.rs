//! Clients by TLS, and those that break it or keep it waiting.

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::Arc;

use attach::ServerTls;
use attach::limits::CLIENTS_PER_THREAD_MAX;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::client::{DF, DISCONNECT, FLUSH, FORMS, Form};
use crate::world::{Plan, World};

/// The first bytes of a ClientHello, which never ends.
const BEGUN: [u8; 9] = [22, 3, 1, 1, 0, 1, 0, 0, 252];

/// An authority, which signs the server's certificate and those of clients.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    fn signs(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        roots
    }

    /// A server that asks clients for certificates, or does not.
    pub(crate) fn server(&self, asks: bool) -> ServerTls {
        let (chain, key) = self.signs();
        ServerTls::with_certificate(chain, key, asks.then(|| self.roots())).expect("it fits together")
    }

    pub(crate) fn client(&self, own: Option<&Self>) -> ClientConnection {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(self.roots());
        let config = match own.map(Self::signs) {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).expect("it fits together"),
            None => builder.with_no_client_auth(),
        };
        ClientConnection::new(Arc::new(config), "localhost".try_into().expect("a name")).expect("a client")
    }
}

#[test]
fn bytes_come_back_through_tls_in_every_form_and_length() {
    let authority = Authority::new();
    let world = World::with_tls(&Plan { threads: 2, ..Plan::default() }, Some(authority.server(false)));
    for (seed, form) in FORMS.into_iter().enumerate() {
        let mut client = world.stranger().secure(authority.client(None)).choose("1", form);
        for (at, length) in [(0, 4096), (4096, 12_288), (3 << 20, 260 << 10), (8 << 20, 32 << 20)] {
            let data: Vec<u8> = (0..length).map(|byte| (byte >> 8 ^ byte ^ seed) as u8).collect();
            assert_eq!(client.write(at, &data, 0), 0);
            assert!(client.read(at, length, 0) == data, "{form:?}: {length} bytes at {at}");
        }
        assert_eq!(client.ask(FLUSH, 0, (0, 0)), 0);
        if form != Form::Simple {
            assert_eq!(client.read(8 << 20, 32 << 20, DF).len(), 32 << 20);
        }
        client.send(DISCONNECT, 0, (0, 0), &[]);
        // The end is authenticated, so that no attacker can pretend one.
        assert_eq!(std::io::Read::read(&mut client.stream, &mut [0]).expect("an end that was said"), 0);
    }
}

#[test]
fn a_required_handshake_cannot_be_skipped() {
    let authority = Authority::new();
    let world = World::with_tls(&Plan::default(), Some(authority.server(false)));
    let mut plain = world.stranger();
    plain.greet();
    let options = [b"IHAVEOPT\0\0\0\x03\0\0\0\0", &b"IHAVEOPT\0\0\0\x02\0\0\0\0"[..]].concat();
    plain.stream.write_all(&options).expect("it can be sent");
    let replies = plain.bytes(40);
    assert_eq!(replies[8..20], [0, 0, 0, 3, 0x80, 0, 0, 5, 0, 0, 0, 0]);
    assert!(plain.is_closed());
    let offered = World::with_tls(&Plan::default(), Some(authority.server(false).offered()));
    assert_eq!(offered.stranger().go("1", Form::Simple).read(0, 4096, 0), [0; 4096]);
    let mut secure = offered.stranger().secure(authority.client(None)).choose("1", Form::Extended);
    assert_eq!(secure.read(0, 4096, 0), [0; 4096]);
}

#[test]
fn a_client_shows_a_certificate_where_one_is_asked_for() {
    let (authority, other) = (Authority::new(), Authority::new());
    let world = World::with_tls(&Plan::default(), Some(authority.server(true)));
    let mut client = world.stranger().secure(authority.client(Some(&authority))).choose("1", Form::Simple);
    assert_eq!(client.read(0, 4096, 0), [0; 4096]);
    for own in [None, Some(&other)] {
        let mut client = world.stranger().secure(authority.client(own));
        let written = client.stream.write_all(&[b"IHAVEOPT", &[0; 8][..]].concat());
        assert!(written.is_err() || std::io::Read::read(&mut client.stream, &mut [0]).is_err());
    }
    assert_eq!(client.read(0, 4096, 0), [0; 4096]);
}

#[test]
fn what_is_behind_starttls_in_clear_is_no_option() {
    let authority = Authority::new();
    let world = World::with_tls(&Plan::default(), Some(authority.server(false)));
    let mut good = world.stranger().secure(authority.client(None)).choose("1", Form::Structured);
    // A list of all exports, which would be answered.
    let list = b"IHAVEOPT\0\0\0\x03\0\0\0\0";
    for together in [true, false] {
        let mut client = world.stranger();
        client.greet();
        let begin = b"IHAVEOPT\0\0\0\x05\0\0\0\0";
        if together {
            client.stream.write_all(&[&begin[..], list].concat()).expect("it can be sent");
            assert_eq!(client.bytes(20)[12..16], [0, 0, 0, 1]);
        } else {
            client.option(5, &[]);
            client.stream.write_all(list).expect("it can be sent");
        }
        let alert = client.bytes(7);
        assert_eq!(alert[..3], [21, 3, 3], "an alert, and no reply");
        assert!(client.is_closed());
    }
    assert_eq!(good.read(0, 4096, 0), [0; 4096]);
}

#[test]
fn a_client_that_breaks_tls_loses_only_its_own_connection() {
    let authority = Authority::new();
    let world = World::with_tls(&Plan::default(), Some(authority.server(false)));
    let mut good = world.stranger().secure(authority.client(None)).choose("1", Form::Structured);
    // Cut off in the middle of the handshake.
    let mut client = world.stranger();
    client.greet();
    client.option(5, &[]);
    client.stream.write_all(&BEGUN).expect("it can be sent");
    client.stream.shutdown(Shutdown::Write).expect("it can be");
    assert!(client.is_closed());
    // An unsealed record, one that is too long, and one that is not TLS.
    for bytes in [&[23, 3, 3, 0, 20][..], &[23, 3, 3, 0xff, 0xff], b"\x25\x60\x95\x13 in clear"] {
        let mut client = world.stranger().secure(authority.client(None)).choose("1", Form::Simple);
        assert_eq!(client.read(0, 4096, 0), [0; 4096]);
        client.stream.sock.write_all(&[bytes, &[0; 20]].concat()).expect("it can be sent");
        assert!(std::io::Read::read(&mut client.stream, &mut [0]).is_err(), "an alert");
    }
    // A write that vanishes in the middle of its records.
    let mut client = world.stranger().secure(authority.client(None)).choose("1", Form::Simple);
    client.send(crate::client::WRITE, 0, (0, 4096), &[9; 4095]);
    drop(client);
    assert_eq!(good.read(0, 4096, 0), [0; 4096]);
}

#[test]
fn stalled_handshakes_end_and_keep_no_client_out() {
    let authority = Authority::new();
    let world = World::with_tls(&Plan::default(), Some(authority.server(false)));
    let mut good = world.stranger().secure(authority.client(None)).choose("1", Form::Simple);
    let mut half_open: Vec<_> = (0..CLIENTS_PER_THREAD_MAX + 8)
        .map(|_| {
            let mut client = world.stranger();
            client.greet();
            client.option(5, &[]);
            client.stream.write_all(&BEGUN).expect("it can be sent");
            client
        })
        .collect();
    let mut late = world.stranger().secure(authority.client(None)).choose("1", Form::Simple);
    assert_eq!(late.read(0, 4096, 0), [0; 4096]);
    assert_eq!(good.read(0, 4096, 0), [0; 4096]);
    // None is waited for longer than a handshake may take.
    assert!(half_open.iter_mut().all(crate::client::Client::is_closed));
    assert_eq!(good.read(0, 4096, 0), [0; 4096]);
}
