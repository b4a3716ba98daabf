//! `selvedge key`: makes secrets for in-band authentication, and says what one is. It shows none but those that it makes.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use authentication::{Hash, Secret};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::key::KeyAction;
use crate::report;
use crate::spec::secret;

/// For programs: what a secret is.
#[derive(Serialize, JsonSchema)]
pub(super) struct Shown {
    /// The hash function that transforms it, by its number: 0 is none.
    hmac: u8,
    /// Bytes of its key.
    key_length: usize,
    /// The checksum in it.
    crc: u32,
    /// By this it can be compared; nothing else can be done with it.
    fingerprint: String,
    /// The secret itself, where it was just made and not written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl Shown {
    fn of(secret: &Secret, reveals: bool) -> Self {
        Self {
            hmac: secret.transform().map_or(0, Hash::id),
            key_length: secret.length(),
            crc: secret.checksum(),
            fingerprint: secret.fingerprint(),
            secret: reveals.then(|| secret.reveal().to_string()),
        }
    }
}

/// Does what was typed.
pub(super) fn run(action: &KeyAction) -> Result<(), Failure> {
    match action {
        KeyAction::Generate { hmac, key_length, nqn, output, format } => {
            let secret = generate(*hmac, *key_length, nqn.as_deref()).map_err(Failure::usage)?;
            if let Some(path) = output {
                write_secret(path, &secret.reveal())?;
            }
            let text = match output {
                Some(path) => format!("{} has the secret {}\n", path.display(), secret.fingerprint()),
                None => format!("{}\n", *secret.reveal()),
            };
            print(format.output_format, &Shown::of(&secret, output.is_none()), text)
        }
        KeyAction::Inspect { file, format } => {
            let secret = secret::read(file).map_err(Failure::failed)?;
            let shown = Shown::of(&secret, false);
            let transform = secret.transform().map_or("none", Hash::name);
            let text = format!(
                "transformation  {transform}\nkey             {} bytes\nchecksum        {:08x}\nfingerprint     {}\n",
                shown.key_length, shown.crc, shown.fingerprint
            );
            print(format.output_format, &shown, text)
        }
        KeyAction::Check { file, format } => {
            let shown = Shown::of(&secret::read(file).map_err(Failure::failed)?, false);
            let Shown { hmac, key_length, crc, .. } = shown;
            let text = format!("Key is valid (HMAC {hmac}, length {key_length}, CRC {crc:08x})\n");
            print(format.output_format, &shown, text)
        }
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
    let mut key = zeroize::Zeroizing::new(vec![0; length]);
    engine::ring::fill_random(&mut key);
    let secret = Secret::new(&key, transform);
    let secret = secret.map_err(|_| format!("--key-length {length}: a key has 32, 48 or 64 bytes"))?;
    match nqn {
        None => Ok(secret),
        Some(_) if transform.is_none() => Err("--nqn: without --hmac nothing is transformed".to_owned()),
        Some(nqn) => Ok(secret.transformed(nqn)),
    }
}

/// Writes a secret into a new file that nobody else can read.
pub(super) fn write_secret(path: &Path, secret: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let hint = if error.kind() == std::io::ErrorKind::AlreadyExists {
            "; a secret that is there is not replaced: name another file"
        } else {
            ""
        };
        Failure::failed(format!("{} cannot be written: {error}{hint}", path.display()))
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let text = zeroize::Zeroizing::new(format!("{secret}\n"));
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}
