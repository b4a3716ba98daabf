//! `/v1/sweeps`, which sweeps there are, and `/v1/subsystems/{nqn}/sweeps/{name}`, what one of them tells.

use std::time::Instant;

use serde::Serialize;
use serde_json::json;

use super::super::ask::{Answer, Ask, no_subsystem};
use super::super::limits::{SWEEP_BYTES_MAX, SWEEP_NAME_BYTES_MAX};
use super::super::refusal::Refusal;
use super::sweep_board::{Progress, Title};
use super::sweep_body::SweepBody;

/// All that were published here.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(in crate::control) struct Sweeps {
    /// The one that was heard of last first.
    sweeps: Vec<Progress>,
}

/// Subsystem and name of a published sweep.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(in crate::control) struct SweepTitle {
    subsystem: String,
    name: String,
}

pub(in crate::control) fn list(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&Sweeps { sweeps: ask.administration.sweeps().list(Instant::now()) })
}

pub(in crate::control) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let (subsystem, name) = (ask.part("nqn"), ask.part("name"));
    let found = ask.administration.sweeps().get(subsystem, name, Instant::now());
    let absent = || Refusal::not_found(format!("no sweep {name} of {subsystem} was published here"));
    let sweep = found.ok_or_else(|| absent().hint("GET /v1/sweeps says which there are"))?;
    // Hundreds of points with a dozen numbers each, of which no line of its own is worth its room.
    let text = serde_json::to_string(&sweep).map_err(|error| Refusal::new(500, error))?;
    Ok(Answer::text("application/json", text + "\n"))
}

pub(in crate::control) fn publish(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let (subsystem, name) = (ask.part("nqn"), ask.part("name"));
    if ask.body.len() > SWEEP_BYTES_MAX {
        return Err(Refusal::new(413, format!("a sweep has {SWEEP_BYTES_MAX} bytes here at most")));
    }
    if name.is_empty() || name.len() > SWEEP_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let what = format!("a sweep's name is a line of {SWEEP_NAME_BYTES_MAX} bytes at most");
        return Err(Refusal::unprocessable(what).about("name"));
    }
    let body: SweepBody = ask.body()?;
    body.check()?;
    let fabric = ask.administration.fabric();
    let served = fabric.subsystem(subsystem).ok_or_else(|| no_subsystem(subsystem))?;
    if !served.namespaces.iter().any(|namespace| namespace.nsid == body.nsid) {
        let what = format!("there is no namespace {} in {subsystem}", body.nsid);
        return Err(Refusal::unprocessable(what).about("nsid"));
    }
    let title = Title { subsystem, name, owner: &ask.caller.identity };
    let began = body.began.clone();
    if ask.administration.sweeps().publish(title, body, Instant::now())? {
        // That it goes on is nothing to record.
        let record =
            json!({ "change": "sweep_published", "subsystem": subsystem, "name": name, "began": began });
        ask.record.borrow_mut().push(record);
    }
    Answer::with(&SweepTitle { subsystem: subsystem.to_owned(), name: name.to_owned() })
}
