//! Load-balancing groups of images, and images that may not leave theirs, since the owner might still use them.

use std::collections::{BTreeMap, BTreeSet};

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig};

use super::error::Refused;
use super::state::GroupState;

/// Pool, namespace and name of an image: two ways to its cluster lead to the same one.
type Image<'a> = (&'a str, &'a str, &'a str);

/// Image of a namespace, if it has one.
pub(super) fn image_of(namespace: &NamespaceConfig) -> Option<Image<'_>> {
    let BackendConfig::Rbd(image) = &namespace.backend else { return None };
    Some((&image.pool, &image.namespace, &image.image))
}

/// Load-balancing groups of each image.
pub(super) fn groups_of_images(config: &FabricConfig) -> BTreeMap<Image<'_>, BTreeSet<u32>> {
    let mut groups = BTreeMap::<_, BTreeSet<u32>>::new();
    for namespace in config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces) {
        if let Some(image) = image_of(namespace) {
            groups.entry(image).or_default().insert(namespace.ana_group);
        }
    }
    groups
}

/// Refusal of a change by which an image leaves a load-balancing group of another gateway that is not `well`.
///
/// A silent gateway may use its images until its connections are on the blocklist, and the fence is its groups': an image that is
/// in none of them by then could come to another group, whose owner would not wait for that.
pub(super) fn unreleased(
    base: &GroupState,
    wanted: &FabricConfig,
    hold: &BTreeSet<u32>,
    well: &BTreeSet<String>,
) -> Option<Refused> {
    let after = groups_of_images(wanted);
    base.config.subsystems.iter().find_map(|subsystem| {
        subsystem.namespaces.iter().find_map(|known| {
            let was = known.ana_group;
            let leaves = after.get(&image_of(known)?).is_none_or(|groups| !groups.contains(&was));
            let owner = base.groups.get(&was)?.owner.as_ref().filter(|owner| base.is_alive(owner))?;
            if !leaves || hold.contains(&was) || well.contains(&owner.gateway) {
                return None;
            }
            let (nsid, nqn, gateway) = (known.nsid, &subsystem.nqn, &owner.gateway);
            let what = format!(
                "namespace {nsid} of {nqn} is served by gateway {gateway}, which is silent and may have its image open"
            );
            Some(Refused::conflict(what).hint("ask again in a moment, when another gateway has taken over"))
        })
    })
}

#[cfg(test)]
mod tests {
    use engine::backend::RbdConfig;
    use engine::target::SubsystemConfig;

    use super::super::state::{Life, Owner};
    use super::*;

    fn fabric(images: &[(&str, u32)]) -> FabricConfig {
        let namespaces = images.iter().zip(1..).map(|((image, ana_group), nsid)| {
            let config = RbdConfig {
                pool: "rbd".to_owned(),
                namespace: String::new(),
                image: (*image).to_owned(),
                snapshot: None,
                conf: None,
                id: None,
                encryption: None,
            };
            let namespace = NamespaceConfig::new(nsid, BackendConfig::Rbd(config), 4096);
            NamespaceConfig { ana_group: *ana_group, ..namespace }
        });
        let subsystem = SubsystemConfig::new("nqn.a", "A", "Selvedge").with(namespaces.collect());
        FabricConfig { subsystems: vec![subsystem], ..FabricConfig::default() }
    }

    #[test]
    fn an_image_is_removed_from_the_group_of_a_gateway_that_is_well_and_of_no_silent_one() {
        let mut state = GroupState { config: fabric(&[("one", 1), ("two", 2)]), ..GroupState::default() };
        for gateway in ["a", "b"] {
            state.register(&Owner { gateway: gateway.to_owned(), epoch: 1 }, &[]).unwrap();
        }
        let own = BTreeSet::from([2]);
        let refused = |state: &GroupState, images: &[(&str, u32)], names: &[&str]| {
            let well = names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
            unreleased(state, &fabric(images), &own, &well).map(|refused| refused.to_string())
        };
        let silent = refused(&state, &[("two", 2)], &["b"]).expect("gateway a is silent");
        assert!(silent.contains("served by gateway a, which is silent"), "{silent}");
        assert_eq!(refused(&state, &[("two", 2)], &["a", "b"]), None, "it learns of the removal");
        assert_eq!(refused(&state, &[("one", 1)], &[]), None, "an image of this gateway");
        let added = [("one", 1), ("two", 2), ("three", 1)];
        assert_eq!(refused(&state, &added, &[]), None, "no image leaves");
        state.gateways.get_mut("a").unwrap().life = Life::Dead;
        assert_eq!(refused(&state, &[("two", 2)], &["b"]), None, "the fence decides then");
    }
}
