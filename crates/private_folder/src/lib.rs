//! Files and folders that nobody else may change: what is checked before they are believed, and how one file takes
//! another's place whole. What is in them is their owner's.

mod private_file;
mod private_folder;

pub use private_file::{PrivateFileError, open_own, open_secret};
#[cfg(any(test, feature = "power"))]
pub use private_folder::power;
pub use private_folder::{PrivateFolder, Replacement};
