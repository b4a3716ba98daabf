//! Messages of one front end, from its connection to its end, and the commands that they cause to the
//! threads that serve its virtqueues.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use engine::initiator::Paths;
use engine::ring::channel::{Sender, channel};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Backend, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_bindings::virtio_blk::VIRTIO_BLK_F_FLUSH;
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use virtio_queue::{Queue, QueueT as _};
use vm_memory::GuestMemoryMmap;

use super::device::{Device, PROTOCOL_FEATURES};
use super::guest_memory::GuestMemory;
use super::inflight::InflightRegion;
use super::machine::{BackendChannel, Call, Connection, Event, event_of};
use super::mapping_share::MappingShare;
use super::vring;
use super::vring_command::{VringCommand, VringWorkerHandle};
use crate::client_faults::ClientFaults;
use crate::limits::{VRING_ENTRIES_MAX, VRINGS_MAX};

/// Error for a message that uses a feature without an offer.
const NOT_OFFERED: Error = Error::InvalidOperation("it was not offered");

/// A virtqueue, as the front end has described it.
#[derive(Clone, Debug, Default)]
pub(super) struct VringSettings {
    pub(super) entries: u16,
    /// Tables of the rings, by the addresses of the front end.
    pub(super) tables: Option<Tables>,
    pub(super) next_avail: u16,
    pub(super) kick: Option<Arc<Event>>,
    pub(super) call: Option<Arc<Event>>,
    pub(super) is_enabled: bool,
    pub(super) is_running: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
}

/// A front end that is connected.
pub(super) struct Session {
    /// Place among all front ends.
    front_end: usize,
    paths: Arc<Paths>,
    device: Device,
    /// The size that it knows the disk by, once it has asked.
    pub(super) known_bytes: Option<u64>,
    /// The channel that a message brings which is about to be heard.
    pub(super) coming: Option<BackendChannel>,
    pub(super) channel: Option<BackendChannel>,
    /// The threads. Virtqueues are given to them in turn.
    workers: Arc<[VringWorkerHandle]>,
    pub(super) connection: Arc<Connection>,
    faults: Arc<ClientFaults>,
    pub(super) memory: GuestMemory,
    /// Requests under way, in memory that the front end keeps.
    pub(super) inflight: Option<InflightRegion>,
    pub(super) features: u64,
    /// Of the protocol.
    pub(super) protocol_features: u64,
    pub(super) vrings: Vec<VringSettings>,
}

impl Session {
    pub(super) fn new(
        front_end: usize,
        (paths, device): (Arc<Paths>, Device),
        workers: Arc<[VringWorkerHandle]>,
        (connection, share, faults): (Arc<Connection>, Arc<MappingShare>, Arc<ClientFaults>),
    ) -> Self {
        Self {
            front_end,
            paths,
            device,
            known_bytes: None,
            coming: None,
            channel: None,
            workers,
            connection,
            faults,
            memory: GuestMemory::new(share),
            inflight: None,
            features: 0,
            protocol_features: 0,
            vrings: vec![VringSettings::default(); VRINGS_MAX],
        }
    }

    /// True if the front end has given a channel for notices.
    pub(super) const fn has_channel(&self) -> bool {
        self.channel.is_some()
    }

    /// Tells the front end that the disk has not the size that it knows, until it asks for the one that it has: one whose
    /// guest does not use the device yet does not ask.
    pub(super) fn tell_size(&mut self) {
        let is_known = self.known_bytes.is_none_or(|bytes| bytes == self.paths.size_bytes());
        let Some(channel) = self.channel.as_ref().filter(|_| !is_known) else { return };
        if let Err(error) = channel.say_config_changed() {
            tracing::debug!(%error, "cannot send a new size to a vhost-user front end; it learns it when it asks");
            self.channel = None;
        }
    }

    fn worker(&self, index: usize) -> &VringWorkerHandle {
        &self.workers[(self.front_end + index) % self.workers.len()]
    }

    const fn vring_index(&self, index: usize) -> usize {
        self.front_end * VRINGS_MAX + index
    }

    fn vring(&mut self, index: u32) -> Result<&mut VringSettings> {
        self.vrings.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    /// Begins a virtqueue of which all is known that it needs, and that is enabled.
    pub(super) fn start(&mut self, index: usize) -> Result<()> {
        let vring = &self.vrings[index];
        let (Some(tables), Some(kick), Some(memory)) = (vring.tables, &vring.kick, &self.memory.memory)
        else {
            return Ok(());
        };
        if vring.is_running || !vring.is_enabled || vring.entries == 0 {
            return Ok(());
        }
        let (mut queue, used) = rings(vring, tables, self.features, &self.memory)?;
        let inflight = self.inflight.as_ref().map(|region| region.vring(index, vring.entries)).transpose();
        let inflight = inflight.map_err(Error::ReqHandlerError)?;
        let (inflight, again) = match inflight {
            Some(mut inflight) => {
                let again = inflight.recover(used);
                if let Some(again) = &again {
                    queue.set_next_avail(used.wrapping_add(again.len() as u16));
                }
                (Some(inflight), again.unwrap_or_default())
            }
            None => (None, VecDeque::new()),
        };
        let plan = vring::Plan {
            queue,
            memory: memory.clone(),
            inflight,
            again,
            kick: kick.clone(),
            call: vring.call.clone().map(Call::new),
            front_end: self.front_end,
            // A driver that was offered flushes and has none relies on it (virtio 1.2, 5.2.6.2).
            is_write_through: self.features & 1 << VIRTIO_BLK_F_FLUSH == 0,
            connection: self.connection.clone(),
            faults: self.faults.clone(),
        };
        self.worker(index).send(VringCommand::Start(self.vring_index(index), Box::new(plan)));
        self.vrings[index].is_running = true;
        Ok(())
    }

    /// Orders a virtqueue to stop. `asker` gets its position when nothing of it is under way.
    pub(super) fn order_stop(&self, index: usize, asker: Sender<vring::Stopped>) {
        self.worker(index).send(VringCommand::Stop(self.vring_index(index), false, asker));
    }

    /// Stops a virtqueue, and waits until nothing of it is under way.
    fn stop(&mut self, index: usize, is_abandoned: bool) {
        if !std::mem::take(&mut self.vrings[index].is_running) {
            return;
        }
        let (asker, answer) = channel();
        self.worker(index).send(VringCommand::Stop(self.vring_index(index), is_abandoned, asker));
        // A thread that has ended has nothing under way either.
        if let Ok(stopped) = answer.recv() {
            self.vrings[index].next_avail = stopped.next_avail;
        }
    }

    /// The front end is gone: stops all its virtqueues. What its guest has asked for ends before another front end comes, as
    /// it could otherwise take effect after what that asks for.
    pub(super) fn end(&mut self, is_abandoned: bool) {
        let running: Vec<_> = (0..self.vrings.len()).filter(|index| self.vrings[*index].is_running).collect();
        let (asker, answers) = channel();
        for index in running {
            self.vrings[index].is_running = false;
            self.worker(index).send(VringCommand::Stop(self.vring_index(index), is_abandoned, asker.clone()));
        }
        drop(asker);
        while answers.recv().is_ok() {}
    }

    /// Has the guest announce requests by this from now on.
    pub(super) fn set_kick(&mut self, index: u32, kick: Event) -> Result<()> {
        self.vring(index)?;
        self.stop(index as usize, false);
        self.vring(index)?.kick = Some(Arc::new(kick));
        self.start(index as usize)
    }

    /// Notifies the guest by this from now on.
    pub(super) fn set_call(&mut self, index: u32, call: Option<Event>) -> Result<()> {
        let call = call.map(Arc::new);
        self.vring(index)?.call = call.clone();
        if self.vring(index)?.is_running {
            let (mut call, vring_index) = (call.map(Call::new), self.vring_index(index as usize));
            VringWorkerHandle::execute([self.worker(index as usize)], |done| {
                VringCommand::Call(vring_index, call.take(), done)
            });
        }
        Ok(())
    }

    fn tell_memory(&self) {
        let Some(memory) = &self.memory.memory else { return };
        VringWorkerHandle::execute(self.workers.iter(), |done| {
            VringCommand::Memory(self.front_end, memory.clone(), done)
        });
    }
}

/// Rings of a virtqueue in the memory that is shared, and the position of its used ring, which only that memory has.
pub(super) fn rings(
    vring: &VringSettings,
    tables: Tables,
    features: u64,
    shared: &GuestMemory,
) -> Result<(Queue, u16)> {
    let outside = || io::Error::other("a virtqueue is not in the memory that is shared");
    let invalid = |error: virtio_queue::Error| Error::ReqHandlerError(io::Error::other(error.to_string()));
    let address = |address| shared.guest_address(address).map_err(Error::ReqHandlerError);
    let memory = shared.memory.as_ref().ok_or_else(|| Error::ReqHandlerError(outside()))?;
    let regions: &GuestMemoryMmap = memory;
    let mut queue = Queue::new(VRING_ENTRIES_MAX).map_err(invalid)?;
    queue.try_set_size(vring.entries).map_err(invalid)?;
    queue.try_set_desc_table_address(address(tables.descriptors)?).map_err(invalid)?;
    queue.try_set_avail_ring_address(address(tables.available)?).map_err(invalid)?;
    queue.try_set_used_ring_address(address(tables.used)?).map_err(invalid)?;
    queue.set_event_idx(features & 1 << VIRTIO_RING_F_EVENT_IDX != 0);
    queue.set_ready(true);
    if !queue.is_valid(regions) {
        return Err(Error::ReqHandlerError(outside()));
    }
    queue.set_next_avail(vring.next_avail);
    let used = queue.used_idx(regions, std::sync::atomic::Ordering::Acquire).map_err(invalid)?;
    queue.set_next_used(used.0);
    Ok((queue, used.0))
}

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.end(false);
        self.features = 0;
        self.vrings.iter_mut().for_each(|vring| *vring = VringSettings::default());
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.device.features())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.device.accepted_features() != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        // A front end that does not know how to enable virtqueues has them enabled.
        if features & PROTOCOL_FEATURES == 0 {
            for index in 0..self.vrings.len() {
                self.vrings[index].is_enabled = true;
                self.start(index)?;
            }
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        self.memory.replace(regions, files).map_err(Error::ReqHandlerError)?;
        self.tell_memory();
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, entries: u32) -> Result<()> {
        if entries == 0 || entries > u32::from(VRING_ENTRIES_MAX) || !entries.is_power_of_two() {
            return Err(Error::InvalidParam);
        }
        self.vring(index)?.entries = entries as u16;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.vring(index)?.tables = Some(Tables { descriptors, available, used });
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.vring(index)?.next_avail = base as u16;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.vring(index)?;
        self.stop(index as usize, false);
        let vring = self.vring(index)?;
        (vring.kick, vring.call) = (None, None);
        Ok(VhostUserVringState::new(index, vring.next_avail.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.vring(index.into())?;
        let file =
            file.ok_or(Error::InvalidOperation("a virtqueue without kicks would have to be polled"))?;
        self.set_kick(index.into(), event_of(file).map_err(Error::ReqHandlerError)?)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = file.map(event_of).transpose().map_err(Error::ReqHandlerError)?;
        self.set_call(index.into(), call)
    }

    fn set_vring_err(&mut self, index: u8, _file: Option<File>) -> Result<()> {
        // Errors end the connection, which tells more.
        self.vring(index.into()).map(|_| ())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        self.protocol_features = features;
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(VRINGS_MAX as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.vring(index)?.is_enabled = enable;
        match enable {
            true => self.start(index as usize),
            false => {
                self.stop(index as usize, false);
                Ok(())
            }
        }
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        self.device.export.size = self.paths.size_bytes();
        if Device::has_capacity(offset, size) {
            self.known_bytes = Some(self.device.export.size);
        }
        Ok(self.device.config(offset, size))
    }

    fn set_config(&mut self, _offset: u32, _bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        // The one field that a driver may write is the cache's, which it is not offered.
        Err(NOT_OFFERED)
    }

    fn set_backend_req_fd(&mut self, _channel: Backend) {
        self.channel = self.coming.take();
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _object: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&mut self, asked: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let bytes = InflightRegion::bytes_of_all(asked.num_queues).ok_or(Error::InvalidParam)?;
        let file = InflightRegion::file(bytes).map_err(Error::ReqHandlerError)?;
        Ok((VhostUserInflight::new(bytes, 0, asked.num_queues, asked.queue_size), file))
    }

    fn set_inflight_fd(&mut self, description: &VhostUserInflight, file: File) -> Result<()> {
        let region =
            InflightRegion::map(description, file, &self.memory.share).map_err(Error::ReqHandlerError)?;
        self.inflight = Some(region);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(self.memory.share.regions_max() as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<u64>> {
        self.memory.add(region, file).map_err(Error::ReqHandlerError)?;
        self.tell_memory();
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.memory.remove(region).map_err(Error::ReqHandlerError)?;
        self.tell_memory();
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}
