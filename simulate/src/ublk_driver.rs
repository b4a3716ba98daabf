//! The kernel's driver of block devices as a process has it: requests of the block layer by their tags, for those tags that the
//! process has asked for.

use std::fmt;
use std::io;
use std::rc::Rc;

use attach_crate::ublk::{Driver, DriverOperation, DriverRequest};
use engine::ring::Waker;
use engine::simulation;
use nvme::Status;

use crate::block_layer::{Change, Request, Work};
use crate::disk_node::DiskNode;
use crate::scene::Scene;
use crate::{attach, block};

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

/// The driver's end of the device, for one life of its process.
pub(crate) struct UblkDriver {
    pub(crate) scene: Rc<Scene>,
    pub(crate) life: u64,
}

impl fmt::Debug for UblkDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UblkDriver({})", self.life)
    }
}

impl UblkDriver {
    fn node(&self) -> Option<&DiskNode> {
        self.scene.disk.as_ref()
    }

    fn request_of(&self, queue: u16, tag: u16) -> Option<Request> {
        self.node()?.layer.borrow().request(queue, tag.into(), self.life)
    }

    fn length_of(&self, request: &Request) -> u64 {
        match request.work {
            Work::Flush { .. } => 0,
            _ => request.count * self.scene.plan.block_size as u64,
        }
    }
}

impl Driver for UblkDriver {
    fn fetch(&self, queue: u16, tag: u16) {
        let Some(node) = self.node() else { return };
        node.layer.borrow_mut().ask(queue, tag.into(), self.life);
    }

    fn commit(&self, queue: u16, tag: u16, result: i32) {
        let Some(node) = self.node() else { return };
        let data = node.layer.borrow_mut().take_data(queue, tag.into());
        let answered = node.layer.borrow_mut().answer(queue, tag.into(), self.life);
        let Some(request) = answered else { return };
        simulation::say(|| format!("queue {queue} answers {tag}: {result}"));
        simulation::note(u64::from(tag) << 32 | u64::from(queue) << 16 | u64::from(result < 0));
        let status = if result < 0 { Status::INTERNAL_ERROR } else { Status::SUCCESS };
        if result >= 0 && result as u64 != self.length_of(&request) {
            return simulation::fail(format!("{request:?} is answered with {result} bytes"));
        }
        attach::ended(&self.scene, node, request, (status, data.as_deref()));
        self.fetch(queue, tag);
    }

    fn next(&self, queue: u16) -> Option<u16> {
        let tag = self.node()?.layer.borrow_mut().take_asked(queue, self.life)?;
        simulation::say(|| format!("queue {queue} has {tag}: {:?}", self.request_of(queue, tag as u16)));
        Some(tag as u16)
    }

    fn watch(&self, queue: u16, waker: Option<Waker>) {
        let Some(node) = self.node() else { return };
        match waker {
            Some(waker) => node.layer.borrow_mut().set_waker(queue, waker),
            None => node.layer.borrow_mut().forget_waker(queue),
        }
    }

    fn request(&self, queue: u16, tag: u16) -> Option<DriverRequest> {
        let request = self.request_of(queue, tag)?;
        let (operation, is_durable) = match request.work {
            Work::Read { .. } => (DriverOperation::Read, false),
            Work::Flush { .. } => (DriverOperation::Flush, false),
            Work::Write { durable, how, .. } => match how {
                Change::Write => (DriverOperation::Write, durable),
                Change::Discard => (DriverOperation::Discard, durable),
                Change::Zeroes { deallocate } => {
                    (DriverOperation::WriteZeroes { may_deallocate: deallocate }, durable)
                }
            },
        };
        let block_sectors = self.scene.plan.block_size as u64 / SECTOR_BYTES;
        let sectors = (self.length_of(&request) / SECTOR_BYTES) as u32;
        Some(DriverRequest { operation, sectors, start_sector: request.start * block_sectors, is_durable })
    }

    fn read_data(&self, queue: u16, tag: u16, into: &mut [u8]) -> io::Result<()> {
        let request = self.request_of(queue, tag).ok_or(io::ErrorKind::InvalidInput)?;
        match request.work {
            Work::Write { name, how: Change::Write, .. } if into.len() as u64 == self.length_of(&request) => {
                block::fill(into, self.scene.plan.block_size, request.start, name);
                Ok(())
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn write_data(&self, queue: u16, tag: u16, from: &[u8]) -> io::Result<()> {
        let node = self.node().ok_or(io::ErrorKind::NotFound)?;
        let request = self.request_of(queue, tag).ok_or(io::ErrorKind::InvalidInput)?;
        if !matches!(request.work, Work::Read { .. }) || from.len() as u64 != self.length_of(&request) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        node.layer.borrow_mut().put_data(queue, tag.into(), from.to_vec());
        Ok(())
    }
}
