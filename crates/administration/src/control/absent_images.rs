//! Namespaces of a group whose images a gateway cannot open. Its target does not know of them, so
//! that they are added to what it reports.

use engine::target::{Metrics, NamespaceConfig, NamespaceState, NamespaceStatus, Nguid, TargetStatus};
use gateway::Membership;

const REASON: &str = "its image is not open at this gateway, which tries again; the log has the reason";

/// A namespace, with the name of its subsystem.
type Absent = (String, NamespaceConfig);

/// The status of a gateway, with these namespaces.
pub(super) fn in_status(status: TargetStatus, membership: Option<&Membership>) -> TargetStatus {
    added(status, membership.map(Membership::absent).unwrap_or_default())
}

/// The metrics of a gateway, with the number of these namespaces.
pub(super) fn in_metrics(metrics: Metrics, membership: Option<&Membership>) -> Metrics {
    counted(metrics, &membership.map(Membership::absent).unwrap_or_default())
}

fn added(mut status: TargetStatus, absent: Vec<Absent>) -> TargetStatus {
    for (subsystem, config) in absent {
        let is_it = |known: &NamespaceStatus| known.subsystem == subsystem && known.nsid == config.nsid;
        if status.namespaces.iter().any(is_it) {
            continue;
        }
        status.namespaces.push(NamespaceStatus {
            subsystem,
            nsid: config.nsid,
            state: NamespaceState::Absent,
            size_bytes: None,
            uuid: config.uuid,
            nguid: config.nguid.or(config.uuid.map(Nguid::from)),
            reason: Some(REASON.to_owned()),
            write_protected: !config.write_protection.is_none(),
            remarks: Vec::new(),
            may_tear: false,
            oldest_operation_ms: 0,
            late_operations: 0,
        });
    }
    status
}

fn counted(mut metrics: Metrics, absent: &[Absent]) -> Metrics {
    for subsystem in &mut metrics.subsystems {
        subsystem.absent += absent.iter().filter(|(nqn, _)| *nqn == subsystem.nqn).count();
    }
    metrics
}

#[cfg(test)]
mod tests {
    use engine::backend::BackendConfig;
    use engine::target::{FabricConfig, PortConfig, SubsystemConfig};

    use super::*;
    use crate::control::test_target;

    #[test]
    fn an_image_that_a_gateway_cannot_open_is_reported_as_absent() {
        let namespace = |nsid| NamespaceConfig::new(nsid, BackendConfig::Null { size: 1 << 20 }, 4096);
        let subsystem = SubsystemConfig::new("nqn.test:a", "A", "Selvedge").with(vec![namespace(1)]);
        let target = test_target::start(FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![subsystem],
            ..FabricConfig::default()
        });
        let absent = vec![("nqn.test:a".to_owned(), namespace(7)), ("nqn.test:a".to_owned(), namespace(1))];
        let metrics = counted(target.metrics(), &absent[..1]);
        assert_eq!(metrics.subsystems[0].absent, 1);
        let namespaces = added(target.status(), absent).namespaces;
        let states: Vec<_> = namespaces.iter().map(|namespace| (namespace.nsid, namespace.state)).collect();
        assert_eq!(states, [(1, NamespaceState::Ready), (7, NamespaceState::Absent)]);
        assert_eq!(in_status(target.status(), None).namespaces.len(), 1);
    }
}
