//! `selvedge key identity`: what Linux calls a TLS key, and the PSK behind it in the kernel's keyring.

use engine::initiator::HostIdentity;
use schemars::JsonSchema;
use secure_channel::{ConfiguredPsk, Derivation, Hash, IdentityVersion, Names, Suite, TlsPsk};
use serde::Serialize;

use super::keyring;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::key::IdentityFlags;
use crate::report;
use crate::spec::secret;

/// For programs: the identity of a PSK.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct Identity {
    identity: String,
    /// The suite that it is for, by its name in TLS.
    suite: &'static str,
    /// Derivation: `standard`, or `compat` for that of nvme-cli until 2025.
    derivation: String,
    /// The number of the key in the kernel, where it was put there.
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<i32>,
}

pub(super) fn run(flags: &IdentityFlags) -> Result<(), Failure> {
    let psk = tls_psk(flags)?;
    let identity = psk.identity().to_string();
    let serial = if flags.insert { Some(insert(&psk, &flags.keytype, &flags.keyring)?) } else { None };
    match flags.format.output_format {
        OutputFormat::Normal => report::print_exactly(match serial {
            None => format!("{identity}\n"),
            Some(serial) => format!("Inserted TLS key {serial:08x}: {identity}\n"),
        }),
        OutputFormat::Json => report::print_json(&Identity {
            identity,
            suite: psk.suite().name(),
            derivation: psk.derivation().to_string(),
            serial,
        }),
    }
}

/// Puts a PSK into a keyring of the kernel; its number there.
///
/// # Errors
/// That there is no such keyring, or it takes no key.
pub(in crate::commands) fn insert(psk: &TlsPsk, keytype: &str, keyring: &str) -> Result<i32, Failure> {
    let number = keyring::find(keyring).map_err(Failure::failed)?;
    keyring::add((keytype, &psk.identity().to_string()), psk.reveal(), number)
        .map_err(|what| Failure::failed(format!("keyring {keyring}: {what}")))
}

/// The number of a keyring of the kernel.
///
/// # Errors
/// That there is no such keyring.
pub(in crate::commands) fn keyring_number(name: &str) -> Result<i32, Failure> {
    keyring::find(name).map_err(Failure::failed)
}

fn tls_psk(flags: &IdentityFlags) -> Result<TlsPsk, Failure> {
    let key: ConfiguredPsk = secret::read(&flags.file).map_err(Failure::usage)?;
    let host =
        flags.hostnqn.as_ref().map_or_else(|| HostIdentity::of_this_machine().nqn, ToString::to_string);
    let names = Names::new(&host, &flags.subsysnqn).map_err(|error| Failure::usage(error.to_string()))?;
    let derivation = if flags.compat { Derivation::Compat } else { Derivation::Standard };
    let version = if flags.identity == 0 { IdentityVersion::Zero } else { IdentityVersion::One };
    let suite = flags.hmac.and_then(Hash::of).map_or_else(|| key.usual_suite(), Suite::with);
    let psk = key.retained(&names, derivation).tls_psk(&names, suite, version);
    psk.map_err(|error| Failure::usage(error.to_string()))
}
