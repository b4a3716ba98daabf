//! Calls that change one object at the same moment: both answer success, and both have an effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use ceph_nvmeof::{
    AddSubsystemNetworkReq, CreateListenerReq, DelSubsystemNetworkReq, DeleteListenerReq, ListListenersReq,
    ListNamespacesReq, ListSubsystemsReq, ListenerInfo, ListenersInfo, Message, NamespaceAddHostReq,
    NamespaceChangeVisibilityReq, NamespaceDeleteHostReq, NamespacesInfo, SubsysStatus, SubsystemsInfoCli,
};
use engine::target::{FabricConfig, PortConfig, Target};
use hyper::Method;
use tokio::sync::Barrier;

use super::super::access::{Access, Peer};
use super::super::test_target;
use super::tests::{HOST, NQN, SERVED, Testbed, create};

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
