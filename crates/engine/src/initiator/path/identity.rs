//! Conditions for two paths to lead to the same namespace: the subsystem's name and serial number,
//! the namespace's identifiers and size, and what the subsystem reports of its controllers;
//! compared whenever a controller has been connected. Connecting again, and when, is the monitor's;
//! the blocks of the paths are compared by `sample`.

use std::time::Duration;

use nvme::identify::bits::multipath_capabilities::ANA_REPORTING;
use nvme::identify::{Cns, ControllerList, IdentifyNamespace, IdentifyRequest, ascii};
use nvme::log_page::{AnaGroupDescriptor, AnaLog, AnaLogHeader, AnaState, LogPageId};
use zerocopy::FromBytes;

use crate::initiator::{ConnectOptions, Controller, InitiatorError, NamespaceInfo};
use crate::ring::thread;

/// Groups of an ANA log page that are read at most.
const GROUPS_MAX: usize = 1 << 14;
/// Log specific parameter of the ANA log page: groups without their namespaces (RGO).
const GROUPS_ONLY: u8 = 1;
/// Another path's controller is asked about one that joins for this time: one that is just being lost must not keep a path
/// from coming back.
const ASK_TIMEOUT: Duration = Duration::from_millis(500);
/// Times it is asked until the new controller is on the list, and the time in between: a subsystem of several nodes may
/// take a moment to tell itself.
const ASK_TIMES: usize = 4;
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Names on which all paths have to agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    subsystem_nqn: String,
    uuid: Option<[u8; 16]>,
    nguid: Option<[u8; 16]>,
    eui64: Option<[u8; 8]>,
    block_size: u32,
}

impl Identity {
    /// Names that `controller` reports of itself and of `namespace`.
    pub(super) fn of(controller: &Controller, namespace: &NamespaceInfo) -> Self {
        let name = &controller.identify().subsystem_nqn;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        Self {
            subsystem_nqn: String::from_utf8_lossy(&name[..end]).into_owned(),
            uuid: namespace.uuid,
            nguid: namespace.nguid,
            eui64: namespace.eui64,
            block_size: namespace.block_size,
        }
    }

    /// True if the namespace has a globally unique name.
    pub(super) const fn is_known(&self) -> bool {
        self.uuid.is_some() || self.nguid.is_some() || self.eui64.is_some()
    }

    /// Difference of another path from this one, which `known` is about.
    pub(super) fn difference(&self, other: &Self, known: &str) -> Option<String> {
        let hex = |bytes: Option<&[u8]>| match bytes {
            Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            None => "none".to_owned(),
        };
        let names = |of: &Self| {
            [
                ("the subsystem NQN", of.subsystem_nqn.clone()),
                ("the namespace's UUID", hex(of.uuid.as_ref().map(<[u8; 16]>::as_slice))),
                ("the namespace's NGUID", hex(of.nguid.as_ref().map(<[u8; 16]>::as_slice))),
                ("the namespace's EUI64", hex(of.eui64.as_ref().map(<[u8; 8]>::as_slice))),
                ("the block size", of.block_size.to_string()),
            ]
        };
        let pairs = names(self).into_iter().zip(names(other));
        let mut different = pairs.filter(|((_, ours), (_, theirs))| ours != theirs);
        different.next().map(|((what, ours), (_, theirs))| differ(what, &theirs, &ours, known))
    }
}

fn differ(what: &str, theirs: &str, ours: &str, known: &str) -> String {
    format!("{what} is {theirs}, and {known} it is {ours}")
}

/// A path that is there, with what it shows of the namespace now.
pub(super) struct Witness {
    controller: Controller,
    blocks: u64,
}

impl Witness {
    /// `controller`, if it answers soon.
    pub(super) fn of(controller: Controller, nsid: u32) -> Option<Self> {
        let request = IdentifyRequest::new(Cns::NAMESPACE);
        let reply = controller.identify_bytes(request, nsid, ASK_TIMEOUT).ok()?;
        let reply = reply.success("Identify").ok()?;
        let blocks = IdentifyNamespace::read_from_bytes(&reply.data).ok()?.size_blocks.get();
        Some(Self { controller, blocks })
    }

    /// Options of its connection.
    pub(super) fn options(&self) -> &ConnectOptions {
        self.controller.options()
    }

    /// Reason to doubt that `controller` is another way to the same namespace, though both have the
    /// same names.
    pub(super) fn objection(&self, controller: &Controller, namespace: &NamespaceInfo) -> Option<String> {
        let known = format!("by {}", self.controller.address());
        let serial = |of: &Controller| format!("`{}`", ascii(&of.identify().serial_number));
        let (ours, theirs) = (serial(&self.controller), serial(controller));
        if ours != theirs {
            return Some(differ("the serial number", &theirs, &ours, &known));
        }
        if self.blocks != namespace.blocks {
            let bytes = |blocks: u64| format!("{} bytes", blocks.saturating_mul(namespace.block_size.into()));
            let (ours, theirs) = (bytes(self.blocks), bytes(namespace.blocks));
            return Some(differ("the namespace's size", &theirs, &ours, &known));
        }
        let id = controller.id();
        if self.controller.id() == id {
            let known = self.controller.address();
            return Some(format!("it and {known} both have controller {id}, as no two of one subsystem can"));
        }
        (self.knows(id) == Some(false)).then(|| {
            let known = self.controller.address();
            format!("the subsystem at {known} does not know controller {id}, so this is another one of the same name")
        })
    }

    /// True if the subsystem lists a controller with this identifier; `None` if it does not list
    /// its controllers, or not all.
    pub(super) fn knows(&self, id: u16) -> Option<bool> {
        for time in 0..ASK_TIMES {
            if time > 0 {
                thread::sleep(ASK_INTERVAL);
            }
            let own = self.controller.id();
            let list = listed(&self.controller, own.min(id))?;
            if !list.contains(&own) {
                return None;
            }
            if list.contains(&id) {
                return Some(true);
            }
            // It may be on the next page, which does not begin with either.
            if list.len() == ControllerList::CAPACITY && list.last().is_some_and(|last| *last < id) {
                return None;
            }
        }
        Some(false)
    }
}

/// The controllers of the subsystem from this identifier on (CNS 13h).
fn listed(controller: &Controller, first: u16) -> Option<Vec<u16>> {
    let request = IdentifyRequest { controller_id: first, ..IdentifyRequest::new(Cns::CONTROLLER_LIST) };
    let reply = controller.identify_bytes(request, 0, ASK_TIMEOUT).ok()?;
    if !reply.status.is_success() {
        return None;
    }
    ControllerList::read_from_bytes(&reply.data).ok()?.decode().ok()
}

/// The ANA state of the namespace's group in `controller`. One that reports none is as good as it can be.
pub(super) fn ana_state(
    controller: &Controller,
    namespace: &NamespaceInfo,
) -> Result<AnaState, InitiatorError> {
    const WHAT: &str = "Get Log Page (Asymmetric Namespace Access)";
    let bad = |reason: String| InitiatorError::BadAnswer { what: WHAT, reason };
    let identify = controller.identify();
    if identify.multipath_capabilities & ANA_REPORTING == 0 || namespace.ana_group_id == 0 {
        return Ok(AnaState::Optimized);
    }
    let groups = (identify.ana_groups.get() as usize).clamp(1, GROUPS_MAX);
    let length = size_of::<AnaLogHeader>() + groups * size_of::<AnaGroupDescriptor>();
    let page = controller.read_log_with(LogPageId::ANA, GROUPS_ONLY, length)?;
    let log = AnaLog::parse(&page).map_err(|error| bad(error.to_string()))?;
    let group = log.groups.iter().find(|group| group.id == namespace.ana_group_id);
    group.map(|group| group.state).ok_or_else(|| bad(format!("it lacks group {}", namespace.ana_group_id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            subsystem_nqn: "nqn.2026-01.io.selvedge:a".to_owned(),
            uuid: Some([1; 16]),
            nguid: None,
            eui64: None,
            block_size: 4096,
        }
    }

    #[test]
    fn differences_are_named() {
        let one = identity();
        assert_eq!(one.difference(&identity(), "by here"), None);
        let text = |other: Identity| one.difference(&other, "by here").unwrap();
        let uuid = text(Identity { uuid: Some([2; 16]), ..identity() });
        assert!(uuid.contains("UUID is 0202") && uuid.contains("and by here it is 0101"), "{uuid}");
        assert!(text(Identity { uuid: None, ..identity() }).contains("UUID is none"));
        assert!(text(Identity { nguid: Some([9; 16]), ..identity() }).contains("NGUID"));
        assert!(text(Identity { eui64: Some([9; 8]), ..identity() }).contains("EUI64"));
        assert!(text(Identity { block_size: 512, ..identity() }).contains("block size is 512"));
        let other = Identity { subsystem_nqn: "nqn.b".to_owned(), ..identity() };
        assert!(text(other).contains("subsystem NQN is nqn.b"));
        assert!(one.is_known() && !Identity { uuid: None, ..identity() }.is_known());
    }
}
