//! Which namespaces hosts may reserve.

use super::Fabric;
use crate::target::served::Namespace;

impl Fabric {
    /// True if hosts may reserve this namespace. False where other gateways serve it too, and do
    /// not share its reservations.
    pub(crate) fn offers_reservations_on(&self, namespace: &Namespace) -> bool {
        self.offers_reservations()
            && (!self.clusters().are_images_shared() || namespace.shared_reservations().is_some())
    }
}
