//! TLS policy of a port, and the lifetime of keys, as the command line has them.

use clap::ValueEnum;
use secure_channel::RecordLimit;

/// Policy for connections without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsUse {
    /// Hosts without a key cannot connect
    Required,
    /// Hosts may connect without their key; the first bytes of a connection decide
    Allowed,
    /// No connection uses TLS
    Off,
}

/// Parses the number of records after which a key is replaced or its queue is closed.
pub fn record_limit(text: &str) -> Result<RecordLimit, String> {
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
