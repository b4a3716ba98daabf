//! The two processes of an upgrade, as the program has them: what one offers and the other opens. What they decide is the
//! engine's.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::hand_over::{
    Channel as _, Greeting, HandOverError, NotOffered, OldProcess, Process, TakeOverOutcome,
};
use engine::ring::{Hold, Moment, tcp};
use engine::simulation::{self, ProcessId, disk, sleep};
use engine::target::Target;
use engine::target::hand_over::{Offer, Releases, TargetProtocol, Word};
use gateway::Membership;
use serde_json::Value;

use crate::gateway_hand_over::OldGateway;
use crate::scene::Scene;
use crate::target;
use crate::upgrade::{State, Upgrade};
use crate::upgrade_channel::{Descriptor, UpgradeChannel};
use crate::upgrade_plan::{Trouble, Version};

/// Limit on the time in which the old process ends.
pub(crate) const END: Duration = Duration::from_secs(30);
/// Limit on the time in which a process dies whose identity the new one needs.
pub(crate) const DEATH: Duration = Duration::from_secs(3);
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// The other process, whether it lives.
pub(crate) struct OtherProcess(pub(crate) ProcessId);

impl Process for OtherProcess {
    fn has_died(&self, time: Duration) -> bool {
        has_died_within(self.0, time)
    }
}

/// True if a process ends in this time.
pub(crate) fn has_died_within(process: ProcessId, time: Duration) -> bool {
    let until: Moment = simulation::now().after(time);
    while !simulation::has_died(process) && simulation::now() < until {
        sleep(LOOK_INTERVAL);
    }
    simulation::has_died(process)
}

/// The old process, as the new one sees it.
pub(crate) struct WatchedProcess {
    process: OtherProcess,
    has_resumed: Rc<Cell<bool>>,
}

impl WatchedProcess {
    pub(crate) fn of(process: ProcessId, opened: &Opened) -> Self {
        Self::marked_by(process, opened.has_resumed.clone())
    }

    /// Process that marks a void state so.
    pub(crate) fn marked_by(process: ProcessId, has_resumed: Rc<Cell<bool>>) -> Self {
        Self { process: OtherProcess(process), has_resumed }
    }
}

impl Process for WatchedProcess {
    fn has_died(&self, time: Duration) -> bool {
        self.process.has_died(time)
    }
}

impl OldProcess for WatchedProcess {
    fn has_resumed(&self) -> bool {
        self.has_resumed.get()
    }
}

/// Hands a target's process over by `hand` for an upgrade. It makes no change meanwhile.
pub(crate) fn leave(
    scene: &Scene,
    number: usize,
    hand: impl FnOnce(&Upgrade, &UpgradeChannel) -> Result<bool, HandOverError> + 'static,
) -> Option<State> {
    let upgrade = scene.targets[number].upgrade.borrow().clone()?;
    if upgrade.old != simulation::current_process() {
        return None;
    }
    if let Some(channel) = upgrade.channel.take() {
        let upgrade = upgrade.clone();
        simulation::start_thread("upgrade", move || {
            let outcome = hand(&upgrade, &channel);
            drop(channel);
            simulation::say(|| format!("the old process: {outcome:?}"));
            let is_over = matches!(outcome, Ok(true));
            upgrade.old_is(if is_over { State::Ends { is_alone: false } } else { State::Serves });
        });
    }
    Some(upgrade.old_state())
}

/// Hands a target over.
pub(crate) fn leave_target(
    target: &Target,
    upgrade: &Upgrade,
    channel: &UpgradeChannel,
) -> Result<bool, HandOverError> {
    let Greeting::Comes { knows, .. } = Greeting::hear::<TargetProtocol>(channel)? else { return Ok(false) };
    or_refuse(channel, target.obstacles())?;
    hand_over(target, (upgrade, channel), &knows, (Value::Null, &mut ()))
}

/// Hands a gateway over.
pub(crate) fn leave_gateway(
    target: &Target,
    membership: &Membership,
    upgrade: &Upgrade,
    channel: &UpgradeChannel,
) -> Result<bool, HandOverError> {
    let Greeting::Comes { knows, .. } = Greeting::hear::<TargetProtocol>(channel)? else { return Ok(false) };
    or_refuse(channel, [target.obstacles(), membership.obstacles()].concat())?;
    let mut old_gateway = match OldGateway::new(target, membership) {
        Ok(old_gateway) => old_gateway,
        Err(reason) => return or_refuse(channel, vec![reason.to_string()]).map(|()| false),
    };
    hand_over(target, (upgrade, channel), &knows, (old_gateway.offered(), &mut old_gateway))
}

/// Refuses for these reasons, if there are any.
fn or_refuse(channel: &UpgradeChannel, reasons: Vec<String>) -> Result<(), HandOverError> {
    if reasons.is_empty() {
        return Ok(());
    }
    let _ = channel.say(&Word::Refused(reasons.clone()), &[]);
    Err(HandOverError::Obstacles(reasons))
}

fn hand_over(
    target: &Target,
    (upgrade, channel): (&Upgrade, &UpgradeChannel),
    knows: &[String],
    (beside, releases): (Value, &mut impl Releases),
) -> Result<bool, HandOverError> {
    simulation::spare()?;
    let has_resumed = Rc::new(Cell::new(false));
    let listening = target.listening()?;
    let holds = target.holds()?;
    let needs_more = upgrade.trouble == Trouble::Version(Version::NeedsMore);
    let offer = Offer {
        needs: if needs_more { vec!["made-up".to_owned()] } else { Vec::new() },
        fabric: target.config().with_identities(&target.namespace_identities()),
        listening: listening.len(),
        beside,
        memories: Vec::new(),
    };
    let mut descriptors: Vec<Descriptor> = listening.into_iter().map(Descriptor::Listening).collect();
    descriptors.extend(holds.into_iter().map(Descriptor::Hold));
    descriptors.push(Descriptor::HasResumed(has_resumed.clone()));
    channel.say_with(&Word::Offer(Box::new(offer)), descriptors)?;
    let Some(new) = upgrade.new_process() else { return Ok(false) };
    target.hand_over_to(channel, (&OtherProcess(new), knows), releases, || has_resumed.set(true))
}

/// Files and sockets of the old process.
pub(crate) struct Opened {
    pub(crate) listening: Vec<Arc<tcp::Opened>>,
    pub(crate) holds: Vec<Hold>,
    has_resumed: Rc<Cell<bool>>,
}

impl Opened {
    fn of(offer: &Offer, descriptors: Vec<Descriptor>) -> Option<Self> {
        let mut has_resumed = None;
        let (mut listening, mut holds) = (Vec::new(), Vec::new());
        for descriptor in descriptors {
            match descriptor {
                Descriptor::Listening(socket) => listening.push(Arc::new(socket)),
                Descriptor::Hold(hold) => holds.push(hold),
                Descriptor::HasResumed(flag) => has_resumed = Some(flag),
                Descriptor::Socket(_) | Descriptor::OfDisk(_) | Descriptor::ListeningForGuests(_) => {
                    return None;
                }
            }
        }
        (listening.len() == offer.listening).then_some(has_resumed).flatten().map(|has_resumed| Self {
            listening,
            holds,
            has_resumed,
        })
    }
}

/// Offer of the old process, with its files and sockets.
pub(crate) fn offered(channel: &UpgradeChannel) -> Result<(Offer, Opened), NotOffered> {
    let (offer, descriptors) = Offer::ask(channel, "0.2.0")?;
    match Opened::of(&offer, descriptors) {
        Some(opened) => Ok((offer, opened)),
        None => Err(NotOffered::Refused("it offers less than it says".to_owned())),
    }
}

/// The life of the new process.
pub(crate) fn live(scene: &Rc<Scene>, number: usize, upgrade: &Rc<Upgrade>, channel: UpgradeChannel) {
    let ends = || upgrade.new_is(State::Ends { is_alone: simulation::has_died(upgrade.old) });
    let (offer, opened) = match offered(&channel) {
        Ok(offered) => offered,
        Err(NotOffered::Silence(_)) => {
            drop(channel);
            // Where the old process lives, it has what this one does not get.
            let has_died = has_died_within(upgrade.old, END);
            return restart(scene, number, upgrade, &[], has_died);
        }
        Err(NotOffered::Refused(reason)) => {
            simulation::say(|| format!("the new process is refused: {reason}"));
            return ends();
        }
    };
    let old = WatchedProcess::of(upgrade.old, &opened);
    disk::inherit(opened.holds);
    let Some(target) = target::start_held(scene, offer.fabric, opened.listening.clone()) else {
        return ends();
    };
    disk::forget();
    let taken = target.take_place(&channel, &old, &mut ());
    simulation::say(|| format!("the new process: {taken:?}"));
    match taken {
        Ok(TakeOverOutcome::Serves) => {}
        Ok(TakeOverOutcome::StartsAnew(_)) => {
            drop((target, channel));
            return restart(scene, number, upgrade, &opened.listening, true);
        }
        Err(_) => return ends(),
    }
    // Hosts that come and go may do so at that very moment.
    if scene.plan.is_calm() && scene.plan.only_hosts() {
        let controllers = target.status().controllers;
        upgrade.check_controllers(&controllers.iter().map(|one| (one.cntlid, one.queues.len())).collect());
    }
    upgrade.new_is(State::Serves);
    let _ = channel.say(&Word::Serving, &[]);
    drop(channel);
    if !old.has_died(END) {
        simulation::say(|| "the old process has not ended yet".to_owned());
    }
    serve(scene, number, target);
}

/// Serves as after the end of any process. Where the old one lives after all, it has what this one does not get.
fn restart(
    scene: &Rc<Scene>,
    number: usize,
    upgrade: &Upgrade,
    inherited: &[Arc<tcp::Opened>],
    tries_again: bool,
) {
    let node = &scene.targets[number];
    let fabric = node.served.borrow().clone();
    let Some(target) = target::start(scene, fabric, inherited, tries_again) else {
        return upgrade.new_is(State::Ends { is_alone: simulation::has_died(upgrade.old) });
    };
    upgrade.new_is(State::ServesAnew);
    serve(scene, number, target);
}

fn serve(scene: &Rc<Scene>, number: usize, target: Target) {
    scene.targets[number].process.set(simulation::current_process());
    if scene.plan.loses() {
        scene.history.borrow_mut().may_have_lost();
    }
    target::serve_on(scene, number, target);
}
