//! Namespaces as block devices of this machine.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use attach::Disk;
use attach::limits::{USER_REQUEST_TIMEOUT_MS, USER_REQUEST_WAIT_MS};
use attach::ublk::{
    Device, DeviceOptions, DeviceState, DeviceTally, FoundDevice, bear_memory_pressure, is_unprivileged,
};
use chart::units;
use engine::initiator::{PathOptions, Paths};
use engine::limits::IO_QUEUES_MAX;
use uuid::Uuid;

use super::hand_over::{GroupServer, GroupTakeOver, HandedState};
use super::record::{AttachMethod, KeptRecord, RecordedDevice, RecordedDisk};
use super::{Attaching, OTHER_WAY, watch};
use crate::disk_users::DiskUsers;
use crate::failure::Failure;
use crate::report;
use crate::spec::size::Size;
use crate::stop::Stop;

/// Looks whether there can be block devices, and makes the process one that they may depend on. Before any thread is started,
/// since threads are like the one that started them.
pub(super) fn prepare() -> Result<(), Failure> {
    Device::check().map_err(Failure::failed)?;
    if let Err(error) = bear_memory_pressure() {
        tracing::warn!(
            target: "selvedge::commands::attach::ublk",
            %error, "while memory is short, this process may wait for its own disk"
        );
    }
    Ok(())
}

/// A queue for each processor, as the kernel's own driver has.
pub(super) fn processors() -> u16 {
    let count = available_parallelism().map_or(1, usize::from);
    count.min(IO_QUEUES_MAX.into()) as u16
}

/// Sets a time-out for requests without a path, unless one is given: the kernel kills the process
/// of an unprivileged user's device if its requests are not answered, instead of letting them wait.
pub(super) fn bound_waiting(options: &mut PathOptions) {
    if is_unprivileged() {
        options.fast_io_fail.get_or_insert(Duration::from_millis(USER_REQUEST_TIMEOUT_MS));
        options.wait_limit = Some(Duration::from_millis(USER_REQUEST_WAIT_MS));
    }
}

/// Makes the devices, or takes them over, serves them, and takes them away.
pub(super) fn serve(
    attaching: &Attaching<'_>,
    disks: &[Disk],
    mut take_over: Option<GroupTakeOver>,
    stop: &Stop,
) -> Result<(), Failure> {
    let all_paths: Vec<Arc<Paths>> = disks.iter().map(|disk| disk.paths.clone()).collect();
    if take_over.is_none() {
        attaching.controllers.look_again();
    }
    let previous = attaching.previous.as_ref();
    let left = take_over.as_ref().map(|one| &one.offered.disks);
    let left = left.or(previous.map(|previous| &previous.record.disks));
    let recorded = attaching.recorded(disks, left.map(Vec::as_slice))?;
    let mut devices = match left {
        None => add(attaching, disks)?,
        Some(left) => adopt(attaching, disks, (&recorded, left))?,
    };
    if let Some(take_over) = &mut take_over {
        complete(attaching, take_over)?;
    }
    let recorded = recorded.into_iter().zip(&devices);
    let recorded = recorded.map(|(disk, device)| RecordedDisk { device: Some(device.id().into()), ..disk });
    let recorded: Vec<RecordedDisk> = recorded.collect();
    // Before there is a device that a later process may recover.
    let previous = previous.map(|previous| previous.path.as_path());
    let previous = take_over.as_ref().and_then(|one| one.offered.record.as_deref()).or(previous);
    let kept = attaching.keep(AttachMethod::Ublk, recorded.clone(), previous)?;
    if let Err(error) = devices.iter_mut().try_for_each(|device| device.start(&|| stop.is_asked())) {
        if attaching.previous.is_some() || take_over.is_some() {
            leave(devices, kept);
        }
        return Err(Failure::failed(error));
    }
    let threads = devices.iter().map(Device::queues).sum();
    attaching.hold(kept.as_ref(), recorded, GroupServer::Ublk(devices.iter().map(Device::holder).collect()));
    match take_over {
        Some(take_over) => take_over.serves(),
        None => {
            let attached = attaching.attached(threads).with_devices(&devices);
            report::print_as(attaching.flags.output.output_format, &attached)?;
        }
    }
    let (devices, outcome) = serve_devices(attaching, devices, &all_paths, stop);
    if attaching.registration.has_left_devices() {
        leave(devices, kept);
        return outcome;
    }
    remove(attaching, devices, kept);
    attaching.print_stages(&all_paths);
    outcome
}

/// Serves the devices until they are to end, and returns those that this process still has.
fn serve_devices(
    attaching: &Attaching<'_>,
    devices: Vec<Device>,
    all_paths: &[Arc<Paths>],
    stop: &Stop,
) -> (Vec<Device>, Result<(), Failure>) {
    let registration = &attaching.registration;
    let names: Vec<String> = devices.iter().map(|device| format!("ublkb{}", device.id().number)).collect();
    let devices = RefCell::new(devices);
    let has_ended = || {
        let mut devices = devices.borrow_mut();
        if registration.has_left_devices() {
            // The new process waits until they are free.
            devices.drain(..).for_each(Device::abandon);
            return registration.is_forsaken().then(|| {
                "its block devices were left to another process, which has died: selvedge attach recover"
                    .to_owned()
            });
        }
        devices.iter_mut().for_each(|device| follow_size(attaching, device));
        let ended = devices.iter().find(|device| device.has_ended())?;
        Some(format!(
            "{} is no longer there: another program has deleted it, or see the log",
            ended.path().display()
        ))
    };
    let find_user = || {
        let known = user(&names);
        if known.is_some() || registration.has_left_devices() {
            return known;
        }
        opened(&mut devices.borrow_mut())
    };
    let outcome = watch(stop, attaching, all_paths, has_ended, find_user);
    (devices.into_inner(), outcome)
}

/// Returns a user of one of these block devices.
fn user(names: &[String]) -> Option<String> {
    let users = DiskUsers::live();
    names.iter().find_map(|name| users.of(name).or_else(|| users.opener(name)))
}

/// Returns one of these block devices that is open, as far as the driver knows; those before it are stopped. A confined process
/// sees no files of other processes.
fn opened(devices: &mut [Device]) -> Option<String> {
    let open = devices.iter_mut().find_map(|device| device.is_open_else_stop().then(|| device.path()));
    open.map(|path| format!("{} is open", path.display()))
}

/// Removes the devices, then their record.
fn remove(attaching: &Attaching<'_>, devices: Vec<Device>, kept: Option<KeptRecord>) {
    let tallies: Vec<DeviceTally> = devices.into_iter().map(Device::stop).collect();
    drop(kept);
    if attaching.prints_text() {
        eprintln!("{}", summary(&tallies));
    }
}

/// Leaves the devices to another process; their users wait.
fn leave(devices: Vec<Device>, kept: Option<KeptRecord>) {
    devices.into_iter().for_each(Device::abandon);
    kept.into_iter().for_each(KeptRecord::leave);
}

/// Waits until the old process leaves its devices.
fn complete(attaching: &Attaching<'_>, take_over: &mut GroupTakeOver) -> Result<(), Failure> {
    let service = take_over.complete(|state, _| match state {
        HandedState::Ublk => Ok(Vec::new()),
        _ => Err(OTHER_WAY.to_owned()),
    })?;
    if service.has_old_died {
        attaching.controllers.look_again();
    }
    Ok(())
}

/// New devices, which are not there yet.
fn add(attaching: &Attaching<'_>, disks: &[Disk]) -> Result<Vec<Device>, Failure> {
    disks.iter().map(|disk| add_one(attaching, disk)).collect()
}

fn add_one(attaching: &Attaching<'_>, disk: &Disk) -> Result<Device, Failure> {
    let (queues, depth) = (attaching.threads, attaching.flags.queue_size);
    let options = DeviceOptions { queues, depth, ring: attaching.ring() };
    Device::add(disk, Uuid::new_v4().as_u64_pair().0, options).map_err(Failure::failed)
}

/// The devices of a process that is gone, as they were left.
fn adopt(
    attaching: &Attaching<'_>,
    disks: &[Disk],
    (recorded, left): (&[RecordedDisk], &[RecordedDisk]),
) -> Result<Vec<Device>, Failure> {
    let adopt = |(disk, now): (&Disk, &RecordedDisk)| {
        let was = left.iter().find(|was| was.nsid == now.nsid);
        let (was, device) = was
            .and_then(|was| Some((was, was.device?)))
            .ok_or_else(|| Failure::failed(format!("there is no block device of namespace {}", now.nsid)))?;
        if was.namespace != now.namespace {
            return Err(Failure::failed(format!(
                "namespace {} is another one than {} was made of: its identifier is {}, and was {}",
                now.nsid,
                was.place(),
                now.namespace,
                was.namespace
            )));
        }
        match stopped(attaching, device) {
            None => Device::adopt(disk, device.into(), attaching.ring()).map_err(Failure::failed),
            Some(stopped) => {
                stopped.delete().map_err(Failure::failed)?;
                add_one(attaching, disk)
            }
        }
    };
    disks.iter().zip(recorded).map(adopt).collect()
}

/// Returns the device if it was stopped, as no program had it open, and not removed: its process was killed while it waited for
/// users of another one. Nothing waits for such a device, which cannot be started again.
fn stopped(attaching: &Attaching<'_>, device: RecordedDevice) -> Option<FoundDevice> {
    // The old process of an upgrade has its devices still.
    attaching.previous.as_ref()?;
    let found = FoundDevice::of_number(device.number).ok().flatten()?;
    (device.is(&found) && found.state == DeviceState::Dead).then_some(found)
}

fn follow_size(attaching: &Attaching<'_>, device: &mut Device) {
    let Some((size_bytes, is_seen)) = device.follow_size() else { return };
    let (path, size) = (device.path(), Size(size_bytes));
    if !is_seen {
        tracing::warn!(
            target: "selvedge::commands::attach::ublk",
            device = %path.display(), %size,
            "the size of the namespace has changed, and this kernel cannot resize the device: detach and attach it again"
        );
    } else if attaching.prints_text() {
        eprintln!("{} has {size} now", path.display());
    }
}

fn summary(tallies: &[DeviceTally]) -> String {
    format!(
        "detached after {}, {} answered with an error",
        units::plural(tallies.iter().map(|tally| tally.requests).sum(), "request"),
        units::grouped(tallies.iter().map(|tally| tally.errors).sum())
    )
}
