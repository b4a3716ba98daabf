//! Who may do what, over real sockets: every route by every role, tokens, certificates, and what happens when they change.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authentication::Secret;
use clap::Parser as _;
use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target};
use hyper::Method;
use prerequisite::patience;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use secure_channel::ConfiguredPsk;
use serde_json::{Value, json};

use super::administration::Administration;
use super::audit::AuditLog;
use super::client::Client;
use super::fingerprint::Fingerprint;
use super::routes::{AUDIT_PATH, LIVE_PATH, ROUTES};
use super::{Control, Listeners, test_target};
use crate::failure::Failure;
use crate::flags::control::ControlTlsFlags;
use crate::flags::serve::AdministeredFlags;
use crate::spec::audit_destination::AuditDestination;
use crate::spec::endpoint::Endpoint;
use crate::spec::role::Role;

#[path = "access_guess_tests.rs"]
mod guesses;
#[path = "access_self_signed_tests.rs"]
mod self_signed;

pub(super) const MINE: &str = "nqn.2026-01.io.selvedge:mine";
pub(super) const OTHER: &str = "nqn.2026-01.io.selvedge:other";

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    administered: AdministeredFlags,
}

/// A target with listeners, in a folder that goes with it.
pub(super) struct House {
    folder: tempfile::TempDir,
    target: Arc<Target>,
    controls: Vec<Control>,
    metrics: Option<Control>,
}

pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: String,
}

pub(super) fn token(name: &str) -> String {
    format!("selvedge_token_of_{name}")
}

pub(super) fn sha256(name: &str) -> Fingerprint {
    Fingerprint::of(token(name).as_bytes())
}

/// An access file with a token for each role, and more.
fn access(more: &str) -> String {
    let mut text = String::new();
    for role in ["metrics", "read", "operate", "admin"] {
        let subsystems = if role == "operate" { format!("subsystems = [\"{MINE}\"]") } else { String::new() };
        let sha256 = sha256(role);
        text += &format!(
            "[[token]]\nname = \"{role}\"\nrole = \"{role}\"\nsha256 = \"{sha256}\"\n{subsystems}\n"
        );
    }
    text + more
}

fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::rename(new, path).unwrap();
}

impl House {
    fn new(folder: tempfile::TempDir, flags: &str) -> Result<Self, Failure> {
        let subsystem = |nqn| {
            let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
            SubsystemConfig::new(nqn, "A", "Selvedge").with(vec![namespace])
        };
        let fabric = FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![subsystem(MINE), subsystem(OTHER)],
            ..FabricConfig::default()
        };
        let flags = flags.replace("FOLDER", folder.path().to_str().unwrap());
        let flags = Flags::try_parse_from(std::iter::once("test").chain(flags.split_whitespace()));
        let flags = flags.unwrap_or_else(|error| panic!("{error}")).administered;
        let listeners = Listeners::new(&flags)?;
        let target = test_target::start(fabric);
        let destination = AuditDestination::File(folder.path().join("audit.jsonl"));
        let audit = AuditLog::open(Some(&destination), None)?;
        let administration = Arc::new(Administration::new(target.clone(), None).unwrap().audited(audit));
        let metrics = listeners.start_metrics(&administration)?;
        let controls = listeners.start_controls(&target, &administration)?;
        Ok(Self { folder, target, controls, metrics })
    }

    pub(super) fn with_tokens(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("access.toml"), &access(more));
        Self::new(folder, "--control tcp:127.0.0.1:0 --control-access FOLDER/access.toml")
            .unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// Records of the audit log.
    pub(super) fn recorded(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn change_access(&self, text: &str) {
        write(&self.folder.path().join("access.toml"), text);
    }

    pub(super) fn ask(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Response {
        let Some(address) = self.controls[0].endpoint().socket_address() else { panic!("no address") };
        ask(address, method, path, token, body)
    }

    fn client(&self, flags: &ControlTlsFlags, token: Option<&Path>) -> Result<Client, Failure> {
        Client::new(Some(self.controls[0].endpoint()), token, flags)
    }
}

fn ask(address: SocketAddr, method: &str, path: &str, token: Option<&str>, body: &str) -> Response {
    finish(begin(address, method, path, token, body))
}

/// Connects and sends a request.
fn begin(address: SocketAddr, method: &str, path: &str, token: Option<&str>, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    send(&mut stream, method, path, token, body);
    stream
}

fn send(stream: &mut TcpStream, method: &str, path: &str, token: Option<&str>, body: &str) {
    let header = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{header}Content-Length: {}\r\n", body.len());
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
}

/// Receives the answer.
fn finish(mut stream: TcpStream) -> Response {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
    Response { status, body }
}

#[test]
fn every_route_is_for_those_whose_role_it_needs() {
    let house = House::with_tokens("");
    let roles = [Role::Metrics, Role::Read, Role::Operate, Role::Admin];
    let mut tried = 0;
    for route in ROUTES {
        for nqn in [MINE, OTHER] {
            // What would take a whole subsystem away is asked of one that is not there.
            let named = if route.needs == Role::Admin { "nqn.none" } else { nqn };
            let path = route.path.replace("{nqn}", named).replace("{nsid}", "9").replace("{host}", "nqn.h");
            let path = path.replace("{id}", "9").replace("{cntlid}", "9999").replace("{snapshot}", "s");
            let path = path.replace("{name}", "g").replace("{address}", "10.0.0.9");
            let path = path.replace("{service}", "9").replace(LIVE_PATH, "/v1/live?once");
            for role in roles {
                // Nothing is there by these names, and no body is one: what is allowed fails, and changes nothing.
                let response = house.ask(route.method, &path, Some(&token(&role.to_string())), "");
                let is_mine = role != Role::Operate || route.needs != Role::Operate || nqn == MINE;
                let allowed = role >= route.needs && is_mine;
                let what =
                    format!("{} {path} by {role}: {} {}", route.method, response.status, response.body);
                assert_eq!(response.status != 403, allowed, "{what}");
                if !allowed {
                    assert!(response.body.contains(&format!("token {role} may not do that")), "{what}");
                }
                tried += 1;
            }
            assert_eq!(house.ask(route.method, &path, None, "").status, 401, "{path}");
        }
    }
    assert_eq!(tried, ROUTES.len() * 2 * roles.len());
    let served: Vec<String> = house.target.config().subsystems.into_iter().map(|found| found.nqn).collect();
    assert_eq!(served, [MINE, OTHER]);
}

#[test]
fn what_changes_anything_needs_more_than_to_read() {
    for route in ROUTES {
        let expected = match (route.method, route.path) {
            (_, path) if path.starts_with("/metrics") => Role::Metrics,
            // It says who administers, and from where.
            ("GET", AUDIT_PATH) => Role::Admin,
            ("GET", _) | (_, "/v1/preview") => Role::Read,
            // What a reservation protects is no longer protected.
            ("DELETE", path) if path.contains("/reservations") => Role::Admin,
            (_, path) if path.starts_with("/v1/subsystems/{nqn}/") => Role::Operate,
            _ => Role::Admin,
        };
        assert_eq!(route.needs, expected, "{} {}", route.method, route.path);
    }
}

#[test]
fn an_operator_names_what_its_list_has() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
    for made in [&inside, &outside] {
        std::fs::create_dir(made).unwrap();
        std::fs::write(made.join("disk"), vec![0; 1 << 20]).unwrap();
    }
    let storage = format!("storage = {{ directories = [\"{}\"] }}", inside.display());
    let (free, bound) = (sha256("free"), sha256("bound"));
    let house = House::with_tokens(&format!(
        "[[token]]\nname = \"bound\"\nrole = \"operate\"\nsubsystems = [\"{MINE}\"]\nsha256 = \"{bound}\"\n{storage}\n\
         [[token]]\nname = \"free\"\nrole = \"operate\"\nsubsystems = [\"*\"]\nsha256 = \"{free}\"\n"
    ));
    let add = |token: &str, nqn: &str, path: &Path| {
        let body = json!({ "backend": { "file": { "path": path } } }).to_string();
        house.ask("POST", &format!("/v1/subsystems/{nqn}/namespaces"), Some(&self::token(token)), &body)
    };
    let response = add("bound", MINE, &outside.join("disk"));
    assert_eq!(response.status, 403, "{}", response.body);
    assert!(
        response.body.contains("may not be named here") && response.body.contains("directories"),
        "{}",
        response.body
    );
    assert_eq!(
        add("free", MINE, &inside.join("disk")).status,
        403,
        "an operator without a list has an empty one"
    );
    assert_eq!(add("bound", OTHER, &inside.join("disk")).status, 403);
    assert_eq!(add("bound", MINE, &inside.join("disk")).status, 201);
    assert_eq!(add("admin", OTHER, &outside.join("disk")).status, 201, "nothing limits this one");
    // A file that is named by a list is opened below its folder, and remembered.
    let namespaces = house.target.config().subsystems.into_iter().flat_map(|all| all.namespaces);
    let pins: Vec<_> = namespaces.filter_map(|namespace| namespace.file_pin).collect();
    assert!(pins.len() == 1 && pins[0].directory == inside && pins[0].file.is_some(), "{pins:?}");
    // One list for all, and the administrator is one of them.
    let list = format!("[storage]\ndirectories = [\"{}\"]\n", inside.display());
    house.change_access(&(list + &access("")));
    std::fs::write(outside.join("more"), vec![0; 1 << 20]).unwrap();
    assert_eq!(add("admin", OTHER, &outside.join("more")).status, 403);
}

#[test]
fn tokens_come_expire_and_go_while_the_target_runs() {
    let house = House::with_tokens("");
    let status = |name: &str| house.ask("GET", "/v1/log", Some(&token(name)), "");
    assert_eq!(status("late").status, 401);
    let late = |expires: &str| {
        let sha256 = sha256("late");
        access(&format!(
            "[[token]]\nname = \"late\"\nrole = \"read\"\nsha256 = \"{sha256}\"\nexpires = \"{expires}\"\n"
        ))
    };
    house.change_access(&late("2999-01-01T00:00:00Z"));
    assert_eq!(status("late").status, 200);
    house.change_access(&late("2026-01-02T03:04:05Z"));
    let refused = status("late");
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("token late has expired at 2026-01-02T03:04:05Z"), "{}", refused.body);
    house.change_access("half a file [");
    assert_eq!(status("read").status, 200, "what cannot be read changes nothing");
    house.change_access("");
    assert_eq!(status("read").status, 401, "a token that is taken away is refused at once");
    house.change_access(&access(""));
    assert_eq!(status("read").status, 200);
    std::fs::remove_file(house.folder.path().join("access.toml")).unwrap();
    assert_eq!(status("read").status, 401, "a file that is gone admits no caller");
}

#[test]
fn metrics_off_loopback_are_for_those_who_may_read_them() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("access.toml"), &access(""));
    let start = |flags: &str| {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("access.toml"), &access(""));
        House::new(folder, &format!("--control none {flags}"))
    };
    let status = |house: &House, token: Option<&str>| {
        let port = house.metrics.as_ref().unwrap().endpoint().socket_address().unwrap().port();
        std::thread::sleep(Duration::from_millis(400));
        ask(([127, 0, 0, 1], port).into(), "GET", "/metrics", token, "").status
    };
    let refused = start("--metrics 0.0.0.0:0").map(drop).unwrap_err().line().unwrap();
    assert!(
        refused.contains("--control-access FILE") && refused.contains("--metrics-for-anybody"),
        "{refused}"
    );
    let guarded = start("--metrics 0.0.0.0:0 --control-access FOLDER/access.toml").ok().unwrap();
    assert_eq!(status(&guarded, None), 401);
    assert_eq!(status(&guarded, Some(&token("metrics"))), 200);
    let port = guarded.metrics.as_ref().unwrap().endpoint().socket_address().unwrap().port();
    let other = ask(([127, 0, 0, 1], port).into(), "GET", "/v1/config", Some(&token("admin")), "");
    assert_eq!(other.status, 404, "nothing else is there");
    for open in ["--metrics 0.0.0.0:0 --metrics-for-anybody", "--metrics 127.0.0.1:0"] {
        assert_eq!(status(&start(open).ok().unwrap(), None), 200, "{open}");
    }
}

#[test]
fn a_page_of_a_foreign_name_does_not_read_open_metrics() {
    let flags = "--control none --metrics 127.0.0.1:0";
    let house = House::new(tempfile::tempdir().unwrap(), flags).ok().unwrap();
    let address = house.metrics.as_ref().unwrap().endpoint().socket_address().unwrap();
    // Browsers send the second alone to a name without TLS.
    for header in ["Sec-Fetch-Site: same-origin", "Accept-Language: en"] {
        for (host, expected) in [("evil.example", 403), ("localhost", 200)] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(patience())).unwrap();
            let head = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n{header}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            assert_eq!(finish(stream).status, expected, "{host}, {header}");
        }
    }
}

/// An authority, and certificates that it has signed.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate and its key to FOLDER/NAME.pem and FOLDER/NAME.key.
    fn sign(&self, folder: &Path, name: &str, subject: &str, last_year: i32) {
        let mut params = CertificateParams::new(vec![subject.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(last_year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        write(&folder.join(format!("{name}.pem")), &certificate.pem());
        write(&folder.join(format!("{name}.key")), &key.serialize_pem());
    }

    fn write(&self, path: &Path) {
        write(path, &self.0.pem());
    }
}

/// A house with TLS: an authority for the target, another for its clients.
fn house_with_tls() -> (House, Authority, Authority) {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    ours.write(&folder.path().join("ca"));
    theirs.write(&folder.path().join("client-ca"));
    ours.sign(folder.path(), "target", "127.0.0.1", 2999);
    theirs.sign(folder.path(), "ops", "ops.example.org", 2999);
    theirs.sign(folder.path(), "eve", "eve.example.org", 2999);
    theirs.sign(folder.path(), "old", "ops.example.org", 2025);
    ours.sign(folder.path(), "strange", "ops.example.org", 2999);
    let certificate = "[[certificate]]\nname = \"ops.example.org\"\nrole = \"admin\"\n";
    write(&folder.path().join("access.toml"), &access(certificate));
    write(&folder.path().join("token"), &token("admin"));
    let flags = "--control tls:127.0.0.1:0 --control-access FOLDER/access.toml --control-tls-cert FOLDER/target.pem \
                 --control-tls-key FOLDER/target.key --control-tls-client-ca FOLDER/client-ca";
    let house = House::new(folder, flags).unwrap_or_else(|failure| panic!("{failure:?}"));
    (house, ours, theirs)
}

fn shows(house: &House, name: Option<&str>) -> ControlTlsFlags {
    let path = |name: String| house.folder.path().join(name);
    ControlTlsFlags {
        control_ca: Some(path("ca".to_owned())),
        control_cert: name.map(|name| path(format!("{name}.pem"))),
        control_key: name.map(|name| path(format!("{name}.key"))),
    }
}

#[test]
fn over_tls_a_certificate_or_a_token_says_who_it_is() {
    let (house, _, _) = house_with_tls();
    let token = house.folder.path().join("token");
    let by_token = house.client(&shows(&house, None), Some(&token)).unwrap();
    assert!(by_token.get::<Value>("/v1/config").is_ok());
    let change = |name| {
        // Who was refused waits.
        std::thread::sleep(Duration::from_millis(1000));
        let client = house.client(&shows(&house, Some(name)), None).unwrap();
        let path = format!("/v1/subsystems/{MINE}/ana-groups/1");
        client.change::<Value>(Method::PUT, &path, &json!({ "state": "optimized" }))
    };
    change("ops").unwrap();
    let error = |name| change(name).unwrap_err().line().unwrap();
    assert!(error("eve").contains("no [[certificate]]"), "{}", error("eve"));
    assert!(error("old").contains("certificate of --control-cert has expired"), "{}", error("old"));
    assert!(error("strange").contains("it refuses the connection"), "{}", error("strange"));
    let without = house.client(&shows(&house, None), None).unwrap_err().line().unwrap();
    assert!(without.contains("--control-token-file") && without.contains("--control-cert"), "{without}");
}

#[test]
fn a_client_knows_its_target_by_the_certificate() {
    let (house, _, theirs) = house_with_tls();
    let token = house.folder.path().join("token");
    let ask = |flags: &ControlTlsFlags, endpoint: &Endpoint| {
        let client = Client::new(Some(endpoint), Some(&token), flags)?;
        client.get::<Value>("/v1/log")
    };
    let endpoint = house.controls[0].endpoint().clone();
    let Endpoint::Tls { port, .. } = endpoint else { panic!("{endpoint}") };
    let error =
        |flags: &ControlTlsFlags, endpoint: &Endpoint| ask(flags, endpoint).unwrap_err().line().unwrap();
    let wrong_ca = ControlTlsFlags {
        control_ca: Some(house.folder.path().join("client-ca")),
        ..ControlTlsFlags::default()
    };
    assert!(error(&wrong_ca, &endpoint).contains("signed by none of"), "{}", error(&wrong_ca, &endpoint));
    let by_name = Endpoint::Tls { host: "localhost".to_owned(), port };
    let flags = shows(&house, None);
    assert!(error(&flags, &by_name).contains("not the one of this host"), "{}", error(&flags, &by_name));
    let plain: Endpoint = format!("tcp:127.0.0.1:{port}").parse().unwrap();
    assert!(ask(&flags, &plain).is_err());
    // A certificate that is renewed counts from the next connection on, and a half of a pair never.
    let other = Authority::new();
    other.write(&house.folder.path().join("ca"));
    assert!(ask(&flags, &endpoint).is_err());
    other.sign(house.folder.path(), "next", "127.0.0.1", 2999);
    let path = |name: &str| house.folder.path().join(name);
    std::fs::rename(path("next.pem"), path("target.pem")).unwrap();
    assert!(ask(&flags, &endpoint).is_err(), "the old certificate is still served, with its key");
    std::fs::rename(path("next.key"), path("target.key")).unwrap();
    assert!(ask(&flags, &endpoint).is_ok(), "{:?}", ask(&flags, &endpoint));
    other.sign(house.folder.path(), "target", "127.0.0.1", 2025);
    assert!(
        error(&flags, &endpoint).contains("has expired at 2025-12-31T00:00:00Z"),
        "{}",
        error(&flags, &endpoint)
    );
    drop(theirs);
}

#[test]
fn a_client_without_calls_returns_its_permit() {
    let flags = "--control none --ceph-nvmeof-api 127.0.0.1:0 --ceph-nvmeof-api-for-anybody";
    let flags = Flags::parse_from(["test"].into_iter().chain(flags.split_whitespace())).administered;
    let ports = vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())];
    let target = test_target::start(FabricConfig { ports, ..FabricConfig::default() });
    let administration = Administration::new(target, None).unwrap();
    let listeners = Listeners::new(&flags).unwrap_or_else(|failure| panic!("{failure:?}"));
    let listener = listeners.start_calls(&Arc::new(administration)).unwrap().expect("a listener");
    let mut silent = TcpStream::connect(listener.endpoint().socket_address().unwrap()).unwrap();
    silent.set_read_timeout(Some(patience())).unwrap();
    silent.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn listeners_that_lack_something_are_not_opened() {
    let error = |flags: &str| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("open"), "").unwrap();
        std::fs::set_permissions(
            folder.path().join("open"),
            std::os::unix::fs::PermissionsExt::from_mode(0o666),
        )
        .unwrap();
        write(&folder.path().join("empty"), "");
        House::new(folder, flags).map(drop).unwrap_err().line().unwrap()
    };
    for (flags, expected) in [
        ("--control tcp:127.0.0.1:0", "--control-access FILE"),
        ("--control tls:127.0.0.1:0 --control-access FOLDER/empty", "--control-tls-cert FILE"),
        ("--control none --control tcp:127.0.0.1:0", "--control none"),
        ("--control-access FOLDER/none", "the access file: cannot open"),
        ("--control-access FOLDER/open", "may be changed by others"),
        ("--control-tls-cert FOLDER/empty --control-tls-key FOLDER/empty", "has no certificate in PEM"),
    ] {
        assert!(error(flags).contains(expected), "{flags}: {}", error(flags));
    }
}

#[test]
fn who_changed_what_is_recorded_and_who_did_not_come_in() {
    let house = House::with_tokens("");
    let path = format!("/v1/subsystems/{MINE}/namespaces/1");
    let qos = json!({ "qos": { "iops": 500 } }).to_string();
    assert_eq!(house.ask("PATCH", &path, Some(&token("operate")), &qos).status, 200);
    assert_eq!(house.ask("PATCH", &path, Some(&token("read")), &qos).status, 403);
    assert_eq!(house.ask("PATCH", &path, Some(&token("admin")), "{\"size\": 5}").status, 422);
    assert_eq!(house.ask("GET", &path, Some(&token("read")), "").status, 200);
    assert_eq!(house.ask("PUT", "/v1/config?dry_run", Some(&token("admin")), "{}").status, 409);
    assert_eq!(house.ask("DELETE", &path, Some(&token("admin")), "").status, 204);
    assert_eq!(house.ask("GET", "/v1/status", Some("selvedge_unknown_token"), "").status, 401);
    let records = house.recorded();
    let found: Vec<(&str, &str)> = records
        .iter()
        .map(|record| (record["event"].as_str().unwrap(), record["who"]["token"].as_str().unwrap_or("-")))
        .collect();
    let expected = [
        ("change", "operate"),
        ("refused", "read"),
        ("refused", "admin"),
        ("change", "admin"),
        ("failed_login", "-"),
    ];
    assert_eq!(found, expected);
    let first = &records[0];
    assert_eq!(first["what"], format!("PATCH {path}"));
    assert_eq!(first["request"], json!({ "qos": { "iops": 500 } }));
    assert_eq!(
        first["changes"][0]["differences"],
        json!([{ "setting": "qos.iops", "from": null, "to": 500 }])
    );
    assert_eq!((&first["result"], &first["status"]), (&json!("done"), &json!(200)));
    assert!(first["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{first}");
    assert!(records[1]["result"].as_str().unwrap().contains("it takes the role operate"), "{}", records[1]);
    assert_eq!(records[3]["changes"][0]["before"]["qos"]["iops"], 500, "{}", records[3]);
    assert_eq!(records[4]["who"], "nobody");
    let text = std::fs::read_to_string(house.folder.path().join("audit.jsonl")).unwrap();
    assert!(!text.contains(&token("operate")) && !text.contains("unknown_token"), "a token is in the log");
    let verified = super::audit::verify(&[house.folder.path().join("audit.jsonl")], None).unwrap();
    assert_eq!((verified.records, verified.last), (5, 4));
}

#[test]
fn secrets_of_requests_are_not_recorded() {
    let house = House::with_tokens("");
    let secret = Secret::new(&[7; 32], None).unwrap().reveal().to_string();
    let psk = ConfiguredPsk::new(&[9; 32], None).unwrap().reveal().to_string();
    let keys = format!("/v1/subsystems/{MINE}/host_keys/nqn.h");
    // This target has no key to seal them with: all are refused, for one reason or another.
    for (role, body, status) in [
        ("operate", json!({ "dhchap_secret": secret, "tls_key": psk }), 424),
        ("admin", json!({ "dhchap_ctrl_secret": &secret[1..] }), 422),
        ("admin", json!({ "dhchap_key": secret }), 422),
        ("admin", json!({ "overlap_s": psk }), 422),
        ("read", json!({ "tls_key": psk }), 403),
    ] {
        let response = house.ask("PUT", &keys, Some(&token(role)), &body.to_string());
        assert_eq!(response.status, status, "{body}: {}", response.body);
    }
    let records = house.recorded();
    assert_eq!(records.len(), 5);
    assert_eq!(records[0]["request"], json!({ "dhchap_secret": "(secret)", "tls_key": "(secret)" }));
    for record in records.iter().map(Value::to_string) {
        for key in [&secret, &psk] {
            assert!(!record.contains(&key[20..40]), "{record}");
        }
    }
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let house = House::with_tokens("");
    let path = format!("/v1/subsystems/{MINE}/namespaces/1");
    let set = |iops: u64| {
        let body = json!({ "qos": { "iops": iops } }).to_string();
        house.ask("PATCH", &path, Some(&token("admin")), &body)
    };
    let served = || house.target.config().subsystems[0].namespaces[0].qos.iops;
    let log = house.folder.path().join("audit.jsonl");
    assert_eq!(set(100).status, 200);
    // A folder in the file's place cannot be written, also as root.
    std::fs::rename(&log, log.with_extension("1")).unwrap();
    std::fs::create_dir(&log).unwrap();
    assert_eq!(set(200).status, 200, "the failure is not known yet");
    let refused = set(300);
    assert_eq!((refused.status, served()), (507, Some(200)), "{}", refused.body);
    assert!(refused.body.contains("the audit log cannot be written"), "{}", refused.body);
    std::fs::remove_dir(&log).unwrap();
    assert_eq!((set(300).status, served()), (200, Some(300)));
    let events: Vec<Value> = house.recorded().iter().map(|record| record["event"].clone()).collect();
    assert_eq!(events, [json!("gap"), json!("change")]);
}
