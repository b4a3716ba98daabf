//! States of a running target's namespaces, from its status, for the commands that show its
//! configuration.

use serde_json::Value;

use super::ask::items;
use crate::control::client::Client;
use crate::failure::Failure;
use crate::spec::size::Size;

/// Fields of a namespace's status beside its configuration.
const FIELDS: [&str; 9] = [
    "state",
    "reason",
    "size_bytes",
    "uuid",
    "nguid",
    "remarks",
    "may_tear",
    "oldest_operation_ms",
    "late_operations",
];

/// The status of a running target, for those who look for its namespaces.
pub(super) struct States(Value);

impl States {
    pub(super) fn of(client: &Client) -> Result<Self, Failure> {
        Ok(Self(client.get("/v1/status")?))
    }

    fn find(&self, nqn: &str, nsid: u32) -> Option<&Value> {
        let mut namespaces = items(&self.0, "namespaces").iter();
        namespaces.find(|known| known["subsystem"] == nqn && known["nsid"] == nsid)
    }

    /// A subsystem's Command Quiesce Time, and how long its storage has taken.
    pub(super) fn quiesce(&self, nqn: &str) -> Option<String> {
        items(&self.0, "subsystems").iter().find(|known| known["nqn"] == nqn).map(quiesce)
    }

    /// The state of a namespace in a word, and why it is not ready.
    pub(super) fn state(&self, nqn: &str, nsid: u32) -> (&str, Option<&str>) {
        let Some(known) = self.find(nqn, nsid) else { return ("-", None) };
        (known["state"].as_str().unwrap_or("-"), known["reason"].as_str())
    }

    /// Returns the size of a namespace; `None` while it is absent.
    pub(super) fn size(&self, nqn: &str, nsid: u32) -> Option<String> {
        Some(Size(self.find(nqn, nsid)?["size_bytes"].as_u64()?).to_string())
    }

    /// Returns a text field of a namespace's status.
    pub(super) fn text(&self, nqn: &str, nsid: u32, name: &str) -> Option<&str> {
        self.find(nqn, nsid)?[name].as_str()
    }

    /// Describes the effect of a power failure on a namespace's blocks.
    pub(super) fn at_power_loss(&self, nqn: &str, nsid: u32) -> &'static str {
        match self.find(nqn, nsid).and_then(|known| known["may_tear"].as_bool()) {
            Some(true) => "a block may have parts of two writes",
            Some(false) => "blocks stay whole",
            None => "-",
        }
    }

    /// Write protection of a namespace as hosts find it; not known from an older target.
    pub(super) fn is_write_protected(&self, nqn: &str, nsid: u32) -> Option<bool> {
        self.find(nqn, nsid)?["write_protected"].as_bool()
    }

    /// Remarks on a namespace's storage for the operator.
    pub(super) fn remarks(&self, nqn: &str, nsid: u32) -> Vec<&str> {
        let known = self.find(nqn, nsid);
        known
            .map_or_else(Vec::new, |known| items(known, "remarks").iter().filter_map(Value::as_str).collect())
    }

    /// Adds to each of a subsystem's namespaces how it is.
    pub(super) fn add_to(&self, nqn: &str, namespaces: &mut Value) {
        for namespace in namespaces.as_array_mut().into_iter().flatten() {
            let nsid = namespace["nsid"].as_u64().unwrap_or_default() as u32;
            let Some(known) = self.find(nqn, nsid) else { continue };
            for field in FIELDS {
                if let Some(value) = known.get(field) {
                    namespace[field] = value.clone();
                }
            }
        }
    }
}

fn quiesce(subsystem: &Value) -> String {
    let cell = |name: &str| subsystem[name].as_u64().unwrap_or_default();
    let measured = if subsystem["command_quiesce"] == "auto" { ", measured" } else { "" };
    let (reported, longest) = (cell("command_quiesce_ms"), cell("longest_operation_ms"));
    format!("{reported} ms{measured}; the longest operation at the storage took {longest} ms")
}

/// Returns the lines on storage: subsystems with their Command Quiesce Times, and namespaces in
/// trouble.
pub(super) fn storage(status: &Value) -> String {
    let mut text = String::new();
    for subsystem in items(status, "subsystems") {
        let nqn = subsystem["nqn"].as_str().unwrap_or("-");
        text += &format!("command quiesce time of {nqn}: {}\n", quiesce(subsystem));
    }
    for namespace in items(status, "namespaces") {
        let cell = |name: &str| namespace[name].as_str().unwrap_or("-");
        let (nsid, nqn) = (&namespace["nsid"], cell("subsystem"));
        if namespace["state"] != "ready" {
            text += &format!("namespace {nsid} of {nqn} is {}: {}\n", cell("state"), cell("reason"));
        }
        if namespace["late_operations"].as_u64().is_some_and(|late| late > 0) {
            let (late, oldest) = (&namespace["late_operations"], &namespace["oldest_operation_ms"]);
            text += &format!(
                "namespace {nsid} of {nqn}: {late} operations at the storage have exceeded the Command Quiesce Time; the oldest \
                 has taken {oldest} ms\n"
            );
        }
    }
    text
}
