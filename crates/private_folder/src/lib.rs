//! Files and folders that no other user may change: the checks before they are believed, and the
//! replacement of one file by another as a whole. Their content is their owner's.

mod private_file;
mod private_folder;

pub use private_file::{PrivateFileError, open_own, open_secret};
#[cfg(any(test, feature = "power"))]
pub use private_folder::power;
pub use private_folder::{PrivateFolder, Replacement};
