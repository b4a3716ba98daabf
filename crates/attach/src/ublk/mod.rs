//! Block devices of this machine, `/dev/ublkbN`, by the kernel's driver `ublk_drv`: a thread for each queue of the device takes
//! its requests and answers them over the initiator's paths.
//!
//! The driver takes commands of io_uring: about devices at `/dev/ublk-control` (`control`), about
//! requests at `/dev/ublkcN` (`request_ring`). The descriptor of a request lies in memory that is
//! shared with the kernel (`descriptors`); its data is read from and written to `/dev/ublkcN`, or
//! copied by the driver (`request_data`).

mod control;
mod descriptors;
mod device;
mod driver;
mod driver_model;
mod errno;
mod error;
mod found_device;
mod geometry;
mod holder;
mod memory_pressure;
mod queue;
mod queue_thread;
mod request;
mod request_data;
mod request_ring;
mod tags;
mod tally;
mod write_back;

pub use device::{Device, DeviceId, DeviceOptions, is_unprivileged};
pub use driver_model::DriverModel;
pub use error::DeviceError;
pub use found_device::{DeviceState, FoundDevice};
pub use geometry::Geometry;
pub use holder::DeviceHolder;
pub use memory_pressure::bear_memory_pressure;
pub use tally::DeviceTally;
