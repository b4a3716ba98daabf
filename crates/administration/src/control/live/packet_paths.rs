//! The packet paths of the target's connections: network card's queue, interrupt, CPU, reactor. The
//! machine is examined on request, once for all requests of the next seconds, and never by a
//! reactor. It knows no target: connections come from outside.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chart::svg::Look;
use schemars::JsonSchema;
use serde::Serialize;
use topology::{Flow, Machine, observe_own};

use super::super::limits::{PATHS_AGE_MAX, PATHS_INTERVAL, PATHS_SHOWN_MAX};
use crate::packet_path::{self, Survey};

/// The machine, and what of it was seen last.
#[derive(Debug)]
pub(in crate::control) struct PacketPaths {
    machine: Machine,
    /// The last look. The holder of the lock examines the machine.
    last: Mutex<Option<Last>>,
}

#[derive(Debug)]
struct Last {
    at: Instant,
    /// Duration of the look.
    took: Duration,
    seen: Arc<Seen>,
}

/// Packet paths of the target's connections, as `selvedge tune show` shows those of a whole
/// machine.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PacketPaths")]
pub(in crate::control) struct Seen {
    /// Time of the look, in seconds since 1970.
    time_s: u64,
    /// Connections that are left out, since there are too many.
    flows_omitted: usize,
    #[serde(flatten)]
    survey: Survey,
}

impl PacketPaths {
    /// Packet paths on this machine.
    pub(in crate::control) fn on(machine: Machine) -> Self {
        Self { machine, last: Mutex::default() }
    }

    /// Returns the packet paths of these connections, each with the name of its worker's thread,
    /// from the last look if that is recent.
    ///
    /// # Errors
    /// Why the machine cannot be seen.
    pub(super) fn look(&self, flows: impl FnOnce() -> Vec<(Flow, String)>) -> Result<Arc<Seen>, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // A large machine is looked at less often, so that this takes a hundredth of a processor.
        let is_recent =
            |last: &&Last| last.at.elapsed() < (last.took * 100).clamp(PATHS_INTERVAL, PATHS_AGE_MAX);
        if let Some(last) = last.as_ref().filter(is_recent) {
            return Ok(last.seen.clone());
        }
        let began = Instant::now();
        let seen = Arc::new(Seen::of(&self.machine, flows())?);
        *last = Some(Last { at: Instant::now(), took: began.elapsed(), seen: seen.clone() });
        Ok(seen)
    }
}

impl Seen {
    fn of(machine: &Machine, mut flows: Vec<(Flow, String)>) -> Result<Self, String> {
        let flows_omitted = flows.len().saturating_sub(PATHS_SHOWN_MAX);
        flows.truncate(PATHS_SHOWN_MAX);
        let topology = observe_own(machine, flows).map_err(|error| error.to_string())?;
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(Self { time_s, flows_omitted, survey: Survey::new(topology) })
    }

    /// The picture that `selvedge tune show --picture` draws.
    pub(super) fn picture(&self) -> String {
        packet_path::picture(&self.survey, Look::File)
    }

    /// The same without its style.
    pub(super) fn bare_picture(&self) -> String {
        packet_path::bare_picture(&self.survey)
    }
}

#[cfg(test)]
mod tests {
    use topology::{FlowOwner, sample};

    use super::*;

    /// The I/O connections of a made-up machine, as those of a target there.
    fn flows(name: &str) -> (Machine, Vec<(Flow, String)>) {
        let machine = sample::topology(name).unwrap();
        let recording = sample::recording(&machine);
        let own = |flow: Flow| Flow { owner: FlowOwner::Target { pid: Some(7) }, interface: None, ..flow };
        let flows = machine.flows.into_iter().map(|flow| (own(flow), "reactor-0".to_owned())).collect();
        (Machine::of_recording(name, recording), flows)
    }

    #[test]
    fn a_targets_connections_have_the_findings_of_a_hosts() {
        for name in ["cpu72-queues32", "rss-holes", "bond", "vlan"] {
            let (machine, flows) = flows(name);
            let seen = PacketPaths::on(machine).look(|| flows).unwrap();
            let whole = Survey::new(sample::topology(name).unwrap());
            let kinds =
                |survey: &Survey| -> Vec<_> { survey.findings.iter().map(|finding| finding.kind).collect() };
            assert_eq!(kinds(&seen.survey), kinds(&whole), "{name}");
            assert_eq!(
                seen.picture().matches("line bad").count(),
                packet_path::picture(&whole, Look::File).matches("line bad").count()
            );
        }
    }

    #[test]
    fn all_who_ask_within_seconds_share_one_look() {
        let (machine, flows) = flows("vlan");
        let paths = PacketPaths::on(machine);
        let first = paths.look(|| flows).unwrap();
        let again = paths.look(|| panic!("it was looked at a moment ago")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn more_connections_than_anybody_reads_are_counted() {
        let (machine, flows) = flows("vlan");
        let many = |flow: &(Flow, String)| vec![flow.clone(); PATHS_SHOWN_MAX + 3];
        let seen = PacketPaths::on(machine).look(|| many(&flows[0])).unwrap();
        assert_eq!((seen.survey.topology.flows.len(), seen.flows_omitted), (PATHS_SHOWN_MAX, 3));
    }

    #[test]
    fn a_machine_that_cannot_be_understood_is_an_error_each_time() {
        let paths = PacketPaths::on(Machine::of_recording("nothing", topology::Recording::default()));
        for _ in 0..2 {
            assert!(paths.look(Vec::new).unwrap_err().contains("cpu/online"));
        }
    }
}
