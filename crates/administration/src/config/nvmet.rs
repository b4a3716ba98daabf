//! A configuration of the Linux kernel's target, as nvmetcli saves it, made into one of ours. What cannot be kept is
//! named with its place; whether the rest is wanted is for the caller to say.

mod device;
mod line_index;
mod port;
mod subsystem;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use engine::target::{FabricConfig, GroupState, ReferralConfig};
use nvme::discovery::Nqn;
use serde_json::{Map, Value};

use self::line_index::LineIndex;

/// Something to be said of a value, and where the value stands.
#[derive(Debug, PartialEq, Eq)]
pub struct Remark {
    line: usize,
    path: String,
    what: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.path, self.what)
    }
}

/// Result of an import.
#[derive(Debug)]
pub struct Imported {
    pub fabric: FabricConfig,
    /// Settings that are lost.
    pub losses: Vec<Remark>,
    /// Settings that are kept, and need a look nevertheless.
    pub warnings: Vec<Remark>,
}

/// Reads a saved configuration.
pub fn read(text: &str) -> Result<Imported, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
    let Value::Object(root) = root else {
        return Err("this is not what nvmetcli saves: no object".to_owned());
    };
    if is_of_spdk(&root) {
        return Err("this is a configuration of SPDK (save_config), which is not imported: write its namespaces, hosts and \
                    listeners into a target.toml"
            .to_owned());
    }
    if !["ports", "subsystems", "hosts"].iter().any(|name| root.contains_key(*name)) {
        return Err(
            "this is not what nvmetcli saves: it has neither ports nor subsystems nor hosts".to_owned()
        );
    }
    let lines = LineIndex::of(text);
    if let Some((line, path)) = lines.twice() {
        return Err(format!("line {line}: {path} is given twice"));
    }
    let mut reader = Reader::new(lines);
    let mut fabric = FabricConfig::default();
    reader.only(&root, "", &["discovery", "hosts", "ports", "subsystems"]);
    fabric.discovery_nqn = reader.discovery(&root);
    for (path, host) in reader.list(&root, "", "hosts") {
        reader.host(&path, &host);
    }
    for (path, port) in reader.list(&root, "", "ports") {
        reader.port(&path, &port, &mut fabric);
    }
    let subsystems = reader.list(&root, "", "subsystems");
    reader.known_subsystems(&subsystems);
    for (path, subsystem) in &subsystems {
        if let Some(subsystem) = reader.subsystem(path, subsystem) {
            fabric.subsystems.push(subsystem);
        }
    }
    reader.settle(&mut fabric);
    fabric.check().map_err(|error| error.to_string())?;
    let Reader { mut losses, mut warnings, .. } = reader;
    losses.sort_by_key(|loss| loss.line);
    warnings.sort_by_key(|warning| warning.line);
    Ok(Imported { fabric, losses, warnings })
}

/// True for SPDK's configuration, which has subsystems of its program, or for one of them.
fn is_of_spdk(root: &Object) -> bool {
    let is_part = |part: &Object| part.contains_key("subsystem") && part.contains_key("config");
    let parts = root.get("subsystems").and_then(Value::as_array);
    is_part(root) || parts.into_iter().flatten().filter_map(Value::as_object).any(is_part)
}

/// A port as far as subsystems want to know.
struct KnownPort {
    path: String,
    id: u16,
    /// The names of its subsystems, with their paths.
    subsystems: Vec<(String, String)>,
    ana: BTreeMap<u32, GroupState>,
}

impl KnownPort {
    fn has(&self, subsystem: &str) -> bool {
        self.subsystems.iter().any(|(_, name)| name == subsystem)
    }
}

/// A referral, and the ports on which the kernel announces it.
struct KnownReferral {
    path: String,
    config: ReferralConfig,
    ports: BTreeSet<u16>,
}

struct Reader {
    lines: LineIndex,
    losses: Vec<Remark>,
    warnings: Vec<Remark>,
    /// Hosts by name; true if a host has keys.
    hosts: BTreeMap<String, bool>,
    ports: Vec<KnownPort>,
    referrals: Vec<KnownReferral>,
}

type Object = Map<String, Value>;

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A text, or a number as text: nvmetcli saves some of either as the other.
fn text(object: &Object, name: &str) -> Option<String> {
    match object.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(u8::from(*value).to_string()),
        _ => None,
    }
}

/// True if a value is not empty: empty texts, lists and tables are.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(|value| value.as_str() != Some("")),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

impl Reader {
    const fn new(lines: LineIndex) -> Self {
        Self {
            lines,
            losses: Vec::new(),
            warnings: Vec::new(),
            hosts: BTreeMap::new(),
            ports: Vec::new(),
            referrals: Vec::new(),
        }
    }

    fn remark(&self, path: &str, what: impl Into<String>) -> Remark {
        Remark { line: self.lines.at(path), path: path.to_owned(), what: what.into() }
    }

    fn lose(&mut self, path: &str, what: impl Into<String>) {
        self.losses.push(self.remark(path, what));
    }

    fn warn(&mut self, path: &str, what: impl Into<String>) {
        self.warnings.push(self.remark(path, what));
    }

    /// Names every field but these, unless it says nothing.
    fn only(&mut self, object: &Object, path: &str, known: &[&str]) {
        for (name, value) in object {
            if !known.contains(&name.as_str()) && says_something(value) {
                self.lose(&join(path, name), "there is nothing like it here");
            }
        }
    }

    /// Names a field whose value is none of these, and says whether it is one.
    fn expect(&mut self, object: &Object, path: &str, name: &str, accepted: &[&str], what: &str) -> bool {
        let value = match object.get(name) {
            None | Some(Value::Null) => return true,
            Some(value) => text(object, name).unwrap_or_else(|| value.to_string()),
        };
        let is_accepted = accepted.contains(&value.as_str());
        if !is_accepted {
            self.lose(&join(path, name), format!("`{value}`: {what}"));
        }
        is_accepted
    }

    /// The values of a list, with their paths.
    fn items(&mut self, object: &Object, path: &str, name: &str) -> Vec<(String, Value)> {
        let path = join(path, name);
        match object.get(name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                items.iter().enumerate().map(|(at, item)| (format!("{path}[{at}]"), item.clone())).collect()
            }
            Some(_) => {
                self.lose(&path, "it is not a list");
                Vec::new()
            }
        }
    }

    /// The objects of a list, with their paths.
    fn list(&mut self, object: &Object, path: &str, name: &str) -> Vec<(String, Object)> {
        let mut objects = Vec::new();
        for (path, item) in self.items(object, path, name) {
            match item {
                Value::Object(item) => objects.push((path, item)),
                _ => self.lose(&path, "it is not an object"),
            }
        }
        objects
    }

    /// The texts of a list, with their paths.
    fn names(&mut self, object: &Object, path: &str, name: &str) -> Vec<(String, String)> {
        let mut names = Vec::new();
        for (path, item) in self.items(object, path, name) {
            match item {
                Value::String(name) => names.push((path, name)),
                _ => self.lose(&path, "it is not a name"),
            }
        }
        names
    }

    fn object(&mut self, object: &Object, path: &str, name: &str) -> Object {
        match object.get(name) {
            Some(Value::Object(inner)) => inner.clone(),
            None | Some(Value::Null) => Object::new(),
            Some(_) => {
                self.lose(&join(path, name), "it is not an object");
                Object::new()
            }
        }
    }

    /// The name of the discovery subsystem, where it is not the one that every target has. nvmetcli saves it in any case.
    fn discovery(&mut self, root: &Object) -> Option<String> {
        let discovery = self.object(root, "", "discovery");
        self.only(&discovery, "discovery", &["nqn"]);
        let name = text(&discovery, "nqn").filter(|name| !name.trim().is_empty())?;
        match Nqn::configured(&name) {
            Ok(nqn) if nqn.is_discovery() => None,
            Ok(_) => Some(name),
            Err(error) => {
                self.lose("discovery.nqn", format!("`{name}`: {error}"));
                None
            }
        }
    }

    /// A host: its name stands in the lists of those that let it in; here are its keys.
    fn host(&mut self, path: &str, host: &Object) {
        let keys = ["key", "ctrl_key", "dhchap_key", "dhchap_ctrl_key"];
        // Hash and group are always there, and mean nothing without a key.
        let parameters = ["hash", "dhgroup", "dhchap_hash", "dhchap_dhgroup"];
        self.only(host, path, &[&["nqn", "dhchap"], &keys[..], &parameters[..]].concat());
        let dhchap_path = join(path, "dhchap");
        let dhchap = match host.get("dhchap") {
            Some(Value::Object(dhchap)) => dhchap.clone(),
            // Whatever it is, a host that has it is not let in.
            Some(other) => Object::from_iter([("key".to_owned(), other.clone())]),
            None => Object::new(),
        };
        self.only(&dhchap, &dhchap_path, &[&keys[..], &parameters[..]].concat());
        let mut has_keys = false;
        for (path, table) in [(path, host), (dhchap_path.as_str(), &dhchap)] {
            for key in keys {
                if table.get(key).is_some_and(says_something) {
                    has_keys = true;
                    self.lose(&join(path, key), "a secret is not taken over: give it by `selvedge host set-key` or a [[subsystem.host_key]]");
                }
            }
        }
        match text(host, "nqn") {
            Some(nqn) => *self.hosts.entry(nqn).or_default() |= has_keys,
            None => self.lose(&join(path, "nqn"), "a host without a name is none"),
        }
    }

    /// Names the subsystems of ports that the file says nothing else of.
    fn known_subsystems(&mut self, subsystems: &[(String, Object)]) {
        let known: BTreeSet<String> = subsystems.iter().filter_map(|(_, s)| text(s, "nqn")).collect();
        let listed = self.ports.iter().flat_map(|port| &port.subsystems);
        let missing: Vec<_> = listed.filter(|(_, name)| !known.contains(name)).cloned().collect();
        for (path, name) in missing {
            self.lose(&path, format!("`{name}`: there is no such subsystem in the file"));
        }
    }

    /// Leaves out ports on which nothing is left, and decides what only all ports tell together.
    fn settle(&mut self, fabric: &mut FabricConfig) {
        let used: BTreeSet<u16> = fabric.subsystems.iter().flat_map(|s| s.ports.iter().copied()).collect();
        let (kept, unused): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.ports).into_iter().partition(|port| used.contains(&port.id));
        for port in &unused {
            self.lose(&port.path, "none of its subsystems is taken over, and so it is not either");
        }
        self.ports = kept;
        fabric.ports.retain(|port| used.contains(&port.id));
        for subsystem in &mut fabric.subsystems {
            if subsystem.ports.len() == fabric.ports.len() {
                subsystem.ports.clear();
            }
        }
        for referral in std::mem::take(&mut self.referrals) {
            let on = referral.ports.intersection(&used).count();
            if on > 0 {
                if on < used.len() {
                    let what = format!("it is on {on} of {} ports; here every port announces it", used.len());
                    self.warn(&referral.path, what);
                }
                fabric.referrals.push(referral.config);
            }
        }
    }
}

#[cfg(test)]
mod tests;
