//! What the gateways of a group share, as data and as pairs of an object: what is served, which gateways there are, and
//! which of them serves which load-balancing group. It is read and written elsewhere, and so is decided what to change.

use std::collections::{BTreeMap, BTreeSet};

use engine::ceph::{ObjectChange, Pairs};
use engine::limits::{GATEWAY_CONNECTIONS_MAX, GATEWAYS_MAX};
use engine::target::FabricConfig;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::added::Added;
use super::format::{Format, Reads};
use super::gateway_port::GatewayPort;
use super::secret_rotation::SecretRotation;
use super::state_error::{GroupFull, StateError};
use super::write_pause::WritePause;

const FORMAT_KEY: &str = "format";
/// The key of the version alone, by which a change is noticed.
pub(crate) const VERSION_KEY: &str = "version";
const CONFIG_KEY: &str = "config";
const SECRETS_KEY: &str = "secrets";
/// Gateways of former versions leave it as it is.
const PAUSE_KEY: &str = "write_pause";
const ADDED_KEY: &str = "added";
/// Gateways of former versions leave it as it is, too, and serve what they would without it.
const DRAINED_KEY: &str = "drained";
const GATEWAY_PREFIX: &str = "gateway.";
const GROUP_PREFIX: &str = "ana.";
const READER_PREFIX: &str = "reads.";

/// All that the gateways of a group share, as it is at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupState {
    /// Grows by one with each change; 0 is a group that is not there yet.
    pub(crate) version: u64,
    /// The format in which it is written.
    pub(crate) format: Format,
    /// Formats that gateways have reported, by gateway name.
    pub(crate) readers: BTreeMap<String, Reads>,
    /// Shared configuration: without ports and ANA states, which each gateway has of its own.
    pub(crate) config: FabricConfig,
    /// Last replacement of hosts' secrets.
    pub(crate) secrets: SecretRotation,
    /// Write pause that one gateway requests of all.
    pub(crate) pause: Option<WritePause>,
    /// By which numbers its namespaces were added.
    pub(crate) added: Added,
    /// The gateways that are to serve nothing as long as another one can.
    pub(crate) drained: BTreeSet<String>,
    /// The gateways, by their names.
    pub(crate) gateways: BTreeMap<String, Gateway>,
    /// The load-balancing groups, which are ANA groups, by their numbers.
    pub(crate) groups: BTreeMap<u32, LoadBalancingGroup>,
}

/// Fields of a record that a newer version has written, as they are. What stands in an [`Owner`] or a [`Listener`], in secrets or
/// the configuration is fixed in each format.
pub(crate) type Unknown = BTreeMap<String, Value>;

/// A gateway, as the others know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gateway {
    /// From 1 on: it says which identifiers its controllers have, and which load-balancing group it is preferred for.
    pub(crate) number: u16,
    /// Number of the run, and within a run of the loss of its lease.
    // Groups that are there have it under this name.
    #[serde(rename = "incarnation")]
    pub(crate) epoch: u64,
    pub(crate) life: Life,
    /// The addresses of the connections that its images have used in this epoch, by which it is put on the blocklist: at
    /// most `GATEWAY_CONNECTIONS_MAX`.
    ///
    /// The address of a closed connection stays until it is on the blocklist: an OSD may still have
    /// commands from it. A command that took too long has failed here and may be executed there
    /// later, also when the library has ended the connection.
    pub(crate) addresses: Vec<String>,
    /// Addresses at which hosts find it.
    pub(crate) listeners: Vec<Listener>,
    /// Further properties of these listeners that hosts need, from the second format on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<GatewayPort>,
    /// Location that it was started with, from the second format on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<String>,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
}

/// Life of a gateway as the others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "GatewayLife")]
pub enum Life {
    /// The gateway may serve.
    Alive,
    /// The others have given it up; it has to come back in another epoch.
    Dead,
    /// The gateway has ended in order.
    Left,
}

/// Address and port at which hosts find a gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// The IP address that it listens on.
    pub address: String,
    /// The TCP port.
    pub service: u16,
}

/// Namespaces that one gateway serves at a time: an ANA group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadBalancingGroup {
    /// The gateway that serves it whenever it can.
    pub(crate) preferred: String,
    /// Gateway that serves it, or is to as soon as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Owner>,
    pub(crate) state: Phase,
    /// Connections that have to be on the blocklist before the owner serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fence: Vec<String>,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
}

/// A gateway in one of its epochs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owner {
    pub(crate) gateway: String,
    // Groups that are there have it under this name.
    #[serde(rename = "incarnation")]
    pub(crate) epoch: u64,
}

/// Progress of a load-balancing group's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LoadBalancingState")]
pub enum Phase {
    /// The owner serves it.
    Serving,
    /// The owner has to put a dead gateway's connections on the blocklist first.
    Fencing,
    /// The owner takes over from a gateway that has released it.
    HandingOver,
}

impl GroupState {
    /// Reads the state from the pairs of the group's object.
    pub(crate) fn of_pairs(pairs: &Pairs) -> Result<Self, StateError> {
        if pairs.is_empty() {
            return Ok(Self::default());
        }
        let mut state = Self {
            format: Format::parse(pairs.get(FORMAT_KEY).map(Vec::as_slice))?,
            version: version_in(pairs).ok_or(StateError::Version)?,
            config: parsed(CONFIG_KEY, pairs.get(CONFIG_KEY).ok_or(StateError::NoConfiguration)?)?,
            // A group without replaced secrets has no such pair.
            secrets: pairs
                .get(SECRETS_KEY)
                .map_or_else(|| Ok(SecretRotation::default()), |value| parsed(SECRETS_KEY, value))?,
            pause: pairs.get(PAUSE_KEY).map(|value| parsed(PAUSE_KEY, value)).transpose()?,
            added: pairs
                .get(ADDED_KEY)
                .map_or_else(|| Ok(Added::default()), |value| parsed(ADDED_KEY, value))?,
            drained: pairs
                .get(DRAINED_KEY)
                .map_or_else(|| Ok(BTreeSet::new()), |value| parsed(DRAINED_KEY, value))?,
            ..Self::default()
        };
        // Gateways of a former version write none down; here all of the group tell hosts the same.
        engine::target::write_down_former_uuids(&mut state.config, |_| true);
        for (key, value) in pairs {
            if let Some(name) = key.strip_prefix(GATEWAY_PREFIX) {
                state.gateways.insert(name.to_owned(), parsed(key, value)?);
            } else if let Some(number) = key.strip_prefix(GROUP_PREFIX) {
                let number = number.parse().map_err(|_| StateError::NotAGroup(key.clone()))?;
                state.groups.insert(number, parsed(key, value)?);
            } else if let Some(name) = key.strip_prefix(READER_PREFIX) {
                state.readers.insert(name.to_owned(), parsed(key, value)?);
            }
        }
        Ok(state)
    }

    /// The change of the object that makes `before` this, with the next version.
    pub(crate) fn change_from(&self, before: &Self) -> ObjectChange {
        let (old, new) = (before.pairs(before.version), self.pairs(before.version + 1));
        let remove = old.keys().filter(|key| !new.contains_key(*key)).cloned().collect();
        let is_new = before.version == 0;
        let set = new.into_iter().filter(|(key, value)| is_new || old.get(key) != Some(value)).collect();
        let mut relies_on = Pairs::new();
        if !is_new {
            relies_on.insert(VERSION_KEY.to_owned(), before.version.to_string().into_bytes());
        }
        ObjectChange { exclusive: is_new, relies_on, set, remove, ..ObjectChange::default() }
    }

    fn pairs(&self, version: u64) -> Pairs {
        let mut pairs = Pairs::new();
        pairs.insert(FORMAT_KEY.to_owned(), self.format.0.to_string().into_bytes());
        pairs.insert(VERSION_KEY.to_owned(), version.to_string().into_bytes());
        pairs.insert(CONFIG_KEY.to_owned(), written(&self.config));
        if self.secrets != SecretRotation::default() {
            pairs.insert(SECRETS_KEY.to_owned(), written(&self.secrets));
        }
        if let Some(pause) = &self.pause {
            pairs.insert(PAUSE_KEY.to_owned(), written(pause));
        }
        if self.added != Added::default() {
            pairs.insert(ADDED_KEY.to_owned(), written(&self.added));
        }
        if !self.drained.is_empty() {
            pairs.insert(DRAINED_KEY.to_owned(), written(&self.drained));
        }
        for (name, gateway) in &self.gateways {
            pairs.insert(format!("{GATEWAY_PREFIX}{name}"), written(gateway));
        }
        for (number, group) in &self.groups {
            pairs.insert(format!("{GROUP_PREFIX}{number}"), written(group));
        }
        for (name, reads) in &self.readers {
            pairs.insert(format!("{READER_PREFIX}{name}"), written(reads));
        }
        pairs
    }

    /// True if this is a gateway that may serve, in this epoch.
    pub(crate) fn is_alive(&self, owner: &Owner) -> bool {
        self.gateways
            .get(&owner.gateway)
            .is_some_and(|gateway| gateway.life == Life::Alive && gateway.epoch == owner.epoch)
    }

    /// The gateways that may serve.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (&String, &Gateway)> {
        self.gateways.iter().filter(|(_, gateway)| gateway.life == Life::Alive)
    }

    /// True if it has the load-balancing groups of all namespaces of this configuration.
    pub(crate) fn has_groups_of(&self, config: &FabricConfig) -> bool {
        let mut namespaces = config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        namespaces.all(|namespace| self.groups.contains_key(&namespace.ana_group))
    }

    /// The load-balancing groups of this owner.
    pub(crate) fn owned<'a>(&'a self, owner: &'a Owner) -> impl Iterator<Item = u32> + 'a {
        let owned = self.groups.iter().filter(move |(_, group)| group.owner.as_ref() == Some(owner));
        owned.map(|(number, _)| *number)
    }

    #[cfg(test)]
    pub(crate) fn register(&mut self, me: &Owner, listeners: &[Listener]) -> Result<u16, GroupFull> {
        self.begin_epoch(me, listeners, &BTreeMap::new())
    }

    /// Adds this gateway to the group, or gives it a new epoch in it. Groups of its former epoch
    /// without another owner stay its own, behind a fence, except those of `next_owners`.
    pub(crate) fn begin_epoch(
        &mut self,
        me: &Owner,
        listeners: &[Listener],
        next_owners: &BTreeMap<u32, Owner>,
    ) -> Result<u16, GroupFull> {
        self.bury(&me.gateway, |state, number| {
            let next_owner = next_owners.get(&number).filter(|next_owner| state.is_alive(next_owner));
            Some(next_owner.unwrap_or(me).clone())
        });
        // A removed gateway's load-balancing group has its number for a while yet.
        let taken = |number: &u16| {
            self.groups.contains_key(&u32::from(*number))
                || self.gateways.values().any(|gateway| gateway.number == *number)
        };
        let number = match self.gateways.get(&me.gateway) {
            Some(known) => known.number,
            None => (1..=GATEWAYS_MAX).find(|number| !taken(number)).ok_or(GroupFull)?,
        };
        // A former version removes a gateway and leaves this: who comes by its name is another one.
        if !self.gateways.contains_key(&me.gateway) {
            self.drained.remove(&me.gateway);
        }
        let gateway = Gateway {
            number,
            epoch: me.epoch,
            life: Life::Alive,
            addresses: Vec::new(),
            listeners: listeners.to_vec(),
            ports: Vec::new(),
            location: self.location_of(&me.gateway).map(str::to_owned),
            unknown: Unknown::new(),
        };
        self.readers.insert(me.gateway.clone(), Reads::own(me.epoch));
        self.gateways.insert(me.gateway.clone(), gateway);
        self.groups.entry(u32::from(number)).or_insert_with(|| LoadBalancingGroup {
            preferred: me.gateway.clone(),
            owner: Some(me.clone()),
            state: Phase::HandingOver,
            fence: Vec::new(),
            unknown: Unknown::new(),
        });
        Ok(number)
    }

    /// Gives a gateway up: it may no longer serve, and what it has served gets another owner, behind a fence.
    pub(crate) fn bury(&mut self, name: &str, mut next_owner: impl FnMut(&Self, u32) -> Option<Owner>) {
        let Some(dead) = self.gateways.get_mut(name).filter(|gateway| gateway.life == Life::Alive) else {
            return;
        };
        dead.life = Life::Dead;
        let addresses = std::mem::take(&mut dead.addresses);
        let dead = Owner { gateway: name.to_owned(), epoch: dead.epoch };
        for number in self.owned(&dead).collect::<Vec<_>>() {
            let owner = next_owner(self, number);
            let Some(group) = self.groups.get_mut(&number) else { continue };
            group.fence.extend(addresses.iter().cloned());
            group.fence.sort();
            group.fence.dedup();
            group.hand_to(owner);
        }
    }

    /// The connections of a gateway's images; none when it may not serve.
    pub(crate) fn addresses(&self, owner: &Owner) -> &[String] {
        let gateway = self.gateways.get(&owner.gateway).filter(|_| self.is_alive(owner));
        gateway.map_or(&[], |gateway| &gateway.addresses)
    }

    /// True if this gateway has as many connections as it may have.
    pub(crate) fn has_all_connections(&self, me: &Owner) -> bool {
        self.addresses(me).len() >= GATEWAY_CONNECTIONS_MAX
    }

    /// Forgets connections of this gateway's that are on the blocklist, and whether there were any: one that was given up has
    /// left them to the next owners of its groups.
    pub(crate) fn forget_addresses(&mut self, me: &Owner, fenced: &BTreeSet<String>) -> bool {
        let count = self.addresses(me).len();
        if count > 0
            && let Some(gateway) = self.gateways.get_mut(&me.gateway)
        {
            gateway.addresses.retain(|address| !fenced.contains(address));
        }
        self.addresses(me).len() < count
    }

    /// Records a new connection of this gateway's; `false` when it may not serve.
    #[must_use]
    pub(crate) fn add_address(&mut self, me: &Owner, address: &str) -> bool {
        if !self.is_alive(me) {
            return false;
        }
        let gateway = self.gateways.get_mut(&me.gateway).expect("it is alive");
        gateway.addresses.push(address.to_owned());
        true
    }
}

impl LoadBalancingGroup {
    /// Gives it to another owner, who has to see to the fence first.
    pub(crate) fn hand_to(&mut self, owner: Option<Owner>) {
        self.owner = owner;
        self.state = if self.fence.is_empty() { Phase::HandingOver } else { Phase::Fencing };
    }
}

/// The version that these pairs have. The first is 1, and each has a next one.
pub(crate) fn version_in(pairs: &Pairs) -> Option<u64> {
    let version: u64 = std::str::from_utf8(pairs.get(VERSION_KEY)?).ok()?.parse().ok()?;
    (1..u64::MAX).contains(&version).then_some(version)
}

fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data without maps of odd keys")
}

fn parsed<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, StateError> {
    let damaged =
        |error: serde_json::Error| StateError::Damaged { key: key.to_owned(), reason: error.to_string() };
    serde_json::from_slice(value).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(gateway: &str, epoch: u64) -> Owner {
        Owner { gateway: gateway.to_owned(), epoch }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut state = GroupState::default();
        let listener = Listener { address: "10.0.0.1".to_owned(), service: 4420 };
        assert_eq!(state.register(&owner("a", 7), &[listener]), Ok(1));
        assert_eq!(state.register(&owner("b", u64::MAX), &[]), Ok(2));
        assert!(state.add_address(&owner("a", 7), "v2:127.0.0.1:0/1"));
        let first = state.change_from(&GroupState::default());
        assert!(first.exclusive && first.relies_on.is_empty());
        state.version = 1;
        assert_eq!(GroupState::of_pairs(&first.set), Ok(state.clone()));
        let mut next = state.clone();
        next.groups.get_mut(&2).unwrap().state = Phase::Serving;
        let unchanged = next.pairs(1);
        assert!(!unchanged.contains_key(SECRETS_KEY));
        next.secrets = next.secrets.next(std::time::Duration::from_secs(1), std::time::SystemTime::now());
        assert_eq!(GroupState::of_pairs(&next.pairs(1)), Ok(next.clone()));
        next.secrets = SecretRotation::default();
        let second = next.change_from(&state);
        assert_eq!(second.set.keys().collect::<Vec<_>>(), ["ana.2", "version"]);
        assert_eq!(second.relies_on.get("version").map(Vec::as_slice), Some(&b"1"[..]));
    }

    #[test]
    fn namespaces_of_a_former_version_have_their_identities() {
        let image = engine::backend::BackendConfig::Null { size: 4096 };
        let namespace = engine::target::NamespaceConfig::new(1, image, 4096);
        let mut state = GroupState::default();
        let subsystem = engine::target::SubsystemConfig::new("nqn.test:a", "A", "Selvedge");
        state.config.subsystems.push(subsystem.with(vec![namespace]));
        let former = GroupState::of_pairs(&state.change_from(&GroupState::default()).set).unwrap();
        let uuid = former.config.subsystems[0].namespaces[0].uuid;
        assert_eq!(uuid, Some("bdd75a1b-21d5-5582-92cb-343217d5167e".parse().unwrap()));
        let again = GroupState::of_pairs(&former.change_from(&GroupState::default()).set).unwrap();
        assert_eq!(again.config, former.config);
    }

    #[test]
    fn an_invalid_state_is_reported_with_its_key() {
        let mut state = GroupState::default();
        assert_eq!(state.register(&owner("a", 7), &[]), Ok(1));
        let pairs = state.change_from(&GroupState::default()).set;
        for (key, value, expected) in [
            ("format", "9", "format 9"),
            ("reads.a", "{}", "reads.a"),
            ("version", "x", "no version"),
            ("version", "0", "no version"),
            ("version", "18446744073709551615", "no version"),
            ("gateway.a", "{}", "gateway.a"),
            ("ana.x", "{}", "ana.x"),
            ("config", "", "config"),
            ("secrets", "{}", "secrets"),
            ("write_pause", "{}", "write_pause"),
            ("added", "[]", "added"),
            ("drained", "{}", "drained"),
        ] {
            let mut pairs = pairs.clone();
            pairs.insert(key.to_owned(), value.as_bytes().to_vec());
            let what = GroupState::of_pairs(&pairs).unwrap_err().to_string();
            assert!(what.contains(expected), "{key}: {what}");
        }
    }

    #[test]
    fn who_comes_back_keeps_its_number_and_fences_what_it_was() {
        let mut state = GroupState::default();
        assert_eq!(state.register(&owner("a", 1), &[]), Ok(1));
        assert!(state.add_address(&owner("a", 1), "x"));
        assert_eq!(state.register(&owner("a", 2), &[]), Ok(1));
        assert!(!state.add_address(&owner("a", 1), "y"), "the former epoch may no longer do anything");
        let group = &state.groups[&1];
        assert_eq!(
            (&group.owner, &group.fence, group.state),
            (&Some(owner("a", 2)), &vec!["x".to_owned()], Phase::Fencing)
        );
    }

    #[test]
    fn what_a_newer_version_has_added_stays_when_something_else_is_changed() {
        let mut state = GroupState::default();
        assert_eq!(state.register(&owner("a", 1), &[]), Ok(1));
        assert_eq!(state.register(&owner("b", 1), &[]), Ok(2));
        let mut pairs = state.change_from(&GroupState::default()).set;
        let mut insert = |key: &str, field: &str| {
            let mut record: Value = serde_json::from_slice(&pairs[key]).unwrap();
            record[field] = serde_json::json!({ "a": [1, null] });
            pairs.insert(key.to_owned(), serde_json::to_vec(&record).unwrap());
        };
        insert("gateway.a", "new");
        insert("ana.2", "newer");
        pairs.insert("newest.a".to_owned(), b"?".to_vec());
        let before = GroupState::of_pairs(&pairs).unwrap();
        let mut after = before.clone();
        assert!(after.add_address(&owner("a", 1), "x"));
        after.groups.get_mut(&2).unwrap().hand_to(None);
        let change = after.change_from(&before);
        assert_eq!(change.remove, Vec::<String>::new());
        assert_eq!(change.set.keys().collect::<Vec<_>>(), ["ana.2", "gateway.a", "version"]);
        for (key, field) in [("gateway.a", "new"), ("ana.2", "newer")] {
            let record: Value = serde_json::from_slice(&change.set[key]).unwrap();
            assert_eq!(record[field], serde_json::json!({ "a": [1, null] }), "{key}");
        }
    }

    #[test]
    fn records_have_what_the_first_version_knows_and_nothing_else() {
        let mut state = GroupState::default();
        assert_eq!(state.register(&owner("a", 1), &[]), Ok(1));
        let pairs = state.change_from(&GroupState::default()).set;
        let fields = |key: &str| {
            let record: BTreeMap<String, Value> = serde_json::from_slice(&pairs[key]).unwrap();
            record.into_keys().collect::<Vec<_>>()
        };
        let of_gateway = fields("gateway.a");
        // And the epoch, under its former name.
        let known = ["addresses", "life", "listeners", "number"].map(str::to_owned);
        assert!(
            of_gateway.len() == 5 && known.iter().all(|field| of_gateway.contains(field)),
            "{of_gateway:?}"
        );
        assert_eq!(fields("ana.1"), ["owner", "preferred", "state"]);
    }

    #[test]
    fn connections_have_an_end() {
        let (mut state, me) = (GroupState::default(), owner("a", 1));
        assert_eq!(state.register(&me, &[]), Ok(1));
        for number in 0..GATEWAY_CONNECTIONS_MAX {
            assert!(!state.has_all_connections(&me), "{number}");
            assert!(state.add_address(&me, &number.to_string()));
        }
        assert!(state.has_all_connections(&me));
        let me = owner("a", 2);
        assert_eq!(state.register(&me, &[]), Ok(1));
        assert!(!state.has_all_connections(&me), "another epoch counts from the start");
    }

    #[test]
    fn who_was_given_up_forgets_nothing() {
        let (mut state, me) = (GroupState::default(), owner("a", 1));
        assert_eq!(state.register(&me, &[]), Ok(1));
        let [x, y] = ["x", "y"].map(str::to_owned);
        assert!(state.add_address(&me, &x) && state.add_address(&me, &y));
        assert!(!state.forget_addresses(&me, &BTreeSet::from(["z".to_owned()])));
        assert!(state.forget_addresses(&me, &BTreeSet::from([x.clone()])));
        assert_eq!(state.addresses(&me), ["y"]);
        assert_eq!(state.register(&owner("a", 2), &[]), Ok(1));
        assert!(state.add_address(&owner("a", 2), &x));
        assert!(!state.forget_addresses(&me, &BTreeSet::from([x, y.clone()])));
        assert_eq!((state.addresses(&me), &state.groups[&1].fence), (&[][..], &vec![y]));
        assert_eq!(state.addresses(&owner("a", 2)), ["x"]);
    }

    #[test]
    fn a_new_epoch_gives_groups_away_behind_its_fence() {
        let mut state = GroupState::default();
        let [me, other, gone] = [owner("a", 1), owner("b", 1), owner("c", 1)];
        for gateway in [&me, &other, &gone] {
            state.register(gateway, &[]).unwrap();
        }
        state
            .groups
            .values_mut()
            .for_each(|group| *group = LoadBalancingGroup { owner: Some(me.clone()), ..group.clone() });
        assert!(state.add_address(&me, "x"));
        state.bury("c", |_, _| None);
        let again = owner("a", 2);
        let next_owners = BTreeMap::from([(1, other.clone()), (2, gone)]);
        assert_eq!(state.begin_epoch(&again, &[], &next_owners), Ok(1));
        // Who has died meanwhile gets nothing.
        let owners: Vec<_> = state.groups.values().map(|group| group.owner.clone().unwrap()).collect();
        assert_eq!(owners, [other, again.clone(), again.clone()]);
        assert!(state.groups.values().all(|group| group.fence == ["x"] && group.state == Phase::Fencing));
        assert!(state.is_alive(&again) && !state.is_alive(&me));
    }

    #[test]
    fn a_group_has_an_end() {
        let mut state = GroupState::default();
        for number in 1..=GATEWAYS_MAX {
            assert_eq!(state.register(&owner(&format!("g{number}"), 1), &[]), Ok(number));
        }
        assert_eq!(state.register(&owner("one more", 1), &[]), Err(GroupFull));
        assert_eq!(state.register(&owner("g3", 2), &[]), Ok(3));
    }

    #[test]
    fn a_former_groups_configuration_is_read() {
        // As the version before one schema of configuration wrote it.
        let recorded = include_str!("recorded/group.json");
        let pair = |key: &str, value: &str| (key.to_owned(), value.as_bytes().to_vec());
        let pairs = Pairs::from([pair(FORMAT_KEY, "1"), pair(VERSION_KEY, "7"), pair(CONFIG_KEY, recorded)]);
        let config = GroupState::of_pairs(&pairs).unwrap().config;
        let subsystem = &config.subsystems[0];
        assert_eq!(
            subsystem.namespaces.iter().map(|n| (n.nsid, n.ana_group)).collect::<Vec<_>>(),
            [(4, 1), (5, 1)]
        );
        let image = subsystem.namespaces[0].backend.to_owned();
        assert!(matches!(image, engine::backend::BackendConfig::Rbd(image) if image.image == "a disk"));
        assert_eq!((subsystem.command_quiesce_ms, config.referrals.len()), (Some(60_500), 2));
        // Nothing that must be kept is lost when it is written again.
        let again = GroupState { config: config.clone(), version: 8, ..GroupState::default() };
        assert_eq!(GroupState::of_pairs(&again.pairs(8)).unwrap().config, config);
    }
}
