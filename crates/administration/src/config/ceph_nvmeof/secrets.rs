//! The secrets and TLS keys of a state, as files that a configuration names. They are written by who asked for the import.

use std::path::{Path, PathBuf};

use engine::secret_file::SecretKind;
use zeroize::Zeroizing;

use super::{Entry, Reader};

/// Letters of a name that a file is named after: with its kind it stays below the 255 that file systems take.
const STEM_MAX: usize = 200;

/// A file that is to be written.
#[derive(PartialEq, Eq)]
pub struct SecretFile {
    pub path: PathBuf,
    /// Content of the file.
    pub text: Zeroizing<String>,
}

impl std::fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The files so far.
pub(super) struct SecretFiles(Vec<SecretFile>);

impl SecretFiles {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn files(self) -> Vec<SecretFile> {
        self.0
    }

    /// The file of a secret, which is one with that of others who have the same secret and name.
    fn add(&mut self, folder: &Path, name: &str, kind: &str, text: Zeroizing<String>) -> PathBuf {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
        let plain = name.chars().take(STEM_MAX).map(|letter| if is_plain(letter) { letter } else { '_' });
        let stem: String = plain.collect();
        for number in 1.. {
            let name = if number == 1 { format!("{stem}.{kind}") } else { format!("{stem}.{number}.{kind}") };
            let path = folder.join(name);
            match self.0.iter().find(|file| file.path == path) {
                Some(file) if file.text == text => return path,
                Some(_) => {}
                None => {
                    self.0.push(SecretFile { path: path.clone(), text });
                    return path;
                }
            }
        }
        unreachable!("there are more numbers than files")
    }
}

/// Fate of a secret.
pub(super) enum Kept {
    /// There is none.
    None,
    Lost,
    File(PathBuf),
}

impl Kept {
    pub(super) fn file(self) -> Option<PathBuf> {
        match self {
            Self::File(path) => Some(path),
            Self::None | Self::Lost => None,
        }
    }
}

/// Field of a secret in an entry, and kind of the secret.
pub(super) struct SecretField {
    pub(super) field: &'static str,
    /// The field that says whether it is encrypted.
    pub(super) encrypted: &'static str,
    /// Name of the kind, which is part of the file's name.
    pub(super) kind: &'static str,
}

impl Reader<'_> {
    /// Secret of a field, as a file that is named after `name`. Messages about it contain nothing of it.
    pub(super) fn secret<T: SecretKind>(&mut self, entry: &Entry, field: &SecretField, name: &str) -> Kept {
        let SecretField { field, encrypted, kind } = field;
        let text = self.text(entry, field).map(Zeroizing::new);
        let (Some(text), Some(is_encrypted)) = (text, self.flag(entry, encrypted)) else { return Kept::Lost };
        if text.is_empty() {
            return Kept::None;
        }
        let plain = match &self.choice.encryption_key {
            _ if !is_encrypted => Ok(text),
            None => Err("it is encrypted: give the gateways' key by --encryption-key"),
            Some(key) => key.decrypt(&text),
        };
        let checked = plain.and_then(|plain| match plain.trim().parse::<T>() {
            Ok(_) => Ok(Zeroizing::new(plain.trim().to_owned())),
            Err(_) => Err("its form, length or checksum is wrong"),
        });
        match checked {
            Ok(text) => {
                let folder = self.choice.secret_dir.as_deref().unwrap_or(Path::new(""));
                Kept::File(self.secrets.add(folder, name, kind, text))
            }
            Err(what) => {
                self.lose(entry, format!("{field}: {what}"));
                Kept::Lost
            }
        }
    }
}
