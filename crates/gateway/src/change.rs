//! A change of what all gateways of a group serve, through one of them: it is in effect there before the others learn of it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::ceph::late_operations;
use engine::limits::{CEPH_CONNECT_TIMEOUT_MS, GATEWAY_CHANGE_TRIES};
use engine::ring::{random, wall_time};
use engine::target::{
    Change, EarlyImages, FabricConfig, HostKeyConfig, NamespaceConfig, TargetError, secret_file_faults,
};

use super::error::{GroupError, Reason, Refused};
use super::format::{WITH_KEYS_AND_PORTS, WITH_RESERVATIONS};
use super::image_groups::{groups_of_images, image_of, unreleased};
use super::local_fabric::identified;
use super::membership::Membership;
use super::serving::Serving;
use super::state::{GroupState, Owner};

/// The highest namespace identifier that gateways of former versions read.
const FORMER_NSID_MAX: u32 = 1024;
/// Failed attempts to write a configuration after which the change is refused.
const FAILURES_MAX: usize = 3;

impl Membership {
    /// Begins to open the images that all gateways would serve by `wanted` and this one does not
    /// have yet. The caller holds the serving guard, and may release it before they are open: a cluster that
    /// does not answer would keep this gateway from all else.
    pub fn open_early(&self, serving: &Serving, wanted: &FabricConfig) -> Result<EarlyImages, GroupError> {
        let Some(target) = self.target.get() else {
            return Err(Refused::unavailable("this gateway serves nothing yet").into());
        };
        let (me, base) = {
            let seen = self.seen();
            (seen.me.gateway.clone(), seen.state.clone())
        };
        let config = serving.view(&base, &me, &wanted.ports).shared_part(wanted)?;
        let next = GroupState { config, ..base };
        let view = serving.view(&next, &me, &wanted.ports);
        let local = view.build();
        Ok(target.open_early(&local, &view.directives(&local)))
    }

    /// The same for the image of one namespace that is to come to the subsystem of this name, without the serving guard: where this gateway
    /// serves otherwise by the time of the change, it is opened again then.
    pub fn open_one_early(&self, nqn: &str, namespace: &NamespaceConfig) -> Option<EarlyImages> {
        let serving = self.glance();
        let opening = (serving.opening(), !serving.hold.contains(&namespace.ana_group));
        Some(self.target.get()?.open_one_early(nqn, namespace, opening))
    }

    /// Waits until these images are open, without the serving guard.
    pub fn await_images(&self, early: &EarlyImages) -> Result<(), GroupError> {
        early.wait(Duration::from_millis(CEPH_CONNECT_TIMEOUT_MS));
        let pending = early.pending();
        let Some((nqn, nsid)) = pending.first() else { return Ok(()) };
        let seconds = CEPH_CONNECT_TIMEOUT_MS / 1000;
        let what = format!("the image of namespace {nsid} of {nqn} is not open within {seconds} s");
        Err(Refused::unavailable(what).hint("see whether its cluster answers: ceph -s").into())
    }

    /// Makes all gateways serve the shared part of `wanted`, and this one its ports. The caller
    /// holds the serving guard. When hosts get new secrets, all gateways reread their files and accept the
    /// former secrets for this time.
    pub fn put(
        &self,
        serving: &Serving,
        wanted: &FabricConfig,
        new_secrets: Option<Duration>,
    ) -> Result<Vec<Change>, GroupError> {
        let unavailable = |what: &str| Refused::unavailable(what).hint("ask another gateway, or wait").into();
        let Some(target) = self.target.get() else {
            return Err(unavailable("this gateway serves nothing yet"));
        };
        let (me, base, has_lease, well) = {
            let seen = self.seen();
            let well = seen.watch.peers(&seen.state).well;
            (seen.me.gateway.clone(), seen.state.clone(), seen.has_lease(self.now_ms()), well)
        };
        if !has_lease {
            return Err(unavailable("this gateway cannot reach its group's cluster"));
        }
        let shared = serving.view(&base, &me, &wanted.ports).shared_part(wanted)?;
        check_format(&base, &shared)?;
        let silent = || unreleased(&base, &shared, &serving.hold, &well);
        if let Some(refused) = immovable(&base, &shared, &serving.hold).or_else(silent) {
            return Err(refused.into());
        }
        let leaves = self.may_move(&base, &shared, &serving.hold)?;
        let secrets = match new_secrets {
            Some(overlap) => base.secrets.next(overlap, wall_time()),
            None => base.secrets.clone(),
        };
        // Before all gateways know the numbers, nothing is kept that another namespace could take for its own.
        let added = match base.format {
            format if format < WITH_RESERVATIONS => base.added.clone(),
            _ => base.added.after(&base.config, &shared, random),
        };
        let next = GroupState { config: shared.clone(), secrets, added, ..base.clone() };
        let before = (target.config(), target.directives());
        let view = serving.view(&next, &me, &wanted.ports);
        let local = view.build();
        // Checked and applied here before it is shared: what this gateway cannot do must not be asked of all.
        if new_secrets.is_some()
            && let Some(fault) = secret_file_faults(&local).first()
        {
            return Err(TargetError::Config(fault.to_string()).into());
        }
        let overlap = new_secrets.unwrap_or_default();
        let changes = target.apply_directed(&local, &view.directives(&local), overlap)?;
        let config = identified(shared, &target.config(), &target.namespace_identities());
        let next = GroupState { config, ..next };
        // Seen only now: the images were given back, or not in time. Their next owner would not shut this gateway's connections out.
        let outcome = match next == base {
            _ if leaves && self.has_late() => Err(self.doubt()),
            true => Ok(()),
            false => self.share(&base, &next),
        };
        // The deciding thread repeats the change once the cluster answers: a cluster that does not
        // would keep every caller that needs images or their locks.
        if outcome.as_ref().is_err_and(|refused| refused.reason != Reason::Unavailable)
            && target.open_early(&before.0, &before.1).pending().is_empty()
            && let Err(error) = target.apply_directed(&before.0, &before.1, Duration::ZERO)
        {
            tracing::error!(%error, "cannot restore the previous configuration");
        }
        // New secrets are read as at all gateways, by the deciding thread.
        self.wake();
        outcome.map(|()| changes).map_err(GroupError::from)
    }

    /// True if images leave this gateway. An error while commands on them have timed out and may
    /// still be executed.
    fn may_move(
        &self,
        base: &GroupState,
        wanted: &FabricConfig,
        hold: &BTreeSet<u32>,
    ) -> Result<bool, Refused> {
        let leaves = moves_away(base, wanted, hold);
        if leaves && self.has_late() { Err(self.doubt()) } else { Ok(leaves) }
    }

    /// Makes this gateway start a new epoch, which puts its connections on the blocklist and so
    /// ends commands that are under way on them. Nothing else ends those, and to reclaim the images
    /// in the meantime would wait for the cluster while holding the serving guard.
    fn doubt(&self) -> Refused {
        self.has_doubt.store(true, Ordering::Release);
        self.wake();
        let what = "commands on this gateway's images have taken too long and may still be executed; the gateway starts a new epoch";
        Refused::unavailable(what).hint("ask again in a moment, when the cluster answers")
    }

    /// True if commands on images of this gateway have taken too long and may still be executed.
    fn has_late(&self) -> bool {
        late_operations() != self.seen().late_before
    }

    /// Writes the configuration that all gateways share, as `next` has it.
    fn share(&self, base: &GroupState, next: &GroupState) -> Result<(), Refused> {
        let me = self.seen().me.clone();
        let mut problem = "too many concurrent changes to the group".to_owned();
        let mut failures = 0;
        // At first as it was seen last: if others have changed it since, nothing is written.
        let mut known = Some(base.clone());
        for _ in 0..GATEWAY_CHANGE_TRIES {
            let current = match known.take().map_or_else(|| self.store().state(), Ok) {
                Ok(current) => current,
                Err(error) => return Err(Refused::unavailable(error)),
            };
            let mut after = match replacement(&current, base, next, &me) {
                Ok(Some(after)) => after,
                Ok(None) => {
                    self.seen().learn(current);
                    self.tell();
                    return Ok(());
                }
                Err(refused) => {
                    self.seen().learn(current);
                    return Err(refused);
                }
            };
            match self.store().change(&current, &mut after) {
                Ok(true) => {
                    self.seen().learn(GroupState { version: current.version + 1, ..after });
                    self.tell();
                    return Ok(());
                }
                Ok(false) => {}
                // Whether it has happened is seen when it is read. Meanwhile nothing else can be decided here.
                Err(error) => {
                    problem = error.to_string();
                    failures += 1;
                    if failures == FAILURES_MAX {
                        break;
                    }
                }
            }
        }
        Err(Refused::unavailable(format!("the group's state cannot be changed: {problem}")))
    }
}

/// State to write in place of `current`, so that gateways share the configuration of `next`, which was made of `base`. `None` if they
/// share it already.
///
/// # Errors
/// The refusal of a change that no longer fits what the group has become.
fn replacement(
    current: &GroupState,
    base: &GroupState,
    next: &GroupState,
    me: &Owner,
) -> Result<Option<GroupState>, Refused> {
    let part = |state: &GroupState| (state.config.clone(), state.secrets.clone(), state.added.clone());
    if part(current) == part(next) {
        return Ok(None);
    }
    if part(current) != part(base) || !current.has_groups_of(&next.config) {
        let what = "the configuration was changed through another gateway at the same moment";
        return Err(Refused::changed(what).hint("look at it, and ask again"));
    }
    // Another gateway that has given this one up meanwhile has its images, and has not let go of what is to move.
    let owned = current.owned(me).collect();
    if let Some(refused) = immovable(current, &next.config, &owned) {
        return Err(refused);
    }
    let (config, secrets, added) = part(next);
    Ok(Some(GroupState { config, secrets, added, ..current.clone() }))
}

/// Name of the first setting in a configuration that gateways of former versions cannot read.
fn newer_part(wanted: &FabricConfig) -> Option<&'static str> {
    wanted.subsystems.iter().find_map(|subsystem| {
        let is_sealed = subsystem.dhchap_ctrl_secret_sealed.is_some()
            || subsystem.host_keys.iter().any(HostKeyConfig::has_sealed);
        let has_ports = !subsystem.ports.is_empty();
        let is_encrypted = |namespace: &NamespaceConfig| matches!(&namespace.backend, BackendConfig::Rbd(image) if image.encryption.is_some());
        let has_flags = |namespace: &NamespaceConfig| namespace.trash_image || namespace.disable_auto_resize;
        let is_above = |namespace: &NamespaceConfig| namespace.nsid > FORMER_NSID_MAX;
        let parts = [
            (is_sealed, "sealed keys"),
            (has_ports, "listeners of single subsystems"),
            (!subsystem.networks.is_empty(), "networks of subsystems"),
            (!subsystem.kept_hosts.is_empty(), "hosts that keep their connections"),
            (subsystem.namespaces.iter().any(has_flags), "trash_image and disable_auto_resize"),
            (subsystem.namespaces.iter().any(|namespace| namespace.location.is_some()), "locations"),
            (subsystem.namespaces.iter().any(is_encrypted), "encrypted images"),
            (subsystem.namespaces.iter().any(is_above), "namespaces above 1,024"),
            (subsystem.io_queues_max.is_some(), "io_queues_max"),
            (!subsystem.dhchap_dhgroup.is_empty(), "dhchap_dhgroup of a subsystem"),
        ];
        parts.into_iter().find_map(|(has, what)| has.then_some(what))
    })
}

/// Refuses what gateways of a former version would not understand.
fn check_format(base: &GroupState, wanted: &FabricConfig) -> Result<(), Refused> {
    match newer_part(wanted).filter(|_| base.format < WITH_KEYS_AND_PORTS) {
        None => Ok(()),
        Some(what) => {
            let refused = Refused::conflict(format!("gateways of the group run a version without {what}"));
            Err(refused.hint("upgrade all of them, and remove those that have ended for good"))
        }
    }
}

/// True if an image of this gateway goes to a load-balancing group of another gateway, by any
/// namespace.
fn moves_away(base: &GroupState, wanted: &FabricConfig, hold: &BTreeSet<u32>) -> bool {
    let (before, after) = (groups_of_images(&base.config), groups_of_images(wanted));
    before.iter().any(|(image, groups)| {
        let goes = |next: &BTreeSet<u32>| next.difference(groups).any(|group| !hold.contains(group));
        !groups.is_disjoint(hold) && after.get(image).is_some_and(goes)
    })
}

/// Refusal of a change by which an image goes to another load-balancing group, if it has to wait.
///
/// A fence stays with the former group: the next owner would use the image before the connections
/// of a failed gateway are on the blocklist. So no image leaves a fenced group, not even by a
/// removal: a later change could add it to another group. Another gateway that is alive and has the
/// image has to release it before its next owner learns of it.
fn immovable(base: &GroupState, wanted: &FabricConfig, hold: &BTreeSet<u32>) -> Option<Refused> {
    let (before, after) = (groups_of_images(&base.config), groups_of_images(wanted));
    base.config.subsystems.iter().find_map(|subsystem| {
        let nqn = &subsystem.nqn;
        subsystem.namespaces.iter().find_map(|known| {
            let image = image_of(known)?;
            let (nsid, was) = (known.nsid, known.ana_group);
            let next = after.get(&image);
            let leaves = next.is_none_or(|groups| !groups.contains(&was));
            let is_added = next.is_some_and(|groups| !groups.is_subset(&before[&image]));
            let group = base.groups.get(&was)?;
            let refused = |what: &str, hint: String| {
                Some(Refused::conflict(format!("namespace {nsid} of {nqn} {what}")).hint(hint))
            };
            if !group.fence.is_empty() && (leaves || is_added) {
                let what = format!("is in load-balancing group {was}, which is being taken over");
                return refused(&what, "ask again in a moment".to_owned());
            }
            if !(leaves && is_added) {
                return None;
            }
            let owner = group.owner.as_ref().filter(|owner| base.is_alive(owner));
            let Owner { gateway, .. } = owner.filter(|_| !hold.contains(&was))?;
            let what = format!("is served by gateway {gateway}, which has its image open");
            refused(&what, format!("ask {gateway} to move it"))
        })
    })
}

#[cfg(test)]
mod tests {
    use engine::backend::RbdConfig;
    use engine::limits::NAMESPACES_MAX;
    use engine::target::SubsystemConfig;
    use uuid::Uuid;

    use super::super::state::Life;
    use super::*;

    #[test]
    fn what_former_versions_cannot_read_is_found() {
        let with = |edit: fn(&mut SubsystemConfig)| {
            let mut subsystem = SubsystemConfig::new("nqn.a", "A", "Selvedge");
            edit(&mut subsystem);
            newer_part(&FabricConfig { subsystems: vec![subsystem], ..FabricConfig::default() })
        };
        assert_eq!(
            with(|subsystem| subsystem.host_keys.push(HostKeyConfig::tls("nqn.host", "/key".into()))),
            None
        );
        assert_eq!(with(|subsystem| subsystem.ports.push(1)), Some("listeners of single subsystems"));
        assert_eq!(with(|subsystem| subsystem.io_queues_max = Some(4)), Some("io_queues_max"));
        assert_eq!(
            with(|subsystem| subsystem.networks.push("10.0.0.0/24".parse().unwrap())),
            Some("networks of subsystems")
        );
        assert_eq!(
            with(|subsystem| subsystem.kept_hosts.push("nqn.host".to_owned())),
            Some("hosts that keep their connections")
        );
        let flagged = |edit: fn(&mut NamespaceConfig)| {
            let mut subsystem = SubsystemConfig::new("nqn.a", "A", "Selvedge");
            subsystem.namespaces.push(NamespaceConfig::new(1, BackendConfig::Null { size: 1 << 20 }, 4096));
            edit(&mut subsystem.namespaces[0]);
            newer_part(&FabricConfig { subsystems: vec![subsystem], ..FabricConfig::default() })
        };
        assert_eq!(flagged(|_| {}), None);
        let edits: [fn(&mut NamespaceConfig); 2] =
            [|namespace| namespace.trash_image = true, |namespace| namespace.disable_auto_resize = true];
        for edit in edits {
            assert_eq!(flagged(edit), Some("trash_image and disable_auto_resize"));
        }
        assert_eq!(flagged(|namespace| namespace.location = Some("east".to_owned())), Some("locations"));
        assert_eq!(flagged(|namespace| namespace.nsid = FORMER_NSID_MAX), None);
        assert_eq!(flagged(|namespace| namespace.nsid = FORMER_NSID_MAX + 1), Some("namespaces above 1,024"));
        assert_eq!(
            with(|subsystem| subsystem.dhchap_dhgroup.push(authentication::Group::MlKem768)),
            Some("dhchap_dhgroup of a subsystem")
        );
        assert_eq!(
            with(|subsystem| subsystem.dhchap_ctrl_secret_sealed = serde_json::from_value("x".into()).ok()),
            Some("sealed keys")
        );
        assert_eq!(
            with(|subsystem| {
                let tls_key_sealed = serde_json::from_value("x".into()).ok();
                subsystem
                    .host_keys
                    .push(HostKeyConfig { tls_key_sealed, ..HostKeyConfig::empty("nqn.host") });
            }),
            Some("sealed keys")
        );
    }

    #[test]
    fn a_takeover_of_thousands_of_images_writes_no_configuration() {
        let mut state = group_of_two();
        let known = state.config.subsystems[0].namespaces[0].clone();
        let image = |nsid: u32| {
            let mut namespace = NamespaceConfig { nsid, ana_group: nsid % 2 + 1, ..known.clone() };
            namespace.uuid = Some(Uuid::from_u128(nsid.into()));
            if let BackendConfig::Rbd(image) = &mut namespace.backend {
                image.image = format!("disk-{nsid}");
            }
            namespace
        };
        state.config.subsystems[0].namespaces = (1..=NAMESPACES_MAX).map(image).collect();
        let written = state.change_from(&GroupState::default()).set;
        assert!(written["config"].len() < 2 << 20, "{} bytes", written["config"].len());
        let before = GroupState::of_pairs(&written).unwrap();
        assert_eq!(before.config, state.config);
        let mut after = before.clone();
        after.bury("a", |_, _| None);
        let change = after.change_from(&before);
        assert!(change.set.contains_key("ana.1") && !change.set.contains_key("config"));
        after.config.subsystems[0].namespaces.pop();
        assert!(after.change_from(&before).set.contains_key("config"));
    }

    const FROM_A: &str =
        "namespace 1 of nqn.a is served by gateway a, which has its image open; ask a to move it";
    const FROM_B: &str =
        "namespace 1 of nqn.a is served by gateway b, which has its image open; ask b to move it";

    /// An image in this load-balancing group.
    fn fabric(ana_group: u32) -> FabricConfig {
        let [pool, image] = ["rbd", "disk"].map(str::to_owned);
        let image = RbdConfig {
            pool,
            namespace: String::new(),
            image,
            snapshot: None,
            conf: None,
            id: None,
            encryption: None,
        };
        let namespace = NamespaceConfig::new(1, BackendConfig::Rbd(image), 4096);
        let namespaces = vec![NamespaceConfig { ana_group, ..namespace }];
        FabricConfig {
            subsystems: vec![SubsystemConfig::new("nqn.a", "A", "Selvedge").with(namespaces)],
            ..FabricConfig::default()
        }
    }

    /// Gateways a and b, and an image in the load-balancing group of a.
    fn group_of_two() -> GroupState {
        let mut state = GroupState { config: fabric(1), ..GroupState::default() };
        for gateway in ["a", "b"] {
            state.register(&Owner { gateway: gateway.to_owned(), epoch: 1 }, &[]).unwrap();
        }
        state
    }

    /// Refusal of the move to this load-balancing group by a gateway that has these; empty if there is none.
    fn refused(state: &GroupState, group: u32, hold: &BTreeSet<u32>) -> String {
        immovable(state, &fabric(group), hold).map_or_else(String::new, |refused| refused.to_string())
    }

    #[test]
    fn a_namespace_is_moved_by_the_gateway_that_has_its_image() {
        let mut state = group_of_two();
        let (a, b) = (BTreeSet::from([1]), BTreeSet::from([2]));
        assert_eq!(refused(&state, 2, &b), FROM_A, "b does not have it");
        let unlisted = BTreeSet::new();
        assert_eq!(refused(&state, 2, &unlisted), FROM_A, "others neither");
        assert_eq!(refused(&state, 2, &a), "", "a lets go of it");
        assert_eq!(refused(&state, 1, &a), "", "it stays");
        assert!(moves_away(&state, &fabric(2), &a), "a gives it away");
        assert!(!moves_away(&state, &fabric(2), &BTreeSet::from([1, 2])), "a keeps it");
        assert!(!moves_away(&state, &fabric(1), &a) && !moves_away(&state, &fabric(2), &b));
        assert_eq!(refused(&state, 2, &BTreeSet::from([1, 2])), "", "one has both");
        state.gateways.get_mut("a").unwrap().life = Life::Dead;
        assert_eq!(refused(&state, 2, &b), "", "it has no owner, and nothing to put on the blocklist");
    }

    #[test]
    fn a_namespace_stays_in_its_group_until_the_fence_of_a_failed_owner_is_done() {
        const FENCED: &str = "namespace 1 of nqn.a is in load-balancing group 1, which is being taken over; \
             ask again in a moment";
        let mut state = group_of_two();
        let [failed, next_owner] = ["a", "b"].map(|gateway| Owner { gateway: gateway.to_owned(), epoch: 1 });
        assert!(state.add_address(&failed, "10.0.0.1:0/1"));
        let (own, both) = (BTreeSet::from([2]), BTreeSet::from([1, 2]));
        for owner in [None, Some(next_owner)] {
            let mut state = state.clone();
            state.bury("a", |_, _| owner.clone());
            for hold in [&own, &both] {
                assert_eq!(refused(&state, 2, hold), FENCED, "{owner:?}, with the images of {hold:?}");
                assert_eq!(refused(&state, 1, hold), "", "it stays");
            }
            state.groups.get_mut(&1).unwrap().fence.clear();
            assert_eq!(refused(&state, 2, &both), "", "the connections are on the blocklist");
        }
    }

    /// Refusals of changes of the image in group 1 by which it comes to group 2 without a move of
    /// its namespace; empty if there are none.
    fn refused_ways(state: &GroupState, hold: &BTreeSet<u32>) -> Vec<String> {
        let with = |edit: fn(&mut SubsystemConfig)| {
            let mut wanted = fabric(1);
            edit(&mut wanted.subsystems[0]);
            wanted
        };
        let ways = [
            FabricConfig::default(),
            with(|subsystem| subsystem.namespaces.clear()),
            with(|subsystem| rename(&mut subsystem.namespaces[0])),
            with(|subsystem| {
                subsystem.namespaces[0].ana_group = 2;
                subsystem.namespaces[0].nsid = 2;
            }),
            with(|subsystem| {
                let known = subsystem.namespaces[0].clone();
                rename(&mut subsystem.namespaces[0]);
                subsystem.namespaces.push(NamespaceConfig { nsid: 2, ana_group: 2, ..known });
            }),
            with(|subsystem| {
                let known = subsystem.namespaces[0].clone();
                subsystem.namespaces.push(NamespaceConfig { nsid: 2, ana_group: 2, ..known });
            }),
        ];
        let refused = |wanted: &FabricConfig| immovable(state, wanted, hold);
        ways.iter()
            .map(|wanted| refused(wanted).map_or_else(String::new, |refused| refused.to_string()))
            .collect()
    }

    /// Gives a namespace another image.
    fn rename(namespace: &mut NamespaceConfig) {
        let BackendConfig::Rbd(image) = &mut namespace.backend else { panic!("an image") };
        image.image = "other".to_owned();
    }

    #[test]
    fn an_image_leaves_a_fenced_group_neither_by_removal_nor_by_another_namespace() {
        const FENCED: &str = "namespace 1 of nqn.a is in load-balancing group 1, which is being taken over; \
             ask again in a moment";
        let mut state = group_of_two();
        let [failed, next_owner] = ["a", "b"].map(|gateway| Owner { gateway: gateway.to_owned(), epoch: 1 });
        assert!(state.add_address(&failed, "10.0.0.1:0/1"));
        state.bury("a", |_, _| Some(next_owner.clone()));
        let both = BTreeSet::from([1, 2]);
        assert_eq!(refused_ways(&state, &both), [FENCED; 6]);
        let mut wanted = fabric(1);
        let known = wanted.subsystems[0].namespaces[0].clone();
        let mut other = NamespaceConfig { nsid: 2, ana_group: 2, ..known.clone() };
        rename(&mut other);
        wanted.subsystems[0].namespaces.extend([other, NamespaceConfig { nsid: 3, ..known }]);
        assert!(immovable(&state, &wanted, &both).is_none(), "another image, and the same in its group");
        state.groups.get_mut(&1).unwrap().fence.clear();
        assert_eq!(refused_ways(&state, &both), [""; 6], "the connections are on the blocklist");
    }

    #[test]
    fn a_removed_namespaces_image_is_not_moved_in_the_same_change_by_another_gateway() {
        let (state, own) = (group_of_two(), BTreeSet::from([2]));
        let expected = ["", "", "", FROM_A, FROM_A, ""];
        assert_eq!(refused_ways(&state, &own), expected, "a has the image open");
        assert_eq!(refused_ways(&state, &BTreeSet::from([1])), [""; 6], "a lets go of it");
    }

    #[test]
    fn a_gateway_that_was_given_up_meanwhile_moves_no_image() {
        let base = group_of_two();
        let [a, b] = ["a", "b"].map(|gateway| Owner { gateway: gateway.to_owned(), epoch: 1 });
        let next = GroupState { config: fabric(2), ..base.clone() };
        let moved = |current: &GroupState| replacement(current, &base, &next, &a);
        assert!(
            moved(&base).is_ok_and(|after| after.is_some_and(|after| after.config == fabric(2))),
            "its own"
        );
        assert!(moved(&next).is_ok_and(|after| after.is_none()), "the group shares it already");
        let other = GroupState { config: fabric(3), ..base.clone() };
        assert_eq!(moved(&other).unwrap_err().reason, Reason::Changed);
        let mut current = base.clone();
        current.bury("a", |_, _| Some(b.clone()));
        let refused = moved(&current).err().map(|refused| refused.to_string());
        assert_eq!(refused.as_deref(), Some(FROM_B), "b has opened it since");
    }

    /// Configurations after a change of namespace 1, in group 1: another image there, and its image
    /// as namespace 2 in this group, if one is given.
    fn with_other_image(ana_group: u32, image_group: Option<u32>) -> FabricConfig {
        let mut wanted = fabric(ana_group);
        let namespaces = &mut wanted.subsystems[0].namespaces;
        let known = namespaces[0].clone();
        rename(&mut namespaces[0]);
        namespaces.extend(image_group.map(|ana_group| NamespaceConfig {
            nsid: 2,
            ana_group,
            ..known.clone()
        }));
        wanted
    }

    #[test]
    fn an_image_moves_whatever_namespace_it_has_and_no_other_does_in_its_place() {
        let (mut state, a) = (group_of_two(), BTreeSet::from([1]));
        assert!(moves_away(&state, &with_other_image(1, Some(2)), &a), "by another namespace");
        let stays = [with_other_image(2, None), with_other_image(2, Some(1)), with_other_image(1, Some(1))];
        let b = BTreeSet::from([2]);
        for wanted in &stays {
            assert!(!moves_away(&state, wanted, &a), "its image stays, or is removed: {wanted:?}");
            assert!(immovable(&state, wanted, &b).is_none(), "{wanted:?}");
        }
        let [failed, next_owner] = ["a", "b"].map(|gateway| Owner { gateway: gateway.to_owned(), epoch: 1 });
        assert!(state.add_address(&failed, "10.0.0.1:0/1"));
        state.bury("a", |_, _| Some(next_owner.clone()));
        let is_refused = |wanted: &FabricConfig| immovable(&state, wanted, &b).is_some();
        assert!(is_refused(&stays[0]), "removed from a fenced group");
        assert!(!is_refused(&stays[1]) && !is_refused(&stays[2]), "another namespace of the same group");
    }
}
