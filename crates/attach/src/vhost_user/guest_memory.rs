//! The memory that a front end shares: where the guest sees it, and where the front end does. Its owner may cut it short at any
//! time, which fails what uses it then.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{
    Address as _, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _,
    GuestRegionMmap,
};

use super::handed_front_end::HandedRegion;
use super::machine::{open_file, share_file};
use super::mapping_share::MappingShare;
use super::shared_mapping::{SharedMapping, not_whole, page_bytes};
use crate::machine::Descriptor;

/// Address range of a region in the front end.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    front_end: u64,
    guest: u64,
    size: u64,
}

/// Memory as the guest sees it.
#[derive(Debug)]
pub(super) struct Memory {
    regions: GuestMemoryMmap<()>,
    // Dropped after the regions, which are of no use without them.
    shared: Vec<Arc<SharedMapping>>,
}

/// All that a front end has shared.
#[derive(Debug)]
pub(super) struct GuestMemory {
    pub(super) memory: Option<Arc<Memory>>,
    mappings: Vec<Mapping>,
    /// Share of its socket in the mappings of the process.
    pub(super) share: Arc<MappingShare>,
}

impl Memory {
    /// True if no file was truncated under it. All earlier reads have seen the guest's data.
    pub(super) fn is_whole(&self) -> bool {
        !self.shared.iter().any(|shared| shared.is_lost())
    }
}

impl Deref for Memory {
    type Target = GuestMemoryMmap<()>;

    fn deref(&self) -> &Self::Target {
        &self.regions
    }
}

impl GuestMemory {
    /// No memory yet.
    pub(super) const fn new(share: Arc<MappingShare>) -> Self {
        Self { memory: None, mappings: Vec::new(), share }
    }

    /// These regions instead of all others.
    pub(super) fn replace(&mut self, regions: &[VhostUserMemoryRegion], files: Vec<File>) -> io::Result<()> {
        let map = |(region, file)| map(region, file, &self.share);
        let mapped = regions.iter().zip(files).map(map).collect::<io::Result<Vec<_>>>()?;
        let (mut mapped, shared): (Vec<_>, _) = mapped.into_iter().unzip();
        mapped.sort_by_key(|region| region.start_addr());
        let regions_mapped = GuestMemoryMmap::from_arc_regions(mapped).map_err(io::Error::other)?;
        self.mappings = regions.iter().map(Mapping::of).collect();
        self.memory = Some(Arc::new(Memory { regions: regions_mapped, shared }));
        Ok(())
    }

    /// Adds a region.
    pub(super) fn add(&mut self, region: &VhostUserMemoryRegion, file: File) -> io::Result<()> {
        if self.mappings.len() >= self.share.regions_max() {
            return Err(io::Error::other("too many regions of memory"));
        }
        let (mapped, mapping) = map(region, file, &self.share)?;
        let (regions, mut shared) = match &self.memory {
            Some(memory) => (memory.insert_region(mapped), memory.shared.clone()),
            None => (GuestMemoryMmap::from_arc_regions(vec![mapped]), Vec::new()),
        };
        shared.push(mapping);
        self.memory = Some(Arc::new(Memory { regions: regions.map_err(io::Error::other)?, shared }));
        self.mappings.push(Mapping::of(region));
        Ok(())
    }

    /// Removes a region.
    pub(super) fn remove(&mut self, region: &VhostUserMemoryRegion) -> io::Result<()> {
        let memory = self.memory.as_ref().ok_or_else(|| io::Error::other("there is no memory"))?;
        let (regions, _) = memory
            .remove_region(GuestAddress(region.guest_phys_addr), region.memory_size)
            .map_err(io::Error::other)?;
        let is_left =
            |shared: &&Arc<SharedMapping>| regions.iter().any(|region| shared.is_of(region.as_ptr()));
        let shared = memory.shared.iter().filter(is_left).cloned().collect();
        self.mappings.retain(|mapping| mapping.guest != region.guest_phys_addr);
        self.memory = (regions.num_regions() > 0).then(|| Arc::new(Memory { regions, shared }));
        Ok(())
    }

    /// State for another process, with the files.
    pub(super) fn handed(&self) -> io::Result<(Vec<HandedRegion>, Vec<Descriptor>)> {
        let Some(memory) = &self.memory else { return Ok(Default::default()) };
        let (mut regions, mut files) = (Vec::new(), Vec::new());
        for mapping in &self.mappings {
            let region = memory.find_region(GuestAddress(mapping.guest));
            let file = region.and_then(|region| region.file_offset());
            let file = file.ok_or_else(|| io::Error::other("a region of memory has no file"))?;
            let Mapping { front_end, guest, size } = *mapping;
            regions.push(HandedRegion { guest, front_end, size, offset: file.start() });
            files.push(share_file(file.file())?);
        }
        Ok((regions, files))
    }

    /// The same memory in another process.
    pub(super) fn go_on(&mut self, handed: &[HandedRegion], files: Vec<Descriptor>) -> io::Result<()> {
        let region = |handed: &HandedRegion| {
            let HandedRegion { guest, front_end, size, offset } = *handed;
            VhostUserMemoryRegion::new(guest, size, front_end, offset)
        };
        if handed.len() > self.share.regions_max() || handed.len() != files.len() {
            return Err(io::Error::other("too many regions of memory, or too few files"));
        }
        if !handed.is_empty() {
            let regions: Vec<_> = handed.iter().map(region).collect();
            self.replace(&regions, files.into_iter().map(open_file).collect::<io::Result<_>>()?)?;
        }
        Ok(())
    }

    /// Guest address of the front end's `address`.
    pub(super) fn guest_address(&self, address: u64) -> io::Result<GuestAddress> {
        let within = |mapping: &&Mapping| {
            address.checked_sub(mapping.front_end).is_some_and(|offset| offset < mapping.size)
        };
        let mapping = self.mappings.iter().find(within);
        let mapping =
            mapping.ok_or_else(|| io::Error::other("a virtqueue is not in the memory that is shared"))?;
        GuestAddress(mapping.guest)
            .checked_add(address - mapping.front_end)
            .ok_or_else(|| io::Error::other("a virtqueue is past the end of all memory"))
    }
}

impl Mapping {
    const fn of(region: &VhostUserMemoryRegion) -> Self {
        Self { front_end: region.user_addr, guest: region.guest_phys_addr, size: region.memory_size }
    }
}

type Mapped = (Arc<GuestRegionMmap<()>>, Arc<SharedMapping>);

fn map(region: &VhostUserMemoryRegion, file: File, share: &Arc<MappingShare>) -> io::Result<Mapped> {
    let page_bytes = page_bytes(&file)?;
    // The front end has mapped whole pages as well. Where they are in the guest is its own affair.
    for (field, value) in [("size", region.memory_size), ("address", region.user_addr)] {
        if !value.is_multiple_of(page_bytes) {
            return Err(not_whole(field, value, page_bytes));
        }
    }
    let (mapped, shared) = SharedMapping::new(file, region.mmap_offset, region.memory_size, share)?;
    match GuestRegionMmap::new(mapped, GuestAddress(region.guest_phys_addr)) {
        Some(mapped) => Ok((Arc::new(mapped), Arc::new(shared))),
        None => Err(io::Error::other("a region of memory is past the end of all memory")),
    }
}
