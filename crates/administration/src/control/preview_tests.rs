//! Previews, beside the changes that they are of, and by whom they may be asked for.

use std::cell::RefCell;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use authentication::Secret;
use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target};
use secure_channel::ConfiguredPsk;
use serde_json::{Value, json};

use super::access::{Caller, Identity, Rights};
use super::administration::{Administration, Permissions};
use super::ask::{Answer, Ask};
use super::refusal::Refusal;
use super::routes::{ROUTES, Route};
use super::{preview, test_target};
use crate::spec::role::Role;

const MINE: &str = "nqn.2026-01.io.selvedge:mine";
const OTHER: &str = "nqn.2026-01.io.selvedge:other";

fn served() -> (Arc<Target>, Arc<Administration>) {
    let subsystem = |nqn| {
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        SubsystemConfig::new(nqn, "A", "Selvedge").with(vec![namespace])
    };
    let target = test_target::start(FabricConfig {
        ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
        subsystems: vec![subsystem(MINE), subsystem(OTHER)],
        ..FabricConfig::default()
    });
    let administration = Arc::new(Administration::new(target.clone(), None).unwrap());
    (target, administration)
}

fn caller(role: Role, subsystem: &str) -> Caller {
    let rights = Rights { role, subsystems: vec![subsystem.to_owned()], storage: None };
    Caller { identity: Identity::Unknown, rights, lists: Vec::new() }
}

/// Sends one request.
fn ask(
    administration: &Arc<Administration>,
    caller: &Caller,
    (method, path, body): (&str, &str, &str),
) -> Result<Answer, Refusal> {
    let found = |route: &'static Route| {
        Some((route, preview::planned(route.path, path).filter(|_| route.method == method)?))
    };
    let (route, planned) = ROUTES.iter().find_map(found).expect("a route");
    (route.handler)(&Ask {
        administration,
        caller,
        path: &planned.path,
        query: planned.query,
        body: body.as_bytes(),
        record: RefCell::default(),
        preview: None,
    })
}

/// Writes a secret into a new file.
fn write_secret(path: &Path, text: &str) {
    let mut made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    std::io::Write::write_all(&mut made, text.as_bytes()).unwrap();
}

fn previewed(
    administration: &Arc<Administration>,
    caller: &Caller,
    (method, path, body): (&str, &str, &Value),
) -> Result<Value, Refusal> {
    let mut planned = json!({ "method": method, "path": path });
    if !body.is_null() {
        planned["body"] = body.clone();
    }
    let answer = ask(administration, caller, ("POST", "/v1/preview", &planned.to_string()))?;
    Ok(answer.json.expect("it is shown"))
}

#[test]
fn a_preview_says_what_the_change_does_and_does_nothing() {
    let (target, administration) = served();
    let admin = caller(Role::Admin, "*");
    let (hosts, namespaces) =
        (format!("/v1/subsystems/{MINE}/hosts"), format!("/v1/subsystems/{MINE}/namespaces"));
    let changes = [
        ("POST", hosts.clone(), json!({ "nqn": "nqn.a:host" }), "allowed hosts"),
        ("DELETE", format!("{hosts}/nqn.a:host"), Value::Null, "allowed hosts"),
        (
            "POST",
            namespaces.clone(),
            json!({ "backend": { "memory": { "size": "1m" } } }),
            "namespace 2 is added",
        ),
        ("PATCH", format!("{namespaces}/2"), json!({ "qos": { "iops": 100 } }), "namespace 2"),
        ("DELETE", format!("{namespaces}/2"), Value::Null, "namespace 2 is removed"),
        (
            "PUT",
            format!("/v1/subsystems/{MINE}/ana-groups/1"),
            json!({ "state": "inaccessible" }),
            "ANA group 1",
        ),
        ("POST", "/v1/ports".to_owned(), json!({ "id": 7, "address": "127.0.0.1:0" }), "port 7 is added"),
        ("DELETE", "/v1/ports/7".to_owned(), Value::Null, "port 7 is removed"),
        (
            "POST",
            "/v1/referrals".to_owned(),
            json!({ "address": "10.0.0.1", "service": "8009" }),
            "referrals",
        ),
        ("DELETE", "/v1/referrals/10.0.0.1/8009".to_owned(), Value::Null, "referrals"),
        ("DELETE", format!("/v1/subsystems/{OTHER}"), Value::Null, "is removed"),
    ];
    for (method, path, body, word) in changes {
        let before = target.config();
        let shown = previewed(&administration, &admin, (method, &path, &body)).unwrap();
        assert_eq!(target.config(), before, "{method} {path} was made");
        assert!(shown["words"][0].as_str().unwrap().contains(word), "{method} {path}: {shown}");
        assert_eq!(shown["words"].as_array().unwrap().len(), shown["changes"].as_array().unwrap().len());
        let text = if body.is_null() { String::new() } else { body.to_string() };
        ask(&administration, &admin, (method, &path, &text)).unwrap();
        let after = target.config();
        let made = serde_json::to_value(before.changes_to(&after)).unwrap();
        assert_eq!(shown["changes"], made, "{method} {path}");
    }
}

#[test]
fn what_would_be_refused_is_and_what_has_no_preview_says_so() {
    let (target, administration) = served();
    let admin = caller(Role::Admin, "*");
    let before = target.config();
    let refused = |method: &str, path: &str, body: Value| {
        let refusal = previewed(&administration, &admin, (method, path, &body)).unwrap_err();
        assert_eq!(target.config(), before);
        (refusal.status, refusal.error)
    };
    let hosts = format!("/v1/subsystems/{MINE}/hosts");
    assert_eq!(refused("POST", "/v1/subsystems/nqn.none/hosts", json!({ "nqn": "nqn.a:host" })).0, 404);
    assert_eq!(refused("POST", &hosts, json!({ "nqn": "" })).0, 422);
    assert_eq!(refused("POST", &hosts, Value::Null).0, 400);
    assert_eq!(refused("DELETE", &format!("{hosts}/nqn.a:host"), Value::Null).0, 404);
    assert_eq!(refused("DELETE", &format!("{hosts}/nqn.a:host?other"), Value::Null).0, 400);
    assert_eq!(refused("DELETE", &format!("/v1/subsystems/{MINE}"), json!({})).0, 422);
    for (method, path) in [
        ("GET", "/v1/config"),
        ("PUT", "/v1/config"),
        ("POST", "/v1/preview"),
        ("DELETE", "/v1/controllers/1"),
        ("POST", "/nowhere"),
        ("post", &*hosts),
    ] {
        let (status, error) = refused(method, path, Value::Null);
        assert!(status == 422 && error.contains("no preview"), "{method} {path}: {status} {error}");
    }
}

#[test]
fn a_preview_of_keys_reads_their_files_and_keeps_nothing() {
    let (target, administration) = served();
    let admin = caller(Role::Admin, "*");
    let host = json!({ "nqn": "nqn.a:host" }).to_string();
    ask(&administration, &admin, ("POST", &format!("/v1/subsystems/{MINE}/hosts"), &host)).unwrap();
    let before = target.config();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.key");
    let path = format!("/v1/subsystems/{MINE}/host_keys/nqn.a:host");
    let put = |file: &Path| {
        let body = json!({ "dhchap_secret_file": file });
        previewed(&administration, &admin, ("PUT", &path, &body))
    };
    let refusal = put(&file).unwrap_err();
    assert_eq!((refusal.status, refusal.field.as_deref()), (422, Some("dhchap_secret_file")));
    let secret = Secret::new(&[1; 32], None).unwrap().reveal().to_string();
    write_secret(&file, &secret);
    let shown = put(&file).unwrap();
    let words = shown["words"].to_string();
    assert!(words.contains("new secret of host nqn.a:host") && words.contains("1 key"), "{words}");
    assert!(!shown.to_string().contains(&secret), "{shown}");
    let body = json!({ "dhchap_secret_file": file }).to_string();
    ask(&administration, &admin, ("PUT", &path, &body)).unwrap();
    // The content may be another one: the file is read again.
    let again = put(&file).unwrap();
    assert_eq!(
        (again["changes"].to_string(), again["words"].as_array().unwrap().len()),
        ("[]".to_owned(), 1)
    );
    let removed = previewed(&administration, &admin, ("DELETE", &path, &Value::Null)).unwrap();
    assert!(removed["words"].to_string().contains("secret for host nqn.a:host is removed"), "{removed}");
    ask(&administration, &admin, ("DELETE", &path, "")).unwrap();
    assert_eq!(target.config(), before);
}

#[test]
fn who_may_not_change_something_has_no_preview_of_it() {
    let (_target, administration) = served();
    let add = |caller: &Caller, nqn: &str| {
        let (path, body) = (format!("/v1/subsystems/{nqn}/hosts"), json!({ "nqn": "nqn.a:host" }));
        previewed(&administration, caller, ("POST", &path, &body)).map_err(|refusal| refusal.status)
    };
    let [read, operate, admin] = [Role::Read, Role::Operate, Role::Admin].map(|role| caller(role, MINE));
    assert_eq!((add(&read, MINE), add(&operate, OTHER)), (Err(403), Err(403)));
    assert!(add(&operate, MINE).is_ok() && add(&admin, MINE).is_ok());
    let path = format!("/v1/subsystems/{MINE}");
    let removed = |caller: &Caller| previewed(&administration, caller, ("DELETE", &path, &Value::Null));
    assert_eq!(removed(&operate).unwrap_err().status, 403);
    assert!(removed(&admin).is_ok());
}

#[test]
fn a_key_requires_no_tls_of_hosts_whom_its_sender_may_not_change() {
    let (_target, administration) = served();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    write_secret(&file, &ConfiguredPsk::new(&[1; 32], None).unwrap().reveal());
    let keys = format!("/v1/subsystems/{MINE}/host_keys/nqn.a:host");
    let body = json!({ "tls_key_file": file }).to_string();
    let put = |caller: &Caller| ask(&administration, caller, ("PUT", &keys, &body)).map(drop);
    let (mine, all) = (caller(Role::Operate, MINE), caller(Role::Operate, "*"));
    let refused = put(&mine).unwrap_err();
    assert!(refused.status == 403 && refused.error.contains(OTHER), "{refused}");
    put(&all).unwrap();
    // Hosts of both subsystems have to use TLS already.
    put(&mine).unwrap();
}

#[test]
fn a_file_of_one_subsystem_that_is_gone_stops_no_change_of_another() {
    let (target, administration) = served();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    write_secret(&file, &Secret::new(&[1; 32], None).unwrap().reveal());
    let [mine, other] = [MINE, OTHER].map(|nqn| caller(Role::Operate, nqn));
    let keys = format!("/v1/subsystems/{MINE}/host_keys/nqn.a:host");
    let body = json!({ "dhchap_secret_file": file }).to_string();
    let put = || ask(&administration, &mine, ("PUT", &keys, &body)).map(drop);
    put().unwrap();
    std::fs::remove_file(&file).unwrap();
    let namespace = format!("/v1/subsystems/{OTHER}/namespaces/1");
    ask(&administration, &other, ("PATCH", &namespace, "{\"qos\": {\"iops\": 500}}")).map(drop).unwrap();
    assert_eq!(target.config().subsystems[1].namespaces[0].qos.iops, Some(500));
    // Requests that may be about the file read it.
    assert_eq!(put().unwrap_err().status, 422);
    let (admin, config) = (caller(Role::Admin, "*"), json!(target.config()).to_string());
    let applied = ask(&administration, &admin, ("PUT", "/v1/config", &config)).map(drop);
    assert_eq!(applied.unwrap_err().status, 422);
}

#[test]
fn only_a_connected_host_that_may_not_return_keeps_its_connections() {
    let (target, administration) = served();
    let admin = caller(Role::Admin, "*");
    let subsystem = format!("/v1/subsystems/{MINE}");
    let make = |method: &str, path: &str, body: &str| {
        ask(&administration, &admin, (method, path, body)).map(drop).unwrap();
    };
    let kept = || target.config().subsystems[0].kept_hosts.clone();
    make("PATCH", &subsystem, "{\"allow_any_host\": false}");
    make("POST", &format!("{subsystem}/hosts"), "{\"nqn\": \"nqn.a:host\"}");
    make("DELETE", &format!("{subsystem}/hosts/nqn.a:host?keep_connections=true"), "");
    assert_eq!(kept(), [""; 0], "it has none");
    let keep = administration.change(Permissions::default(), |fabric| {
        fabric.subsystems[0].kept_hosts.push("nqn.a:host".to_owned());
        Ok(())
    });
    keep.map(drop).unwrap();
    assert_eq!(kept(), ["nqn.a:host"]);
    make("PATCH", &subsystem, "{\"allow_any_host\": true}");
    make("PATCH", &subsystem, "{\"allow_any_host\": false}");
    assert_eq!(kept(), [""; 0], "connections that it made in between end");
}
