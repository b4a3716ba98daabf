//! The control API as its clients have it: a real target, a real socket, good requests and all kinds of bad ones.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use authentication::Secret;
use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target};
use prerequisite::patience;
use secure_channel::ConfiguredPsk;
use serde_json::{Value, json};

use super::access::Access;
use super::administration::Administration;
use super::limits::BODY_BYTES_MAX;
use super::routes::{LIVE_PATH, ROUTES};
use super::schema_tests::mistake;
use super::socket::Listening;
use super::{Control, openapi, test_target};
use crate::spec::endpoint::Endpoint;
use crate::state::StateFile;

const NQN: &str = "nqn.2026-01.io.selvedge:a";

/// A target with its control API, in a folder that goes with it.
struct Testbed {
    folder: tempfile::TempDir,
    target: Arc<Target>,
    _control: Control,
    document: Value,
}

struct Response {
    status: u16,
    head: String,
    json: Value,
}

impl Testbed {
    fn new() -> Self {
        Self::with_state(false)
    }

    fn with_state(state: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 16 << 20 }, 4096);
        let fabric = FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![SubsystemConfig::new(NQN, "A", "Selvedge").with(vec![namespace])],
            ..FabricConfig::default()
        };
        let target = test_target::start_sealing(fabric);
        let state = state.then(|| StateFile::open(&folder.path().join("state")).unwrap());
        let administration = Arc::new(Administration::new(target.clone(), state).unwrap());
        let listening = Listening::on(&Endpoint::Unix(folder.path().join("s")), false).unwrap().unwrap();
        let control =
            Control::start(listening, Arc::new(Access::of_this_process()), None, administration).unwrap();
        Self { folder, target, _control: control, document: openapi::document().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Sends bytes as they are, and reads what comes.
    fn raw(&self, request: &[u8]) -> Response {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        // Who is refused early may find the other side gone.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Response::parse(&String::from_utf8(answer).unwrap())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Response {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        self.raw(&[head.as_bytes(), body.as_bytes()].concat())
    }

    /// Asks for what is to work, and holds the answer against the document.
    fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.ask(method, path, &text);
        assert!(response.status < 300, "{method} {path} {body}: {} {}", response.status, response.json);
        self.judge(method, path, &response);
        response.json
    }

    fn judge(&self, method: &str, path: &str, response: &Response) {
        let path = path.split('?').next().unwrap();
        let fits = |pattern: &str| {
            let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), path.split('/').collect());
            pattern.len() == path.len()
                && pattern.iter().zip(path).all(|(p, q)| p.starts_with('{') || *p == q)
        };
        let route = ROUTES.iter().find(|route| route.method == method && fits(route.path)).unwrap();
        assert_eq!(response.status, route.success.0, "{method} {path}");
        let name = format!("/paths/{}/{}", route.path.replace('/', "~1"), method.to_lowercase());
        let operation = self.document.pointer(&name).unwrap();
        let content = format!("/responses/{}/content/application~1json/schema", response.status);
        match operation.pointer(&content) {
            Some(schema) => assert_eq!(mistake(&self.document, schema, &response.json, path), None),
            None => assert!(response.json.is_null() || route.path.ends_with("openapi.json")),
        }
    }

    fn refused(&self, method: &str, path: &str, body: &str) -> Response {
        let before = self.target.config();
        let response = self.ask(method, path, body);
        assert!(response.status >= 400, "{method} {path} {body}: {}", response.status);
        assert_eq!(self.target.config(), before, "{method} {path} {body} changed something");
        let schema = json!({ "$ref": "#/components/schemas/Refusal" });
        assert_eq!(mistake(&self.document, &schema, &response.json, path), None);
        response
    }
}

impl Response {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Self { status, head: head.to_lowercase(), json: serde_json::from_str(body).unwrap_or_default() }
    }
}

#[test]
fn everything_can_be_changed_while_it_is_served() {
    let testbed = Testbed::new();
    let subsystem = "/v1/subsystems/nqn.2026-01.io.selvedge:b%2Fc";
    let name = "nqn.2026-01.io.selvedge:b/c";
    let none = Value::Null;
    testbed.done("POST", "/v1/subsystems", &json!({ "nqn": name, "hosts": ["nqn.host:1"] }));
    let shown = testbed.done("GET", subsystem, &none);
    assert_eq!((shown["nqn"].as_str(), shown["allow_any_host"].as_bool()), (Some(name), Some(false)));
    testbed.done("PATCH", subsystem, &json!({ "allow_any_host": true }));
    let host = "nqn.host:2";
    testbed.done("POST", &format!("{subsystem}/hosts"), &json!({ "nqn": host }));
    testbed.done("DELETE", &format!("{subsystem}/hosts/nqn.host:1"), &none);
    assert_eq!(testbed.done("GET", &format!("{subsystem}/hosts"), &none)["hosts"], json!([host]));

    let backend = json!({ "memory": { "size": "1m" } });
    let made = testbed.done("POST", &format!("{subsystem}/namespaces"), &json!({ "backend": backend }));
    assert_eq!((made["nsid"].as_u64(), made["backend"]["memory"]["size"].as_u64()), (Some(1), Some(1 << 20)));
    let namespace = format!("{subsystem}/namespaces/1");
    let limits = json!({ "size": 2 << 20, "qos": { "iops": 10, "bytes": "1m" }, "ana_group": 3 });
    testbed.done("PATCH", &namespace, &limits);
    let qos = json!({ "qos": { "iops": null }, "visible": { "only": [host] }, "write_protection": "on" });
    let patched = testbed.done("PATCH", &namespace, &qos);
    assert_eq!(patched["qos"], json!({ "bytes": 1 << 20 }));
    assert_eq!(patched, testbed.done("GET", &namespace, &none));
    assert_eq!(testbed.refused("PATCH", &namespace, r#"{"size": "1m"}"#).status, 409);
    testbed.done("PATCH", &namespace, &json!({ "size": "1m", "shrink": true }));

    testbed.done(
        "PUT",
        &format!("{subsystem}/ana-groups/3"),
        &json!({ "state": "inaccessible", "ports": { "1": "change" } }),
    );
    let groups = testbed.done("GET", &format!("{subsystem}/ana-groups"), &none);
    assert_eq!(groups["ana_groups"][0]["ports"]["1"], "change");
    testbed.done("GET", &format!("{subsystem}/ana-groups/3"), &none);

    let port = testbed.done("POST", "/v1/ports", &json!({ "address": "127.0.0.1:0" }));
    assert!(port["id"] == 2 && !port["address"].as_str().unwrap().ends_with(":0"), "{port}");
    assert_eq!(testbed.done("GET", "/v1/ports", &none)["ports"].as_array().unwrap().len(), 2);
    testbed.done("DELETE", "/v1/ports/2", &none);
    testbed.done("POST", "/v1/referrals", &json!({ "address": "::1", "service": "8009" }));
    testbed.done("GET", "/v1/referrals", &none);
    testbed.done("DELETE", "/v1/referrals/%3A%3A1/8009", &none);
    assert_eq!(testbed.done("GET", "/v1/status", &none)["pid"], std::process::id());
    testbed.done("GET", "/v1/connections", &none);
    testbed.done("GET", &format!("{subsystem}/namespaces"), &none);
    testbed.done("DELETE", &namespace, &none);
    testbed.done("DELETE", subsystem, &none);
    assert_eq!(testbed.done("GET", "/v1/subsystems", &none)["subsystems"].as_array().unwrap().len(), 1);
}

#[test]
fn a_whole_configuration_is_put_and_what_is_shown_can_be_put_back() {
    let testbed = Testbed::new();
    let shown = testbed.done("GET", "/v1/config", &Value::Null);
    let nothing = testbed.done("PUT", "/v1/config", &shown);
    assert_eq!(nothing["changes"], json!([]));
    let mut wanted = shown.clone();
    wanted["subsystems"][0]["namespaces"] = json!([{ "backend": { "null": { "size": "1g" } }, "nsid": 5 }]);
    wanted["ports"][0]["address"] = json!("127.0.0.1:0");
    let rehearsed = testbed.done("PUT", "/v1/config?dry_run=true", &wanted);
    assert_eq!(testbed.done("GET", "/v1/config", &Value::Null), shown);
    let applied = testbed.done("PUT", "/v1/config", &wanted);
    assert_eq!(applied["changes"], rehearsed["changes"]);
    let kinds: Vec<_> = applied["changes"].as_array().unwrap().iter().map(|c| &c["change"]).collect();
    assert_eq!(kinds, ["namespace_removed", "namespace_added"], "a free service stays the one it is");
    assert_eq!(testbed.target.config().subsystems[0].namespaces[0].nsid, 5);
}

/// A request, and the status and a part of the text it is refused with.
type Bad<'a> = (&'a str, &'a str, &'a str, u16, &'a str);

/// Sees that each is refused as it should be, and that nothing changes.
fn refuses(testbed: &Testbed, requests: &[Bad<'_>]) {
    for (method, path, body, status, expected) in requests {
        let response = testbed.refused(method, path, body);
        let text = response.json.to_string();
        assert_eq!(response.status, *status, "{method} {path} {body}: {text}");
        let has_place = text.contains(" at line ") && !text.contains("not JSON");
        assert!(text.contains(expected) && !has_place, "{method} {path} {body}: {text}");
    }
}

#[test]
fn a_namespace_without_a_sensible_backend_is_refused_and_nothing_changes() {
    let testbed = Testbed::new();
    let namespaces = format!("/v1/subsystems/{NQN}/namespaces");
    refuses(
        &testbed,
        &[
            ("POST", &*namespaces, "{", 400, "EOF"),
            ("POST", &namespaces, "", 400, "EOF"),
            ("POST", &namespaces, "not json", 400, ""),
            ("POST", &namespaces, "{} {}", 422, "backend"),
            ("POST", &namespaces, "[]", 422, ""),
            ("POST", &namespaces, r#"{"nsid": 2}"#, 422, "backend"),
            ("POST", &namespaces, r#"{"backend": "memory"}"#, 422, "backend"),
            ("POST", &namespaces, r#"{"backend": {"memory": {}}}"#, 422, "size"),
            (
                "POST",
                &namespaces,
                r#"{"backend": {"memory": {"size": 4096}, "null": {"size": 4096}}}"#,
                422,
                "keep one",
            ),
            ("POST", &namespaces, r#"{"backend": {"tape": {"size": 1}}}"#, 422, "tape"),
            ("POST", &namespaces, r#"{"backend": {"memory": {"size": -4096}}}"#, 422, "negative"),
            ("POST", &namespaces, r#"{"backend": {"memory": {"size": 0}}}"#, 422, "whole number"),
            ("POST", &namespaces, r#"{"backend": {"memory": {"size": 4097}}}"#, 422, "whole number"),
            ("POST", &namespaces, r#"{"backend": {"memory": {"size": 1.5}}}"#, 422, "size"),
            ("POST", &namespaces, r#"{"backend": {"memory": {"size": "lots"}}}"#, 422, "not a size"),
            ("POST", &namespaces, r#"{"backend": {"memory": {"size": "99999999p"}}}"#, 422, "16 EiB"),
            ("POST", &namespaces, r#"{"backend": {"memory": {"size": "16383p"}}}"#, 422, "8 EiB"),
            ("POST", &namespaces, r#"{"backend": {"memory": {"size": 99999999999999999999}}}"#, 422, "size"),
            ("POST", &namespaces, r#"{"backend": {"memory": {"size": "4096p"}}}"#, 507, "memory"),
            ("POST", &namespaces, r#"{"backend": {"file": {"path": "disk.img"}}}"#, 422, "absolute"),
            ("POST", &namespaces, r#"{"backend": {"file": {"path": "/nowhere/disk.img"}}}"#, 422, "/nowhere"),
            ("POST", &namespaces, r#"{"backend": {"block": {"path": "/dev/null"}}}"#, 422, "block device"),
        ],
    );
    let field = testbed.refused("POST", &namespaces, r#"{"backend": {"memory": {"size": -1}}}"#);
    assert_eq!(field.json["field"], "backend.memory.size");
}

#[test]
fn a_namespace_with_senseless_settings_is_refused_and_nothing_changes() {
    let testbed = Testbed::new();
    let namespaces = format!("/v1/subsystems/{NQN}/namespaces");
    let with = |fields: &str| format!(r#"{{"backend": {{"null": {{"size": "1m"}}}}, {fields}}}"#);
    refuses(
        &testbed,
        &[
            ("POST", &namespaces, &with(r#""nsid": 1"#), 409, "already exists"),
            ("POST", &namespaces, &with(r#""nsid": 0"#), 422, "1 to 4096"),
            ("POST", &namespaces, &with(r#""nsid": 99999"#), 422, "1 to 4096"),
            ("POST", &namespaces, &with(r#""nsid": -1"#), 422, "nsid"),
            ("POST", &namespaces, &with(r#""nsid": "2""#), 422, "nsid"),
            ("POST", &namespaces, &with(r#""nsid": 2, "nsid": 3"#), 422, "duplicate"),
            ("POST", &namespaces, &with(r#""colour": "red""#), 422, "colour"),
            ("POST", &namespaces, &with(r#""block_size": 1024"#), 422, "512 and 4096"),
            ("POST", &namespaces, &with(r#""uuid": "x""#), 422, "uuid"),
            ("POST", &namespaces, &with(r#""ana_group": 0"#), 422, "ANA"),
            ("POST", &namespaces, &with(r#""qos": {"iops": 0}"#), 422, "limit of 0"),
            ("POST", &namespaces, &with(r#""qos": {"iops": "fast"}"#), 422, "iops"),
            ("POST", &namespaces, &with(r#""visible": {"only": ["a,b"]}"#), 422, "comma"),
            ("POST", &namespaces, &with(r#""write_protection": "maybe""#), 422, "maybe"),
            ("POST", "/v1/subsystems/nqn.nowhere/namespaces", &with(r#""nsid": 2"#), 404, "nqn.nowhere"),
        ],
    );
}

#[test]
fn bad_changes_of_subsystems_and_namespaces_are_refused_and_change_nothing() {
    let testbed = Testbed::new();
    let namespaces = format!("/v1/subsystems/{NQN}/namespaces");
    let one = format!("{namespaces}/1");
    let long = format!(r#"{{"nqn": "nqn.{}"}}"#, "x".repeat(300));
    refuses(
        &testbed,
        &[
            ("PATCH", &one, r#"{"size": 4096}"#, 409, "smaller"),
            ("PATCH", &one, r#"{"size": 1}"#, 422, "whole number"),
            ("PATCH", &one, r#"{"nsid": 2}"#, 422, "nsid"),
            ("PATCH", &format!("{namespaces}/2"), "{}", 404, "has no namespace 2; it has 1"),
            ("DELETE", &format!("{namespaces}/2"), "", 404, "no namespace 2"),
            ("DELETE", &format!("{namespaces}/x"), "", 400, "not a valid nsid"),
            ("DELETE", &format!("{namespaces}/99999999999"), "", 400, "not a valid nsid"),
            ("DELETE", &one, "{}", 400, "no body"),
            ("POST", "/v1/subsystems", r#"{"nqn": "nqn.a,nqn.b"}"#, 422, "nqn."),
            ("POST", "/v1/subsystems", "{\"nqn\": \"nqn.a\\u0000b\"}", 422, "control character"),
            ("POST", "/v1/subsystems", &long, 422, "223"),
            ("POST", "/v1/subsystems", r#"{"nqn": "nqn.2014-08.org.nvmexpress.discovery"}"#, 422, "iscovery"),
            ("POST", "/v1/subsystems", &format!(r#"{{"nqn": "{NQN}"}}"#), 409, "already exists"),
            ("POST", "/v1/subsystems", r#"{"nqn": "nqn.b", "serial": ""}"#, 422, "20 printable"),
            ("POST", "/v1/subsystems", r#"{"nqn": "nqn.b", "ports": [9]}"#, 422, "port number 9"),
            ("PATCH", "/v1/subsystems/nqn.nowhere", "{}", 404, "nqn.nowhere"),
            ("DELETE", "/v1/subsystems/nqn.nowhere", "", 404, "nqn.nowhere"),
            ("DELETE", "/v1/subsystems/%ff%fe", "", 400, "UTF-8"),
        ],
    );
}

#[test]
fn what_only_an_image_has_is_refused_elsewhere_and_changes_nothing() {
    let testbed = Testbed::new();
    let namespaces = format!("/v1/subsystems/{NQN}/namespaces");
    let of = |part: &str| format!("{namespaces}/1{part}");
    let image = |fields: &str, more: &str| format!(r#"{{"backend": {{"rbd": {{{fields}}}}}{more}}}"#);
    let new = r#", "create_image": {"size": "1m"}"#;
    let on_memory = format!(r#"{{"backend": {{"memory": {{"size": "1m"}}}}{new}}}"#);
    let disk = r#""pool": "rbd", "image": "disk""#;
    // No cluster is asked for the first ones, and for the last there is none.
    refuses(
        &testbed,
        &[
            ("POST", &namespaces, &on_memory, 422, "rbd only"),
            ("POST", &namespaces, &image(r#""pool": "rbd""#, ""), 422, "image"),
            ("POST", &namespaces, &image(r#""pool": "a/b", "image": "disk""#, ""), 422, "a/b"),
            ("POST", &namespaces, &image(&format!(r#"{disk}, "conf": "c""#), ""), 422, "absolute"),
            ("POST", &namespaces, &image(&format!(r#"{disk}, "snapshot": "s""#), new), 422, "clone it"),
            ("POST", &namespaces, &image(disk, &new.replace("1m", "1")), 422, "whole number"),
            ("POST", &namespaces, &image(disk, &format!(r#"{new}, "nsid": 1"#)), 409, "already exists"),
            ("DELETE", &of("?delete_image=true"), "", 409, "not on a Ceph image"),
            ("DELETE", &of("?delete_image=true&trash_image=true"), "", 400, "either"),
            ("GET", &of("/snapshots"), "", 409, "not on a Ceph image"),
            ("POST", &of("/snapshots"), r#"{"name": "s"}"#, 409, "not on a Ceph image"),
            ("DELETE", &of("/snapshots/s"), "", 409, "not on a Ceph image"),
            ("POST", &of("/clone"), r#"{"image": "copy"}"#, 409, "not on a Ceph image"),
            ("POST", &of("/flatten"), "", 409, "not on a Ceph image"),
            ("GET", "/v1/tasks/1", "", 404, "no task 1"),
            ("POST", &namespaces, &image(&format!(r#"{disk}, "conf": "/nowhere""#), new), 422, ""),
        ],
    );
    let whole = json!({ "subsystems": [{ "nqn": "nqn.a", "namespaces": [{
        "backend": { "rbd": { "pool": "rbd", "image": "disk" } }, "create_image": { "size": "1m" }
    }] }] });
    let refused = testbed.refused("PUT", "/v1/config", &whole.to_string());
    assert_eq!(refused.json["field"], "subsystems[0].namespaces[0].create_image");
    assert_eq!(testbed.done("GET", "/v1/tasks", &Value::Null), json!({ "tasks": [] }));
}

#[test]
fn bad_requests_are_refused_and_change_nothing() {
    let testbed = Testbed::new();
    let subsystem = format!("/v1/subsystems/{NQN}");
    let twice = testbed.target.config().subsystems[0].clone();
    let twice = json!({ "subsystems": [twice, twice] }).to_string();
    refuses(
        &testbed,
        &[
            ("POST", &format!("{subsystem}/hosts"), r#"{"nqn": "nqn.a nqn.b"}"#, 422, "nqn"),
            ("DELETE", &format!("{subsystem}/hosts/nqn.x"), "", 404, "not on the list"),
            ("PUT", &format!("{subsystem}/ana-groups/0"), r#"{"state": "optimized"}"#, 404, "1 to"),
            (
                "PUT",
                &format!("{subsystem}/ana-groups/9"),
                r#"{"state": "optimized"}"#,
                404,
                "its only group is 1",
            ),
            ("GET", &format!("{subsystem}/ana-groups/9"), "", 404, "no ANA group 9"),
            ("PUT", &format!("{subsystem}/ana-groups/1"), r#"{"state": "best"}"#, 422, "best"),
            (
                "PUT",
                &format!("{subsystem}/ana-groups/1"),
                r#"{"state": "change", "ports": {"7": "change"}}"#,
                422,
                "7",
            ),
            ("POST", "/v1/ports", r#"{"address": "127.0.0.1:http"}"#, 422, "address"),
            ("POST", "/v1/ports", r#"{"address": "127.0.0.1:99999"}"#, 422, "address"),
            ("POST", "/v1/ports", r#"{"address": "192.0.2.1:4420"}"#, 422, "192.0.2.1"),
            ("POST", "/v1/ports", r#"{"id": 1, "address": "127.0.0.1:0"}"#, 409, "already exists"),
            ("POST", "/v1/ports", r#"{"id": 0, "address": "127.0.0.1:0"}"#, 422, "begin at 1"),
            ("DELETE", "/v1/ports/1", "", 409, "no address would be left"),
            ("DELETE", "/v1/ports/2", "", 404, "no port number 2"),
            ("POST", "/v1/referrals", r#"{"address": "", "service": "8009"}"#, 422, "address"),
            ("POST", "/v1/referrals", r#"{"address": "::1", "service": "http"}"#, 422, "service"),
            ("DELETE", "/v1/referrals/a/1", "", 404, "no referral"),
            ("DELETE", "/v1/controllers/77", "", 404, "no controller 77"),
            ("PUT", "/v1/config", &twice, 409, "no address"),
            (
                "PUT",
                "/v1/config",
                r#"{"ports": [{"address": "127.0.0.1:0"}], "subsystem": []}"#,
                422,
                "subsystem",
            ),
            ("PUT", "/v1/config?dry=true", "{}", 400, "takes dry_run, shrink"),
            ("PUT", "/v1/config?dry_run=perhaps", "{}", 400, "`perhaps` in the query is invalid: dry_run is"),
            ("POST", "/v1/config", "{}", 405, "GET, PUT"),
            ("BREW", "/v1/ports", "", 405, "GET, POST"),
            ("GET", "/v1/nothing", "", 404, "openapi.json"),
            ("GET", "/", "", 404, "openapi.json"),
        ],
    );
    let nested = json!({ "subsystems": [{ "nqn": "nqn.a", "namespaces": [{ "backend": { "null": { "size": 1 } } }] }] });
    let nested = testbed.refused("PUT", "/v1/config", &nested.to_string());
    assert_eq!(nested.json["field"], "subsystems[0].namespaces[0].backend.null.size");
    assert!(testbed.refused("POST", "/v1/config", "").head.contains("allow: get, put"));
}

#[test]
fn requests_that_are_too_large_or_do_not_come_whole_change_nothing() {
    let testbed = Testbed::new();
    let before = testbed.target.config();
    let spaces = " ".repeat(BODY_BYTES_MAX + 1);
    assert_eq!(testbed.refused("POST", "/v1/subsystems", &spaces).status, 413);
    let chunked = "POST /v1/subsystems HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let large = format!("{chunked}{:x}\r\n{spaces}\r\n0\r\n\r\n", spaces.len());
    assert_eq!(testbed.raw(large.as_bytes()).status, 413);
    // The body that was announced is half there; hyper may answer or just close.
    let half =
        "POST /v1/subsystems HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"nqn\": \"nqn.half\"}";
    for request in [half, "DELETE /v1/subsyst", "\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        let mut stream = UnixStream::connect(testbed.socket()).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(!answer.starts_with("HTTP/1.1 2"), "{request}: {answer}");
    }
    assert_eq!(testbed.target.config(), before);
    assert_eq!(testbed.ask("GET", "/v1/config", "").status, 200);
}

#[test]
fn the_document_describes_what_is_served() {
    let testbed = Testbed::new();
    let served = testbed.done("GET", "/v1/openapi.json", &Value::Null);
    assert_eq!(served, testbed.document);
    let paths = served["paths"].as_object().unwrap();
    let documented: usize = paths.values().map(|operations| operations.as_object().unwrap().len()).sum();
    assert_eq!(documented, ROUTES.len(), "a route is there twice");
    for route in ROUTES {
        // No variable is a valid name, so what is served refuses for another reason than the path or the method.
        let path = route.path.replace("{nqn}", "nqn.none").replace(['{', '}'], "");
        let path = path.replace(LIVE_PATH, "/v1/live?once");
        let response = testbed.ask(route.method, &path, "");
        let documented = &paths[route.path][route.method.to_lowercase()];
        assert!(response.status != 405 && documented.is_object());
        let content = &documented["responses"][response.status.to_string()]["content"];
        for kind in content.as_object().into_iter().flatten().map(|(kind, _)| kind) {
            assert!(response.head.contains(&format!("content-type: {kind}")), "{}", response.head);
        }
    }
    let schemas = served["components"]["schemas"].as_object().unwrap();
    let text = served.to_string();
    for (name, schema) in schemas {
        assert!(text.contains(&format!("schemas/{name}\"")), "{name} is used nowhere");
        for example in schema.get("examples").and_then(Value::as_array).into_iter().flatten() {
            assert_eq!(mistake(&served, schema, example, name), None);
        }
    }
    for body in ROUTES.iter().filter_map(|route| route.body.as_ref()) {
        let schema = &schemas[body.schema];
        let examples =
            schema["examples"].as_array().unwrap_or_else(|| panic!("{} has no example", body.schema));
        for example in examples {
            (body.accepts)(example.to_string().as_bytes()).unwrap_or_else(|refusal| panic!("{refusal}"));
            // Whatever the schema does not know is not taken, and what it knows is.
            let mut more = example.clone();
            more["unheard_of"] = json!(1);
            let refusal = (body.accepts)(more.to_string().as_bytes()).unwrap_err();
            for field in schema["properties"].as_object().unwrap().keys() {
                assert!(refusal.error.contains(&format!("`{field}`")), "{}.{field}: {refusal}", body.schema);
            }
            let known = refusal.error.matches('`').count() / 2 - 1;
            assert_eq!(known, schema["properties"].as_object().unwrap().len(), "{}: {refusal}", body.schema);
        }
    }
}

#[test]
fn keys_that_come_as_they_are_are_kept_sealed() {
    let testbed = Testbed::new();
    let (keys, host) = (format!("/v1/subsystems/{NQN}/host_keys/nqn.host:1"), "nqn.host:1");
    let secret = Secret::new(&[1; 32], None).unwrap().reveal().to_string();
    let psk = ConfiguredPsk::new(&[5; 32], None).unwrap().reveal().to_string();
    let kept = |name: &str| {
        testbed.target.config().subsystems[0].host_keys.first().map(|key| json!(key)[name].clone())
    };
    let body = json!({ "nqn": host, "key": { "dhchap_secret": secret, "dhchap_hash": ["sha512"] } });
    testbed.done("POST", &format!("/v1/subsystems/{NQN}/hosts"), &body);
    let first = kept("dhchap_secret_sealed").unwrap();
    assert!(first.is_string());
    testbed.done("PATCH", &keys, &json!({ "tls_key": psk }));
    assert_eq!(kept("dhchap_secret_sealed"), Some(first.clone()), "what is not named stays");
    assert_eq!(kept("dhchap_hash"), Some(json!(["sha512"])));
    testbed.done(
        "PUT",
        &format!("/v1/subsystems/{NQN}/controller_key"),
        &json!({ "dhchap_ctrl_secret": secret }),
    );
    let shown = testbed.done("GET", "/v1/config", &Value::Null).to_string();
    assert!(shown.contains("dhchap_ctrl_secret_sealed") && shown.contains("tls_key_sealed"));
    for plain in [&secret, &psk] {
        assert!(
            !shown.contains(plain.as_str())
                && !format!("{:?}", testbed.target.config()).contains(plain.as_str())
        );
    }
    testbed.refused("PUT", &keys, &json!({ "tls_key": psk }).to_string());
    testbed.refused(
        "PUT",
        &keys,
        &json!({ "dhchap_secret": secret, "dhchap_secret_file": "/k", "tls_key": psk }).to_string(),
    );
    for nonsense in ["", "DHHC-1:00:x:", &psk] {
        let refused = testbed.refused("PATCH", &keys, &json!({ "dhchap_secret": nonsense }).to_string());
        assert_eq!((refused.status, refused.json["field"].as_str()), (422, Some("dhchap_secret")));
        assert!(nonsense.is_empty() || !refused.json.to_string().contains(nonsense), "{}", refused.json);
    }
    let refused = testbed.refused(
        "POST",
        &format!("/v1/subsystems/{NQN}/hosts"),
        r#"{"nqn": "nqn.b", "key": {"tls_key": "x"}}"#,
    );
    assert_eq!(refused.json["field"], "key.tls_key");
    // Each time, the secret is sealed with a new nonce.
    testbed.done("PATCH", &keys, &json!({ "dhchap_secret": secret }));
    assert_ne!(kept("dhchap_secret_sealed"), Some(first));
    testbed.done("PATCH", &keys, &json!({ "dhchap_secret": null }));
    assert_eq!(kept("dhchap_secret_sealed"), Some(Value::Null));
    testbed.done("PATCH", &keys, &json!({ "tls_key": null }));
    assert_eq!(kept("host"), None, "a host without keys has no entry");
    testbed.done("PUT", &keys, &json!({ "tls_key": psk }));
    testbed.done("DELETE", &format!("/v1/subsystems/{NQN}/hosts/{host}?with_key=true"), &Value::Null);
    assert_eq!(kept("host"), None);
}

#[test]
fn a_new_secret_takes_no_other_protection_from_its_host() {
    let (testbed, keys) = (Testbed::new(), format!("/v1/subsystems/{NQN}/host_keys/nqn.host:1"));
    let [secret, next] = [1, 2].map(|byte| Secret::new(&[byte; 32], None).unwrap().reveal().to_string());
    for (name, value) in [("dhchap_ctrl_secret", json!(secret)), ("tls_concat", json!(true))] {
        testbed.done("PUT", &keys, &json!({ "dhchap_secret": secret, name: value }));
        let refused = testbed.refused("PUT", &keys, &json!({ "dhchap_secret": next }).to_string());
        assert_eq!(refused.status, 409);
        assert!(refused.json["field"].as_str().is_some_and(|field| field.starts_with(name)));
        testbed.done("PUT", &keys, &json!({ "dhchap_secret": next, name: value }));
        testbed.done("DELETE", &keys, &Value::Null);
        testbed.done("PUT", &keys, &json!({ "dhchap_secret": next }));
    }
}

#[test]
fn a_change_that_cannot_be_kept_is_not_made() {
    let testbed = Testbed::with_state(true);
    let state = testbed.folder.path().join("state");
    let read = || std::fs::read_to_string(state.join("state.json")).unwrap();
    testbed.done("POST", "/v1/subsystems", &json!({ "nqn": "nqn.kept" }));
    let kept = read();
    assert!(kept.contains("nqn.kept"));
    // A folder of the new file's name stands in its way.
    std::fs::create_dir(state.join("state.json.new")).unwrap();
    let refused = testbed.refused("POST", "/v1/subsystems", r#"{"nqn": "nqn.lost"}"#);
    assert!(
        refused.status == 500 && refused.json.to_string().contains("nothing was changed"),
        "{}",
        refused.json
    );
    assert_eq!(read(), kept);
    std::fs::remove_dir(state.join("state.json.new")).unwrap();
    testbed.done("POST", "/v1/subsystems", &json!({ "nqn": "nqn.lost" }));
    assert!(read().contains("nqn.lost"));
}

#[test]
fn the_oldest_silent_connection_makes_room_for_one_that_comes() {
    let testbed = Testbed::new();
    let most = super::limits::CONNECTIONS_MAX + super::limits::CONNECTIONS_KEPT;
    let mut idle: Vec<_> = (0..most).map(|_| UnixStream::connect(testbed.socket()).unwrap()).collect();
    assert_eq!(testbed.ask("GET", "/v1/config", "").status, 200);
    let first = &mut idle[0];
    first.set_read_timeout(Some(patience())).unwrap();
    assert_eq!(first.read(&mut [0; 1]).unwrap_or(0), 0, "the first that came");
    assert_eq!(testbed.ask("GET", "/v1/config", "").status, 200);
}
