//! Commands about devices to the driver, one at a time, at `/dev/ublk-control`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::driver::{
    ANY_DEVICE, ControlCommand, DeviceInfo, NO_QUEUE, PARAMETERS_BYTES, PATH_BYTES, Parameters,
    control_command, feature,
};
use super::error::DeviceError;

const PATH: &str = "/dev/ublk-control";
/// Bytes of the greatest structure that goes with a command, behind a path.
const SPACE_BYTES: usize = 128;

/// Words that the kernel reads and writes while a command is under way.
type Space = Box<[u64; SPACE_BYTES / 8]>;

pub(super) struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: File,
    /// Taken out only where the kernel may never be done with it.
    space: Option<Space>,
    is_under_way: bool,
    /// Set if commands name the device's file, since it was made without root's rights.
    names_path: bool,
}

impl Control {
    pub(super) fn open() -> Result<Self, DeviceError> {
        let file = File::options().read(true).write(true).open(PATH);
        let file = file.map_err(|error| match Errno::from_io_error(&error) {
            // Also for a device node that was made without a driver behind it.
            Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) => DeviceError::NoDriver,
            _ => DeviceError::Forbidden(error),
        })?;
        let ring = IoUring::builder().build(2).map_err(DeviceError::NoRing)?;
        Ok(Self { ring, file, space: Some(Box::default()), is_under_way: false, names_path: false })
    }

    /// Features of the driver: bits of `driver::feature`.
    pub(super) fn features(&mut self) -> Result<u64, DeviceError> {
        let mut features = 0_u64;
        match self.execute((control_command::GET_FEATURES, ANY_DEVICE), 0, features.as_mut_bytes()) {
            Ok(()) => Ok(features),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(DeviceError::Forbidden(error))
            }
            // Drivers that do not know the question are older than all that is needed.
            Err(_) => Err(DeviceError::TooOld),
        }
    }

    /// Makes a device; the driver writes into `info` what it has made of it.
    pub(super) fn add(&mut self, info: &mut DeviceInfo) -> Result<(), DeviceError> {
        let mut bytes = [0; size_of::<DeviceInfo>()];
        bytes.copy_from_slice(info.as_bytes());
        let added = self.execute((control_command::ADD_DEVICE, info.device), 0, &mut bytes);
        added.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => DeviceError::Forbidden(error),
            _ => DeviceError::Refused { what: "add a device", error },
        })?;
        if let Ok(added) = DeviceInfo::read_from_bytes(&bytes) {
            *info = added;
        }
        self.names_path = info.flags & feature::UNPRIVILEGED != 0;
        Ok(())
    }

    pub(super) fn set_parameters(&mut self, device: u32, parameters: &Parameters) -> Result<(), DeviceError> {
        let mut bytes = [0; PARAMETERS_BYTES as usize];
        bytes.copy_from_slice(&parameters.as_bytes()[..PARAMETERS_BYTES as usize]);
        self.execute((control_command::SET_PARAMETERS, device), 0, &mut bytes)
            .map_err(|error| DeviceError::Refused { what: "set the device's parameters", error })
    }

    /// Description of a device by the driver.
    pub(super) fn info(&mut self, device: u32) -> io::Result<DeviceInfo> {
        let mut info = DeviceInfo::default();
        // Before it is known whether that is needed.
        self.names_path = true;
        let reply = self.execute((control_command::GET_DEVICE_INFO, device), 0, info.as_mut_bytes());
        self.names_path = info.flags & feature::UNPRIVILEGED != 0;
        reply.map(|()| info)
    }

    /// Parameters of a device, as the block layer knows them.
    pub(super) fn parameters(&mut self, device: u32) -> io::Result<Parameters> {
        let mut parameters = Parameters { length: PARAMETERS_BYTES, ..Parameters::default() };
        let bytes = &mut parameters.as_mut_bytes()[..PARAMETERS_BYTES as usize];
        self.execute((control_command::GET_PARAMETERS, device), 0, bytes)?;
        Ok(parameters)
    }

    /// Carries a command out that brings no structure along and ends at once.
    pub(super) fn execute_plain(&mut self, what: (u32, u32), data: u64) -> io::Result<()> {
        self.begin(what, data)?;
        self.wait(None).unwrap_or(Ok(()))
    }

    /// Begins a command that brings no structure along; `wait` says how it ended.
    pub(super) fn begin(&mut self, what: (u32, u32), data: u64) -> io::Result<()> {
        self.begin_with(what, data, &[])
    }

    /// Waits for the end of the command that was begun, not longer than `limit`; `None` when it is still under way then.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> Option<io::Result<()>> {
        loop {
            if let Some(entry) = self.ring.completion().next() {
                self.is_under_way = false;
                let result = entry.result();
                return Some(if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) });
            }
            let waited = match limit {
                None => self.ring.submit_and_wait(1),
                Some(limit) => {
                    let timespec = Timespec::from(limit);
                    self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timespec))
                }
            };
            let Err(error) = waited else { continue };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::TIME) => return None,
                _ => return Some(Err(error)),
            }
        }
    }

    /// Carries a command out whose structure is `bytes`, which hold the driver's afterwards.
    fn execute(&mut self, (command, device): (u32, u32), data: u64, bytes: &mut [u8]) -> io::Result<()> {
        let before = self.path_bytes(command);
        self.begin_with((command, device), data, bytes)?;
        let ended = self.wait(None).unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
        if let (false, Some(space)) = (self.is_under_way, &self.space) {
            bytes.copy_from_slice(&space.as_bytes()[before..before + bytes.len()]);
        }
        ended
    }

    /// Begins a command whose structure is `bytes`.
    fn begin_with(&mut self, (command, device): (u32, u32), data: u64, bytes: &[u8]) -> io::Result<()> {
        let path_bytes = self.path_bytes(command);
        let Some(space) = self.space.as_mut().filter(|_| !self.is_under_way) else {
            return Err(io::ErrorKind::ResourceBusy.into());
        };
        let (path, rest) = space.as_mut_bytes().split_at_mut(path_bytes);
        if path_bytes > 0 {
            let text = format!("/dev/ublkc{device}");
            path.fill(0);
            path[..text.len()].copy_from_slice(text.as_bytes());
        }
        rest[..bytes.len()].copy_from_slice(bytes);
        let what = ControlCommand {
            device,
            queue: NO_QUEUE,
            length: (path_bytes + bytes.len()) as u16,
            address: space.as_ptr().expose_provenance() as u64,
            data,
            path_length: path_bytes as u16,
            ..ControlCommand::default()
        };
        self.push(command, &what)
    }

    const fn path_bytes(&self, command: u32) -> usize {
        // Before there is a device, it has no file.
        if self.names_path && command != control_command::ADD_DEVICE { PATH_BYTES } else { 0 }
    }

    fn push(&mut self, command: u32, what: &ControlCommand) -> io::Result<()> {
        let mut bytes = [0; 80];
        bytes[..size_of::<ControlCommand>()].copy_from_slice(what.as_bytes());
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), command).cmd(bytes).build();
        // SAFETY: the command is in the entry itself. The only memory that it names is `space`, which stays where it is until
        // the command has ended, and forever where its end was not seen.
        #[allow(unsafe_code)]
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        self.is_under_way = true;
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.is_under_way
            && let Some(space) = self.space.take()
        {
            Box::leak(space);
        }
    }
}
