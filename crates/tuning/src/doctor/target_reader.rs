//! Asks a target what it says of itself, or takes that of a recording.

use std::io;

use topology::Machine;

use crate::control::client::Client;
use crate::diagnosis::look::Look;
use crate::failure::Failure;

/// A target to ask, by its number among those that are asked.
#[derive(Debug)]
pub(crate) struct Named<'a> {
    pub(crate) number: usize,
    /// Absent for a recording, which has its answers.
    pub(crate) client: Option<&'a Client>,
}

/// Reads the answers of a target.
///
/// # Errors
/// Why it does not answer.
pub(crate) fn look(machine: &Machine, named: &Named<'_>, moment: &str, at_s: f64) -> io::Result<Look> {
    let path = format!("selvedge/target-{}-{moment}.json", named.number);
    machine.kept(&path, || {
        let client = named.client.ok_or(io::ErrorKind::NotFound)?;
        let why = |failure: Failure| io::Error::other(failure.line().unwrap_or_default());
        let metrics = client.text("/metrics").map_err(why)?;
        let status = client.get("/v1/status").map_err(why)?;
        Ok(Look {
            name: client.to_string(),
            at_s,
            status,
            metrics,
            // A role may not see it, and most targets are in no group.
            config: client.get("/v1/config").unwrap_or_default(),
            gateways: client.get("/v1/gateways").unwrap_or_default(),
        })
    })
}
