//! Packets and the memory they are in, by size class, so that a queue of acknowledgements does not hold a buffer of
//! 64 KiB for each. It keeps out where they go.

use std::ops::Range;
use std::os::fd::OwnedFd;

use super::segment::{Shape, VNET_HEADER};

/// The longest packet and its virtio-net header.
const PACKET_BYTES_MAX: usize = VNET_HEADER + 65_536;
/// Buffers of one class that are kept for later.
const FREE_MAX: usize = 4096;
/// Up to these sizes a packet is copied into a smaller buffer than it was received in.
const CLASS_BYTES: [usize; 3] = [256, 2048, 16_384];

/// A packet with its virtio-net header.
pub(crate) struct Packet {
    /// May be longer than the packet, so that a buffer is not filled with zeroes for each.
    buffer: Vec<u8>,
    length: usize,
}

impl Packet {
    fn new(buffer: Vec<u8>) -> Self {
        let length = buffer.len();
        Self { buffer, length }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

/// Buffers for packets.
pub(crate) struct Pool {
    /// The last class is for whatever is longer than all others.
    free: [Vec<Vec<u8>>; CLASS_BYTES.len() + 1],
    /// Buffer for the next packet.
    space: Vec<u8>,
}

impl Default for Pool {
    fn default() -> Self {
        Self { free: Default::default(), space: vec![0; PACKET_BYTES_MAX] }
    }
}

impl Pool {
    /// The next packet that a device has, if it has one.
    pub(crate) fn receive(&mut self, device: &OwnedFd) -> Option<Packet> {
        let length = rustix::io::read(device, &mut self.space[..]).ok()?;
        let class = class_of(length);
        if class < CLASS_BYTES.len() {
            let mut buffer = self.buffer(class);
            buffer.extend_from_slice(&self.space[..length]);
            return Some(Packet::new(buffer));
        }
        // A long one stays where it is, and the space becomes another.
        let mut next = self.free[class].pop().unwrap_or_default();
        next.resize(PACKET_BYTES_MAX, 0);
        Some(Packet { buffer: std::mem::replace(&mut self.space, next), length })
    }

    /// Some segments of a packet, as a packet of their own.
    pub(crate) fn part(&mut self, packet: &Packet, shape: &Shape, segments: Range<usize>) -> Packet {
        let mut buffer = self.buffer(CLASS_BYTES.len());
        shape.cut_out(packet.bytes(), segments, &mut buffer);
        Packet::new(buffer)
    }

    /// Takes back a packet that is no longer needed.
    pub(crate) fn take_back(&mut self, packet: Packet) {
        let free = &mut self.free[class_of(packet.buffer.capacity())];
        if free.len() < FREE_MAX {
            free.push(packet.buffer);
        }
    }

    /// An empty buffer.
    fn buffer(&mut self, class: usize) -> Vec<u8> {
        let mut buffer = self.free[class].pop().unwrap_or_default();
        buffer.clear();
        buffer.reserve_exact(CLASS_BYTES.get(class).copied().unwrap_or(PACKET_BYTES_MAX));
        buffer
    }
}

fn class_of(bytes: usize) -> usize {
    CLASS_BYTES.iter().position(|most| bytes <= *most).unwrap_or(CLASS_BYTES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_to_their_class() {
        let mut pool = Pool::default();
        for class in 0..=CLASS_BYTES.len() {
            let buffer = pool.buffer(class);
            let place = buffer.as_ptr();
            pool.take_back(Packet::new(buffer));
            let again = pool.buffer(class);
            assert_eq!(again.as_ptr(), place, "class {class}");
        }
    }
}
