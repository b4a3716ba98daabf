//! Flags of `namespace` for images of Ceph clusters, named as in ceph-nvmeof.

use std::path::PathBuf;

use clap::Args;
use engine::ceph::LuksFormat;
use engine::target::{Nguid, parse_uuid};
use uuid::Uuid;

use crate::spec::size::Size;

fn luks_format(text: &str) -> Result<LuksFormat, String> {
    match text {
        "luks1" => Ok(LuksFormat::Luks1),
        "luks2" => Ok(LuksFormat::Luks2),
        _ => Err(format!("`{text}` is neither luks1 nor luks2")),
    }
}

/// Image of a new namespace, as single options instead of a SPEC.
#[derive(Clone, Debug, Args)]
pub struct ImageFlags {
    /// Image in a Ceph cluster, instead of a SPEC
    #[arg(long, value_name = "NAME", help_heading = "Image")]
    pub rbd_image: Option<String>,
    /// Pool of the image [default: rbd]
    #[arg(long, value_name = "POOL", requires = "rbd_image", help_heading = "Image")]
    pub rbd_pool: Option<String>,
    /// Namespace in the pool
    #[arg(long, value_name = "NAME", requires = "rbd_image", help_heading = "Image")]
    pub rbd_namespace: Option<String>,
    /// Configuration file of the cluster, on the target's machine
    #[arg(long, value_name = "FILE", requires = "rbd_image", help_heading = "Image")]
    pub rbd_conf: Option<PathBuf>,
    /// User of the cluster, without client. [default: admin]
    #[arg(long, value_name = "NAME", requires = "rbd_image", help_heading = "Image")]
    pub rbd_id: Option<String>,
    /// LUKS format of the encrypted image, as `rbd encryption format` has written it
    #[arg(long, value_name = "luks1|luks2", requires = "encryption_passphrase_file", help_heading = "Image", value_parser = luks_format)]
    pub encryption_format: Option<LuksFormat>,
    /// File with the passphrase, on the target's machine; in a group, each gateway needs a copy
    #[arg(long, value_name = "FILE", requires = "encryption_format", help_heading = "Image")]
    pub encryption_passphrase_file: Option<PathBuf>,
    /// Block size, 512 or 4096 [default: 4096]
    #[arg(long, value_name = "SIZE", requires = "rbd_image", help_heading = "Image")]
    pub block_size: Option<Size>,
    /// Namespace ID [default: the lowest free one]
    #[arg(long, value_name = "N", requires = "rbd_image", help_heading = "Image")]
    pub nsid: Option<u32>,
    /// UUID of the namespace
    #[arg(long, value_name = "UUID", requires = "rbd_image", value_parser = parse_uuid, help_heading = "Image")]
    pub uuid: Option<Uuid>,
    /// NGUID of the namespace, 32 hexadecimal digits [default: the bytes of its UUID]
    #[arg(long, value_name = "NGUID", requires = "rbd_image", help_heading = "Image")]
    pub nguid: Option<Nguid>,
    /// Create the image first
    #[arg(long, requires = "size", help_heading = "Image")]
    pub rbd_create_image: bool,
    /// Size of the created image
    #[arg(long, value_name = "SIZE", requires = "rbd_create_image", help_heading = "Image")]
    pub size: Option<Size>,
    #[command(flatten)]
    pub new: NewImageFlags,
}

/// Properties of a new image; the others follow the cluster's configuration.
#[derive(Clone, Debug, Args)]
pub struct NewImageFlags {
    /// Separate pool for the data of the created image
    #[arg(long, value_name = "POOL", help_heading = "Image")]
    pub rbd_data_pool: Option<String>,
    /// Features of the created image, such as layering,exclusive-lock
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Image")]
    pub features: Vec<String>,
    /// Object size of the created image, a power of two from 4k to 32m
    #[arg(long, value_name = "SIZE", help_heading = "Image")]
    pub object_size: Option<Size>,
}

impl NewImageFlags {
    /// True if an option is set.
    pub fn is_given(&self) -> bool {
        self.rbd_data_pool.is_some() || !self.features.is_empty() || self.object_size.is_some()
    }
}

/// Fate of the image of a removed namespace.
#[derive(Clone, Copy, Debug, Args)]
pub struct RemovalFlags {
    /// Delete the image and all its data from the Ceph cluster, too
    #[arg(long)]
    pub delete_image: bool,
    /// Move the image to the pool's trash, from which `rbd trash restore` restores it
    #[arg(long, visible_alias = "rbd-trash-image-on-delete", conflicts_with = "delete_image")]
    pub rbd_trash_image: bool,
}

/// Image and namespace of a clone.
#[derive(Clone, Debug, Args)]
pub struct CloneFlags {
    /// Snapshot to clone [default: the snapshot of the namespace]
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Name of the new image
    #[arg(long, value_name = "NAME")]
    pub rbd_image: String,
    /// Pool of the new image [default: that of the cloned one]
    #[arg(long, value_name = "POOL")]
    pub rbd_pool: Option<String>,
    /// Namespace in the pool [default: that of the cloned image, or none in another pool]
    #[arg(long, value_name = "NAME")]
    pub rbd_namespace: Option<String>,
    /// Namespace ID of the new namespace [default: the lowest free one]
    #[arg(long, value_name = "N")]
    pub new_nsid: Option<u32>,
    /// UUID of the new namespace
    #[arg(long, value_name = "UUID", value_parser = parse_uuid)]
    pub uuid: Option<Uuid>,
    #[command(flatten)]
    pub new: NewImageFlags,
}
