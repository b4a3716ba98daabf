//! The control API of a real target under requests made from its own OpenAPI document: every answer is one that the
//! document has, nothing refused changes anything, and what was made is there. Files and addresses stay in a folder and
//! on the loopback, whatever an input says.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
use selvedge::edges::{self, InProcess, Reply};
use serde_json::Value;

use crate::schema;

const NQN: &str = "nqn.2026-01.io.selvedge:a";
/// Requests of one input.
const REQUESTS_MAX: usize = 10;
/// Address of an input's ports that are not to be free ones: no other program uses it.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 77, 0, 1));
/// Usual values of a path's variable parts.
const PARTS: [&str; 16] = [
    NQN,
    "nqn.2026-01.io.selvedge:b%2Fc",
    "nqn.2026-01.io.selvedge:example",
    "nqn.host:1",
    "nqn.2014-08.org.nvmexpress.discovery",
    "1",
    "2",
    "3",
    "0",
    "65536",
    "4294967296",
    "-1",
    "192.168.0.232",
    "8009",
    "%00",
    "%FF",
];

thread_local! {
    static TESTBED: RefCell<Option<Testbed>> = const { RefCell::new(None) };
}

/// Makes the requests of one input.
pub fn check(bytes: &[u8]) {
    TESTBED.with_borrow_mut(|testbed| {
        let found = testbed.take().filter(Testbed::reset).unwrap_or_else(Testbed::new);
        // An input that ends early has made its requests.
        let _ = found.run(&mut Unstructured::new(bytes));
        found.is_alive();
        *testbed = Some(found);
    });
}

/// Operation of the API, by its document.
struct Operation {
    method: String,
    path: String,
    flags: Vec<String>,
    body: Option<Value>,
    successes: Vec<Success>,
}

/// Successful response of an operation: at once, or as a task that goes on.
struct Success {
    status: u16,
    /// The schema of the answer, where it has one.
    shows: Option<Value>,
    is_json: bool,
}

impl Operation {
    fn all(document: &Value) -> Vec<Self> {
        let mut all = Vec::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                all.push(Self::new(path, method, operation));
            }
        }
        all
    }

    fn new(path: &str, method: &str, operation: &Value) -> Self {
        let schema = "/content/application~1json/schema";
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let flags = parameters.filter(|p| p["in"] == "query").filter_map(|p| p["name"].as_str());
        let responses = operation["responses"].as_object().expect("responses");
        let successes = responses.iter().filter(|(status, _)| *status != "default");
        Self {
            method: method.to_uppercase(),
            path: path.to_owned(),
            flags: flags.map(str::to_owned).collect(),
            body: operation.pointer(&format!("/requestBody{schema}")).cloned(),
            successes: successes
                .map(|(status, success)| Success {
                    status: status.parse().expect("a status"),
                    shows: success.pointer(schema).cloned(),
                    is_json: success.pointer("/content/application~1json").is_some(),
                })
                .collect(),
        }
    }
}

struct Testbed {
    folder: tempfile::TempDir,
    target: Arc<Target>,
    api: InProcess,
    document: Value,
    operations: Vec<Operation>,
    first: Vec<u8>,
}

impl Testbed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        let fabric = FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![SubsystemConfig::new(NQN, "A", "Selvedge").with(vec![namespace])],
            ..FabricConfig::default()
        };
        let target = Target::start(&TargetConfig {
            fabric,
            engine: Engine::Epoll,
            poll_us_max: 0,
            ..TargetConfig::default()
        });
        let target = Arc::new(target.expect("a target"));
        let document = edges::openapi().expect("the document is JSON");
        let first = serde_json::to_vec(&target.config()).expect("JSON");
        let api = InProcess::new(target.clone()).expect("a runtime");
        Self { operations: Operation::all(&document), folder, target, api, document, first }
    }

    /// Serves again what it served first; false where something was made that no request may undo.
    fn reset(&self) -> bool {
        if serde_json::to_vec(&self.target.config()).is_ok_and(|now| now == self.first) {
            return true;
        }
        let reply = self.api.ask("PUT", "/v1/config?shrink=true", &self.first).expect("an answer");
        assert!(matches!(reply.status, 200 | 400..500), "{reply:?}");
        reply.status == 200
    }

    fn is_alive(&self) {
        for path in ["/v1/status", "/metrics"] {
            assert_eq!(self.api.ask("GET", path, &[]).map(|reply| reply.status), Some(200), "{path}");
        }
        assert_eq!(self.target.status().reactors.len(), 1);
    }

    fn run(&self, input: &mut Unstructured<'_>) -> Result<()> {
        for _ in 0..input.int_in_range(1..=REQUESTS_MAX)? {
            let operation = input.choose(&self.operations)?;
            let path = self.path(operation, input)?;
            let query = query(operation, input)?;
            let body = self.body(operation, input)?;
            let method = if input.ratio(1, 40)? { "DELETE" } else { &operation.method };
            self.ask(operation, method, &path, &query, &body);
            if input.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn path(&self, operation: &Operation, input: &mut Unstructured<'_>) -> Result<String> {
        let mut path = String::new();
        for part in operation.path.split('/').skip(1) {
            path.push('/');
            if !part.starts_with('{') {
                path += part;
            } else if input.ratio(1, 12)? {
                let bytes: &[u8] = input.arbitrary()?;
                path.extend(bytes.iter().take(300).map(|byte| format!("%{byte:02x}")));
            } else if part == "{nqn}" && input.ratio(3, 4)? {
                path += NQN;
            } else {
                path += *input.choose(&PARTS)?;
            }
        }
        Ok(path)
    }

    fn body(&self, operation: &Operation, input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
        let raw = input.ratio(1, 20)?;
        let Some(schema) = operation.body.as_ref().filter(|_| !raw) else {
            if !raw {
                return Ok(Vec::new());
            }
            let bytes: &[u8] = input.arbitrary()?;
            // Bytes that are not JSON are refused whatever they name; JSON has to be checked for what it names.
            return Ok(match serde_json::from_slice(bytes) {
                Ok(value) => self.tame(value),
                Err(_) => bytes.to_vec(),
            });
        };
        Ok(self.tame(schema::make(&self.document, schema, input, 0)?))
    }

    /// The text of a body that names only files in the folder and addresses on the loopback.
    fn tame(&self, mut body: Value) -> Vec<u8> {
        tame(&mut body, "", self.folder.path());
        serde_json::to_vec(&body).expect("a value is JSON")
    }

    fn ask(&self, operation: &Operation, method: &str, path: &str, query: &str, body: &[u8]) {
        let before = self.target.config();
        let said = || format!("{method} {path}{query} {}", String::from_utf8_lossy(body));
        let Some(reply) = self.api.ask(method, &format!("{path}{query}"), body) else { return };
        let json: Option<Value> = serde_json::from_slice(&reply.body).ok();
        let after = self.target.config();
        after.check().unwrap_or_else(|error| panic!("{}: {error}", said()));
        if reply.status >= 400 {
            self.is_refusal(&reply, json.as_ref(), &said());
            assert_eq!(before, after, "a refused request changed something: {}", said());
            return;
        }
        if method == "GET" || query.contains("dry_run=true") {
            assert_eq!(before, after, "a question changed something: {}", said());
        }
        if method != operation.method {
            return;
        }
        let success = operation.successes.iter().find(|success| success.status == reply.status);
        let success = success.unwrap_or_else(|| panic!("{}: the document has no {}", said(), reply.status));
        assert_eq!(success.is_json, json.is_some(), "{}", said());
        if let (Some(schema), Some(json)) = (&success.shows, &json) {
            let mistake = schema::mistake(&self.document, schema, json, "answer");
            assert_eq!(mistake, None, "{}\n{json}", said());
        }
        self.is_there(operation, path, json.as_ref(), &said());
    }

    fn is_refusal(&self, reply: &Reply, json: Option<&Value>, said: &str) {
        // 507 says that there is no room for a memory or a state; everything else of its kind is a defect.
        assert!(reply.status < 500 || reply.status == 507, "{said}: {reply:?}");
        let schema = serde_json::json!({ "$ref": "#/components/schemas/Refusal" });
        let json = json.unwrap_or_else(|| panic!("{said}: {reply:?}"));
        assert_eq!(schema::mistake(&self.document, &schema, json, "refusal"), None, "{said}");
        assert_eq!(reply.kind.as_deref(), Some("application/json"));
    }

    /// Checks that a made or changed object is shown so, and that a removed one is gone.
    fn is_there(&self, operation: &Operation, path: &str, json: Option<&Value>, said: &str) {
        let has_get = self.operations.iter().any(|get| get.method == "GET" && get.path == operation.path);
        if !has_get || operation.path == "/v1/config" {
            return;
        }
        let shown = self.api.ask("GET", path, &[]).expect("a path that was answered");
        match operation.method.as_str() {
            "DELETE" => assert_eq!(shown.status, 404, "{said}"),
            "PATCH" | "PUT" => {
                let shown: Option<Value> = serde_json::from_slice(&shown.body).ok();
                assert_eq!(shown.as_ref(), json, "{said}");
            }
            _ => assert_eq!(shown.status, 200, "{said}"),
        }
    }
}

fn query(operation: &Operation, input: &mut Unstructured<'_>) -> Result<String> {
    let mut query = String::new();
    for flag in operation.flags.iter().map(String::as_str).chain(["other"]) {
        let value = match input.int_in_range(0..=15)? {
            0..8 => continue,
            8..15 if flag == "other" => continue,
            8..11 => "=true",
            11..14 => "=false",
            14 => "",
            _ => "=maybe",
        };
        query += if query.is_empty() { "?" } else { "&" };
        query += flag;
        query += value;
    }
    Ok(query)
}

fn tame(value: &mut Value, name: &str, folder: &Path) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| tame(value, name, folder)),
        Value::Array(items) => items.iter_mut().for_each(|item| tame(item, name, folder)),
        Value::String(text) => match name {
            "path" | "directory" | "dhchap_secret_file" | "dhchap_ctrl_secret_file" | "tls_key_file"
                if text.starts_with('/') =>
            {
                *text = folder.join(text.len().min(4).to_string()).display().to_string();
            }
            "address" => tame_address(text),
            // The kernel may load a module for a name that it does not know.
            "congestion" if text != "reno" => "cubic".clone_into(text),
            _ => {}
        },
        _ => {}
    }
}

fn tame_address(text: &mut String) {
    let Ok(address) = text.parse::<SocketAddr>() else { return };
    if address.port() != 0 {
        *text = SocketAddr::new(ADDRESS, address.port()).to_string();
    } else if !address.ip().is_loopback() {
        "127.0.0.1:0".clone_into(text);
    }
}
