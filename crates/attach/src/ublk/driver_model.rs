//! The driver's end of a queue without a driver, for fuzzers: a file in memory takes the place of `/dev/ublkcN`, completions are
//! handed in, and requests are read, checked and answered as those of the driver are, with made-up data.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use nvme::SubmissionEntry;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::param::page_size;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::descriptors::Descriptors;
use super::driver::{DeviceInfo, IoDescriptor, Parameters, data_offset, descriptors_bytes};
use super::found_device::FoundDevice;
use super::geometry::Geometry;
use super::request::{Request, Work, result_number};
use super::request_data::RequestData;
use super::tags::{Completion, Tags};

/// Number of the queue.
const QUEUE: u16 = 0;

/// A queue of a device, and the memory that its driver would have.
pub struct DriverModel {
    device: Arc<File>,
    descriptors: Descriptors,
    data: RequestData,
    tags: Tags,
    geometry: Geometry,
}

impl DriverModel {
    /// A queue of this depth, with a command for each tag. Data is in buffers or in the file.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new(geometry: Geometry, depth: u16, has_buffers: bool) -> io::Result<Self> {
        let device = File::from(memfd_create("ublk", MemfdFlags::CLOEXEC)?);
        let descriptors_bytes = descriptors_bytes(depth.into(), page_size()) as u64;
        device.set_len(if has_buffers { descriptors_bytes } else { data_offset(QUEUE, depth) })?;
        let descriptors = Descriptors::map(&device, QUEUE, depth)?;
        let device = Arc::new(device);
        let data = match has_buffers {
            true => RequestData::by_buffers(depth),
            false => RequestData::by_calls(device.clone(), QUEUE),
        };
        let mut tags = Tags::new(depth);
        (0..depth).for_each(|tag| tags.ask(tag));
        Ok(Self { device, descriptors, data, tags, geometry })
    }

    /// Describes the request of a tag, as the driver does.
    ///
    /// # Errors
    /// When the file refuses.
    pub fn describe(&self, tag: u16, operation: u32, sectors: u32, start_sector: u64) -> io::Result<()> {
        let descriptor = IoDescriptor { operation, sectors, start_sector, address: u64::MAX };
        self.device.write_all_at(descriptor.as_bytes(), u64::from(tag) * size_of::<IoDescriptor>() as u64)
    }

    /// Gives a tag's data, as the driver does before a write.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn give(&mut self, tag: u16, data: &[u8]) -> io::Result<()> {
        self.data.write(tag, data)
    }

    /// Takes a tag's data, as the driver does after a read.
    ///
    /// # Errors
    /// When there is none.
    pub fn take(&self, tag: u16, data: &mut [u8]) -> io::Result<()> {
        self.data.read(tag, data)
    }

    /// Completes the command of a tag: a request that comes by that is given to `perform`, with its data, and answered. The
    /// answer is what the driver gets.
    pub fn complete(
        &mut self,
        tag: u16,
        result: i32,
        perform: impl FnOnce(&SubmissionEntry, &mut [u8]) -> bool,
    ) -> Option<i32> {
        match self.tags.complete(tag, result) {
            Completion::Request => {
                let answer = self.serve(tag, perform);
                self.tags.ask(tag);
                Some(result_number(answer))
            }
            Completion::End(_) | Completion::Stray => None,
        }
    }

    /// True once the driver has ended all tags.
    pub const fn is_over(&self) -> bool {
        !self.tags.are_live()
    }

    fn serve(
        &mut self,
        tag: u16,
        perform: impl FnOnce(&SubmissionEntry, &mut [u8]) -> bool,
    ) -> Result<u64, Errno> {
        let descriptor = self.descriptors.get(tag).ok_or(Errno::INVAL)?;
        let request = Request::of(&descriptor, &self.geometry)?;
        let mut data = match request.work {
            Work::Read | Work::Write { .. } => vec![0; request.length as usize],
            Work::Discard => request.range().as_bytes().to_vec(),
            Work::Flush | Work::WriteZeroes { .. } => Vec::new(),
        };
        if matches!(request.work, Work::Write { .. }) {
            self.data.read(tag, &mut data).map_err(|_| Errno::IO)?;
        }
        if !perform(&request.command().encode(self.geometry.nsid), &mut data) {
            return Err(Errno::IO);
        }
        if request.work == Work::Read {
            self.data.write(tag, &data).map_err(|_| Errno::IO)?;
        }
        Ok(request.length)
    }

    /// Geometry of a namespace behind a device with these parameters of the driver's, if it fits.
    pub fn behind(geometry: Geometry, parameters: &[u8]) -> Option<Geometry> {
        let (parameters, _) = Parameters::read_from_prefix(parameters).ok()?;
        geometry.behind(&parameters).ok()
    }

    /// Device that the driver describes so.
    pub fn found(description: &[u8]) -> Option<FoundDevice> {
        let (info, _) = DeviceInfo::read_from_prefix(description).ok()?;
        Some(FoundDevice::of(&info))
    }
}
