//! Calls that came after version 1.5: what each answers the first time, the second time, and where it does not apply.

use std::sync::{Arc, Mutex};

use authentication::Secret;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use ceph_nvmeof::{
    AddHostReq, AddKmipServerEndpointsReq, AddSubsystemNetworkReq, ChangeHostKeyReq, ChangeSubsystemKeyReq,
    ConnectionIoStatistics, ConnectionsInfo, ControllerKeyOrigin, CreateListenerReq, CreateSubsystemReq,
    DelKmipServerEndpointsReq, DelSubsystemNetworkReq, DeleteListenerReq, GatewayInfo, GatewayStatsInfo,
    GetConnectionIoStatisticsReq, GetGatewayInfoReq, GetGatewayStatsReq, GetSubsystemsReq, GetThreadStatsReq,
    HostsInfo, KmipServerEndpoint, KmipServerEndpointsInfo, ListConnectionsReq, ListHostsReq,
    ListKmipServerEndpointsReq, ListListenersReq, ListNamespacesIoStatsInfo, ListNamespacesIoStatsReq,
    ListNamespacesReq, ListSubsystemsReq, ListenerInfo, ListenersInfo, Message as _, NamespaceAddHostReq,
    NamespaceAddReq, NamespaceChangeLoadBalancingGroupReq, NamespaceChangeLocationReq,
    NamespaceChangeVisibilityReq, NamespaceCli, NamespaceDeleteReq, NamespaceResizeReq,
    NamespaceSetAutoResizeReq, NamespaceSetRbdTrashImageReq, NamespacesInfo, NsidStatus, RemoveHostReq,
    ReqStatus, SetGatewayIoStatsModeReq, SetGatewayLogLevelReq, SetKeepHostConnectedReq, SubsysStatus,
    SubsystemsInfo, SubsystemsInfoCli, ThreadStatsInfo,
};
use engine::backend::BackendConfig;
use engine::limits::{METRICS_DETAILED_MAX, METRICS_NAMESPACES_MAX};
use engine::target::{FabricConfig, NamespaceConfig, SubsystemConfig};
use http_body_util::BodyExt as _;
use hyper::{Method, StatusCode};
use libc::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EBUSY, EEXIST, EINVAL, EKEYREJECTED, ENODEV, ENOENT, ENOKEY,
    EOPNOTSUPP,
};
use serde_json::{Value, json};

use super::super::access::{Access, Peer};
use super::super::test_target;
use super::tests::{HOST, NQN, SERVED, Testbed, add_host, create, framed, remove_host};

/// A network that has an address of the testbed, and one that no machine has (reserved).
const LOOPBACK: &str = "127.0.0.0/8";
const NOWHERE: &str = "240.0.2.0/24";

fn listeners(testbed: &Testbed, nqn: &str) -> Vec<ListenerInfo> {
    let request = ListListenersReq { subsystem: nqn.to_owned() };
    testbed.ask::<ListenersInfo>("list_listeners", &request).listeners
}

fn masks(testbed: &Testbed, nqn: &str) -> Vec<String> {
    let request = ListSubsystemsReq { subsystem_nqn: Some(nqn.to_owned()), ..Default::default() };
    let listed: SubsystemsInfoCli = testbed.ask("list_subsystems", &request);
    listed.subsystems.into_iter().flat_map(|subsystem| subsystem.network_mask).collect()
}

fn namespace(testbed: &Testbed) -> NamespaceCli {
    let request = ListNamespacesReq { subsystem: SERVED.to_owned(), ..Default::default() };
    testbed.ask::<NamespacesInfo>("list_namespaces", &request).namespaces.pop().unwrap()
}

fn hosts(testbed: &Testbed, nqn: &str) -> HostsInfo {
    testbed.ask("list_hosts", &ListHostsReq { subsystem: nqn.to_owned(), ..Default::default() })
}

fn secret(byte: u8) -> Option<String> {
    Some(Secret::new(&[byte; 32], None).unwrap().reveal().to_string())
}

#[test]
fn a_subsystem_is_found_at_listeners_in_its_networks() {
    let testbed = Testbed::new();
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &create(NQN)).status, 0);
    let add = |nqn: &str, mask: &str| {
        let request = AddSubsystemNetworkReq { subsystem_nqn: nqn.to_owned(), network_mask: mask.to_owned() };
        testbed.ask::<ReqStatus>("add_subsystem_network", &request)
    };
    let delete = |nqn: &str, mask: &str| {
        let request = DelSubsystemNetworkReq { subsystem_nqn: nqn.to_owned(), network_mask: mask.to_owned() };
        testbed.status("del_subsystem_network", &request)
    };
    assert_eq!(delete(NQN, LOOPBACK), ENOENT, "it has none");
    assert_eq!([(); 2].map(|()| add(NQN, LOOPBACK).status), [0, 0]);
    let found = listeners(&testbed, NQN);
    assert_eq!(found.iter().map(|one| (one.active(), one.manual())).collect::<Vec<_>>(), [(true, false)]);
    // A mask that no address matches is refused with one line, and nothing else changes.
    let refused = [(); 2].map(|()| add(NQN, NOWHERE));
    assert!(refused.iter().all(|refused| refused.status == EADDRNOTAVAIL), "{refused:?}");
    assert!(refused[0].error_message.contains(NOWHERE) && !refused[0].error_message.contains('\n'));
    assert_eq!((masks(&testbed, NQN), listeners(&testbed, NQN)), (vec![LOOPBACK.to_owned()], found.clone()));
    assert_eq!(add(NQN, "10.0.0.0/33").status, EADDRNOTAVAIL);
    assert_eq!(add(NQN, "").status, EINVAL);
    assert_eq!(add("nqn.none", LOOPBACK).status, ENOENT);
    let own = DeleteListenerReq {
        nqn: NQN.to_owned(),
        host_name: found[0].host_name.clone(),
        traddr: found[0].traddr.clone(),
        trsvcid: Some(found[0].trsvcid),
        force: Some(true),
        ..Default::default()
    };
    assert_eq!(testbed.status("delete_listener", &own), EINVAL, "it follows from the network");
    assert_eq!((delete(NQN, "x"), delete("nqn.none", LOOPBACK)), (EADDRNOTAVAIL, ENOENT));
    assert_eq!(delete(NQN, NOWHERE), 0, "which it does not have");
    assert_eq!([(); 2].map(|()| delete(NQN, LOOPBACK)), [0, ENOENT]);
    assert_eq!((masks(&testbed, NQN), listeners(&testbed, NQN)), (Vec::new(), Vec::new()));
    let everywhere = listeners(&testbed, SERVED);
    assert_eq!(everywhere.len(), 1, "one that is found everywhere stays there");
    assert_eq!(add(SERVED, LOOPBACK).status, 0);
    let own = DeleteListenerReq { nqn: SERVED.to_owned(), ..own };
    let refused: ReqStatus = testbed.ask("delete_listener", &own);
    assert_eq!(refused.status, EINVAL, "it would be found there by its network");
    assert!(refused.error_message.contains(LOOPBACK), "{}", refused.error_message);
    assert_eq!(listeners(&testbed, SERVED), everywhere);
    assert_eq!(delete(SERVED, LOOPBACK), 0);
    assert_eq!(testbed.status("delete_listener", &own), 0);
    assert_eq!(listeners(&testbed, SERVED), []);
}

#[test]
fn a_subsystem_comes_with_its_networks_or_not_at_all() {
    let testbed = Testbed::new();
    let with = |network_mask: &[&str]| CreateSubsystemReq {
        network_mask: network_mask.iter().map(|mask| (*mask).to_owned()).collect(),
        ..create(NQN)
    };
    let created =
        |request: &CreateSubsystemReq| testbed.ask::<SubsysStatus>("create_subsystem", request).status;
    assert_eq!([(); 2].map(|()| created(&with(&[LOOPBACK, NOWHERE]))), [EADDRNOTAVAIL; 2]);
    assert_eq!(created(&with(&["nonsense"])), EADDRNOTAVAIL);
    // Its listeners are there already, and have neither this port nor TLS.
    assert_eq!(created(&CreateSubsystemReq { port: Some(1), ..with(&[LOOPBACK]) }), EADDRNOTAVAIL);
    assert_eq!(
        created(&CreateSubsystemReq { secure_listeners: Some(true), ..with(&[LOOPBACK]) }),
        EOPNOTSUPP
    );
    let listed: SubsystemsInfoCli = testbed.ask("list_subsystems", &ListSubsystemsReq::default());
    assert_eq!(listed.subsystems.len(), 1, "nothing is left of them");
    assert_eq!([(); 2].map(|()| created(&with(&[LOOPBACK, "127.0.0.1/8"]))), [0, EEXIST]);
    assert_eq!((masks(&testbed, NQN), listeners(&testbed, NQN).len()), (vec![LOOPBACK.to_owned()], 1));
}

#[test]
fn an_address_in_use_by_another_program_is_no_listener_that_is_there() {
    let testbed = Testbed::new();
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &create(NQN)).status, 0);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own: GatewayInfo = testbed.ask("get_gateway_info", &GetGatewayInfoReq::default());
    let request = CreateListenerReq {
        nqn: NQN.to_owned(),
        host_name: own.hostname,
        traddr: "127.0.0.1".to_owned(),
        trsvcid: Some(other.local_addr().unwrap().port().into()),
        ..Default::default()
    };
    // Clients take EEXIST for success.
    assert_eq!([(); 2].map(|()| testbed.status("create_listener", &request)), [EADDRINUSE; 2]);
    assert_eq!(listeners(&testbed, NQN), []);
}

#[test]
fn a_host_is_removed_with_or_without_its_connections() {
    let testbed = Testbed::new();
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &create(NQN)).status, 0);
    let keep = RemoveHostReq { keep_connections: Some(true), ..remove_host(NQN, HOST) };
    let deleted = || {
        let request = ListConnectionsReq { subsystem: NQN.to_owned(), ..Default::default() };
        testbed
            .ask::<ConnectionsInfo>("list_connections", &request)
            .connections
            .pop()
            .map(|one| one.host_deleted())
    };
    assert_eq!(testbed.status("remove_host", &keep), ENOENT);
    assert_eq!(testbed.status("add_host", &add_host(NQN, HOST)), 0);
    assert_eq!([(); 2].map(|()| testbed.status("remove_host", &keep)), [0, ENOENT]);
    assert_eq!(deleted(), None, "it is neither connected nor on the list");
    assert_eq!([(); 2].map(|()| testbed.status("add_host", &add_host(NQN, HOST))), [0, EEXIST]);
    assert_eq!(deleted(), Some(false), "it is back");
    let any = RemoveHostReq { keep_connections: Some(true), ..remove_host(NQN, "*") };
    assert_eq!(testbed.status("remove_host", &any), EINVAL);
    let set = |keep_connected| SetKeepHostConnectedReq {
        subsystem_nqn: NQN.to_owned(),
        host_nqn: HOST.to_owned(),
        keep_connected,
    };
    assert_eq!(SetKeepHostConnectedReq::decode(&b"\x18\x01"[..]).unwrap().keep_connected, Some(true));
    let keeps = [None, Some(true), Some(false)];
    assert_eq!(keeps.map(|keep| testbed.status("set_keep_host_connected", &set(keep))), [0; 3]);
    let none = SetKeepHostConnectedReq { subsystem_nqn: "nqn.none".to_owned(), ..set(None) };
    assert_eq!(testbed.status("set_keep_host_connected", &none), ENOENT);
    let all: ConnectionsInfo = testbed.ask("list_connections", &ListConnectionsReq::default());
    assert_eq!((all.subsystem_nqn.as_str(), all.connections.len()), ("*", 1));
    assert_eq!(all.connections[0].subsystem(), NQN);
}

#[test]
fn a_host_in_the_list_of_a_namespace_is_removed_by_force_alone() {
    let testbed = Testbed::new();
    let visible = NamespaceChangeVisibilityReq {
        subsystem_nqn: SERVED.to_owned(),
        nsid: 1,
        auto_visible: false,
        force: None,
    };
    assert_eq!(testbed.status("namespace_change_visibility", &visible), 0);
    let listed = |force| NamespaceAddHostReq {
        subsystem_nqn: SERVED.to_owned(),
        nsid: 1,
        host_nqn: HOST.to_owned(),
        force,
    };
    assert_eq!(testbed.status("namespace_add_host", &listed(None)), 0, "any host may use the subsystem");
    let without_force = |host| RemoveHostReq { force: Some(false), ..remove_host(SERVED, host) };
    assert_eq!(testbed.status("remove_host", &without_force("*")), EACCES);
    let by_force = |host| RemoveHostReq { force: Some(true), ..remove_host(SERVED, host) };
    assert_eq!(
        [(); 2].map(|()| testbed.status("remove_host", &by_force("*"))),
        [EBUSY, 0],
        "it says so once"
    );
    assert_eq!(testbed.status("namespace_add_host", &listed(None)), EACCES);
    assert_eq!([(); 2].map(|()| testbed.status("namespace_add_host", &listed(Some(true)))), [0, 0]);
    assert_eq!(testbed.status("add_host", &add_host(SERVED, HOST)), 0);
    assert_eq!(testbed.status("remove_host", &without_force(HOST)), EACCES);
    assert_eq!([(); 2].map(|()| testbed.status("remove_host", &by_force(HOST))), [EBUSY, ENOENT]);
    assert!(hosts(&testbed, SERVED).hosts.is_empty());
    // Requests of version 1.5 say nothing of force.
    assert_eq!([(); 2].map(|()| testbed.status("add_host", &add_host(SERVED, HOST))), [0, EEXIST]);
    let older = [(); 2].map(|()| testbed.status("remove_host", &remove_host(SERVED, HOST)));
    assert_eq!(older, [0, ENOENT]);
    assert_eq!(testbed.status("add_host", &add_host(SERVED, "*")), 0);
    assert_eq!([(); 2].map(|()| testbed.status("remove_host", &remove_host(SERVED, "*"))), [0, 0]);
    assert!(hosts(&testbed, SERVED).hosts.is_empty());
}

#[test]
fn a_controller_key_of_a_host_is_given_changed_and_taken() {
    let testbed = Testbed::new();
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &create(NQN)).status, 0);
    let origin = || {
        let host = hosts(&testbed, NQN).hosts.pop().unwrap();
        (host.use_dhchap(), host.dhchap_controller_origin())
    };
    let [none, own, of_subsystem] = [
        ControllerKeyOrigin::NoKey,
        ControllerKeyOrigin::HostSpecific,
        ControllerKeyOrigin::SubsystemImplicit,
    ]
    .map(|origin| origin as i32);
    let alone = AddHostReq { dhchap_ctrlr_key: secret(1), ..add_host(NQN, HOST) };
    assert_eq!(testbed.status("add_host", &alone), ENOKEY, "the host has none itself");
    assert_eq!(testbed.status("add_host", &AddHostReq { dhchap_key: secret(2), ..alone }), 0);
    assert_eq!(origin(), (true, own));
    let change = |dhchap_key: Option<&str>, dhchap_ctrlr_key: Option<&str>| {
        let request = ChangeHostKeyReq {
            subsystem_nqn: NQN.to_owned(),
            host_nqn: HOST.to_owned(),
            dhchap_key: dhchap_key.map(str::to_owned),
            dhchap_ctrlr_key: dhchap_ctrlr_key.map(str::to_owned),
        };
        testbed.status("change_host_key", &request)
    };
    let other = secret(3);
    assert_eq!([(); 2].map(|()| change(Some("-"), Some("-"))), [0, 0], "nothing changes");
    assert_eq!([(); 2].map(|()| change(Some("-"), other.as_deref())), [0, 0]);
    assert_eq!([(); 2].map(|()| change(other.as_deref(), Some("-"))), [0, 0]);
    assert_eq!(change(other.as_deref(), None), 0, "as clients of version 1.5 ask");
    assert_eq!(origin(), (true, own), "which know no controller key, and leave it");
    assert_eq!(change(Some("-"), Some("nonsense")), EINVAL);
    assert_eq!(change(None, Some("-")), ENOKEY, "the controller has one");
    assert_eq!([(); 2].map(|()| change(Some("-"), None)), [0, 0]);
    assert_eq!(origin(), (true, none));
    let key = |dhchap_key| ChangeSubsystemKeyReq { subsystem_nqn: NQN.to_owned(), dhchap_key };
    assert_eq!(testbed.status("change_subsystem_key", &key(secret(4))), 0);
    assert_eq!(origin(), (true, of_subsystem));
    assert_eq!(change(Some("-"), other.as_deref()), EINVAL, "the subsystem has one");
    let both = AddHostReq { dhchap_key: secret(2), dhchap_ctrlr_key: secret(1), ..add_host(NQN, "nqn.b") };
    assert_eq!(testbed.status("add_host", &both), EKEYREJECTED);
    assert_eq!(testbed.status("add_host", &AddHostReq { host_nqn: "*".to_owned(), ..both }), EACCES);
}

#[test]
fn a_subsystem_is_open_to_every_host_or_its_hosts_have_keys() {
    let testbed = Testbed::new();
    let status = |call: &str, request: &AddHostReq| testbed.status(call, request);
    let keyed = |nqn: &str, host: &str| AddHostReq { dhchap_key: secret(1), ..add_host(nqn, host) };
    assert_eq!(status("add_host", &keyed(SERVED, HOST)), EACCES, "every host may use it");
    let subsystem_key = ChangeSubsystemKeyReq { subsystem_nqn: SERVED.to_owned(), dhchap_key: secret(4) };
    assert_eq!(testbed.status("change_subsystem_key", &subsystem_key), EACCES);
    assert_eq!(status("add_host", &add_host(SERVED, HOST)), 0);
    let change = ChangeHostKeyReq {
        subsystem_nqn: SERVED.to_owned(),
        host_nqn: HOST.to_owned(),
        dhchap_key: secret(2),
        ..Default::default()
    };
    assert_eq!(testbed.status("change_host_key", &change), EACCES);
    assert_eq!(testbed.status("remove_host", &remove_host(SERVED, "*")), 0);
    assert_eq!(testbed.status("change_host_key", &change), 0);
    assert_eq!(status("add_host", &add_host(SERVED, "*")), EACCES, "others would come in without a key");
    let own = ChangeHostKeyReq { dhchap_key: Some("-".to_owned()), dhchap_ctrlr_key: secret(3), ..change };
    assert_eq!(testbed.status("change_host_key", &own), 0);
    assert_eq!(testbed.status("change_subsystem_key", &subsystem_key), EINVAL, "the host has its own");
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &create(NQN)).status, 0);
    assert_eq!(status("add_host", &keyed(NQN, "*")), EACCES);
    let psk = Some("NVMeTLSkey-1:01:".to_owned());
    assert_eq!(status("add_host", &AddHostReq { psk, ..add_host(NQN, "*") }), EINVAL);
    assert!(!hosts(&testbed, SERVED).allow_any_host && !hosts(&testbed, NQN).allow_any_host);
}

#[test]
fn flags_of_a_namespace_are_set_and_stay() {
    let testbed = Testbed::new();
    let (subsystem_nqn, nsid) = (SERVED.to_owned(), 1);
    let trash = |nsid, trash_image| {
        let request = NamespaceSetRbdTrashImageReq { subsystem_nqn: SERVED.to_owned(), nsid, trash_image };
        testbed.status("namespace_set_rbd_trash_image", &request)
    };
    let auto_resize = |nsid, auto_resize| {
        let request = NamespaceSetAutoResizeReq { subsystem_nqn: SERVED.to_owned(), nsid, auto_resize };
        testbed.status("namespace_set_auto_resize", &request)
    };
    let flags = || (namespace(&testbed).trash_image(), namespace(&testbed).disable_auto_resize());
    assert_eq!(flags(), (false, false));
    assert_eq!([(); 2].map(|()| trash(1, true)), [0, 0]);
    assert_eq!([(); 2].map(|()| auto_resize(1, false)), [0, 0]);
    assert_eq!(flags(), (true, true));
    // An order to resize is followed, and the flag stays; without a size it is that of the storage.
    for (new_size, status) in [(2, 0), (0, 0), (1, EINVAL)] {
        let request = NamespaceResizeReq { subsystem_nqn: subsystem_nqn.clone(), nsid, new_size };
        assert_eq!(testbed.status("namespace_resize", &request), status, "{new_size}");
        assert_eq!((namespace(&testbed).rbd_image_size, flags()), (2 << 20, (true, true)));
    }
    assert_eq!((trash(9, true), auto_resize(9, false)), (ENODEV, ENODEV));
    assert_eq!((trash(0, true), auto_resize(0, false)), (EINVAL, EINVAL));
    assert_eq!((trash(1, false), auto_resize(1, true)), (0, 0));
    assert_eq!(flags(), (false, false));
    let place = |nsid, location: &str| {
        let (subsystem_nqn, location) = (SERVED.to_owned(), Some(location.to_owned()));
        testbed.status(
            "namespace_change_location",
            &NamespaceChangeLocationReq { subsystem_nqn, nsid, location },
        )
    };
    assert_eq!([(); 2].map(|()| place(1, "")), [0, 0]);
    assert_eq!([(); 2].map(|()| place(1, "here")), [ENODEV, ENODEV], "no gateway has a location");
    assert_eq!((place(0, ""), place(9, "")), (ENODEV, ENODEV));
    // Only an image goes to the trash.
    assert_eq!(trash(1, true), 0);
    let delete = NamespaceDeleteReq { subsystem_nqn, nsid, ..Default::default() };
    assert_eq!([(); 2].map(|()| testbed.status("namespace_delete", &delete)), [0, ENODEV]);
    let none = NamespaceDeleteReq { subsystem_nqn: "nqn.none".to_owned(), ..delete };
    assert_eq!(testbed.status("namespace_delete", &none), ENOENT);
}

#[test]
fn a_call_without_its_object_is_refused_with_the_errno_of_that_call() {
    let testbed = Testbed::new();
    let none = ListListenersReq { subsystem: "nqn.none".to_owned() };
    assert_eq!(testbed.ask::<ListenersInfo>("list_listeners", &none).status, ENOENT);
    let (subsystem_nqn, anagrpid) = (SERVED.to_owned(), 1);
    let visible = NamespaceChangeVisibilityReq { subsystem_nqn: subsystem_nqn.clone(), ..Default::default() };
    assert_eq!(testbed.status("namespace_change_visibility", &visible), ENODEV);
    let group = NamespaceChangeLoadBalancingGroupReq { subsystem_nqn, anagrpid, ..Default::default() };
    assert_eq!(testbed.status("namespace_change_load_balancing_group", &group), ENODEV);
    let port = CreateSubsystemReq { port: Some(65_536), ..create(NQN) };
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &port).status, EINVAL);
    let level = SetGatewayLogLevelReq { log_level: 5 };
    assert_eq!(testbed.status("set_gateway_log_level", &level), EINVAL);
}

#[test]
fn a_list_by_uuid_has_the_namespace_with_it_alone() {
    let testbed = Testbed::new();
    let own = namespace(&testbed).uuid;
    let upper = own.to_uppercase();
    let count = |uuid: &str| {
        let subsystem = SERVED.to_owned();
        let request = ListNamespacesReq { subsystem, uuid: Some(uuid.to_owned()), ..Default::default() };
        testbed.ask::<NamespacesInfo>("list_namespaces", &request).namespaces.len()
    };
    let other = "00000000-0000-0000-0000-0000000000cc";
    assert_eq!([own.as_str(), upper.as_str(), "", other, "nonsense"].map(count), [1, 1, 1, 0, 0]);
}

#[test]
fn a_list_has_the_sizes_of_more_namespaces_than_metrics_report() {
    let start = |mut fabric: FabricConfig| {
        let full = SubsystemConfig::new(NQN, "S0", "Selvedge").with(nulls(METRICS_NAMESPACES_MAX));
        fabric.subsystems.insert(0, full);
        fabric.subsystems[1].namespaces = nulls(1);
        test_target::start_sealing(fabric)
    };
    let testbed = Testbed::of(Access::of_this_process(), Peer::Process, start);
    let request = ListNamespacesReq { subsystem: SERVED.to_owned(), ..Default::default() };
    let listed = testbed.ask::<NamespacesInfo>("list_namespaces", &request).namespaces;
    assert_eq!(listed.iter().map(|namespace| namespace.rbd_image_size).collect::<Vec<_>>(), [1 << 20]);
}

#[test]
fn statistics_count_more_namespaces_than_metrics_detail() {
    let start = |mut fabric: FabricConfig| {
        fabric.subsystems[0].namespaces = nulls(METRICS_DETAILED_MAX + 1);
        test_target::start_sealing(fabric)
    };
    let testbed = Testbed::of(Access::of_this_process(), Peer::Process, start);
    let request = ListNamespacesIoStatsReq { subsystem_nqn: None, nsid: None };
    let listed = testbed.ask::<ListNamespacesIoStatsInfo>("list_namespaces_io_stats", &request);
    assert_eq!((listed.status, listed.namespaces.len()), (0, METRICS_DETAILED_MAX + 1));
}

/// The first namespaces of a subsystem, without storage.
fn nulls(count: usize) -> Vec<NamespaceConfig> {
    let null = |nsid| NamespaceConfig::new(nsid, BackendConfig::Null { size: 1 << 20 }, 4096);
    (1..=count as u32).map(null).collect()
}

#[test]
fn statistics_are_those_of_the_target() {
    let testbed = Testbed::new();
    let of = |subsystem_nqn: Option<&str>, nsid| {
        let request = ListNamespacesIoStatsReq { subsystem_nqn: subsystem_nqn.map(str::to_owned), nsid };
        testbed.ask::<ListNamespacesIoStatsInfo>("list_namespaces_io_stats", &request)
    };
    let (all, one) = (of(None, None), of(Some(SERVED), Some(1)));
    assert_eq!((all.status, all.namespaces.len(), all.tick_rate), (0, 1, 1_000_000_000));
    assert!(all.ticks > 0 && all.namespaces[0].bdev_name.starts_with("bdev_"));
    assert_eq!((one.status, one.namespaces), (0, all.namespaces));
    let refused =
        [(Some(SERVED), None), (None, Some(1)), (Some(SERVED), Some(9)), (Some("nqn.none"), Some(1))];
    assert_eq!(refused.map(|(nqn, nsid)| of(nqn, nsid).status), [EINVAL, EINVAL, ENODEV, ENOENT]);
    let groups: GatewayStatsInfo = testbed.ask("get_gateway_stats", &GetGatewayStatsReq {});
    assert_eq!((groups.status, groups.poll_groups[0].name.as_str()), (0, "reactor-0"));
    assert_eq!(groups.poll_groups[0].transports[0].trtype, "TCP");
    let threads: ThreadStatsInfo = testbed.ask("get_thread_stats", &GetThreadStatsReq {});
    assert_eq!((threads.status, threads.threads.len()), (0, groups.poll_groups.len()));
    let host = |nqn: &str, host: &str| {
        let request = GetConnectionIoStatisticsReq {
            subsystem_nqn: nqn.to_owned(),
            host_nqn: host.to_owned(),
            reset: None,
        };
        testbed.ask::<ConnectionIoStatistics>("get_connection_io_statistics", &request).status
    };
    assert_eq!([(); 2].map(|()| host(SERVED, HOST)), [ENODEV; 2], "it is not connected");
    assert_eq!((host("nqn.none", HOST), host(SERVED, "*")), (ENOENT, EINVAL));
    let mode = |enabled| testbed.status("set_gateway_io_stats_mode", &SetGatewayIoStatsModeReq { enabled });
    assert_eq!([(); 2].map(|()| mode(true)), [0, 0]);
    assert_eq!([(); 2].map(|()| mode(false)), [EOPNOTSUPP; 2]);
    let info: GatewayInfo = testbed.ask("get_gateway_info", &GetGatewayInfoReq::default());
    assert!(info.io_stats_enabled() && info.gateway_initialization_over() && info.bool_status);
}

#[test]
fn a_gateway_reports_its_group_its_location_and_its_limits() {
    let testbed = Testbed::through(|native| {
        native.layer(from_fn(|request: Request, next: Next| async move {
            if request.uri().path() != "/v1/gateways" {
                return next.run(request).await;
            }
            let gateway = json!({
                "name": "a", "number": 2, "location": "east", "life": "alive", "is_well": true, "has_hosts": false,
                "listeners": [], "connections": 0,
            });
            let group = json!({
                "group": "rbd/gw", "gateway": "a", "has_lease": true, "version": 1, "gateways": [gateway],
                "load_balancing_groups": [],
            });
            Response::new(Body::from(group.to_string()))
        }))
    });
    let info: GatewayInfo = testbed.ask("get_gateway_info", &GetGatewayInfoReq::default());
    let known = (info.hostname.as_str(), info.group.as_str(), info.location(), info.load_balancing_group);
    assert_eq!((info.status, known), (0, ("a", "gw", "east", 2)));
    assert!(info.max_hosts() >= info.max_hosts_per_subsystem() && info.max_hosts_per_subsystem() > 0);
    // A subsystem has the group in its name, which the answer has in any case.
    let created = [(); 2].map(|()| testbed.ask::<SubsysStatus>("create_subsystem", &create(NQN)));
    let named = format!("{NQN}.gw");
    assert_eq!(created.map(|created| (created.status, created.nqn)), [(0, named.clone()), (EEXIST, named)]);
}

#[test]
fn key_management_servers_are_refused_with_the_alternative() {
    let testbed = Testbed::new();
    let endpoint = KmipServerEndpoint { address: "kmip.example.org".to_owned(), port: None };
    let add = |nqn: &str, endpoints: &[KmipServerEndpoint]| AddKmipServerEndpointsReq {
        subsystem_nqn: nqn.to_owned(),
        server_name: "keys".to_owned(),
        endpoints: endpoints.to_vec(),
    };
    let one = std::slice::from_ref(&endpoint);
    let refused = [(); 2].map(|()| testbed.ask::<ReqStatus>("add_kmip_server_endpoints", &add(SERVED, one)));
    assert_eq!([refused[0].status, refused[1].status], [EOPNOTSUPP; 2]);
    assert!(refused[0].error_message.contains("passphrase_file"), "{}", refused[0].error_message);
    assert_eq!(testbed.status("add_kmip_server_endpoints", &add(SERVED, &[])), EINVAL);
    assert_eq!(testbed.status("add_kmip_server_endpoints", &add("nqn.none", one)), ENOENT);
    let delete = |nqn: &str, endpoints: &[KmipServerEndpoint]| {
        let AddKmipServerEndpointsReq { subsystem_nqn, server_name, endpoints } = add(nqn, endpoints);
        let request = DelKmipServerEndpointsReq { subsystem_nqn, server_name, endpoints, force: None };
        testbed.status("del_kmip_server_endpoints", &request)
    };
    assert_eq!([(); 2].map(|()| delete(SERVED, one)), [ENOENT; 2]);
    assert_eq!((delete(SERVED, &[]), delete("nqn.none", one)), (EINVAL, ENOENT));
    let listed: KmipServerEndpointsInfo =
        testbed.ask("list_kmip_server_endpoints", &ListKmipServerEndpointsReq::default());
    assert_eq!((listed.status, listed.endpoints), (0, Vec::new()));
}

#[test]
fn a_client_of_a_later_version_is_answered_in_one_line() {
    let testbed = Testbed::new();
    // Fields 98 (a number) and 99 (a text) are of no message.
    let newer = |message: Vec<u8>| framed(&[&message[..], b"\x90\x06\x01\x9a\x06\x03abc"].concat());
    for (call, message) in [
        ("add_subsystem_network", AddSubsystemNetworkReq::default().encode_to_vec()),
        ("remove_host", remove_host(NQN, HOST).encode_to_vec()),
        ("set_gateway_io_stats_mode", SetGatewayIoStatsModeReq::default().encode_to_vec()),
    ] {
        let (_, data, _) = testbed.send(call, newer(message), None);
        let answered = ReqStatus::decode(&data[5..]).unwrap();
        assert!(answered.status != 0 && !answered.error_message.contains('\n'), "{call}: {answered:?}");
    }
    let (headers, _, trailers) = testbed.send("namespace_of_tomorrow", newer(Vec::new()), None);
    let said = |name: &str| {
        let said = headers.get(name).or_else(|| trailers.get(name)).unwrap();
        said.to_str().unwrap().to_owned()
    };
    assert_eq!(said("grpc-status"), "12", "unimplemented");
    assert!(said("grpc-message").contains("namespace_of_tomorrow"), "{}", said("grpc-message"));
}

#[test]
fn an_image_is_asked_for_as_it_can_be() {
    let testbed = Testbed::new();
    let image = NamespaceAddReq {
        rbd_pool_name: "rbd".to_owned(),
        rbd_image_name: "disk".to_owned(),
        subsystem_nqn: SERVED.to_owned(),
        block_size: 4096,
        ..Default::default()
    };
    let status = |request: NamespaceAddReq| testbed.ask::<NsidStatus>("namespace_add", &request).status;
    assert_eq!(status(NamespaceAddReq { nsid: Some(1), ..image.clone() }), EEXIST);
    assert_eq!(status(NamespaceAddReq { anagrpid: Some(7), ..image.clone() }), ENODEV);
    assert_eq!(status(NamespaceAddReq { block_size: 0, ..image.clone() }), EINVAL);
    assert_eq!(status(NamespaceAddReq { block_size: 1000, ..image.clone() }), EINVAL);
    assert_eq!(status(NamespaceAddReq { rbd_image_name: String::new(), ..image.clone() }), ENODEV);
    assert_eq!(status(NamespaceAddReq { subsystem_nqn: "nqn.none".to_owned(), ..image.clone() }), ENOENT);
    assert_eq!(status(NamespaceAddReq { encryption_algorithm: Some(2), ..image.clone() }), EOPNOTSUPP);
    assert_eq!(status(NamespaceAddReq { location: Some("here".to_owned()), ..image.clone() }), ENODEV);
    let odd = NamespaceAddReq { create_image: Some(true), size: Some(4097), ..image };
    assert_eq!(status(odd), EINVAL);
    let all: SubsystemsInfo = testbed.ask("get_subsystems", &GetSubsystemsReq::default());
    assert_eq!(all.subsystems[0].namespaces.len(), 1, "nothing was added");
}

#[test]
fn an_image_that_was_there_before_is_not_moved_to_the_trash() {
    let asked = Arc::new(Mutex::new(Vec::<Value>::new()));
    let kept = asked.clone();
    // The cluster has the image already, and none is opened.
    let testbed = Testbed::through(|native| {
        native.layer(from_fn(move |request: Request, next: Next| {
            let kept = kept.clone();
            async move {
                if request.method() != Method::POST {
                    return next.run(request).await;
                }
                let body = request.into_body().collect().await.unwrap().to_bytes();
                kept.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                let mut response = Response::new(Body::from(r#"{"error": "the image exists"}"#));
                *response.status_mut() = StatusCode::CONFLICT;
                response
            }
        }))
    });
    let image = NamespaceAddReq {
        rbd_pool_name: "rbd".to_owned(),
        rbd_image_name: "disk".to_owned(),
        subsystem_nqn: SERVED.to_owned(),
        block_size: 4096,
        create_image: Some(true),
        size: Some(1 << 20),
        trash_image: Some(true),
        ..Default::default()
    };
    // True if an image is to be created, and if it goes to the trash with its namespace.
    let asked_for = |request: &NamespaceAddReq| {
        assert_eq!(testbed.ask::<NsidStatus>("namespace_add", request).status, ENODEV);
        let bodies = std::mem::take(&mut *asked.lock().unwrap());
        let flags = bodies.iter().map(|body| (body["create_image"].is_object(), body["trash_image"] == true));
        flags.collect::<Vec<_>>()
    };
    assert_eq!(asked_for(&image), [(true, true), (false, false)], "as after a lost answer");
    assert_eq!(asked_for(&NamespaceAddReq { create_image: None, ..image }), [(false, false)]);
}
