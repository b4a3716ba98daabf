//! Why a handshake failed, in words for the log of the end that says it: whose fault it is, and what to do.

use secure_channel::{Alert, ChoiceError, HelloError, Peer};

use crate::KEYS_MAX;
use crate::library::Error;

/// Why there is no channel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The peer has ended it with an alert.
    #[error("the {} ended the TLS handshake with {alert}: {}", name(*peer), advice(*peer, *alert))]
    Refused {
        /// Sender of the alert.
        peer: Peer,
        /// Alert that was received.
        alert: Alert,
    },
    /// The peer has closed the connection without an alert.
    #[error("the {} closed the connection during the TLS handshake: {}", name(*.0), closed(*.0))]
    Closed(Peer),
    /// The host's ClientHello does not fit the key.
    #[error("{0}")]
    Choice(#[from] ChoiceError),
    /// The host's first message is not a ClientHello.
    #[error("{0}")]
    Hello(#[from] HelloError),
    /// The controller wants to go on with certificates.
    #[error(
        "the controller knows none of the offered keys, and requests certificates: configure the host's key there"
    )]
    NoKey,
    /// The peer has sent what it must not.
    #[error("TLS handshake failed: the {} {what}", name(*peer))]
    Violation {
        /// Peer at fault.
        peer: Peer,
        /// Violation, as the rest of a sentence.
        what: &'static str,
        /// The alert that it is due.
        alert: Alert,
    },
    /// The library refuses what the peer has sent.
    #[error("TLS handshake failed: the {} sent something unacceptable: {reason} (s2n-tls: {code})", name(*peer))]
    Protocol {
        /// Peer at fault.
        peer: Peer,
        /// In the library's words.
        reason: &'static str,
        /// Name in the library, to look it up.
        code: &'static str,
        /// The alert that the peer is due.
        alert: Alert,
    },
    /// No keys, or too many.
    #[error("a TLS handshake takes 1 to {KEYS_MAX} keys, and not {0}")]
    KeyCount(usize),
    /// Two keys with one identity: the controller could not tell which one is meant.
    #[error("two keys have the identity `{0}`: offer one of them")]
    SameIdentity(String),
    /// The handshake is complete, and nothing can follow.
    #[error("the TLS handshake is complete")]
    Complete,
    /// The library cannot go on, and the peer has nothing to do with it.
    #[error("TLS library failed: {0}")]
    Library(String),
}

impl HandshakeError {
    /// The alert that the peer is due. It has been appended to the output, unless the peer was the one to end the handshake.
    pub const fn alert(&self) -> Option<Alert> {
        match self {
            Self::Refused { .. } | Self::Closed(_) => None,
            Self::Choice(error) => Some(error.alert()),
            Self::Hello(error) => Some(error.alert()),
            Self::NoKey => Some(Alert::HANDSHAKE_FAILURE),
            Self::Violation { alert, .. } | Self::Protocol { alert, .. } => Some(*alert),
            Self::Library(_) => Some(Alert::INTERNAL_ERROR),
            Self::KeyCount(_) | Self::SameIdentity(_) | Self::Complete => None,
        }
    }
}

const fn name(peer: Peer) -> &'static str {
    match peer {
        Peer::Host => "host",
        Peer::Controller => "controller",
    }
}

/// Advice on an alert.
fn advice(peer: Peer, alert: Alert) -> &'static str {
    match (peer, alert) {
        (Peer::Controller, Alert::UNKNOWN_PSK_IDENTITY) => {
            "it has no key for this host and subsystem; configure the host's key there"
        }
        (Peer::Controller, Alert::DECRYPT_ERROR) => {
            "it has another key for this host, or derives it differently; compare the keys, and try the other derivation"
        }
        // What OpenSSL says of a key that is another one, and of an identity that its caller does not know: SPDK's words.
        (Peer::Controller, Alert::ILLEGAL_PARAMETER) => {
            "it may have another key for this host, or derive it differently; compare the keys, and see its log"
        }
        (Peer::Controller, Alert::INTERNAL_ERROR) => {
            "it may not know the first of the keys that were offered (SPDK knows identities of version 0 alone: --tls-identity 0); \
             see its log"
        }
        (Peer::Host, Alert::DECRYPT_ERROR | Alert::BAD_RECORD_MAC) => {
            "it has another key, or derives it differently; compare the keys"
        }
        (_, Alert::HANDSHAKE_FAILURE) => {
            "no suite, group or key is common to both ends; check that it supports TLS 1.3 with pre-shared keys and the hash function of the key"
        }
        (_, Alert::PROTOCOL_VERSION) => "it does not support TLS 1.3",
        (_, Alert::MISSING_EXTENSION) => {
            "it requires an extension that NVMe/TCP does not use, or no pre-shared keys"
        }
        (_, Alert::INTERNAL_ERROR) => "it has failed; see its log",
        (_, Alert::CLOSE_NOTIFY | Alert::USER_CANCELED) => "it does not want this connection; see its log",
        _ => "see its log",
    }
}

fn closed(peer: Peer) -> &'static str {
    match peer {
        // tlshd, which does the handshakes of Linux' target, ends at the first identity that it does not know.
        Peer::Controller => {
            "it may have no key for this host, look at the first of several alone (--tls-compat and --tls-identity 0 choose it), \
             or not use TLS on this port; see its log"
        }
        Peer::Host => "it may have no key for this subsystem; see its log",
    }
}

impl HandshakeError {
    /// Converts the library's error about a peer's message. Most of its names are those of its own
    /// checks on lengths, so that they say less than they seem to.
    pub(crate) fn of_library(peer: Peer, error: &Error) -> Self {
        let alert = match error.name() {
            "S2N_ERR_ALLOC" | "S2N_ERR_RANDOM" | "S2N_ERR_OPEN_RANDOM" => {
                return Self::Library(error.message().to_owned());
            }
            "S2N_ERR_BAD_PSK_BINDER" | "S2N_ERR_BAD_FINISHED" => Alert::DECRYPT_ERROR,
            "S2N_ERR_DECRYPT" => Alert::BAD_RECORD_MAC,
            "S2N_ERR_BAD_MESSAGE" => Alert::UNEXPECTED_MESSAGE,
            "S2N_ERR_CIPHER_NOT_SUPPORTED" => Alert::HANDSHAKE_FAILURE,
            "S2N_ERR_PROTOCOL_VERSION_UNSUPPORTED" => Alert::PROTOCOL_VERSION,
            "S2N_ERR_MISSING_EXTENSION" => Alert::MISSING_EXTENSION,
            // The last one is that of a place where no key was offered.
            "S2N_ERR_BAD_KEY_SHARE" | "S2N_ERR_ECDHE_UNSUPPORTED_CURVE" | "S2N_ERR_INVALID_ARGUMENT" => {
                Alert::ILLEGAL_PARAMETER
            }
            _ => Alert::DECODE_ERROR,
        };
        Self::Protocol { peer, reason: error.message(), code: error.name(), alert }
    }
}
