//! Operations of a target's connections that took too long, and so may be carried out yet, and
//! images that stay open because of them. Who shuts such connections out is decided elsewhere.

use std::any::Any;
use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::late_operations;

/// An image that stays open.
pub(super) type KeptImage = Box<dyn Any + Send>;

/// Late operations since all connections were forgotten last.
#[derive(Debug, Default)]
pub(super) struct LateImages {
    /// Operations that had taken too long before that.
    before: AtomicU64,
    /// Set while a gateway waits until nothing late can be carried out.
    awaits_fence: AtomicBool,
    /// Number of times that all connections were forgotten.
    generation: AtomicU64,
    /// Images that stay open, with the addresses of their connections. Those that are left at the
    /// end are not closed: the end of the process ends their connections.
    kept: Mutex<Vec<(String, ManuallyDrop<KeptImage>)>>,
}

impl LateImages {
    /// None of those that were late before now counts.
    pub(super) fn from_now_on() -> Self {
        Self { before: AtomicU64::new(late_operations()), ..Self::default() }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// True if an operation has taken too long, and may still be carried out. A gateway is asked to
    /// shut its connections out then.
    pub(super) fn has_late(&self) -> bool {
        let has_late = late_operations() != self.before.load(Ordering::Acquire);
        if has_late {
            self.awaits_fence.store(true, Ordering::Release);
        }
        has_late
    }

    pub(super) fn awaits_fence(&self) -> bool {
        self.awaits_fence.load(Ordering::Acquire)
    }

    /// Keeps an image of this generation open, and with it its lock, if a command on it may still
    /// be carried out: another owner's writes could be undone by that until the connection, which
    /// has this address, is shut out. Returns an image that can be closed.
    pub(super) fn keep<T: Send + 'static>(
        &self,
        generation: u64,
        address: impl FnOnce() -> String,
        image: T,
    ) -> Option<T> {
        let mut kept = self.kept();
        // Connections that were forgotten are shut out by who owns their gateway's groups.
        if generation != self.generation() || !self.has_late() {
            return Some(image);
        }
        let image: KeptImage = Box::new(image);
        kept.push((address(), ManuallyDrop::new(image)));
        None
    }

    /// Returns kept images that can be closed, since their connections are shut out.
    pub(super) fn shut_out(&self, addresses: &BTreeSet<String>) -> Vec<KeptImage> {
        let mut kept = self.kept();
        let (go, stay): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *kept).into_iter().partition(|(address, _)| addresses.contains(address));
        *kept = stay;
        go.into_iter().map(|(_, image)| ManuallyDrop::into_inner(image)).collect()
    }

    /// Forgets all connections.
    pub(super) fn forget(&self) {
        let _kept = self.kept();
        self.before.store(late_operations(), Ordering::Release);
        self.awaits_fence.store(false, Ordering::Release);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(String, ManuallyDrop<KeptImage>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::sync::Arc;

    use super::super::note_late_operation;
    use super::*;

    #[test]
    fn an_image_stays_open_after_late_commands_until_its_connections_are_shut_out() {
        let (images, image) = (LateImages::from_now_on(), Arc::new(()));
        let is_open = || Arc::strong_count(&image) > 1;
        let keep = |generation| images.keep(generation, || "a".to_owned(), image.clone());
        note_late_operation();
        assert!(keep(0).is_none() && images.awaits_fence() && is_open());
        assert!(keep(7).is_some(), "its connections were forgotten");
        images.forget();
        images.forget();
        assert!(!images.awaits_fence() && images.generation() == 2);
        let addresses = |address: &str| BTreeSet::from([address.to_owned()]);
        assert!(images.shut_out(&addresses("b")).is_empty() && is_open());
        assert_eq!(images.shut_out(&addresses("a")).len(), 1);
        assert!(!is_open());
    }
}
