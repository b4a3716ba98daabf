//! A block device: how it is made, what serves it, and how it goes.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use engine::initiator::Controller;
use engine::ring::{Ring, RingOptions, Waker};

use super::control::Control;
use super::driver::{ANY_DEVICE, DeviceInfo, REQUEST_BYTES_MAX, feature, order};
use super::error::DeviceError;
use super::geometry::Geometry;
use super::queue::{Plan, Queue};
use super::tally::DeviceTally;
use crate::disk::Disk;
use crate::limits::{
    DEVICE_DEPTH_MAX, DEVICE_START_TIMEOUT_MS, END_TIMEOUT_MS, NODE_TIMEOUT_MS, PIECE_BYTES,
};

/// How often it is looked whether the device's file has been made.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

const _: () = assert!(PIECE_BYTES <= REQUEST_BYTES_MAX);

/// How a device is made.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions {
    /// Queues, each with a thread. There are no more than processors, or than the controllers have granted I/O queues.
    pub queues: u16,
    /// Requests of one queue that are under way.
    pub depth: u16,
    /// What carries their I/O.
    pub ring: RingOptions,
}

/// A block device that is there. Dropping it takes it away as `stop` does.
pub struct Device {
    control: Control,
    number: u32,
    geometry: Geometry,
    /// `/dev/ublkcN`; the driver keeps the device for as long as it is open.
    file: Option<Arc<File>>,
    threads: Vec<(Waker, JoinHandle<DeviceTally>)>,
    gives_up: Arc<AtomicBool>,
    is_there: bool,
}

impl Device {
    /// Whether the kernel can have such devices, and this process may make them.
    ///
    /// # Errors
    /// When not.
    pub fn check() -> Result<(), DeviceError> {
        usable(&mut Control::open()?)
    }

    /// Makes a namespace a block device.
    ///
    /// # Errors
    /// When the namespace cannot be one, or the system refuses.
    pub fn start(disk: &Disk, options: DeviceOptions) -> Result<Self, DeviceError> {
        let geometry = Geometry::of(disk)?;
        let mut control = Control::open()?;
        usable(&mut control)?;
        let granted = disk.paths.controllers().iter().map(Controller::io_queues).min().unwrap_or(1);
        let mut info = DeviceInfo {
            // The driver makes no more than there are processors.
            queues: options.queues.min(granted).max(1),
            depth: options.depth.clamp(1, DEVICE_DEPTH_MAX),
            request_bytes_max: PIECE_BYTES as u32,
            device: ANY_DEVICE,
            server: -1,
            flags: feature::USER_COPY | feature::IOCTL_ENCODED,
            ..DeviceInfo::default()
        };
        control.add(&mut info)?;
        let mut device = Self {
            control,
            number: info.device,
            geometry,
            file: None,
            threads: Vec::new(),
            gives_up: Arc::default(),
            is_there: true,
        };
        if info.flags & feature::USER_COPY == 0 {
            return Err(DeviceError::TooOld);
        }
        device.control.set_parameters(info.device, &geometry.parameters())?;
        let file = Arc::new(device.open_file()?);
        device.file = Some(file.clone());
        for number in 0..info.queues {
            let (paths, gives_up) = (disk.paths.clone(), device.gives_up.clone());
            let (count, depth) = (info.queues, info.depth);
            let plan = Plan { device: file.clone(), paths, geometry, number, count, depth, gives_up };
            device.threads.push(start_thread(plan, options.ring).map_err(system("a thread of the device"))?);
        }
        drop(file);
        device.begin_service()?;
        Ok(device)
    }

    /// `/dev/ublkbN`.
    pub fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.number).into()
    }

    /// The namespace as the block layer sees it.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Queues, each with a thread.
    pub const fn queues(&self) -> usize {
        self.threads.len()
    }

    /// Whether the device is no longer served, though nobody has stopped it: a thread failed, or it was deleted by another
    /// program.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Takes the device away. What is under way has `limits::END_TIMEOUT_MS`, then it fails.
    pub fn stop(mut self) -> DeviceTally {
        self.end()
    }

    /// The file by which requests come. Where udev makes it, or sets its rights, that takes a moment.
    fn open_file(&self) -> Result<File, DeviceError> {
        let path = format!("/dev/ublkc{}", self.number);
        let end = Instant::now() + Duration::from_millis(NODE_TIMEOUT_MS);
        loop {
            match File::options().read(true).write(true).open(&path) {
                Ok(file) => return Ok(file),
                Err(error) if Instant::now() >= end => return Err(system(&path)(error)),
                Err(_) => std::thread::sleep(LOOK_INTERVAL),
            }
        }
    }

    /// The device appears, and the kernel reads its partitions.
    fn begin_service(&mut self) -> Result<(), DeviceError> {
        let refused = |error| DeviceError::Refused { what: "start the device", error };
        let server = u64::from(std::process::id());
        self.control.begin((order::START_DEVICE, self.number), server).map_err(refused)?;
        self.finish(Duration::from_millis(DEVICE_START_TIMEOUT_MS)).map_err(refused)
    }

    /// Waits for the command that was begun. What of it depends on requests that get no answer fails after `limit`.
    fn finish(&mut self, limit: Duration) -> io::Result<()> {
        if let Some(ended) = self.control.wait(Some(limit)) {
            return ended;
        }
        self.gives_up.store(true, Ordering::Release);
        self.threads.iter().for_each(|(waker, _)| waker.wake());
        self.control.wait(None).unwrap_or(Ok(()))
    }

    fn end(&mut self) -> DeviceTally {
        if !std::mem::take(&mut self.is_there) {
            return DeviceTally::default();
        }
        let limit = Duration::from_millis(END_TIMEOUT_MS);
        // The kernel writes what it has not written yet, so that the threads go on until it has no more requests. Where it knows
        // the device no longer, they have been told so.
        let stopped =
            self.control.begin((order::STOP_DEVICE, self.number), 0).and_then(|()| self.finish(limit));
        if let Err(error) = stopped {
            tracing::debug!(%error, device = self.number, "the block device was not stopped");
        }
        let tallies = self.threads.drain(..).filter_map(|(_, thread)| thread.join().ok());
        let tally = tallies.fold(DeviceTally::default(), |sum, one| DeviceTally {
            requests: sum.requests + one.requests,
            errors: sum.errors + one.errors,
        });
        self.file = None;
        let deleted = self.control.begin((order::DELETE_DEVICE, self.number), 0);
        match deleted.map(|()| self.control.wait(Some(limit))) {
            Ok(Some(Ok(()))) => {}
            Ok(None) => tracing::warn!(
                device = %self.path().display(),
                "the block device was in use; its number is free when the last user closes it"
            ),
            Ok(Some(Err(error))) | Err(error) => {
                tracing::debug!(%error, device = self.number, "the block device was not deleted");
            }
        }
        tally
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.end();
    }
}

fn usable(control: &mut Control) -> Result<(), DeviceError> {
    let features = control.features()?;
    if features & feature::USER_COPY == 0 { Err(DeviceError::TooOld) } else { Ok(()) }
}

fn system(what: &str) -> impl Fn(io::Error) -> DeviceError {
    move |error| DeviceError::System { what: what.to_owned(), error }
}

/// Starts a queue's thread, and waits until it has asked for requests.
fn start_thread(plan: Plan, ring: RingOptions) -> io::Result<(Waker, JoinHandle<DeviceTally>)> {
    let (opened, outcome) = channel();
    let thread = Builder::new().name(format!("ublk-{}", plan.number)).spawn(move || {
        let queue = Ring::new(ring).and_then(|ring| {
            let waker = ring.waker();
            Queue::open(ring, plan).map(|queue| (waker, queue))
        });
        match queue {
            Ok((waker, queue)) => {
                let _ = opened.send(Ok(waker));
                drop(opened);
                queue.run()
            }
            Err(error) => {
                let _ = opened.send(Err(error));
                DeviceTally::default()
            }
        }
    })?;
    let ended = |_| Err(io::Error::other("it ended at once"));
    outcome.recv().unwrap_or_else(ended).map(|waker| (waker, thread))
}
