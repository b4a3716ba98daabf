//! Findings about the target and their cures, by the rules of `selvedge doctor`, as the API returns
//! them.

use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnosis::finding::Finding;
use crate::diagnosis::look::Moment;
use crate::diagnosis::served::Served;

/// Findings of the rules of `selvedge doctor` at the target itself.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(in crate::control) struct Findings {
    /// Time of the second look, in seconds since 1970.
    time_s: u64,
    /// Seconds between the two looks.
    interval_s: f64,
    /// Causes, the one that costs most first.
    pub(super) findings: Vec<Finding>,
    /// Areas that the target does not examine, each with the command that does.
    not_looked_at: Vec<NotLookedAt>,
}

/// Something that was not looked at.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct NotLookedAt {
    what: String,
    /// Why not, or who does.
    reason: String,
}

/// Areas outside the target, and the command that examines each.
const ELSEWHERE: [(&str, &str); 3] = [
    (
        "this machine's processors, interrupts, network cards and TCP settings",
        "selvedge doctor, on this machine",
    ),
    ("hosts: their queues, paths and processors", "selvedge doctor -a ADDRESS, on the host"),
    ("the network: switches, cables, packet sizes", "selvedge doctor -a ADDRESS, on the host"),
];

impl Findings {
    /// Findings from two looks of the target at itself.
    pub(super) fn of(before: &Moment, now: &Moment) -> Self {
        // Digits below a millisecond would only be noise.
        let interval_s = ((now.at_s - before.at_s) * 1000.0).round() / 1000.0;
        let findings = crate::diagnosis::findings(&Served::between(before, now));
        Self { interval_s, findings, ..Self::none() }
    }

    /// Findings if the target's own answers cannot be read, for this reason.
    pub(super) fn unread(reason: &str) -> Self {
        let mut none = Self::none();
        none.not_looked_at.insert(0, NotLookedAt::new(("this target", reason)));
        none
    }

    fn none() -> Self {
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { time_s, not_looked_at: ELSEWHERE.map(NotLookedAt::new).into(), ..Self::default() }
    }
}

impl NotLookedAt {
    fn new((what, reason): (&str, &str)) -> Self {
        Self { what: what.to_owned(), reason: reason.to_owned() }
    }
}
