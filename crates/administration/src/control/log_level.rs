//! `/v1/log`: how much is logged, until the target ends.

use serde::{Deserialize, Serialize};

use super::ask::{Answer, Ask};
use super::refusal::Refusal;
use crate::log;

/// Level of the log.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Log")]
pub(super) struct LogBody {
    /// error, warn, info, debug or trace, or levels of modules, as in `info,engine::target=debug`.
    level: String,
}

pub(super) fn show(_: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&LogBody { level: log::level() })
}

pub(super) fn put(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let wanted: LogBody = ask.body()?;
    let _stays = ask.administration.stay()?;
    log::set_level(&wanted.level).map_err(|reason| Refusal::unprocessable(reason).about("level"))?;
    // A warning: the log explains its own change at nearly every level.
    tracing::warn!(log_level = wanted.level, "the log level has changed");
    Answer::with(&wanted)
}
