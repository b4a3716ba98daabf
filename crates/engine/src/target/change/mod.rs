//! How another configuration comes into effect.

mod apply;
mod configurator;
#[cfg(not(feature = "simulation"))]
mod image_reconnection;
#[cfg(not(feature = "simulation"))]
mod image_watch;
mod order;
mod preparation;
mod reopening;
mod standby;

pub(crate) use configurator::Configurator;
#[cfg(not(feature = "simulation"))]
pub(crate) use image_watch::{ImageWatch, clusters, has_images, wait_for_closings};
pub(crate) use order::{Absence, Order};
pub use preparation::secret_file_faults;
#[cfg(not(feature = "simulation"))]
pub(crate) use standby::set_standby;
