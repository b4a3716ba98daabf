//! Which namespaces hosts may reserve.

use super::Fabric;
use crate::target::served::Namespace;

impl Fabric {
    /// True if hosts may reserve this namespace. False where others serve it too, and do not share
    /// its reservations; hosts that have registered before that was so may still release theirs.
    pub(crate) fn offers_reservations_on(&self, namespace: &Namespace) -> bool {
        let is_shared = match self.clusters().are_images_shared() {
            true => namespace.shared_reservations().is_none(),
            false => namespace.is_shared() && !namespace.has_registrants(),
        };
        self.offers_reservations() && !is_shared
    }
}
