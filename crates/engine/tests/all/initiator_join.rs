//! Paths that a host joins to one disk: those to one namespace of one subsystem, and no others, however much they look
//! like it.

use std::net::SocketAddr;
use std::path::Path;

use crate::paths_lab::{BLOCK, Host, Link, fabric, file, memory, options, read, start, write};
use engine::backend::BackendConfig;
use engine::initiator::{Ended, InitiatorError, IoPolicy, PathOptions, PathState, Paths};
use engine::target::{FabricConfig, NamespaceConfig, Target};
use nvme::Status;
use prerequisite::wait_until;
use uuid::Uuid;

fn namespace(fabric: &mut FabricConfig) -> &mut NamespaceConfig {
    &mut fabric.subsystems[0].namespaces[0]
}

/// Why the second of these addresses is refused.
fn refused(addresses: [SocketAddr; 2]) -> String {
    let Err(error) = Paths::connect(options(&addresses)) else { panic!("both are joined") };
    let InitiatorError::PathRefused { .. } = &error else { panic!("{error}") };
    let text = error.to_string();
    for address in addresses {
        assert!(text.contains(&address.to_string()), "both are named: {text}");
    }
    text
}

fn first_ports(targets: [&Target; 2]) -> [SocketAddr; 2] {
    targets.map(|target| target.ports()[0])
}

/// A file with these blocks in its beginning, shared by the targets that serve it.
fn shared(path: &Path, first_block: u8) -> FabricConfig {
    let mut blocks = vec![0; 16 << 20];
    blocks[..BLOCK].fill(first_block);
    std::fs::write(path, blocks).unwrap();
    let mut fabric = file(path);
    namespace(&mut fabric).shared_storage = true;
    fabric
}

#[test]
fn a_difference_is_reported_with_both_values() {
    let one = start(memory(1));
    let with = |change: fn(&mut FabricConfig)| {
        let mut fabric = memory(1);
        change(&mut fabric);
        start(fabric)
    };
    let small = with(|fabric| namespace(fabric).backend = BackendConfig::Memory { size: 1 << 20 });
    let text = refused(first_ports([&one, &small]));
    assert!(text.contains("size") && text.contains("16777216") && text.contains("1048576"), "{text}");
    let blocks = with(|fabric| namespace(fabric).block_size = 512);
    let text = refused(first_ports([&one, &blocks]));
    assert!(text.contains("block size") && text.contains("4096") && text.contains("512"), "{text}");
    let serial = with(|fabric| fabric.subsystems[0].serial = "2".to_owned());
    let text = refused(first_ports([&one, &serial]));
    assert!(text.contains("serial number") && text.contains("`1`") && text.contains("`2`"), "{text}");
    let other = with(|fabric| namespace(fabric).uuid = Some(Uuid::from_u128(1)));
    let text = refused(first_ports([&one, &other]));
    assert!(text.contains("UUID") && text.contains("5e1f"), "{text}");
}

#[test]
fn two_targets_that_say_the_same_are_distinguished_by_their_controllers() {
    // Everything is equal, and nothing was ever written.
    let targets = [start(memory(1)), start(memory(1))];
    let text = refused(first_ports([&targets[0], &targets[1]]));
    assert!(text.contains("does not know") || text.contains("both have controller"), "{text}");
    for target in &targets {
        // A target sees a moment later that a connection has ended.
        wait_until("no connection stays where nothing was joined", || target.connections() == 0);
    }
}

#[test]
fn two_targets_that_say_the_same_are_distinguished_by_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = [1, 2].map(|fill| start(shared(&folder.path().join(fill.to_string()), fill)));
    let text = refused(first_ports([&one, &two]));
    assert!(text.contains("offset 0"), "{text}");
}

#[test]
fn what_nothing_tells_apart_is_joined() {
    // Two that share their storage, as they say, and whose storage is alike: this is what cannot be seen.
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["a", "b"].map(|name| start(shared(&folder.path().join(name), 0)));
    let paths = Paths::connect(options(&first_ports([&one, &two]))).unwrap();
    assert_eq!(paths.controllers().len(), 2);
}

#[test]
fn ports_of_one_target_and_targets_over_one_file_are_joined() {
    let one = start(memory(3));
    let paths = Paths::connect(options(&one.ports())).unwrap();
    assert_eq!(paths.controllers().len(), 3);
    assert_eq!(one.status().controllers.len(), 3, "nothing is left of what was looked at");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both");
    let both = [start(shared(&path, 7)), start(shared(&path, 7))];
    let paths = Paths::connect(options(&first_ports([&both[0], &both[1]]))).unwrap();
    assert_eq!(paths.controllers().len(), 2);
}

#[test]
fn a_disk_that_is_swapped_is_not_the_one_that_was_connected() {
    let folder = tempfile::tempdir().unwrap();
    let mut fabric = fabric(2, BackendConfig::File { path: folder.path().join("a"), size: Some(16 << 20) });
    namespace(&mut fabric).uuid = None;
    let target = start(fabric);
    let paths = Paths::connect(options(&target.ports())).unwrap();
    let mut host = Host::new(&paths);
    host.write(0, 1);
    let mut other = target.config();
    let swapped = folder.path().join("b");
    namespace(&mut other).backend = BackendConfig::File { path: swapped.clone(), size: Some(16 << 20) };
    target.apply(&other).unwrap();
    host.until("the host gives the paths up", |_| {
        paths.status().iter().all(|path| path.state == PathState::Dead)
    });
    assert!(paths.status()[0].error.as_ref().is_some_and(|error| error.contains("UUID")));
    host.submit(write(0, 2, 9));
    assert!(matches!(host.ended(), Ended::Lost(_)));
    drop((host, paths, target));
    assert!(
        std::fs::read(swapped).unwrap().iter().all(|byte| *byte == 0),
        "nothing of it is in the other one"
    );
}

#[test]
fn a_disk_that_has_grown_meanwhile_is_the_same_disk() {
    let target = start(memory(2));
    let links: Vec<Link> = target.ports().into_iter().map(Link::to).collect();
    let addresses: Vec<_> = links.iter().map(|link| link.address).collect();
    let policy = IoPolicy::RoundRobin;
    let paths = Paths::connect(PathOptions { policy, ..options(&addresses) }).unwrap();
    let mut host = Host::new(&paths);
    host.write(0, 1);
    links[1].cut();
    links[1].sever();
    host.until("the loss", |_| paths.status()[1].state == PathState::Reconnecting);
    let mut larger = target.config();
    namespace(&mut larger).backend = BackendConfig::Memory { size: 32 << 20 };
    target.apply(&larger).unwrap();
    links[1].restore();
    host.until("the path is back", |_| paths.status()[1].state == PathState::Live);
    host.until("both", |host| host.queues.is_settled());
    host.until("the size", |_| paths.namespace().size_bytes() == 32 << 20);
    // The same once more, without a path that knows the size.
    links.iter().for_each(Link::cut);
    links.iter().for_each(Link::sever);
    host.until("the loss", |_| paths.status().iter().all(|path| path.state == PathState::Reconnecting));
    namespace(&mut larger).backend = BackendConfig::Memory { size: 64 << 20 };
    target.apply(&larger).unwrap();
    links.iter().for_each(Link::restore);
    host.until("both are back", |_| paths.status().iter().all(|path| path.state == PathState::Live));
    host.submit(read((64 << 20) / BLOCK as u64 - 1, 5));
    assert_eq!(host.completion().status, Status::SUCCESS);
}
