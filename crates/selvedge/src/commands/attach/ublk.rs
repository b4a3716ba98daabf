//! Namespaces as block devices of this machine.

use std::sync::Arc;
use std::thread::available_parallelism;

use attach::Disk;
use attach::ublk::{Device, DeviceError, DeviceOptions, DeviceTally, bear_memory_pressure};
use chart::units;
use engine::initiator::Paths;
use engine::limits::IO_QUEUES_MAX;

use super::{Attaching, watch};
use crate::failure::Failure;
use crate::report;
use crate::stop::Stop;

/// Looks whether there can be block devices, and makes the process one that they may depend on. Before any thread is started,
/// since threads are like the one that started them.
pub(super) fn prepare() -> Result<(), Failure> {
    Device::check().map_err(Failure::failed)?;
    if let Err(error) = bear_memory_pressure() {
        tracing::warn!(%error, "while memory is short, this process may wait for its own disk");
    }
    Ok(())
}

/// A queue for each processor, as the kernel's own driver has.
pub(super) fn processors() -> u16 {
    let count = available_parallelism().map_or(1, usize::from);
    count.min(IO_QUEUES_MAX.into()) as u16
}

/// Makes the devices, serves them, and takes them away.
pub(super) fn serve(attaching: &Attaching<'_>, disks: &[Disk], stop: &Stop) -> Result<(), Failure> {
    let all_paths: Vec<Arc<Paths>> = disks.iter().map(|disk| disk.paths.clone()).collect();
    let (queues, depth) = (attaching.threads, attaching.flags.queue_size);
    let options = DeviceOptions { queues, depth, ring: attaching.ring() };
    attaching.controllers.look_again();
    let start = |disk| {
        let mut device = Device::add(disk, 0, options)?;
        device.start(&|| stop.is_asked())?;
        Ok(device)
    };
    let devices = disks.iter().map(start).collect::<Result<Vec<_>, DeviceError>>();
    let devices = devices.map_err(Failure::failed)?;
    let threads = devices.iter().map(Device::queues).sum();
    let attached = attaching.attached(threads).with_devices(&devices);
    report::print_as(attaching.flags.output.output_format, &attached)?;
    let has_failed = || {
        let ended = devices.iter().find(|device| device.has_ended())?;
        Some(format!(
            "{} is no longer there: another program has deleted it, or see the log",
            ended.path().display()
        ))
    };
    let outcome = watch(stop, &all_paths, has_failed);
    let tallies: Vec<DeviceTally> = devices.into_iter().map(Device::stop).collect();
    if attaching.is_told() {
        eprintln!("{}", told(&tallies));
    }
    outcome
}

fn told(tallies: &[DeviceTally]) -> String {
    format!(
        "detached after {}, {} answered with an error",
        units::plural(tallies.iter().map(|tally| tally.requests).sum(), "request"),
        units::grouped(tallies.iter().map(|tally| tally.errors).sum())
    )
}
