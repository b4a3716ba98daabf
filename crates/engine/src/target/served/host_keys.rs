//! The secrets and TLS keys of a subsystem's hosts, as they were read from their files, and which of them are accepted for
//! how long.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use authentication::{Concatenation, ControllerTerms, Group, Hash, Secret};
use secure_channel::ConfiguredPsk;

use crate::limits::SECRETS_PER_HOST_MAX;
use crate::ring::Moment;
use crate::secret_file::{self, Line, SecretFileError};
use crate::target::config::HostKeyConfig;

/// The secrets and TLS keys of a subsystem's hosts, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostKeys(HashMap<String, Keys>);

/// Those of one host.
#[derive(Clone, Debug)]
struct Keys {
    /// The host's own secrets; without any it need not authenticate.
    secrets: Accepted<Secret>,
    /// The subsystem's, for this host.
    controller: Option<Secret>,
    hashes: Vec<Hash>,
    groups: Vec<Group>,
    tls: Accepted<ConfiguredPsk>,
    /// Whether the host's TLS key comes out of its authentication.
    concatenates: bool,
}

/// What is accepted of a host.
#[derive(Clone, Debug)]
struct Accepted<T> {
    /// What its file has.
    current: Vec<T>,
    /// What it had before, and until when that is accepted.
    former: Vec<(T, Moment)>,
    /// When its file was written.
    written: Option<SystemTime>,
}

impl<T: Line + Clone + PartialEq> Accepted<T> {
    fn read(config: &HostKeyConfig, file: Option<&Path>) -> Result<Self, SecretFileError> {
        let current = file.map_or_else(|| Ok(Vec::new()), |file| read_for(config, file))?;
        let written = file.and_then(|file| std::fs::metadata(file).ok()?.modified().ok());
        Ok(Self { current, former: Vec::new(), written })
    }

    /// Has what `before` accepts accepted until `until`, at most. Where nothing is asked for any longer, nothing is kept.
    fn succeed(&mut self, before: &Self, until: Moment, now: Moment) {
        if self.current.is_empty() {
            return;
        }
        let former = before.former.iter().map(|(key, end)| (key, *end));
        let replaced = before.current.iter().map(|key| (key, until));
        self.former = former
            .chain(replaced)
            .filter(|(key, end)| *end > now && !self.current.contains(key))
            .map(|(key, end)| (key.clone(), end))
            .take(SECRETS_PER_HOST_MAX)
            .collect();
    }

    /// All that is accepted now, the present ones first.
    fn now(&self, now: Moment) -> impl Iterator<Item = &T> {
        let former = self.former.iter().filter(move |(_, end)| *end > now).map(|(key, _)| key);
        self.current.iter().chain(former)
    }
}

impl HostKeys {
    /// Reads the files of these hosts, but for those that are known by the same configuration.
    ///
    /// # Errors
    /// Which file is wrong, how, and what to do.
    pub(crate) fn read(
        configs: &[HostKeyConfig],
        known: Option<(&[HostKeyConfig], &Self)>,
    ) -> Result<Self, SecretFileError> {
        let mut all = HashMap::with_capacity(configs.len());
        for config in configs {
            let same = known.filter(|(before, _)| before.contains(config));
            if let Some(keys) = same.and_then(|(_, keys)| keys.0.get(&config.host)) {
                all.insert(config.host.clone(), keys.clone());
                continue;
            }
            let secrets = Accepted::read(config, config.dhchap_secret_file.as_deref())?;
            let controller = Accepted::read(config, config.dhchap_ctrl_secret_file.as_deref())?;
            let keys = Keys {
                secrets,
                controller: controller.current.into_iter().next(),
                hashes: or_all(&config.dhchap_hash, &Hash::ALL),
                groups: or_all(&config.dhchap_dhgroup, &Group::PREFERRED),
                tls: Accepted::read(config, config.tls_key_file.as_deref())?,
                concatenates: config.tls_concat,
            };
            all.insert(config.host.clone(), keys);
        }
        Ok(Self(all))
    }

    /// All that is wrong with the files of these hosts.
    pub(crate) fn faults(configs: &[HostKeyConfig]) -> Vec<SecretFileError> {
        let of = |config: &HostKeyConfig| {
            let secrets = [config.dhchap_secret_file.as_deref(), config.dhchap_ctrl_secret_file.as_deref()];
            let secrets = secrets.into_iter().filter_map(|file| Accepted::<Secret>::read(config, file).err());
            let tls = Accepted::<ConfiguredPsk>::read(config, config.tls_key_file.as_deref()).err();
            secrets.chain(tls).collect::<Vec<_>>()
        };
        configs.iter().flat_map(of).collect()
    }

    /// The new secrets and keys in place of these, each of which is still accepted for `overlap` where the host still has one.
    pub(crate) fn succeeded_by(&self, mut new: Self, overlap: Duration, now: Moment) -> Self {
        let until = now.after(overlap);
        for (host, keys) in &mut new.0 {
            let Some(before) = self.0.get(host) else { continue };
            keys.secrets.succeed(&before.secrets, until, now);
            keys.tls.succeed(&before.tls, until, now);
        }
        new
    }

    /// Whether this host has to authenticate.
    pub(crate) fn has_secret(&self, host_nqn: &str) -> bool {
        self.with_secret(host_nqn).is_some()
    }

    /// Whether this host's TLS key comes out of its authentication.
    pub(crate) fn concatenates(&self, host_nqn: &str) -> bool {
        self.with_secret(host_nqn).is_some_and(|keys| keys.concatenates)
    }

    /// When the files of this host's secret and TLS key were written, if it has them.
    pub(crate) fn written(&self, host_nqn: &str) -> (Option<SystemTime>, Option<SystemTime>) {
        self.0.get(host_nqn).map_or((None, None), |keys| (keys.secrets.written, keys.tls.written))
    }

    fn with_secret(&self, host_nqn: &str) -> Option<&Keys> {
        self.0.get(host_nqn).filter(|keys| !keys.secrets.current.is_empty())
    }

    /// What is asked of this host, if it has to authenticate; whether a TLS key is to come of it, the connection decides.
    pub(crate) fn terms(&self, host_nqn: &str, subsystem_nqn: &str, now: Moment) -> Option<ControllerTerms> {
        let keys = self.with_secret(host_nqn)?;
        Some(ControllerTerms {
            host_nqn: host_nqn.to_owned(),
            subsystem_nqn: subsystem_nqn.to_owned(),
            secrets: keys.secrets.now(now).cloned().collect(),
            controller_secret: keys.controller.clone(),
            hashes: keys.hashes.clone(),
            groups: keys.groups.clone(),
            concatenation: Concatenation::None,
        })
    }

    /// The TLS keys that are accepted of this host, the present ones before the former ones.
    pub(crate) fn psks(&self, host_nqn: &str, now: Moment) -> Vec<ConfiguredPsk> {
        self.0.get(host_nqn).map_or_else(Vec::new, |keys| keys.tls.now(now).cloned().collect())
    }
}

fn read_for<T: Line>(config: &HostKeyConfig, file: &Path) -> Result<Vec<T>, SecretFileError> {
    let of = |error: SecretFileError| error.of(format_args!("{}s of host {}", T::NAME, config.host));
    secret_file::read(file).map_err(of)
}

fn or_all<T: Copy>(some: &[T], all: &[T]) -> Vec<T> {
    if some.is_empty() { all.to_vec() } else { some.to_vec() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const HOST: &str = "nqn.2026-01.org.example:host";

    fn written(folder: &tempfile::TempDir, text: &str, mode: u32) -> HostKeyConfig {
        let path = folder.path().join("secret");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        HostKeyConfig::new(HOST, path)
    }

    fn secret(byte: u8) -> Secret {
        Secret::new(&[byte; 32], None).unwrap()
    }

    fn accepted(keys: &HostKeys, now: u64) -> Vec<Secret> {
        keys.terms(HOST, "nqn.a", Moment(now)).unwrap().secrets
    }

    #[test]
    fn a_secret_is_accepted_until_the_overlap_ends() {
        let folder = tempfile::tempdir().unwrap();
        let keys = |byte| {
            let text = format!("# new\n\n{}\n", *secret(byte).reveal());
            HostKeys::read(&[written(&folder, &text, 0o600)], None).unwrap()
        };
        let first = keys(1);
        assert!(first.has_secret(HOST) && !first.has_secret("nqn.other"));
        assert_eq!(accepted(&first, 5), [secret(1)]);
        let second = first.succeeded_by(keys(2), Duration::from_nanos(100), Moment(1000));
        assert_eq!(accepted(&second, 1099), [secret(2), secret(1)]);
        assert_eq!(accepted(&second, 1100), [secret(2)]);
        // A third one while the first is still accepted does not extend its time.
        let third = second.succeeded_by(keys(3), Duration::from_nanos(200), Moment(1050));
        assert_eq!(accepted(&third, 1099), [secret(3), secret(1), secret(2)]);
        assert_eq!(accepted(&third, 1100), [secret(3), secret(2)]);
        let without = first.succeeded_by(keys(2), Duration::ZERO, Moment(1000));
        assert_eq!(accepted(&without, 1000), [secret(2)]);
        assert!(!third.succeeded_by(HostKeys::default(), Duration::MAX, Moment(2000)).has_secret(HOST));
    }

    #[test]
    fn a_host_whose_configuration_stays_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let configs = [written(&folder, &secret(1).reveal(), 0o600)];
        let keys = HostKeys::read(&configs, None).unwrap();
        written(&folder, "nonsense", 0o600);
        let same = HostKeys::read(&configs, Some((&configs, &keys))).unwrap();
        assert_eq!(accepted(&same, 0), [secret(1)]);
        assert_eq!(same.written(HOST), keys.written(HOST));
        let mut other = configs.clone();
        other[0].dhchap_hash = vec![Hash::Sha512];
        assert!(HostKeys::read(&other, Some((&configs, &keys))).is_err());
    }

    #[test]
    fn a_file_that_is_wrong_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let wrong =
            |text: &str, mode| HostKeys::read(&[written(&folder, text, mode)], None).unwrap_err().to_string();
        let good = secret(1).reveal();
        let open = wrong(&good, 0o644);
        assert!(open.contains("can be read by everybody; `chmod o= "), "{open}");
        assert!(wrong("\n# nothing\n", 0o600).contains("has no secret"));
        let cut = wrong(&format!("{}\n{}", *good, &good[..20]), 0o600);
        assert!(cut.contains("secret, line 2: ") && !cut.contains(&good[10..20]), "{cut}");
        let mut config = written(&folder, &good, 0o600);
        config.dhchap_secret_file = Some(folder.path().to_owned());
        let what = |config: &HostKeyConfig| {
            let faults = HostKeys::faults(std::slice::from_ref(config));
            let first = HostKeys::read(std::slice::from_ref(config), None).unwrap_err();
            assert_eq!(faults[0], first);
            faults.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(what(&config)[0].contains("is not a file"));
        config.dhchap_secret_file = Some("missing".into());
        config.dhchap_ctrl_secret_file = Some("missing too".into());
        config.tls_key_file = Some("missing key".into());
        let all = what(&config);
        assert!(all[0].contains("missing cannot be read") && all[1].contains("missing too"), "{all:?}");
        assert!(all[2].contains("TLS keys of host") && all[2].contains("missing key"), "{all:?}");
        config = HostKeyConfig::tls(HOST, written(&folder, &good, 0o600).dhchap_secret_file.unwrap());
        assert!(what(&config)[0].contains("not a TLS key"), "a secret is not a TLS key");
    }

    #[test]
    fn a_tls_key_is_accepted_until_the_overlap_ends() {
        let folder = tempfile::tempdir().unwrap();
        let psk = |byte| ConfiguredPsk::new(&[byte; 32], None).unwrap();
        let keys = |bytes: &[u8]| {
            let text: String = bytes.iter().map(|byte| format!("{}\n", *psk(*byte).reveal())).collect();
            let file = written(&folder, &text, 0o600).dhchap_secret_file.unwrap();
            HostKeys::read(&[HostKeyConfig::tls(HOST, file)], None).unwrap()
        };
        let first = keys(&[1, 2]);
        assert!(!first.has_secret(HOST) && first.terms(HOST, "nqn.a", Moment(0)).is_none());
        assert_eq!(first.psks(HOST, Moment(5)), [psk(1), psk(2)]);
        assert!(first.psks("nqn.other", Moment(5)).is_empty());
        let second = first.succeeded_by(keys(&[3, 2]), Duration::from_nanos(100), Moment(1000));
        assert_eq!(second.psks(HOST, Moment(1099)), [psk(3), psk(2), psk(1)]);
        assert_eq!(second.psks(HOST, Moment(1100)), [psk(3), psk(2)]);
        // A host that has a secret now, and no TLS key, is not let in by its former key.
        let secret = [written(&folder, &secret(1).reveal(), 0o600)];
        let without =
            second.succeeded_by(HostKeys::read(&secret, None).unwrap(), Duration::MAX, Moment(1050));
        assert!(without.psks(HOST, Moment(1050)).is_empty() && without.has_secret(HOST));
    }
}
