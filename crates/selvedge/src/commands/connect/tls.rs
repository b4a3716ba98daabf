//! The keys of TLS connections that the kernel makes: they are put into its keyring, where its handshakes find them.

use engine::initiator::TlsKeys;
use secure_channel::{Derivation, IdentityVersion, Names};

use super::super::key;
use super::request::Request;
use crate::failure::Failure;
use crate::flags::connect::{ConnectFlags, DEFAULT_KEYRING};
use crate::kernel_initiator::FabricsDevice;

/// The type of such keys.
const KEY_TYPE: &str = "psk";

/// Numbers of what the kernel has for a connection; without them it looks for itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KernelKeys {
    pub(super) keyring: Option<i32>,
    pub(super) key: Option<i32>,
}

/// Puts the keys for a controller into the keyring, if it has some.
///
/// # Errors
/// When the kernel does not take them.
pub(super) fn insert(
    flags: &ConnectFlags,
    device: &FabricsDevice,
    request: &Request,
) -> Result<Option<KernelKeys>, Failure> {
    let Some(keys) = request.path.tls.as_deref() else { return Ok(None) };
    let keyring = flags.kernel.keyring.as_str();
    let names = Names::new(&request.path.host.nqn, request.nqn.as_str());
    let names = names.map_err(|error| Failure::usage(error.to_string()))?;
    let mut serials = Vec::with_capacity(keys.keys.len());
    for psk in psks(keys, &names)? {
        serials.push(key::insert(&psk, KEY_TYPE, keyring)?);
    }
    let is_usual = keyring == DEFAULT_KEYRING;
    let number = if is_usual { None } else { Some(key::keyring_number(keyring)?) };
    // Which of several keys the target has is found out by the handshake.
    let key = match serials.as_slice() {
        [only] if device.has("tls_key") => Some(*only),
        _ => None,
    };
    Ok(Some(KernelKeys { keyring: number, key }))
}

/// The PSKs of which the kernel is to have one.
fn psks(keys: &TlsKeys, names: &Names) -> Result<Vec<secure_channel::TlsPsk>, Failure> {
    let version = keys.identity.unwrap_or(IdentityVersion::One);
    let derivation = keys.derivation.unwrap_or(Derivation::Standard);
    let psk = |key: &secure_channel::ConfiguredPsk| {
        let suite = keys.suite.unwrap_or_else(|| key.usual_suite());
        key.retained(names, derivation).tls_psk(names, suite, version)
    };
    let psks: Result<Vec<_>, _> = keys.keys.iter().map(psk).collect();
    psks.map_err(|error| Failure::usage(error.to_string()))
}
