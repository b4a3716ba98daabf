//! How the namespaces of a running target are, as its status says, for the commands that show what it serves.

use serde_json::Value;

use super::ask::items;
use crate::control::client::Client;
use crate::failure::Failure;

/// How a running target's namespaces are.
pub(super) struct States(Vec<Value>);

impl States {
    pub(super) fn of(client: &Client) -> Result<Self, Failure> {
        let status: Value = client.get("/v1/status")?;
        Ok(Self(items(&status, "namespaces").to_vec()))
    }

    fn find(&self, nqn: &str, nsid: u32) -> Option<&Value> {
        self.0.iter().find(|known| known["subsystem"] == nqn && known["nsid"] == nsid)
    }

    /// The state of a namespace in a word, and why it is not ready.
    pub(super) fn state(&self, nqn: &str, nsid: u32) -> (&str, Option<&str>) {
        let Some(known) = self.find(nqn, nsid) else { return ("-", None) };
        (known["state"].as_str().unwrap_or("-"), known["reason"].as_str())
    }

    /// What a power failure does to a namespace's blocks.
    pub(super) fn at_power_loss(&self, nqn: &str, nsid: u32) -> &'static str {
        match self.find(nqn, nsid).and_then(|known| known["may_tear"].as_bool()) {
            Some(true) => "a block may have parts of two writes",
            Some(false) => "blocks stay whole",
            None => "-",
        }
    }

    /// Adds to each of a subsystem's namespaces how it is.
    pub(super) fn add_to(&self, nqn: &str, namespaces: &mut Value) {
        for namespace in namespaces.as_array_mut().into_iter().flatten() {
            let nsid = namespace["nsid"].as_u64().unwrap_or_default() as u32;
            let Some(known) = self.find(nqn, nsid) else { continue };
            for field in ["state", "reason", "may_tear"] {
                if let Some(value) = known.get(field) {
                    namespace[field] = value.clone();
                }
            }
        }
    }
}

/// The namespaces that are not ready, a line each.
pub(super) fn troubles(status: &Value) -> String {
    let mut text = String::new();
    for namespace in items(status, "namespaces").iter().filter(|known| known["state"] != "ready") {
        let cell = |name: &str| namespace[name].as_str().unwrap_or("-");
        let (nsid, subsystem) = (&namespace["nsid"], cell("subsystem"));
        text += &format!("namespace {nsid} of {subsystem} is {}: {}\n", cell("state"), cell("reason"));
    }
    text
}
