//! What a gateway has to do next, from the group's state, what it knows of the others and what it serves. It is a pure
//! function: it reads nothing, has no clock and does nothing.
//!
//! Three rules keep two gateways from writing to one load-balancing group. It has one owner, which changes by a change of
//! the group's state alone. A gateway that gives a group away lets go of its images before it changes the state. One
//! that gets a dead gateway's group uses its images after the dead one's connections are on the blocklist. A lease says
//! when to do so; nothing is lost when it is wrong.

use std::collections::BTreeSet;

use super::format::Reads;
use super::lease::Peers;
use super::state::{GroupState, Life, Listener, Owner, Phase};

/// What a gateway knows beside the group's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) me: &'a Owner,
    /// Whether it has beaten within its lease.
    pub(crate) has_lease: bool,
    /// Whether it is to end.
    pub(crate) is_leaving: bool,
    pub(crate) peers: &'a Peers,
    /// The connections that it has put on the blocklist itself.
    pub(crate) fenced: &'a BTreeSet<String>,
    /// Those of them that it has put there once more since it has their images' locks.
    pub(crate) confirmed: &'a BTreeSet<String>,
    /// The load-balancing groups whose images it has for itself now.
    pub(crate) held: &'a BTreeSet<u32>,
    /// Those of them that its hosts are served.
    pub(crate) open: &'a BTreeSet<u32>,
    /// Whether commands on its images have taken too long since it began: they may be carried out yet.
    pub(crate) has_late: bool,
    /// Whether no host has been at it for a while.
    pub(crate) is_deserted: bool,
    /// Where hosts find it.
    pub(crate) listeners: &'a [Listener],
    /// Which formats it reads; nothing while another process of it comes, which may read less.
    pub(crate) reads: Option<&'a Reads>,
}

/// What a gateway has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) standing: Standing,
    /// The load-balancing groups whose images it is to have for itself.
    pub(crate) hold: BTreeSet<u32>,
    /// Those of them that its hosts are to be served.
    pub(crate) open: BTreeSet<u32>,
    /// Connections to put on the blocklist.
    pub(crate) fence: BTreeSet<String>,
    /// Connections to put there once more: librbd, which takes a dead one's lock, puts it there for an hour, whatever it was before.
    pub(crate) confirm: BTreeSet<String>,
    /// What the state is to be, if it is still the one that this was decided by.
    pub(crate) write: Option<GroupState>,
}

/// What a gateway is to its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    #[default]
    Member,
    /// The others have given it up, or it cannot give anything away as it is: it lets go of everything, and comes back in another
    /// epoch, whose first act is to shut out its former connections.
    Expelled,
    /// Another gateway has its name now, or it was removed: it no longer has a place.
    Replaced,
    /// It has ended in order.
    Left,
}

/// Decides.
pub(crate) fn decide(state: &GroupState, view: &View<'_>) -> Decision {
    let standing = standing(state, view.me);
    if standing != Standing::Member {
        return Decision { standing, ..Decision::default() };
    }
    let mut decision = Decision::default();
    for number in state.owned(view.me) {
        let group = &state.groups[&number];
        let is_going = state.is_to_be_dissolved(number) || successor(state, view, number).is_some();
        if view.is_leaving || is_going {
            // Who gets it must not find writes after its own that were sent here long before.
            if view.has_lease && view.has_late {
                return Decision { standing: Standing::Expelled, ..Decision::default() };
            }
            continue;
        }
        let missing = group.fence.iter().filter(|address| !view.fenced.contains(*address));
        let missing: Vec<String> = missing.cloned().collect();
        if missing.is_empty() {
            decision.hold.insert(number);
        }
        if view.open.contains(&number) {
            let confirm = group.fence.iter().filter(|address| !view.confirmed.contains(*address));
            decision.confirm.extend(confirm.cloned());
        }
        decision.fence.extend(missing);
    }
    if view.has_lease {
        decision.open = decision.hold.clone();
        let wanted = wanted(state, view);
        decision.write = (wanted != *state).then_some(wanted);
    } else {
        // A gateway that cannot know whether the others still consider it alive keeps what it has, and takes nothing.
        decision.hold.retain(|number| view.held.contains(number));
        decision.fence.clear();
        decision.confirm.clear();
    }
    decision
}

fn standing(state: &GroupState, me: &Owner) -> Standing {
    match state.gateways.get(&me.gateway) {
        Some(record) if record.epoch == me.epoch => match record.life {
            Life::Alive => Standing::Member,
            Life::Dead => Standing::Expelled,
            Life::Left => Standing::Left,
        },
        _ => Standing::Replaced,
    }
}

/// The gateway that this load-balancing group goes to, when it is this gateway's to give: back to the one that it is
/// preferred for, or to one that hosts are at.
fn successor(state: &GroupState, view: &View<'_>, number: u32) -> Option<Owner> {
    let group = &state.groups[&number];
    // Who has just taken over finishes that first.
    if group.state != Phase::Serving {
        return None;
    }
    let home = view.peers.settled.get(&group.preferred).filter(|name| **name != view.me.gateway);
    if let Some(home) = home.filter(|name| is_found(view, name)) {
        return epoch_of(state, home);
    }
    // Without a lease it does not know where hosts are, and cannot give anything away.
    if !view.has_lease || is_found(view, &view.me.gateway) {
        return None;
    }
    heir(state, view)
}

/// Whether hosts find what this gateway serves: they are at it, or at none. Who has come elsewhere just now may come to this
/// one, too.
fn is_found(view: &View<'_>, name: &str) -> bool {
    let me = &view.me.gateway;
    !is_deserted(view, name) || view.is_deserted && view.peers.visited.iter().all(|name| name == me)
}

fn is_deserted(view: &View<'_>, name: &str) -> bool {
    if name == view.me.gateway { view.is_deserted } else { view.peers.deserted.contains(name) }
}

fn epoch_of(state: &GroupState, name: &str) -> Option<Owner> {
    let gateway = state.gateways.get(name).filter(|gateway| gateway.life == Life::Alive)?;
    Some(Owner { gateway: name.to_owned(), epoch: gateway.epoch })
}

/// The state as it should be, as far as this gateway may change it.
fn wanted(state: &GroupState, view: &View<'_>) -> GroupState {
    let mut wanted = state.clone();
    for number in state.owned(view.me) {
        finish(&mut wanted, state, view, number);
    }
    if view.is_leaving {
        leave(&mut wanted, view);
        return wanted;
    }
    for name in view.peers.lapsed.iter().filter(|name| **name != view.me.gateway) {
        wanted.bury(name, |state, _| heir(state, view));
    }
    adopt(&mut wanted, view);
    if let Some(record) = wanted.gateways.get_mut(&view.me.gateway)
        && record.listeners != view.listeners
    {
        record.listeners = view.listeners.to_vec();
    }
    if let Some(reads) = view.reads {
        wanted.readers.insert(view.me.gateway.clone(), reads.clone());
        wanted.format = wanted.common_format();
    }
    wanted
}

/// One of this gateway's groups: that it serves it now, or that it has let go of it for another, or for good.
fn finish(wanted: &mut GroupState, state: &GroupState, view: &View<'_>, number: u32) {
    let is_released = !view.held.contains(&number);
    if !view.is_leaving && state.is_to_be_dissolved(number) {
        if is_released {
            wanted.dissolve(number);
        }
        return;
    }
    let heir = if view.is_leaving {
        is_released.then(|| heir(wanted, view))
    } else {
        successor(state, view, number).filter(|_| is_released).map(Some)
    };
    let Some(group) = wanted.groups.get_mut(&number) else { return };
    if let Some(owner) = heir {
        group.hand_to(owner);
    } else if group.state != Phase::Serving && view.open.contains(&number) {
        let is_fenced = group.fence.iter().all(|address| view.confirmed.contains(address));
        if is_fenced {
            group.fence.clear();
            group.state = Phase::Serving;
        }
    }
}

/// Ends this gateway, once it has no load-balancing group.
fn leave(wanted: &mut GroupState, view: &View<'_>) {
    if wanted.owned(view.me).next().is_none()
        && let Some(record) = wanted.gateways.get_mut(&view.me.gateway)
    {
        record.life = Life::Left;
        record.addresses.clear();
        record.listeners.clear();
    }
}

/// Gives load-balancing groups that nobody has to somebody.
fn adopt(wanted: &mut GroupState, view: &View<'_>) {
    let numbers: Vec<u32> = wanted.groups.keys().copied().collect();
    for number in numbers {
        let group = &wanted.groups[&number];
        if group.owner.as_ref().is_some_and(|owner| wanted.is_alive(owner)) {
            continue;
        }
        let is_well = group.preferred == view.me.gateway || view.peers.well.contains(&group.preferred);
        let is_home = is_well && is_found(view, &group.preferred);
        let preferred = epoch_of(wanted, &group.preferred).filter(|_| is_home);
        let owner = preferred.or_else(|| heir(wanted, view));
        if let Some(group) = wanted.groups.get_mut(&number) {
            group.hand_to(owner);
        }
    }
}

/// Who gets another load-balancing group: of the gateways that are well, and that hosts are at where they are at any, the one
/// with the fewest, this one before others.
fn heir(state: &GroupState, view: &View<'_>) -> Option<Owner> {
    let mut candidates: Vec<(bool, usize, bool, &String)> = Vec::new();
    for (name, gateway) in state.alive() {
        let is_me = *name == view.me.gateway;
        if is_me && view.is_leaving || !is_me && !view.peers.well.contains(name) {
            continue;
        }
        let owner = Owner { gateway: name.clone(), epoch: gateway.epoch };
        candidates.push((is_deserted(view, name), state.owned(&owner).count(), !is_me, name));
    }
    candidates.sort_unstable();
    candidates.first().and_then(|(.., name)| epoch_of(state, name))
}
