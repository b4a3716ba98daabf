//! What a device has done.

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTally {
    /// Requests of the block layer.
    pub requests: u64,
    /// Number of those that were answered with an error.
    pub errors: u64,
}
