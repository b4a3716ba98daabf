//! What one gateway serves of what its group does: the shared configuration with its own ports and ANA states, and which
//! images stand by; and back, what of a gateway's configuration is all gateways'. It is data to data.

use std::collections::{BTreeMap, BTreeSet};

use engine::backend::BackendConfig;
use engine::target::{
    AnaGroupConfig, Directives, FabricConfig, GroupState as AnaState, NO_PORT, NamespaceConfig,
    NamespaceIdentities, PortConfig, ReferralConfig, SubsystemConfig,
};
use uuid::Uuid;

use super::elsewhere::elsewhere;
use super::error::Refused;
use super::format::WITH_RESERVATIONS;
use super::gateway_port::{port_numbers, reported_address};
use super::spec::check_name;
use super::state::{GroupState, Listener};

/// A namespace, by its subsystem and its identifier.
pub(crate) type NamespaceKey = (String, u32);

/// Configuration of one gateway's target, derived from the group's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalFabric<'a> {
    pub(crate) state: &'a GroupState,
    pub(crate) name: &'a str,
    pub(crate) ports: &'a [PortConfig],
    /// The load-balancing groups whose images it has for itself.
    pub(crate) hold: &'a BTreeSet<u32>,
    /// The held groups that it serves to its hosts.
    pub(crate) open: &'a BTreeSet<u32>,
    /// Namespaces that cannot be opened here now.
    pub(crate) left_out: &'a BTreeSet<NamespaceKey>,
    /// Number of the opening: with another number, images are reopened.
    pub(crate) opening: u64,
}

impl LocalFabric<'_> {
    /// The configuration.
    pub(crate) fn build(&self) -> FabricConfig {
        let mut fabric = FabricConfig { ports: self.ports.to_vec(), ..self.state.config.clone() };
        for subsystem in &mut fabric.subsystems {
            let nqn = subsystem.nqn.clone();
            subsystem.namespaces.retain(|namespace| !self.left_out.contains(&(nqn.clone(), namespace.nsid)));
            self.localize(subsystem);
        }
        fabric
    }

    fn localize(&self, subsystem: &mut SubsystemConfig) {
        let used = subsystem.namespaces.iter().map(|namespace| namespace.ana_group);
        let groups: BTreeSet<u32> = used.chain(self.state.groups.keys().copied()).collect();
        let config = |id| AnaGroupConfig { id, state: self.ana_state(id), ports: BTreeMap::new() };
        subsystem.ana_groups = groups.into_iter().map(config).collect();
    }

    /// Directives for the images of this configuration.
    pub(crate) fn directives(&self, fabric: &FabricConfig) -> Directives {
        let own = self.ports.iter().map(|port| port.id);
        Directives {
            standby: standby(fabric, self.hold),
            opening: self.opening,
            shares_subsystems: true,
            elsewhere: elsewhere(self.state, self.name, own),
            reservations: self.reservations(),
        }
    }

    /// Keys of reservations, for all namespaces of the group, also those left out here. None if
    /// hosts may not reserve.
    fn reservations(&self) -> Option<BTreeMap<NamespaceKey, u64>> {
        let knows = self.state.format >= WITH_RESERVATIONS;
        knows.then(|| self.state.added.of_all(&self.state.config))
    }

    fn ana_state(&self, group: u32) -> AnaState {
        if self.open.contains(&group) { AnaState::Optimized } else { AnaState::Inaccessible }
    }

    /// Referrals to the other gateways, taken from the group's state instead of the configuration.
    fn others(&self) -> Vec<ReferralConfig> {
        let others = self.state.gateways.iter().filter(|(name, _)| *name != self.name);
        let listeners = others.flat_map(|(_, gateway)| &gateway.listeners);
        let referral = |listener: &Listener| ReferralConfig {
            address: listener.address.clone(),
            service: listener.service.to_string(),
            nqn: None,
        };
        let mut referrals: Vec<ReferralConfig> = Vec::new();
        for referral in listeners.map(referral) {
            let is_known =
                referrals.iter().chain(&self.state.config.referrals).any(|known| *known == referral);
            if !is_known {
                referrals.push(referral);
            }
        }
        referrals
    }

    /// True if a gateway may have a port with this number, or none has.
    fn is_port(&self, id: u16) -> bool {
        id == NO_PORT
            || self.ports.iter().any(|port| port.id == id)
            || self.state.gateways.values().any(|gateway| port_numbers(gateway.number).contains(&id))
    }

    /// Part of `wanted`, a configuration of this gateway, that all gateways share.
    ///
    /// # Errors
    /// When it has something that cannot be served by several gateways.
    pub(crate) fn shared_part(&self, wanted: &FabricConfig) -> Result<FabricConfig, Refused> {
        let own = self.state.gateways.get(self.name).map(|gateway| port_numbers(gateway.number));
        let is_foreign = |port: &&PortConfig| own.as_ref().is_some_and(|own| !own.contains(&port.id));
        if let Some(port) = wanted.ports.iter().find(is_foreign) {
            let refused = Refused::conflict(format!("port number {} is another gateway's", port.id));
            return Err(refused.about("ports").hint("remove that port, and add it again without a number"));
        }
        let others = self.others();
        let mut shared = FabricConfig { ports: Vec::new(), ..wanted.clone() };
        shared.referrals.retain(|referral| !others.contains(referral));
        for (at, subsystem) in shared.subsystems.iter_mut().enumerate() {
            let field = |name: &str| format!("subsystems[{at}].{name}");
            if subsystem.storage.is_some() {
                return Err(for_one_only("a directory for hosts' namespaces").about(field("storage")));
            }
            if let Some(port) = subsystem.ports.iter().find(|port| !self.is_port(**port)) {
                let refused = Refused::unsupported(format!("no gateway has the port number {port}"));
                return Err(refused.about(field("ports")));
            }
            let is_ours =
                |group: &AnaGroupConfig| group.ports.is_empty() && group.state == self.ana_state(group.id);
            if let Some(number) = subsystem.ana_groups.iter().position(|group| !is_ours(group)) {
                let refused = Refused::conflict("ANA states follow from which gateway serves what");
                let refused = refused.about(field(&format!("ana_groups[{number}]")));
                return Err(refused.hint("leave them out"));
            }
            subsystem.ana_groups.clear();
            for (number, namespace) in subsystem.namespaces.iter().enumerate() {
                let field = |name: &str| field(&format!("namespaces[{number}].{name}"));
                if !matches!(namespace.backend, BackendConfig::Rbd(_) | BackendConfig::Null { .. }) {
                    let refused = for_one_only("a namespace that is not an image").about(field("backend"));
                    return Err(refused.hint("write rbd:POOL/IMAGE"));
                }
                if let Some(Err(error)) = namespace.location.as_deref().map(check_name) {
                    return Err(Refused::unsupported(error).about(field("location")));
                }
                if !self.state.groups.contains_key(&namespace.ana_group) {
                    let known: Vec<String> = self.state.groups.keys().map(ToString::to_string).collect();
                    let what = format!("no gateway has the load-balancing group {}", namespace.ana_group);
                    let refused = Refused::unsupported(what).about(field("ana_group"));
                    return Err(refused.hint(format!("there are {}", known.join(", "))));
                }
            }
        }
        Ok(shared)
    }
}

/// The images of a configuration that other gateways write to, where one has these load-balancing groups.
pub(super) fn standby(fabric: &FabricConfig, hold: &BTreeSet<u32>) -> BTreeSet<NamespaceKey> {
    let keys = fabric.subsystems.iter().flat_map(|subsystem| {
        let others = subsystem.namespaces.iter().filter(|n| can_stand_by(n) && !hold.contains(&n.ana_group));
        others.map(|namespace| (subsystem.nqn.clone(), namespace.nsid))
    });
    keys.collect()
}

/// True if the namespace has a single writer at a time, as Ceph images have.
const fn can_stand_by(namespace: &NamespaceConfig) -> bool {
    matches!(namespace.backend, BackendConfig::Rbd(_))
}

/// `shared` with the serial numbers and UUIDs by which the hosts of one gateway know what it leaves open, for all gateways to
/// tell: that one serves it as `served`, with these UUIDs.
pub(super) fn identified(
    shared: FabricConfig,
    served: &FabricConfig,
    identities: &NamespaceIdentities,
) -> FabricConfig {
    let mut shared = shared.recognized(served).with_identities(identities);
    for namespace in shared.subsystems.iter_mut().flat_map(|subsystem| &mut subsystem.namespaces) {
        // One that is not there has none yet, and must not get one from each gateway.
        namespace.uuid.get_or_insert_with(Uuid::new_v4);
    }
    shared
}

fn for_one_only(what: &str) -> Refused {
    Refused::unsupported(format!("{what} cannot be served by a group of gateways"))
}

/// Addresses of this gateway for its record in the group's state.
pub(super) fn listeners(ports: &[PortConfig]) -> Vec<Listener> {
    let listeners = ports.iter().filter_map(reported_address);
    listeners.map(|(address, service)| Listener { address, service }).collect()
}

#[cfg(test)]
mod tests {
    use engine::backend::RbdConfig;

    use super::super::state::{Listener, Owner};
    use super::*;

    fn image(name: &str) -> BackendConfig {
        BackendConfig::Rbd(RbdConfig {
            pool: "rbd".to_owned(),
            namespace: String::new(),
            image: name.to_owned(),
            snapshot: None,
            conf: None,
            id: None,
            encryption: None,
        })
    }

    fn state() -> GroupState {
        let mut state = GroupState::default();
        for (name, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2")] {
            let me = Owner { gateway: name.to_owned(), epoch: 1 };
            state.register(&me, &[Listener { address: address.to_owned(), service: 4420 }]).unwrap();
        }
        let namespaces = vec![
            NamespaceConfig::new(1, image("x"), 4096),
            NamespaceConfig { ana_group: 2, ..NamespaceConfig::new(2, image("y"), 4096) },
        ];
        state.config.subsystems.push(SubsystemConfig::new("nqn.test:a", "A", "Selvedge").with(namespaces));
        state
    }

    #[test]
    fn what_a_gateway_serves_leads_back_to_what_all_do() {
        let state = state();
        let ports = [PortConfig::new(1, ([127, 0, 0, 1], 4420).into())];
        let (hold, none) = (BTreeSet::from([2]), BTreeSet::new());
        let local = LocalFabric {
            state: &state,
            name: "a",
            ports: &ports,
            hold: &hold,
            open: &hold,
            left_out: &BTreeSet::new(),
            opening: 3,
        };
        let fabric = local.build();
        assert_eq!(fabric.check().map_err(|error| error.to_string()), Ok(()));
        let subsystem = &fabric.subsystems[0];
        let directives = local.directives(&fabric);
        assert_eq!(
            (directives.is_standby("nqn.test:a", 1), directives.is_standby("nqn.test:a", 2)),
            (true, false)
        );
        assert_eq!(directives.opening, 3);
        assert_eq!(subsystem.group_state(1, 1), AnaState::Inaccessible);
        assert_eq!(subsystem.group_state(2, 1), AnaState::Optimized);
        let other = &directives.elsewhere[0].port;
        assert_eq!((directives.elsewhere.len(), other.advertise.as_deref()), (1, Some("10.0.0.2")));
        assert_eq!(local.shared_part(&fabric), Ok(state.config.clone()));
        let suspended = LocalFabric { open: &none, ..local };
        assert!(!suspended.directives(&fabric).is_standby("nqn.test:a", 2), "its lock stays");
        let suspended = suspended.build();
        assert_eq!(suspended.subsystems[0].group_state(2, 1), AnaState::Inaccessible);
        let left_out = BTreeSet::from([("nqn.test:a".to_owned(), 1)]);
        assert_eq!(LocalFabric { left_out: &left_out, ..local }.build().subsystems[0].namespaces.len(), 1);
    }

    #[test]
    fn all_gateways_report_the_identities_that_one_was_given() {
        let mut shared = state().config;
        shared.subsystems[0].serial.clear();
        let served = FabricConfig {
            subsystems: vec![SubsystemConfig::new("nqn.test:a", "SLV1", "Selvedge")],
            ..FabricConfig::default()
        };
        let known = Uuid::from_u128(7);
        let identities = NamespaceIdentities::from([(("nqn.test:a".to_owned(), 1), known)]);
        let first = identified(shared, &served, &identities);
        assert_eq!(first.subsystems[0].serial, "SLV1");
        let uuids: Vec<_> = first.subsystems[0].namespaces.iter().map(|namespace| namespace.uuid).collect();
        assert_eq!(uuids[0], Some(known));
        assert!(uuids[1].is_some() && uuids[1] != uuids[0], "{uuids:?}");
        assert_eq!(identified(first.clone(), &served, &NamespaceIdentities::new()), first, "it stays");
    }

    #[test]
    fn a_gateway_has_ports_with_numbers_of_its_own_alone() {
        let (state, none) = (state(), BTreeSet::new());
        let port = |id| [PortConfig::new(id, ([127, 0, 0, 1], 4420).into())];
        for (id, is_own) in [(1, false), (64, false), (65, true), (128, true), (129, false)] {
            let (ports, left_out) = (port(id), BTreeSet::new());
            let local = LocalFabric {
                state: &state,
                name: "b",
                ports: &ports,
                hold: &none,
                open: &none,
                left_out: &left_out,
                opening: 0,
            };
            assert_eq!(local.shared_part(&local.build()).is_ok(), is_own, "{id}");
        }
    }

    #[test]
    fn what_one_gateway_alone_could_serve_is_refused() {
        let state = state();
        let none = BTreeSet::new();
        let local = LocalFabric {
            state: &state,
            name: "a",
            ports: &[],
            hold: &none,
            open: &none,
            left_out: &BTreeSet::new(),
            opening: 0,
        };
        let refused = |edit: fn(&mut SubsystemConfig)| {
            let mut wanted = local.build();
            edit(&mut wanted.subsystems[0]);
            local.shared_part(&wanted).unwrap_err().field.unwrap()
        };
        // Two gateways have 64 numbers each.
        for id in [129, u16::MAX] {
            let mut wanted = local.build();
            wanted.subsystems[0].ports = vec![1, id];
            assert_eq!(local.shared_part(&wanted).unwrap_err().field.unwrap(), "subsystems[0].ports", "{id}");
            wanted.subsystems[0].ports = vec![1, 128, NO_PORT];
            assert_eq!(local.shared_part(&wanted).unwrap().subsystems[0].ports, [1, 128, NO_PORT]);
        }
        let state = |subsystem: &mut SubsystemConfig| subsystem.ana_groups[1].state = AnaState::Optimized;
        assert_eq!(refused(state), "subsystems[0].ana_groups[1]");
        assert_eq!(
            refused(|subsystem| subsystem.namespaces[1].ana_group = 7),
            "subsystems[0].namespaces[1].ana_group"
        );
        assert_eq!(
            refused(|subsystem| subsystem.namespaces[0].backend = BackendConfig::Memory { size: 4096 }),
            "subsystems[0].namespaces[0].backend"
        );
        assert_eq!(
            refused(|subsystem| subsystem.namespaces[1].location = Some("a b".to_owned())),
            "subsystems[0].namespaces[1].location"
        );
    }
}
