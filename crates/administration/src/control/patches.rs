//! What is to be different in a namespace or subsystem that is there: some of its settings, by their names, as they are to be.
//! They are put into it as it is written, which is then read again: what a setting may be is said in one place.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};

use std::borrow::Cow;
use std::marker::PhantomData;

use engine::backend::BackendConfig;
use engine::target::{NamespaceConfig, SubsystemConfig};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value, json};

use super::ask::wrong_value;
use super::refusal::Refusal;
use crate::spec::namespace::check_size;
use crate::spec::size::Size;

/// Settings of an object that can be changed while it is served.
pub(crate) trait Patched: Serialize + DeserializeOwned + JsonSchema {
    /// The settings.
    const SETTINGS: &'static [&'static str];
    /// Settings that null removes; for the others null means no change.
    const OPTIONAL: &'static [&'static str];
    /// Fields of the request that are not settings of the object.
    const BESIDE: &'static [&'static str] = &[];
    /// Former names, with those of today.
    const FORMER: &'static [(&'static str, &'static str)] = &[];
}

impl Patched for NamespaceConfig {
    const SETTINGS: &'static [&'static str] = &[
        "ana_group",
        "visible",
        "qos",
        "write_protection",
        "host_write_protection",
        "owner",
        "write_delay_ms",
        "trash_image",
        "disable_auto_resize",
        "location",
    ];
    const OPTIONAL: &'static [&'static str] = &["qos", "owner", "location"];
    const BESIDE: &'static [&'static str] = &["size", "shrink"];
    const FORMER: &'static [(&'static str, &'static str)] = &[("load_balancing_group", "ana_group")];
}

impl Patched for SubsystemConfig {
    const SETTINGS: &'static [&'static str] = &[
        "serial",
        "model",
        "allow_any_host",
        "storage",
        "ports",
        "networks",
        "dhchap_dhgroup",
        "command_quiesce_ms",
        "command_quiesce",
        "io_queues_max",
    ];
    const OPTIONAL: &'static [&'static str] =
        &["storage", "command_quiesce_ms", "command_quiesce", "io_queues_max"];
}

/// Field of a request with settings as its sender has seen them.
const SEEN: &str = "seen";

/// Settings that are to be different.
#[derive(Clone, Debug)]
pub(crate) struct Patch<T> {
    settings: Map<String, Value>,
    /// Settings that the change is based on, as its sender has seen them.
    seen: Map<String, Value>,
    of: PhantomData<T>,
}

/// Changes of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct NamespacePatch {
    pub(super) size: Option<Size>,
    /// True if the size may be less than before.
    pub(crate) shrink: bool,
    patch: Patch<NamespaceConfig>,
}

impl<'de, T: Patched> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut body = Map::<String, Value>::deserialize(deserializer)?;
        let seen = body.remove(SEEN).map(Map::<String, Value>::deserialize).transpose();
        let wrong = |error: serde_json::Error| -> D::Error { de::Error::custom(format!("{SEEN}: {error}")) };
        let seen = seen.map_err(wrong)?.unwrap_or_default();
        if let Some(name) = seen.keys().find(|name| !T::SETTINGS.contains(&name.as_str())) {
            return Err(de::Error::custom(format!("{SEEN}: unknown field `{name}`")));
        }
        let mut settings = Map::new();
        for (name, value) in body {
            let former = T::FORMER.iter().find(|(former, _)| *former == name);
            let is_known = T::SETTINGS.contains(&&*name) || T::BESIDE.contains(&&*name);
            if former.is_none() && !is_known {
                let former = T::FORMER.iter().map(|(former, _)| former);
                let known: Vec<String> = T::SETTINGS
                    .iter()
                    .chain(T::BESIDE)
                    .chain(former)
                    .chain(&[SEEN])
                    .map(|name| format!("`{name}`"))
                    .collect();
                let what = format!("unknown field `{name}`, expected one of {}", known.join(", "));
                return Err(de::Error::custom(what));
            }
            let name = former.map_or(name, |(_, name)| (*name).to_owned());
            if settings.contains_key(&name) {
                return Err(de::Error::custom(format!("duplicate field `{name}`")));
            }
            settings.insert(name, value);
        }
        Ok(Self { settings, seen, of: PhantomData })
    }
}

impl<'de> Deserialize<'de> for NamespacePatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut patch = Patch::<NamespaceConfig>::deserialize(deserializer)?;
        let size = patch.settings.remove("size").map(Option::<Size>::deserialize);
        let shrink = patch.settings.remove("shrink").map(bool::deserialize);
        let wrong = |name: &str, error| de::Error::custom(format!("{name}: {error}"));
        Ok(Self {
            size: size.transpose().map_err(|error| wrong("size", error))?.flatten(),
            shrink: shrink.transpose().map_err(|error| wrong("shrink", error))?.unwrap_or_default(),
            patch,
        })
    }
}

impl<T: Patched> JsonSchema for Patch<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Patch", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let whole = T::json_schema(generator);
        let known = whole.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut settings = Map::new();
        for (name, mut setting) in known.into_iter().filter(|(name, _)| T::SETTINGS.contains(&&**name)) {
            // What is not given stays as it is.
            setting.as_object_mut().map(|setting| setting.remove("default"));
            if T::OPTIONAL.contains(&&*name) {
                setting = json!({ "anyOf": [setting, { "type": "null" }] });
            }
            settings.insert(name, setting);
        }
        let seen = "Settings as the client has seen them; where one is different now, the status is 409";
        settings.insert(SEEN.to_owned(), json!({ "type": "object", "description": seen }));
        json_schema!({ "type": "object", "additionalProperties": false, "properties": settings })
    }
}

impl JsonSchema for NamespacePatch {
    fn schema_name() -> Cow<'static, str> {
        Patch::<NamespaceConfig>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Patch::<NamespaceConfig>::json_schema(generator);
        let size = generator.subschema_for::<Size>().to_value();
        if let Some(Value::Object(settings)) = schema.get_mut("properties") {
            settings.insert("size".to_owned(), size);
            let shrink = "Allow a smaller size; data beyond the new end is lost";
            settings.insert("shrink".to_owned(), json!({ "type": "boolean", "description": shrink }));
        }
        schema
    }
}

impl<T: Patched> Patch<T> {
    /// Refuses a change of a configuration that is no longer as its sender has seen it.
    fn check_seen(&self, config: &T) -> Result<(), Refusal> {
        if self.seen.is_empty() {
            return Ok(());
        }
        let now = written(config)?;
        if self.seen.iter().all(|(name, seen)| is_as_seen(now.get(name), seen)) {
            return Ok(());
        }
        Err(Refusal::changed())
    }

    /// Changes `config` as it says.
    fn apply(&self, config: &mut T) -> Result<(), Refusal> {
        let mut written = written(config)?;
        for (name, value) in &self.settings {
            match value {
                Value::Null if T::OPTIONAL.contains(&&**name) => {
                    written.remove(name);
                }
                Value::Null => {}
                // Single limits are changed, and the others stay.
                Value::Object(limits) if name == "qos" => {
                    let known = written.entry(name).or_insert_with(|| Map::new().into());
                    if let Value::Object(known) = known {
                        known.extend(limits.clone());
                    }
                }
                value => drop(written.insert(name.clone(), value.clone())),
            }
        }
        *config = serde_path_to_error::deserialize(Value::Object(written)).map_err(|error| {
            let path = error.path().to_string();
            wrong_value(&path, &error.into_inner())
        })?;
        Ok(())
    }
}

/// A configuration as it is written.
fn written(config: &impl Serialize) -> Result<Map<String, Value>, Refusal> {
    match serde_json::to_value(config) {
        Ok(Value::Object(written)) => Ok(written),
        _ => Err(Refusal::new(500, "what is served cannot be written as JSON")),
    }
}

/// True if a setting is as it was seen. An empty list may be left out.
fn is_as_seen(now: Option<&Value>, seen: &Value) -> bool {
    match now {
        Some(now) => now == seen,
        None => seen.is_null() || seen.as_array().is_some_and(Vec::is_empty),
    }
}

impl NamespacePatch {
    /// The location that the namespace is to prefer, if it says one.
    pub(super) fn location(&self) -> Option<&str> {
        self.patch.settings.get("location")?.as_str()
    }

    /// True if it names an ANA group.
    pub(super) fn is_grouped(&self) -> bool {
        self.patch.settings.get("ana_group").is_some_and(|group| !group.is_null())
    }

    /// Changes `config` as it says.
    pub(super) fn apply(&self, config: &mut NamespaceConfig) -> Result<(), Refusal> {
        self.patch.check_seen(config)?;
        if let Some(Size(bytes)) = self.size {
            resize(config, bytes)?;
        }
        self.patch.apply(config)?;
        if self.patch.settings.get("write_protection").is_some_and(|level| !level.is_null()) {
            // What is said here is the operator's, also where it is what a host has set before.
            config.protected_by_host = false;
        }
        Ok(())
    }
}

fn resize(config: &mut NamespaceConfig, bytes: u64) -> Result<(), Refusal> {
    let bytes =
        check_size(bytes, config.block_size).map_err(|what| Refusal::unprocessable(what).about("size"))?;
    match &mut config.backend {
        BackendConfig::Memory { size } | BackendConfig::Null { size } => *size = bytes,
        BackendConfig::File { size, .. } => *size = Some(bytes),
        // Nothing is kept of it: the target looks at the device with every change, also with one that changes nothing.
        BackendConfig::Block { path } => {
            let device_bytes = File::open(&*path).and_then(|mut device| device.seek(SeekFrom::End(0)));
            let device_bytes = device_bytes
                .map_err(|error| Refusal::conflict(format!("{}: {error}", path.display())).about("size"))?;
            if device_bytes != bytes {
                let what = format!("{} has {device_bytes} bytes, not {bytes}", path.display());
                let hint = "resize the device first, and then say the size that it has";
                return Err(Refusal::conflict(what).about("size").hint(hint));
            }
        }
        BackendConfig::Rbd(_) => {
            // Its cluster is asked, before this, and has refused nothing.
            return Err(Refusal::new(500, "an image's size is not kept here").about("size"));
        }
    }
    Ok(())
}

/// Changes a subsystem as a patch says.
pub(super) fn patch_subsystem(
    patch: &Patch<SubsystemConfig>,
    config: &mut SubsystemConfig,
) -> Result<(), Refusal> {
    // Before settings are reset below, which may be among these.
    patch.check_seen(config)?;
    let quiesce = ["command_quiesce_ms", "command_quiesce"];
    if quiesce.iter().any(|name| patch.settings.contains_key(*name)) {
        // A time that is said takes the place of one that is measured, and the other way round.
        (config.command_quiesce_ms, config.command_quiesce) = Default::default();
    }
    patch.apply(config)?;
    super::subsystems::check_subsystem(config, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status of a change of a subsystem with a time of its own; 200 for success.
    fn status(body: Value) -> u16 {
        let mut config = SubsystemConfig::new("nqn.test:a", "A", "Selvedge");
        config.command_quiesce_ms = Some(5000);
        let Ok(patch) = serde_json::from_value::<Patch<SubsystemConfig>>(body) else { return 422 };
        patch_subsystem(&patch, &mut config).map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn a_change_based_on_other_settings_than_those_of_now_is_refused() {
        let ports = |seen: Value| status(json!({ "model": "B", "seen": { "ports": seen } }));
        assert_eq!([json!([]), Value::Null, json!([1])].map(ports), [200, 200, 409]);
        let time = |seen: Value| {
            status(json!({ "command_quiesce_ms": 7000, "seen": { "command_quiesce_ms": seen } }))
        };
        assert_eq!(
            [json!(5000), json!(4000), Value::Null].map(time),
            [200, 409, 409],
            "the one that changes"
        );
        assert_eq!(status(json!({ "seen": { "nqn": "nqn.test:a" } })), 422, "which never changes");
        assert_eq!(status(json!({ "seen": 7 })), 422);
    }

    #[test]
    fn a_namespace_seen_otherwise_stays_as_it_is() {
        let before = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        let size = |seen: Value| {
            let mut config = before.clone();
            let body = json!({ "size": "2m", "seen": { "visible": seen } });
            let applied = serde_json::from_value::<NamespacePatch>(body).unwrap().apply(&mut config);
            (applied.is_ok(), config.backend)
        };
        assert_eq!(size(json!({ "all_except": [] })), (true, BackendConfig::Memory { size: 2 << 20 }));
        assert_eq!(size(json!({ "only": [] })), (false, before.backend.clone()));
    }
}
