//! `/v1/gateways`: the group of gateways that the target belongs to.

use gateway::Membership;
use serde::Deserialize;

use super::ask::{Answer, Ask, Rehearsed};
use super::refusal::Refusal;

pub(super) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&membership(ask)?.status())
}

/// Changes of a gateway.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GatewayPatch")]
pub(super) struct GatewayPatch {
    /// True to have the gateway serve nothing while another one can.
    drained: bool,
    /// Do so even if no other gateway can serve now, or hosts have no path to one.
    #[serde(default)]
    force: bool,
}

pub(super) fn patch(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let wanted: GatewayPatch = ask.body()?;
    let (membership, name) = (membership(ask)?, ask.part("name"));
    if let Some(preview) = ask.preview {
        let words = membership.outlook(name, wanted.drained, wanted.force)?;
        preview.replace(Some(Rehearsed::Else(words)));
        return Err(Refusal::not_made());
    }
    membership.set_drained(name, wanted.drained, wanted.force)?;
    let shown = membership.status().gateways.into_iter().find(|gateway| gateway.name == name);
    Answer::with(&shown.ok_or_else(|| Refusal::conflict(format!("gateway {name} was removed meanwhile")))?)
}

/// Gives a gateway that has returned its load-balancing groups, if this gateway has them.
pub(super) fn fail_back(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    membership(ask)?.fail_back(ask.part("name"))?;
    Ok(Answer::done())
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
