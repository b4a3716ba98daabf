//! `selvedge key`: makes secrets for in-band authentication and TLS keys, and says what one is. It shows none but those that
//! it makes.

mod identity;
mod keyring;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use authentication::{Hash, Secret};
pub(super) use identity::{Identity, insert, keyring_number};
use schemars::JsonSchema;
use secure_channel::ConfiguredPsk;
use serde::Serialize;

use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::key::KeyAction;
use crate::report;
use crate::spec::secret::{self, Key};

/// For programs: what a secret or a TLS key is.
#[derive(Serialize, JsonSchema)]
pub(super) struct Shown {
    /// True for a TLS key.
    is_tls_key: bool,
    /// The hash function that transforms it, by its number: 0 is none.
    hmac: u8,
    /// Bytes of its key.
    key_length: usize,
    /// The checksum in it.
    crc: u32,
    /// By this it can be compared; nothing else can be done with it.
    fingerprint: String,
    /// The secret or TLS key itself, where it was just made and not written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl Shown {
    fn of(key: &Key) -> Self {
        match key {
            Key::Secret(secret) => Self {
                is_tls_key: false,
                hmac: secret.transform().map_or(0, Hash::id),
                key_length: secret.length(),
                crc: secret.checksum(),
                fingerprint: secret.fingerprint(),
                secret: None,
            },
            Key::Tls(psk) => Self {
                is_tls_key: true,
                hmac: psk.hash().map_or(0, secure_channel::Hash::id),
                key_length: psk.length(),
                crc: psk.checksum(),
                fingerprint: psk.fingerprint(),
                secret: None,
            },
        }
    }
}

/// Does what was typed.
pub(super) fn run(action: &KeyAction) -> Result<(), Failure> {
    match action {
        KeyAction::Generate { tls, hmac, key_length, nqn, output, format } => {
            let (key, text) = if *tls {
                let psk = generate_psk(hmac.unwrap_or(1), *key_length).map_err(Failure::usage)?;
                let text = psk.reveal();
                (Key::Tls(psk), text)
            } else {
                let secret =
                    generate(hmac.unwrap_or(0), *key_length, nqn.as_deref()).map_err(Failure::usage)?;
                let text = secret.reveal();
                (Key::Secret(secret), text)
            };
            let mut shown = Shown::of(&key);
            let printed = match output {
                Some(path) => {
                    write_secret(path, &text)?;
                    let what = if *tls { "TLS key" } else { "secret" };
                    format!("{} has the {what} {}\n", path.display(), shown.fingerprint)
                }
                None => {
                    shown.secret = Some(text.to_string());
                    format!("{}\n", *text)
                }
            };
            print(format.output_format, &shown, printed)
        }
        KeyAction::Inspect { file, format } => {
            let key = secret::read::<Key>(file).map_err(Failure::usage)?;
            let shown = Shown::of(&key);
            let (transform, suite) = match &key {
                Key::Secret(secret) => (secret.transform().map(Hash::name), String::new()),
                Key::Tls(psk) => {
                    (psk.hash().map(secure_channel::Hash::name), format!(", for {}", psk.usual_suite()))
                }
            };
            let text = format!(
                "transformation  {}\nkey             {} bytes{suite}\nchecksum        {:08x}\nfingerprint     {}\n",
                transform.unwrap_or("none"),
                shown.key_length,
                shown.crc,
                shown.fingerprint
            );
            print(format.output_format, &shown, text)
        }
        KeyAction::Check { file, format } => {
            let shown = Shown::of(&secret::read(file).map_err(Failure::usage)?);
            let Shown { hmac, key_length, crc, .. } = shown;
            let text = format!("Key is valid (HMAC {hmac}, length {key_length}, CRC {crc:08x})\n");
            print(format.output_format, &shown, text)
        }
        KeyAction::Identity(flags) => identity::run(flags),
    }
}

fn print(format: OutputFormat, shown: &Shown, text: String) -> Result<(), Failure> {
    match format {
        OutputFormat::Normal => report::print_exactly(text),
        OutputFormat::Json => report::print_json(shown),
    }
}

fn generate(hmac: u8, key_length: Option<usize>, nqn: Option<&str>) -> Result<Secret, String> {
    let transform = Hash::of(hmac);
    let length = key_length.unwrap_or(transform.map_or(32, Hash::length));
    let secret = Secret::new(&random(length), transform);
    let secret = secret.map_err(|_| format!("--key-length {length}: a key has 32, 48 or 64 bytes"))?;
    match nqn {
        None => Ok(secret),
        Some(_) if transform.is_none() => Err("--nqn: without --hmac nothing is transformed".to_owned()),
        Some(nqn) => Ok(secret.transformed(nqn)),
    }
}

fn generate_psk(hmac: u8, key_length: Option<usize>) -> Result<ConfiguredPsk, String> {
    let hash = secure_channel::Hash::of(hmac);
    if hash.is_none() && hmac != 0 {
        return Err(format!("--hmac {hmac}: TLS keys have 0, 1 (SHA-256) and 2 (SHA-384)"));
    }
    let length = key_length.unwrap_or(hash.map_or(32, secure_channel::Hash::length));
    let lengths = "32 bytes with --hmac 1, 48 with --hmac 2, and either with --hmac 0";
    ConfiguredPsk::new(&random(length), hash)
        .map_err(|_| format!("--key-length {length}: a TLS key has {lengths}"))
}

fn random(length: usize) -> zeroize::Zeroizing<Vec<u8>> {
    let mut key = zeroize::Zeroizing::new(vec![0; length]);
    engine::ring::fill_random(&mut key);
    key
}

/// Writes a secret into a new file that only its owner can read.
pub(super) fn write_secret(path: &Path, secret: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let what = format!("{} cannot be written: {error}", path.display());
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Failure::usage(format!("{what}; an existing file is not replaced: name another one"))
            }
            _ => Failure::failed(what),
        }
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let text = zeroize::Zeroizing::new(format!("{secret}\n"));
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}
