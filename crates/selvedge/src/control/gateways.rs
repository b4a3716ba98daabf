//! `/v1/gateways`: the group of gateways that the target belongs to.

use super::ask::{Answer, Ask};
use super::refusal::Refusal;
use gateway::Membership;

pub(super) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&membership(ask)?.status())
}

pub(super) fn remove(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    membership(ask)?.remove_gateway(ask.part("name"))?;
    Ok(Answer::done())
}

fn membership<'a>(ask: &Ask<'a>) -> Result<&'a Membership, Refusal> {
    ask.administration.membership().ok_or_else(|| {
        let refusal = Refusal::not_found("this target is not in a gateway group");
        refusal.hint("`selvedge serve --gateway-group` starts one")
    })
}
