//! TUN devices: one end of a link as a file, whose packets carry a virtio-net header, so that the kernel may leave TCP
//! segments in one piece and checksums undone. It keeps out what happens to the packets.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl, opcode};

use crate::namespace;

const DEVICE: &str = "/dev/net/tun";
/// Bytes of a device's name with the zero that ends it.
const NAME_BYTES: usize = 16;

const IFF_TUN: i16 = 0x0001;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;

const TUN_F_CSUM: usize = 0x01;
const TUN_F_TSO4: usize = 0x02;
const TUN_F_TSO6: usize = 0x04;
const TUN_F_TSO_ECN: usize = 0x08;

/// Both are declared with an int, whatever they take (linux/if_tun.h).
const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);
const TUNSETOFFLOAD: Opcode = opcode::write::<u32>(b'T', 208);

/// The kernel's `struct ifreq`, as TUNSETIFF uses it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: i16,
    /// The union that `flags` is part of has 24 bytes on 64-bit machines and 16 on others; more does no harm.
    rest: [u8; 22],
}

/// Makes the device `name` in a network namespace. Reads give one packet each and do not block.
///
/// # Errors
/// What failed and why: usually that the caller is not root, or that the kernel has no TUN.
pub(crate) fn open(namespace: &str, name: &str) -> Result<OwnedFd, String> {
    if name.is_empty() || name.len() >= NAME_BYTES {
        return Err(format!("`{name}` is not a valid network device name"));
    }
    namespace::inside(namespace, || {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(|error| format!("{DEVICE}: {error}"))?;
        attach(&file, name).map_err(|error| format!("cannot make the device {name}: {error}"))?;
        offload(&file).map_err(|error| format!("{name} takes no unsegmented packets: {error}"))?;
        Ok(file)
    })
}

fn attach(file: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    let mut request =
        InterfaceRequest { name: [0; NAME_BYTES], flags: IFF_TUN | IFF_NO_PI | IFF_VNET_HDR, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `InterfaceRequest` is laid out as, and which lives
    // until the call returns.
    unsafe { ioctl(file, Updater::<TUNSETIFF, InterfaceRequest>::new(&mut request)) }
}

fn offload(file: &OwnedFd) -> rustix::io::Result<()> {
    let flags = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    // SAFETY: TUNSETOFFLOAD takes a set of flags by value and touches no memory of ours.
    unsafe { ioctl(file, IntegerSetter::<TUNSETOFFLOAD>::new_usize(flags)) }
}
