//! `/metrics`: what the target has done, for Prometheus. What is counted is the engine's.

use engine::target::CONTENT_TYPE;

use super::ask::{Answer, Ask};
use super::refusal::Refusal;

pub(super) fn answer(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Ok(Answer::text(CONTENT_TYPE, ask.administration.metrics().to_prometheus()))
}
