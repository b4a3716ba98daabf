//! Calls that change one object at the same moment: both answer success, and both have an effect. A call that came second is
//! made again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use authentication::Secret;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use ceph_nvmeof::{
    AddSubsystemNetworkReq, CreateListenerReq, CreateSubsystemReq, DelSubsystemNetworkReq, DeleteListenerReq,
    DeleteSubsystemReq, ListListenersReq, ListNamespacesReq, ListSubsystemsReq, ListenerInfo, ListenersInfo,
    Message, NamespaceAddHostReq, NamespaceAddReq, NamespaceChangeVisibilityReq, NamespaceDeleteHostReq,
    NamespaceResizeReq, NamespaceSetAutoResizeReq, NamespacesInfo, SubsysStatus, SubsystemsInfoCli,
};
use engine::target::{FabricConfig, PortConfig, Target};
use hyper::{Method, StatusCode};
use libc::{EAGAIN, EEXIST, EINVAL, ENODEV};
use tokio::sync::Barrier;

use super::super::access::{Access, Peer};
use super::super::limits::CALL_ATTEMPTS_MAX;
use super::super::test_target;
use super::tests::{HOST, NQN, SERVED, Testbed, add_host, create};

/// Two calls at a time.
const CALLS: usize = 2;
const OTHER_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000bb";

/// A target with two ports, whose changes begin when each call of a pair has seen what it is about to change.
struct Pairs {
    testbed: Testbed,
    /// Changes that still wait for those of the other call.
    waiting: Arc<AtomicUsize>,
}

impl Pairs {
    fn new() -> Self {
        let waiting = Arc::new(AtomicUsize::new(0));
        let (counted, barrier) = (waiting.clone(), Arc::new(Barrier::new(CALLS)));
        let through = move |native: Router| {
            native.layer(from_fn(move |request: Request, next: Next| {
                let (counted, barrier) = (counted.clone(), barrier.clone());
                async move {
                    let less = |left: usize| left.checked_sub(1);
                    let is_change = request.method() == Method::PATCH;
                    if is_change && counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
                        barrier.wait().await;
                    }
                    next.run(request).await
                }
            }))
        };
        let testbed = Testbed::made(Access::of_this_process(), Peer::Process, two_ports, through);
        Self { testbed, waiting }
    }

    /// The statuses of two calls at the same moment.
    fn at_once<Q: Message>(&self, call: &str, requests: &[Q; CALLS]) -> [i32; CALLS] {
        self.waiting.store(CALLS, Ordering::Relaxed);
        thread::scope(|scope| {
            let calls =
                requests.each_ref().map(|request| scope.spawn(move || self.testbed.status(call, request)));
            calls.map(|call| call.join().unwrap())
        })
    }

    fn listeners(&self, nqn: &str) -> Vec<ListenerInfo> {
        let request = ListListenersReq { subsystem: nqn.to_owned() };
        self.testbed.ask::<ListenersInfo>("list_listeners", &request).listeners
    }
}

fn two_ports(mut fabric: FabricConfig) -> Arc<Target> {
    fabric.ports.push(PortConfig::new(2, ([127, 0, 0, 1], 0).into()));
    test_target::start_sealing(fabric)
}

#[test]
fn no_listener_is_lost_to_another_call() {
    let pairs = Pairs::new();
    assert_eq!(pairs.testbed.ask::<SubsysStatus>("create_subsystem", &create(NQN)).status, 0);
    let everywhere = pairs.listeners(SERVED);
    let [first, second] = &everywhere[..] else { panic!("{everywhere:?}") };
    let added = [first, second].map(|known| CreateListenerReq {
        nqn: NQN.to_owned(),
        host_name: known.host_name.clone(),
        traddr: known.traddr.clone(),
        trsvcid: Some(known.trsvcid),
        ..Default::default()
    });
    assert_eq!(pairs.at_once("create_listener", &added), [0, 0]);
    assert_eq!(pairs.listeners(NQN).len(), 2);
    let delete = added.map(|added| DeleteListenerReq {
        nqn: added.nqn,
        host_name: added.host_name,
        traddr: added.traddr,
        trsvcid: added.trsvcid,
        ..Default::default()
    });
    assert_eq!(pairs.at_once("delete_listener", &delete), [0, 0]);
    assert_eq!(pairs.listeners(NQN), []);
}

#[test]
fn no_network_is_lost_to_another_call() {
    let pairs = Pairs::new();
    let masks = || {
        let request = ListSubsystemsReq { subsystem_nqn: Some(SERVED.to_owned()), ..Default::default() };
        let listed: SubsystemsInfoCli = pairs.testbed.ask("list_subsystems", &request);
        let mut masks = listed.subsystems.into_iter().flat_map(|one| one.network_mask).collect::<Vec<_>>();
        masks.sort();
        masks
    };
    let networks = ["127.0.0.0/8", "127.0.0.1/32"].map(str::to_owned);
    let add = networks
        .clone()
        .map(|network_mask| AddSubsystemNetworkReq { subsystem_nqn: SERVED.to_owned(), network_mask });
    assert_eq!(pairs.at_once("add_subsystem_network", &add), [0, 0]);
    assert_eq!(masks(), networks);
    let delete = networks
        .map(|network_mask| DelSubsystemNetworkReq { subsystem_nqn: SERVED.to_owned(), network_mask });
    assert_eq!(pairs.at_once("del_subsystem_network", &delete), [0, 0]);
    assert!(masks().is_empty());
}

#[test]
fn no_host_of_a_namespace_is_lost_to_another_call() {
    let pairs = Pairs::new();
    let hosts = || {
        let request = ListNamespacesReq { subsystem: SERVED.to_owned(), ..Default::default() };
        let mut listed: NamespacesInfo = pairs.testbed.ask("list_namespaces", &request);
        let mut hosts = listed.namespaces.remove(0).hosts;
        hosts.sort();
        hosts
    };
    let visible = NamespaceChangeVisibilityReq {
        subsystem_nqn: SERVED.to_owned(),
        nsid: 1,
        auto_visible: false,
        force: None,
    };
    assert_eq!(pairs.testbed.status("namespace_change_visibility", &visible), 0);
    let both = [HOST, OTHER_HOST].map(str::to_owned);
    let add = both.clone().map(|host_nqn| NamespaceAddHostReq {
        subsystem_nqn: SERVED.to_owned(),
        nsid: 1,
        host_nqn,
        force: None,
    });
    assert_eq!(pairs.at_once("namespace_add_host", &add), [0, 0]);
    assert_eq!(hosts(), both);
    let delete =
        both.map(|host_nqn| NamespaceDeleteHostReq { subsystem_nqn: SERVED.to_owned(), nsid: 1, host_nqn });
    assert_eq!(pairs.at_once("namespace_delete_host", &delete), [0, 0]);
    assert!(hosts().is_empty());
}

/// Answers of the control API to a change that came second, and to one that does not fit what is there.
const SECOND: &str = r#"{"error": "the configuration was changed", "code": "changed"}"#;
const UNFIT: &str = r#"{"error": "it is in use"}"#;

/// A target that refuses some changes with status 409.
struct Refusing {
    testbed: Testbed,
    /// Changes that are made before the refused ones, and the number of these that is left.
    made: Arc<AtomicUsize>,
    left: Arc<AtomicUsize>,
}

impl Refusing {
    fn with(answer: &'static str) -> Self {
        let (made, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = (made.clone(), left.clone());
        let testbed = Testbed::through(|native| {
            native.layer(from_fn(move |request: Request, next: Next| {
                let (made, left) = counted.clone();
                async move {
                    let take = |count: &AtomicUsize| {
                        let less = |left: usize| left.checked_sub(1);
                        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
                    };
                    if request.method() != Method::GET && !take(&made) && take(&left) {
                        let mut response = Response::new(Body::from(answer));
                        *response.status_mut() = StatusCode::CONFLICT;
                        return response;
                    }
                    next.run(request).await
                }
            }))
        });
        Self { testbed, made, left }
    }

    /// Status of a call of which as many changes are made, and then as many refused; and refusals that are left.
    fn status(&self, call: &str, request: &impl Message, made: usize, refused: usize) -> (i32, usize) {
        self.made.store(made, Ordering::Relaxed);
        self.left.store(refused, Ordering::Relaxed);
        let status = self.testbed.status(call, request);
        self.made.store(0, Ordering::Relaxed);
        (status, self.left.swap(0, Ordering::Relaxed))
    }
}

#[test]
fn a_call_that_came_second_is_made_again_as_often_as_is_allowed() {
    let second = Refusing::with(SECOND);
    for call in ["create_subsystem", "delete_subsystem"] {
        let delete = DeleteSubsystemReq { subsystem_nqn: NQN.to_owned(), ..Default::default() };
        let made = match call {
            "create_subsystem" => second.status(call, &create(NQN), 0, 3),
            _ => second.status(call, &delete, 0, 3),
        };
        assert_eq!(made, (0, 0), "{call}");
    }
    assert_eq!(second.status("add_host", &add_host(SERVED, HOST), 0, CALL_ATTEMPTS_MAX + 1), (EAGAIN, 1));
    assert_eq!(second.status("add_host", &add_host(SERVED, HOST), 0, CALL_ATTEMPTS_MAX - 1), (0, 0));
    // What it is based on is looked at again.
    assert_eq!(second.status("add_host", &add_host(SERVED, HOST), 0, 1), (EEXIST, 1));
    let visible =
        NamespaceChangeVisibilityReq { subsystem_nqn: SERVED.to_owned(), nsid: 1, ..Default::default() };
    let call = "namespace_change_visibility";
    assert_eq!(second.status(call, &visible, 0, CALL_ATTEMPTS_MAX + 1), (EAGAIN, 1), "not EINVAL");
    assert_eq!(second.status(call, &visible, 0, 2), (0, 0));
    let image = NamespaceAddReq {
        rbd_pool_name: "rbd".to_owned(),
        rbd_image_name: "disk".to_owned(),
        subsystem_nqn: SERVED.to_owned(),
        block_size: 4096,
        create_image: Some(true),
        size: Some(1 << 20),
        ..Default::default()
    };
    assert_eq!(second.status("namespace_add", &image, 0, CALL_ATTEMPTS_MAX + 1), (EAGAIN, 1), "not ENODEV");
    let unfit = Refusing::with(UNFIT);
    assert_eq!(unfit.status("namespace_add", &image, 0, 3), (ENODEV, 1), "with a new image, and an old one");
    assert_eq!(unfit.status(call, &visible, 0, 2), (EINVAL, 1));
    assert_eq!(unfit.status("add_host", &add_host(SERVED, HOST), 0, 2), (EAGAIN, 1));
}

#[test]
fn a_call_of_several_changes_leaves_nothing_half_done_when_one_came_second() {
    let second = Refusing::with(SECOND);
    let key = Some(Secret::new(&[1; 32], None).unwrap().reveal().to_string());
    let keyed = CreateSubsystemReq { dhchap_key: key, ..create(NQN) };
    // The key, and then the removal of the subsystem without it.
    assert_eq!(second.status("create_subsystem", &keyed, 1, 4), (0, 0));
    let request = ListSubsystemsReq { subsystem_nqn: Some(NQN.to_owned()), ..Default::default() };
    let listed: SubsystemsInfoCli = second.testbed.ask("list_subsystems", &request);
    assert!(listed.subsystems[0].has_dhchap_key());
    let hold = NamespaceSetAutoResizeReq { subsystem_nqn: SERVED.to_owned(), nsid: 1, auto_resize: false };
    assert_eq!(second.testbed.status("namespace_set_auto_resize", &hold), 0);
    let resize = NamespaceResizeReq { subsystem_nqn: SERVED.to_owned(), nsid: 1, new_size: 2 };
    assert_eq!(second.status("namespace_resize", &resize, 1, 2), (0, 0));
    let request = ListNamespacesReq { subsystem: SERVED.to_owned(), ..Default::default() };
    let namespace = second.testbed.ask::<NamespacesInfo>("list_namespaces", &request).namespaces.remove(0);
    assert_eq!((namespace.rbd_image_size, namespace.disable_auto_resize()), (2 << 20, true));
}
