//! Content of a cluster: objects with pairs, and images with a header and their blocks. Permission
//! to change it is not its concern.

use std::collections::{BTreeMap, BTreeSet};

use super::ClientId;
use crate::ring::Moment;
use crate::ring::simulated::disk::Effect;

/// Owner of the exclusive lock of an image, or of a watch: a connection, and the number of what it
/// has open.
pub(crate) type Locker = (ClientId, u64);

/// An object, by its pairs.
#[derive(Debug, Default)]
pub(crate) struct Object {
    pub(crate) pairs: BTreeMap<String, Vec<u8>>,
    pub(crate) watchers: BTreeSet<Locker>,
}

/// An image.
#[derive(Debug)]
pub(crate) struct StoredImage {
    pub(crate) content: Vec<u8>,
    pub(crate) object_size: u64,
    pub(crate) lock: Option<Locker>,
    pub(crate) watchers: BTreeSet<Locker>,
    pub(super) effects: Vec<Effect>,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<String, Object>,
    images: BTreeMap<String, StoredImage>,
    /// Set once something that others rely on has changed since the last check.
    pub(crate) has_changed: bool,
}

impl Store {
    pub(super) fn create_image(&mut self, name: &str, size: u64, object_size: u64) {
        let content = vec![0; size as usize];
        let (lock, watchers, effects) = (None, BTreeSet::new(), Vec::new());
        self.images.insert(name.to_owned(), StoredImage { content, object_size, lock, watchers, effects });
    }

    pub(crate) fn image(&self, name: &str) -> Option<&StoredImage> {
        self.images.get(name)
    }

    pub(crate) fn image_mut(&mut self, name: &str) -> Option<&mut StoredImage> {
        self.images.get_mut(name)
    }

    /// A client has no watch left.
    pub(super) fn forget_watches(&mut self, client: ClientId) {
        self.objects.values_mut().for_each(|object| object.watchers.retain(|watcher| watcher.0 != client));
        self.images.values_mut().for_each(|image| image.watchers.retain(|watcher| watcher.0 != client));
    }
}

impl StoredImage {
    /// Writes bytes, zeroes where there are none.
    pub(super) fn write(&mut self, at: Moment, offset: u64, data: Result<&[u8], u64>) {
        let length = data.map_or_else(|length| length, |data| data.len() as u64);
        let place = offset as usize..(offset + length) as usize;
        let Some(bytes) = self.content.get_mut(place) else { return };
        match data {
            Ok(data) => bytes.copy_from_slice(data),
            Err(_) => bytes.fill(0),
        }
        let mark =
            data.ok().and_then(|data| data.first_chunk()).map_or(0, |first| u64::from_le_bytes(*first));
        self.effects.push(Effect { at, offset, length, mark });
    }
}
