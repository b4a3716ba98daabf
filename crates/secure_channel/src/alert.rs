//! Alerts: why one end ends a connection (RFC 8446, 6). How they are protected is not known here.

use std::fmt;

use crate::record::{ContentType, HEADER_BYTES, header};

/// Alert of TLS. The number on the wire, so that an unnamed one can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alert(pub u8);

impl Alert {
    /// Bytes of an alert.
    pub(crate) const BYTES: usize = 2;

    /// The sender sends no more.
    pub const CLOSE_NOTIFY: Self = Self(0);
    /// A message that is not allowed now.
    pub const UNEXPECTED_MESSAGE: Self = Self(10);
    /// A record that was changed on the way, or sealed with another key.
    pub const BAD_RECORD_MAC: Self = Self(20);
    /// A record that is longer than any.
    pub const RECORD_OVERFLOW: Self = Self(22);
    /// The ends have nothing in common, such as a suite.
    pub const HANDSHAKE_FAILURE: Self = Self(40);
    /// A field with a value that it cannot have.
    pub const ILLEGAL_PARAMETER: Self = Self(47);
    /// A message that cannot be read.
    pub const DECODE_ERROR: Self = Self(50);
    /// A proof that is wrong, such as a binder.
    pub const DECRYPT_ERROR: Self = Self(51);
    /// Another version than 1.3.
    pub const PROTOCOL_VERSION: Self = Self(70);
    /// A failure that is not the peer's.
    pub const INTERNAL_ERROR: Self = Self(80);
    /// The handshake is not wanted any longer; [`Self::CLOSE_NOTIFY`] follows.
    pub const USER_CANCELED: Self = Self(90);
    /// An extension that has to be there is missing.
    pub const MISSING_EXTENSION: Self = Self(109);
    /// No identity that was offered is known.
    pub const UNKNOWN_PSK_IDENTITY: Self = Self(115);

    /// Name in the RFC.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::CLOSE_NOTIFY => "close_notify",
            Self::UNEXPECTED_MESSAGE => "unexpected_message",
            Self::BAD_RECORD_MAC => "bad_record_mac",
            Self::RECORD_OVERFLOW => "record_overflow",
            Self::HANDSHAKE_FAILURE => "handshake_failure",
            Self::ILLEGAL_PARAMETER => "illegal_parameter",
            Self::DECODE_ERROR => "decode_error",
            Self::DECRYPT_ERROR => "decrypt_error",
            Self::PROTOCOL_VERSION => "protocol_version",
            Self::INTERNAL_ERROR => "internal_error",
            Self::USER_CANCELED => "user_canceled",
            Self::MISSING_EXTENSION => "missing_extension",
            Self::UNKNOWN_PSK_IDENTITY => "unknown_psk_identity",
            _ => return None,
        })
    }

    /// Level and description. TLS 1.3 ignores the level; older readers do not.
    pub(crate) const fn encode(self) -> [u8; Self::BYTES] {
        let is_warning = matches!(self, Self::CLOSE_NOTIFY | Self::USER_CANCELED);
        [if is_warning { 1 } else { 2 }, self.0]
    }

    /// The record of an alert before there are keys.
    pub fn in_clear(self) -> [u8; HEADER_BYTES + Self::BYTES] {
        let [kind, major, minor, high, low] = header(ContentType::Alert, Self::BYTES);
        let [level, description] = self.encode();
        [kind, major, minor, high, low, level, description]
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "alert {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    #[test]
    fn alerts_before_there_are_keys_are_records_in_clear() {
        assert_eq!(hex(&Alert::UNKNOWN_PSK_IDENTITY.in_clear()), "15030300020273");
        assert_eq!(hex(&Alert::CLOSE_NOTIFY.in_clear()), "15030300020100");
        assert_eq!(Alert::UNKNOWN_PSK_IDENTITY.to_string(), "unknown_psk_identity");
        assert_eq!(Alert(99).to_string(), "alert 99");
    }
}
