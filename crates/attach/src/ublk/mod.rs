//! Block devices of this machine, `/dev/ublkbN`, by the kernel's driver `ublk_drv`: a thread for each queue of the device takes
//! its requests and answers them over the initiator's paths.
//!
//! The driver takes commands of io_uring: about devices at `/dev/ublk-control` (`control`), about
//! requests at `/dev/ublkcN` (`request_ring`). The descriptor of a request lies in memory that is
//! shared with the kernel (`descriptors`); its data is read from and written to `/dev/ublkcN`, or
//! copied by the driver (`request_data`).

#[cfg(not(feature = "simulation"))]
mod control;
#[cfg(not(feature = "simulation"))]
mod descriptors;
#[cfg(not(feature = "simulation"))]
mod device;
// Commands about devices are not simulated.
#[cfg_attr(feature = "simulation", allow(dead_code))]
mod driver;
#[cfg(not(feature = "simulation"))]
mod driver_model;
mod errno;
mod error;
#[cfg(not(feature = "simulation"))]
mod found_device;
#[cfg_attr(feature = "simulation", allow(dead_code))]
mod geometry;
mod holder;
#[cfg(not(feature = "simulation"))]
mod memory_pressure;
#[cfg(not(feature = "simulation"))]
mod open_file;
mod queue;
mod queue_thread;
mod request;
mod request_data;
#[cfg(not(feature = "simulation"))]
mod request_ring;
#[cfg(feature = "simulation")]
mod simulated;
mod tags;
mod tally;
#[cfg(not(feature = "simulation"))]
mod write_back;

/// `/dev/ublkcN`.
#[cfg(not(feature = "simulation"))]
type DeviceFile = std::fs::File;
#[cfg(feature = "simulation")]
use self::simulated::{Descriptors, DeviceFile, RequestRing};
#[cfg(not(feature = "simulation"))]
use self::{descriptors::Descriptors, request_ring::RequestRing};

#[cfg(not(feature = "simulation"))]
pub use device::{Device, DeviceId, DeviceOptions, is_unprivileged};
#[cfg(not(feature = "simulation"))]
pub use driver_model::DriverModel;
pub use error::DeviceError;
#[cfg(not(feature = "simulation"))]
pub use found_device::{DeviceState, FoundDevice};
pub use geometry::Geometry;
pub use holder::DeviceHolder;
#[cfg(not(feature = "simulation"))]
pub use memory_pressure::bear_memory_pressure;
#[cfg(feature = "simulation")]
pub use simulated::{Device, Driver, DriverOperation, DriverRequest};
pub use tally::DeviceTally;
