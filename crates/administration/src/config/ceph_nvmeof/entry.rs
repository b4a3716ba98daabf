//! The entries of a group's state: the requests that its gateways have carried out, each as protobuf writes JSON.

use engine::ceph::Pairs;
use serde_json::{Map, Value};

use super::{Reader, Remark, VERSION_KEY};

/// A stored request, with its key.
pub(super) struct Entry {
    pub(super) key: String,
    /// Names in the key after its kind.
    about: String,
    fields: Map<String, Value>,
}

impl Entry {
    /// True if the key names this subsystem, or an object in it.
    pub(super) fn is_of(&self, nqn: &str) -> bool {
        self.within(nqn).is_some()
    }

    /// Name in the key after this subsystem's; empty for the subsystem itself, `None` for another.
    pub(super) fn within(&self, nqn: &str) -> Option<&str> {
        let rest = self.about.strip_prefix(nqn)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('_') }
    }
}

/// All entries, by their kinds.
#[derive(Default)]
pub(super) struct State {
    pub(super) subsystems: Vec<Entry>,
    pub(super) hosts: Vec<Entry>,
    pub(super) listeners: Vec<Entry>,
    pub(super) namespaces: Vec<Entry>,
    pub(super) limits: Vec<Entry>,
    pub(super) namespace_hosts: Vec<Entry>,
}

impl State {
    /// The list of a kind, and what the key says after it. Names of subsystems and hosts have no `_`.
    fn list(&mut self, key: &str) -> Option<(&mut Vec<Entry>, String)> {
        let (kind, about) = key.split_once('_')?;
        let about = about.to_owned();
        Some(match kind {
            "subsystem" => (&mut self.subsystems, about),
            "host" => (&mut self.hosts, about),
            "listener" => (&mut self.listeners, about),
            "namespace" => (&mut self.namespaces, about),
            "qos" => (&mut self.limits, about),
            "ns-host" => (&mut self.namespace_hosts, about),
            // As version 1.3 wrote it.
            "ns" => (&mut self.namespace_hosts, about.strip_prefix("host_")?.to_owned()),
            _ => return None,
        })
    }

    fn lists(&self) -> impl Iterator<Item = &Entry> {
        let lists = [&self.hosts, &self.listeners, &self.namespaces, &self.limits, &self.namespace_hosts];
        lists.into_iter().flatten()
    }
}

impl Reader<'_> {
    /// The entries of a state. Those of subsystems that are not in it are named and stay unused.
    pub(super) fn state(&mut self, pairs: &Pairs) -> State {
        let mut state = State::default();
        for (key, value) in pairs {
            // A request to refresh a size has no setting.
            if key == VERSION_KEY || key.starts_with("ns-refresh-size_") {
                continue;
            }
            let what = match (state.list(key), serde_json::from_slice(value)) {
                (Some((list, about)), Ok(Value::Object(fields))) => {
                    list.push(Entry { key: key.clone(), about, fields });
                    continue;
                }
                (Some(_), Ok(_)) => "its value is not a JSON object".to_owned(),
                (Some(_), Err(error)) => format!("its value is not JSON: {error}"),
                (None, _) if key.starts_with("bdev_") => {
                    "it is of a version before 1.0, which kept images apart from namespaces".to_owned()
                }
                (None, _) => "there is nothing like it here".to_owned(),
            };
            self.losses.push(Remark { key: key.clone(), what });
        }
        let is_alone = |entry: &&Entry| !state.subsystems.iter().any(|of| entry.is_of(&of.about));
        let alone = state.lists().filter(is_alone).map(|entry| entry.key.clone());
        let what = "the state does not have its subsystem";
        self.losses.extend(alone.map(|key| Remark { key, what: what.to_owned() }).collect::<Vec<_>>());
        state
    }

    /// A text, which is empty where there is none. `None` when it is something else, which is named.
    pub(super) fn text(&mut self, entry: &Entry, name: &str) -> Option<String> {
        match entry.fields.get(name) {
            None | Some(Value::Null) => Some(String::new()),
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => self.wrong(entry, name, "not a text"),
        }
    }

    /// A number, which is 0 where there is none. Those of 64 bits are texts.
    pub(super) fn number(&mut self, entry: &Entry, name: &str) -> Option<u64> {
        let number = match entry.fields.get(name) {
            None | Some(Value::Null) => Some(0),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_u64(),
        };
        number.or_else(|| self.wrong(entry, name, "not a number"))
    }

    /// Absolute value of a number whose sign is a mark.
    pub(super) fn magnitude(&mut self, entry: &Entry, name: &str) -> Option<u64> {
        let number = entry.fields.get(name).and_then(Value::as_i64);
        match number.filter(|number| *number < 0) {
            Some(number) => Some(number.unsigned_abs()),
            None => self.number(entry, name),
        }
    }

    pub(super) fn flag(&mut self, entry: &Entry, name: &str) -> Option<bool> {
        match entry.fields.get(name) {
            None | Some(Value::Null) => Some(false),
            Some(Value::Bool(flag)) => Some(*flag),
            Some(_) => self.wrong(entry, name, "neither true nor false"),
        }
    }

    /// A list of texts, which is empty where there is none.
    pub(super) fn texts(&mut self, entry: &Entry, name: &str) -> Vec<String> {
        let texts = match entry.fields.get(name) {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()
            }
            Some(_) => None,
        };
        texts.or_else(|| self.wrong(entry, name, "not a list of texts")).unwrap_or_default()
    }

    fn wrong<T>(&mut self, entry: &Entry, name: &str, what: &str) -> Option<T> {
        self.lose(entry, format!("{name} is {what}; omitted"));
        None
    }

    /// True if the field has a value that is not empty.
    pub(super) fn says(entry: &Entry, name: &str) -> bool {
        entry.fields.get(name).is_some_and(says_something)
    }

    /// Names every field but these, unless it says nothing.
    pub(super) fn only(&mut self, entry: &Entry, known: &[&str]) {
        for (name, value) in &entry.fields {
            if !known.contains(&name.as_str()) && says_something(value) {
                self.lose(entry, format!("{name}: there is nothing like it here"));
            }
        }
    }
}

/// True if a value is not empty: gateways also store fields that were never set.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty() && text != "0",
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}
