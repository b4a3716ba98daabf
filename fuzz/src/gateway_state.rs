//! The objects of a group of gateways, as lines `OBJECT KEY VALUE`: the group's own (`group`), the beats (`beats`) and the reports on
//! hosts (`hosts`). What is damaged is refused with a reason. What is accepted is the same when it is written and read again; a
//! gateway holds only what the group says is its own, serves only what it holds, and changes the group into one that is accepted.

use engine::ceph::Pairs;
use engine::limits::OTHER_PORTS_MAX;
use gateway::edges::{GroupRead, read_group};

/// The gateway that reads them.
const GATEWAY: &str = "a";

/// Reads the lines of one input as a group's objects.
pub fn check(bytes: &[u8]) {
    let [mut group, mut beats, mut hosts] = [(); 3].map(|()| Pairs::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(3, |byte| *byte == b' ');
        let (Some(object), Some(key), Some(value)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let Ok(key) = std::str::from_utf8(key) else { continue };
        let pairs = match object {
            b"group" => &mut group,
            b"beats" => &mut beats,
            b"hosts" => &mut hosts,
            _ => continue,
        };
        pairs.insert(key.to_owned(), value.to_vec());
    }
    let read = match read_group(&group, &beats, &hosts, GATEWAY) {
        Ok(read) => read,
        Err(error) => return assert!(!error.to_string().is_empty(), "nothing is said"),
    };
    assert!(read.open.is_subset(&read.hold) && read.hold.is_subset(&read.owned), "{read:#?}");
    assert!(read.ports_elsewhere <= OTHER_PORTS_MAX, "{}", read.ports_elsewhere);
    assert_eq!(read.status.gateways.len(), gateways(&read.written));
    same_again(&read, &beats, &hosts);
    if let Some(next) = &read.next {
        let next = read_group(next, &beats, &hosts, GATEWAY);
        let next = next.unwrap_or_else(|error| panic!("{error}: {:#?}", read.next));
        assert!(next.hold.is_subset(&next.owned), "{next:#?}");
    }
}

/// Number of gateways that a group's object has.
fn gateways(pairs: &Pairs) -> usize {
    pairs.keys().filter(|key| key.starts_with("gateway.")).count()
}

/// A group that was accepted and is written by a gateway is read as the same.
fn same_again(read: &GroupRead, beats: &Pairs, hosts: &Pairs) {
    let again = read_group(&read.written, beats, hosts, GATEWAY);
    let mut again = again.unwrap_or_else(|error| panic!("{error}: {:#?}", read.written));
    // A group that is written whole begins with the first version.
    again.status.version = read.status.version;
    assert_eq!(again, *read);
}
