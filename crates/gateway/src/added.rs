//! By which number each namespace was added to what a group serves. One that was removed and is added again has another: so no
//! gateway takes the reservations of the former one for its own, however late it learns of both.

use std::collections::BTreeMap;

use engine::target::{FabricConfig, SubsystemConfig};
use serde::{Deserialize, Serialize};

use super::local_fabric::NamespaceKey;

/// The numbers, by subsystems and namespaces. Where none is written down, it is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Added(BTreeMap<String, BTreeMap<u32, u64>>);

impl Added {
    fn number(&self, nqn: &str, nsid: u32) -> u64 {
        self.0.get(nqn).and_then(|namespaces| namespaces.get(&nsid)).copied().unwrap_or_default()
    }

    /// The numbers of all namespaces of this configuration.
    pub(crate) fn of_all(&self, config: &FabricConfig) -> BTreeMap<NamespaceKey, u64> {
        let keys = config.subsystems.iter().flat_map(|subsystem| {
            subsystem.namespaces.iter().map(|namespace| (subsystem.nqn.clone(), namespace.nsid))
        });
        keys.map(|(nqn, nsid)| ((nqn.clone(), nsid), self.number(&nqn, nsid))).collect()
    }

    /// The numbers after a change of the configuration: those that come with it have the next of `numbers`.
    pub(crate) fn after(
        &self,
        before: &FabricConfig,
        after: &FabricConfig,
        mut numbers: impl FnMut() -> u64,
    ) -> Self {
        let mut added = Self::default();
        for subsystem in &after.subsystems {
            let known = before.subsystem(&subsystem.nqn).map(SubsystemConfig::by_nsid).unwrap_or_default();
            for namespace in &subsystem.namespaces {
                let known = known.get(&namespace.nsid);
                let is_known = known.is_some_and(|known| known.backend.is_same_place(&namespace.backend));
                let number = if is_known { self.number(&subsystem.nqn, namespace.nsid) } else { numbers() };
                if number != 0 {
                    added.0.entry(subsystem.nqn.clone()).or_default().insert(namespace.nsid, number);
                }
            }
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use engine::backend::{BackendConfig, RbdConfig};
    use engine::target::NamespaceConfig;

    use super::*;

    fn fabric(images: &[(u32, &str)]) -> FabricConfig {
        let namespace = |(nsid, image): &(u32, &str)| {
            let [pool, image] = ["rbd", image].map(str::to_owned);
            let image = RbdConfig {
                pool,
                namespace: String::new(),
                image,
                snapshot: None,
                conf: None,
                id: None,
                encryption: None,
            };
            NamespaceConfig::new(*nsid, BackendConfig::Rbd(image), 4096)
        };
        let namespaces = images.iter().map(namespace).collect();
        let subsystems = vec![SubsystemConfig::new("nqn.a", "A", "Selvedge").with(namespaces)];
        FabricConfig { subsystems, ..FabricConfig::default() }
    }

    #[test]
    fn a_namespace_that_is_added_again_has_another_number_and_one_that_stays_keeps_its_own() {
        let mut next = 6;
        let mut numbers = || {
            next += 1;
            next
        };
        let (none, one, both) = (fabric(&[]), fabric(&[(1, "x")]), fabric(&[(1, "x"), (2, "y")]));
        let first = Added::default().after(&none, &one, &mut numbers);
        assert_eq!(first.number("nqn.a", 1), 7);
        let second = first.after(&one, &both, &mut numbers);
        assert_eq!((second.number("nqn.a", 1), second.number("nqn.a", 2)), (7, 8));
        let removed = second.after(&both, &one, &mut numbers);
        assert_eq!(removed, first);
        assert_eq!(removed.of_all(&one), [(("nqn.a".to_owned(), 1), 7)].into());
        assert_eq!(removed.after(&one, &both, &mut numbers).number("nqn.a", 2), 9);
        let other_image = removed.after(&one, &fabric(&[(1, "z")]), &mut numbers);
        assert_eq!(other_image.number("nqn.a", 1), 10);
        // Of a group in a former format none is written down.
        assert_eq!(Added::default().after(&both, &both, &mut numbers), Added::default());
        assert_eq!(Added::default().of_all(&one), [(("nqn.a".to_owned(), 1), 0)].into());
    }
}
