//! Reservation commands go to the worker, and reservations are met by everybody else.

use nvme::Status;
use nvme::io::IoCommand;
use nvme::reservation::{PersistenceChange, RegisterAction};

use super::rig::{Rig, block};
use crate::limits::{BUFFER_LENGTH_MAX, CONNECTION_BUFFER_BYTES_MAX, HOST_RESERVATIONS_AT_ONCE};
use crate::ring;
use crate::ring::channel::sync_channel;
use crate::target::controller::Guest;
use crate::target::messaging::Task;

fn register() -> IoCommand {
    IoCommand::ReservationRegister {
        action: RegisterAction::Register,
        ignore_existing_key: false,
        persistence: PersistenceChange::NoChange,
    }
}

#[test]
fn the_worker_gets_the_data_and_the_host_its_answer() {
    let mut rig = Rig::on_memory(4);
    let (sender, jobs) = sync_channel(1);
    rig.fabric.reservation_jobs.open(sender);
    rig.send(1, &register(), &[7; 16], false);
    assert_eq!((rig.answers(), rig.commands.slots.kept()), (vec![], 1));
    let job = jobs.try_recv().expect("a job");
    let Task::Command { data, slot, command, .. } = job.task else { panic!("it is a command's") };
    assert_eq!((data, command), (vec![7; 16], register()));
    // There is room for one.
    rig.send(2, &register(), &[7; 16], false);
    rig.send(3, &register(), &[7; 16], false);
    assert_eq!(rig.statuses(), [(3, Status::COMMAND_INTERRUPTED)]);
    rig.act(|commands, ctx| vec![commands.worker_done(slot, Status::RESERVATION_CONFLICT, &[], ctx)]);
    assert_eq!(rig.statuses(), [(1, Status::RESERVATION_CONFLICT)]);
    rig.act(|commands, ctx| vec![commands.worker_done(slot, Status::SUCCESS, &[], ctx)]);
    assert_eq!(rig.answers(), [], "it is answered once");
}

#[test]
fn a_report_brings_what_the_worker_says() {
    let mut rig = Rig::on_memory(4);
    let (sender, jobs) = sync_channel(1);
    rig.fabric.reservation_jobs.open(sender);
    rig.send(1, &IoCommand::ReservationReport { dwords: 4, extended: true }, &[], false);
    let Task::Command { slot, .. } = jobs.try_recv().expect("a job").task else {
        panic!("it is a command's")
    };
    rig.act(|commands, ctx| vec![commands.worker_done(slot, Status::SUCCESS, &[1, 2, 3], ctx)]);
    let answers = rig.answers();
    assert_eq!(answers[0].data, [[1, 2, 3, 0], [0; 4], [0; 4], [0; 4]].concat());
}

#[test]
fn a_host_that_has_its_share_of_the_worker_comes_again() {
    let mut rig = Rig::on_memory(4);
    let (sender, jobs) = sync_channel(1);
    rig.fabric.reservation_jobs.open(sender);
    let (fabric, guest) = (rig.fabric.clone(), rig.commands.of.controller.guest.clone());
    let shares: Vec<_> = std::iter::from_fn(|| fabric.shares.reservations.take(&guest).ok()).collect();
    rig.send(1, &register(), &[7; 16], false);
    assert_eq!(rig.statuses(), [(1, Status::COMMAND_INTERRUPTED)]);
    drop(shares);
    rig.send(1, &register(), &[7; 16], false);
    assert!(rig.statuses().is_empty() && jobs.try_recv().is_ok(), "the worker has it");
}

#[test]
fn a_host_that_has_changed_too_many_reservations_may_still_read_them() {
    let mut rig = Rig::on_memory(4);
    let (sender, jobs) = sync_channel(4);
    rig.fabric.reservation_jobs.open(sender);
    let (fabric, guest) = (rig.fabric.clone(), rig.commands.of.controller.guest.clone());
    let most = 2 * HOST_RESERVATIONS_AT_ONCE as usize;
    let count = |guest: &Guest, changes| {
        let changes = (changes, HOST_RESERVATIONS_AT_ONCE);
        fabric.change_rates.reservations.count(guest, changes, ring::now())
    };
    count(&guest, most).unwrap();
    rig.send(1, &register(), &[7; 16], false);
    assert_eq!(rig.statuses(), [(1, Status::COMMAND_INTERRUPTED)]);
    rig.send(2, &IoCommand::ReservationReport { dwords: 4, extended: true }, &[], false);
    assert!(rig.statuses().is_empty() && jobs.try_recv().is_ok(), "a report changes nothing");
    let other = Guest { nqn: "nqn.other".to_owned(), is_proved: true, ..guest };
    assert!(count(&other, 1).is_ok());
}

#[test]
fn reports_wait_for_buffers_before_the_worker_has_them() {
    const MOST: usize = CONNECTION_BUFFER_BYTES_MAX / BUFFER_LENGTH_MAX;
    let mut rig = Rig::on_memory(4);
    let (sender, jobs) = sync_channel(32);
    rig.fabric.reservation_jobs.open(sender);
    let report = IoCommand::ReservationReport { dwords: BUFFER_LENGTH_MAX as u32 / 4, extended: true };
    (1..=MOST as u16 + 3).for_each(|command_id| rig.send(command_id, &report, &[], false));
    let slots = || -> Vec<u16> {
        let tasks = std::iter::from_fn(|| jobs.try_recv().ok()).map(|job| job.task);
        tasks
            .filter_map(|task| if let Task::Command { slot, .. } = task { Some(slot) } else { None })
            .collect()
    };
    let first = slots();
    assert_eq!(first.len(), MOST, "as many as the queue may have buffers for");
    // One that fails needs none, and one that was read needs none any longer: the next ones go on.
    rig.act(|commands, ctx| vec![commands.worker_done(first[0], Status::INTERNAL_ERROR, &[], ctx)]);
    assert_eq!(slots().len(), 1);
    rig.act(|commands, ctx| vec![commands.worker_done(first[1], Status::SUCCESS, &[7], ctx)]);
    rig.act(|_, _| Vec::new());
    assert_eq!(slots().len(), 1);
    assert_eq!(rig.statuses(), [(1, Status::INTERNAL_ERROR), (2, Status::SUCCESS)]);
}

#[test]
fn a_host_without_the_right_writes_nothing_and_the_holder_does() {
    let write = IoCommand::Write { start: 0, blocks: 1, force_unit_access: false };
    let (own, other) = ("nqn.2026-01.io.selvedge:host", "nqn.2026-01.io.selvedge:other");
    // The host of the queue is the one whose identifier is all ones; another host differs from it by either.
    for (name, id, expected) in [
        (own, [2; 16], Status::RESERVATION_CONFLICT),
        (other, [1; 16], Status::RESERVATION_CONFLICT),
        (own, [1; 16], Status::SUCCESS),
    ] {
        let mut rig = Rig::on_memory(4);
        rig.reserve_for(name, id);
        rig.send(1, &write, &block(1), true);
        assert_eq!(rig.statuses(), [(1, expected)]);
        assert_eq!(rig.memory(0, 4096)[0], u8::from(expected.is_success()));
    }
}
