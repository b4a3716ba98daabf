//! A virtqueue of a front end without a socket, a thread or a disk, for fuzzers: memory is shared, rings begin, and requests are
//! taken, checked and given back as those of guests are, with made-up data.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use nbd::Export;
use nvme::io::DatasetRange;
use rustix::event::{EventfdFlags, eventfd};
use vhost::vhost_user::message::VhostUserMemoryRegion;
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;

use super::call::Call;
use super::chain::Chain;
use super::device::Device;
use super::guest_memory::GuestMemory;
use super::handed_front_end::HandedRegion;
use super::mapping_share::MappingShare;
use super::session::{Tables, VringSettings, rings};
use super::vring::{Next, Plan, Vring};
use super::work::{self, Failed, IO_ERROR, Kind, Work};
use crate::limits::{PIECE_BYTES, VRING_ENTRIES_MAX};

/// Bytes of the made-up disk, and of its blocks.
const DISK_BYTES: u64 = 1 << 20;
const BLOCK_BYTES: u32 = 512;
/// Requests that are taken at a time: rings that repeat themselves have no end.
const TAKEN_MAX: usize = 4096;

/// A guest with one virtqueue.
pub struct GuestModel {
    memory: GuestMemory,
    device: Device,
    vring: Option<Vring>,
    chain: Chain,
}

impl Default for GuestModel {
    fn default() -> Self {
        Self::new()
    }
}

impl GuestModel {
    /// A guest that shares nothing yet.
    pub fn new() -> Self {
        let export = Export {
            size: DISK_BYTES,
            block_bytes: BLOCK_BYTES,
            can_trim: true,
            can_write_zeroes: true,
            ..Export::default()
        };
        Self {
            memory: GuestMemory::new(MappingShare::new()),
            device: Device::model(export),
            vring: None,
            chain: Chain::default(),
        }
    }

    /// Shares these regions instead of all others (SET_MEM_TABLE).
    ///
    /// # Errors
    /// When they are refused.
    pub fn share(&mut self, regions: Vec<(HandedRegion, File)>) -> io::Result<()> {
        let (regions, files): (Vec<_>, Vec<_>) =
            regions.into_iter().map(|(region, file)| (message_of(&region), file)).unzip();
        self.memory.replace(&regions, files)?;
        self.tell_memory();
        Ok(())
    }

    /// Shares one more region (ADD_MEM_REG).
    ///
    /// # Errors
    /// When it is refused.
    pub fn add(&mut self, region: &HandedRegion, file: File) -> io::Result<()> {
        self.memory.add(&message_of(region), file)?;
        self.tell_memory();
        Ok(())
    }

    /// Takes a region back (REM_MEM_REG).
    ///
    /// # Errors
    /// When there is none like that.
    pub fn remove(&mut self, region: &HandedRegion) -> io::Result<()> {
        self.memory.remove(&message_of(region))?;
        self.tell_memory();
        Ok(())
    }

    fn tell_memory(&mut self) {
        if let (Some(vring), Some(memory)) = (&mut self.vring, &self.memory.memory) {
            vring.memory = memory.clone();
        }
    }

    /// Begins the virtqueue: descriptors, available ring and used ring are at these addresses of the front end.
    ///
    /// # Errors
    /// When it is refused.
    pub fn start(
        &mut self,
        entries: u16,
        [descriptors, available, used]: [u64; 3],
        next_avail: u16,
        has_events: bool,
    ) -> io::Result<()> {
        // Checked where the message is heard.
        if entries == 0 || entries > VRING_ENTRIES_MAX || !entries.is_power_of_two() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let settings = VringSettings { entries, next_avail, ..VringSettings::default() };
        let tables = Tables { descriptors, available, used };
        let features = u64::from(has_events) << VIRTIO_RING_F_EVENT_IDX;
        let (queue, _) = rings(&settings, tables, features, &self.memory)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let memory = self.memory.memory.clone().ok_or(io::ErrorKind::NotFound)?;
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Arc::new);
        let (connection, _) = UnixStream::pair()?;
        self.vring = Some(Vring::new(Plan {
            queue,
            memory,
            inflight: None,
            again: VecDeque::new(),
            kick: event()?,
            call: Some(Call::plain(event()?)),
            front_end: 0,
            is_write_through: false,
            connection: Arc::new(connection),
            faults: Arc::default(),
        }));
        Ok(())
    }

    /// Takes all requests, carries them out on nothing, and gives them back. The number of requests.
    ///
    /// # Panics
    /// When a request passes the checks that is not within the disk.
    pub fn serve(&mut self) -> usize {
        let Self { device, vring: Some(vring), chain, .. } = self else { return 0 };
        if vring.may_take() {
            vring.begin_taking();
        }
        let mut taken = 0;
        while taken < TAKEN_MAX && vring.may_take() {
            let Next::Request(head, outcome) = vring.next(chain) else { break };
            taken += 1;
            let length = if outcome.is_ok() { carry_out(chain, vring, device) } else { 0 };
            vring.used(head, length);
        }
        vring.signal();
        taken
    }
}

/// Does what a request asks for, and returns the bytes that were filled.
fn carry_out(chain: &Chain, vring: &Vring, device: &Device) -> u32 {
    if chain.writable.bytes() == 0 {
        return 0;
    }
    let done = Work::of(chain, &vring.memory, device, DISK_BYTES);
    let done = done.and_then(|work| transfer(chain, vring, device, work));
    let status = done.err().map_or(0, |Failed(status)| status);
    match chain.writable.write(&vring.memory, chain.writable.bytes() - 1, &[status]) {
        Ok(()) => u32::try_from(chain.writable.bytes()).unwrap_or(u32::MAX),
        Err(_) => 0,
    }
}

/// Moves the data of a request, in pieces.
fn transfer(chain: &Chain, vring: &Vring, device: &Device, work: Work) -> Result<(), Failed> {
    let Work { kind, offset, length } = work;
    let has_blocks = matches!(kind, Kind::Read | Kind::Write | Kind::Zeroes { .. });
    if has_blocks {
        let end = offset.checked_add(length);
        assert!(end.is_some_and(|end| end <= DISK_BYTES), "{work:?} is past the end of the disk");
        assert!((offset | length).is_multiple_of(u64::from(BLOCK_BYTES)), "{work:?} has parts of blocks");
    }
    let memory = &vring.memory;
    let mut piece = vec![0xd1; PIECE_BYTES as usize];
    let mut at = 0;
    while matches!(kind, Kind::Read | Kind::Write) && at < length {
        let bytes = &mut piece[..PIECE_BYTES.min(length - at) as usize];
        let moved = match kind {
            Kind::Read => chain.writable.write(memory, at, bytes),
            _ => chain.readable.read(memory, work::HEADER_BYTES + at, bytes),
        };
        moved.map_err(|_| IO_ERROR)?;
        at += bytes.len() as u64;
    }
    match kind {
        Kind::Serial => chain.writable.write(memory, 0, &device.serial).map_err(|_| IO_ERROR),
        Kind::Discard { ranges } => {
            let bytes = usize::from(ranges) * size_of::<DatasetRange>();
            Work::ranges(chain, memory, device, DISK_BYTES, &mut piece[..bytes])
        }
        _ => Ok(()),
    }
}

fn message_of(region: &HandedRegion) -> VhostUserMemoryRegion {
    let HandedRegion { guest, front_end, size, offset } = *region;
    VhostUserMemoryRegion::new(guest, size, front_end, offset)
}
