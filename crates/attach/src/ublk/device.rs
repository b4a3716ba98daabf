//! A block device: how it is made or taken over, what serves it, and how it goes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use engine::initiator::Controller;
use engine::ring::RingOptions;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};

use super::control::Control;
use super::driver::{
    ANY_DEVICE, DeviceInfo, REQUEST_BYTES_MAX, SECTOR_BYTES, control_command, feature, state,
};
use super::error::DeviceError;
use super::geometry::Geometry;
use super::holder::DeviceHolder;
use super::open_file::OpenFile;
use super::queue::{Plan, QueueControl};
use super::queue_thread::QueueThread;
use super::tally::DeviceTally;
use super::write_back::write_back;
use crate::disk::Disk;
use crate::limits::{
    DEVICE_DEPTH_MAX, DEVICE_START_TIMEOUT_MS, END_TIMEOUT_MS, NODE_TIMEOUT_MS, PIECE_BYTES,
    RECOVERY_TIMEOUT_MS,
};

/// Interval at which the appearance of the device's file, or the end of its last process, is
/// checked.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Time for the driver to stop a device that no program has open. While one closes it, the driver waits for what that one has
/// written.
const TRY_STOP_WAIT: Duration = Duration::from_secs(1);

/// Features that are used where the driver has them.
const WANTED: u64 = RECOVERY | feature::UPDATE_SIZE;
const RECOVERY: u64 = feature::USER_RECOVERY | feature::USER_RECOVERY_REISSUE;

const _: () = assert!(PIECE_BYTES <= REQUEST_BYTES_MAX);

/// Options of a new device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions {
    /// Queues, each with a thread. There are no more than processors, or than the controllers have granted I/O queues.
    pub queues: u16,
    /// Requests of one queue that are under way.
    pub depth: u16,
    /// Ring for the device's I/O.
    pub ring: RingOptions,
}

/// Identity of a device: its number, which may be reused later, and a mark that is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId {
    /// The number of `/dev/ublkbN`.
    pub number: u32,
    /// Random number from its first process.
    pub mark: u64,
}

/// A block device. Dropping it takes it away as `stop` does, unless it is another process's that was not taken over yet.
pub struct Device {
    control: Control,
    disk: Disk,
    info: DeviceInfo,
    ring: RingOptions,
    geometry: Geometry,
    /// `/dev/ublkcN`; the driver keeps the device for as long as it is open.
    file: OpenFile,
    threads: Vec<QueueThread>,
    queue_control: Arc<QueueControl>,
    /// Set while the driver finds out whether the device is open.
    is_trying_to_stop: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The device has a number, and does not exist yet.
    Added,
    /// The device waits for a process, and this one has made no change that the next one could not.
    Adopted,
    Served,
    /// The driver has stopped the device, which no program had open.
    Stopped,
    Gone,
}

impl Device {
    /// Checks that the kernel supports such devices, and that this process may make them.
    ///
    /// # Errors
    /// When not.
    pub fn check() -> Result<(), DeviceError> {
        usable(&mut Control::open()?).map(drop)
    }

    /// Gets a number for a namespace's block device, which is there when it has been started.
    ///
    /// # Errors
    /// When the namespace cannot be one, or the system refuses.
    pub fn add(disk: &Disk, mark: u64, options: DeviceOptions) -> Result<Self, DeviceError> {
        let geometry = Geometry::of(disk)?;
        let mut control = Control::open()?;
        let features = usable(&mut control)?;
        let flags = if !is_unprivileged() {
            feature::USER_COPY | (features & WANTED)
        } else if features & feature::UNPRIVILEGED != 0 {
            // Neither can be had by a process that the kernel does not trust.
            feature::UNPRIVILEGED | (features & WANTED & !RECOVERY)
        } else {
            return Err(DeviceError::RootOnly);
        };
        let mut info = DeviceInfo {
            // The driver makes no more than there are processors.
            queues: options.queues.min(granted(disk)).max(1),
            depth: options.depth.clamp(1, DEVICE_DEPTH_MAX),
            request_bytes_max: PIECE_BYTES as u32,
            device: ANY_DEVICE,
            server: -1,
            flags: flags | feature::IOCTL_ENCODED,
            mark,
            ..DeviceInfo::default()
        };
        control.add(&mut info)?;
        let mut device = Self::new(control, disk, (info, options.ring), geometry, Stage::Added);
        if info.flags & (feature::USER_COPY | feature::UNPRIVILEGED) == 0 {
            return Err(DeviceError::TooOld);
        }
        if device.is_users() {
            device.await_node(&device.control_path())?;
        }
        device.control.set_parameters(info.device, &geometry.parameters())?;
        Ok(device)
    }

    /// Looks at the block device that a process has left which is gone. It is taken over when it is started.
    ///
    /// # Errors
    /// When it is no longer there, or the namespace is not what it was.
    pub fn adopt(disk: &Disk, id: DeviceId, ring: RingOptions) -> Result<Self, DeviceError> {
        let gone = DeviceError::Gone { number: id.number };
        let mut control = Control::open()?;
        let Ok(info) = control.info(id.number) else { return Err(gone) };
        if info.mark != id.mark || info.state == state::DEAD || info.flags & feature::USER_RECOVERY == 0 {
            return Err(gone);
        }
        let parameters = control.parameters(id.number);
        let parameters = parameters
            .map_err(|error| DeviceError::Refused { what: "tell the device's parameters", error })?;
        let geometry = Geometry::of(disk)?.behind(&parameters)?;
        match granted(disk) {
            granted if granted < info.queues => Err(DeviceError::Queues { granted, queues: info.queues }),
            _ => Ok(Self::new(control, disk, (info, ring), geometry, Stage::Adopted)),
        }
    }

    fn new(
        control: Control,
        disk: &Disk,
        (info, ring): (DeviceInfo, RingOptions),
        geometry: Geometry,
        stage: Stage,
    ) -> Self {
        let (disk, queue_control) = (disk.clone(), Arc::default());
        Self {
            control,
            disk,
            info,
            ring,
            geometry,
            file: OpenFile::default(),
            threads: Vec::new(),
            queue_control,
            is_trying_to_stop: false,
            stage,
        }
    }

    /// The device appears, or goes on. Where its last process has not ended, that is waited for until `is_enough`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(&mut self, is_enough: &dyn Fn() -> bool) -> Result<(), DeviceError> {
        let is_adopted = self.stage == Stage::Adopted;
        if is_adopted {
            self.claim(is_enough)?;
        }
        let file = Arc::new(self.open_file()?);
        self.file.put(file.clone());
        for number in 0..self.info.queues {
            let (paths, queue_control) = (self.disk.paths.clone(), self.queue_control.clone());
            let (count, depth) = (self.info.queues, self.info.depth);
            let geometry = self.geometry;
            let has_buffers = self.is_users();
            let device = file.clone();
            let plan = Plan { device, paths, geometry, number, count, depth, has_buffers, queue_control };
            let thread = QueueThread::start(plan, self.ring).map_err(system("a thread of the device"))?;
            self.threads.push(thread);
        }
        drop(file);
        // All at once: Linux 6.12 cannot recover a device whose process ends after some of its
        // queues have asked for requests.
        self.threads.iter().for_each(QueueThread::begin);
        self.threads.iter().try_for_each(QueueThread::begun).map_err(system("a queue of the device"))?;
        let what =
            if is_adopted { control_command::END_USER_RECOVERY } else { control_command::START_DEVICE };
        self.begin_service(what)?;
        self.stage = Stage::Served;
        if self.is_users() {
            self.await_node(&self.path())?;
        }
        Ok(())
    }

    /// Identity of the device.
    pub const fn id(&self) -> DeviceId {
        DeviceId { number: self.info.device, mark: self.info.mark }
    }

    /// `/dev/ublkbN`.
    pub fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.info.device).into()
    }

    /// The namespace as the block layer sees it.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Queues, each with a thread.
    pub const fn queues(&self) -> usize {
        self.threads.len()
    }

    /// True if the device is no longer served without a request to stop: a thread failed, or another
    /// program deleted it.
    pub fn has_ended(&self) -> bool {
        self.stage != Stage::Stopped && self.has_lost_thread()
    }

    fn has_lost_thread(&self) -> bool {
        self.threads.iter().any(QueueThread::has_ended)
    }

    /// Stops the served device if no program has it open, and returns true if one has. A driver before Linux 7.0 does not know,
    /// and the device is served on.
    pub fn is_open_else_stop(&mut self) -> bool {
        if self.stage != Stage::Served || self.info.flags & feature::SAFE_STOP == 0 {
            return false;
        }
        if !self.is_trying_to_stop {
            let command = (control_command::TRY_STOP_DEVICE, self.info.device);
            self.is_trying_to_stop = self.control.begin(command, 0).is_ok();
        }
        let ended = self.is_trying_to_stop.then(|| self.control.wait(Some(TRY_STOP_WAIT)));
        let Some(Some(ended)) = ended else { return self.is_trying_to_stop };
        self.is_trying_to_stop = false;
        match ended {
            Ok(()) => {
                self.stage = Stage::Stopped;
                false
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => true,
            Err(error) => {
                tracing::debug!(%error, device = self.info.device, "the driver does not say whether the device is open");
                false
            }
        }
    }

    /// Tells the block layer when the namespace has another size. Says the new size, and whether the driver can tell it.
    pub fn follow_size(&mut self) -> Option<(u64, bool)> {
        let size_bytes = self.disk.paths.size_bytes();
        // This process has one command to the driver at a time.
        let is_stopping = self.is_trying_to_stop || self.stage == Stage::Stopped;
        if size_bytes == self.geometry.size_bytes || size_bytes == 0 || is_stopping {
            return None;
        }
        self.geometry.size_bytes = size_bytes;
        if self.info.flags & feature::UPDATE_SIZE == 0 {
            return Some((size_bytes, false));
        }
        let updated = self
            .control
            .execute_plain((control_command::UPDATE_SIZE, self.info.device), size_bytes / SECTOR_BYTES);
        if let Err(error) = &updated {
            tracing::warn!(%error, device = %self.path().display(), "the block device does not get its new size");
        }
        Some((size_bytes, updated.is_ok()))
    }

    /// Handle for leaving the started device to another process, while this one waits for something
    /// else.
    pub fn holder(&self) -> DeviceHolder {
        let wakers = self.threads.iter().map(|thread| thread.waker().clone()).collect();
        DeviceHolder::new(self.queue_control.clone(), wakers)
    }

    /// Takes the device away. What is under way has `limits::END_TIMEOUT_MS`, then it fails.
    pub fn stop(mut self) -> DeviceTally {
        self.end()
    }

    /// Leaves the device to another process, as one does that is killed.
    pub fn abandon(mut self) {
        self.stage = Stage::Adopted;
    }

    /// Tells the driver that this process goes on with the device.
    fn claim(&mut self, is_enough: &dyn Fn() -> bool) -> Result<(), DeviceError> {
        let number = self.info.device;
        let end = Instant::now() + Duration::from_millis(RECOVERY_TIMEOUT_MS);
        loop {
            let Err(error) = self.control.execute_plain((control_command::START_USER_RECOVERY, number), 0)
            else {
                return Ok(());
            };
            match Errno::from_io_error(&error) {
                // The kernel has not seen the end of the last process yet, or a ring of it still has the file.
                Some(Errno::BUSY) if Instant::now() < end && !is_enough() => {
                    std::thread::sleep(LOOK_INTERVAL);
                }
                Some(Errno::BUSY) => return Err(DeviceError::Busy { number }),
                // As Linux 6.12 says where another process has begun, and ended before it asked for requests.
                Some(Errno::INVAL) if self.waits() => return Ok(()),
                Some(Errno::NODEV) => return Err(DeviceError::Gone { number }),
                _ => return Err(DeviceError::Refused { what: "begin the recovery of the device", error }),
            }
        }
    }

    fn waits(&mut self) -> bool {
        self.control.info(self.info.device).is_ok_and(|info| info.state == state::QUIESCED)
    }

    /// True if it was made without root's rights.
    const fn is_users(&self) -> bool {
        self.info.flags & feature::UNPRIVILEGED != 0
    }

    fn control_path(&self) -> PathBuf {
        format!("/dev/ublkc{}", self.info.device).into()
    }

    /// Waits until udev has given a file of a user's device to its user.
    fn await_node(&self, path: &Path) -> Result<(), DeviceError> {
        let end = Instant::now() + Duration::from_millis(NODE_TIMEOUT_MS);
        while access(path, Access::READ_OK).is_err() {
            if Instant::now() >= end {
                return Err(DeviceError::NotGiven { path: path.to_owned(), number: self.info.device });
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    /// The file by which requests come. Where udev makes it, or sets its rights, that takes a moment.
    fn open_file(&self) -> Result<File, DeviceError> {
        let path = self.control_path();
        let end = Instant::now() + Duration::from_millis(NODE_TIMEOUT_MS);
        loop {
            match File::options().read(true).write(true).open(&path) {
                Ok(file) => return Ok(file),
                Err(error) if Instant::now() >= end => {
                    return Err(system(&path.display().to_string())(error));
                }
                Err(_) => std::thread::sleep(LOOK_INTERVAL),
            }
        }
    }

    /// A new device appears, and the kernel reads its partitions; one that waited gives its requests again.
    fn begin_service(&mut self, command: u32) -> Result<(), DeviceError> {
        let refused = |error| DeviceError::Refused { what: "start the device", error };
        let server = u64::from(std::process::id());
        self.control.begin((command, self.info.device), server).map_err(refused)?;
        self.finish(Duration::from_millis(DEVICE_START_TIMEOUT_MS)).map_err(refused)
    }

    /// Waits for the command that was begun. What of it depends on requests that get no answer fails after `limit`.
    fn finish(&mut self, limit: Duration) -> io::Result<()> {
        if let Some(ended) = self.control.wait(Some(limit)) {
            return ended;
        }
        self.give_up();
        self.control.wait(None).unwrap_or(Ok(()))
    }

    fn give_up(&self) {
        self.queue_control.gives_up.store(true, Ordering::Release);
        self.threads.iter().for_each(QueueThread::wake);
    }

    fn end(&mut self) -> DeviceTally {
        let limit = Duration::from_millis(END_TIMEOUT_MS);
        match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Gone => return DeviceTally::default(),
            Stage::Adopted => return self.leave(),
            Stage::Served => self.write_back(),
            Stage::Added | Stage::Stopped => {}
        }
        if std::mem::take(&mut self.is_trying_to_stop) {
            let _ = self.finish(limit);
        }
        let number = self.info.device;
        // The threads run until the kernel has no more requests, or has deleted the device, of
        // which they are notified.
        let stopped =
            self.control.begin((control_command::STOP_DEVICE, number), 0).and_then(|()| self.finish(limit));
        if let Err(error) = stopped {
            tracing::debug!(%error, device = number, "the block device was not stopped");
        }
        let tally = self.join();
        self.file.close();
        let deleted = self.control.begin((control_command::DELETE_DEVICE, number), 0);
        match deleted.map(|()| self.control.wait(Some(limit))) {
            Ok(Some(Ok(()))) => {}
            Ok(None) => tracing::warn!(
                device = %self.path().display(),
                "the block device was in use; its number is free when the last user closes it"
            ),
            Ok(Some(Err(error))) | Err(error) => {
                tracing::debug!(%error, device = number, "the block device was not deleted");
            }
        }
        tally
    }

    /// Has the kernel write what it holds, before it is stopped: from then on a device that could be recovered takes no more
    /// requests. What is not written in time fails.
    fn write_back(&self) {
        let number = self.info.device;
        // Where a queue has ended, its requests get no answer before the device is stopped.
        if self.info.flags & feature::USER_RECOVERY == 0 || self.has_lost_thread() {
            return;
        }
        let (tell, written) = channel();
        let thread = std::thread::Builder::new().name("ublk-write-back".to_owned()).spawn(move || {
            let _ = tell.send(write_back(number));
        });
        if thread.is_err() {
            return;
        }
        let limit = Duration::from_millis(END_TIMEOUT_MS);
        let mut outcome = written.recv_timeout(limit);
        if matches!(outcome, Err(RecvTimeoutError::Timeout)) {
            self.give_up();
            outcome = written.recv_timeout(limit);
        }
        if let Ok(Err(error)) = outcome {
            tracing::warn!(%error, device = %self.path().display(), "not all of the block device was written");
        }
    }

    /// Leaves a device to another process, as it was found.
    fn leave(&mut self) -> DeviceTally {
        self.queue_control.leaves.store(true, Ordering::Release);
        self.threads.iter().for_each(QueueThread::wake);
        let tally = self.join();
        self.file.close();
        tally
    }

    fn join(&mut self) -> DeviceTally {
        let tallies = self.threads.drain(..).map(QueueThread::join);
        tallies.fold(DeviceTally::default(), |sum, one| DeviceTally {
            requests: sum.requests + one.requests,
            errors: sum.errors + one.errors,
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.end();
    }
}

/// True if this process has not the right to make devices of the whole machine, and may at most
/// make its user's own.
pub fn is_unprivileged() -> bool {
    capabilities(None).is_ok_and(|sets| !sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Features of the driver, if they suffice.
fn usable(control: &mut Control) -> Result<u64, DeviceError> {
    let features = control.features()?;
    if features & feature::USER_COPY == 0 { Err(DeviceError::TooOld) } else { Ok(features) }
}

/// I/O queues that each controller has granted.
fn granted(disk: &Disk) -> u16 {
    disk.paths.controllers().iter().map(Controller::io_queues).min().unwrap_or(1)
}

fn system(what: &str) -> impl Fn(io::Error) -> DeviceError {
    move |error| DeviceError::System { what: what.to_owned(), error }
}
