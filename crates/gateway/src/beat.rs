//! What a gateway says twice a second: that it lives, whether hosts are at it, and what hosts that have lost another gateway
//! want of that one. Who reads it, and what follows from it, is not its business.

use engine::target::LostController;
use nvme::cross_reset::ControllerInstance;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::write_pause::PauseReply;

/// Heartbeat of a gateway, with a counter that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beat {
    // Gateways of a former version read it under this name.
    #[serde(rename = "incarnation")]
    pub(crate) epoch: u64,
    pub(crate) count: u64,
    /// True if no host has had a controller at it for a while. A gateway that does not know the
    /// field counts as having hosts.
    #[serde(default)]
    pub(crate) is_deserted: bool,
    /// Controllers of other gateways whose hosts have lost them, and wait until nothing of them can still take effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) asked: Vec<Lost>,
    /// Controllers of this gateway that others have asked about and whose commands can no longer
    /// take effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rested: Vec<Lost>,
    /// Reply to the write pause in the group's state, once it holds its writes for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pause: Option<PauseReply>,
}

/// A controller that its host has lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Lost {
    cntlid: u16,
    uniquifier: u8,
    random_number: u64,
    subsystem: String,
    host_nqn: String,
    host_id: Uuid,
}

impl Lost {
    /// The name of its host.
    pub(crate) fn host_nqn(&self) -> &str {
        &self.host_nqn
    }
}

impl From<LostController> for Lost {
    fn from(lost: LostController) -> Self {
        let LostController { instance, subsystem, host_nqn, host_id } = lost;
        let ControllerInstance { controller_id: cntlid, uniquifier, random_number } = instance;
        Self { cntlid, uniquifier, random_number, subsystem, host_nqn, host_id }
    }
}

impl From<Lost> for LostController {
    fn from(lost: Lost) -> Self {
        let Lost { cntlid, uniquifier, random_number, subsystem, host_nqn, host_id } = lost;
        let instance = ControllerInstance { controller_id: cntlid, uniquifier, random_number };
        Self { instance, subsystem, host_nqn, host_id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let instance = ControllerInstance { controller_id: 2049, uniquifier: 255, random_number: u64::MAX };
        let lost = LostController {
            instance,
            subsystem: "nqn.2026-01.io.selvedge:a".to_owned(),
            host_nqn: "nqn.2014-08.org.nvmexpress:uuid:b".to_owned(),
            host_id: Uuid::from_u128(7),
        };
        let said = Lost::from(lost.clone());
        let beat =
            Beat { epoch: u64::MAX, count: 2, is_deserted: true, asked: vec![said], ..Beat::default() };
        let heard: Beat = serde_json::from_slice(&serde_json::to_vec(&beat).unwrap()).unwrap();
        assert_eq!(heard, beat);
        assert_eq!(LostController::from(heard.asked[0].clone()), lost);
    }

    #[test]
    fn who_says_less_has_hosts() {
        let heard: Beat = serde_json::from_str(r#"{"incarnation":1,"count":2}"#).unwrap();
        assert_eq!(heard, Beat { epoch: 1, count: 2, ..Beat::default() });
        assert!(!heard.is_deserted);
    }
}
