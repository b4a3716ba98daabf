//! Devices of the driver, also those of other programs: their description, and the removal of one
//! whose process is gone.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use super::control::Control;
use super::driver::{DeviceInfo, control_command, feature, state};
use super::error::DeviceError;
use crate::limits::END_TIMEOUT_MS;

/// State of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// The device is served, or its process has only just gone.
    Live,
    /// The process is gone, and requests wait for the next one.
    Waiting,
    /// There is no block device, or none that can be served again.
    Dead,
}

/// A device, as the driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// The number of `/dev/ublkbN`.
    pub number: u32,
    /// Mark that the process which made it has given it.
    pub mark: u64,
    /// State of the device.
    pub state: DeviceState,
    /// The process that serves it, or did last; none before it has been served.
    pub process: Option<u32>,
    /// User and group that it belongs to, where it was made without root's rights.
    pub owner: Option<(u32, u32)>,
}

impl FoundDevice {
    /// All devices there are; none without a driver.
    ///
    /// # Errors
    /// When the driver cannot be asked.
    pub fn all() -> Result<Vec<Self>, DeviceError> {
        let mut control = match Control::open() {
            Err(DeviceError::NoDriver) => return Ok(Vec::new()),
            control => control?,
        };
        let mut found = Vec::new();
        let Ok(entries) = fs::read_dir("/dev") else { return Ok(found) };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("ublkc")?.parse::<u32>().ok());
            // One may go meanwhile.
            found.extend(number.and_then(|number| control.info(number).ok()).map(|info| Self::of(&info)));
        }
        found.sort_by_key(|device| device.number);
        Ok(found)
    }

    /// The one of this number, if there is one that this user may ask for.
    ///
    /// # Errors
    /// When the driver cannot be asked.
    pub fn of_number(number: u32) -> Result<Option<Self>, DeviceError> {
        Ok(Control::open()?.info(number).ok().map(|info| Self::of(&info)))
    }

    pub(super) fn of(info: &DeviceInfo) -> Self {
        let state = match info.state {
            state::LIVE => DeviceState::Live,
            state::QUIESCED if info.flags & feature::USER_RECOVERY != 0 => DeviceState::Waiting,
            _ => DeviceState::Dead,
        };
        let process = u32::try_from(info.server).ok().filter(|process| *process > 0);
        let is_owned = info.flags & feature::UNPRIVILEGED != 0;
        let owner = is_owned.then_some((info.owner, info.group));
        Self { number: info.device, mark: info.mark, state, process, owner }
    }

    /// `/dev/ublkbN`.
    pub fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.number).into()
    }

    /// Takes away a device whose process is gone: what waits for it fails. Says whether its number is free again; where the
    /// device is open, that is when its last user closes it.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn delete(&self) -> Result<bool, DeviceError> {
        let mut control = Control::open()?;
        let known = control.info(self.number).map_err(|_| DeviceError::Gone { number: self.number })?;
        if known.mark != self.mark {
            return Err(DeviceError::Gone { number: self.number });
        }
        let limit = Duration::from_millis(END_TIMEOUT_MS);
        for (what, command) in [
            ("stop the device", control_command::STOP_DEVICE),
            ("delete the device", control_command::DELETE_DEVICE),
        ] {
            let refused = |error| DeviceError::Refused { what, error };
            control.begin((command, self.number), 0).map_err(refused)?;
            match control.wait(Some(limit)) {
                None => return Ok(false),
                // Another program was faster.
                Some(Err(error)) if Errno::from_io_error(&error) == Some(Errno::NODEV) => return Ok(true),
                Some(ended) => ended.map_err(refused)?,
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_waits_only_where_it_can_be_recovered() {
        let state =
            |state, flags| FoundDevice::of(&DeviceInfo { state, flags, ..DeviceInfo::default() }).state;
        assert_eq!(state(state::LIVE, 0), DeviceState::Live);
        assert_eq!(state(state::QUIESCED, feature::USER_RECOVERY), DeviceState::Waiting);
        assert_eq!(state(state::QUIESCED, 0), DeviceState::Dead);
        assert_eq!(state(state::DEAD, feature::USER_RECOVERY), DeviceState::Dead);
        let process = |server| FoundDevice::of(&DeviceInfo { server, ..DeviceInfo::default() }).process;
        assert_eq!((process(-1), process(0), process(7)), (None, None, Some(7)));
        let owner =
            |flags| FoundDevice::of(&DeviceInfo { flags, owner: 7, group: 8, ..DeviceInfo::default() }).owner;
        assert_eq!((owner(0), owner(feature::UNPRIVILEGED)), (None, Some((7, 8))));
    }
}
