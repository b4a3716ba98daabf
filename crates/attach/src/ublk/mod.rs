//! Block devices of this machine, `/dev/ublkbN`, by the kernel's driver `ublk_drv`.

mod driver;
mod errno;
mod error;
mod geometry;
mod request;

pub use error::DeviceError;
pub use geometry::Geometry;
