//! Loop devices over files, for tests that run as root. It keeps out what is done with them.

use std::path::{Path, PathBuf};

use crate::run;

/// A loop device, given back at the end.
pub struct LoopDevice(PathBuf);

impl LoopDevice {
    /// Attaches one to a file, with these options of `losetup`.
    ///
    /// # Errors
    /// Where none can be made.
    pub fn attach(file: &Path, options: &[&str]) -> Result<Self, String> {
        let common = ["--find", "--show"];
        let device = run("losetup", &[&common, options, &[&file.display().to_string()]].concat())?;
        let attached = Self(device.clone().into());
        // The device keeps this flag from its last user.
        run("blockdev", &["--setrw", &device])?;
        Ok(attached)
    }

    /// Path of the device.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Err(error) = run("losetup", &["--detach", &self.0.display().to_string()]) {
            println!("{error}");
        }
    }
}
