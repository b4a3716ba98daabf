//! `/v1/config` and `/v1/status`: all of what is served, and how it is.

use engine::target::{Change, FabricConfig, TargetStatus};
use serde::Serialize;

use super::administration::Permissions;
use super::ask::{Answer, Ask};
use super::namespaces::images;
use super::refusal::Refusal;
use super::subsystems::check_subsystem;
use crate::confinement::Confinement;
use crate::version;

/// Result of a declarative change, or of its rehearsal.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Changes {
    changes: Vec<Change>,
    dry_run: bool,
}

/// Version, uptime and state of the target.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Status {
    /// The program's version.
    version: &'static str,
    /// Process identifier, which another process has after an upgrade.
    pid: u32,
    /// Seconds since it started.
    uptime_s: u64,
    /// Rights that the process has given up.
    confinement: Confinement,
    #[serde(flatten)]
    target: TargetStatus,
}

pub(super) fn config(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&ask.administration.fabric())
}

pub(super) fn put_config(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let shrink = ask.flag("shrink")?;
    let permissions = Permissions { shrink, rereads_secrets: true, ..Permissions::default() };
    let mut wanted: FabricConfig = ask.body()?;
    check_fabric(&mut wanted)?;
    let wanted = wanted.numbered();
    let dry_run = ask.flag("dry_run")?;
    if !dry_run {
        images::check_new(ask.administration, &ask.administration.fabric(), &wanted)?;
    }
    let replace = |fabric: &mut FabricConfig| {
        *fabric = wanted.settled(fabric);
        Ok(())
    };
    let changes =
        if dry_run { ask.rehearse(permissions, replace)? } else { ask.change(permissions, replace)?.1 };
    Answer::with(&Changes { changes, dry_run })
}

pub(super) fn status(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let uptime = ask.administration.started().elapsed().unwrap_or_default();
    Answer::with(&Status {
        version: version::NUMBER,
        pid: std::process::id(),
        uptime_s: uptime.as_secs(),
        confinement: ask.administration.confinement().clone(),
        target: ask.administration.status(),
    })
}

/// Checks a whole configuration, before anything is opened.
fn check_fabric(fabric: &mut FabricConfig) -> Result<(), Refusal> {
    for (at, subsystem) in fabric.subsystems.iter_mut().enumerate() {
        check_subsystem(subsystem, &format!("subsystems[{at}]"))?;
    }
    Ok(())
}
