//! What the simulated cluster promises, and what it does not.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::backend::{Backend, BackendError, Opening};
use engine::ceph::{
    CephConfig, Cluster, ClusterOptions, Clusters, Object, ObjectChange, Pairs, Pool, note_late_operation,
};
use engine::simulation::rados::{self, Mood};
use engine::simulation::{self, MachineId, Options, sleep};

use crate::administration::image_backend;
use crate::gateway_plan::{POOL, SPARE};

/// Runs it in a world with a cluster, on a machine of its own.
fn play(scene: impl FnOnce(MachineId) + 'static) {
    let options = Options { seed: 1, limit: Duration::from_secs(100), traces: false, judge: None };
    let outcome = simulation::run(options, move || {
        rados::set_mood(Mood { map_us: (1_000, 2_000), ..Mood::default() }, simulation::fork_random());
        let machine = simulation::add_machine(&[]);
        let (is_done, tells) = {
            let is_done = Rc::new(Cell::new(false));
            (is_done.clone(), is_done)
        };
        simulation::start_process("test", machine, move || {
            scene(machine);
            tells.set(true);
        });
        while !is_done.get() {
            sleep(Duration::from_millis(10));
        }
    });
    assert_eq!(outcome.failure, None);
}

fn connect() -> (Arc<Cluster>, Object) {
    let options = ClusterOptions { operation_timeout_ms: 1_000, ..ClusterOptions::default() };
    let cluster = Cluster::connect(&options).unwrap();
    let pool = Arc::new(Pool::open(cluster.clone(), "rbd", "").unwrap());
    (cluster, Object::new(pool, "object").unwrap())
}

fn pairs(value: &str) -> Pairs {
    Pairs::from([("key".to_owned(), value.as_bytes().to_vec())])
}

fn set(value: &str) -> ObjectChange {
    ObjectChange { set: pairs(value), ..ObjectChange::default() }
}

#[test]
fn a_change_that_relies_on_what_is_no_longer_so_does_nothing() {
    play(|_| {
        let (_cluster, object) = connect();
        assert_eq!(object.pairs("").unwrap(), None);
        assert!(object.change(&set("a")).unwrap());
        let next = ObjectChange { relies_on: pairs("a"), ..set("b") };
        assert!(object.change(&next).unwrap());
        assert!(!object.change(&next).unwrap(), "it is b by now");
        assert_eq!(object.pairs("k").unwrap(), Some(pairs("b")));
        assert_eq!(object.pairs("x").unwrap(), Some(Pairs::new()));
    });
}

#[test]
fn what_was_sent_over_a_cut_connection_lands_late_unless_that_is_shut_out() {
    for is_fenced in [false, true] {
        play(move |machine| {
            let ((cluster, object), elsewhere) = (connect(), simulation::add_machine(&[]));
            object.change(&set("a")).unwrap();
            rados::cut(machine, true);
            assert!(object.change(&set("late")).unwrap_err().is_late());
            let address = cluster.address().unwrap();
            let is_done = Rc::new(Cell::new(false));
            let tells = is_done.clone();
            simulation::start_process("other", elsewhere, move || {
                let (cluster, object) = connect();
                if is_fenced {
                    cluster.blocklist(&address, 3600).unwrap();
                    cluster.wait_for_latest_map().unwrap();
                }
                assert_eq!(object.pairs("").unwrap(), Some(pairs("a")));
                rados::cut(machine, false);
                sleep(Duration::from_secs(5));
                let left = if is_fenced { "a" } else { "late" };
                assert_eq!(object.pairs("").unwrap(), Some(pairs(left)));
                tells.set(true);
            });
            while !is_done.get() {
                sleep(Duration::from_millis(10));
            }
            assert_eq!(object.change(&set("b")).is_err_and(|error| error.is_shut_out()), is_fenced);
        });
    }
}

/// The spare image, locked by a gateway with these connections.
fn locked_image(clusters: &Clusters) -> Result<Backend, BackendError> {
    let image = Backend::open(&image_backend(SPARE), Opening::alone(4096, clusters)).unwrap();
    image.set_standby(false).map(|()| image)
}

#[test]
fn an_image_with_late_commands_stays_locked_until_its_connection_is_shut_out() {
    play(|_| {
        rados::create_image(POOL, SPARE, 1 << 20, 1 << 16);
        let [gateway, other] = [(); 2].map(|()| {
            let config = CephConfig { are_images_shared: true, ..CephConfig::default() };
            Clusters::new(config, Vec::new())
        });
        // Images are closed on a thread of their own.
        let close = |image: Backend| {
            drop(image);
            sleep(Duration::from_secs(1));
        };
        close(locked_image(&gateway).unwrap());
        close(locked_image(&other).unwrap());
        let image = locked_image(&gateway).unwrap();
        let addresses = gateway.addresses().unwrap();
        note_late_operation();
        close(image);
        assert!(gateway.awaits_fence() && locked_image(&other).is_err());
        gateway.forget();
        gateway.forget();
        gateway.close_shut_out(&BTreeSet::from(["client:1000".to_owned()]));
        sleep(Duration::from_secs(1));
        assert!(locked_image(&other).is_err(), "it is not on the blocklist yet");
        let (cluster, _) = connect();
        addresses.iter().for_each(|address| cluster.blocklist(address, 3600).unwrap());
        cluster.wait_for_latest_map().unwrap();
        locked_image(&other).unwrap();
        gateway.close_shut_out(&addresses.into_iter().collect());
    });
}
