//! Observations that a scene must not have: broken protocol, connections lost for no reason, threads that do not rest.

use engine::observation::Observation;
use engine::simulation::{Judge, Outcome};

use crate::plan::Plan;
use crate::{group_check, leaver};

/// Turns that a thread which minds a path may have: to begin with, and for each second, in which it may try to connect
/// twenty times.
const TURNS_AT_FIRST: u64 = 1_500;
const TURNS_PER_S: u64 = 400;

/// Judge of a scene's observations.
pub(crate) fn of(plan: &Plan) -> Judge {
    match () {
        () if plan.is_calm() => judge_in_calm,
        () if plan.damages() => judge,
        () => judge_without_damage,
    }
}

/// Both ends are ours: neither may have anything to say against the other.
fn judge(_: &str, observation: Observation) -> Option<&'static str> {
    if let Observation::PeerRests { controller_id, random_number } = observation {
        return group_check::judge_rest(controller_id, random_number);
    }
    (observation == Observation::ProtocolViolation).then_some("an end broke the protocol")
}

/// The same for a scene in which no byte is changed on its way.
fn judge_without_damage(who: &str, observation: Observation) -> Option<&'static str> {
    let is_broken = observation == Observation::ChannelBroken;
    is_broken.then_some("a secure channel broke for no reason").or_else(|| judge(who, observation))
}

/// The same for a scene without mishaps: no connection is lost except those of a leaver in the middle of its work.
fn judge_in_calm(who: &str, observation: Observation) -> Option<&'static str> {
    let is_lost = observation == Observation::ConnectionLost && !who.starts_with(leaver::PROCESS);
    is_lost
        .then_some("a connection was lost for no reason")
        .or_else(|| judge_without_damage(who, observation))
}

/// A thread that only minds a path, and had far more turns than that takes.
pub(crate) fn restless(outcome: &Outcome) -> Option<&(String, u64)> {
    let most = TURNS_AT_FIRST + outcome.time.as_secs() * TURNS_PER_S;
    // A leaver asks for its controller's status over and over.
    let minds = |name: &str| {
        !name.starts_with(leaver::PROCESS)
            && ["/admin", "/path-", "/quiesce"].iter().any(|part| name.contains(part))
    };
    outcome.turns.iter().find(|(name, turns)| minds(name) && *turns > most)
}
