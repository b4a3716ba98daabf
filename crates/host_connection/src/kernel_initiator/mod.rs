//! The kernel's own NVMe/TCP initiator: how it is asked for a controller, what it has in sysfs, and the files by which programs
//! connect at boot. Which target is meant is the commands' to say.

mod config_json;
mod controllers;
mod discovery_conf;
pub mod fabrics_conf;
mod fabrics_device;
mod fabrics_options;
mod kept_file;
mod kernel_log;

pub use config_json::{CONFIG_JSON, PortEntry, Wanted, merge, remove};
pub use controllers::{Controller, Controllers, Disk};
pub use discovery_conf::{DISCOVERY_CONF, DiscoveryLine, with_line, without_lines};
pub use fabrics_device::{FabricsDevice, Refusal};
pub use fabrics_options::FabricsOptions;
pub use kept_file::KeptFile;
