//! Publication of a sweep's progress on the target. Errors do not stop the sweep: they are reported once, and it retries.

use std::path::Path;
use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use crate::control::client::{Client, encode};
use crate::control::sweeps::SweepBody;
use crate::failure::Failure;
use crate::flags::sweep::OwnFlags;

/// A target that takes longer holds the sweep up.
const PATIENCE: Duration = Duration::from_secs(5);
/// After failures in a row it is tried again when this number of measurements has passed at the latest: a target that never
/// answers costs a long sweep little.
const PAUSE_MAX: u32 = 32;

/// Sender of a sweep's progress.
pub(super) struct Publisher {
    client: Client,
    path: String,
    /// Number of failures since the last success.
    failures: u32,
    /// Times that it is left out.
    pause: u32,
    has_warned: bool,
}

impl Publisher {
    /// The one that flags ask for; `folder` is where the sweep is kept.
    ///
    /// # Errors
    /// When the flags do not say where or by what right.
    pub(super) fn new(own: &OwnFlags, nqn: &str, folder: &Path) -> Result<Option<Self>, Failure> {
        let Some(wanted) = &own.publish else { return Ok(None) };
        let client = Client::new(own.control.as_ref(), own.control_token_file.as_deref(), &own.tls)?;
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let folder = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = wanted.clone().or(folder).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Failure::usage("the sweep needs a name here: --publish=NAME"))?;
        let path = format!("/v1/subsystems/{}/sweeps/{}", encode(nqn), encode(&name));
        let client = client.patient_for(PATIENCE);
        Ok(Some(Self { client, path, failures: 0, pause: 0, has_warned: false }))
    }

    /// Sends the state; returns a warning, once. The last state is always sent.
    pub(super) fn publish(&mut self, body: &SweepBody, is_last: bool) -> Option<String> {
        if self.pause > 0 && !is_last {
            self.pause -= 1;
            return None;
        }
        let body = serde_json::to_value(body).map_err(Failure::failed);
        let sent = body.and_then(|body| self.client.change::<Value>(Method::PUT, &self.path, &body));
        match sent {
            Ok(_) => {
                self.failures = 0;
                None
            }
            Err(failure) => {
                self.pause = pause_after(self.failures);
                self.failures += 1;
                let reason = failure.line().unwrap_or_default();
                let warning = format!("cannot publish the sweep: {reason}; the sweep continues, and retries");
                (!std::mem::replace(&mut self.has_warned, true)).then_some(warning)
            }
        }
    }
}

/// Returns the number of skipped measurements after this number of failures in a row and one more.
fn pause_after(failures: u32) -> u32 {
    PAUSE_MAX.min((1_u32 << failures.min(PAUSE_MAX.ilog2())) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_never_answers_is_asked_more_and_more_seldom() {
        let pauses: Vec<u32> = (0..7).map(pause_after).collect();
        assert_eq!(pauses, [0, 1, 3, 7, 15, 31, 31]);
    }
}
