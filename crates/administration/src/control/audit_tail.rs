//! `/v1/audit`: the end of the audit log, for those who may do everything: it says who they are, and from where they came.

use super::ask::{Answer, Ask};
use super::refusal::Refusal;

pub(super) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&ask.administration.audit().tail()?)
}
