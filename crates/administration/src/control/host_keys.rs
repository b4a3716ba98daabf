//! `/v1/subsystems/{nqn}/host_keys`: secrets and TLS keys of hosts, by files on the target's machine, or as they are, which the
//! target keeps sealed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use authentication::Secret;
use engine::secret_file::{self, SecretKind};
use engine::target::{HostKeyConfig, KeyKind, SealedSecret, SubsystemConfig};
use secure_channel::ConfiguredPsk;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::administration::Permissions;
use super::ask::{Answer, Ask};
use super::namespaces::{check_path, field};
use super::refusal::Refusal;
use super::subsystems::{change, show};

/// Status if the target has no key to seal a secret with.
pub(super) const CANNOT_SEAL: u16 = 424;

/// A secret or TLS key as it is; several lines are several.
#[derive(Clone, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Plain(#[schemars(with = "String")] Zeroizing<String>);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Zeroizing::new).map(Self)
    }
}

impl Serialize for Plain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

impl Plain {
    /// A secret that was read elsewhere.
    pub const fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }
}

/// The secrets and TLS keys of a host, by files on the target's machine or as they are; one of both at least.
#[derive(Clone, Debug, Default, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewHostKey")]
pub struct HostKeyBody {
    /// File with the host's secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_secret_file: Option<PathBuf>,
    /// File with the secret by which the subsystem authenticates to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_ctrl_secret_file: Option<PathBuf>,
    /// Hash functions that are taken, the preferred one first; all without any.
    #[serde(default)]
    pub dhchap_hash: Vec<String>,
    /// Groups that are taken, the preferred one first; all without any.
    #[serde(default)]
    pub dhchap_dhgroup: Vec<String>,
    /// File with the key of the host's TLS connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_key_file: Option<PathBuf>,
    /// True if the key of the host's TLS connections is derived from its authentication (secure
    /// channel concatenation).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls_concat: bool,
    /// For how many seconds the secrets and keys that these replace are still accepted.
    #[serde(default)]
    pub overlap_s: u32,
    /// The host's secret itself, `DHHC-1:…`, instead of a file. The target keeps it sealed with its `--encryption-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_secret: Option<Plain>,
    /// The secret by which the subsystem authenticates to the host, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap_ctrl_secret: Option<Plain>,
    /// The key of the host's TLS connections, `NVMeTLSkey-1:…`, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<Plain>,
}

/// Changes of a host's keys. Keys that are left out stay; null removes a key.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HostKeyPatch")]
pub(crate) struct HostKeyPatch {
    /// The host's secret.
    #[serde(default, deserialize_with = "named")]
    #[schemars(with = "Option<String>")]
    pub(crate) dhchap_secret: Option<Option<Plain>>,
    /// The secret by which the subsystem authenticates to the host.
    #[serde(default, deserialize_with = "named")]
    #[schemars(with = "Option<String>")]
    pub(crate) dhchap_ctrl_secret: Option<Option<Plain>>,
    /// The key of the host's TLS connections.
    #[serde(default, deserialize_with = "named")]
    #[schemars(with = "Option<String>")]
    pub(crate) tls_key: Option<Option<Plain>>,
    /// For how many seconds the secrets and keys that these replace are still accepted.
    #[serde(default)]
    pub(crate) overlap_s: u32,
}

/// The secret by which a subsystem authenticates to all hosts that have one; null takes it away.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ControllerKey")]
pub(crate) struct ControllerKeyBody {
    pub(crate) dhchap_ctrl_secret: Option<Plain>,
}

/// A setting that may be null, where it is there.
fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Plain>>, D::Error> {
    Option::<Plain>::deserialize(deserializer).map(Some)
}

/// Sets or replaces a host's secrets and TLS keys. Their files are read again even if nothing else
/// changes.
pub(super) fn put(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let body: HostKeyBody = ask.body()?;
    let wanted = key_of(ask, ask.part("host"), &body, "")?;
    let changed = change_keys(ask, body.overlap_s, |subsystem| {
        let before = subsystem.host_keys.iter().find(|known| known.host == wanted.host);
        before.map_or(Ok(()), |before| check_nothing_is_lost(before, &wanted))?;
        set(subsystem, wanted.clone());
        Ok(())
    });
    ask.beside_rehearsed(|| read_files(&wanted))?;
    changed?;
    Answer::with(&wanted)
}

/// Reads the files of an entry, as its change would.
fn read_files(key: &HostKeyConfig) -> Result<Vec<String>, Refusal> {
    let mut words = Vec::new();
    for (name, file) in key.files() {
        let found = match name {
            "tls_key_file" => secret_file::read::<ConfiguredPsk>(file).map(|keys| keys.len()),
            _ => secret_file::read::<Secret>(file).map(|secrets| secrets.len()),
        };
        let found = found.map_err(|error| Refusal::unprocessable(error).about(name))?;
        let (keys, file) = (chart::units::plural(found as u64, "key"), file.display());
        words.push(format!("{file} is read again: {keys}"));
    }
    Ok(words)
}

/// The entry of a host, as a body has it.
pub(super) fn key_of(
    ask: &Ask<'_>,
    host: &str,
    body: &HostKeyBody,
    base: &str,
) -> Result<HostKeyConfig, Refusal> {
    let seal = |secret: &Option<Plain>, kind| {
        let sealed = secret.as_ref().map(|secret| seal(ask, secret, kind, host)).transpose();
        sealed.map_err(|refusal| in_field(refusal, base))
    };
    let key = HostKeyConfig {
        dhchap_secret_file: body.dhchap_secret_file.clone(),
        dhchap_ctrl_secret_file: body.dhchap_ctrl_secret_file.clone(),
        dhchap_hash: parsed(&body.dhchap_hash, &field(base, "dhchap_hash"))?,
        dhchap_dhgroup: parsed(&body.dhchap_dhgroup, &field(base, "dhchap_dhgroup"))?,
        tls_key_file: body.tls_key_file.clone(),
        tls_concat: body.tls_concat,
        dhchap_secret_sealed: seal(&body.dhchap_secret, KeyKind::Secret)?,
        dhchap_ctrl_secret_sealed: seal(&body.dhchap_ctrl_secret, KeyKind::ControllerSecret)?,
        tls_key_sealed: seal(&body.tls_key, KeyKind::TlsKey)?,
        ..HostKeyConfig::empty(host)
    };
    check(&key, base)?;
    Ok(key)
}

/// Changes some keys of a host, and leaves the others.
pub(super) fn patch(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let body: HostKeyPatch = ask.body()?;
    let host = ask.part("host");
    let sealed = |named: &Option<Option<Plain>>, kind| {
        let seal =
            |secret: &Option<Plain>| secret.as_ref().map(|secret| seal(ask, secret, kind, host)).transpose();
        named.as_ref().map(seal).transpose()
    };
    let secret = sealed(&body.dhchap_secret, KeyKind::Secret)?;
    let controller = sealed(&body.dhchap_ctrl_secret, KeyKind::ControllerSecret)?;
    let tls = sealed(&body.tls_key, KeyKind::TlsKey)?;
    let (after, _) = change_keys(ask, body.overlap_s, |subsystem| {
        let before = subsystem.host_keys.iter().find(|known| known.host == host).cloned();
        let mut key = before.unwrap_or_else(|| HostKeyConfig::empty(host));
        if let Some(sealed) = secret {
            if sealed.is_none() {
                // What is left means something without a secret.
                let HostKeyConfig { tls_key_file, tls_key_sealed, .. } = key;
                key = HostKeyConfig { tls_key_file, tls_key_sealed, ..HostKeyConfig::empty(host) };
            }
            (key.dhchap_secret_file, key.dhchap_secret_sealed) = (None, sealed);
        }
        if let Some(sealed) = controller {
            (key.dhchap_ctrl_secret_file, key.dhchap_ctrl_secret_sealed) = (None, sealed);
        }
        if let Some(sealed) = tls {
            (key.tls_key_file, key.tls_key_sealed) = (None, sealed);
        }
        if key.has_secret() || key.has_tls_key() {
            set(subsystem, key.clone());
        } else {
            subsystem.host_keys.retain(|known| known.host != host);
        }
        Ok(key)
    })?;
    Answer::with(&after)
}

/// Gives a subsystem the secret by which it authenticates to all hosts that have one, or takes it away.
pub(super) fn put_controller_key(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let body: ControllerKeyBody = ask.body()?;
    let sealed = body.dhchap_ctrl_secret.map(|secret| seal(ask, &secret, KeyKind::ControllerSecret, ""));
    let sealed = sealed.transpose()?;
    change_keys(ask, 0, |subsystem| {
        subsystem.dhchap_ctrl_secret_sealed = sealed;
        Ok(())
    })?;
    show(ask)
}

/// Lets a host in without a secret and a TLS key again.
pub(super) fn remove(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let host = ask.part("host");
    change(ask, |subsystem| {
        let before = subsystem.host_keys.len();
        subsystem.host_keys.retain(|known| known.host != host);
        if subsystem.host_keys.len() == before {
            return Err(Refusal::not_found(format!("host {host} has no key")));
        }
        Ok(())
    })?;
    Ok(Answer::done())
}

fn change_keys<T>(
    ask: &Ask<'_>,
    overlap_s: u32,
    edit: impl FnOnce(&mut SubsystemConfig) -> Result<T, Refusal>,
) -> Result<(T, Vec<engine::target::Change>), Refusal> {
    let overlap = Duration::from_secs(overlap_s.into());
    let permissions = Permissions { new_secrets: Some(overlap), ..Permissions::default() };
    ask.change(permissions, |fabric| edit(ask.subsystem_mut(fabric)?))
}

/// Puts the entry of a host in the place of the one that it had.
pub(super) fn set(subsystem: &mut SubsystemConfig, key: HostKeyConfig) {
    subsystem.host_keys.retain(|known| known.host != key.host);
    subsystem.host_keys.push(key);
}

/// A secret or key as a configuration may have it, for a host of the subsystem that the path names.
fn seal(ask: &Ask<'_>, secret: &Plain, kind: KeyKind, host: &str) -> Result<SealedSecret, Refusal> {
    let name = Path::new(kind.name());
    let text = secret.0.as_str();
    let checked = match kind {
        KeyKind::Secret | KeyKind::ControllerSecret => check_lines::<Secret>(text, name),
        KeyKind::TlsKey => check_lines::<ConfiguredPsk>(text, name),
    };
    checked.map_err(|what| Refusal::unprocessable(what).about(kind.name()))?;
    ask.administration.seal(text, kind, ask.part("nqn"), host).ok_or_else(|| {
        let what = "the target has no key for sealing";
        let refusal = Refusal::new(CANNOT_SEAL, what).about(kind.name());
        refusal
            .hint("start it with --encryption-key FILE, the same at all gateways of a group; or name a file")
    })
}

fn check_lines<T: SecretKind>(text: &str, name: &Path) -> Result<(), String> {
    secret_file::read_from::<T>(text.as_bytes(), name).map(drop).map_err(|error| error.to_string())
}

fn in_field(refusal: Refusal, base: &str) -> Refusal {
    match refusal.field.clone() {
        Some(name) => refusal.about(field(base, name)),
        None => refusal,
    }
}

/// Refuses a host's keys that would drop some of those that it has while others are set: it could no longer connect, or would
/// connect with less protection.
fn check_nothing_is_lost(before: &HostKeyConfig, wanted: &HostKeyConfig) -> Result<(), Refusal> {
    let has_tls = |key: &HostKeyConfig| key.tls_concat || key.has_tls_key();
    let kinds = [
        ("dhchap_secret_file", "secret", before.has_secret(), wanted.has_secret()),
        (
            "dhchap_ctrl_secret_file",
            "secret of the subsystem",
            before.has_controller_secret(),
            wanted.has_controller_secret(),
        ),
        ("tls_key_file", "TLS key", before.has_tls_key(), wanted.has_tls_key()),
        ("tls_concat", "TLS key by its authentication", before.tls_concat, has_tls(wanted)),
    ];
    for (name, what, before, wanted) in kinds {
        if before && !wanted {
            let what = format!("the host has a {what}, which would be lost");
            let refusal = Refusal::conflict(what).about(name);
            return Err(refusal.hint("name it too, or remove the host's keys first"));
        }
    }
    Ok(())
}

fn parsed<T: FromStr<Err = String>>(names: &[String], of: &str) -> Result<Vec<T>, Refusal> {
    let parse = |name: &String| name.parse().map_err(|what: String| Refusal::unprocessable(what).about(of));
    names.iter().map(parse).collect()
}

/// Checks the files that an entry names. Mistakes name fields under `base`.
pub(super) fn check(key: &HostKeyConfig, base: &str) -> Result<(), Refusal> {
    for (name, file) in key.files() {
        check_path(file).map_err(|refusal| refusal.about(field(base, name)))?;
    }
    Ok(())
}
