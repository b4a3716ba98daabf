//! A namespace becomes smaller while commands are under way: none says that it did what it left out, and its file does not
//! grow again.

use std::time::{Duration, Instant};

use crate::raw_host::{
    Client, ENGINES, Give, Host, SIZE, SPACES, Space, TestTarget, assert_status, config_of, pattern,
};
use engine::backend::BackendConfig;
use engine::ring::Engine;
use nvme::Status;
use nvme::io::{CopyFormat, Fused, IoCommand, encode_copy_ranges};

const FILE: Space = SPACES[5];
const BLOCK: usize = FILE.block as usize;
/// So long are writes held back.
const DELAY_MS: u32 = 1500;

fn start(engine: Engine) -> (TestTarget, Host, Client) {
    let target = TestTarget::start_with(engine, |config| {
        config_of(&mut config.fabric, FILE.nsid).write_delay_ms = DELAY_MS;
    });
    let host = Host::connect(target.address());
    let queue = host.io(1);
    (target, host, queue)
}

fn resize(target: &TestTarget, to: u64) {
    target.apply_to(FILE.nsid, |namespace| {
        let BackendConfig::File { size, .. } = &mut namespace.backend else { panic!("it is a file") };
        *size = Some(to);
    });
}

/// Waits until the target has taken all commands before it.
fn settle(queue: &mut Client) {
    let read = IoCommand::Read { start: 0, blocks: 1, force_unit_access: false };
    let read = queue.submit(read.encode(SPACES[0].nsid), Give::Room(SPACES[0].block));
    assert_eq!(queue.wait().command_id, read, "nothing else is done");
}

#[test]
fn a_write_under_way_does_not_make_a_shrunk_file_longer() {
    for engine in ENGINES {
        let (target, _host, mut queue) = start(engine);
        let write = IoCommand::Write { start: FILE.blocks() - 1, blocks: 1, force_unit_access: false };
        let write = queue.submit(write.encode(FILE.nsid), Give::Capsule(&pattern(BLOCK, 1)));
        settle(&mut queue);
        let began = Instant::now();
        resize(&target, SIZE / 2);
        assert!(began.elapsed() >= Duration::from_millis(u64::from(DELAY_MS) / 2), "it waited for the write");
        assert_eq!(queue.wait().command_id, write);
        assert_eq!(std::fs::metadata(target.file(FILE.nsid)).unwrap().len(), SIZE / 2, "{engine:?}");
        resize(&target, SIZE);
        let read = queue.read(FILE, FILE.blocks() - 1, 1);
        assert!(read.status.is_success() && read.data == vec![0; BLOCK], "what was cut off is gone");
    }
}

#[test]
fn a_file_that_is_longer_than_its_namespace_is_not_cut_when_that_grows() {
    for engine in ENGINES {
        let (target, _host, mut queue) = start(engine);
        let file = std::fs::OpenOptions::new().write(true).open(target.file(FILE.nsid)).unwrap();
        let data = pattern(BLOCK, 1);
        for offset in [SIZE, 3 * SIZE] {
            std::os::unix::fs::FileExt::write_all_at(&file, &data, offset).unwrap();
        }
        resize(&target, 2 * SIZE);
        assert_eq!(file.metadata().unwrap().len(), 3 * SIZE + u64::from(FILE.block), "{engine:?}");
        let read = queue.read(FILE, FILE.blocks(), 1);
        assert!(read.status.is_success() && read.data == data, "hosts see what was behind the end");
    }
}

#[test]
fn a_write_that_waits_for_its_data_is_refused_when_its_blocks_are_gone() {
    for engine in ENGINES {
        let (target, _host, mut queue) = start(engine);
        let data = pattern(64 << 10, 1);
        let write = IoCommand::Write { start: FILE.blocks() - 16, blocks: 16, force_unit_access: false };
        queue.submit(write.encode(FILE.nsid), Give::Asked(&data));
        let request = queue.ready_to_transfer();
        resize(&target, SIZE / 2);
        queue.answer(&request);
        assert_status(queue.wait().status, Status::LBA_OUT_OF_RANGE, "its blocks are gone");
        assert_eq!(std::fs::metadata(target.file(FILE.nsid)).unwrap().len(), SIZE / 2, "{engine:?}");
    }
}

#[test]
fn a_copy_that_leaves_something_out_has_failed() {
    for engine in ENGINES {
        let (target, _host, mut queue) = start(engine);
        let last = FILE.blocks() - 1;
        for (ranges, to, what) in [
            ([(0, 1), (last, 1)], 100, "a source"),
            // One piece fits before the new end, the next does not.
            ([(0, 1), (1, 1)], FILE.blocks() / 2 - 1, "the destination"),
        ] {
            let data = encode_copy_ranges(CopyFormat::Format0, &ranges);
            let format = CopyFormat::Format0;
            let copy = IoCommand::Copy { start: to, ranges: 2, format, force_unit_access: false };
            let copy = queue.submit(copy.encode(FILE.nsid), Give::Capsule(&data));
            settle(&mut queue);
            resize(&target, SIZE / 2);
            let reply = queue.wait();
            assert_eq!(reply.command_id, copy);
            assert_status(reply.status, Status::LBA_OUT_OF_RANGE, &format!("{what} is gone"));
            assert_eq!(std::fs::metadata(target.file(FILE.nsid)).unwrap().len(), SIZE / 2, "{engine:?}");
            resize(&target, SIZE);
        }
    }
}

#[test]
fn a_pair_that_waits_for_its_data_is_refused_when_its_blocks_are_gone() {
    for engine in ENGINES {
        let (target, _host, mut queue) = start(engine);
        let (old, new) = (vec![0; 64 << 10], pattern(64 << 10, 1));
        let (start, blocks) = (FILE.blocks() - 16, 16);
        let compare = IoCommand::Compare { start, blocks };
        let write = IoCommand::Write { start, blocks, force_unit_access: false };
        let compare = queue.submit(compare.encode_fused(FILE.nsid, Fused::First), Give::Asked(&old));
        queue.submit(write.encode_fused(FILE.nsid, Fused::Second), Give::Asked(&new));
        let requests = [queue.ready_to_transfer(), queue.ready_to_transfer()];
        resize(&target, SIZE / 2);
        requests.iter().for_each(|request| queue.answer(request));
        let (first, second) = (queue.wait(), queue.wait());
        assert_eq!(first.command_id, compare, "{engine:?}");
        assert_status(first.status, Status::LBA_OUT_OF_RANGE, "its blocks are gone");
        assert_status(second.status, Status::ABORTED_FAILED_FUSED, "the other one has failed");
        assert_eq!(std::fs::metadata(target.file(FILE.nsid)).unwrap().len(), SIZE / 2, "{engine:?}");
    }
}
