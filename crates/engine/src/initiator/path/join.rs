//! What makes two paths lead to the same thing: the subsystem's name and the namespace's identifiers, compared whenever
//! a controller has been connected. Connecting again, and when, is the keeper's.

use nvme::identify::bits::multipath_capabilities::ANA_REPORTING;
use nvme::log_page::{AnaGroupDescriptor, AnaLog, AnaLogHeader, AnaState, LogPageId};

use crate::initiator::{Controller, InitiatorError, NamespaceInfo};

/// Groups of an ANA log page that are read at most.
const GROUPS_MAX: usize = 1 << 14;
/// Log specific parameter of the ANA log page: groups without their namespaces (RGO).
const GROUPS_ONLY: u8 = 1;

/// What all paths have to agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    subsystem_nqn: String,
    uuid: Option<[u8; 16]>,
    nguid: Option<[u8; 16]>,
    eui64: Option<[u8; 8]>,
    block_size: u32,
}

impl Identity {
    /// What `controller` says of itself and of `namespace`.
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

    /// Whether the namespace has a name that is its own everywhere.
    pub(super) const fn is_known(&self) -> bool {
        self.uuid.is_some() || self.nguid.is_some() || self.eui64.is_some()
    }

    /// How another path differs from this one.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let hex = |bytes: Option<&[u8]>| match bytes {
            Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            None => "none".to_owned(),
        };
        let differ = |what: &str, ours: String, theirs: String| {
            (ours != theirs).then(|| format!("{what} {theirs}, where the other paths have {ours}"))
        };
        differ("the subsystem NQN is", self.subsystem_nqn.clone(), other.subsystem_nqn.clone())
            .or_else(|| {
                let [ours, theirs] = [self, other].map(|of| hex(of.uuid.as_ref().map(<[u8; 16]>::as_slice)));
                differ("the namespace's UUID is", ours, theirs)
            })
            .or_else(|| {
                let [ours, theirs] = [self, other].map(|of| hex(of.nguid.as_ref().map(<[u8; 16]>::as_slice)));
                differ("the namespace's NGUID is", ours, theirs)
            })
            .or_else(|| {
                let [ours, theirs] = [self, other].map(|of| hex(of.eui64.as_ref().map(<[u8; 8]>::as_slice)));
                differ("the namespace's EUI64 is", ours, theirs)
            })
            .or_else(|| {
                differ("the block size is", self.block_size.to_string(), other.block_size.to_string())
            })
    }
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
        assert_eq!(one.difference(&identity()), None);
        let text = |other: Identity| one.difference(&other).unwrap();
        assert!(text(Identity { uuid: Some([2; 16]), ..identity() }).contains("UUID is 0202"));
        assert!(text(Identity { uuid: None, ..identity() }).contains("UUID is none"));
        assert!(text(Identity { nguid: Some([9; 16]), ..identity() }).contains("NGUID"));
        assert!(text(Identity { eui64: Some([9; 8]), ..identity() }).contains("EUI64"));
        assert!(text(Identity { block_size: 512, ..identity() }).contains("block size is 512"));
        let other = Identity { subsystem_nqn: "nqn.b".to_owned(), ..identity() };
        assert!(text(other).contains("subsystem NQN is nqn.b"));
        assert!(one.is_known() && !Identity { uuid: None, ..identity() }.is_known());
    }
}
