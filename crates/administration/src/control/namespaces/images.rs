//! Images of Ceph clusters below namespaces: made before a namespace is served and removed after it, resized, with snapshots
//! and clones. A cluster is asked before or after what is served is changed, and never meanwhile: it may take its time.

use std::time::{Duration, Instant};

use engine::backend::{BackendConfig, RbdConfig};
use engine::ceph::{self, CephError, Cluster, ClusterOptions, NewImage, Pool, Snapshot};
use engine::limits::CEPH_CONNECT_TIMEOUT_MS;
use engine::target::{EarlyImages, FabricConfig, NamespaceConfig, QosConfig, Visibility};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::administration::{Administration, Permissions};
use super::super::ask::{Answer, Ask, encode};
use super::super::limits::{CEPH_OPERATION_TIMEOUT_MS, IMAGE_RELEASE_TIMEOUT, TASK_PATIENCE};
use super::super::refusal::Refusal;
use super::super::tasks::{Outcome, Task};
use super::{check_path, choose, find};
use crate::spec::ceph::{check_image, image_path};
use crate::spec::namespace::check_size;
use crate::spec::size::Size;

/// Interval at which a removal checks again whether the image is still open elsewhere.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Error of a connection that the cluster has blocklisted (`ESHUTDOWN`).
const SHUT_OUT: i32 = libc::ESHUTDOWN;

/// An image within reach.
pub(in crate::control) struct Image {
    pool: Pool,
    config: RbdConfig,
}

/// Properties of an image that is created for a namespace.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateImage")]
pub(crate) struct CreateImageBody {
    pub(in crate::control) size: Size,
    #[serde(default)]
    features: Vec<String>,
    object_size: Option<Size>,
    data_pool: Option<String>,
}

/// A snapshot that is to be made.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSnapshot")]
pub(crate) struct SnapshotBody {
    pub(in crate::control) name: String,
}

/// A namespace on a clone that is to be made.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Clone")]
pub(crate) struct CloneBody {
    /// The snapshot; the namespace's own without it.
    pub(in crate::control) snapshot: Option<String>,
    /// The new image, in the same pool and namespace unless others are named.
    image: String,
    pool: Option<String>,
    namespace: Option<String>,
    #[serde(default)]
    features: Vec<String>,
    object_size: Option<Size>,
    data_pool: Option<String>,
    pub(in crate::control) nsid: Option<u32>,
    pub(in crate::control) uuid: Option<Uuid>,
    #[serde(alias = "load_balancing_group")]
    pub(in crate::control) ana_group: Option<u32>,
    #[serde(default)]
    pub(in crate::control) visible: Visibility,
    #[serde(default)]
    pub(in crate::control) qos: QosConfig,
}

/// A snapshot, as it is shown.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Snapshot")]
pub(in crate::control) struct ShownSnapshot {
    pub(in crate::control) name: String,
    pub(in crate::control) size: u64,
}

/// The snapshots of an image.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(in crate::control) struct Snapshots {
    pub(in crate::control) image: String,
    pub(in crate::control) snapshots: Vec<ShownSnapshot>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(in crate::control) struct Tasks {
    tasks: Vec<Task>,
}

/// Fate of the image of a namespace that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::control) enum Afterwards {
    Delete,
    Trash,
}

impl Image {
    /// Connects to the image's cluster, by a connection of its own.
    pub(in crate::control) fn reach(config: &RbdConfig) -> Result<Self, Refusal> {
        let options = ClusterOptions {
            conf: config.conf.clone(),
            id: config.id.clone(),
            operation_timeout_ms: CEPH_OPERATION_TIMEOUT_MS,
            ..ClusterOptions::default()
        };
        let pool = Pool::open(Cluster::connect(&options)?, &config.pool, &config.namespace)?;
        Ok(Self { pool, config: config.clone() })
    }

    /// The same by a connection that the target has already, if it has one: to make another takes longer than to look.
    fn near(administration: &Administration, config: &RbdConfig) -> Option<Self> {
        let pool = Pool::open(administration.image_connection(config)?, &config.pool, &config.namespace);
        Some(Self { pool: pool.ok()?, config: config.clone() })
    }

    fn name(&self) -> &str {
        &self.config.image
    }

    /// Bytes it has now, or had when the snapshot was made.
    pub(in crate::control) fn size(&self) -> Result<u64, Refusal> {
        let Some(encryption) = &self.config.encryption else { return self.whole_size() };
        let key = encryption.key().map_err(|error| Refusal::unprocessable(error.to_string()))?;
        let pool = Pool::open(self.pool.cluster().clone(), &self.config.pool, &self.config.namespace)?;
        let image = ceph::Image::open(pool, self.name(), self.config.snapshot.as_deref())?;
        image.decrypt(&key)?;
        Ok(image.size()?)
    }

    /// The same with the header of an encrypted one.
    fn whole_size(&self) -> Result<u64, Refusal> {
        Ok(self.pool.image_size(self.name(), self.config.snapshot.as_deref())?)
    }

    /// True if the namespace is on this image.
    pub(in crate::control) fn is_of(&self, namespace: &NamespaceConfig) -> bool {
        matches!(&namespace.backend, BackendConfig::Rbd(config) if *config == self.config)
    }

    /// Makes it, by a connection that the target has already if that is good for it: to make another takes longer than the image.
    pub(in crate::control) fn make(
        administration: &Administration,
        config: &RbdConfig,
        size: u64,
        new: &NewImage,
    ) -> Result<Self, Refusal> {
        if let Some(near) = Self::near(administration, config).filter(Self::is_bounded) {
            match near.pool.create_image(near.name(), size, new) {
                Ok(()) => return Ok(near),
                // A connection that is shut out says nothing of the image.
                Err(error) if error.code() == Some(SHUT_OUT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let reached = Self::reach(config)?;
        reached.pool.create_image(reached.name(), size, new)?;
        Ok(reached)
    }

    /// True if the operations of its connection have a time-out.
    fn is_bounded(&self) -> bool {
        self.pool.cluster().options().operation_timeout_ms > 0
    }

    /// Takes back that it was made. The target may have it open yet, and have lost the connection by which it was made.
    pub(in crate::control) fn undo(&self) {
        let removed = Self::reach(&self.config).and_then(|reached| reached.remove(Afterwards::Delete));
        if let Err(error) = removed {
            let image = image_path(&self.config);
            tracing::warn!(%error, image, "cannot remove an image that was created for a refused namespace");
        }
    }

    /// Refuses where removing it would be refused for what it is, and not for who has it open.
    fn check_removal(&self, afterwards: Afterwards) -> Result<(), Refusal> {
        let snapshots = self.pool.snapshots(self.name())?;
        if afterwards == Afterwards::Delete && !snapshots.is_empty() {
            return Err(CephError::HasSnapshots { image: image_path(&self.config) }.into());
        }
        Ok(())
    }

    /// Removes the image. If other clients have it open, waits up to `IMAGE_RELEASE_TIMEOUT` for
    /// them.
    fn remove(&self, afterwards: Afterwards) -> Result<(), Refusal> {
        let deadline = Instant::now() + IMAGE_RELEASE_TIMEOUT;
        loop {
            let outcome = match afterwards {
                Afterwards::Delete => self.pool.remove_image(self.name()),
                Afterwards::Trash => self.pool.trash_image(self.name()),
            };
            match outcome {
                Err(CephError::InUse { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(LOOK_INTERVAL);
                }
                outcome => return Ok(outcome?),
            }
        }
    }
}

/// The namespace that the path names, as it is served.
fn namespace(ask: &Ask<'_>) -> Result<NamespaceConfig, Refusal> {
    find(ask, &ask.administration.fabric(), ask.number("nsid")?).cloned()
}

/// The image that a namespace is on.
pub(super) fn image_of(namespace: &NamespaceConfig) -> Result<&RbdConfig, Refusal> {
    match &namespace.backend {
        BackendConfig::Rbd(image) => Ok(image),
        _ => Err(Refusal::conflict(format!("namespace {} is not on a Ceph image", namespace.nsid))),
    }
}

/// The same where the image is to be changed, which a snapshot cannot be.
pub(super) fn changeable(image: &RbdConfig) -> Result<&RbdConfig, Refusal> {
    if image.snapshot.is_none() {
        return Ok(image);
    }
    let what = format!("{} is a snapshot, which stays as it is", image_path(image));
    Err(Refusal::conflict(what).hint("clone it, and change the clone"))
}

/// Refuses an image for a namespace to come that another namespace of the same target is on: its lock could not be had a
/// second time.
pub(in crate::control) fn check_free(fabric: &FabricConfig, image: &RbdConfig) -> Result<(), Refusal> {
    match served_as(fabric, image) {
        Some(namespace) => Err(Refusal::conflict(format!("{} is {namespace} already", image_path(image)))),
        None => Ok(()),
    }
}

/// Opens the image of a new namespace before the change begins: an image that cannot be opened then
/// delays no other change. The image stays open as long as the value that this returns, and the
/// change uses it as it is.
pub(in crate::control) fn look(
    administration: &Administration,
    nqn: &str,
    config: &NamespaceConfig,
) -> Result<Option<EarlyImages>, Refusal> {
    let BackendConfig::Rbd(image) = &config.backend else { return Ok(None) };
    // Another cluster may be unreachable: waiting for it must not delay connections to the others.
    if administration.image_connection(image).is_some()
        && let Some(early) = administration.open_early(nqn, config)
    {
        early.wait(Duration::from_millis(CEPH_CONNECT_TIMEOUT_MS));
        if early.are_open() {
            return Ok(Some(early));
        }
        if !early.pending().is_empty() {
            let seconds = CEPH_CONNECT_TIMEOUT_MS / 1000;
            let what = format!("{} is not open within {seconds} s", image_path(image));
            return Err(Refusal::new(503, what).hint("see whether its cluster answers: ceph -s"));
        }
    }
    // What cannot be opened is looked at again, which tells why, or by the change.
    check(administration, config).map(|()| None)
}

/// The same without keeping it open.
fn check(administration: &Administration, config: &NamespaceConfig) -> Result<(), Refusal> {
    let BackendConfig::Rbd(image) = &config.backend else { return Ok(()) };
    // A connection that is shut out says nothing of the image.
    match Image::near(administration, image).map(|near| near.size()) {
        Some(Ok(_)) => Ok(()),
        _ => Image::reach(image)?.size().map(drop),
    }
}

/// The same of all namespaces that `wanted` has and `before` has not.
pub(in crate::control) fn check_new(
    administration: &Administration,
    before: &FabricConfig,
    wanted: &FabricConfig,
) -> Result<(), Refusal> {
    let mut namespaces = before.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    let served: Vec<&BackendConfig> = namespaces.by_ref().map(|namespace| &namespace.backend).collect();
    for (at, subsystem) in wanted.subsystems.iter().enumerate() {
        for (number, namespace) in subsystem.namespaces.iter().enumerate() {
            if !served.iter().any(|backend| backend.is_same_place(&namespace.backend)) {
                let field = format!("subsystems[{at}].namespaces[{number}].backend.rbd");
                check(administration, namespace).map_err(|refusal| refusal.about(field))?;
            }
        }
    }
    Ok(())
}

/// Gives the image below a namespace another size. Hosts learn of it as soon as the image reports it. The answer is a task where
/// that takes longer than a request may.
pub(in crate::control) fn resize(
    ask: &Ask<'_>,
    config: &NamespaceConfig,
    size: u64,
    shrink: bool,
) -> Result<Option<Task>, Refusal> {
    let (reached, before) = resizable(config, size, shrink)?;
    if size == before {
        return Ok(None);
    }
    // A new size is meant as hosts see it, without the header.
    let header = reached.whole_size()?.saturating_sub(before);
    let work = move || Ok(reached.pool.resize_image(reached.name(), size.saturating_add(header), shrink)?);
    run(ask, "resize", image_of(config)?, work)
}

/// Effects of another size of the image below a namespace, in words.
pub(in crate::control) fn resize_outlook(
    config: &NamespaceConfig,
    size: u64,
    shrink: bool,
) -> Result<Vec<String>, Refusal> {
    let (reached, before) = resizable(config, size, shrink)?;
    if size == before {
        return Ok(Vec::new());
    }
    let (image, before, after) = (image_path(&reached.config), Size(before), Size(size));
    let lost = if size < before.0 { "; data beyond its new end is lost" } else { "" };
    Ok(vec![format!("image {image} of namespace {}: size: {before} → {after}{lost}", config.nsid)])
}

/// The image below a namespace and its size as hosts see it, if it may have another size.
fn resizable(config: &NamespaceConfig, size: u64, shrink: bool) -> Result<(Image, u64), Refusal> {
    let image = changeable(image_of(config)?).map_err(|refusal| refusal.about("size"))?;
    check_size(size, config.block_size).map_err(|what| Refusal::unprocessable(what).about("size"))?;
    let reached = Image::reach(image)?;
    let before = reached.size()?;
    if size < before && !shrink {
        let (before, after) = (Size(before), Size(size));
        let what = format!("namespace {} would become smaller: {before} to {after}", config.nsid);
        let hint = "data beyond its new end is lost; if that is intended, set \"shrink\": true";
        return Err(Refusal::conflict(what).about("size").hint(hint));
    }
    Ok((reached, before))
}

/// Fate of the image of a namespace that is removed; `None` if the request does not say.
pub(in crate::control) fn afterwards(ask: &Ask<'_>) -> Result<Option<Afterwards>, Refusal> {
    match (ask.flag("delete_image")?, ask.flag("trash_image")?) {
        (false, false) => Ok(None),
        (true, false) => Ok(Some(Afterwards::Delete)),
        (false, true) => Ok(Some(Afterwards::Trash)),
        (true, true) => Err(Refusal::new(400, "an image is either deleted or moved to the trash")),
    }
}

/// The image of a namespace, if nothing known beforehand prevents its removal.
pub(in crate::control) fn removable(ask: &Ask<'_>, afterwards: Afterwards) -> Result<Image, Refusal> {
    let namespace = namespace(ask)?;
    let config = changeable(image_of(&namespace)?)?;
    ask.caller.check_image(config, &ask.administration.fabric())?;
    let image = Image::reach(config)?;
    image.check_removal(afterwards)?;
    Ok(image)
}

/// Refuses the pool for an image's data where its sender may not name it: data of an image is in the same namespace of each pool.
pub(in crate::control) fn check_data_pool(
    ask: &Ask<'_>,
    image: &RbdConfig,
    data_pool: Option<&str>,
) -> Result<(), Refusal> {
    let Some(pool) = data_pool else { return Ok(()) };
    let there = RbdConfig { pool: pool.to_owned(), ..image.clone() };
    ask.caller.check_image(&there, &ask.administration.fabric()).map_err(|refusal| refusal.about("data_pool"))
}

/// Removes the image of a namespace that is gone.
pub(in crate::control) fn remove(
    ask: &Ask<'_>,
    image: Image,
    afterwards: Afterwards,
) -> Result<Option<Task>, Refusal> {
    let (config, nsid) = (image.config.clone(), ask.part("nsid").to_owned());
    let path = image_path(&config);
    let work = move || {
        image.remove(afterwards).map_err(|refusal| Refusal {
            error: format!("namespace {nsid} is removed, but {path} stays: {}", refusal.error),
            ..refusal
        })
    };
    let what = if afterwards == Afterwards::Delete { "delete" } else { "move to the trash" };
    run(ask, what, &config, work)
}

/// Does what may take long, and waits for it for a while. The task is given to whom it takes too long.
fn run(
    ask: &Ask<'_>,
    what: &str,
    image: &RbdConfig,
    work: impl FnOnce() -> Result<(), Refusal> + Send + 'static,
) -> Result<Option<Task>, Refusal> {
    let tasks = ask.administration.tasks();
    let task = tasks.start(&ask.caller.identity, what, &image_path(image), move |_| work())?;
    match tasks.wait(task.id, TASK_PATIENCE) {
        Outcome::Done => Ok(None),
        Outcome::Failed(refusal) => Err(refusal),
        Outcome::Running(task) => Ok(Some(task)),
    }
}

pub(in crate::control) fn snapshots(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let namespace = namespace(ask)?;
    let image = image_of(&namespace)?;
    let snapshots = Image::reach(image)?.pool.snapshots(&image.image)?;
    let whole = RbdConfig { snapshot: None, ..image.clone() };
    let snapshots = snapshots.into_iter().map(ShownSnapshot::from).collect();
    Answer::with(&Snapshots { image: image_path(&whole), snapshots })
}

pub(in crate::control) fn snapshot(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let SnapshotBody { name } = ask.body()?;
    let namespace = namespace(ask)?;
    let image = changeable(image_of(&namespace)?)?;
    check_snapshot(image, &name, "name")?;
    let reached = Image::reach(image)?;
    reached.pool.create_snapshot(&image.image, &name)?;
    let size = reached.pool.image_size(&image.image, Some(&name))?;
    let path = format!("/v1/subsystems/{}/namespaces/{}", encode(ask.part("nqn")), namespace.nsid);
    Answer::created(format!("{path}/snapshots/{}", encode(&name)), &ShownSnapshot { name, size })
}

pub(in crate::control) fn remove_snapshot(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let namespace = namespace(ask)?;
    let image = image_of(&namespace)?;
    let name = ask.part("snapshot");
    check_snapshot(image, name, "snapshot")?;
    let served = RbdConfig { snapshot: Some(name.to_owned()), ..image.clone() };
    if let Some(namespace) = served_as(&ask.administration.fabric(), &served) {
        let what = format!("{} is {namespace}", image_path(&served));
        return Err(Refusal::conflict(what).hint("remove that first"));
    }
    Image::reach(image)?.pool.remove_snapshot(&image.image, name)?;
    Ok(Answer::done())
}

/// Name of the namespace that is on this image, such as "namespace 1 of nqn…".
fn served_as(fabric: &FabricConfig, image: &RbdConfig) -> Option<String> {
    let wanted = BackendConfig::Rbd(image.clone());
    fabric.subsystems.iter().find_map(|subsystem| {
        let mut namespaces = subsystem.namespaces.iter();
        let found = namespaces.find(|namespace| namespace.backend.is_same_place(&wanted))?;
        Some(format!("namespace {} of {}", found.nsid, subsystem.nqn))
    })
}

pub(super) fn check_snapshot(image: &RbdConfig, name: &str, field: &str) -> Result<(), Refusal> {
    let config = RbdConfig { snapshot: Some(name.to_owned()), ..image.clone() };
    check_image(&config).map_err(|(_, what)| Refusal::unprocessable(what).about(field))
}

/// Makes a clone of a namespace's image, and a namespace on it with blocks of the same size.
pub(in crate::control) fn clone(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let body: CloneBody = ask.body()?;
    let parent = namespace(ask)?;
    let image = image_of(&parent)?;
    let Some(snapshot) = body.snapshot.as_ref().or(image.snapshot.as_ref()) else {
        let refusal = Refusal::unprocessable("a clone is made of a snapshot, and none is named");
        return Err(refusal.about("snapshot").hint("make one first"));
    };
    check_snapshot(image, snapshot, "snapshot")?;
    let child = body.clone_of(image)?;
    check_data_pool(ask, &child, body.data_pool.as_deref())?;
    let nqn = ask.part("nqn");
    let add = |fabric: &mut FabricConfig| {
        let subsystem = ask.subsystem_mut(fabric)?;
        let nsid = choose(subsystem, body.nsid)?;
        let backend = BackendConfig::Rbd(child.clone());
        let config = NamespaceConfig {
            uuid: body.uuid,
            ana_group: body.ana_group.unwrap_or(parent.ana_group),
            visible: body.visible.clone(),
            qos: body.qos,
            location: parent.location.clone().filter(|_| body.ana_group.is_none()),
            ..NamespaceConfig::new(nsid, backend, parent.block_size)
        };
        subsystem.namespaces.push(config.clone());
        Ok(config)
    };
    ask.rehearse(Permissions::default(), |fabric| add(fabric).map(drop))?;
    let (from, to) = (Image::reach(image)?, Image::reach(&child)?);
    from.pool.clone_image(from.name(), snapshot, &to.pool, to.name(), &body.new_image())?;
    let (config, _) = ask.change(Permissions::default(), add).inspect_err(|_| to.undo())?;
    Answer::created(format!("/v1/subsystems/{}/namespaces/{}", encode(nqn), config.nsid), &config)
}

/// Begins to copy all into a clone that it shares with its parent.
pub(in crate::control) fn flatten(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let namespace = namespace(ask)?;
    let image = changeable(image_of(&namespace)?)?;
    let reached = Image::reach(image)?;
    reached.size()?;
    let (tasks, caller) = (ask.administration.tasks(), &ask.caller.identity);
    let task = tasks.start(caller, "flatten", &image_path(image), move |progress| {
        Ok(reached.pool.flatten_image(reached.name(), &|done, total| progress.tell(done, total))?)
    })?;
    // What cannot be done at all is refused as such.
    match tasks.wait(task.id, LOOK_INTERVAL) {
        Outcome::Failed(refusal) => Err(refusal),
        Outcome::Done | Outcome::Running(_) => Answer::begun(&task),
    }
}

pub(in crate::control) fn tasks(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&Tasks { tasks: ask.administration.tasks().list() })
}

pub(in crate::control) fn task(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let id = ask.number("id")?;
    let task = ask.administration.tasks().get(id);
    Answer::with(&task.ok_or_else(|| Refusal::not_found(format!("there is no task {id}")))?)
}

impl From<Snapshot> for ShownSnapshot {
    fn from(snapshot: Snapshot) -> Self {
        Self { name: snapshot.name, size: snapshot.size }
    }
}

impl CreateImageBody {
    /// Refuses a pool for its data that its sender may not name.
    pub(in crate::control) fn check_pool(&self, ask: &Ask<'_>, image: &RbdConfig) -> Result<(), Refusal> {
        check_data_pool(ask, image, self.data_pool.as_deref())
            .map_err(|refusal| refusal.about("create_image.data_pool"))
    }

    /// Properties of the image, without its size.
    pub(in crate::control) fn new_image(&self) -> NewImage {
        new_image(&self.features, self.object_size, self.data_pool.as_deref())
    }
}

impl CloneBody {
    /// The new image's name, beside `parent`'s.
    pub(in crate::control) fn clone_of(&self, parent: &RbdConfig) -> Result<RbdConfig, Refusal> {
        // A pool has namespaces of its own.
        let namespace = self.pool.as_ref().map_or(parent.namespace.clone(), |_| String::new());
        let config = RbdConfig {
            pool: self.pool.clone().unwrap_or_else(|| parent.pool.clone()),
            namespace: self.namespace.clone().unwrap_or(namespace),
            image: self.image.clone(),
            snapshot: None,
            ..parent.clone()
        };
        checked_image(config)
    }

    /// Properties of the clone.
    pub(in crate::control) fn new_image(&self) -> NewImage {
        new_image(&self.features, self.object_size, self.data_pool.as_deref())
    }
}

fn new_image(features: &[String], object_size: Option<Size>, data_pool: Option<&str>) -> NewImage {
    NewImage {
        features: features.to_vec(),
        object_size: object_size.map(|size| size.0),
        data_pool: data_pool.map(str::to_owned),
    }
}

/// An image whose names are names, and whose configuration file anybody finds.
fn checked_image(image: RbdConfig) -> Result<RbdConfig, Refusal> {
    check_image(&image).map_err(|(name, what)| Refusal::unprocessable(what).about(name))?;
    image.conf.as_deref().map_or(Ok(()), check_path).map_err(|refusal| refusal.about("conf"))?;
    Ok(image)
}
