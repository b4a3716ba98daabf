//! Strings as C has them, to Ceph's libraries and from them.

use std::ffi::{CString, c_char};
use std::io;

use super::CephError;

/// A string as C has it.
pub(super) fn text(value: &str) -> Result<CString, CephError> {
    CString::new(value).map_err(|error| CephError::Failed {
        what: "taking",
        name: value.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, error),
    })
}

/// Text that C has written, up to its 0.
pub(super) fn string_in(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
