//! `/v1/live`, a stream of events, `/v1/history`, what it had in the last hour, `/v1/findings`, what is wrong, and
//! `/v1/topology`, where packets go.

use std::sync::Arc;

use serde::Serialize;

use super::super::access::Identity;
use super::super::ask::{Answer, Ask, PICTURE};
use super::super::refusal::Refusal;
use super::own_flows::own_flows;
use super::own_look::own_look;
use super::packet_paths::Seen;
use super::sampler;
use super::viewer::Viewer;

pub(in crate::control) fn watch(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let once = ask.flag("once")?;
    if ask.caller.identity == Identity::Process {
        return Err(Refusal::unprocessable(
            "a stream goes over a connection, and this request came over none",
        ));
    }
    let administration: &Arc<_> = ask.administration;
    let start = |round| sampler::start(administration, round);
    let messages = administration.live().enter(&ask.caller.identity, start)?;
    Ok(Answer::stream(Viewer::new(messages, once)))
}

pub(in crate::control) fn findings(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let administration = ask.administration;
    Answer::with(&*administration.examiner().examine(|at_s| own_look(administration, at_s)))
}

pub(in crate::control) fn topology(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    compact(&*packet_paths(ask)?)
}

pub(in crate::control) fn topology_picture(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let is_bare = ask.flag("bare")?;
    let paths = packet_paths(ask)?;
    Ok(Answer::text(PICTURE, if is_bare { paths.bare_picture() } else { paths.picture() }))
}

fn packet_paths(ask: &Ask<'_>) -> Result<Arc<Seen>, Refusal> {
    let administration = ask.administration;
    let looked = administration.packet_paths().look(|| own_flows(&administration.status()));
    looked.map_err(|reason| Refusal::new(503, format!("cannot read this machine's packet paths: {reason}")))
}

pub(in crate::control) fn history(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    compact(&ask.administration.live().with_history(|history| history.of_all()))
}

pub(in crate::control) fn namespace_history(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let nsid = ask.number("nsid")?;
    let fabric = ask.administration.fabric();
    let subsystem = ask.subsystem(&fabric)?;
    if !subsystem.namespaces.iter().any(|namespace| namespace.nsid == nsid) {
        return Err(Refusal::not_found(format!("there is no namespace {nsid} in {}", subsystem.nqn)));
    }
    compact(&ask.administration.live().with_history(|history| history.of_namespace(&subsystem.nqn, nsid)))
}

/// Encodes an answer on one line: an hour has thousands of numbers, and so has a large machine;
/// with a line for each the answer would be twice as long.
fn compact(answer: &impl Serialize) -> Result<Answer, Refusal> {
    let text = serde_json::to_string(answer).map_err(|error| Refusal::new(500, error))?;
    Ok(Answer::text("application/json", text + "\n"))
}
