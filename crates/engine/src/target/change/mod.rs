//! How another configuration comes into effect.

mod apply;
mod change_request;
mod configurator;
mod early_images;
mod image_reconnection;
mod image_watch;
mod preparation;
mod reopening;
mod standby;

pub(crate) use change_request::{Absence, ChangeRequest};
pub(crate) use configurator::Configurator;
pub use early_images::EarlyImages;
pub(crate) use image_watch::{ImageWatch, clusters, has_images, wait_for_closings};
pub use preparation::secret_file_faults;
pub(crate) use standby::set_standby;
