//! Whether connections of a port are TLS, and for how long its keys are used, as it is typed.

use clap::ValueEnum;
use secure_channel::RecordLimit;

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

/// Reads the number of records after which a key is replaced, or its queue ends.
pub(super) fn record_limit(text: &str) -> Result<RecordLimit, String> {
    let limit = text.parse().ok().and_then(RecordLimit::new);
    limit.ok_or_else(|| format!("`{text}` is not a number of records that one key may seal"))
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
