//! What a device has done.

/// What a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTally {
    /// Requests of the block layer.
    pub requests: u64,
    /// Those of them that were answered with an error.
    pub errors: u64,
}
