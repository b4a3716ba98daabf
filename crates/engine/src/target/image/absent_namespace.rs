//! A namespace that is configured and not there.

/// A namespace that is configured and not there, since its image is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentNamespace {
    /// The subsystem.
    pub nqn: String,
    /// The namespace.
    pub nsid: u32,
    /// Why it is not there.
    pub reason: String,
}
