//! Whether connections of a port are TLS, as it is typed.

use clap::ValueEnum;

/// The uses there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsUse {
    /// A host without a key cannot connect
    Required,
    /// A connection's first bytes decide: hosts come in without their key too
    Allowed,
    /// None is
    Off,
}

impl From<TlsUse> for engine::target::TlsUse {
    fn from(tls: TlsUse) -> Self {
        match tls {
            TlsUse::Required => Self::Required,
            TlsUse::Allowed => Self::Allowed,
            TlsUse::Off => Self::Off,
        }
    }
}
