//! What requests carry: the configuration's own structs, and what is to be different in one that is there. Numbers may be left to
//! us, and paths are from the root on, since the target's working directory is nobody's.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use engine::backend::{BackendConfig, RbdConfig};
use engine::target::{FabricConfig, GroupState, NamespaceConfig, SubsystemConfig};
use nvme::discovery::Nqn;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::image_bodies::CreateImageBody;
use super::refusal::Refusal;
use crate::spec::ceph::check_image;
use crate::spec::{paths, rules};

/// A name of a host or subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct Name(pub(crate) String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match Nqn::new(&name) {
            Ok(_) => Ok(Self(name)),
            Err(error) => Err(de::Error::custom(error)),
        }
    }
}

/// A namespace that is to be added, and what is said beside it.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceBody {
    config: NamespaceConfig,
    /// Whether it says its ANA group.
    is_grouped: bool,
    create_image: Option<CreateImageBody>,
}

/// A host that may use a subsystem.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Host")]
pub(crate) struct HostBody {
    pub(crate) nqn: Name,
}

/// The states of an ANA group.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AnaStates")]
pub(crate) struct AnaGroupBody {
    pub(crate) state: GroupState,
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, GroupState>")]
    pub(crate) ports: BTreeMap<u16, GroupState>,
}

/// The field of a body, as JSON is walked.
fn field(base: &str, name: impl fmt::Display) -> String {
    if base.is_empty() { name.to_string() } else { format!("{base}.{name}") }
}

/// Checks a whole configuration, before anything is opened.
pub(super) fn check_fabric(fabric: &mut FabricConfig) -> Result<(), Refusal> {
    for (at, subsystem) in fabric.subsystems.iter_mut().enumerate() {
        check_subsystem(subsystem, &format!("subsystems[{at}]"))?;
    }
    Ok(())
}

/// Checks a subsystem. Mistakes are told with fields under `base`.
pub(super) fn check_subsystem(subsystem: &mut SubsystemConfig, base: &str) -> Result<(), Refusal> {
    if let Some((name, path)) = paths::of_subsystem(subsystem) {
        check_path(path).map_err(|refusal| refusal.about(field(base, name)))?;
    }
    for (at, namespace) in subsystem.namespaces.iter_mut().enumerate() {
        check_namespace(namespace, &field(base, format!("namespaces[{at}]")))?;
    }
    Ok(())
}

fn check_namespace(namespace: &mut NamespaceConfig, base: &str) -> Result<(), Refusal> {
    if let Some((name, path)) = paths::of_backend(&mut namespace.backend) {
        check_path(path).map_err(|refusal| refusal.about(field(base, name)))?;
    }
    rules::check_namespace(namespace)
        .map_err(|(name, what)| Refusal::unprocessable(what).about(field(base, name)))
}

fn check_path(path: &Path) -> Result<(), Refusal> {
    if path.is_absolute() {
        return Ok(());
    }
    let what = format!("{} is not an absolute path", path.display());
    Err(Refusal::unprocessable(what).hint("the target's working directory is not yours; begin with /"))
}

/// An image whose names are names, and whose configuration file anybody finds.
pub(super) fn checked_image(image: RbdConfig) -> Result<RbdConfig, Refusal> {
    check_image(&image).map_err(|(name, what)| Refusal::unprocessable(what).about(name))?;
    image.conf.as_deref().map_or(Ok(()), check_path).map_err(|refusal| refusal.about("conf"))?;
    Ok(image)
}

impl NamespaceBody {
    /// The identifier it asks for.
    pub(super) fn nsid(&self) -> Option<u32> {
        Some(self.config.nsid).filter(|nsid| *nsid > 0)
    }

    /// What its image is to be like, if that is to be made first.
    pub(super) fn create_image(&self) -> Option<&CreateImageBody> {
        self.create_image.as_ref()
    }

    /// Whether it is on an image of a Ceph cluster.
    pub(super) fn is_on_image(&self) -> bool {
        matches!(self.config.backend, BackendConfig::Rbd(_))
    }

    /// Whether an image can be made for it, if one is to be made.
    fn check_create(&self) -> Result<(), Refusal> {
        let Some(create) = &self.create_image else { return Ok(()) };
        let wrong = |what: &str| Err(Refusal::unprocessable(what).about("create_image"));
        match &self.config.backend {
            BackendConfig::Rbd(RbdConfig { snapshot: None, .. }) => {
                let checked = rules::check_size(create.size.0, self.config.block_size);
                checked.map(drop).map_err(|what| Refusal::unprocessable(what).about("create_image.size"))
            }
            BackendConfig::Rbd(_) => wrong("a snapshot cannot be made like that; clone it"),
            _ => wrong("it goes with rbd only"),
        }
    }

    /// The ANA group it goes to when it asks for none.
    pub(super) fn prefer_group(&mut self, group: Option<u32>) {
        if let (false, Some(group)) = (self.is_grouped, group) {
            self.config.ana_group = group;
        }
    }

    /// The configuration it describes, with this identifier.
    pub(super) fn into_config(self, nsid: u32) -> Result<NamespaceConfig, Refusal> {
        self.check_create()?;
        let mut config = NamespaceConfig { nsid, ..self.config };
        check_namespace(&mut config, "")?;
        Ok(config)
    }
}

impl JsonSchema for NamespaceBody {
    fn schema_name() -> Cow<'static, str> {
        "AddNamespace".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = NamespaceConfig::json_schema(generator);
        let create_image = generator.subschema_for::<Option<CreateImageBody>>().to_value();
        if let Some(Value::Object(settings)) = schema.get_mut("properties") {
            settings.insert(CREATE_IMAGE.to_owned(), create_image);
        }
        schema
    }
}

impl<'de> Deserialize<'de> for NamespaceBody {
    /// As the namespace itself, with one setting more, which is only for making it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Body;
        impl<'de> Visitor<'de> for Body {
            type Value = NamespaceBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a namespace")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NamespaceBody, A::Error> {
                let (mut create_image, mut is_grouped) = (None, false);
                let beside = Beside { map, create_image: &mut create_image, is_grouped: &mut is_grouped };
                let config = NamespaceConfig::deserialize(MapAccessDeserializer::new(beside))?;
                Ok(NamespaceBody { config, is_grouped, create_image })
            }
        }
        deserializer.deserialize_map(Body)
    }
}

/// The name of what is said beside a namespace.
const CREATE_IMAGE: &str = "create_image";

/// A namespace's settings, without what is said beside them.
struct Beside<'a, A> {
    map: A,
    create_image: &'a mut Option<CreateImageBody>,
    is_grouped: &'a mut bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Beside<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.map.next_key::<String>()? {
            if name != CREATE_IMAGE {
                *self.is_grouped |= matches!(name.as_str(), "ana_group" | "load_balancing_group");
                let key = seed.deserialize(name.into_deserializer());
                // The one name that the namespace itself does not know.
                return key
                    .map(Some)
                    .map_err(|error: A::Error| de::Error::custom(format!("{error}, `{CREATE_IMAGE}`")));
            }
            if self.create_image.is_some() {
                return Err(de::Error::duplicate_field(CREATE_IMAGE));
            }
            *self.create_image = self.map.next_value()?;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
