//! The calls, as their bytes come and go: what each answers the first time, the second time, and to whom.

use std::sync::Arc;

use authentication::Secret;
use axum::Router;
use axum::body::Body;
use ceph_nvmeof::{
    AddHostReq, ChangeHostKeyReq, ChangeSubsystemKeyReq, ConnectionsInfo, CreateListenerReq,
    CreateSubsystemReq, DeleteListenerReq, DeleteSubsystemReq, GatewayInfo, GatewayListenersInfo,
    GatewayLogLevelInfo, GetGatewayInfoReq, GetGatewayLogLevelReq, GetSubsystemsReq, HostsInfo,
    ListConnectionsReq, ListHostsReq, ListListenersReq, ListNamespacesReq, ListSubsystemsReq, ListenersInfo,
    Message, NamespaceAddHostReq, NamespaceChangeLoadBalancingGroupReq, NamespaceChangeVisibilityReq,
    NamespaceDeleteHostReq, NamespaceDeleteReq, NamespaceGetIoStatsReq, NamespaceIoStatsInfo,
    NamespaceResizeReq, NamespaceSetQosReq, NamespacesInfo, RemoveHostReq, ReqStatus, SetGatewayLogLevelReq,
    ShowGatewayListenersInfoReq, SubsysStatus, SubsystemsInfo, SubsystemsInfoCli,
};
use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target};
use http_body_util::BodyExt as _;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use hyper::service::Service as _;
use hyper::{Request, Version};
use hyper_util::service::TowerToHyperService;
use libc::{EACCES, EADDRNOTAVAIL, EBUSY, EEXIST, EINVAL, ENODEV, ENOENT, ENOKEY, EOPNOTSUPP};
use secure_channel::ConfiguredPsk;

use super::super::access::{Access, Peer};
use super::super::administration::Administration;
use super::super::{Token, routes, test_target};

pub(super) const NQN: &str = "nqn.2016-06.io.spdk:csi";
pub(super) const SERVED: &str = "nqn.2026-01.io.selvedge:served";
pub(super) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000aa";

/// A target with one namespace, and its API.
pub(super) struct Testbed {
    router: Router,
    native: Router,
    runtime: tokio::runtime::Runtime,
    peer: Peer,
}

impl Testbed {
    pub(super) fn new() -> Self {
        Self::with(Access::of_this_process(), Peer::Process)
    }

    fn with(access: Access, peer: Peer) -> Self {
        Self::of(access, peer, test_target::start_sealing)
    }

    /// The same, with calls that reach the control API by way of `through`.
    pub(super) fn through(through: impl FnOnce(Router) -> Router) -> Self {
        Self::made(Access::of_this_process(), Peer::Process, test_target::start_sealing, through)
    }

    pub(super) fn of(access: Access, peer: Peer, start: fn(FabricConfig) -> Arc<Target>) -> Self {
        Self::made(access, peer, start, |native| native)
    }

    pub(super) fn made(
        access: Access,
        peer: Peer,
        start: fn(FabricConfig) -> Arc<Target>,
        through: impl FnOnce(Router) -> Router,
    ) -> Self {
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        let fabric = FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![SubsystemConfig::new(SERVED, "S1", "Selvedge").with(vec![namespace])],
            ..FabricConfig::default()
        };
        let administration = Arc::new(Administration::new(start(fabric), None).unwrap());
        let native = through(routes::router(administration.clone(), Arc::new(access)));
        let router = super::router(native.clone(), administration, 5500);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { router, native, runtime, peer }
    }

    /// The headers, the data and the trailers of an answer.
    pub(super) fn send(
        &self,
        call: &str,
        body: Vec<u8>,
        token: Option<&str>,
    ) -> (HeaderMap, Vec<u8>, HeaderMap) {
        let mut request = Request::builder()
            .method("POST")
            .version(Version::HTTP_2)
            .uri(format!("/Gateway/{call}"))
            .header(CONTENT_TYPE, "application/grpc");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Body::from(body)).unwrap();
        let service = self.router.clone().layer(axum::Extension(self.peer.clone()));
        self.runtime.block_on(async {
            let response = TowerToHyperService::new(service).call(request).await.unwrap();
            let headers = response.headers().clone();
            let collected = response.into_body().collect().await.unwrap();
            let trailers = collected.trailers().cloned().unwrap_or_default();
            (headers, collected.to_bytes().to_vec(), trailers)
        })
    }

    /// Metrics as Prometheus gets them.
    fn metrics(&self) -> String {
        let request = Request::builder().uri("/metrics/ceph-nvmeof").body(Body::empty()).unwrap();
        let service = self.native.clone().layer(axum::Extension(self.peer.clone()));
        self.runtime.block_on(async {
            let response = TowerToHyperService::new(service).call(request).await.unwrap();
            String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
        })
    }

    fn ask_with<A: Message + Default>(&self, call: &str, request: &impl Message, token: Option<&str>) -> A {
        let (_, data, trailers) = self.send(call, framed(&request.encode_to_vec()), token);
        assert_eq!(trailers["grpc-status"], "0", "{call}");
        assert_eq!(data[0], 0, "not compressed");
        A::decode(&data[5..]).unwrap()
    }

    pub(super) fn ask<A: Message + Default>(&self, call: &str, request: &impl Message) -> A {
        self.ask_with(call, request, None)
    }

    /// The status of a call that says no more.
    pub(super) fn status(&self, call: &str, request: &impl Message) -> i32 {
        self.ask::<ReqStatus>(call, request).status
    }
}

pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], message].concat()
}

pub(super) fn create(nqn: &str) -> CreateSubsystemReq {
    CreateSubsystemReq { subsystem_nqn: nqn.to_owned(), enable_ha: true, ..Default::default() }
}

pub(super) fn add_host(nqn: &str, host: &str) -> AddHostReq {
    AddHostReq { subsystem_nqn: nqn.to_owned(), host_nqn: host.to_owned(), ..Default::default() }
}

pub(super) fn remove_host(nqn: &str, host: &str) -> RemoveHostReq {
    RemoveHostReq { subsystem_nqn: nqn.to_owned(), host_nqn: host.to_owned(), ..Default::default() }
}

fn delete(nqn: &str) -> DeleteSubsystemReq {
    DeleteSubsystemReq { subsystem_nqn: nqn.to_owned(), ..Default::default() }
}

fn listener(nqn: &str, host_name: &str, trsvcid: u32) -> CreateListenerReq {
    CreateListenerReq {
        nqn: nqn.to_owned(),
        host_name: host_name.to_owned(),
        traddr: "127.0.0.1".to_owned(),
        trsvcid: Some(trsvcid),
        ..Default::default()
    }
}

#[test]
fn a_subsystem_comes_and_goes_and_each_call_may_come_twice() {
    let testbed = Testbed::new();
    let created: Vec<SubsysStatus> = [(); 2].map(|()| testbed.ask("create_subsystem", &create(NQN))).into();
    assert_eq!((created[0].status, created[0].nqn.as_str()), (0, NQN));
    assert_eq!(created[0].error_message, "Success");
    assert_eq!((created[1].status, created[1].nqn.as_str()), (EEXIST, NQN));
    assert!(created[1].error_message.ends_with("Subsystem already exists"), "{}", created[1].error_message);
    let serial = CreateSubsystemReq { serial_number: "S1".to_owned(), ..create("nqn.2016-06.io.spdk:other") };
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &serial).status, EEXIST, "of another");
    let alone = CreateSubsystemReq { enable_ha: false, ..create("nqn.2016-06.io.spdk:other") };
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &alone).status, EINVAL);
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &create("no name")).status, EINVAL);
    for (call, expected) in [("add_host", [0, EEXIST]), ("remove_host", [0, ENOENT])] {
        let statuses = match call {
            "add_host" => [(); 2].map(|()| testbed.status(call, &add_host(NQN, HOST))),
            _ => [(); 2].map(|()| testbed.status(call, &remove_host(NQN, HOST))),
        };
        assert_eq!(statuses, expected, "{call}");
    }
    assert_eq!([(); 2].map(|()| testbed.status("add_host", &add_host(NQN, "*"))), [0, EEXIST]);
    assert_eq!([(); 2].map(|()| testbed.status("remove_host", &remove_host(NQN, "*"))), [0, 0]);
    let keyed = AddHostReq { dhchap_key: Some("DHHC-1:".to_owned()), ..add_host(NQN, HOST) };
    assert_eq!(testbed.status("add_host", &keyed), EINVAL, "not a key");
    let hosts: HostsInfo =
        testbed.ask("list_hosts", &ListHostsReq { subsystem: NQN.to_owned(), ..Default::default() });
    assert_eq!((hosts.allow_any_host, hosts.hosts), (false, Vec::new()));
    assert_eq!(testbed.status("add_host", &add_host("nqn.none", HOST)), ENOENT);
    let delete = |force| DeleteSubsystemReq {
        subsystem_nqn: SERVED.to_owned(),
        force: Some(force),
        ..Default::default()
    };
    assert_eq!(testbed.status("delete_subsystem", &delete(false)), EBUSY, "it has a namespace");
    assert_eq!([(); 2].map(|()| testbed.status("delete_subsystem", &delete(true))), [0, ENOENT]);
    let left: SubsystemsInfoCli = testbed.ask("list_subsystems", &ListSubsystemsReq::default());
    assert_eq!(left.subsystems.iter().map(|one| one.nqn.as_str()).collect::<Vec<_>>(), [NQN]);
    let one = ListSubsystemsReq { subsystem_nqn: Some(SERVED.to_owned()), ..Default::default() };
    assert_eq!(testbed.ask::<SubsystemsInfoCli>("list_subsystems", &one).status, ENODEV);
}

#[test]
fn keys_come_by_calls_and_each_may_come_twice() {
    let testbed = Testbed::new();
    let secret = |byte| Some(Secret::new(&[byte; 32], None).unwrap().reveal().to_string());
    let psk = ConfiguredPsk::new(&[5; 32], None).unwrap().reveal().to_string();
    let keyed = CreateSubsystemReq { dhchap_key: secret(1), ..create(NQN) };
    let created: Vec<SubsysStatus> = [(); 2].map(|()| testbed.ask("create_subsystem", &keyed)).into();
    assert_eq!([created[0].status, created[1].status], [0, EEXIST]);
    let no_key =
        CreateSubsystemReq { dhchap_key: Some("DHHC-1:".to_owned()), ..create("nqn.2016-06.io.spdk:b") };
    assert_eq!(testbed.ask::<SubsysStatus>("create_subsystem", &no_key).status, EINVAL);
    assert_eq!(
        testbed.status("delete_subsystem", &delete("nqn.2016-06.io.spdk:b")),
        ENOENT,
        "nothing is left"
    );
    assert_eq!(testbed.status("add_host", &add_host(NQN, "*")), EACCES, "a subsystem with a key");
    assert_eq!(testbed.status("add_host", &add_host(NQN, HOST)), ENOKEY, "without a key");
    let host = AddHostReq { dhchap_key: secret(2), psk: Some(psk), ..add_host(NQN, HOST) };
    assert_eq!([(); 2].map(|()| testbed.status("add_host", &host)), [0, EEXIST]);
    let shown = || {
        let hosts: HostsInfo =
            testbed.ask("list_hosts", &ListHostsReq { subsystem: NQN.to_owned(), ..Default::default() });
        hosts.hosts.iter().map(|host| (host.use_dhchap(), host.use_psk())).collect::<Vec<_>>()
    };
    assert_eq!(shown(), [(true, true)]);
    let change = |host: &str, dhchap_key| ChangeHostKeyReq {
        subsystem_nqn: NQN.to_owned(),
        host_nqn: host.to_owned(),
        dhchap_key,
        ..Default::default()
    };
    assert_eq!([(); 2].map(|()| testbed.status("change_host_key", &change(HOST, secret(3)))), [0, 0]);
    assert_eq!(testbed.status("change_host_key", &change(HOST, None)), ENOKEY, "the subsystem has one");
    assert_eq!(testbed.status("change_host_key", &change(HOST, Some("x".to_owned()))), EINVAL);
    assert_eq!(testbed.status("change_host_key", &change("*", secret(3))), EINVAL);
    assert_eq!(testbed.status("change_host_key", &change("nqn.other", secret(3))), ENODEV);
    assert_eq!(shown(), [(true, true)], "the PSK stays");
    let subsystem_key = |dhchap_key| ChangeSubsystemKeyReq { subsystem_nqn: NQN.to_owned(), dhchap_key };
    assert_eq!([(); 2].map(|()| testbed.status("change_subsystem_key", &subsystem_key(None))), [0, 0]);
    assert_eq!(testbed.status("change_host_key", &change(HOST, Some(String::new()))), 0);
    assert_eq!(shown(), [(false, true)]);
    assert_eq!(testbed.status("change_subsystem_key", &subsystem_key(secret(4))), EINVAL, "a host has none");
    assert_eq!(testbed.status("change_host_key", &change(HOST, secret(3))), 0);
    assert_eq!(testbed.status("change_subsystem_key", &subsystem_key(secret(4))), 0);
    let none = ChangeSubsystemKeyReq { subsystem_nqn: "nqn.none".to_owned(), dhchap_key: secret(4) };
    assert_eq!(testbed.status("change_subsystem_key", &none), ENODEV);
    assert_eq!(testbed.status("remove_host", &remove_host(NQN, HOST)), 0);
    assert_eq!(testbed.status("change_subsystem_key", &subsystem_key(None)), 0);
    assert_eq!(testbed.status("add_host", &add_host(NQN, HOST)), 0);
    assert_eq!(shown(), [(false, false)], "the keys went with the host");
}

#[test]
fn nothing_is_done_by_halves_where_keys_cannot_be_kept() {
    let testbed = Testbed::of(Access::of_this_process(), Peer::Process, test_target::start);
    let secret = || Some(Secret::new(&[1; 32], None).unwrap().reveal().to_string());
    let keyed = CreateSubsystemReq { dhchap_key: secret(), ..create(NQN) };
    let refused: SubsysStatus = testbed.ask("create_subsystem", &keyed);
    assert_eq!(refused.status, ENOKEY);
    assert!(refused.error_message.contains("--encryption-key"), "{}", refused.error_message);
    assert_eq!(
        testbed.ask::<SubsysStatus>("create_subsystem", &create(NQN)).status,
        0,
        "nothing is left of it"
    );
    let host = AddHostReq { dhchap_key: secret(), ..add_host(NQN, HOST) };
    assert_eq!(testbed.status("add_host", &host), ENOKEY);
    let hosts: HostsInfo =
        testbed.ask("list_hosts", &ListHostsReq { subsystem: NQN.to_owned(), ..Default::default() });
    assert_eq!(hosts.hosts, Vec::new(), "the host did not come without its key");
}

#[test]
fn a_listener_is_there_where_the_gateway_listens() {
    let testbed = Testbed::new();
    let own = testbed.ask::<GatewayInfo>("get_gateway_info", &GetGatewayInfoReq::default());
    assert!(own.bool_status && own.port == "5500", "{own:?}");
    let listeners = || {
        let request = ListListenersReq { subsystem: SERVED.to_owned() };
        testbed.ask::<ListenersInfo>("list_listeners", &request).listeners
    };
    let [known] = &listeners()[..] else { panic!("one port") };
    assert_eq!(known.host_name, own.hostname);
    assert_eq!(testbed.status("create_listener", &listener(SERVED, &own.hostname, known.trsvcid)), EEXIST);
    let elsewhere =
        CreateListenerReq { traddr: "203.0.113.1".to_owned(), ..listener(SERVED, &own.hostname, 4420) };
    assert_ne!(testbed.status("create_listener", &elsewhere), 0, "it is none of the machine's");
    let nonsense = CreateListenerReq { traddr: "here".to_owned(), ..elsewhere };
    assert_eq!(testbed.status("create_listener", &nonsense), EADDRNOTAVAIL);
    assert_eq!(testbed.status("create_listener", &listener(SERVED, "elsewhere", 4420)), ENODEV);
    assert_eq!(testbed.status("create_listener", &listener("nqn.none", &own.hostname, 4420)), ENOENT);
    assert_eq!(listeners().len(), 1);
    let secure = CreateListenerReq { secure: Some(true), ..listener(SERVED, &own.hostname, known.trsvcid) };
    assert_eq!(testbed.status("create_listener", &secure), EINVAL, "any host comes in");
    assert_eq!(testbed.status("remove_host", &remove_host(SERVED, "*")), 0);
    assert_eq!(testbed.status("create_listener", &secure), EOPNOTSUPP, "it takes connections in clear");
    let delete =
        DeleteListenerReq { nqn: SERVED.to_owned(), host_name: "*".to_owned(), ..Default::default() };
    assert_eq!(testbed.status("delete_listener", &delete), EINVAL, "all, by mistake");
    let own_name = own.hostname.as_str();
    let delete = DeleteListenerReq {
        host_name: own_name.to_owned(),
        traddr: "127.0.0.1".to_owned(),
        trsvcid: Some(known.trsvcid),
        ..delete
    };
    assert_eq!(
        testbed.status("delete_listener", &DeleteListenerReq { trsvcid: Some(1), ..delete.clone() }),
        ENOENT
    );
    assert_eq!([(); 2].map(|()| testbed.status("delete_listener", &delete)), [0, ENOENT]);
    assert_eq!(listeners(), [], "it is found nowhere");
    assert_eq!(
        [(); 2].map(|()| testbed.status("create_listener", &listener(SERVED, own_name, known.trsvcid))),
        [0, EEXIST]
    );
    assert_eq!(listeners(), std::slice::from_ref(known));
    let others = DeleteListenerReq { host_name: "elsewhere".to_owned(), ..delete.clone() };
    assert_eq!(testbed.status("delete_listener", &others), ENOENT);
    let delete = DeleteListenerReq { host_name: "*".to_owned(), force: Some(true), ..delete };
    assert_eq!([(); 2].map(|()| testbed.status("delete_listener", &delete)), [0, ENOENT]);
    assert_eq!(testbed.status("create_listener", &listener(SERVED, own_name, known.trsvcid)), 0);
    let request = ShowGatewayListenersInfoReq { subsystem_nqn: SERVED.to_owned() };
    let shown: GatewayListenersInfo = testbed.ask("show_gateway_listeners_info", &request);
    let states: Vec<_> =
        shown.gw_listeners[0].lb_states.iter().map(|state| (state.grp_id, state.state)).collect();
    assert_eq!(states, [(1, ceph_nvmeof::AnaState::Optimized as i32)]);
    let request = ListConnectionsReq { subsystem: SERVED.to_owned(), ..Default::default() };
    assert_eq!(testbed.status("add_host", &add_host(SERVED, HOST)), 0);
    let connections: ConnectionsInfo = testbed.ask("list_connections", &request);
    assert_eq!(connections.connections.iter().map(|one| one.connected).collect::<Vec<_>>(), [false]);
}

#[test]
fn a_subsystem_is_found_where_listeners_are_created_for_it() {
    let testbed = Testbed::new();
    let own = testbed.ask::<GatewayInfo>("get_gateway_info", &GetGatewayInfoReq::default());
    let listeners = |nqn: &str| {
        let request = ListListenersReq { subsystem: nqn.to_owned() };
        testbed.ask::<ListenersInfo>("list_listeners", &request).listeners
    };
    let (own_name, service) = (own.hostname.as_str(), listeners(SERVED)[0].trsvcid);
    let created: SubsysStatus = testbed.ask("create_subsystem", &create(NQN));
    assert_eq!((created.status, listeners(NQN).len(), listeners(SERVED).len()), (0, 0, 1));
    let create = listener(NQN, own_name, service);
    assert_eq!([(); 2].map(|()| testbed.status("create_listener", &create)), [0, EEXIST]);
    assert_eq!(listeners(NQN).len(), 1);
    let any = "0.0.0.0".to_owned();
    let delete = DeleteListenerReq {
        nqn: NQN.to_owned(),
        host_name: own_name.to_owned(),
        traddr: any.clone(),
        trsvcid: Some(service),
        ..Default::default()
    };
    let all = CreateListenerReq { traddr: any, ..create };
    assert_eq!(testbed.status("create_listener", &all), EEXIST, "any address is all of them");
    assert_eq!([(); 2].map(|()| testbed.status("delete_listener", &delete)), [0, ENOENT]);
    assert_eq!([(); 2].map(|()| testbed.status("create_listener", &all)), [0, EEXIST]);
    assert_eq!(listeners(NQN).len(), 1);
}

#[test]
fn a_namespace_is_changed_setting_by_setting() {
    let testbed = Testbed::new();
    let (subsystem_nqn, nsid) = (SERVED.to_owned(), 1);
    let listed = || {
        let request = ListNamespacesReq { subsystem: SERVED.to_owned(), ..Default::default() };
        testbed.ask::<NamespacesInfo>("list_namespaces", &request).namespaces.pop().unwrap()
    };
    assert_eq!((listed().rbd_image_size, listed().auto_visible), (1 << 20, true));
    let qos = NamespaceSetQosReq {
        subsystem_nqn: subsystem_nqn.clone(),
        nsid,
        rw_ios_per_second: Some(1_000),
        rw_mbytes_per_second: Some(10),
        ..Default::default()
    };
    assert_eq!(testbed.status("namespace_set_qos_limits", &qos), 0);
    let less = NamespaceSetQosReq { rw_ios_per_second: Some(0), rw_mbytes_per_second: None, ..qos };
    assert_eq!(testbed.status("namespace_set_qos_limits", &less), 0);
    assert_eq!((listed().rw_ios_per_second, listed().rw_mbytes_per_second), (0, 10));
    let resize = |new_size| NamespaceResizeReq { subsystem_nqn: subsystem_nqn.clone(), nsid, new_size };
    assert_eq!(testbed.status("namespace_resize", &resize(2)), 0);
    assert_eq!(listed().rbd_image_size, 2 << 20);
    assert_eq!(testbed.status("namespace_resize", &resize(1)), EINVAL, "smaller");
    let host_nqn = HOST.to_owned();
    let add = NamespaceAddHostReq {
        subsystem_nqn: subsystem_nqn.clone(),
        nsid,
        host_nqn: host_nqn.clone(),
        ..Default::default()
    };
    assert_eq!(testbed.status("namespace_add_host", &add), EINVAL, "all see it");
    let visible = |auto_visible, force| NamespaceChangeVisibilityReq {
        subsystem_nqn: subsystem_nqn.clone(),
        nsid,
        auto_visible,
        force: Some(force),
    };
    assert_eq!(
        [(); 2].map(|()| testbed.status("namespace_change_visibility", &visible(false, false))),
        [0, 0]
    );
    assert_eq!([(); 2].map(|()| testbed.status("namespace_add_host", &add)), [0, 0]);
    assert_eq!((listed().auto_visible, listed().hosts), (false, vec![host_nqn.clone()]));
    assert_eq!(
        testbed.status("namespace_change_visibility", &visible(true, false)),
        EBUSY,
        "a list would be lost"
    );
    let delete = NamespaceDeleteHostReq { subsystem_nqn: subsystem_nqn.clone(), nsid, host_nqn };
    assert_eq!([(); 2].map(|()| testbed.status("namespace_delete_host", &delete)), [0, ENODEV]);
    assert_eq!(testbed.status("namespace_change_visibility", &visible(true, false)), 0);
    let group = NamespaceChangeLoadBalancingGroupReq {
        subsystem_nqn: subsystem_nqn.clone(),
        nsid,
        anagrpid: 2,
        ..Default::default()
    };
    assert_eq!(testbed.status("namespace_change_load_balancing_group", &group), ENODEV);
    let stats = NamespaceGetIoStatsReq { subsystem_nqn: subsystem_nqn.clone(), nsid };
    let stats: NamespaceIoStatsInfo = testbed.ask("namespace_get_io_stats", &stats);
    assert_eq!((stats.status, stats.num_read_ops, stats.tick_rate), (0, 0, 1_000_000_000));
    let delete = NamespaceDeleteReq { subsystem_nqn, nsid, ..Default::default() };
    assert_eq!([(); 2].map(|()| testbed.status("namespace_delete", &delete)), [0, ENODEV]);
}

#[test]
fn dashboards_find_what_they_ask_for() {
    let testbed = Testbed::new();
    assert_eq!(testbed.status("add_host", &add_host(SERVED, HOST)), 0);
    let text = testbed.metrics();
    // The names in ceph-nvmeof's dashboard for Grafana.
    for name in [
        "bdev_capacity_bytes{bdev_name=\"bdev_",
        "bdev_read_bytes_total{bdev_name=\"bdev_",
        "bdev_read_seconds_total{bdev_name=\"bdev_",
        "bdev_reads_completed_total{bdev_name=\"bdev_",
        "bdev_write_seconds_total{bdev_name=\"bdev_",
        "bdev_writes_completed_total{bdev_name=\"bdev_",
        "bdev_written_bytes_total{bdev_name=\"bdev_",
        "gateway_info{version=\"",
        "host_connection_state{gw_name=\"",
        "reactor_seconds_total{name=\"reactor-0\",mode=\"busy\"}",
        "subsystem_metadata{nqn=\"nqn.2026-01.io.selvedge:served\",serial_number=\"S1\"",
        "subsystem_namespace_metadata{nqn=\"nqn.2026-01.io.selvedge:served\",nsid=\"1\",bdev_name=\"bdev_",
    ] {
        assert!(text.contains(&format!("\nceph_nvmeof_{name}")), "{name} in\n{text}");
    }
    assert!(text.contains("ceph_nvmeof_bdev_metadata"), "which only images have");
    let host = format!("host_nqn=\"{HOST}\",host_addr=\"<n/a>\"}} 0\n");
    assert!(text.contains(&host), "{text}");
}

fn start_closed(mut fabric: FabricConfig) -> Arc<Target> {
    fabric.subsystems[0].allow_any_host = false;
    test_target::start_sealing(fabric)
}

#[test]
fn a_caller_with_read_access_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    let (token, other) = ("the_token_of_a_reader", "the_token_of_an_operator");
    let sha256 = |token: &str| super::super::fingerprint::Fingerprint::of(token.as_bytes());
    let text = format!(
        "[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{}\"\n[[token]]\nname = \"b\"\nrole = \"operate\"\n\
         subsystems = [\"{SERVED}\"]\nsha256 = \"{}\"\n",
        sha256(token),
        sha256(other)
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let access = Access::new(Some(&path), None::<&Token>).unwrap_or_else(|failure| panic!("{failure:?}"));
    let address = ([192, 0, 2, 1], 7).into();
    let testbed = Testbed::of(access, Peer::Remote { address, certificate: None }, start_closed);
    let list = ListSubsystemsReq::default();
    let listed: SubsystemsInfoCli = testbed.ask_with("list_subsystems", &list, Some(token));
    assert_eq!((listed.status, listed.subsystems.len()), (0, 1));
    let created: SubsysStatus = testbed.ask_with("create_subsystem", &create(NQN), Some(token));
    assert_eq!(created.status, EACCES, "{}", created.error_message);
    let added: ReqStatus = testbed.ask_with("add_host", &add_host(SERVED, HOST), Some(token));
    assert_eq!(added.status, EACCES);
    let set = SetGatewayLogLevelReq { log_level: 10 };
    assert_eq!(testbed.ask_with::<ReqStatus>("set_gateway_log_level", &set, Some(other)).status, EACCES);
    let added: ReqStatus = testbed.ask_with("add_host", &add_host(SERVED, HOST), Some(other));
    assert_eq!(added.status, 0, "{}", added.error_message);
    assert_eq!(
        testbed.ask_with::<SubsysStatus>("create_subsystem", &create(NQN), Some(other)).status,
        EACCES
    );
    let key = Some(Secret::new(&[1; 32], None).unwrap().reveal().to_string());
    let change = ChangeHostKeyReq {
        subsystem_nqn: SERVED.to_owned(),
        host_nqn: HOST.to_owned(),
        dhchap_key: key.clone(),
        ..Default::default()
    };
    for (token, status) in [(other, 0), (token, EACCES)] {
        assert_eq!(testbed.ask_with::<ReqStatus>("change_host_key", &change, Some(token)).status, status);
        let change = ChangeSubsystemKeyReq { subsystem_nqn: SERVED.to_owned(), dhchap_key: key.clone() };
        assert_eq!(
            testbed.ask_with::<ReqStatus>("change_subsystem_key", &change, Some(token)).status,
            status
        );
    }
    // Where a subsystem is found is for those who give out addresses.
    let request = ListListenersReq { subsystem: SERVED.to_owned() };
    let places: ListenersInfo = testbed.ask_with("list_listeners", &request, Some(other));
    let place = &places.listeners[0];
    let delete = DeleteListenerReq {
        nqn: SERVED.to_owned(),
        host_name: place.host_name.clone(),
        traddr: place.traddr.clone(),
        trsvcid: Some(place.trsvcid),
        ..Default::default()
    };
    assert_eq!(testbed.ask_with::<ReqStatus>("delete_listener", &delete, Some(other)).status, EACCES);
    // One that shows nothing learns nothing.
    let nothing: SubsystemsInfoCli = testbed.ask("list_subsystems", &list);
    assert_eq!((nothing.status, nothing.subsystems.len()), (EACCES, 0));
    assert_eq!(testbed.ask::<ListenersInfo>("list_listeners", &request).status, EACCES);
    assert_eq!(
        testbed.ask::<SubsystemsInfo>("get_subsystems", &GetSubsystemsReq::default()).subsystems.len(),
        0
    );
}

#[test]
fn a_certificate_with_read_access_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    let text = format!(
        "[[certificate]]\nname = \"reader.example.org\"\nrole = \"read\"\n\
         [[certificate]]\nname = \"operator.example.org\"\nrole = \"operate\"\nsubsystems = [\"{SERVED}\"]\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let testbed = |name: &str| {
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let signed = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let certificate = Some(rustls::pki_types::CertificateDer::from(signed.der().to_vec()));
        let access = Access::new(Some(&path), None::<&Token>).unwrap_or_else(|failure| panic!("{failure:?}"));
        Testbed::with(access, Peer::Remote { address: ([192, 0, 2, 1], 7).into(), certificate })
    };
    let served = |testbed: &Testbed| {
        let listed: SubsystemsInfoCli = testbed.ask("list_subsystems", &ListSubsystemsReq::default());
        let hosts: HostsInfo =
            testbed.ask("list_hosts", &ListHostsReq { subsystem: SERVED.to_owned(), ..Default::default() });
        (listed.status, listed.subsystems.len(), hosts.hosts.len())
    };
    let changes = |testbed: &Testbed| {
        [
            testbed.status("add_host", &add_host(SERVED, HOST)),
            testbed.status("set_gateway_log_level", &SetGatewayLogLevelReq { log_level: 10 }),
            testbed.ask::<SubsysStatus>("create_subsystem", &create(NQN)).status,
            testbed.status("delete_subsystem", &DeleteSubsystemReq { force: Some(true), ..delete(SERVED) }),
        ]
    };
    let reader = testbed("reader.example.org");
    assert_eq!(changes(&reader), [EACCES; 4]);
    assert_eq!(served(&reader), (0, 1, 0), "it sees what is served");
    let operator = testbed("operator.example.org");
    assert_eq!(changes(&operator), [0, EACCES, EACCES, EACCES]);
    assert_eq!(served(&operator), (0, 1, 1));
    let stranger = testbed("stranger.example.org");
    assert_eq!(stranger.status("add_host", &add_host(SERVED, HOST)), EACCES);
    let nothing: SubsystemsInfoCli = stranger.ask("list_subsystems", &ListSubsystemsReq::default());
    assert_eq!((nothing.status, nothing.subsystems.len()), (EACCES, 0));
}

#[test]
fn what_is_no_call_costs_its_sender_an_error() {
    let testbed = Testbed::new();
    let refused = |call: &str, body: Vec<u8>| {
        let (headers, _, trailers) = testbed.send(call, body, None);
        let status = headers.get("grpc-status").or_else(|| trailers.get("grpc-status")).unwrap();
        status.to_str().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(refused("no_call", framed(b"")), 12, "unimplemented");
    assert_ne!(refused("create_subsystem", framed(b"\xff\xff\xff")), 0);
    assert_ne!(refused("create_subsystem", Vec::new()), 0);
    assert_ne!(refused("create_subsystem", vec![0, 0xff, 0xff, 0xff, 0xff]), 0, "more than anybody sends");
    assert_ne!(refused("create_subsystem", vec![1, 0, 0, 0, 0]), 0, "compressed");
    // A field of a newer version is skipped.
    let mut newer = create(NQN).encode_to_vec();
    newer.extend(b"\x9a\x06\x03abc");
    let (_, data, _) = testbed.send("create_subsystem", framed(&newer), None);
    assert_eq!(SubsysStatus::decode(&data[5..]).unwrap().status, 0);
    let level: GatewayLogLevelInfo = testbed.ask("get_gateway_log_level", &GetGatewayLogLevelReq::default());
    assert_eq!(level.status, 0);
}
