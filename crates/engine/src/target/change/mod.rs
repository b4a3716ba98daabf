//! How another configuration comes into effect.

mod apply;
mod configurator;
mod early_images;
mod image_reconnection;
mod image_watch;
mod order;
mod preparation;
mod reopening;
mod standby;

pub(crate) use configurator::Configurator;
pub use early_images::EarlyImages;
pub(crate) use image_watch::{ImageWatch, clusters, has_images, wait_for_closings};
pub(crate) use order::{Absence, Order};
pub use preparation::secret_file_faults;
pub(crate) use standby::set_standby;
