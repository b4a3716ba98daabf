//! Which secrets and TLS keys a host has to have, by the files that hold them, or sealed: a configuration can be shown to
//! anybody, and a secret cannot.

use std::path::{Path, PathBuf};

use authentication::{Concatenation, Group, Hash};
use serde::{Deserialize, Serialize};

use super::sealed_secret::{KeyKind, KeySource, SealedSecret};
use super::{names, written};
use crate::target::TargetError;

/// Secrets and TLS keys of one host. A host with a secret must authenticate (DH-HMAC-CHAP).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HostKey")]
pub struct HostKeyConfig {
    /// NQN of the host.
    #[serde(deserialize_with = "written::nqn")]
    pub host: String,
    /// File with the host's secret, `DHHC-1:…`, readable for the target's user and group only. Each of several
    /// lines is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_secret_file: Option<PathBuf>,
    /// File with the subsystem's secret, for hosts that require the target to authenticate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_ctrl_secret_file: Option<PathBuf>,
    /// Hash functions to accept, the preferred one first: `sha256`, `sha384`, `sha512`. By default all.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub dhchap_hash: Vec<Hash>,
    /// Diffie-Hellman groups to accept, the preferred one first: `null`, `ffdhe2048` to `ffdhe8192`, `secp256r1`,
    /// `secp384r1`, `mlkem768`, `mlkem1024`, `secp256r1mlkem768`, `secp384r1mlkem1024`. By default those of the
    /// subsystem.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub dhchap_dhgroup: Vec<Group>,
    /// File with the key of the host's TLS connections, `NVMeTLSkey-1:…`, under the same rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_key_file: Option<PathBuf>,
    /// Derives the key of the host's TLS connections from its authentication (secure channel concatenation,
    /// nvme-cli's `--concat`). The host then authenticates without TLS, even where TLS is required, and
    /// reconnects with TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls_concat: bool,
    /// The host's secret, instead of a file: sealed with the key of `--encryption-key`, as the target has written it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_secret_sealed: Option<SealedSecret>,
    /// The secret by which the subsystem authenticates to the host, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_ctrl_secret_sealed: Option<SealedSecret>,
    /// The key of the host's TLS connections, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_key_sealed: Option<SealedSecret>,
}

impl HostKeyConfig {
    /// The secret of this host in this file, with all hash functions and groups.
    pub fn new(host: &str, dhchap_secret_file: PathBuf) -> Self {
        Self { dhchap_secret_file: Some(dhchap_secret_file), ..Self::empty(host) }
    }

    /// The TLS key of this host in this file, and no secret.
    pub fn tls(host: &str, tls_key_file: PathBuf) -> Self {
        Self { tls_key_file: Some(tls_key_file), ..Self::empty(host) }
    }

    /// Neither a secret nor a TLS key, yet.
    pub fn empty(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            dhchap_secret_file: None,
            dhchap_ctrl_secret_file: None,
            dhchap_hash: Vec::new(),
            dhchap_dhgroup: Vec::new(),
            tls_key_file: None,
            tls_concat: false,
            dhchap_secret_sealed: None,
            dhchap_ctrl_secret_sealed: None,
            tls_key_sealed: None,
        }
    }

    /// True if the host has a secret, with which it has to authenticate.
    pub const fn has_secret(&self) -> bool {
        self.dhchap_secret_file.is_some() || self.dhchap_secret_sealed.is_some()
    }

    /// True if the subsystem has a secret for this host, by which it authenticates to it.
    pub const fn has_controller_secret(&self) -> bool {
        self.dhchap_ctrl_secret_file.is_some() || self.dhchap_ctrl_secret_sealed.is_some()
    }

    /// True if the host has a TLS key.
    pub const fn has_tls_key(&self) -> bool {
        self.tls_key_file.is_some() || self.tls_key_sealed.is_some()
    }

    /// True if one of the host's keys is encrypted in the configuration.
    pub fn has_sealed(&self) -> bool {
        KeyKind::ALL.into_iter().any(|kind| self.sealed(kind).is_some())
    }

    /// Encrypted key of this kind, if there is one.
    pub const fn sealed(&self, kind: KeyKind) -> Option<&SealedSecret> {
        match kind {
            KeyKind::Secret => self.dhchap_secret_sealed.as_ref(),
            KeyKind::ControllerSecret => self.dhchap_ctrl_secret_sealed.as_ref(),
            KeyKind::TlsKey => self.tls_key_sealed.as_ref(),
        }
    }

    /// Source of the key of this kind.
    pub(crate) fn source(&self, kind: KeyKind) -> Option<KeySource<'_>> {
        let file = match kind {
            KeyKind::Secret => &self.dhchap_secret_file,
            KeyKind::ControllerSecret => &self.dhchap_ctrl_secret_file,
            KeyKind::TlsKey => &self.tls_key_file,
        };
        let sealed = self.sealed(kind).map(|sealed| KeySource::Sealed { sealed, kind, host: &self.host });
        file.as_deref().map(KeySource::File).or(sealed)
    }

    /// The files that it names, each with the name of its setting.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("dhchap_secret_file", &self.dhchap_secret_file),
            ("dhchap_ctrl_secret_file", &self.dhchap_ctrl_secret_file),
            ("tls_key_file", &self.tls_key_file),
        ];
        files.into_iter().filter_map(|(name, file)| Some((name, file.as_deref()?)))
    }

    /// The same, each of which can be replaced by another.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = [&mut self.dhchap_secret_file, &mut self.dhchap_ctrl_secret_file, &mut self.tls_key_file];
        files.into_iter().flatten()
    }

    /// Sees that it has a key, and nothing that means nothing, in a subsystem with these groups.
    ///
    /// # Errors
    /// `TargetError::Config`, which says what is missing.
    pub(super) fn check(&self, subsystem_groups: &[Group]) -> Result<(), TargetError> {
        if !self.has_secret() && !self.has_tls_key() {
            return self.wrong("there is neither dhchap_secret_file nor tls_key_file");
        }
        let of_file = |(name, _): (&'static str, &Path)| name.trim_end_matches("_file");
        let is_sealed = |name: &&str| {
            KeyKind::ALL.iter().any(|kind| kind.name() == *name && self.sealed(*kind).is_some())
        };
        if let Some(name) = self.files().map(of_file).find(is_sealed) {
            return self.wrong(&format!("there is {name}_file as well as {name}_sealed"));
        }
        let needing = [
            ("dhchap_ctrl_secret_file", self.dhchap_ctrl_secret_file.is_some()),
            ("dhchap_ctrl_secret_sealed", self.dhchap_ctrl_secret_sealed.is_some()),
            ("dhchap_hash", !self.dhchap_hash.is_empty()),
            ("dhchap_dhgroup", !self.dhchap_dhgroup.is_empty()),
            ("tls_concat", self.tls_concat),
        ];
        if self.tls_concat {
            self.check_concatenation(subsystem_groups)?;
        }
        match needing.iter().find(|(_, is_there)| *is_there && !self.has_secret()) {
            Some((name, _)) => self.wrong(&format!("{name} needs a dhchap_secret_file")),
            None => Ok(()),
        }
    }
}

impl HostKeyConfig {
    /// Sees that a TLS key can come out of the host's authentication.
    fn check_concatenation(&self, subsystem_groups: &[Group]) -> Result<(), TargetError> {
        let groups: &[Group] =
            if self.dhchap_dhgroup.is_empty() { subsystem_groups } else { &self.dhchap_dhgroup };
        let takes = |hash: &Hash| Concatenation::New.takes(*hash);
        if !self.dhchap_hash.is_empty() && !self.dhchap_hash.iter().any(takes) {
            return self.wrong("tls_concat needs sha256 or sha384 in dhchap_hash");
        }
        if !groups.is_empty() && groups.iter().all(|group| *group == Group::Null) {
            return self.wrong("tls_concat needs a group other than null in dhchap_dhgroup");
        }
        if self.has_tls_key() {
            return self.wrong(
                "with tls_concat the TLS key comes out of the authentication; remove tls_key_file or \
                 tls_key_sealed",
            );
        }
        Ok(())
    }

    fn wrong(&self, mistake: &str) -> Result<(), TargetError> {
        Err(TargetError::Config(format!("keys of host {}: {mistake}", self.host)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_of(mut key: HostKeyConfig, change: fn(&mut HostKeyConfig)) -> String {
        change(&mut key);
        key.check(&[]).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn an_entry_has_a_secret_or_a_tls_key() {
        let refused = |change| refused_of(HostKeyConfig::tls("nqn.host", "/key".into()), change);
        assert_eq!(refused(|_| {}), "");
        assert_eq!(refused(|key| *key = HostKeyConfig::new("nqn.host", "/secret".into())), "");
        assert!(
            refused(|key| key.tls_key_file = None).contains("neither dhchap_secret_file nor tls_key_file")
        );
        let alone = refused(|key| key.dhchap_ctrl_secret_file = Some("/secret".into()));
        assert!(alone.contains("dhchap_ctrl_secret_file needs a dhchap_secret_file"), "{alone}");
        assert!(refused(|key| key.dhchap_hash = vec![Hash::Sha256]).contains("dhchap_hash needs"));
        assert!(refused(|key| key.dhchap_dhgroup = vec![Group::Null]).contains("dhchap_dhgroup needs"));
        assert!(refused(|key| key.tls_concat = true).contains("with tls_concat the TLS key comes out"));
        let concat = |change: fn(&mut HostKeyConfig)| {
            refused_of(
                HostKeyConfig { tls_concat: true, ..HostKeyConfig::new("nqn.host", "/s".into()) },
                change,
            )
        };
        assert_eq!(concat(|_| {}), "");
        assert!(concat(|key| key.dhchap_secret_file = None).contains("neither"));
        assert!(concat(|key| key.dhchap_hash = vec![Hash::Sha512]).contains("sha256 or sha384"));
        assert!(concat(|key| key.dhchap_dhgroup = vec![Group::Null]).contains("other than null"));
        assert_eq!(concat(|key| key.dhchap_dhgroup = vec![Group::Null, Group::MlKem768]), "");
        let mut key = HostKeyConfig { tls_concat: true, ..HostKeyConfig::new("nqn.host", "/s".into()) };
        assert!(key.check(&[Group::Null]).unwrap_err().to_string().contains("other than null"));
        key.dhchap_dhgroup = vec![Group::MlKem768];
        assert!(key.check(&[Group::Null]).is_ok(), "the host's own list goes before");
    }

    #[test]
    fn the_files_are_all_that_it_names() {
        let mut key = HostKeyConfig::new("nqn.host", "secret".into());
        key.tls_key_file = Some("key".into());
        key.files_mut().for_each(|file| *file = Path::new("/etc").join(&*file));
        let files: Vec<_> = key.files().collect();
        assert_eq!(
            files,
            [("dhchap_secret_file", Path::new("/etc/secret")), ("tls_key_file", Path::new("/etc/key"))]
        );
    }
}
