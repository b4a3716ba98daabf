//! The secrets of a subsystem's hosts, as they were read from their files, and which of them are accepted for how long.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use authentication::{ControllerTerms, Group, Hash, Secret};

use crate::limits::SECRETS_PER_HOST_MAX;
use crate::ring::Moment;
use crate::secret_file::{self, SecretFileError};
use crate::target::config::HostKeyConfig;

/// The secrets of a subsystem's hosts, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostKeys(HashMap<String, Keys>);

/// The secrets of one host.
#[derive(Clone, Debug)]
struct Keys {
    /// The host's own.
    current: Vec<Secret>,
    /// Those that it had before, and until when they are accepted.
    former: Vec<(Secret, Moment)>,
    /// The subsystem's, for this host.
    controller: Option<Secret>,
    hashes: Vec<Hash>,
    groups: Vec<Group>,
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
            let read = |file| read_for(config, file);
            let current = read(&config.dhchap_secret_file)?;
            let controller = config.dhchap_ctrl_secret_file.as_deref().map(read).transpose()?;
            let controller = controller.and_then(|secrets| secrets.into_iter().next());
            let keys = Keys {
                current,
                former: Vec::new(),
                controller,
                hashes: or_all(&config.dhchap_hash, &Hash::ALL),
                groups: or_all(&config.dhchap_dhgroup, &Group::PREFERRED),
            };
            all.insert(config.host.clone(), keys);
        }
        Ok(Self(all))
    }

    /// All that is wrong with the files of these hosts.
    pub(crate) fn faults(configs: &[HostKeyConfig]) -> Vec<SecretFileError> {
        let files = |config: &HostKeyConfig| {
            let both = [Some(config.dhchap_secret_file.clone()), config.dhchap_ctrl_secret_file.clone()];
            both.into_iter().flatten().filter_map(|file| read_for(config, &file).err()).collect::<Vec<_>>()
        };
        configs.iter().flat_map(files).collect()
    }

    /// The new secrets in place of these, each of which is still accepted for `overlap` where the host still has one.
    pub(crate) fn succeeded_by(&self, mut new: Self, overlap: Duration, now: Moment) -> Self {
        for (host, keys) in &mut new.0 {
            let Some(before) = self.0.get(host) else { continue };
            let until = now.after(overlap);
            let former = before.former.iter().map(|(secret, end)| (secret, *end));
            let replaced = before.current.iter().map(|secret| (secret, until));
            keys.former = former
                .chain(replaced)
                .filter(|(secret, end)| *end > now && !keys.current.contains(secret))
                .map(|(secret, end)| (secret.clone(), end))
                .take(SECRETS_PER_HOST_MAX)
                .collect();
        }
        new
    }

    /// Whether this host has to authenticate.
    pub(crate) fn has(&self, host_nqn: &str) -> bool {
        self.0.contains_key(host_nqn)
    }

    /// What is asked of this host, if it has to authenticate.
    pub(crate) fn terms(&self, host_nqn: &str, subsystem_nqn: &str, now: Moment) -> Option<ControllerTerms> {
        let keys = self.0.get(host_nqn)?;
        let former = keys.former.iter().filter(|(_, end)| *end > now).map(|(secret, _)| secret);
        Some(ControllerTerms {
            host_nqn: host_nqn.to_owned(),
            subsystem_nqn: subsystem_nqn.to_owned(),
            secrets: keys.current.iter().chain(former).cloned().collect(),
            controller_secret: keys.controller.clone(),
            hashes: keys.hashes.clone(),
            groups: keys.groups.clone(),
        })
    }
}

fn read_for(config: &HostKeyConfig, file: &Path) -> Result<Vec<Secret>, SecretFileError> {
    secret_file::read(file).map_err(|error| error.of(format_args!("secrets of host {}", config.host)))
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
        assert!(first.has(HOST) && !first.has("nqn.other"));
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
        assert!(!third.succeeded_by(HostKeys::default(), Duration::MAX, Moment(2000)).has(HOST));
    }

    #[test]
    fn a_host_whose_configuration_stays_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let configs = [written(&folder, &secret(1).reveal(), 0o600)];
        let keys = HostKeys::read(&configs, None).unwrap();
        written(&folder, "nonsense", 0o600);
        let same = HostKeys::read(&configs, Some((&configs, &keys))).unwrap();
        assert_eq!(accepted(&same, 0), [secret(1)]);
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
        config.dhchap_secret_file = folder.path().to_owned();
        let what = |config: &HostKeyConfig| {
            let faults = HostKeys::faults(std::slice::from_ref(config));
            let first = HostKeys::read(std::slice::from_ref(config), None).unwrap_err();
            assert_eq!(faults[0], first);
            faults.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(what(&config)[0].contains("is not a file"));
        config.dhchap_secret_file = "missing".into();
        config.dhchap_ctrl_secret_file = Some("missing too".into());
        let both = what(&config);
        assert!(both[0].contains("missing cannot be read") && both[1].contains("missing too"), "{both:?}");
    }
}
