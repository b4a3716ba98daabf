//! `/v1/config` and `/v1/status`: all of what is served, and how it is.

use engine::target::{Change, FabricConfig};
use serde::Serialize;

use super::ask::{Answer, Ask};
use super::bodies::FabricBody;
use super::guard::Permissions;
use super::images;
use super::refusal::Refusal;

/// What a declarative change did, or would do.
#[derive(Serialize)]
struct Changes {
    changes: Vec<Change>,
    dry_run: bool,
}

pub(super) fn config(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&ask.administration.fabric())
}

pub(super) fn put_config(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let permissions = Permissions { shrink: ask.flag("shrink")? };
    let wanted = ask.body::<FabricBody>()?.into_config()?;
    let dry_run = ask.flag("dry_run")?;
    if !dry_run {
        images::check_new(&ask.administration.fabric(), &wanted)?;
    }
    let replace = |fabric: &mut FabricConfig| {
        *fabric = settle(fabric, wanted);
        Ok(())
    };
    let changes = if dry_run {
        ask.administration.rehearse(permissions, replace)?
    } else {
        ask.administration.change(permissions, replace)?.1
    };
    Answer::with(&Changes { changes, dry_run })
}

/// A port that may have any free service keeps the one it has.
fn settle(served: &FabricConfig, mut wanted: FabricConfig) -> FabricConfig {
    for port in wanted.ports.iter_mut().filter(|port| port.address.port() == 0) {
        let same = served.ports.iter().find(|old| old.id == port.id && old.address.ip() == port.address.ip());
        port.address = same.map_or(port.address, |old| old.address);
    }
    wanted
}

pub(super) fn status(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&ask.administration.status())
}
