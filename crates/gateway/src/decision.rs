//! What a gateway has to do next, from the group's state, what it knows of the others and what it serves. It is a pure
//! function: it reads nothing, has no clock and does nothing.
//!
//! Three rules keep two gateways from writing to one load-balancing group. It has one owner, which changes by a change of
//! the group's state alone. A gateway that gives a group away lets go of its images before it changes the state. One
//! that gets a dead gateway's group takes its images after the dead one's connections are on the blocklist. A lease says when
//! to do so; nothing is lost when it is wrong.

use std::collections::{BTreeMap, BTreeSet};

use super::format::{Format, Reads};
use super::gateway_port::GatewayPort;
use super::lease::Peers;
use super::state::{GroupState, Life, Listener, Owner, Phase};

/// State of a gateway that is not in the group's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) me: &'a Owner,
    /// The epochs that it has asked to begin, and of which it does not know whether it has.
    pub(crate) tried: &'a BTreeSet<u64>,
    /// True if it has sent a heartbeat within its lease.
    pub(crate) has_lease: bool,
    /// True if it is to end.
    pub(crate) is_leaving: bool,
    pub(crate) peers: &'a Peers,
    /// The connections that it has put on the blocklist itself.
    pub(crate) fenced: &'a BTreeSet<String>,
    /// The load-balancing groups whose images it has for itself now.
    pub(crate) held: &'a BTreeSet<u32>,
    /// The held groups that it serves to its hosts.
    pub(crate) open: &'a BTreeSet<u32>,
    /// True if commands on its images have taken too long since its epoch began: they may still be
    /// executed.
    pub(crate) has_late: bool,
    /// True if hosts have been sent to other gateways with commands that are under way here, or
    /// such commands have an unknown outcome.
    pub(crate) has_given_up: bool,
    /// True if no host has had a controller at it for a while.
    pub(crate) is_deserted: bool,
    /// Addresses at which hosts find it.
    pub(crate) listeners: &'a [Listener],
    /// Further properties of these ports, for other gateways.
    pub(crate) ports: &'a [GatewayPort],
    /// Location, if it has one.
    pub(crate) location: Option<&'a str>,
    /// Formats that it reads. None while another process takes the gateway over, which may read
    /// fewer.
    pub(crate) reads: Option<&'a Reads>,
}

impl<'a> View<'a> {
    /// View of a gateway that has its lease and serves what it holds, with nothing else to say.
    pub(crate) fn of_serving(me: &'a Owner, peers: &'a Peers, held: &'a BTreeSet<u32>) -> Self {
        static NOT_TRIED: BTreeSet<u64> = BTreeSet::new();
        static NOT_FENCED: BTreeSet<String> = BTreeSet::new();
        Self {
            me,
            tried: &NOT_TRIED,
            has_lease: true,
            is_leaving: false,
            peers,
            fenced: &NOT_FENCED,
            held,
            open: held,
            has_late: false,
            has_given_up: false,
            is_deserted: false,
            listeners: &[],
            ports: &[],
            location: None,
            reads: None,
        }
    }
}

/// Next actions of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) standing: Standing,
    /// The load-balancing groups whose images it is to have for itself.
    pub(crate) hold: BTreeSet<u32>,
    /// The held groups to serve to its hosts.
    pub(crate) open: BTreeSet<u32>,
    /// Connections to put on the blocklist.
    pub(crate) fence: BTreeSet<String>,
    /// New owners of load-balancing groups of a gateway that starts a new epoch. It keeps the
    /// others.
    pub(crate) next_owners: BTreeMap<u32, Owner>,
    /// The next state, valid only while the state that this was decided by is unchanged.
    pub(crate) write: Option<GroupState>,
}

/// Standing of a gateway in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    #[default]
    Member,
    /// The others have given it up, or it cannot give anything away as it is: it lets go of everything, and comes back in another
    /// epoch, whose first act is to shut out its former connections.
    Expelled,
    /// Another gateway has its name now, or it was removed: it no longer has a place.
    Replaced,
    /// The gateway has ended in order.
    Left,
}

/// Decides.
pub(crate) fn decide(state: &GroupState, view: &View<'_>) -> Decision {
    let standing = standing(state, view);
    if standing != Standing::Member {
        return Decision { standing, ..Decision::default() };
    }
    if view.has_lease && view.has_given_up {
        return start_new_epoch(state, view);
    }
    let mut decision = Decision::default();
    for number in state.owned(view.me) {
        let group = &state.groups[&number];
        let is_going = state.is_to_be_dissolved(number) || recipient(state, view, number).is_some();
        if view.is_leaving || is_going {
            // Who gets it must not find writes after its own that were sent here long before.
            if view.has_lease && view.has_late {
                return start_new_epoch(state, view);
            }
            continue;
        }
        let missing = group.fence.iter().filter(|address| !view.fenced.contains(*address));
        let missing: Vec<String> = missing.cloned().collect();
        if missing.is_empty() {
            decision.hold.insert(number);
        }
        decision.fence.extend(missing);
    }
    if view.has_lease {
        decision.open.clone_from(&decision.hold);
        let wanted = wanted(state, view);
        decision.write = (wanted != *state).then_some(wanted);
    } else {
        // A gateway that cannot know whether the others still consider it alive keeps what it has, and takes nothing.
        decision.hold.retain(|number| view.held.contains(number));
        decision.fence.clear();
    }
    decision
}

/// Makes a gateway that is still alive in the group put its own connections on the blocklist.
/// Groups for other gateways are handed over at once, behind the fence: reclaiming them first would
/// make hosts wait for two fences.
fn start_new_epoch(state: &GroupState, view: &View<'_>) -> Decision {
    let own = state.owned(view.me).filter(|number| !state.is_to_be_dissolved(*number));
    let next_owners = own.filter_map(|number| {
        let next_owner =
            if view.is_leaving { next_owner(state, view, number) } else { recipient(state, view, number) };
        Some((number, next_owner?))
    });
    Decision { standing: Standing::Expelled, next_owners: next_owners.collect(), ..Decision::default() }
}

fn standing(state: &GroupState, view: &View<'_>) -> Standing {
    match state.gateways.get(&view.me.gateway) {
        Some(record) if record.epoch == view.me.epoch => match record.life {
            Life::Alive => Standing::Member,
            Life::Dead => Standing::Expelled,
            Life::Left => Standing::Left,
        },
        // What it has asked for has happened after all: it is itself that has its place.
        Some(record) if view.tried.contains(&record.epoch) => Standing::Expelled,
        _ => Standing::Replaced,
    }
}

/// The gateway that this load-balancing group goes to, when it is this gateway's to give: back to the one that it is
/// preferred for, or to its location, or to one that hosts are at.
fn recipient(state: &GroupState, view: &View<'_>, number: u32) -> Option<Owner> {
    let group = &state.groups[&number];
    // Who has just taken over finishes that first.
    if group.state != Phase::Serving {
        return None;
    }
    let me = &view.me.gateway;
    let home = view.peers.returned.get(&group.preferred).filter(|name| *name != me);
    if let Some(home) = home.filter(|name| !state.is_drained(name) && is_found(state, view, name)) {
        return epoch_of(state, home);
    }
    // Without a lease it does not know where hosts are, and cannot give anything away.
    if !view.has_lease {
        return None;
    }
    let nearer = nearer(state, view, number);
    if nearer.is_some() || !state.is_drained(me) && is_found(state, view, me) {
        return nearer;
    }
    // A drained gateway serves on and can wait: a gateway that has just connected may be gone again.
    let may_have = |next: &Owner| !state.is_drained(me) || view.peers.settled.contains(&next.gateway);
    let next = next_owner(state, view, number);
    next.filter(|next| next.gateway != *me && !state.is_drained(&next.gateway) && may_have(next))
}

/// A gateway of the load-balancing group's location that has returned, when this one is elsewhere: the one with the fewest
/// groups.
fn nearer(state: &GroupState, view: &View<'_>, number: u32) -> Option<Owner> {
    if !state.is_elsewhere(&view.me.gateway, number) {
        return None;
    }
    let is_fit = |name: &&String| {
        !state.is_elsewhere(name, number) && !state.is_drained(name) && is_found(state, view, name)
    };
    let owners = view.peers.returned.iter().filter(is_fit).filter_map(|name| epoch_of(state, name));
    owners.min_by_key(|owner| state.owned(owner).count())
}

/// True if hosts find this gateway: they have controllers at it, or at no gateway that may serve.
/// Hosts that have just connected to another gateway may still connect to this one.
fn is_found(state: &GroupState, view: &View<'_>, name: &str) -> bool {
    let counts_not = |name: &String| *name == view.me.gateway || state.is_drained(name);
    !is_deserted(view, name) || view.is_deserted && view.peers.visited.iter().all(counts_not)
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
        wanted.bury(name, |state, number| next_owner(state, view, number));
    }
    adopt(&mut wanted, view);
    // In the first format readers refuse what they do not know.
    let has_more = wanted.format >= Format(2);
    let (ports, location) = if has_more { (view.ports, view.location) } else { (&[][..], None) };
    if let Some(record) = wanted.gateways.get_mut(&view.me.gateway)
        && (&*record.listeners, &*record.ports, record.location.as_deref())
            != (view.listeners, ports, location)
    {
        (record.listeners, record.ports) = (view.listeners.to_vec(), ports.to_vec());
        record.location = location.map(str::to_owned);
    }
    if let Some(reads) = view.reads {
        wanted.readers.insert(view.me.gateway.clone(), reads.clone());
        wanted.format = wanted.common_format();
    }
    wanted
}

/// Records for one of this gateway's groups that it serves it, or that it has released it to
/// another gateway or for good.
fn finish(wanted: &mut GroupState, state: &GroupState, view: &View<'_>, number: u32) {
    let is_released = !view.held.contains(&number);
    if !view.is_leaving && state.is_to_be_dissolved(number) {
        if is_released {
            wanted.dissolve(number);
        }
        return;
    }
    let next_owner = if view.is_leaving {
        is_released.then(|| next_owner(wanted, view, number))
    } else {
        recipient(state, view, number).filter(|_| is_released).map(Some)
    };
    let Some(group) = wanted.groups.get_mut(&number) else { return };
    if let Some(owner) = next_owner {
        group.hand_to(owner);
    } else if group.state != Phase::Serving && view.open.contains(&number) {
        group.fence.clear();
        group.state = Phase::Serving;
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
        record.ports.clear();
    }
}

/// Gives load-balancing groups without an owner to a gateway.
fn adopt(wanted: &mut GroupState, view: &View<'_>) {
    let numbers: Vec<u32> = wanted.groups.keys().copied().collect();
    for number in numbers {
        let group = &wanted.groups[&number];
        if group.owner.as_ref().is_some_and(|owner| wanted.is_alive(owner)) {
            continue;
        }
        let is_well = group.preferred == view.me.gateway || view.peers.well.contains(&group.preferred);
        let is_home =
            is_well && !wanted.is_drained(&group.preferred) && is_found(wanted, view, &group.preferred);
        let preferred = epoch_of(wanted, &group.preferred).filter(|_| is_home);
        let owner = preferred.or_else(|| next_owner(wanted, view, number));
        if let Some(group) = wanted.groups.get_mut(&number) {
            group.hand_to(owner);
        }
    }
}

/// Next owner of a load-balancing group: of the gateways that are well, the one with the fewest
/// groups, this one first among equals. Gateways that are not drained, those with hosts, and those of
/// the group's location come before others where there are any.
fn next_owner(state: &GroupState, view: &View<'_>, number: u32) -> Option<Owner> {
    let mut candidates: Vec<(bool, bool, bool, bool, usize, bool, &String)> = Vec::new();
    for (name, gateway) in state.alive() {
        let is_me = *name == view.me.gateway;
        if is_me && view.is_leaving || !is_me && !view.peers.well.contains(name) {
            continue;
        }
        let owner = Owner { gateway: name.clone(), epoch: gateway.epoch };
        let (is_drained, is_deserted) = (state.is_drained(name), is_deserted(view, name));
        // One that comes and goes would keep a drained gateway from giving its groups to another.
        let is_restless = state.is_drained(&view.me.gateway) && !view.peers.settled.contains(name);
        let (is_elsewhere, count) = (state.is_elsewhere(name, number), state.owned(&owner).count());
        candidates.push((is_drained, is_deserted, is_restless, is_elsewhere, count, !is_me, name));
    }
    candidates.sort_unstable();
    candidates.first().and_then(|(.., name)| epoch_of(state, name))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    /// Both gateways are well, and hosts are at b.
    fn peers() -> Peers {
        let names: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        Peers {
            well: names.clone(),
            settled: names.clone(),
            returned: names,
            visited: ["b".to_owned()].into(),
            ..Peers::default()
        }
    }

    /// Decision of gateway a with a command that may still be executed, while hosts are at b.
    fn decided(change: impl FnOnce(&mut View<'_>)) -> Decision {
        decided_among(&peers(), change)
    }

    fn decided_among(peers: &Peers, change: impl FnOnce(&mut View<'_>)) -> Decision {
        decided_by(&state(), peers, change)
    }

    /// Gateways a and b serve their own.
    fn state() -> GroupState {
        let mut state = GroupState::default();
        for (name, epoch) in [("a", 1), ("b", 2)] {
            state.register(&Owner { gateway: name.to_owned(), epoch }, &[]).unwrap();
        }
        state.groups.values_mut().for_each(|group| group.state = Phase::Serving);
        state
    }

    fn decided_by(state: &GroupState, peers: &Peers, change: impl FnOnce(&mut View<'_>)) -> Decision {
        let (me, tried) = (Owner { gateway: "a".to_owned(), epoch: 1 }, BTreeSet::from([7]));
        let own = BTreeSet::from([1]);
        let mut view = View { tried: &tried, has_late: true, ..View::of_serving(&me, peers, &own) };
        change(&mut view);
        decide(state, &view)
    }

    #[test]
    fn a_gateway_in_a_new_epoch_without_knowing_it_is_the_same_one() {
        let begun_as = |epoch| {
            let mut state = state();
            state.register(&Owner { gateway: "a".to_owned(), epoch }, &[]).unwrap();
            decided_by(&state, &peers(), |_| {}).standing
        };
        assert_eq!((begun_as(7), begun_as(8)), (Standing::Expelled, Standing::Replaced));
    }

    #[test]
    fn who_has_late_commands_gives_away_by_a_fence_and_at_once() {
        let stays = decided(|_| {});
        assert_eq!((stays.standing, stays.open), (Standing::Member, BTreeSet::from([1])));
        let next_owner = || BTreeMap::from([(1, Owner { gateway: "b".to_owned(), epoch: 2 })]);
        for given in [
            decided(|view| view.is_deserted = true),
            decided(|view| view.is_leaving = true),
            decided(|view| (view.has_late, view.has_given_up, view.is_deserted) = (false, true, true)),
        ] {
            assert_eq!((given.standing, given.next_owners), (Standing::Expelled, next_owner()));
            assert!(given.write.is_none() && given.hold.is_empty());
        }
        let again = decided(|view| (view.has_late, view.has_given_up) = (false, true));
        assert_eq!(
            (again.standing, again.next_owners),
            (Standing::Expelled, BTreeMap::new()),
            "hosts are at it"
        );
        let silent = decided(|view| (view.has_lease, view.has_given_up) = (false, true));
        assert_eq!(silent.standing, Standing::Member, "it cannot give anything away");
    }

    #[test]
    fn a_group_goes_where_hosts_are_once_its_images_are_given_back() {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        let lets_go = decided(|view| (view.has_late, view.is_deserted) = (false, true));
        assert_eq!(
            (lets_go.standing, lets_go.hold, lets_go.write),
            (Standing::Member, BTreeSet::new(), None)
        );
        let gives = decided(|view| {
            (view.has_late, view.is_deserted) = (false, true);
            (view.held, view.open) = (&NONE, &NONE);
        });
        let group = gives.write.expect("it is another one's").groups[&1].clone();
        let other = Owner { gateway: "b".to_owned(), epoch: 2 };
        assert_eq!((group.owner, group.state), (Some(other), Phase::HandingOver));
        let nowhere = Peers { visited: BTreeSet::new(), deserted: ["b".to_owned()].into(), ..peers() };
        let stays = decided_among(&nowhere, |view| (view.has_late, view.is_deserted) = (false, true));
        assert_eq!(stays.open, BTreeSet::from([1]), "no host is anywhere");
    }

    #[test]
    fn a_gateway_that_has_returned_gets_its_group_back_when_it_is_due() {
        static BOTH: LazyLock<BTreeSet<u32>> = LazyLock::new(|| [1, 2].into());
        let mut state = state();
        state.groups.get_mut(&2).expect("it is there").owner =
            Some(Owner { gateway: "a".to_owned(), epoch: 1 });
        let keeps = |peers: &Peers| {
            let decision = decided_by(&state, peers, |view| {
                (view.has_late, view.held, view.open) = (false, &BOTH, &BOTH);
            });
            decision.hold
        };
        assert_eq!(keeps(&Peers { returned: BTreeSet::new(), ..peers() }), *BOTH);
        assert_eq!(keeps(&peers()), BTreeSet::from([1]));
    }

    /// Decision of a when the named gateways are drained, with what it holds and the hosts at it.
    fn drained(names: &[&str], peers: &Peers, change: impl FnOnce(&mut View<'_>)) -> Decision {
        let mut state = state();
        state.drained = names.iter().map(|name| (*name).to_owned()).collect();
        decided_by(&state, peers, |view| {
            view.has_late = false;
            change(view);
        })
    }

    #[test]
    fn a_drained_gateway_serves_only_what_no_other_gateway_can() {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        let own = BTreeSet::from([1]);
        let at_a = Peers { visited: ["a".to_owned()].into(), deserted: ["b".to_owned()].into(), ..peers() };
        for peers in [&peers(), &at_a] {
            assert_eq!(drained(&["a"], peers, |_| {}).hold, NONE, "wherever hosts are");
            let gives = drained(&["a"], peers, |view| (view.held, view.open) = (&NONE, &NONE));
            let next_owner = Owner { gateway: "b".to_owned(), epoch: 2 };
            assert_eq!(gives.write.expect("it is another one's").groups[&1].owner, Some(next_owner));
            assert_eq!(drained(&["a", "b"], peers, |_| {}).hold, own, "one of them has to");
            assert_eq!(drained(&["b"], peers, |view| view.is_deserted = true).hold, own);
        }
        let alone = Peers { well: ["a".to_owned()].into(), settled: ["a".to_owned()].into(), ..at_a.clone() };
        assert_eq!(drained(&["a"], &alone, |_| {}).hold, own);
        let just_come = Peers { settled: ["a".to_owned()].into(), ..at_a };
        assert_eq!(drained(&["a"], &just_come, |_| {}).hold, own, "it may be gone again");
        // It may be that commands are carried out late, here as ever.
        let late = drained(&["a"], &peers(), |view| view.has_late = true);
        assert_eq!((late.standing, late.next_owners.len()), (Standing::Expelled, 1));
    }

    #[test]
    fn a_drained_gateway_does_not_wait_for_one_that_comes_and_goes() {
        let b = Owner { gateway: "b".to_owned(), epoch: 2 };
        let mut state = state();
        state.register(&Owner { gateway: "c".to_owned(), epoch: 3 }, &[]).unwrap();
        state.groups.values_mut().for_each(|group| group.state = Phase::Serving);
        state.groups.get_mut(&3).expect("it is there").owner = Some(b.clone());
        state.drained.insert("a".to_owned());
        let mut peers = peers();
        peers.well.insert("c".to_owned());
        let next_owner = |peers: &Peers| {
            static NONE: BTreeSet<u32> = BTreeSet::new();
            let decision = decided_by(&state, peers, |view| {
                (view.has_late, view.held, view.open) = (false, &NONE, &NONE);
            });
            decision.write.and_then(|state| state.groups[&1].owner.clone())
        };
        assert_eq!(next_owner(&peers), Some(b), "c has fewer groups");
        peers.deserted.insert("b".to_owned());
        assert_eq!(next_owner(&peers), None, "hosts are at c, which may stay");
    }

    #[test]
    fn nothing_goes_to_a_drained_gateway_while_another_is_well() {
        static BOTH: LazyLock<BTreeSet<u32>> = LazyLock::new(|| [1, 2].into());
        let a = Owner { gateway: "a".to_owned(), epoch: 1 };
        let mut state = state();
        state.drained.insert("b".to_owned());
        state.groups.get_mut(&2).expect("it is there").owner = Some(a.clone());
        let keeps = decided_by(&state, &peers(), |view| {
            (view.has_late, view.held, view.open) = (false, &BOTH, &BOTH);
        });
        assert_eq!(keeps.hold, *BOTH, "the gateway that it is for is drained");
        // The group has no owner.
        state.groups.get_mut(&2).expect("it is there").owner = None;
        let adopted = |state: &GroupState, well: &[&str]| {
            let names: BTreeSet<String> = well.iter().map(|name| (*name).to_owned()).collect();
            let peers = Peers { well: names.clone(), settled: names, ..peers() };
            let decision = decided_by(state, &peers, |view| view.has_late = false);
            decision.write.and_then(|state| state.groups[&2].owner.clone())
        };
        assert_eq!(adopted(&state, &["a", "b"]), Some(a.clone()));
        state.drained = ["a".to_owned()].into();
        let b = Owner { gateway: "b".to_owned(), epoch: 2 };
        assert_eq!((adopted(&state, &["a", "b"]), adopted(&state, &["a"])), (Some(b), Some(a)));
    }

    #[test]
    fn hosts_are_served_behind_the_fence() {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        static FENCED: LazyLock<BTreeSet<String>> = LazyLock::new(|| ["dead".to_owned()].into());
        let mut state = state();
        let group = state.groups.get_mut(&1).expect("it is there");
        (group.state, group.fence) = (Phase::Fencing, FENCED.iter().cloned().collect());
        let decided = |change: fn(&mut View<'_>)| {
            let decision = decided_by(&state, &peers(), change);
            [!decision.fence.is_empty(), !decision.hold.is_empty(), !decision.open.is_empty()]
        };
        assert_eq!(decided(|view| (view.held, view.open) = (&NONE, &NONE)), [true, false, false]);
        let fenced = decided(|view| (view.held, view.open, view.fenced) = (&NONE, &NONE, &FENCED));
        assert_eq!(fenced, [false, true, true]);
        let silent = decided(|view| (view.fenced, view.has_lease) = (&FENCED, false));
        assert_eq!(silent, [false, true, false], "it does not know whether it is alive");
        let served = decided_by(&state, &peers(), |view| view.fenced = &FENCED).write.expect("it is served");
        assert!(served.groups[&1].fence.is_empty() && served.groups[&1].state == Phase::Serving);
    }
}
