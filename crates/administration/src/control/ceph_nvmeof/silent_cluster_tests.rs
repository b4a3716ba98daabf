//! Calls whose cluster stops answering in the middle: each answers an errno and one line, and
//! leaves nothing half done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use authentication::Secret;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use ceph_nvmeof::{
    AddHostReq, AddSubsystemNetworkReq, ChangeHostKeyReq, ChangeSubsystemKeyReq, CreateListenerReq,
    CreateSubsystemReq, DelSubsystemNetworkReq, DeleteListenerReq, DeleteSubsystemReq, GetSubsystemsReq,
    ListListenersReq, ListNamespacesReq, ListenersInfo, Message, NamespaceAddHostReq, NamespaceAddReq,
    NamespaceChangeVisibilityReq, NamespaceDeleteHostReq, NamespaceDeleteReq, NamespaceResizeReq,
    NamespaceSetAutoResizeReq, NamespaceSetQosReq, NamespaceSetRbdTrashImageReq, NamespacesInfo, ReqStatus,
    SubsystemsInfo,
};
use hyper::{Method, StatusCode};
use libc::ETIMEDOUT;

use super::tests::{HOST, NQN, SERVED, Testbed, add_host, create, remove_host};

/// Answer of the control API while the cluster of a group does not answer.
const SILENCE: &str = r#"{"error": "the group's state cannot be changed", "hint": "ask another gateway"}"#;
const SAID: &str = "the group's state cannot be changed; ask another gateway";
/// More changes than a call makes.
const CHANGES_MAX: usize = 4;

/// A target whose cluster does not answer one change.
struct SilentCluster {
    testbed: Testbed,
    /// Changes up to that one; 0 for none.
    countdown: Arc<AtomicUsize>,
}

impl SilentCluster {
    fn new() -> Self {
        let countdown = Arc::new(AtomicUsize::new(0));
        let counted = countdown.clone();
        let testbed = Testbed::through(|native| {
            native.layer(from_fn(move |request: Request, next: Next| {
                let counted = counted.clone();
                async move {
                    let is_change = request.method() != Method::GET;
                    if is_change && counted.fetch_sub(1, Ordering::Relaxed) == 1 {
                        let mut response = Response::new(Body::from(SILENCE));
                        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                        return response;
                    }
                    next.run(request).await
                }
            }))
        });
        Self { testbed, countdown }
    }

    /// Makes a call, whose change with this number finds no cluster.
    fn answer(&self, call: &str, request: &impl Message, number: usize) -> ReqStatus {
        self.countdown.store(number, Ordering::Relaxed);
        let answer = self.testbed.ask(call, request);
        self.countdown.store(0, Ordering::Relaxed);
        answer
    }

    fn shown(&self) -> (SubsystemsInfo, NamespacesInfo) {
        let subsystems = self.testbed.ask("get_subsystems", &GetSubsystemsReq::default());
        (subsystems, self.testbed.ask("list_namespaces", &ListNamespacesReq::default()))
    }

    /// Checks the answer to a call, and that it has changed nothing.
    fn check(&self, call: &str, answer: &ReqStatus, before: &(SubsystemsInfo, NamespacesInfo)) {
        assert_eq!(answer.status, ETIMEDOUT, "{call}: {answer:?}");
        let what = &answer.error_message;
        assert!(what.ends_with(SAID) && !what.contains('\n'), "{call}: {what}");
        assert_eq!(self.shown(), *before, "{call} has left something");
    }

    /// Makes a call until it succeeds: its first change finds no cluster, then its second, and so
    /// on.
    fn succeeds_at_last(&self, call: &str, request: &impl Message) {
        let before = self.shown();
        for number in 1..=CHANGES_MAX {
            let answer = self.answer(call, request, number);
            if answer.status == 0 {
                assert!(number > 1, "{call} has changed nothing");
                return;
            }
            self.check(call, &answer, &before);
        }
        panic!("{call} never succeeds");
    }
}

fn secret(byte: u8) -> Option<String> {
    Some(Secret::new(&[byte; 32], None).unwrap().reveal().to_string())
}

#[test]
fn a_call_about_a_subsystem_is_refused_as_a_whole_where_the_cluster_falls_silent() {
    let cluster = SilentCluster::new();
    let of = || NQN.to_owned();
    let keyed = CreateSubsystemReq { dhchap_key: secret(1), ..create(NQN) };
    cluster.succeeds_at_last("create_subsystem", &keyed);
    let host = AddHostReq { dhchap_key: secret(2), ..add_host(NQN, HOST) };
    cluster.succeeds_at_last("add_host", &host);
    let key = ChangeHostKeyReq {
        subsystem_nqn: of(),
        host_nqn: HOST.to_owned(),
        dhchap_key: secret(3),
        ..Default::default()
    };
    cluster.succeeds_at_last("change_host_key", &key);
    let key = ChangeSubsystemKeyReq { subsystem_nqn: of(), dhchap_key: None };
    cluster.succeeds_at_last("change_subsystem_key", &key);
    let network_mask = "127.0.0.0/8".to_owned();
    let network = AddSubsystemNetworkReq { subsystem_nqn: of(), network_mask: network_mask.clone() };
    cluster.succeeds_at_last("add_subsystem_network", &network);
    let network = DelSubsystemNetworkReq { subsystem_nqn: of(), network_mask };
    cluster.succeeds_at_last("del_subsystem_network", &network);
    let everywhere = ListListenersReq { subsystem: SERVED.to_owned() };
    let known = cluster.testbed.ask::<ListenersInfo>("list_listeners", &everywhere).listeners.remove(0);
    let listener = CreateListenerReq {
        nqn: of(),
        host_name: known.host_name.clone(),
        traddr: known.traddr.clone(),
        trsvcid: Some(known.trsvcid),
        ..Default::default()
    };
    cluster.succeeds_at_last("create_listener", &listener);
    let listener = DeleteListenerReq {
        nqn: of(),
        host_name: known.host_name,
        traddr: known.traddr,
        trsvcid: Some(known.trsvcid),
        force: Some(true),
        ..Default::default()
    };
    cluster.succeeds_at_last("delete_listener", &listener);
    cluster.succeeds_at_last("remove_host", &remove_host(NQN, HOST));
    cluster.succeeds_at_last("add_host", &add_host(NQN, "*"));
    cluster.succeeds_at_last("remove_host", &remove_host(NQN, "*"));
    let whole = DeleteSubsystemReq { subsystem_nqn: of(), force: Some(true), ..Default::default() };
    cluster.succeeds_at_last("delete_subsystem", &whole);
}

#[test]
fn a_call_about_a_namespace_is_refused_as_a_whole_where_the_cluster_falls_silent() {
    let cluster = SilentCluster::new();
    let (of, nsid, host_nqn) = (|| SERVED.to_owned(), 1, HOST.to_owned());
    let image = NamespaceAddReq {
        rbd_pool_name: "rbd".to_owned(),
        rbd_image_name: "disk".to_owned(),
        subsystem_nqn: of(),
        block_size: 4096,
        create_image: Some(true),
        size: Some(8 << 20),
        ..Default::default()
    };
    let before = cluster.shown();
    cluster.check("namespace_add", &cluster.answer("namespace_add", &image, 1), &before);
    let limits =
        NamespaceSetQosReq { subsystem_nqn: of(), nsid, rw_ios_per_second: Some(1000), ..Default::default() };
    cluster.succeeds_at_last("namespace_set_qos_limits", &limits);
    let visible = |auto_visible| NamespaceChangeVisibilityReq {
        subsystem_nqn: of(),
        nsid,
        auto_visible,
        force: Some(false),
    };
    cluster.succeeds_at_last("namespace_change_visibility", &visible(false));
    let host =
        NamespaceAddHostReq { subsystem_nqn: of(), nsid, host_nqn: host_nqn.clone(), ..Default::default() };
    cluster.succeeds_at_last("namespace_add_host", &host);
    let host = NamespaceDeleteHostReq { subsystem_nqn: of(), nsid, host_nqn };
    cluster.succeeds_at_last("namespace_delete_host", &host);
    cluster.succeeds_at_last("namespace_change_visibility", &visible(true));
    let trash = NamespaceSetRbdTrashImageReq { subsystem_nqn: of(), nsid, trash_image: true };
    cluster.succeeds_at_last("namespace_set_rbd_trash_image", &trash);
    let resize = |new_size| NamespaceResizeReq { subsystem_nqn: of(), nsid, new_size };
    cluster.succeeds_at_last("namespace_resize", &resize(2));
    let holds = NamespaceSetAutoResizeReq { subsystem_nqn: of(), nsid, auto_resize: false };
    cluster.succeeds_at_last("namespace_set_auto_resize", &holds);
    let before = cluster.shown();
    cluster.check("namespace_resize", &cluster.answer("namespace_resize", &resize(3), 1), &before);
    // Of two changes, hosts learn the size by the first: the answer names the second.
    let answer = cluster.answer("namespace_resize", &resize(3), 2);
    assert_eq!(answer.status, ETIMEDOUT, "{answer:?}");
    let what = answer.error_message;
    assert!(what.contains("it has the size") && what.contains("set_auto_resize"), "{what}");
    let shown = |cluster: &SilentCluster| {
        let namespace = cluster.shown().1.namespaces.remove(0);
        (namespace.rbd_image_size, namespace.disable_auto_resize())
    };
    assert_eq!(shown(&cluster), (3 << 20, false));
    cluster.succeeds_at_last("namespace_set_auto_resize", &holds);
    assert_eq!(shown(&cluster), (3 << 20, true));
    let whole = NamespaceDeleteReq { subsystem_nqn: of(), nsid, ..Default::default() };
    cluster.succeeds_at_last("namespace_delete", &whole);
}
