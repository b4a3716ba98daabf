//! What requests about images of a Ceph cluster carry, and what they are answered with. What it means is checked where it
//! is put into effect.

use engine::backend::RbdConfig;
use engine::ceph::{NewImage, Snapshot};
use engine::target::{QosConfig, Visibility};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::bodies::checked_image;
use super::refusal::Refusal;
use crate::spec::size::Size;

/// What an image that is made for a namespace is to be like.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateImage")]
pub(crate) struct CreateImageBody {
    pub(super) size: Size,
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
    pub(super) name: String,
}

/// A namespace on a clone that is to be made.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Clone")]
pub(crate) struct CloneBody {
    /// The snapshot; the namespace's own without it.
    pub(super) snapshot: Option<String>,
    /// The new image, in the same pool and namespace unless others are named.
    image: String,
    pool: Option<String>,
    namespace: Option<String>,
    #[serde(default)]
    features: Vec<String>,
    object_size: Option<Size>,
    data_pool: Option<String>,
    pub(super) nsid: Option<u32>,
    pub(super) uuid: Option<Uuid>,
    #[serde(alias = "load_balancing_group")]
    pub(super) ana_group: Option<u32>,
    #[serde(default)]
    pub(super) visible: Visibility,
    #[serde(default)]
    pub(super) qos: QosConfig,
}

/// A snapshot, as it is shown.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Snapshot")]
pub(super) struct ShownSnapshot {
    pub(super) name: String,
    pub(super) size: u64,
}

/// The snapshots of an image.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Snapshots {
    pub(super) image: String,
    pub(super) snapshots: Vec<ShownSnapshot>,
}

impl From<Snapshot> for ShownSnapshot {
    fn from(snapshot: Snapshot) -> Self {
        Self { name: snapshot.name, size: snapshot.size }
    }
}

impl CreateImageBody {
    /// What it is to be like, beside its size.
    pub(super) fn new_image(&self) -> NewImage {
        new_image(&self.features, self.object_size, self.data_pool.as_deref())
    }
}

impl CloneBody {
    /// The new image's name, beside `parent`'s.
    pub(super) fn clone_of(&self, parent: &RbdConfig) -> Result<RbdConfig, Refusal> {
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

    /// What it is to be like.
    pub(super) fn new_image(&self) -> NewImage {
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
