//! The file with the rights of administrators, and with the storage they may name: tokens by their
//! hash, certificates, users and groups of the machine. It is data; `access` identifies callers.

use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use private_folder::{PrivateFolder, open_own};
use serde::{Deserialize, Serialize};

use super::super::fingerprint::Fingerprint;
use super::super::limits::ACCESS_FILE_BYTES_MAX;
use super::allowed_storage::AllowedStorage;
use super::rights::Rights;

/// First lines of a new file.
const HEAD: &str = "# Who may administer the target, and what they may name. `selvedge token` changes the tokens;\n\
                    # See docs/access.md for other entries.\n\n";

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessFile {
    /// Storage that all callers may name; without it, no limit beside their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<AllowedStorage>,
    #[serde(default, rename = "token", skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<TokenEntry>,
    #[serde(default, rename = "certificate", skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateEntry>,
    #[serde(default, rename = "user", skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<LocalEntry>,
    #[serde(default, rename = "group", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<LocalEntry>,
}

/// A token, by its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEntry {
    /// Name of the token's owner or purpose.
    pub name: String,
    #[serde(flatten)]
    pub rights: Rights,
    /// SHA-256 of the token.
    pub sha256: Fingerprint,
    /// From then on it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// A certificate of a client, by a name in it or by its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateEntry {
    /// A DNS name that the certificate has among its alternative names, or what to call it where the hash is given.
    pub name: String,
    #[serde(flatten)]
    pub rights: Rights,
    /// SHA-256 of the certificate in DER.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Fingerprint>,
}

/// A user or group of the machine, who use the Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalEntry {
    /// Name or number of the user or group.
    pub name: String,
    #[serde(flatten)]
    pub rights: Rights,
}

impl AccessFile {
    /// Reads it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let file = open_own(path).map_err(|error| error.to_string())?;
        let mut text = String::new();
        let read = file.take(ACCESS_FILE_BYTES_MAX + 1).read_to_string(&mut text);
        let length = read.map_err(|error| format!("{shown} cannot be read: {error}"))?;
        if length as u64 > ACCESS_FILE_BYTES_MAX {
            return Err(format!("{shown} has more than {ACCESS_FILE_BYTES_MAX} bytes"));
        }
        Self::parse(&text).map_err(|error| format!("{shown}: {error}"))
    }

    /// Reads the text of one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        file.check()?;
        Ok(file)
    }

    /// Writes it whole, for its owner alone.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        self.check()?;
        let text = toml::to_string(self).map_err(|error| error.to_string())?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| format!("{} is not the name of a file", path.display()))?;
        let folder = PrivateFolder::open(folder).map_err(|error| error.to_string())?;
        let before = std::fs::symlink_metadata(path).ok();
        folder.replace(name, format!("{HEAD}{text}").as_bytes()).map_err(|error| error.to_string())?;
        // Root changes the file of a target that runs as another user.
        let keep = |before: Metadata| {
            std::os::unix::fs::chown(path, Some(before.uid()), Some(before.gid()))?;
            std::fs::set_permissions(path, before.permissions())
        };
        let kept = before.map_or(Ok(()), keep);
        kept.map_err(|error| format!("{} has another owner or mode than before: {error}", path.display()))
    }

    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<(), String> {
        let entries = (self.tokens.iter().map(|entry| ("token", &entry.name, &entry.rights)))
            .chain(self.certificates.iter().map(|entry| ("certificate", &entry.name, &entry.rights)))
            .chain(self.users.iter().map(|entry| ("user", &entry.name, &entry.rights)))
            .chain(self.groups.iter().map(|entry| ("group", &entry.name, &entry.rights)));
        let mut names = Vec::new();
        for (kind, name, rights) in entries {
            let wrong = |what: &str| format!("{kind} `{name}`: {what}");
            if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
                return Err(wrong("a name has no spaces, and at least one character"));
            }
            if names.contains(&(kind, name)) {
                return Err(wrong("there are two of this name"));
            }
            names.push((kind, name));
            rights.check().map_err(|what| wrong(&what))?;
            rights.storage.iter().try_for_each(AllowedStorage::check).map_err(|what| wrong(&what))?;
        }
        self.storage.iter().try_for_each(AllowedStorage::check).map_err(|what| format!("storage: {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::role::Role;

    const FILE: &str = r#"
        [storage]
        directories = ["/srv/images"]
        [[token]]
        name = "prometheus"
        role = "metrics"
        sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        expires = "2027-01-01T00:00:00Z"
        [[certificate]]
        name = "ops.example.org"
        role = "operate"
        subsystems = ["nqn.a"]
        storage = { pools = ["rbd"] }
        [[user]]
        name = "backup"
        role = "read"
        [[group]]
        name = "storage"
        role = "admin"
    "#;

    #[test]
    fn a_file_is_read_and_written() {
        let file = AccessFile::parse(FILE).unwrap();
        assert_eq!(file.tokens[0].rights.role, Role::Metrics);
        assert_eq!(file.tokens[0].expires.unwrap().to_string(), "2027-01-01T00:00:00Z");
        assert_eq!(file.certificates[0].rights.storage.as_ref().unwrap().pools, ["rbd"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.toml");
        file.write(&path).unwrap();
        assert_eq!(AccessFile::read(&path), Ok(file.clone()));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        file.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640, "its readers stay");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o660)).unwrap();
        assert!(AccessFile::read(&path).unwrap_err().contains("may be changed by others"));
    }

    #[test]
    fn an_error_names_the_wrong_setting() {
        let wrong = [
            ("role = \"metrics\"", "role = \"root\"", "unknown variant `root`"),
            ("subsystems = [\"nqn.a\"]", "", "an operator needs `subsystems`"),
            ("role = \"read\"", "role = \"read\"\nsubsystems = [\"nqn.a\"]", "limits the role operate"),
            ("e3b0", "e3b", "64 hexadecimal digits"),
            ("\"/srv/images\"", "\"images\"", "not an absolute path"),
            ("name = \"backup\"", "name = \"back up\"", "no spaces"),
            ("[[group]]", "[[user]]\nname = \"backup\"\nrole = \"admin\"\n[[group]]", "two of this name"),
            ("pools", "pool", "unknown field"),
            ("2027-01-01T00:00:00Z", "tomorrow", "expires"),
        ];
        for (from, to, expected) in wrong {
            let error = AccessFile::parse(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
