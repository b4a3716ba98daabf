//! Calls at limits of the target: E2BIG, unless they ask for nothing that is not there.

use std::sync::Arc;

use ceph_nvmeof::{NamespaceAddHostReq, NamespaceAddReq, NsidStatus, SubsysStatus};
use engine::backend::BackendConfig;
use engine::limits::{HOSTS_MAX, NAMESPACES_MAX, SUBSYSTEMS_MAX};
use engine::target::{FabricConfig, NamespaceConfig, SubsystemConfig, Target, Visibility};
use libc::{E2BIG, EEXIST};

use super::super::access::{Access, Peer};
use super::super::test_target;
use super::tests::{HOST, NQN, SERVED, Testbed, add_host, create};

/// A host of the full subsystem, and a subsystem that is empty.
const LISTED: &str = "nqn.test:host-1";
const EMPTY: &str = "nqn.test:empty-1";

/// A target with as many subsystems as are possible, of which the first one is full.
fn start_full(mut fabric: FabricConfig) -> Arc<Target> {
    let hosts: Vec<String> = (1..=HOSTS_MAX).map(|number| format!("nqn.test:host-{number}")).collect();
    let null = |nsid| NamespaceConfig::new(nsid, BackendConfig::Null { size: 1 << 20 }, 4096);
    let full = &mut fabric.subsystems[0];
    full.namespaces = (1..=NAMESPACES_MAX).map(null).collect();
    full.namespaces[0].visible = Visibility::Only(hosts.clone());
    full.hosts = hosts;
    let empty = |number: usize| {
        SubsystemConfig::new(&format!("nqn.test:empty-{number}"), &format!("E{number}"), "Selvedge")
    };
    fabric.subsystems.extend((1..SUBSYSTEMS_MAX).map(empty));
    test_target::start_sealing(fabric)
}

#[test]
fn an_object_beyond_a_limit_is_refused_as_such() {
    let testbed = Testbed::of(Access::of_this_process(), Peer::Process, start_full);
    let created = |nqn: &str| testbed.ask::<SubsysStatus>("create_subsystem", &create(nqn)).status;
    assert_eq!([NQN, SERVED].map(created), [E2BIG, EEXIST]);
    let allowed = |host: &str| testbed.status("add_host", &add_host(SERVED, host));
    assert_eq!([HOST, LISTED, "*"].map(allowed), [E2BIG, EEXIST, EEXIST]);
    let shown = |host: &str| {
        let (subsystem_nqn, host_nqn) = (SERVED.to_owned(), host.to_owned());
        let request = NamespaceAddHostReq { subsystem_nqn, nsid: 1, host_nqn, force: None };
        testbed.status("namespace_add_host", &request)
    };
    assert_eq!([HOST, LISTED].map(shown), [E2BIG, 0]);
    let added = |nqn: &str, nsid: Option<u32>| {
        let request = NamespaceAddReq {
            rbd_pool_name: "rbd".to_owned(),
            rbd_image_name: "disk".to_owned(),
            subsystem_nqn: nqn.to_owned(),
            nsid,
            block_size: 4096,
            ..Default::default()
        };
        testbed.ask::<NsidStatus>("namespace_add", &request).status
    };
    assert_eq!([added(SERVED, None), added(EMPTY, Some(NAMESPACES_MAX + 1))], [E2BIG; 2]);
    assert_eq!(added(SERVED, Some(1)), EEXIST);
}
