//! Run-time orders, given beside a configuration. They are not part of it: they are not stored, and
//! a restarted target has those that it is started with.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, namespaces_of};
use super::fabric::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig};
use crate::backend::BackendConfig;
use crate::limits::OTHER_PORTS_MAX;
use crate::target::TargetError;

/// Orders for images beyond the configuration, for groups of gateways. By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// Namespaces, by subsystem and identifier, whose images another gateway writes to: they are
    /// open here, and their blocks are not accessed while their ANA groups are inaccessible, which
    /// the caller ensures.
    pub standby: BTreeSet<(String, u32)>,
    /// Generation of open requests: with another number all images are reopened, for instance on new
    /// connections to their clusters, and hosts keep the namespaces meanwhile.
    pub opening: u64,
    /// True if other targets serve the same subsystems, possibly on ports that this one does not
    /// have.
    pub shares_subsystems: bool,
    /// Ports of other gateways, which hosts find in the discovery log beside those of this target: at most
    /// `limits::OTHER_PORTS_MAX`.
    pub elsewhere: Vec<OtherPort>,
    /// Set if hosts may reserve images that other gateways serve too, which requires that all of
    /// them support it. Contains the numbers of namespaces' additions, by subsystem and identifier;
    /// 0 where there is none. A namespace that was removed and added again has another number, and
    /// none of its former reservations.
    pub reservations: Option<BTreeMap<(String, u32), u64>>,
}

/// A port of another target that serves the same subsystems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherPort {
    /// The port as that target has it, with its advertised address as the address. No port of this
    /// target has its number.
    pub port: PortConfig,
    /// True if hosts are shown the subsystems on this port, and how to connect. Otherwise they are
    /// shown only a discovery service, since its target's version reports no more of its ports.
    pub is_known: bool,
}

impl Directives {
    /// True if another gateway writes to this namespace's image.
    pub fn is_standby(&self, nqn: &str, nsid: u32) -> bool {
        self.standby.contains(&(nqn.to_owned(), nsid))
    }

    /// By which number a namespace was added.
    pub(crate) fn added(&self, nqn: &str, nsid: u32) -> u64 {
        let added = self.reservations.as_ref().and_then(|added| added.get(&(nqn.to_owned(), nsid)));
        added.copied().unwrap_or_default()
    }

    /// True if a namespace was removed, and is not only out of this gateway's reach.
    pub(crate) fn is_removed(&self, nqn: &str, nsid: u32) -> bool {
        self.reservations.as_ref().is_some_and(|added| !added.contains_key(&(nqn.to_owned(), nsid)))
    }

    /// Checks that they can be followed with this configuration.
    pub(crate) fn check(&self, config: &FabricConfig) -> Result<(), TargetError> {
        if self.shares_subsystems {
            config.check_shared()?;
        } else {
            config.check()?;
        }
        for (subsystem, namespace) in namespaces(config) {
            if !is_image(namespace) && self.is_standby(&subsystem.nqn, namespace.nsid) {
                return Err(TargetError::Config(format!(
                    "subsystem {}: namespace {}: only an image of a Ceph cluster can stand by",
                    subsystem.nqn, namespace.nsid
                )));
            }
        }
        let own: BTreeSet<u16> = config.ports.iter().map(|port| port.id).collect();
        let others = self.elsewhere.iter().filter(|other| other.is_known);
        match others.map(|other| other.port.id).find(|id| own.contains(id)) {
            Some(id) => Err(TargetError::Config(format!("port {id} is both this target's and another's"))),
            None if self.elsewhere.len() > OTHER_PORTS_MAX => {
                Err(TargetError::Config(format!("more than {OTHER_PORTS_MAX} ports of other targets")))
            }
            None => Ok(()),
        }
    }

    /// Adds to `changes`, which lead from the configuration `from` to `to`, what these orders change besides.
    pub(crate) fn changes_to(
        &self,
        wanted: &Self,
        from: &FabricConfig,
        to: &FabricConfig,
        changes: &mut Vec<Change>,
    ) {
        if self == wanted {
            return;
        }
        if self.elsewhere != wanted.elsewhere && !changes.contains(&Change::ReferralsChanged) {
            changes.push(Change::ReferralsChanged);
        }
        let staying = staying(from, to, changes);
        if self.opening != wanted.opening {
            reopen(changes, &staying);
            return;
        }
        let is_reservable = self.reservations.is_some() != wanted.reservations.is_some();
        let fields_of = |(nqn, nsid): (&str, u32)| -> Vec<&'static str> {
            let changes_hands = self.is_standby(nqn, nsid) != wanted.is_standby(nqn, nsid);
            let fields = [(changes_hands, STANDBY), (is_reservable, RESERVATIONS)];
            fields.into_iter().filter_map(|(is_so, field)| is_so.then_some(field)).collect()
        };
        add_fields(changes, &staying, fields_of);
    }
}

/// Images of `to` that stay open by `changes`, which lead there from `from`, by subsystem and
/// identifier.
fn staying<'a>(from: &FabricConfig, to: &'a FabricConfig, changes: &[Change]) -> Vec<(&'a str, u32)> {
    let known: BTreeSet<(&str, u32)> = namespaces(from).map(place).collect();
    let is_new =
        |change: &Change| matches!(change, Change::NamespaceAdded { .. } | Change::NamespaceReplaced { .. });
    let new = namespaces_of(changes, is_new);
    let new_subsystems = changes.iter().filter_map(|change| match change {
        Change::SubsystemAdded { nqn } | Change::SubsystemReplaced { nqn } => Some(nqn.as_str()),
        _ => None,
    });
    let new_subsystems: BTreeSet<&str> = new_subsystems.collect();
    let images = namespaces(to).filter(|(_, namespace)| is_image(namespace)).map(place);
    let stays = |place: &(&str, u32)| {
        known.contains(place) && !new.contains(place) && !new_subsystems.contains(place.0)
    };
    images.filter(stays).collect()
}

/// Has these namespaces opened again, whatever else of them changes.
fn reopen(changes: &mut Vec<Change>, staying: &[(&str, u32)]) {
    let reopened: BTreeSet<&(&str, u32)> = staying.iter().collect();
    changes.retain(|change| match change {
        Change::NamespaceChanged { nqn, nsid, .. } | Change::NamespaceResized { nqn, nsid } => {
            !reopened.contains(&(nqn.as_str(), *nsid))
        }
        _ => true,
    });
    let replaced = |(nqn, nsid): (&str, u32)| Change::NamespaceReplaced { nqn: nqn.to_owned(), nsid };
    changes.extend(staying.iter().copied().map(replaced));
}

/// Adds to `changes` what else of these namespaces is otherwise: one change tells all of a
/// namespace.
fn add_fields(
    changes: &mut Vec<Change>,
    staying: &[(&str, u32)],
    fields_of: impl Fn((&str, u32)) -> Vec<&'static str>,
) {
    let known = changes.iter().enumerate().filter_map(|(at, change)| match change {
        Change::NamespaceChanged { nqn, nsid, .. } => Some(((nqn.clone(), *nsid), at)),
        _ => None,
    });
    let known: BTreeMap<(String, u32), usize> = known.collect();
    for (nqn, nsid) in staying.iter().copied() {
        let (place, more) = ((nqn.to_owned(), nsid), fields_of((nqn, nsid)));
        if more.is_empty() {
            continue;
        }
        if let Some(at) = known.get(&place)
            && let Change::NamespaceChanged { fields, .. } = &mut changes[*at]
        {
            fields.extend(more);
        } else {
            changes.push(Change::NamespaceChanged { nqn: place.0, nsid, fields: more });
        }
    }
}

/// The word by which a change says that hosts may reserve a namespace from now on, or no longer.
pub(crate) const RESERVATIONS: &str = "reservations";

/// The word by which a change says that a namespace's image changes hands.
pub(crate) const STANDBY: &str = "standby";

fn namespaces(config: &FabricConfig) -> impl Iterator<Item = (&SubsystemConfig, &NamespaceConfig)> {
    config.subsystems.iter().flat_map(|subsystem| subsystem.namespaces.iter().map(move |n| (subsystem, n)))
}

/// A namespace, by its subsystem's name and its identifier.
fn place<'a>((subsystem, namespace): (&'a SubsystemConfig, &'a NamespaceConfig)) -> (&'a str, u32) {
    (subsystem.nqn.as_str(), namespace.nsid)
}

const fn is_image(namespace: &NamespaceConfig) -> bool {
    matches!(namespace.backend, BackendConfig::Rbd(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::RbdConfig;

    const NQN: &str = "nqn.2026-01.io.selvedge:a";

    fn image(nsid: u32) -> NamespaceConfig {
        let image = RbdConfig {
            pool: "rbd".to_owned(),
            namespace: String::new(),
            image: nsid.to_string(),
            snapshot: None,
            conf: None,
            id: None,
            encryption: None,
        };
        NamespaceConfig::new(nsid, BackendConfig::Rbd(image), 4096)
    }

    fn fabric(namespaces: Vec<NamespaceConfig>) -> FabricConfig {
        let subsystems = vec![SubsystemConfig::new(NQN, "A", "Selvedge").with(namespaces)];
        FabricConfig { subsystems, ..FabricConfig::default() }
    }

    fn changes(to: &Directives, from: &FabricConfig, wanted: &FabricConfig) -> Vec<Change> {
        let mut changes = from.changes_to(wanted);
        Directives::default().changes_to(to, from, wanted, &mut changes);
        changes
    }

    fn standby(nsid: u32) -> Directives {
        Directives { standby: BTreeSet::from([(NQN.to_owned(), nsid)]), ..Directives::default() }
    }

    #[test]
    fn an_image_changes_hands_while_its_configuration_stays_the_same() {
        let (one, nqn) = (fabric(vec![image(1)]), || NQN.to_owned());
        let changed = |fields| [Change::NamespaceChanged { nqn: nqn(), nsid: 1, fields }];
        assert_eq!(changes(&Directives::default(), &one, &one), []);
        assert_eq!(changes(&standby(1), &one, &one), changed(vec![STANDBY]));
        assert_eq!(changes(&standby(2), &one, &one), []);
        // One change tells all of a namespace.
        let regrouped = fabric(vec![NamespaceConfig { ana_group: 2, ..image(1) }]);
        assert_eq!(changes(&standby(1), &one, &regrouped), changed(vec!["ana_group", STANDBY]));
        let both = fabric(vec![image(1), image(2)]);
        assert_eq!(changes(&standby(2), &one, &both), [Change::NamespaceAdded { nqn: nqn(), nsid: 2 }]);
    }

    #[test]
    fn with_another_number_all_images_are_reopened_and_nothing_else() {
        let memory = NamespaceConfig::new(9, BackendConfig::Memory { size: 4096 }, 4096);
        let from = fabric(vec![image(1), memory.clone()]);
        let to = fabric(vec![NamespaceConfig { ana_group: 2, ..image(1) }, memory, image(3)]);
        let nqn = || NQN.to_owned();
        let directives = Directives { opening: 1, ..standby(1) };
        assert_eq!(
            changes(&directives, &from, &to),
            [
                Change::NamespaceAdded { nqn: nqn(), nsid: 3 },
                Change::NamespaceReplaced { nqn: nqn(), nsid: 1 }
            ]
        );
    }

    #[test]
    fn ports_elsewhere_are_no_others_of_this_target() {
        let port = |id| PortConfig::new(id, ([127, 0, 0, 1], 4420).into());
        let others = |ids: &[u16]| {
            let elsewhere = ids.iter().map(|id| OtherPort { port: port(*id), is_known: true }).collect();
            Directives { elsewhere, ..Directives::default() }
        };
        let one = FabricConfig { ports: vec![port(1)], ..FabricConfig::default() };
        assert!(others(&[65, 129]).check(&one).is_ok());
        let refused = others(&[65, 1]).check(&one).unwrap_err().to_string();
        assert!(refused.contains("port 1 is both"), "{refused}");
        let many: Vec<u16> = (2..).take(OTHER_PORTS_MAX + 1).collect();
        assert!(others(&many).check(&one).is_err());
        assert_eq!(changes(&others(&[65]), &one, &one), [Change::ReferralsChanged]);
    }

    #[test]
    fn only_images_stand_by() {
        let memory = NamespaceConfig::new(1, BackendConfig::Memory { size: 4096 }, 4096);
        let refused = standby(1).check(&fabric(vec![memory])).unwrap_err().to_string();
        assert!(refused.contains("namespace 1") && refused.contains("stand by"), "{refused}");
        assert!(standby(1).check(&fabric(vec![image(1)])).is_ok());
    }
}
