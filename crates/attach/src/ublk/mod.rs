//! Block devices of this machine, `/dev/ublkbN`, by the kernel's driver `ublk_drv`.

mod control;
mod descriptors;
mod driver;
mod errno;
mod error;
mod geometry;
mod memory_pressure;
mod request;
mod request_ring;

pub use error::DeviceError;
pub use geometry::Geometry;
pub use memory_pressure::bear_memory_pressure;
