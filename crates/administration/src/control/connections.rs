//! `/v1/connections` and `/v1/controllers`: which hosts are connected, and the end of a controller.

use engine::target::ControllerStatus;
use serde::Serialize;

use super::ask::{Answer, Ask};
use super::refusal::Refusal;

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Connections {
    controllers: Vec<ControllerStatus>,
}

pub(super) fn list(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&Connections { controllers: ask.administration.status().controllers })
}

pub(super) fn reset(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let cntlid = ask.number("cntlid")?;
    if ask.administration.reset_controller(cntlid)? {
        Ok(Answer::done())
    } else {
        Err(Refusal::not_found(format!("there is no controller {cntlid}")))
    }
}
