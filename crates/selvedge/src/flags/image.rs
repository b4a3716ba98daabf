//! The flags of `namespace` that are about images of Ceph clusters, by ceph-nvmeof's words where it has some.

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

/// An image, part by part; the same as a SPEC.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageFlags {
    /// The image of a Ceph cluster, instead of a SPEC
    #[arg(long, value_name = "NAME", help_heading = "Image")]
    pub(crate) rbd_image: Option<String>,
    /// Its pool [default: rbd]
    #[arg(long, value_name = "POOL", requires = "rbd_image", help_heading = "Image")]
    pub(crate) rbd_pool: Option<String>,
    /// The namespace in the pool
    #[arg(long, value_name = "NAME", requires = "rbd_image", help_heading = "Image")]
    pub(crate) rbd_namespace: Option<String>,
    /// The cluster's configuration file, as the target finds it
    #[arg(long, value_name = "FILE", requires = "rbd_image", help_heading = "Image")]
    pub(crate) rbd_conf: Option<PathBuf>,
    /// The user of the cluster, without client. [default: admin]
    #[arg(long, value_name = "NAME", requires = "rbd_image", help_heading = "Image")]
    pub(crate) rbd_id: Option<String>,
    /// The image is encrypted with LUKS, in this format [rbd encryption format makes it so]
    #[arg(long, value_name = "luks1|luks2", requires = "encryption_passphrase_file", help_heading = "Image", value_parser = luks_format)]
    pub(crate) encryption_format: Option<LuksFormat>,
    /// The file with its passphrase, as the target finds it; in a group each gateway has a copy
    #[arg(long, value_name = "FILE", requires = "encryption_format", help_heading = "Image")]
    pub(crate) encryption_passphrase_file: Option<PathBuf>,
    /// Bytes of a block, 512 or 4096 [default: 4096]
    #[arg(long, value_name = "SIZE", requires = "rbd_image", help_heading = "Image")]
    pub(crate) block_size: Option<Size>,
    /// Identifier of the namespace [default: the lowest free one]
    #[arg(long, value_name = "N", requires = "rbd_image", help_heading = "Image")]
    pub(crate) nsid: Option<u32>,
    /// UUID of the namespace
    #[arg(long, value_name = "UUID", requires = "rbd_image", value_parser = parse_uuid, help_heading = "Image")]
    pub(crate) uuid: Option<Uuid>,
    /// NGUID of the namespace, 32 hexadecimal digits [default: the bytes of its UUID]
    #[arg(long, value_name = "NGUID", requires = "rbd_image", help_heading = "Image")]
    pub(crate) nguid: Option<Nguid>,
    /// Make the image first
    #[arg(long, requires = "size", help_heading = "Image")]
    pub(crate) rbd_create_image: bool,
    /// Size of the image that is made
    #[arg(long, value_name = "SIZE", requires = "rbd_create_image", help_heading = "Image")]
    pub(crate) size: Option<Size>,
    #[command(flatten)]
    pub(crate) new: NewImageFlags,
}

/// What a new image is like. What is not said is as the cluster's configuration has it.
#[derive(Clone, Debug, Args)]
pub(crate) struct NewImageFlags {
    /// Pool for the data of the image that is made, where that is another one
    #[arg(long, value_name = "POOL", help_heading = "Image")]
    pub(crate) rbd_data_pool: Option<String>,
    /// Features of the image that is made, such as layering,exclusive-lock
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Image")]
    pub(crate) features: Vec<String>,
    /// Size of its objects, a power of two from 4k to 32m
    #[arg(long, value_name = "SIZE", help_heading = "Image")]
    pub(crate) object_size: Option<Size>,
}

impl NewImageFlags {
    /// Whether any of them is there.
    pub(crate) fn is_given(&self) -> bool {
        self.rbd_data_pool.is_some() || !self.features.is_empty() || self.object_size.is_some()
    }
}

/// What becomes of the image of a namespace that is removed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct RemovalFlags {
    /// Remove its image from the Ceph cluster as well, and all that is in it
    #[arg(long)]
    pub(crate) delete_image: bool,
    /// Move its image to the pool's trash, from where `rbd trash restore` brings it back
    #[arg(long, visible_alias = "rbd-trash-image-on-delete", conflicts_with = "delete_image")]
    pub(crate) rbd_trash_image: bool,
}

/// A clone that is to be made.
#[derive(Clone, Debug, Args)]
pub(crate) struct CloneFlags {
    /// The snapshot that is cloned [default: the one that the namespace is on]
    #[arg(long, value_name = "NAME")]
    pub(crate) snapshot: Option<String>,
    /// The new image
    #[arg(long, value_name = "NAME")]
    pub(crate) rbd_image: String,
    /// Its pool [default: the same]
    #[arg(long, value_name = "POOL")]
    pub(crate) rbd_pool: Option<String>,
    /// The namespace in the pool [default: the same, or none in another pool]
    #[arg(long, value_name = "NAME")]
    pub(crate) rbd_namespace: Option<String>,
    /// Identifier of the new namespace [default: the lowest free one]
    #[arg(long, value_name = "N")]
    pub(crate) new_nsid: Option<u32>,
    /// UUID of the new namespace
    #[arg(long, value_name = "UUID", value_parser = parse_uuid)]
    pub(crate) uuid: Option<Uuid>,
    #[command(flatten)]
    pub(crate) new: NewImageFlags,
}
