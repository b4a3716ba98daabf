//! A controller that is left to the new process, and one that comes from the old one.

use std::collections::BTreeSet;

use authentication::{Authenticated, Group, Hash};
use nvme::identify::NSID_ALL;
use nvme::log_page::ErrorLogEntry;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

use super::controller::Controller;
use super::event::{Events, Notice};
use super::features::Features;
use crate::ring;
use crate::target::handed_target::{HandedController, HandedError, HandedFeatures, HandedProof};
use crate::target::lock::lock;

impl Controller {
    /// State of the controller for the new process. `None` for a controller that has ended or is
    /// in a reset or a shutdown, and for one with unread notices of kinds that cannot be handed
    /// over yet. The host of such a controller connects again.
    pub(crate) fn handed(&self, address: std::net::IpAddr) -> Option<HandedController> {
        if self.has_ended() {
            return None;
        }
        let generated_key = lock(&self.generated_key).as_ref().map(|key| key.psk.identity().to_string());
        let state = self.state();
        if state.is_in_transition() || !state.reservation_log.is_empty() || !state.cross_resets.is_quiet() {
            return None;
        }
        Some(HandedController {
            id: self.id,
            instance: (self.instance.uniquifier, self.instance.random_number),
            subsystem: self.subsystem.nqn.clone(),
            host_nqn: self.host.nqn.clone(),
            host_id: self.host.id,
            address,
            keep_alive_ms: self.keep_alive_ms(),
            configuration: state.configuration,
            status: state.status,
            features: state.features.handed(),
            events: state.events.bits(),
            changed_namespaces: state.changed_namespaces.iter().copied().collect(),
            shown: Some(self.table().checksum()),
            error_count: state.error_count(),
            errors: state.errors().iter().map(HandedError::of).collect(),
            generated_key,
            reported_quiesce_ms: self.quiesce.reported_ms(),
            proof: self.proof.as_ref().map(HandedProof::of),
        })
    }

    /// Restores the state that the old process has handed over. If the namespaces differ from
    /// those last shown to the host, raises the events for it: a gateway's group may have changed
    /// meanwhile, and no other process notifies this host.
    pub(crate) fn go_on(&self, handed: &HandedController) {
        let is_otherwise = handed.shown.is_some_and(|shown| shown != self.table().checksum());
        let mut state = self.state();
        state.configuration = handed.configuration;
        state.status = handed.status;
        state.features = Features::going_on(&handed.features);
        state.events = Events::going_on(handed.events);
        state.changed_namespaces = handed.changed_namespaces.iter().copied().collect::<BTreeSet<u32>>();
        state.set_errors(handed.error_count, handed.errors.iter().map(HandedError::entry).collect());
        if is_otherwise {
            // Which of them have changed is unknown.
            state.changed_namespaces.insert(NSID_ALL);
            let config = state.features.async_events();
            for notice in [Notice::Namespaces, Notice::Ana] {
                if notice.is_wanted(config) {
                    state.events.raise(notice);
                }
            }
        }
        self.quiesce.go_on(handed.reported_quiesce_ms);
        self.update_ready(&state);
    }
}

impl HandedError {
    fn of(entry: &ErrorLogEntry) -> Self {
        Self {
            count: entry.error_count.get(),
            queue_id: entry.queue_id.get(),
            command_id: entry.command_id.get(),
            opcode: entry.opcode,
            status: entry.status.get(),
            parameter_location: entry.parameter_location.get(),
            lba: entry.lba.get(),
            nsid: entry.namespace_id.get(),
        }
    }

    fn entry(&self) -> ErrorLogEntry {
        ErrorLogEntry {
            error_count: U64::new(self.count),
            queue_id: U16::new(self.queue_id),
            command_id: U16::new(self.command_id),
            opcode: self.opcode,
            status: U16::new(self.status),
            parameter_location: U16::new(self.parameter_location),
            lba: U64::new(self.lba),
            namespace_id: U32::new(self.nsid),
            transport_type: 3,
            version: 1,
            ..ErrorLogEntry::default()
        }
    }
}

impl HandedProof {
    pub(crate) fn of(proof: &Authenticated) -> Self {
        let Authenticated { hash, group, is_bidirectional, secret } = *proof;
        Self { hash: hash.id(), group: group.id(), is_bidirectional, secret }
    }

    /// The same, if it has numbers that there are.
    pub(crate) fn proof(self) -> Option<Authenticated> {
        let (hash, group) = (Hash::of(self.hash)?, Group::of(self.group)?);
        Some(Authenticated { hash, group, is_bidirectional: self.is_bidirectional, secret: self.secret })
    }
}

impl Features {
    fn handed(&self) -> HandedFeatures {
        let behavior = self.host_behavior.as_bytes();
        let length = behavior.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        HandedFeatures {
            arbitration: self.arbitration,
            temperature_threshold: self.temperature_threshold,
            error_recovery: self.error_recovery,
            write_atomicity: self.write_atomicity,
            async_events: self.async_events,
            io_queues: self.io_queues,
            host_behavior: behavior[..length].to_vec(),
            timestamp_ms: self.timestamp.map(|_| self.time_ms().0),
            reservation_masks: self.reservation_masks.iter().map(|(nsid, mask)| (*nsid, *mask)).collect(),
        }
    }

    fn going_on(handed: &HandedFeatures) -> Self {
        let mut host_behavior = nvme::features::HostBehavior::new_zeroed();
        let bytes = host_behavior.as_mut_bytes();
        let length = handed.host_behavior.len().min(bytes.len());
        bytes[..length].copy_from_slice(&handed.host_behavior[..length]);
        Self {
            arbitration: handed.arbitration,
            temperature_threshold: handed.temperature_threshold,
            error_recovery: handed.error_recovery,
            write_atomicity: handed.write_atomicity,
            async_events: handed.async_events,
            io_queues: handed.io_queues.min(crate::limits::IO_QUEUES_MAX),
            host_behavior,
            timestamp: handed.timestamp_ms.map(|milliseconds| (milliseconds, ring::now())),
            reservation_masks: handed.reservation_masks.iter().copied().collect(),
        }
    }
}

impl Events {
    const fn bits(self) -> (u8, u8) {
        (self.pending, self.unread)
    }

    const fn going_on((pending, unread): (u8, u8)) -> Self {
        Self { pending, unread }
    }
}
