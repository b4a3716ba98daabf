//! `/v1/subsystems/{nqn}/namespaces`: namespaces as requests carry them, and changes of namespaces.
//! The target chooses identifiers that a request leaves out. Paths are absolute, since a daemon's
//! working directory means nothing to its clients. Images of Ceph clusters are in `images`.

pub(super) mod images;
pub(in crate::control) mod snapshot_set;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use engine::backend::{BackendConfig, RbdConfig};
use engine::limits::NAMESPACES_MAX;
use engine::target::{EarlyImages, FabricConfig, NamespaceConfig, SubsystemConfig, free_nsid};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use self::images::{CreateImageBody, Image};
use super::administration::Permissions;
use super::ask::{Answer, Ask, encode};
use super::patches::NamespacePatch;
use super::refusal::Refusal;
use super::subsystems::change;
use crate::spec::namespace;
use crate::spec::size::Size;

/// A namespace that is to be added, and what is said beside it.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceBody {
    config: NamespaceConfig,
    /// True if the request names an ANA group.
    is_grouped: bool,
    create_image: Option<CreateImageBody>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Namespaces {
    namespaces: Vec<NamespaceConfig>,
}

/// Place of a namespace in its subsystem.
fn position(subsystem: &SubsystemConfig, nsid: u32) -> Result<usize, Refusal> {
    let mut known = subsystem.namespaces.iter().map(|namespace| namespace.nsid);
    known.position(|known| known == nsid).ok_or_else(|| gone(subsystem, nsid))
}

fn gone(subsystem: &SubsystemConfig, nsid: u32) -> Refusal {
    const NAMED_MAX: usize = 8;
    let known = &subsystem.namespaces;
    let named: Vec<String> = known.iter().take(NAMED_MAX).map(|known| known.nsid.to_string()).collect();
    let named = match (named.len(), known.len() - named.len()) {
        (0, _) => "it has none".to_owned(),
        (_, 0) => format!("it has {}", named.join(", ")),
        (_, more) => format!("it has {} and {more} more", named.join(", ")),
    };
    Refusal::not_found(format!("{} has no namespace {nsid}; {named}", subsystem.nqn))
}

pub(super) fn list(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let fabric = ask.administration.shown();
    Answer::with(&Namespaces { namespaces: ask.subsystem(&fabric)?.namespaces.clone() })
}

pub(super) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(find(ask, &ask.administration.shown(), ask.number("nsid")?)?)
}

/// The namespace with this identifier in the subsystem that the path names.
pub(super) fn find<'a>(
    ask: &Ask<'_>,
    fabric: &'a FabricConfig,
    nsid: u32,
) -> Result<&'a NamespaceConfig, Refusal> {
    let subsystem = ask.subsystem(fabric)?;
    Ok(&subsystem.namespaces[position(subsystem, nsid)?])
}

/// The identifier for a new namespace.
pub(super) fn choose(subsystem: &SubsystemConfig, asked: Option<u32>) -> Result<u32, Refusal> {
    let taken: Vec<u32> = subsystem.namespaces.iter().map(|namespace| namespace.nsid).collect();
    let nsid = asked.unwrap_or_else(|| free_nsid(&taken));
    if taken.contains(&nsid) {
        return Err(Refusal::conflict(format!("namespace {nsid} already exists")).about("nsid"));
    }
    if asked.is_none() && nsid > NAMESPACES_MAX {
        return Err(Refusal::conflict(format!("all {NAMESPACES_MAX} namespaces already exist")));
    }
    Ok(nsid)
}

/// Adds a namespace, whose image is made first if that is asked for.
pub(super) fn add(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let mut body: NamespaceBody = ask.body()?;
    if let Some(membership) = ask.administration.membership() {
        let group = match body.location() {
            Some(location) => Some(membership.group_at(location, None)?),
            None => membership.group_with_fewest(),
        };
        body.prefer_group(group);
    }
    let nqn = ask.part("nqn");
    let add = |fabric: &mut FabricConfig| {
        let subsystem = ask.subsystem_mut(fabric)?;
        let config = body.clone().into_config(choose(subsystem, body.nsid())?)?;
        subsystem.namespaces.push(config.clone());
        Ok(config)
    };
    let prepared = if body.is_on_image() && ask.preview.is_none() {
        prepare_image(ask, &body, add)?
    } else {
        Prepared::Nothing
    };
    let changed = ask.change(Permissions::default(), add);
    let (config, _) = changed.inspect_err(|_| {
        if let Prepared::Made(image) = &prepared {
            image.undo();
        }
    })?;
    let location = format!("/v1/subsystems/{}/namespaces/{}", encode(nqn), config.nsid);
    Answer::created(location, find(ask, &ask.administration.shown(), config.nsid)?)
}

/// Image of a new namespace, held until the namespace is added or refused.
enum Prepared {
    Nothing,
    Made(Image),
    /// The image was there, and is open.
    Open {
        _early: EarlyImages,
    },
}

/// Makes the image of a namespace to come, or sees that it is there. Where the namespace could not be added anyway, no
/// cluster is asked.
fn prepare_image(
    ask: &Ask<'_>,
    body: &NamespaceBody,
    add: impl Fn(&mut FabricConfig) -> Result<NamespaceConfig, Refusal>,
) -> Result<Prepared, Refusal> {
    let mut planned = None;
    ask.rehearse(Permissions::default(), |fabric| {
        planned = Some(add(fabric)?);
        Ok(())
    })?;
    let Some(config) = planned else { return Ok(Prepared::Nothing) };
    let BackendConfig::Rbd(image) = &config.backend else { return Ok(Prepared::Nothing) };
    images::check_free(&ask.administration.fabric(), image)?;
    if let Some(create) = body.create_image() {
        create.check_pool(ask, image)?;
        let made = Image::make(ask.administration, image, create.size.0, &create.new_image())?;
        return Ok(Prepared::Made(made));
    }
    let early = images::look(ask.administration, ask.part("nqn"), &config)?;
    Ok(early.map_or(Prepared::Nothing, |early| Prepared::Open { _early: early }))
}

pub(super) fn patch(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let nsid = ask.number("nsid")?;
    let mut body: NamespacePatch = ask.body()?;
    let permissions = Permissions { shrink: body.shrink, ..Permissions::default() };
    // An image's size is its cluster's matter, which does not belong to what is served.
    let served = find(ask, &ask.administration.fabric(), nsid).cloned();
    let group = group_at(ask, &body, served.as_ref().ok())?;
    let resized = served.ok().filter(|config| matches!(config.backend, BackendConfig::Rbd(_)));
    let size = resized.as_ref().and_then(|_| body.size.take());
    let edit = |fabric: &mut FabricConfig| {
        let subsystem = ask.subsystem_mut(fabric)?;
        let at = position(subsystem, nsid)?;
        let namespace = &mut subsystem.namespaces[at];
        body.apply(namespace)?;
        namespace.ana_group = group.unwrap_or(namespace.ana_group);
        Ok(())
    };
    let about_body = |mut refusal: Refusal| {
        // The body is a namespace, and not the configuration that it stands in.
        refusal.field = refusal.field.and_then(|field| field.rsplit('.').next().map(str::to_owned));
        refusal
    };
    let task = match (&resized, size) {
        (Some(config), Some(Size(bytes))) => {
            // What else is asked for must not fail after this, which cannot be taken back.
            ask.rehearse(permissions, edit).map_err(about_body)?;
            match ask.preview {
                Some(_) => None,
                None => images::resize(ask, config, bytes, body.shrink)?,
            }
        }
        _ => None,
    };
    let changed = ask.change(permissions, edit);
    ask.beside_rehearsed(|| match (&resized, size) {
        (Some(config), Some(Size(bytes))) => images::resize_outlook(config, bytes, body.shrink),
        _ => Ok(Vec::new()),
    })?;
    changed.map_err(about_body)?;
    task.map_or_else(|| show(ask), |task| Answer::begun(&task))
}

/// The load-balancing group of gateways that a namespace goes to when it is to prefer a location, and no group is named.
fn group_at(
    ask: &Ask<'_>,
    patch: &NamespacePatch,
    served: Option<&NamespaceConfig>,
) -> Result<Option<u32>, Refusal> {
    let (Some(membership), Some(location)) = (ask.administration.membership(), patch.location()) else {
        return Ok(None);
    };
    let group = membership.group_at(location, served.map(|config| config.ana_group))?;
    Ok((!patch.is_grouped()).then_some(group))
}

/// Reopens a namespace's file or device after a failure.
pub(super) fn reopen(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let (nqn, nsid) = (ask.part("nqn"), ask.number("nsid")?);
    let config = find(ask, &ask.administration.fabric(), nsid)?.clone();
    ask.administration.reopen(nqn, nsid)?;
    Answer::with(&config)
}

/// Hosts that are registered on a namespace.
pub(super) fn reservations(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let nsid = ask.number("nsid")?;
    find(ask, &ask.administration.shown(), nsid)?;
    let unknown = || Refusal::conflict(format!("namespace {nsid} is not available here"));
    Answer::with(&ask.administration.reservations(ask.part("nqn"), nsid).ok_or_else(unknown)?)
}

/// Clears the registrations of a namespace, or of the host that the path names.
pub(super) fn clear_reservations(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let (nqn, nsid) = (ask.part("nqn"), ask.number("nsid")?);
    find(ask, &ask.administration.fabric(), nsid)?;
    let host = Some(ask.part("host")).filter(|host| !host.is_empty());
    let cleared = ask.administration.clear_reservations(nqn, nsid, host)?;
    match host {
        Some(host) if cleared.is_empty() => {
            Err(Refusal::not_found(format!("{host} is not registered on namespace {nsid}")))
        }
        _ => Ok(Answer::done()),
    }
}

/// Removes a namespace, and its image if that is asked for.
pub(super) fn remove(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let nsid = ask.number("nsid")?;
    let afterwards = images::afterwards(ask)?;
    let image = afterwards.map(|afterwards| images::removable(ask, afterwards)).transpose()?;
    change(ask, |subsystem| {
        let at = position(subsystem, nsid)?;
        let removed = subsystem.namespaces.remove(at);
        // Another administrator may have put another namespace in its place since it was looked up.
        match &image {
            Some(image) if !image.is_of(&removed) => Err(Refusal::changed()),
            _ => Ok(()),
        }
    })?;
    let task = match (image, afterwards) {
        (Some(image), Some(afterwards)) => images::remove(ask, image, afterwards)?,
        _ => None,
    };
    task.map_or_else(|| Ok(Answer::done()), |task| Answer::begun(&task))
}

/// The field of a body, as JSON is walked.
pub(super) fn field(base: &str, name: impl fmt::Display) -> String {
    if base.is_empty() { name.to_string() } else { format!("{base}.{name}") }
}

/// Checks a namespace. Mistakes name fields under `base`.
pub(super) fn check_namespace(namespace: &mut NamespaceConfig, base: &str) -> Result<(), Refusal> {
    if let Some((name, path)) = namespace::path_of(&mut namespace.backend) {
        check_path(path).map_err(|refusal| refusal.about(field(base, name)))?;
    }
    namespace::check(namespace).map_err(|(name, what)| Refusal::unprocessable(what).about(field(base, name)))
}

/// A path has to be from the root on.
pub(super) fn check_path(path: &Path) -> Result<(), Refusal> {
    if path.is_absolute() {
        return Ok(());
    }
    let what = format!("{} is not an absolute path", path.display());
    Err(Refusal::unprocessable(what).hint("the target's working directory is not yours; begin with /"))
}

impl NamespaceBody {
    /// The identifier it asks for.
    pub(super) fn nsid(&self) -> Option<u32> {
        Some(self.config.nsid).filter(|nsid| *nsid > 0)
    }

    /// Properties of the namespace's image, if the request has it created first.
    pub(super) fn create_image(&self) -> Option<&CreateImageBody> {
        self.create_image.as_ref()
    }

    /// True if the namespace is on an image of a Ceph cluster.
    pub(super) fn is_on_image(&self) -> bool {
        matches!(self.config.backend, BackendConfig::Rbd(_))
    }

    /// Refuses a request to create an image that cannot be created for this namespace.
    fn check_create(&self) -> Result<(), Refusal> {
        let Some(create) = &self.create_image else { return Ok(()) };
        let wrong = |what: &str| Err(Refusal::unprocessable(what).about("create_image"));
        match &self.config.backend {
            BackendConfig::Rbd(RbdConfig { encryption: Some(_), .. }) => wrong(
                "an image is encrypted by `rbd encryption format`; make it, do that, and leave this out",
            ),
            BackendConfig::Rbd(RbdConfig { snapshot: None, .. }) => {
                let mut config = self.config.clone();
                config.default_block_size();
                let checked = namespace::check_size(create.size.0, config.block_size);
                checked.map(drop).map_err(|what| Refusal::unprocessable(what).about("create_image.size"))
            }
            BackendConfig::Rbd(_) => wrong("a snapshot cannot be made like that; clone it"),
            _ => wrong("it goes with rbd only"),
        }
    }

    /// The location that it prefers.
    pub(super) fn location(&self) -> Option<&str> {
        self.config.location.as_deref()
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
        config.default_block_size();
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
        let mut seed = Some(seed);
        while let Some(key) = self.map.next_key_seed(Key { seed: &mut seed, is_grouped: self.is_grouped })? {
            if key.is_some() {
                return Ok(key);
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

/// Reads one name: a setting of the namespace by its seed, or `None` for a name that stands beside
/// the settings. An error names the field that is wrong.
struct Key<'a, K> {
    seed: &'a mut Option<K>,
    is_grouped: &'a mut bool,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'_, K> {
    type Value = Option<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name == CREATE_IMAGE {
            return Ok(None);
        }
        *self.is_grouped |= matches!(name.as_str(), "ana_group" | "load_balancing_group");
        let key = self.seed.take().map(|seed| seed.deserialize(name.into_deserializer())).transpose();
        // The one name that the namespace itself does not know.
        key.map_err(|error: D::Error| de::Error::custom(format!("{error}, `{CREATE_IMAGE}`")))
    }
}
