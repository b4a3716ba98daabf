//! Conduct of the initiator with controllers that are slow, fail, have small limits, or change what they report while it is
//! read.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::initiator_fake::controller::{Answer, BLOCK, NQN, controller, data, options, reads, success};
use engine::initiator::{ConnectOptions, Controller, InitiatorError, Volume};
use nvme::SubmissionEntry;
use nvme::command::{admin_opcode, io_opcode};
use nvme::discovery::{AddressFamily, DiscoveryEntry, DiscoveryLogHeader, Nqn, SubsystemType, tcp_security};
use nvme::fabrics::{Capabilities, PropertyAccess, controller_status, fabrics_type, property};
use nvme::identify::bits::controller_type;
use nvme::identify::{Cns, IdentifyController, IdentifyControllerNvm};
use nvme::log_page::LogPageId;
use zerocopy::IntoBytes;

/// Looks at the status until the controller is ready: they take longer than a host waits at least.
const LOOKS: usize = 25;

#[test]
fn a_slow_controller_is_waited_for_as_long_as_it_says() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = looks.clone();
    let (address, thread) = controller(1, move |_, entry| {
        let is_early = || counted.fetch_add(1, Ordering::Relaxed) < LOOKS;
        if reads(entry, property::STATUS) && is_early() { success(0) } else { None }
    });
    let controller = Controller::connect(options(address)).unwrap();
    assert!(looks.load(Ordering::Relaxed) > LOOKS);
    controller.disconnect().unwrap();
    thread.join().unwrap();
}

#[test]
fn a_controller_that_never_becomes_ready_is_given_up() {
    let (address, thread) = controller(1, |_, entry| {
        if reads(entry, property::CAPABILITIES) {
            return success(Capabilities::new(128, 0).0);
        }
        if reads(entry, property::STATUS) { success(0) } else { None }
    });
    let error = Controller::connect(options(address)).unwrap_err();
    assert!(matches!(error, InitiatorError::TimedOut { .. }), "{error}");
    thread.join().unwrap();
}

#[test]
fn a_controller_that_fails_is_not_waited_for() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = looks.clone();
    let (address, thread) = controller(1, move |_, entry| {
        let status = || match counted.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => 0,
            _ => controller_status::FATAL,
        };
        if reads(entry, property::STATUS) { success(status().into()) } else { None }
    });
    let error = Controller::connect(options(address)).unwrap_err();
    assert!(matches!(error, InitiatorError::ControllerFatal { .. }), "{error}");
    assert_eq!(looks.load(Ordering::Relaxed), 3, "the first report of it is the last look");
    thread.join().unwrap();
}

/// Value of each property of a device that is no longer there.
fn all_ones(entry: &SubmissionEntry) -> Option<Answer> {
    let is_property_get =
        entry.opcode == admin_opcode::FABRICS && entry.fabrics_type() == fabrics_type::PROPERTY_GET;
    let wide = is_property_get.then(|| PropertyAccess::decode(entry).unwrap().wide)?;
    success(if wide { u64::MAX } else { u32::MAX.into() })
}

#[test]
fn a_controller_whose_properties_are_all_ones_is_gone() {
    let (address, thread) = controller(1, |_, entry| all_ones(entry));
    let error = Controller::connect(options(address)).unwrap_err();
    assert!(matches!(error, InitiatorError::ControllerFatal { .. }), "{error}");
    thread.join().unwrap();

    // The bits that a shutdown waits for are among the ones.
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = is_gone.clone();
    let (address, thread) =
        controller(1, move |_, entry| if gone.load(Ordering::Relaxed) { all_ones(entry) } else { None });
    let controller = Controller::connect(options(address)).unwrap();
    is_gone.store(true, Ordering::Relaxed);
    let error = controller.disconnect().unwrap_err();
    assert!(matches!(error, InitiatorError::ControllerFatal { .. }), "{error}");
    thread.join().unwrap();
}

#[test]
fn write_zeroes_keep_to_the_limit_of_the_controller() {
    /// WZSL: four pages of 4 KiB.
    const LIMIT_EXPONENT: u8 = 2;
    const LIMIT_BYTES: u32 = 4096 << LIMIT_EXPONENT;
    let commands: Arc<Mutex<Vec<(u64, u32)>>> = Arc::default();
    let taken = commands.clone();
    let (address, thread) = controller(2, move |queue_id, entry| {
        if queue_id > 0 && entry.opcode == io_opcode::WRITE_ZEROES {
            let blocks = (entry.cdw12.get() & 0xffff) + 1;
            taken.lock().unwrap().push((entry.cdw10_11(), blocks));
        }
        let cns = Cns(entry.cdw10.get() as u8);
        if queue_id > 0 || entry.opcode != admin_opcode::IDENTIFY || cns != Cns::COMMAND_SET_CONTROLLER {
            return None;
        }
        let mut limits = IdentifyControllerNvm::default();
        limits.write_zeroes_size_limit = LIMIT_EXPONENT;
        data(limits.as_bytes())
    });
    let controller = Controller::connect(options(address)).unwrap();
    assert_eq!(controller.write_zeroes_length_max(), Some(u64::from(LIMIT_BYTES)));
    let volume = Volume::on_controller(&controller, 1).unwrap();
    // From the middle of the limit's multiples, and with a rest.
    let (start, length) = (3 * u64::from(BLOCK), u64::from(6 * LIMIT_BYTES + BLOCK));
    volume.write_zeroes(start, length, false).unwrap();
    drop(volume);
    controller.disconnect().unwrap();
    thread.join().unwrap();
    let mut commands = commands.lock().unwrap().clone();
    commands.sort_unstable();
    let mut next = start / u64::from(BLOCK);
    for (start, blocks) in commands {
        assert!(blocks * BLOCK <= LIMIT_BYTES, "{blocks} blocks at once");
        assert_eq!(start, next, "each block once");
        next += u64::from(blocks);
    }
    assert_eq!(next, (start + length) / u64::from(BLOCK));
}

#[test]
fn deallocations_keep_to_the_limit_of_the_controller() {
    /// DMRSL, in blocks.
    const LIMIT_BLOCKS: u32 = 100;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let (address, thread) = controller(2, move |queue_id, entry| {
        if queue_id > 0 && entry.opcode == io_opcode::DATASET_MANAGEMENT {
            assert_eq!(entry.cdw10.get(), 0, "one range");
            counted.fetch_add(1, Ordering::Relaxed);
        }
        let cns = Cns(entry.cdw10.get() as u8);
        if queue_id > 0 || entry.opcode != admin_opcode::IDENTIFY || cns != Cns::COMMAND_SET_CONTROLLER {
            return None;
        }
        let mut limits = IdentifyControllerNvm::default();
        limits.dataset_management_ranges_limit = 1;
        limits.dataset_management_range_size_limit = LIMIT_BLOCKS.into();
        data(limits.as_bytes())
    });
    let controller = Controller::connect(options(address)).unwrap();
    let limits = controller.deallocate_limits();
    assert_eq!((limits.ranges, limits.range_blocks), (1, LIMIT_BLOCKS));
    let volume = Volume::on_controller(&controller, 1).unwrap();
    volume.deallocate(0, u64::from((6 * LIMIT_BLOCKS + 1) * BLOCK)).unwrap();
    drop(volume);
    controller.disconnect().unwrap();
    thread.join().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 7, "six of the greatest length, and a rest");
}

#[test]
fn a_queue_has_no_more_entries_than_the_controller_takes_commands() {
    for (taken_max, entries) in [(0_u16, 128), (32, 32), (1, 2), (1024, 128)] {
        let (address, thread) = controller(1, move |_, entry| {
            let cns = Cns(entry.cdw10.get() as u8);
            if entry.opcode != admin_opcode::IDENTIFY || cns != Cns::CONTROLLER {
                return None;
            }
            let mut identify = IdentifyController::default();
            identify.controller_type = controller_type::IO;
            identify.max_outstanding_commands = taken_max.into();
            identify.io_command_capsule_size = 4.into();
            identify.io_response_capsule_size = 1.into();
            data(identify.as_bytes())
        });
        let controller = Controller::connect(options(address)).unwrap();
        assert_eq!(controller.queue_options(1).entries, entries, "MAXCMD {taken_max}");
        controller.disconnect().unwrap();
        thread.join().unwrap();
    }
}

/// Discovery log of this generation with one entry, whose port is the generation's number, and which has this SECTYPE.
fn discovery_log(generation: u64, security: u8) -> Vec<u8> {
    let nqn = Nqn::new(NQN).unwrap();
    let service = generation.to_string();
    let mut entry = DiscoveryEntry::tcp(SubsystemType::NVM, &nqn, AddressFamily::IPV4, "127.0.0.1", &service);
    entry.address_subtype[0] = security;
    [DiscoveryLogHeader::new(generation, 1).as_bytes(), entry.as_bytes()].concat()
}

fn reads_discovery_log(entry: &SubmissionEntry) -> bool {
    entry.opcode == admin_opcode::GET_LOG_PAGE && LogPageId(entry.cdw10.get() as u8) == LogPageId::DISCOVERY
}

#[test]
fn a_discovery_log_that_changes_while_it_is_read_is_read_again() {
    // Generations of the header, of the log, and of the header again: first the log changes, then the header behind it.
    const GENERATIONS: [u64; 9] = [1, 2, 2, 2, 2, 3, 3, 3, 3];
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let (address, thread) = controller(1, move |_, entry| {
        let generation = || GENERATIONS[counted.fetch_add(1, Ordering::Relaxed)];
        let page = || discovery_log(generation(), tcp_security::NONE);
        if reads_discovery_log(entry) { data(&page()) } else { None }
    });
    let controller = Controller::connect(ConnectOptions { io_queues: 0, ..options(address) }).unwrap();
    let records = controller.discovery_log().unwrap();
    assert_eq!(records.generation_counter, 3);
    assert_eq!(records.entries[0].service_id(), "3", "all of one generation");
    assert_eq!(count.load(Ordering::Relaxed), GENERATIONS.len());
    controller.disconnect().unwrap();
    thread.join().unwrap();
}

#[test]
fn a_discovery_log_that_never_stops_changing_is_given_up() {
    let count = AtomicU64::new(1);
    let (address, thread) = controller(1, move |_, entry| {
        let page = || discovery_log(count.fetch_add(1, Ordering::Relaxed), tcp_security::NONE);
        if reads_discovery_log(entry) { data(&page()) } else { None }
    });
    let controller = Controller::connect(ConnectOptions { io_queues: 0, ..options(address) }).unwrap();
    let error = controller.discovery_log().unwrap_err();
    assert!(matches!(error, InitiatorError::BadAnswer { .. }), "{error}");
    controller.disconnect().unwrap();
    thread.join().unwrap();
}

#[test]
fn an_entry_of_tls_1_2_leads_to_no_connection() {
    let (address, thread) = controller(1, |_, entry| {
        if reads_discovery_log(entry) { data(&discovery_log(4420, tcp_security::TLS_1_2)) } else { None }
    });
    let error = Volume::discover(address, NQN, 1_u32).unwrap_err();
    assert!(matches!(error, InitiatorError::NotFound { .. }), "{error}");
    thread.join().unwrap();
}
