//! The two processes of a gateway's upgrade, as the program has them: what goes beside the target, which is the gateway's part in
//! its group and the locks of its images.

use std::rc::Rc;
use std::sync::Arc;

use engine::ceph::ClusterConnection;
use engine::hand_over::{Fault, HandOverError, NotOffered, TakeOverOutcome};
use engine::simulation::{self, disk, sleep};
use engine::target::hand_over::{Releases, TakesOver, Word};
use engine::target::{Target, TargetConfig};
use gateway::{HandedMember, Member, Membership, OfferedMember, ServingGuard};
use serde_json::Value;

use crate::gateway::{self as process, AGAIN};
use crate::gateway_plan::GatewayPlan;
use crate::hand_over::{DEATH, END, WatchedProcess, has_died_within, offered};
use crate::scene::Scene;
use crate::upgrade::{State, Upgrade};
use crate::upgrade_channel::UpgradeChannel;

/// Gateway of the old process: releases its membership, and takes it back.
pub(crate) struct OldGateway<'a> {
    target: &'a Target,
    membership: &'a Membership,
    offered: OfferedMember,
    connections: Vec<ClusterConnection>,
    serving_guard: Option<ServingGuard<'a>>,
    has_left: bool,
}

impl<'a> OldGateway<'a> {
    pub(crate) fn new(target: &'a Target, membership: &'a Membership) -> Result<Self, HandOverError> {
        let offered = membership.offer();
        let offered = offered.map_err(|error| HandOverError::program(Fault::ThisProcess, error))?;
        Ok(Self {
            target,
            membership,
            offered,
            connections: Vec::new(),
            serving_guard: None,
            has_left: false,
        })
    }

    /// Offer for the new process.
    pub(crate) fn offered(&self) -> Value {
        serde_json::to_value(&self.offered).expect("plain data")
    }
}

impl Releases for OldGateway<'_> {
    fn introduced(&mut self, said: Value) -> Result<(), HandOverError> {
        let connections = serde_json::from_value(said);
        self.connections = connections.map_err(|error| HandOverError::program(Fault::OtherProcess, error))?;
        Ok(())
    }

    fn hold_still(&mut self) -> Result<(), HandOverError> {
        self.serving_guard = Some(self.membership.serving_guard());
        Ok(())
    }

    fn let_go(&mut self) -> Result<Value, HandOverError> {
        let serving_guard = self.serving_guard.as_deref().expect("everything is held still before");
        let handed = self.membership.hand_over(&self.offered, serving_guard);
        let handed = handed.map_err(|error| HandOverError::program(Fault::ThisProcess, error))?;
        self.target.release_images()?;
        Ok(serde_json::to_value(handed).expect("plain data"))
    }

    fn rest(&mut self) {
        self.membership.rest();
    }

    fn take_back(&mut self, has_refused: bool) {
        let from: &[ClusterConnection] = if has_refused { &[] } else { &self.connections };
        self.target.take_images_back(from);
        self.membership.resume();
    }

    fn begin_again(&mut self) {
        if let Some(serving) = self.serving_guard.as_deref_mut() {
            self.membership.begin_again(serving, self.target);
        }
    }

    fn leave(&mut self) {
        self.has_left = true;
    }
}

impl Drop for OldGateway<'_> {
    fn drop(&mut self) {
        self.serving_guard = None;
        if !self.has_left {
            self.membership.withdraw();
        }
    }
}

/// Gateway of the new process: takes the membership over.
struct NewGateway<'a> {
    target: &'a Arc<Target>,
    member: &'a mut Member,
    offered: &'a OfferedMember,
    has_taken: bool,
}

impl TakesOver for NewGateway<'_> {
    fn introduction(&mut self) -> Result<Option<Value>, HandOverError> {
        let connections = self.target.cluster_connections();
        let connections = connections.map_err(|error| HandOverError::program(Fault::System, error))?;
        Ok((!connections.is_empty()).then(|| serde_json::to_value(connections).expect("plain data")))
    }

    fn take(&mut self, released: &Value) -> Result<(), HandOverError> {
        let handed = serde_json::from_value(released.clone());
        let handed: HandedMember =
            handed.map_err(|error| HandOverError::program(Fault::OtherProcess, error))?;
        let taken = self.member.membership().take_over(self.offered, &handed, self.target);
        taken.map_err(|error| HandOverError::program(Fault::System, error))?;
        self.has_taken = true;
        Ok(())
    }

    fn give_back(&mut self) {
        if std::mem::take(&mut self.has_taken)
            && let Err(reason) = self.target.release_images()
        {
            simulation::say(|| format!("an image stays locked: {reason}"));
        }
    }

    fn go_on(&mut self) -> Result<(), HandOverError> {
        let begun = self.member.go_on(self.target.clone());
        begun.map_err(|error| HandOverError::program(Fault::ThisProcess, error))
    }
}

/// The life of the new process.
pub(crate) fn live(
    scene: &Rc<Scene>,
    number: usize,
    plan: &GatewayPlan,
    upgrade: &Rc<Upgrade>,
    channel: UpgradeChannel,
) {
    let ends = || upgrade.new_is(State::Ends { is_alone: simulation::has_died(upgrade.old) });
    let (offer, opened) = match offered(&channel) {
        Ok(offered) => offered,
        Err(NotOffered::Silence(_)) => {
            drop(channel);
            let has_died = has_died_within(upgrade.old, END);
            return restart(scene, number, plan, upgrade, has_died);
        }
        Err(NotOffered::Refused(reason)) => {
            simulation::say(|| format!("the new process is refused: {reason}"));
            return ends();
        }
    };
    let old = WatchedProcess::of(upgrade.old, &opened);
    disk::inherit(opened.holds);
    let begun = serde_json::from_value(offer.beside).map_err(|error| error.to_string());
    let begun = begun.and_then(|offered: OfferedMember| {
        let member = Member::in_place_of(&process::spec(plan, number), &format!("g{number}"), &offered);
        let member = member.map_err(|error| error.to_string())?;
        let config = process::config(scene, plan, &member, member.first_fabric(&offer.fabric.ports));
        let config = TargetConfig { inherited: opened.listening, is_held: true, ..config };
        let target = Target::start(&config).map_err(|error| error.to_string())?;
        Ok((offered, member, Arc::new(target)))
    });
    let (offered, mut member, target) = match begun {
        Ok(begun) => begun,
        Err(reason) => {
            simulation::say(|| format!("the new gateway does not start: {reason}"));
            drop(channel);
            disk::forget();
            // The others may have given up a gateway whose process died meanwhile: no other process
            // would serve as it.
            if has_died_within(upgrade.old, DEATH) {
                return restart(scene, number, plan, upgrade, true);
            }
            return ends();
        }
    };
    disk::forget();
    let mut new_gateway =
        NewGateway { target: &target, member: &mut member, offered: &offered, has_taken: false };
    let taken = target.take_place(&channel, &old, &mut new_gateway);
    simulation::say(|| format!("the new process: {taken:?}"));
    let state = match taken {
        Ok(TakeOverOutcome::Serves) => State::Serves,
        Ok(TakeOverOutcome::StartsAnew(_)) => match member.continue_as_new(target.clone()) {
            Ok(()) => {
                target.go_on();
                State::ServesAnew
            }
            Err(_) => return ends(),
        },
        Err(_) => return ends(),
    };
    upgrade.new_is(state);
    let _ = channel.say_with(&Word::Serving, Vec::new());
    drop(channel);
    if !has_died_within(upgrade.old, END) {
        simulation::say(|| "the old process has not ended yet".to_owned());
    }
    scene.targets[number].process.set(simulation::current_process());
    process::serve_on(scene, number, plan, (member, target));
}

/// Serves as after the end of any process. One whose name another has that lives does not.
fn restart(scene: &Rc<Scene>, number: usize, plan: &GatewayPlan, upgrade: &Upgrade, tries_again: bool) {
    let begun = loop {
        match process::begin(scene, number, plan) {
            Ok(begun) => break begun,
            Err(reason) => simulation::say(|| format!("gateway {number} does not start: {reason}")),
        }
        if !tries_again || scene.targets[number].ends.get() {
            return upgrade.new_is(State::Ends { is_alone: simulation::has_died(upgrade.old) });
        }
        sleep(AGAIN);
    };
    upgrade.new_is(State::ServesAnew);
    scene.targets[number].process.set(simulation::current_process());
    process::serve_on(scene, number, plan, begun);
}
