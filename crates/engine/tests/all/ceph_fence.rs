//! Blocklist entries of a real cluster, and their duration, also when another gateway takes its image. The simulated cluster goes by this.
//! The suite `ceph` runs it:
//! `SELVEDGE_CEPH_CONF` names a cluster's configuration that has a pool `rbd`.

use std::process::Command;
use std::time::{Duration, SystemTime};

use engine::limits::CEPH_FENCE_S;

use crate::ceph_pair::{Pair, directives};
use prerequisite::wait_until;

const MONTH: Duration = Duration::from_secs(365 * 24 * 3600 / 12);

/// Months from now for which a connection is on the blocklist, about.
fn months_left(address: &str) -> Option<i64> {
    let conf = std::env::var_os("SELVEDGE_CEPH_CONF").expect("SELVEDGE_CEPH_CONF names a cluster");
    let listed =
        Command::new("ceph").arg("-c").arg(conf).args(["osd", "blocklist", "ls", "-f", "json"]).output();
    let listed = listed.unwrap().stdout;
    let mut lists = serde_json::Deserializer::from_slice(&listed).into_iter::<serde_json::Value>();
    let listed = lists.next().expect("a list, and another of ranges").unwrap();
    let entry = listed.as_array().unwrap().iter().find(|entry| entry["addr"] == address)?;
    let until: Vec<i64> =
        entry["until"].as_str().unwrap().splitn(3, '-').take(2).map(|part| part.parse().unwrap()).collect();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / MONTH.as_secs();
    Some((until[0] - 1970) * 12 + until[1] - 1 - now as i64)
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn who_is_shut_out_stays_so_for_as_long_as_was_said_first() {
    let pair = Pair::start();
    let cluster = pair.pool.cluster();
    let number = uuid::Uuid::new_v4().as_u128() as u32;
    for (first, next, is_long) in [(3600, CEPH_FENCE_S, false), (CEPH_FENCE_S, 3600, true)] {
        let address = format!("192.0.2.{}:0/{number}", 1 + u8::from(is_long));
        cluster.blocklist(&address, first).unwrap();
        cluster.blocklist(&address, next).unwrap();
        cluster.wait_for_latest_map().unwrap();
        assert_eq!(months_left(&address).map(|months| months > 10), Some(is_long), "{address}");
    }
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn who_was_shut_out_for_a_year_is_so_after_its_lock_was_broken() {
    let pair = Pair::start();
    let connections = pair.gateways[0].target().cluster_connections().unwrap();
    let address = &connections.first().expect("it has one").address;
    assert_eq!(months_left(address), None);
    pair.gateways[1].target().shut_out(&connections).unwrap();
    wait_until("the image is the other's", || pair.direct(1, &directives(true, 7)).is_ok());
    let left = months_left(address);
    assert!(left.is_some_and(|months| months > 10), "the library has shortened it: {left:?} months");
}

#[test]
#[ignore = "it takes a cluster: the suite ceph has one"]
fn who_has_given_an_image_back_is_not_shut_out() {
    let pair = Pair::start();
    let connections = pair.gateways[0].target().cluster_connections().unwrap();
    pair.hand_to(1);
    assert_eq!(months_left(&connections[0].address), None);
    pair.hand_to(0);
}
