//! Place of s2n-tls in a build without the feature `s2n`: no handshake begins.

use std::fmt;

use secure_channel::Peer;

use crate::key::Key;
use crate::key_log::Secrets;

/// The only error of this build.
#[derive(Debug)]
pub(crate) struct Error;

/// Kinds of errors that are looked at.
pub(crate) enum ErrorType {
    Alert,
    ConnectionClosed,
    Other,
}

impl Error {
    pub(crate) fn kind(&self) -> ErrorType {
        ErrorType::Other
    }

    pub(crate) fn name(&self) -> &'static str {
        "no TLS"
    }

    pub(crate) fn message(&self) -> &'static str {
        "this program was built without TLS"
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

/// Prepares nothing.
///
/// # Errors
/// None: a program that uses no TLS goes on.
pub fn prepare() -> Result<(), String> {
    Ok(())
}

/// A handshake that cannot begin.
pub(crate) enum Library {}

impl Library {
    pub(crate) fn new(_peer: Peer, _keys: &[Key]) -> Result<Self, Error> {
        Err(Error)
    }

    pub(crate) fn negotiate(
        &mut self,
        _input: &[u8],
        _output: &mut Vec<u8>,
        _secrets: &mut Secrets,
    ) -> Result<bool, Error> {
        match *self {}
    }

    pub(crate) fn alert(&self) -> Option<u8> {
        match *self {}
    }

    pub(crate) fn identity(&self) -> Option<Vec<u8>> {
        match *self {}
    }

    pub(crate) fn is_tls_1_3(&self) -> bool {
        match *self {}
    }

    pub(crate) fn suite(&self) -> Option<&str> {
        match *self {}
    }

    pub(crate) fn group(&self) -> Option<&str> {
        match *self {}
    }
}
