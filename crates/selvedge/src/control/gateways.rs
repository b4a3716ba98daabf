//! `/v1/gateways`: the group of gateways that the target belongs to.

use super::ask::{Answer, Ask};
use super::refusal::Refusal;

pub(super) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    match ask.administration.membership() {
        Some(membership) => Answer::with(&membership.status()),
        None => {
            let refusal = Refusal::not_found("this target is no gateway of a group");
            Err(refusal.hint("`selvedge serve --gateway-group` starts one"))
        }
    }
}
