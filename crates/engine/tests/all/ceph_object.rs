//! Objects in a real cluster: changes that happen whole or not at all, and watchers that are notified. The suite `ceph` runs it:
//! `SELVEDGE_CEPH_CONF` names a cluster's configuration that has a pool `rbd`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use engine::ceph::{Cluster, ClusterOptions, Object, ObjectChange, Pairs, Pool, Watch};

fn object(name: &str) -> Object {
    let conf = std::env::var_os("SELVEDGE_CEPH_CONF").expect("SELVEDGE_CEPH_CONF names a cluster");
    let options = ClusterOptions {
        conf: Some(PathBuf::from(conf)),
        operation_timeout_ms: 5_000,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::connect(&options).unwrap();
    let pool = Arc::new(Pool::open(cluster, "rbd", "").unwrap());
    Object::new(pool, &format!("{name}.{}", uuid::Uuid::new_v4())).unwrap()
}

fn pairs(of: &[(&str, &str)]) -> Pairs {
    of.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn a_change_happens_whole_or_not_at_all() {
    let object = object("change");
    assert_eq!(object.pairs("").unwrap(), None);
    let first = ObjectChange {
        exclusive: true,
        set: pairs(&[("version", "1"), ("a", "x")]),
        ..ObjectChange::default()
    };
    let second = ObjectChange {
        relies_on: pairs(&[("version", "1")]),
        set: pairs(&[("version", "2"), ("b", "")]),
        remove: vec!["a".to_owned()],
        ..ObjectChange::default()
    };
    assert!(!object.change(&second).unwrap(), "there is nothing to rely on");
    assert_eq!(object.pairs("").unwrap(), None, "and it was not made");
    assert!(object.change(&first).unwrap());
    assert!(!object.change(&first).unwrap(), "it is made once");
    assert!(object.change(&second).unwrap());
    assert!(!object.change(&second).unwrap(), "version 1 is gone");
    assert_eq!(object.pairs("").unwrap(), Some(pairs(&[("version", "2"), ("b", "")])));
    assert_eq!(object.pairs("ver").unwrap(), Some(pairs(&[("version", "2")])));
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn more_pairs_than_one_read_gives_are_read_in_parts() {
    let object = object("many");
    assert_eq!(object.all_pairs(10).unwrap(), None, "there is no such object");
    let many: Pairs = (0..2_500).map(|number| (format!("{number:04}"), vec![1; number % 5])).collect();
    let all: Vec<_> = many.clone().into_iter().collect();
    for part in all.chunks(500) {
        let set = part.iter().cloned().collect();
        assert!(object.change(&ObjectChange { set, ..ObjectChange::default() }).unwrap());
    }
    assert!(object.pairs("").unwrap_err().to_string().contains("more pairs"));
    assert_eq!(object.all_pairs(2_500).unwrap().unwrap(), many);
    assert!(object.all_pairs(2_499).unwrap_err().to_string().contains("more than 2499 pairs"));
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn what_relies_on_nothing_makes_the_object() {
    let object = object("plain");
    let beat = ObjectChange { set: pairs(&[("a", "1")]), ..ObjectChange::default() };
    assert!(object.change(&beat).unwrap() && object.change(&beat).unwrap());
    assert_eq!(object.pairs("").unwrap(), Some(pairs(&[("a", "1")])));
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn who_watches_hears_of_it() {
    let object = object("watch");
    let (bell, rung) = sync_channel(1);
    assert!(Watch::start(&object, bell.clone()).is_err(), "there is nothing to watch");
    let made = ObjectChange { exclusive: true, ..ObjectChange::default() };
    assert!(object.change(&made).unwrap());
    let watch = Watch::start(&object, bell).unwrap();
    object.notify(2_000).unwrap();
    rung.recv_timeout(prerequisite::patience()).unwrap();
    object.notify(2_000).unwrap();
    object.notify(2_000).unwrap();
    rung.recv_timeout(prerequisite::patience()).unwrap();
    assert!(!watch.is_lost());
    drop(watch);
    assert!(rung.try_recv().is_err(), "two that were not heard are one");
    object.notify(2_000).unwrap();
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn a_blocklisted_connection_changes_nothing() {
    let object = object("fence");
    let beat = ObjectChange { set: pairs(&[("a", "1")]), ..ObjectChange::default() };
    assert!(object.change(&beat).unwrap());
    let other = Cluster::connect(object.pool().cluster().options()).unwrap();
    other.blocklist(&object.pool().cluster().address().unwrap(), 3600).unwrap();
    other.wait_for_latest_map().unwrap();
    let code = object.change(&beat).unwrap_err().code();
    assert_eq!(code, Some(libc::ESHUTDOWN));
}
