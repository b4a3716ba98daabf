//! Controllers of connected hosts, as the control API shows them.

use serde::Deserialize;

use super::failed::Failed;
use super::native::Native;

/// A controller.
#[derive(Deserialize)]
pub(super) struct Controller {
    pub(super) cntlid: u16,
    pub(super) subsystem: String,
    pub(super) host_nqn: String,
    pub(super) port: u16,
    pub(super) ending: bool,
    pub(super) queues: Vec<Queue>,
}

/// A queue of a controller, the admin queue included.
#[derive(Deserialize)]
pub(super) struct Queue {
    pub(super) queue_id: u16,
    pub(super) reactor: usize,
    pub(super) tls: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Controllers {
    controllers: Vec<Controller>,
}

impl Controller {
    /// True if a host uses a subsystem by it.
    pub(super) fn is_of(&self, nqn: &str, host: &str) -> bool {
        self.subsystem == nqn && self.host_nqn == host && !self.ending
    }
}

/// All controllers of this gateway.
pub(super) async fn controllers_of(native: &Native) -> Result<Vec<Controller>, Failed> {
    let shown = native.ask("GET", "/v1/connections", None).await?;
    let shown = serde_json::from_value::<Controllers>(shown);
    Ok(shown.map_err(|error| Failed::new(libc::EIO, error.to_string()))?.controllers)
}

/// True if a host is connected to a subsystem of this gateway.
pub(super) fn is_connected(controllers: &[Controller], nqn: &str, host: &str) -> bool {
    controllers.iter().any(|controller| controller.is_of(nqn, host))
}

#[cfg(test)]
mod tests {
    use engine::target::{ControllerStatus, QueueStatus};

    use super::*;

    #[test]
    fn a_controller_is_read_as_the_control_api_shows_it() {
        let queue =
            |queue_id| QueueStatus { queue_id, entries: 32, reactor: 1, peer: None, stream: None, tls: None };
        let status = ControllerStatus {
            cntlid: 7,
            subsystem: "nqn.a".to_owned(),
            host_nqn: "nqn.host".to_owned(),
            host_id: uuid::Uuid::nil(),
            port: 1,
            ready: true,
            ending: false,
            keep_alive_ms: 0,
            authentication: None,
            queues: vec![queue(0), queue(1)],
        };
        let shown = serde_json::json!({ "controllers": [status] });
        let read = serde_json::from_value::<Controllers>(shown).unwrap().controllers;
        assert!(is_connected(&read, "nqn.a", "nqn.host"));
        assert!(!is_connected(&read, "nqn.b", "nqn.host") && !is_connected(&read, "nqn.a", "nqn.other"));
        let queues: Vec<_> = read[0].queues.iter().map(|queue| (queue.queue_id, queue.reactor)).collect();
        assert_eq!((read[0].cntlid, queues), (7, vec![(0, 1), (1, 1)]));
    }
}
