//! A vhost-user server: its threads, and how they begin and end.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::ring::Waker;
use engine::ring::channel::channel;
use engine::ring::thread::{Builder, JoinHandle};
use nbd::Export;

use super::device::Device;
use super::front_end_command::FrontEndThreadHandle;
use super::front_end_thread::FrontEndThread;
use super::holder::VhostHolder;
use super::machine::{Connection, FrontEndListener, Wake, close, prepare};
use super::mapping_share::MappingShare;
use super::vring_command::VringWorkerHandle;
use super::worker::{Plan, Worker};
use crate::disk::Disk;
use crate::limits::FRONT_ENDS_MAX;
use crate::server::{ServerOptions, Tally, start_thread};

/// A server of vhost-user front ends that runs. Dropping it ends it as `stop` does.
pub struct VhostUserServer {
    stopping: Arc<AtomicBool>,
    end: Arc<Wake>,
    connections: Vec<Arc<Mutex<Option<Arc<Connection>>>>>,
    workers: Vec<(Waker, JoinHandle<Tally>)>,
    front_ends: Vec<JoinHandle<u64>>,
    front_end_handles: Vec<FrontEndThreadHandle>,
    /// Another process hears the front ends.
    is_left: Arc<AtomicBool>,
    exports: Vec<Export>,
}

impl VhostUserServer {
    /// Serves each disk to the front ends that connect to its socket, one after the other.
    ///
    /// # Errors
    /// When a namespace cannot be a disk, there are more than `limits::FRONT_ENDS_MAX`, or the system gives no ring or thread.
    pub fn start(disks: Vec<(Disk, FrontEndListener)>, options: ServerOptions) -> io::Result<Self> {
        if disks.len() > FRONT_ENDS_MAX {
            return Err(io::Error::other(format!("there are more than {FRONT_ENDS_MAX} namespaces")));
        }
        let device = |(disk, _): &(Disk, FrontEndListener)| Device::of(disk).map_err(io::Error::other);
        let devices = disks.iter().map(device).collect::<io::Result<Vec<_>>>()?;
        let count = options.threads_for(disks.iter().map(|(disk, _)| disk));
        let mut server = Self {
            stopping: Arc::default(),
            end: Arc::new(Wake::new()?),
            connections: Vec::new(),
            workers: Vec::new(),
            front_ends: Vec::new(),
            front_end_handles: Vec::new(),
            is_left: Arc::default(),
            exports: devices.iter().map(|device| device.export.clone()).collect(),
        };
        let known: Vec<_> = disks.iter().map(|(disk, _)| disk.paths.clone()).zip(devices).collect();
        let mut workers = Vec::new();
        for number in 0..count {
            let (sender, commands) = channel();
            let plan =
                Plan { disks: known.clone(), number, count, stopping: server.stopping.clone(), commands };
            let open = |ring| {
                let worker = Worker::open(ring, plan);
                Ok(|| worker.run())
            };
            let (waker, thread) = start_thread(format!("vrings-{number}"), options.ring, open)?;
            workers.push(VringWorkerHandle { commands: sender, waker: waker.clone() });
            server.workers.push((waker, thread));
        }
        let workers: Arc<[VringWorkerHandle]> = workers.into();
        for (front_end, (disk, listener)) in disks.into_iter().enumerate() {
            prepare(&listener)?;
            let connection = Arc::<Mutex<_>>::default();
            server.connections.push(connection.clone());
            let (stopping, end) = (server.stopping.clone(), server.end.clone());
            let (handle, commands, wake) = FrontEndThreadHandle::new()?;
            server.front_end_handles.push(handle);
            let (workers, is_held) = (workers.clone(), options.is_held);
            let front_end_thread = FrontEndThread {
                front_end,
                disk,
                listener,
                workers,
                stopping,
                end,
                connection,
                commands,
                wake,
                is_held,
                share: MappingShare::new(),
                faults: Arc::default(),
            };
            let thread = Builder::new().name(format!("vhost-{front_end}"));
            server.front_ends.push(thread.spawn(move || front_end_thread.run())?);
        }
        Ok(server)
    }

    /// Handle for handing its front ends over to another process.
    pub fn holder(&self) -> VhostHolder {
        VhostHolder::new(&self.front_end_handles, self.is_left.clone())
    }

    /// The disks as they were at the beginning.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Threads that serve virtqueues.
    pub const fn threads(&self) -> usize {
        self.workers.len()
    }

    /// True if a thread has ended without a command.
    pub fn has_failed(&self) -> bool {
        self.workers.iter().any(|(_, thread)| thread.is_finished())
            || self.front_ends.iter().any(JoinHandle::is_finished)
    }

    /// Takes no more front ends and no more requests, answers those that have come, within `limits::END_TIMEOUT_MS`, and ends.
    pub fn stop(mut self) -> Tally {
        self.finish()
    }

    fn finish(&mut self) -> Tally {
        self.stopping.store(true, Ordering::Release);
        self.end.signal();
        self.workers.iter().for_each(|(waker, _)| waker.wake());
        // Guests get their completions before their front ends see the end.
        let mut sum: Tally = self.workers.drain(..).filter_map(|(_, thread)| thread.join().ok()).sum();
        let is_left = self.is_left.load(Ordering::Acquire);
        for connection in self.connections.iter().filter(|_| !is_left) {
            if let Some(stream) = &*connection.lock().unwrap_or_else(PoisonError::into_inner) {
                close(stream);
            }
        }
        sum.clients = self.front_ends.drain(..).filter_map(|front_end| front_end.join().ok()).sum();
        sum
    }
}

impl Drop for VhostUserServer {
    fn drop(&mut self) {
        self.finish();
    }
}
