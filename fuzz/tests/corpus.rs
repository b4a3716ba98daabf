//! Every kept input of every fuzzer, once more, as a test against relapses. Without libFuzzer, so
//! that any machine that builds the crates can do it.

use std::path::Path;

use nvme::tcp::Role;

/// Tries the kept inputs of a fuzzer.
fn replay(fuzzer: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(fuzzer);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}", folder.display());
    for path in paths {
        println!("{}", path.display());
        check(&std::fs::read(&path).unwrap());
    }
}

/// Inputs of fuzzers that keep none: nothing, and bytes that follow from a number.
fn made_up(check: impl Fn(&[u8])) {
    check(&[]);
    for seed in 1..200_u64 {
        println!("seed {seed}");
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes = (0..seed * 5 % 700).map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        });
        check(&bytes.collect::<Vec<_>>());
    }
}

#[test]
fn ceph_nvmeof_import() {
    replay("ceph_nvmeof_import", fuzz::ceph_nvmeof::check);
}

#[test]
fn config() {
    replay("config", fuzz::config::check);
}

#[test]
fn connection() {
    replay("connection", fuzz::connection::check);
}

#[test]
fn control_api() {
    replay("control_api", fuzz::control::check);
}

#[test]
fn gateway_state() {
    replay("gateway_state", fuzz::gateway_state::check);
}

#[test]
fn hand_over() {
    replay("hand_over", fuzz::hand_over::check);
}

#[test]
fn hostile_controller() {
    replay("hostile_controller", fuzz::hostile::check);
}

#[test]
fn hostile_target() {
    replay("hostile_target", fuzz::parsers::check);
}

#[test]
fn machine() {
    replay("machine", fuzz::machine::check);
}

#[test]
fn nvmet_import() {
    replay("nvmet_import", fuzz::nvmet::check);
}

#[test]
fn receivers() {
    replay("receive_host", |bytes| fuzz::receive::check(Role::Host, bytes));
    replay("receive_target", |bytes| fuzz::receive::check(Role::Controller, bytes));
}

#[test]
fn nbd() {
    made_up(fuzz::nbd::check);
}

#[test]
fn state_files() {
    replay("state_files", fuzz::state_files::check);
}

#[test]
fn ublk() {
    replay("ublk", fuzz::ublk::check);
    made_up(fuzz::ublk::check);
}

#[test]
fn virtqueue() {
    made_up(fuzz::virtqueue::check);
}

#[test]
fn tls_and_authentication() {
    made_up(fuzz::client_hello::check);
    made_up(fuzz::exchange::check);
    made_up(fuzz::handshake::check);
    made_up(fuzz::record::check);
}
