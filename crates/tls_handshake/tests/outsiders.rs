//! Handshakes with OpenSSL's and GnuTLS' own commands, over a socket on the loopback, with data in both directions behind them.
//! Theirs are the libraries of SPDK and of the Linux kernel's tlshd.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use prerequisite::{patience, wait_until};
use secure_channel::{
    Alert, ConfiguredPsk, Derivation, FirstBytes, HEADER_BYTES, IdentityVersion, Names, OVERHEAD_BYTES,
    Opened, Opener, Peer, RecordLimit, Sealer, Suite, TlsPsk,
};
use tls_handshake::{Established, Handshake, HandshakeError, Progress};

fn key(seed: u8, suite: Suite) -> TlsPsk {
    let names = Names::new("nqn.2014-08.org.example:host", "nqn.2014-08.org.example:subsystem").unwrap();
    let psk = ConfiguredPsk::new(&vec![seed; suite.hash().length()], Some(suite.hash())).unwrap();
    psk.retained(&names, Derivation::Standard).tls_psk(&names, suite, IdentityVersion::One).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// True if the command exists; otherwise the test prints that it does not.
fn is_there(command: &str, argument: &str) -> bool {
    let found = Command::new(command).arg(argument).stdout(Stdio::null()).status();
    prerequisite::available(command, found).is_some()
}

/// A program that is ended when the test ends.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(streams.spawn().unwrap())
    }

    /// All that it has printed, once it has ended.
    fn end(&mut self) -> String {
        let _ = self.0.kill();
        let mut printed = String::new();
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        self.0.stdout.iter_mut().for_each(|stream| drop(stream.read_to_end(&mut output)));
        self.0.stderr.iter_mut().for_each(|stream| drop(stream.read_to_end(&mut errors)));
        for bytes in [output, errors] {
            printed.push_str(&String::from_utf8_lossy(&bytes));
        }
        let _ = self.0.wait();
        printed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A stream with a handshake on it.
struct Channel {
    stream: TcpStream,
    established: Established,
    /// Bytes that came after the handshake.
    waiting: Vec<u8>,
}

impl Channel {
    fn new(stream: TcpStream, mut handshake: Handshake) -> Result<Self, HandshakeError> {
        stream.set_read_timeout(Some(patience())).unwrap();
        let mut stream = stream;
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for _ in 0..1000 {
            let mut rest = &input[..];
            let progress = handshake.step(&mut rest, &mut output);
            let waiting = rest.to_vec();
            let _ = stream.write_all(&output);
            output.clear();
            if let Progress::Done(established) = progress? {
                return Ok(Self { stream, established, waiting });
            }
            input.resize(4096, 0);
            let bytes = read_some(&mut stream, &mut input).unwrap_or_else(|error| panic!("{error}"));
            input.truncate(bytes);
            if bytes == 0 {
                return Err(handshake.closed());
            }
        }
        panic!("a handshake does not end");
    }

    /// Sends a line, and reads until one comes that holds `expected`.
    fn exchange(mut self, peer: Peer, line: &str, expected: &str) {
        let mut record = vec![0; line.len() + OVERHEAD_BYTES];
        record[HEADER_BYTES..][..line.len()].copy_from_slice(line.as_bytes());
        let mut sealer = Sealer::new(&self.established.sending, RecordLimit::default());
        sealer.seal(&mut record, line.len()).unwrap();
        self.stream.write_all(&record).unwrap();
        let (mut opener, mut text) = (Opener::new(&self.established.receiving, peer), String::new());
        while !text.contains(expected) {
            let record_bytes = match opener.open(&mut self.waiting).unwrap() {
                Opened::Incomplete { .. } => {
                    let mut more = [0; 4096];
                    let bytes = read_some(&mut self.stream, &mut more).unwrap();
                    assert!(bytes > 0, "the peer closed the connection after {text:?}");
                    self.waiting.extend_from_slice(&more[..bytes]);
                    0
                }
                Opened::Data { record_bytes, data } => {
                    text.push_str(&String::from_utf8_lossy(&self.waiting[data]));
                    record_bytes
                }
                // OpenSSL and GnuTLS send tickets.
                Opened::Nothing { record_bytes } => record_bytes,
                other => panic!("{other:?}"),
            };
            self.waiting.drain(..record_bytes);
        }
    }
}

/// A session in the form of OpenSSL's: version 1 of the structure, TLS 1.3, the suite, no identifier, and the key.
fn session(key: &TlsPsk) -> Vec<u8> {
    let [high, low] = key.suite().id().to_be_bytes();
    let head = [2, 1, 1, 2, 2, 3, 4, 4, 2, high, low, 4, 0, 4];
    let body = [&head[..], &[key.reveal().len() as u8], key.reveal()].concat();
    [&[0x30, body.len() as u8][..], &body].concat()
}

/// OpenSSL's command with a key. It takes one of SHA-384 in a session alone. With a session, `s_client` of OpenSSL 3.0 fails when
/// it is asked for a second hello, by OpenSSL's own server too, so that it gets the other key as it is.
fn openssl(command: &str, key: &TlsPsk, folder: &Path) -> Command {
    let mut openssl = Command::new("openssl");
    openssl.args([command, "-tls1_3", "-psk_identity", &key.identity().to_string()]);
    if key.suite() == Suite::Aes128Gcm {
        openssl.args(["-psk", &hex(key.reveal())]);
        return openssl;
    }
    let (der, pem) = (folder.join("session.der"), folder.join("session.pem"));
    std::fs::write(&der, session(key)).unwrap();
    let mut convert = Command::new("openssl");
    convert.args(["sess_id", "-inform", "DER", "-outform", "PEM", "-in"]).arg(&der).arg("-out").arg(&pem);
    assert!(convert.status().unwrap().success());
    openssl.arg("-psk_session").arg(pem);
    openssl
}

/// Result of the controller's side with a host that is this command, whose arguments end with an
/// address.
fn serve(
    command: impl FnOnce(u16) -> Command,
    keys: &[TlsPsk],
) -> (Result<Channel, HandshakeError>, Running) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let host = Running::start(&mut command(listener.local_addr().unwrap().port()));
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    // As a listener does it: it looks at the hello before it takes it.
    let mut first = vec![0; 8192];
    let hello = loop {
        let bytes = stream.peek(&mut first).unwrap();
        assert!(bytes > 0, "the host closed the connection");
        match FirstBytes::of(&first[..bytes]).unwrap() {
            FirstBytes::Hello(hello) => break hello,
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let key = match hello.choose(keys) {
        Ok(place) => &keys[place],
        Err(error) => {
            stream.write_all(&error.alert().in_clear()).unwrap();
            return (Err(error.into()), host);
        }
    };
    (Channel::new(stream, Handshake::of_controller(key).unwrap()), host)
}

#[test]
fn openssl_as_a_host() {
    if !is_there("openssl", "version") {
        return;
    }
    let keys = [key(1, Suite::Aes128Gcm), key(1, Suite::Aes256Gcm)];
    for (groups, group) in [("X25519", "x25519"), ("P-256", "secp256r1"), ("P-384", "secp384r1")] {
        for key in &keys {
            talk_to_openssl_host(key, &keys, (groups, group));
        }
    }
    // X448 is a group that the controller does not have: it asks for another hello.
    for (groups, group) in [("X448:X25519", "x25519"), ("X448:P-384", "secp384r1")] {
        talk_to_openssl_host(&keys[0], &keys, (groups, group));
    }
}

fn talk_to_openssl_host(key: &TlsPsk, keys: &[TlsPsk], (groups, group): (&str, &str)) {
    let folder = tempfile::tempdir().unwrap();
    let (channel, mut host) = serve(
        |port| {
            let mut openssl = openssl("s_client", key, folder.path());
            let address = format!("127.0.0.1:{port}");
            openssl.args(["-quiet", "-noservername", "-groups", groups, "-connect", &address]);
            openssl
        },
        keys,
    );
    let channel = channel.unwrap_or_else(|error| panic!("{groups} {key:?}: {error}\n{}", host.end()));
    assert_eq!((channel.established.suite, &*channel.established.group), (key.suite(), group));
    host.0.stdin.as_mut().unwrap().write_all(b"from the host\n").unwrap();
    channel.exchange(Peer::Host, "from the controller\n", "from the host\n");
    let mut line = String::new();
    BufReader::new(host.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "from the controller\n");
}

#[test]
fn openssl_as_a_host_with_another_key() {
    if !is_there("openssl", "version") {
        return;
    }
    let (ours, theirs) = (key(1, Suite::Aes128Gcm), key(2, Suite::Aes128Gcm));
    let folder = tempfile::tempdir().unwrap();
    let (channel, mut host) = serve(
        |port| {
            let mut openssl = openssl("s_client", &theirs, folder.path());
            openssl.args(["-connect", &format!("127.0.0.1:{port}")]);
            openssl
        },
        &[ours],
    );
    assert_eq!(channel.err().unwrap().alert(), Some(Alert::UNKNOWN_PSK_IDENTITY));
    host.0.wait().unwrap();
    let printed = host.end();
    assert!(printed.contains("unknown psk identity") || printed.contains("alert number 115"), "{printed}");
}

/// A port, and the program that listens on it.
struct Server {
    running: Running,
    port: u16,
}

impl Server {
    /// OpenSSL says where it listens.
    fn openssl(command: &mut Command) -> Self {
        let mut running = Running::start(command.args(["-accept", "127.0.0.1:0"]));
        let mut lines = BufReader::new(running.0.stdout.take().unwrap());
        for _ in 0..100 {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            if let Some(address) = line.strip_prefix("ACCEPT ") {
                let port = address.trim().rsplit(':').next().unwrap().parse().unwrap();
                running.0.stdout = Some(lines.into_inner());
                return Self { running, port };
            }
        }
        panic!("{}", running.end());
    }

    fn connect(&self, keys: &[TlsPsk]) -> Result<Channel, HandshakeError> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        Channel::new(stream, Handshake::of_host(keys).unwrap())
    }
}

#[test]
fn openssl_as_a_controller() {
    if !is_there("openssl", "version") {
        return;
    }
    // The last of these is none of which a host sends a share: it is asked for another hello.
    for (suite, groups, group) in [
        (Suite::Aes128Gcm, "P-256:X25519:P-384", "secp256r1"),
        (Suite::Aes256Gcm, "P-256:X25519:P-384", "secp384r1"),
        (Suite::Aes128Gcm, "P-384", "secp384r1"),
    ] {
        let (key, other) = (key(1, suite), key(2, suite));
        let folder = tempfile::tempdir().unwrap();
        let mut command = openssl("s_server", &key, folder.path());
        let mut server = Server::openssl(command.args(["-nocert", "-rev", "-groups", groups]));
        let channel = server.connect(&[key, other]);
        let channel =
            channel.unwrap_or_else(|error| panic!("{suite} {groups}: {error}\n{}", server.running.end()));
        let established = &channel.established;
        assert_eq!((established.suite, &*established.group, established.key), (suite, group, 0));
        channel.exchange(Peer::Controller, "desrever si siht\n", "this is reversed\n");
    }
}

#[test]
fn openssl_as_a_controller_with_another_key_and_a_certificate() {
    if !is_there("openssl", "version") {
        return;
    }
    let (ours, theirs) = (key(1, Suite::Aes128Gcm), key(2, Suite::Aes128Gcm));
    let folder = tempfile::tempdir().unwrap();
    let (certificate, private) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-nodes", "-subj", "/CN=controller", "-newkey", "ec"]);
    make.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-out"])
        .arg(&certificate)
        .arg("-keyout")
        .arg(&private);
    assert!(make.stderr(Stdio::null()).status().unwrap().success());
    let mut command = openssl("s_server", &theirs, folder.path());
    let server = Server::openssl(command.arg("-cert").arg(certificate).arg("-key").arg(private));
    assert_eq!(server.connect(&[ours]).err(), Some(HandshakeError::NoKey));
}

#[test]
fn openssl_as_a_controller_without_tls_1_3() {
    if !is_there("openssl", "version") {
        return;
    }
    let mut command = Command::new("openssl");
    command.args(["s_server", "-tls1_2", "-nocert", "-psk", &"01".repeat(32)]);
    let server = Server::openssl(&mut command);
    let error = server.connect(&[key(1, Suite::Aes128Gcm)]).err().unwrap();
    assert_eq!(error, HandshakeError::Refused { peer: Peer::Controller, alert: Alert::PROTOCOL_VERSION });
}

/// Offers and accepted algorithms of GnuTLS.
const PRIORITY: &str = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+DHE-PSK:+ECDHE-PSK";

/// GnuTLS' commands take keys for SHA-256 alone.
#[test]
fn gnutls_as_a_host() {
    if !is_there("gnutls-cli", "--version") {
        return;
    }
    let key = key(1, Suite::Aes128Gcm);
    let (identity, secret) = (key.identity().to_string(), hex(key.reveal()));
    let (channel, mut host) = serve(
        |port| {
            let mut gnutls = Command::new("gnutls-cli");
            gnutls.args(["--pskusername", &identity, "--pskkey", &secret, "--priority", PRIORITY]);
            gnutls.args(["-p", &port.to_string(), "127.0.0.1"]);
            gnutls
        },
        &[key],
    );
    let channel = channel.unwrap_or_else(|error| panic!("{error}\n{}", host.end()));
    host.0.stdin.as_mut().unwrap().write_all(b"from the host\n").unwrap();
    channel.exchange(Peer::Host, "from the controller\n", "from the host\n");
}

#[test]
fn gnutls_as_a_controller() {
    if !is_there("gnutls-serv", "--version") {
        return;
    }
    let key = key(1, Suite::Aes128Gcm);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("psk.txt");
    std::fs::write(&file, format!("#{}:{}\n", hex(key.identity().to_string().as_bytes()), hex(key.reveal())))
        .unwrap();
    // It does not say where it listens, and takes a port that is free now.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut command = Command::new("gnutls-serv");
    command.args(["--echo", "--priority", PRIORITY, "-p", &port.to_string(), "--pskpasswd"]).arg(file);
    let mut server = Server { running: Running::start(&mut command), port };
    wait_until("it listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    let channel = server.connect(&[key]);
    let channel = channel.unwrap_or_else(|error| panic!("{error}\n{}", server.running.end()));
    channel.exchange(Peer::Controller, "there and back\n", "there and back\n");
}

/// Reads what there is. A machine that is stopped and goes on ends a wait that has a limit before its time: it is waited again.
fn read_some(stream: &mut impl Read, room: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(room) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
