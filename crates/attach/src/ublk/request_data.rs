//! The data of a queue's requests: how it comes from the driver, and goes back.

use std::io;
#[cfg(not(feature = "simulation"))]
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::DeviceFile;
use super::driver::data_offset;
use crate::limits::PIECE_BYTES;

pub(super) enum RequestData {
    /// Copied by calls at `/dev/ublkcN`.
    Calls { device: Arc<DeviceFile>, queue: u16 },
    /// The driver copies it, while this thread submits or waits, to and from the buffer of the request's tag. The buffers get
    /// memory when they are used. They have to outlive the ring of the queue's requests.
    Buffers(Vec<Vec<u8>>),
}

impl RequestData {
    pub(super) fn by_calls(device: Arc<DeviceFile>, queue: u16) -> Self {
        Self::Calls { device, queue }
    }

    pub(super) fn by_buffers(depth: u16) -> Self {
        Self::Buffers((0..depth).map(|_| vec![0; PIECE_BYTES as usize]).collect())
    }

    /// Address of a tag's buffer for the driver; 0 where there is none.
    pub(super) fn address(&self, tag: u16) -> u64 {
        match self {
            Self::Calls { .. } => 0,
            Self::Buffers(buffers) => {
                buffers.get(usize::from(tag)).map_or(0, |buffer| buffer.as_ptr().expose_provenance() as u64)
            }
        }
    }

    /// Copies what a tag's request writes into `into`.
    pub(super) fn read(&self, tag: u16, into: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Calls { device, queue } => device.read_exact_at(into, data_offset(*queue, tag)),
            Self::Buffers(buffers) => {
                let buffer = buffers.get(usize::from(tag)).and_then(|buffer| buffer.get(..into.len()));
                into.copy_from_slice(buffer.ok_or(io::ErrorKind::InvalidInput)?);
                Ok(())
            }
        }
    }

    /// Copies what a tag's request has read from `data`.
    pub(super) fn write(&mut self, tag: u16, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Calls { device, queue } => device.write_all_at(data, data_offset(*queue, tag)),
            Self::Buffers(buffers) => {
                let buffer = buffers.get_mut(usize::from(tag)).and_then(|it| it.get_mut(..data.len()));
                buffer.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(data);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tag_has_a_buffer_of_its_own() {
        let mut data = RequestData::by_buffers(2);
        assert!(data.address(0) != 0 && data.address(1) != data.address(0));
        data.write(1, &[7; 512]).unwrap();
        let mut read = [1; 513];
        data.read(1, &mut read).unwrap();
        assert_eq!((read[511], read[512]), (7, 0));
        data.read(0, &mut read).unwrap();
        assert_eq!(read, [0; 513]);
    }

    #[test]
    fn nothing_is_beyond_a_buffer() {
        let mut data = RequestData::by_buffers(1);
        let mut larger = vec![0; PIECE_BYTES as usize + 1];
        assert!(data.read(0, &mut larger).is_err() && data.write(0, &larger).is_err());
        assert!(data.read(1, &mut larger[..1]).is_err() && data.write(1, &[0]).is_err());
        assert_eq!(data.address(1), 0);
    }
}
