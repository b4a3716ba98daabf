//! Which namespaces hosts may reserve.

use super::Fabric;
use crate::target::served::Namespace;

impl Fabric {
    /// Whether hosts may reserve this namespace: not where other gateways serve it too, and have nowhere to learn of it.
    pub(crate) fn offers_reservations_on(&self, namespace: &Namespace) -> bool {
        self.offers_reservations()
            && (!self.clusters().are_images_shared() || namespace.shared_reservations().is_some())
    }
}
