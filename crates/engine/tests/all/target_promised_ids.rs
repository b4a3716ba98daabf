//! Identifiers of controllers that hosts are promised before they have proved their names.

use std::collections::HashSet;

use engine::limits::PROMISED_IDS_PER_NETWORK_MAX;
use nvme::Status;
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect};

use crate::raw_host::proof::{host_key, prove, secret};
use crate::raw_host::{Client, ENGINES, Host, Options, SPACES, Space, TestTarget, assert_status};

const MEMORY: Space = SPACES[1];

fn options(number: u8) -> Options {
    Options::named(&format!("nqn.2014-08.org.example:keyed-{number}"))
}

/// A target whose hosts of these numbers have secrets.
fn start(numbers: &[u8]) -> (tempfile::TempDir, TestTarget) {
    let folder = tempfile::tempdir().unwrap();
    let target = TestTarget::start_with(ENGINES[1], |config| {
        let key = |number: &u8| host_key(folder.path(), &options(*number).host_nqn, &secret(*number));
        config.fabric.subsystems[0].host_keys = numbers.iter().map(key).collect();
    });
    (folder, target)
}

/// Admin queue of a host that has yet to prove its name, and its identifier.
fn connect(target: &TestTarget, options: &Options) -> (Client, u16) {
    let mut admin = Client::initialized(target.address(), options.digests);
    let request = Connect { queue_size: 31, ..options.connect(0) };
    let reply = admin.connect(&request, &options.data(CONTROLLER_ID_ANY));
    assert_status(reply.status, Status::SUCCESS, "the admin queue connects");
    (admin, reply.result as u16)
}

/// Proves the host's name: a host whose controller has the promised identifier.
fn proved(target: &TestTarget, number: u8, (mut admin, controller_id): (Client, u16)) -> Host {
    let options = options(number);
    prove(&mut admin, &options, &secret(number)).unwrap();
    let mut host = Host { admin, controller_id, options, address: target.address() };
    host.enable();
    assert_eq!(host.admin.identified_controller().controller_id.get(), controller_id);
    host
}

#[test]
fn hosts_that_have_yet_to_prove_themselves_have_identifiers_of_their_own_and_keep_them() {
    let (_folder, target) = start(&[1, 2, 3]);
    let unproved = [1, 2, 3].map(|number| (number, connect(&target, &options(number))));
    let plain = Host::connect(target.address());
    let promised = unproved.iter().map(|(_, (_, id))| *id);
    let ids: HashSet<u16> = promised.chain([plain.controller_id]).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    assert_eq!(target.target().status().controllers.len(), 1, "a promise is not a controller");
    let hosts = unproved.map(|(number, unproved)| proved(&target, number, unproved));
    assert_eq!(target.target().status().controllers.len(), 4);
    drop(hosts);
}

#[test]
fn a_network_that_asks_for_too_many_loses_its_oldest_promise_and_no_host_its_place() {
    let (_folder, target) = start(&[1]);
    let (mut oldest, _) = connect(&target, &options(1));
    let mut crowd: Vec<_> =
        (0..PROMISED_IDS_PER_NETWORK_MAX).map(|_| connect(&target, &options(1))).collect();
    assert_eq!(target.target().status().refusals["promised_controllers"], 1);
    // Its proof is right, and comes too late: it connects again.
    prove(&mut oldest, &options(1), &secret(1)).unwrap();
    oldest.wait_until_gone();
    let newest = proved(&target, 1, crowd.pop().unwrap());
    assert_eq!(target.target().status().controllers.len(), 1, "{}", newest.controller_id);
    let plain = Host::connect(target.address());
    assert_eq!(plain.io(1).read(MEMORY, 0, 1).status, Status::SUCCESS, "a host without a secret gets in");
}
