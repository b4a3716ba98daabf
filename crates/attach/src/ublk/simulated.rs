//! A block device of a simulation: the queues and threads of a real one, over a driver that the simulation plays. Commands about
//! the device itself are left to the simulation.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::ring::{Ring, RingOptions, Waker};

use super::driver::{IoDescriptor, data_at, flag, operation};
use super::geometry::Geometry;
use super::holder::DeviceHolder;
use super::queue::{Plan, QueueControl};
use super::queue_thread::QueueThread;
use super::tally::DeviceTally;
use crate::disk::Disk;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverOperation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Discard.
    Discard,
    /// Write of zeroes, which may deallocate or not.
    WriteZeroes {
        /// Set if it may.
        may_deallocate: bool,
    },
}

/// A request as the driver describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverRequest {
    /// Operation.
    pub operation: DriverOperation,
    /// Sectors of 512 bytes, and the first of them.
    pub sectors: u32,
    /// The first sector.
    pub start_sector: u64,
    /// Set if it is to be durable when it is answered.
    pub is_durable: bool,
}

impl DriverRequest {
    fn descriptor(self) -> IoDescriptor {
        let (operation, flags) = match self.operation {
            DriverOperation::Read => (operation::READ, 0),
            DriverOperation::Write => (operation::WRITE, 0),
            DriverOperation::Flush => (operation::FLUSH, 0),
            DriverOperation::Discard => (operation::DISCARD, 0),
            DriverOperation::WriteZeroes { may_deallocate } => {
                (operation::WRITE_ZEROES, if may_deallocate { 0 } else { flag::NO_UNMAP })
            }
        };
        let durable = if self.is_durable { flag::FORCE_UNIT_ACCESS } else { 0 };
        let Self { sectors, start_sector, .. } = self;
        IoDescriptor { operation: operation | flags | durable, sectors, start_sector, address: 0 }
    }
}

/// The driver's end of a device, for one process.
pub trait Driver: Debug {
    /// The process asks for a request of a tag.
    fn fetch(&self, queue: u16, tag: u16);

    /// The process answers the request of a tag with its bytes, or the negative number of an error, and asks for the next one.
    fn commit(&self, queue: u16, tag: u16, result: i32);

    /// Tag of the next request that has come.
    fn next(&self, queue: u16) -> Option<u16>;

    /// Wakes the thread of a queue for requests from now on.
    fn watch(&self, queue: u16, waker: Option<Waker>);

    /// The request of a tag.
    fn request(&self, queue: u16, tag: u16) -> Option<DriverRequest>;

    /// Copies the data of a write.
    ///
    /// # Errors
    /// When there is none, or less.
    fn read_data(&self, queue: u16, tag: u16, into: &mut [u8]) -> io::Result<()>;

    /// Takes the data of a read.
    ///
    /// # Errors
    /// When none was asked for, or less.
    fn write_data(&self, queue: u16, tag: u16, from: &[u8]) -> io::Result<()>;
}

/// `/dev/ublkcN`.
#[derive(Debug)]
pub(super) struct DeviceFile(Box<dyn Driver>);

impl DeviceFile {
    pub(super) fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let (queue, tag) = data_at(offset);
        self.0.read_data(queue, tag, into)
    }

    pub(super) fn write_all_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
        let (queue, tag) = data_at(offset);
        self.0.write_data(queue, tag, from)
    }
}

/// The ring by which one thread gets the requests of its queue, and answers them. What is pushed reaches the driver when it is
/// submitted.
pub(super) struct RequestRing {
    device: Arc<DeviceFile>,
    queue: u16,
    /// Tags, with the answers to their requests.
    unsent: Vec<(u16, Option<i32>)>,
}

impl RequestRing {
    pub(super) fn new(device: Arc<DeviceFile>, queue: u16, depth: u16) -> io::Result<Self> {
        engine::simulation::spare()?;
        Ok(Self { device, queue, unsent: Vec::with_capacity(depth.into()) })
    }

    pub(super) fn watch(&self, ring: &mut Ring, _token: u32) -> io::Result<()> {
        self.device.0.watch(self.queue, Some(ring.waker()));
        Ok(())
    }

    pub(super) fn unwatch(&self, _ring: &mut Ring, _token: u32) {
        self.device.0.watch(self.queue, None);
    }

    pub(super) fn fetch(&mut self, tag: u16, _address: u64) -> io::Result<()> {
        self.unsent.push((tag, None));
        Ok(())
    }

    pub(super) fn commit(&mut self, tag: u16, result: i32, _address: u64) -> io::Result<()> {
        self.unsent.push((tag, Some(result)));
        Ok(())
    }

    pub(super) fn submit(&mut self) -> io::Result<()> {
        for (tag, result) in self.unsent.drain(..) {
            match result {
                None => self.device.0.fetch(self.queue, tag),
                Some(result) => self.device.0.commit(self.queue, tag, result),
            }
        }
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<(u16, i32)> {
        self.device.0.next(self.queue).map(|tag| (tag, 0))
    }
}

/// Descriptors of a queue's requests.
pub(super) struct Descriptors {
    device: Arc<DeviceFile>,
    queue: u16,
}

impl Descriptors {
    pub(super) fn map(device: &Arc<DeviceFile>, queue: u16, _depth: u16) -> io::Result<Self> {
        engine::simulation::spare()?;
        Ok(Self { device: device.clone(), queue })
    }

    pub(super) fn get(&self, tag: u16) -> Option<IoDescriptor> {
        self.device.0.request(self.queue, tag).map(DriverRequest::descriptor)
    }
}

/// A block device that is served.
pub struct Device {
    threads: Vec<QueueThread>,
    queue_control: Arc<QueueControl>,
}

impl Device {
    /// Serves a device over its driver, which the block layer knows with this geometry. No other process has it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(
        (disk, geometry): (&Disk, Geometry),
        driver: Box<dyn Driver>,
        (count, depth): (u16, u16),
        ring: RingOptions,
    ) -> io::Result<Self> {
        // Fibers of one thread share it.
        #[allow(clippy::arc_with_non_send_sync)]
        let device = Arc::new(DeviceFile(driver));
        let queue_control: Arc<QueueControl> = Arc::default();
        let plan = |number| Plan {
            device: device.clone(),
            paths: disk.paths.clone(),
            geometry,
            number,
            count,
            depth,
            has_buffers: false,
            queue_control: queue_control.clone(),
        };
        let threads = (0..count).map(|number| QueueThread::start(plan(number), ring));
        let threads = threads.collect::<io::Result<Vec<_>>>()?;
        threads.iter().for_each(QueueThread::begin);
        threads.iter().try_for_each(QueueThread::begun)?;
        Ok(Self { threads, queue_control })
    }

    /// Handle for leaving the device to another process.
    pub fn holder(&self) -> DeviceHolder {
        let wakers = self.threads.iter().map(|thread| thread.waker().clone()).collect();
        DeviceHolder::new(self.queue_control.clone(), wakers)
    }

    /// True if a thread has ended without a request to stop.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(QueueThread::has_ended)
    }

    /// Leaves the device to another process.
    pub fn abandon(mut self) -> DeviceTally {
        self.queue_control.leaves.store(true, Ordering::Release);
        self.threads.iter().for_each(QueueThread::wake);
        let tallies = self.threads.drain(..).map(QueueThread::join);
        tallies.fold(DeviceTally::default(), |sum, one| DeviceTally {
            requests: sum.requests + one.requests,
            errors: sum.errors + one.errors,
        })
    }
}
