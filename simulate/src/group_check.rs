//! Rules by which no gateway writes beside another, checked whenever the group or the lock of an
//! image changes, and whenever a host is notified that a lost gateway's controller is at rest. Also
//! determines the phase of a takeover.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine::limits::GATEWAY_CONTROLLERS;
use engine::simulation::MachineId;
use engine::simulation::rados::{self, View};
use serde_json::Value;

use crate::gateway_plan::{GROUP, GatewayPlan, POOL, image};
use crate::scene::{Scene, TargetNode};
use crate::takeover_phase::Phase;

thread_local! {
    /// The machines of the scene's gateways, for who judges what they say.
    static MACHINES: RefCell<Vec<MachineId>> = const { RefCell::new(Vec::new()) };
    /// The controllers of which their own gateways have said that they rest. That is true of the order alone: what a gateway has sent
    /// and has waited for too long comes before all that it sends later, and others use the image only when it is shut out.
    static WORDS: RefCell<BTreeSet<(u16, u64)>> = const { RefCell::new(BTreeSet::new()) };
}

/// The name of an epoch in the group's state, which groups that are there have.
pub(crate) const EPOCH: &str = "incarnation";

type Pairs = BTreeMap<String, Vec<u8>>;

/// The load-balancing group of an image, as the group's state has it.
struct Record {
    owner: Option<usize>,
    state: String,
    /// The connections that have to be shut out, by their numbers.
    fence: Vec<usize>,
}

/// Looks from now on.
pub(crate) fn begin(scene: &Rc<Scene>, plan: &GatewayPlan) {
    MACHINES.set(scene.targets.iter().map(|node| node.machine).collect());
    WORDS.take();
    let (scene, volumes) = (Rc::downgrade(scene), plan.groups.len());
    let (last, fences, known) = (RefCell::new(vec![None; volumes]), RefCell::default(), RefCell::default());
    rados::check_always(move |view| {
        let scene = scene.upgrade()?;
        if let Some(client) = forgotten_fence(view, &mut fences.borrow_mut()) {
            return Some(format!("the group no longer knows that connection {client} has to be shut out"));
        }
        WORDS.with_borrow_mut(|words| words.extend(rested(view)));
        let records = records(view, volumes);
        let stages = records.iter().enumerate();
        *scene.stages.borrow_mut() =
            stages.map(|(volume, record)| stage(&scene, view, (volume, record.as_deref()))).collect();
        let broken = records.iter().enumerate().find_map(|(volume, record)| {
            let holder = view.holder(POOL, &image(volume));
            let is_new = std::mem::replace(&mut last.borrow_mut()[volume], holder) != holder;
            let broken = || broken_rule(&scene, (volume, record.as_deref()?), (view, is_new));
            late_writer(view, volume, is_new).or_else(broken)
        });
        broken.or_else(|| unknown_opener(view, volumes, &mut known.borrow_mut()))
    });
}

fn object() -> String {
    format!("selvedge.group.{GROUP}")
}

/// The load-balancing groups of all volumes: namespaces change theirs.
fn records(view: &View<'_>, volumes: usize) -> Vec<Option<Rc<Record>>> {
    let mut records = vec![None; volumes];
    let Some(pairs) = view.pairs(POOL, &object()) else { return records };
    let config = pairs.get("config").and_then(|config| serde_json::from_slice::<Value>(config).ok());
    let config = config.unwrap_or_default();
    let subsystems = config["subsystems"].as_array().into_iter().flatten();
    let namespaces = subsystems.filter_map(|subsystem| subsystem["namespaces"].as_array()).flatten();
    let mut groups: BTreeMap<u64, Option<Rc<Record>>> = BTreeMap::new();
    for namespace in namespaces {
        let group = namespace["ana_group"].as_u64().unwrap_or(1);
        let volume = namespace["nsid"].as_u64().map(|nsid| nsid as usize - 1);
        if let Some(place) = volume.and_then(|volume| records.get_mut(volume)) {
            place.clone_from(groups.entry(group).or_insert_with(|| record(pairs, group).map(Rc::new)));
        }
    }
    records
}

fn record(pairs: &Pairs, group: u64) -> Option<Record> {
    let value: Value = serde_json::from_slice(pairs.get(&format!("ana.{group}"))?).ok()?;
    let owner = value["owner"]["gateway"].as_str().and_then(number_of);
    let state = value["state"].as_str()?.to_owned();
    let fence = connections(&value["fence"]);
    Some(Record { owner, state, fence })
}

/// The controllers of which gateways say now that they rest. What was said is not said forever.
fn rested(view: &View<'_>) -> Vec<(u16, u64)> {
    let beats = view.pairs(POOL, &format!("selvedge.beats.{GROUP}")).into_iter().flatten();
    let beats = beats.filter_map(|(_, value)| serde_json::from_slice::<Value>(value).ok());
    let lost = |lost: &Value| Some((lost["cntlid"].as_u64()? as u16, lost["random_number"].as_u64()?));
    beats
        .flat_map(|beat| beat["rested"].as_array().into_iter().flatten().filter_map(lost).collect::<Vec<_>>())
        .collect()
}

/// A connection that was to be shut out and no longer is, without having been.
fn forgotten_fence(view: &View<'_>, last: &mut BTreeSet<usize>) -> Option<usize> {
    let pairs = view.pairs(POOL, &object())?;
    let groups = pairs.iter().filter(|(key, _)| key.starts_with("ana."));
    let now: BTreeSet<usize> = groups
        .filter_map(|(_, value)| serde_json::from_slice::<Value>(value).ok())
        .flat_map(|group| connections(&group["fence"]))
        .collect();
    let before = std::mem::replace(last, now);
    before.difference(last).find(|client| !view.is_shut_out(**client)).copied()
}

fn connections(value: &Value) -> Vec<usize> {
    let addresses = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    addresses.filter_map(|address| address.strip_prefix("client:")?.parse().ok()).collect()
}

/// The number of the gateway with this name.
pub(crate) fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix('g')?.parse().ok()
}

/// Violation: a new holder of a lock while commands of others are under way, which could take
/// effect after its own writes. A connection that was on the blocklist and is so no longer is for
/// another rule: the library takes the lock when it can, be that late.
fn late_writer(view: &View<'_>, volume: usize, is_new: bool) -> Option<String> {
    let image = image(volume);
    let holder = view.holder(POOL, &image).filter(|_| is_new)?;
    let writers = view.writers_to(POOL, &image);
    let is_others = |client: usize| client != holder.client && !view.was_shut_out(client);
    writers.into_iter().any(|(client, _)| is_others(client)).then(|| {
        format!("the lock of {image} is taken while writes of another connection may yet take effect")
    })
}

/// Violation: an image that is open on a connection which has never been in the group's state, so
/// that no gateway can put it on the blocklist.
fn unknown_opener(view: &View<'_>, volumes: usize, known: &mut BTreeSet<usize>) -> Option<String> {
    let records = view.pairs(POOL, &object())?.iter().filter(|(key, _)| key.starts_with("gateway."));
    let records = records.filter_map(|(_, value)| serde_json::from_slice::<Value>(value).ok());
    known.extend(records.flat_map(|record| connections(&record["addresses"])));
    (0..volumes).map(image).find_map(|image| {
        let is_unknown = view.openers(POOL, &image).iter().any(|client| !known.contains(client));
        is_unknown.then(|| format!("{image} is open on a connection that the group has never known of"))
    })
}

/// Violation of a rule at present, with a lock that is new or was there before: then earlier
/// preconditions may be over.
fn broken_rule(
    scene: &Scene,
    (volume, record): (usize, &Record),
    (view, is_new): (&View<'_>, bool),
) -> Option<String> {
    let Record { owner, state, fence } = record;
    let owner = *owner;
    let image = image(volume);
    let node = scene.targets.get(owner?)?;
    let is_others = |(_, machine): &(usize, MachineId)| *machine != node.machine;
    if state == "handing_over" && view.writers_to(POOL, &image).iter().any(is_others) {
        return Some(format!("{image} was handed over while writes of another gateway may yet take effect"));
    }
    let holder = view.holder(POOL, &image)?;
    let is_owner = holder.machine == node.machine;
    let is_done = holder.has_let_go || view.is_shut_out(holder.client) || view.has_died(holder.process);
    if matches!(state.as_str(), "handing_over" | "serving") && !is_owner && !is_done {
        return Some(format!("{image} belongs to another gateway, and its former owner still has it"));
    }
    let is_new_owner = is_owner && !fence.contains(&holder.client) && !is_done;
    if is_new && is_new_owner && fence.iter().any(|client| !view.was_shut_out(*client)) {
        return Some(format!("{image} is locked before the former owner's connections are shut out"));
    }
    let writes = || view.writers_to(POOL, &image).iter().any(|(client, _)| *client == holder.client);
    if is_new_owner && fence.iter().any(|client| !view.is_shut_out(*client)) && writes() {
        return Some(format!("{image} is written while the former owner's connections are not shut out"));
    }
    let is_known = fence.contains(&holder.client) || addresses(view, owner?).contains(&holder.client);
    if is_owner && !is_known && !is_done {
        return Some(format!("{image} is locked on a connection that the group does not know of"));
    }
    None
}

/// The connections that a gateway has written down.
fn addresses(view: &View<'_>, gateway: usize) -> Vec<usize> {
    let record = view.pairs(POOL, &object()).and_then(|pairs| pairs.get(&format!("gateway.g{gateway}")));
    let record = record.and_then(|value| serde_json::from_slice::<Value>(value).ok()).unwrap_or_default();
    connections(&record["addresses"])
}

/// Violation by a notification that nothing of this controller takes effect from now on.
pub(crate) fn judge_rest(controller_id: u16, random_number: u64) -> Option<&'static str> {
    let number = controller_id.saturating_sub(1) / GATEWAY_CONTROLLERS + 1;
    let (name, record) = rados::look(|view| {
        let mut records = view.pairs(POOL, &object())?.iter().filter_map(|(key, value)| {
            Some((key.strip_prefix("gateway.")?.to_owned(), serde_json::from_slice::<Value>(value).ok()?))
        });
        records.find(|(_, record)| record["number"] == number)
    })?;
    if WORDS.with_borrow(|words| words.contains(&(controller_id, random_number))) {
        return None;
    }
    let machine = MACHINES.with_borrow(|machines| machines.get(number_of(&name)?).copied())?;
    // The connections of an epoch that is there are not those of a controller of another.
    let is_of_now = record[EPOCH].as_u64().is_some_and(|epoch| (epoch >> 32).max(1) == random_number >> 32);
    if is_of_now && record["life"] == "alive" {
        return Some("a host is notified that a controller is at rest whose gateway may serve");
    }
    let present = connections(&record["addresses"]);
    let is_late =
        rados::look(|view| view.writers(machine)).into_iter().any(|client| !present.contains(&client));
    is_late.then_some(
        "a host is notified that a controller is at rest whose gateway's writes may yet take effect",
    )
}

/// True if the group has no such gateway.
pub(crate) fn is_removed(gateway: usize) -> bool {
    rados::look(|view| {
        view.pairs(POOL, &object()).is_some_and(|pairs| !pairs.contains_key(&format!("gateway.g{gateway}")))
    })
}

/// True if a gateway is to serve nothing as long as another one can.
pub(crate) fn is_drained(gateway: usize) -> bool {
    drained().contains(&gateway)
}

/// All of these.
pub(crate) fn drained() -> BTreeSet<usize> {
    let value = rados::look(|view| {
        let value = view.pairs(POOL, &object())?.get("drained")?;
        serde_json::from_slice::<Value>(value).ok()
    });
    let names = value.unwrap_or_default();
    names.as_array().into_iter().flatten().filter_map(Value::as_str).filter_map(number_of).collect()
}

/// True if no load-balancing group is a gateway's.
pub(crate) fn serves_nothing(gateway: usize) -> bool {
    rados::look(|view| {
        let pairs = view.pairs(POOL, &object()).into_iter().flatten();
        let groups = pairs.filter(|(key, _)| key.starts_with("ana."));
        let records = groups.filter_map(|(_, value)| serde_json::from_slice::<Value>(value).ok());
        records.into_iter().all(|group| {
            group["owner"]["gateway"].as_str().and_then(number_of) != Some(gateway)
                && group["state"] == "serving"
        })
    })
}

/// The records of gateways or load-balancing groups in the group's state, by what their keys have after this prefix.
pub(crate) fn records_of(prefix: &str) -> BTreeMap<String, Value> {
    values(&object(), prefix)
}

/// The last heartbeats of gateways, by their names.
pub(crate) fn beats() -> BTreeMap<String, Value> {
    values(&format!("selvedge.beats.{GROUP}"), "")
}

fn values(object: &str, prefix: &str) -> BTreeMap<String, Value> {
    rados::look(|view| {
        let pairs = view.pairs(POOL, object).into_iter().flatten();
        let values = pairs.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?, value)));
        values
            .filter_map(|(name, value)| Some((name.to_owned(), serde_json::from_slice(value).ok()?)))
            .collect()
    })
}

/// True if each gateway of the group serves its own load-balancing group, and no fence is left:
/// with all well and with hosts, that is so in the end.
pub(crate) fn is_settled() -> bool {
    let (gateways, groups) = (records_of("gateway."), records_of("ana."));
    let is_home = |group: &Value| {
        let gateway = group["preferred"].as_str().and_then(|name| gateways.get(name));
        gateway.is_some_and(|gateway| {
            group["owner"]["gateway"] == group["preferred"]
                && group["owner"][EPOCH] == gateway[EPOCH]
                && group["state"] == "serving"
                && connections(&group["fence"]).is_empty()
        })
    };
    let count = MACHINES.with_borrow(Vec::len);
    drained().is_empty()
        && gateways.len() == count
        && groups.len() == count
        && gateways.values().all(|gateway| gateway["life"] == "alive")
        && groups.values().all(is_home)
}

/// Phase of an image's takeover, with the gateways that take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stage {
    /// Phase, whether or not its owner is alive. None before the group has the image.
    phase: Option<Phase>,
    /// Present or next owner.
    pub(crate) owner: Option<usize>,
    /// Holder of its lock.
    pub(crate) holder: Option<usize>,
}

fn stage(scene: &Scene, view: &View<'_>, (volume, record): (usize, Option<&Record>)) -> Stage {
    let Some(Record { owner, state, fence }) = record else { return Stage::default() };
    let owner = *owner;
    let holder = view.holder(POOL, &image(volume)).map(|holder| holder.machine);
    let holder = scene.targets.iter().position(|node| Some(node.machine) == holder);
    let phase = match state.as_str() {
        _ if owner.is_none() => Phase::Unowned,
        "serving" => Phase::Served,
        "handing_over" if holder != owner => Phase::HandedOver,
        "handing_over" => Phase::HandedOverLocked,
        _ if fence.iter().any(|client| !view.is_shut_out(*client)) => Phase::GivenUp,
        _ if holder != owner => Phase::Fenced,
        _ => Phase::FencedLocked,
    };
    Stage { phase: Some(phase), owner, holder }
}

impl Stage {
    /// Phase at present.
    pub(crate) fn phase(&self, targets: &[TargetNode]) -> Option<Phase> {
        let is_gone = |node: &TargetNode| !node.is_running.get() || node.is_down();
        let owner = self.owner.and_then(|owner| targets.get(owner));
        match self.phase {
            Some(Phase::Served) if owner.is_some_and(is_gone) => Some(Phase::OwnerGone),
            phase => phase,
        }
    }
}
