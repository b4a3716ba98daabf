//! The secrets and TLS keys of a subsystem's hosts, as they were read from their files or opened, and which of them are accepted
//! for how long.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use authentication::{Concatenation, ControllerTerms, Group, Hash, Secret};
use secure_channel::{ConfiguredPsk, SealingKey};

use crate::limits::SECRETS_PER_HOST_MAX;
use crate::ring::Moment;
use crate::secret_file::{self, Line, SecretFileError};
use crate::target::config::{HostKeyConfig, KeyKind, KeySource, SubsystemConfig};

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
    /// A key of it cannot be opened: nobody may connect by its name, as if it had none.
    is_locked: bool,
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

impl<T> Default for Accepted<T> {
    fn default() -> Self {
        Self { current: Vec::new(), former: Vec::new(), written: None }
    }
}

impl<T: Line + Clone + PartialEq> Accepted<T> {
    fn read(config: &HostKeyConfig, file: &Path) -> Result<Self, SecretFileError> {
        let current = read_for(config, file)?;
        let written = std::fs::metadata(file).ok().and_then(|file| file.modified().ok());
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

/// What it takes to have a subsystem's keys.
#[derive(Clone, Copy)]
struct Reading<'a> {
    nqn: &'a str,
    key: Option<&'a SealingKey>,
}

impl Reading<'_> {
    /// What is at a source. What cannot be opened is nothing, and the host is locked out: others of the subsystem go on.
    fn accepted<T: Line + Clone + PartialEq>(
        self,
        config: &HostKeyConfig,
        source: Option<KeySource<'_>>,
        is_locked: &mut bool,
    ) -> Result<Accepted<T>, SecretFileError> {
        let (sealed, kind, host) = match source {
            None => return Ok(Accepted::default()),
            Some(KeySource::File(file)) => return Accepted::read(config, file),
            Some(KeySource::Sealed { sealed, kind, host }) => (sealed, kind, host),
        };
        let opened = match self.key {
            None => Err("the target has no --encryption-key".to_owned()),
            Some(key) => sealed.open(key, kind, self.nqn, host).map_err(|error| error.to_string()),
        };
        let name = format!("{}_sealed", kind.name());
        let read = opened.and_then(|text| {
            secret_file::read_from(text.as_bytes(), Path::new(&name)).map_err(|error| error.to_string())
        });
        match read {
            Ok(current) => Ok(Accepted { current, former: Vec::new(), written: sealed.sealed_at() }),
            Err(error) => {
                let Self { nqn, .. } = self;
                tracing::error!(
                    nqn,
                    host = config.host,
                    key = kind.name(),
                    error,
                    "this host cannot connect: its key cannot be opened"
                );
                *is_locked = true;
                Ok(Accepted::default())
            }
        }
    }

    fn keys(self, config: &HostKeyConfig, all: &SubsystemConfig) -> Result<Keys, SecretFileError> {
        let mut is_locked = false;
        let secrets = self.accepted(config, config.source(KeyKind::Secret), &mut is_locked)?;
        let kind = KeyKind::ControllerSecret;
        let of_all = all.dhchap_ctrl_secret_sealed.as_ref().filter(|_| config.has_secret());
        let of_all = of_all.map(|sealed| KeySource::Sealed { sealed, kind, host: "" });
        let controller = self.accepted::<Secret>(config, config.source(kind).or(of_all), &mut is_locked)?;
        let tls = self.accepted(config, config.source(KeyKind::TlsKey), &mut is_locked)?;
        Ok(Keys {
            secrets,
            controller: controller.current.into_iter().next(),
            hashes: or_all(&config.dhchap_hash, &Hash::ALL),
            groups: or_all(&config.dhchap_dhgroup, &Group::PREFERRED),
            tls,
            concatenates: config.tls_concat,
            is_locked,
        })
    }
}

impl HostKeys {
    /// Reads the files of a subsystem's hosts, and opens what is sealed, but for those that are known by the same configuration.
    ///
    /// # Errors
    /// Which file is wrong, how, and what to do.
    pub(crate) fn read(
        config: &SubsystemConfig,
        known: Option<(&SubsystemConfig, &Self)>,
        key: Option<&SealingKey>,
    ) -> Result<Self, SecretFileError> {
        let reading = Reading { nqn: &config.nqn, key };
        let is_same = |before: &SubsystemConfig, host: &HostKeyConfig| {
            before.host_keys.contains(host)
                && before.dhchap_ctrl_secret_sealed == config.dhchap_ctrl_secret_sealed
        };
        let mut all = HashMap::with_capacity(config.host_keys.len());
        for host in &config.host_keys {
            let same = known.filter(|(before, _)| is_same(before, host));
            let keys = match same.and_then(|(_, keys)| keys.0.get(&host.host)) {
                Some(keys) => keys.clone(),
                None => reading.keys(host, config)?,
            };
            all.insert(host.host.clone(), keys);
        }
        Ok(Self(all))
    }

    /// All that is wrong with the files of these hosts.
    pub(crate) fn faults(configs: &[HostKeyConfig]) -> Vec<SecretFileError> {
        let of = |config: &HostKeyConfig| {
            let secrets = [config.dhchap_secret_file.as_deref(), config.dhchap_ctrl_secret_file.as_deref()];
            let secrets = secrets.into_iter().flatten();
            let secrets = secrets.filter_map(|file| Accepted::<Secret>::read(config, file).err());
            let tls = config.tls_key_file.as_deref();
            let tls = tls.and_then(|file| Accepted::<ConfiguredPsk>::read(config, file).err());
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

    /// Whether a key of this host cannot be opened, so that it cannot connect.
    pub(crate) fn is_locked(&self, host_nqn: &str) -> bool {
        self.0.get(host_nqn).is_some_and(|keys| keys.is_locked)
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
    use crate::target::config::SealedSecret;

    const HOST: &str = "nqn.2026-01.org.example:host";
    const NQN: &str = "nqn.2026-01.org.example:a";

    fn written(folder: &tempfile::TempDir, text: &str, mode: u32) -> HostKeyConfig {
        let path = folder.path().join("secret");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        HostKeyConfig::new(HOST, path)
    }

    fn subsystem(host_keys: Vec<HostKeyConfig>) -> SubsystemConfig {
        SubsystemConfig { host_keys, ..SubsystemConfig::new(NQN, "A", "Selvedge") }
    }

    fn read(host_keys: Vec<HostKeyConfig>) -> Result<HostKeys, SecretFileError> {
        HostKeys::read(&subsystem(host_keys), None, None)
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
            read(vec![written(&folder, &text, 0o600)]).unwrap()
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
        let config = subsystem(vec![written(&folder, &secret(1).reveal(), 0o600)]);
        let keys = HostKeys::read(&config, None, None).unwrap();
        written(&folder, "nonsense", 0o600);
        let same = HostKeys::read(&config, Some((&config, &keys)), None).unwrap();
        assert_eq!(accepted(&same, 0), [secret(1)]);
        assert_eq!(same.written(HOST), keys.written(HOST));
        let mut other = config.clone();
        other.host_keys[0].dhchap_hash = vec![Hash::Sha512];
        assert!(HostKeys::read(&other, Some((&config, &keys)), None).is_err());
    }

    #[test]
    fn a_file_that_is_wrong_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = |text: &str, mode| read(vec![written(&folder, text, mode)]).unwrap_err().to_string();
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
            let first = read(vec![config.clone()]).unwrap_err();
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
            read(vec![HostKeyConfig::tls(HOST, file)]).unwrap()
        };
        let first = keys(&[1, 2]);
        assert!(!first.has_secret(HOST) && first.terms(HOST, "nqn.a", Moment(0)).is_none());
        assert_eq!(first.psks(HOST, Moment(5)), [psk(1), psk(2)]);
        assert!(first.psks("nqn.other", Moment(5)).is_empty());
        let second = first.succeeded_by(keys(&[3, 2]), Duration::from_nanos(100), Moment(1000));
        assert_eq!(second.psks(HOST, Moment(1099)), [psk(3), psk(2), psk(1)]);
        assert_eq!(second.psks(HOST, Moment(1100)), [psk(3), psk(2)]);
        // A host that has a secret now, and no TLS key, is not let in by its former key.
        let secret = vec![written(&folder, &secret(1).reveal(), 0o600)];
        let without = second.succeeded_by(read(secret).unwrap(), Duration::MAX, Moment(1050));
        assert!(without.psks(HOST, Moment(1050)).is_empty() && without.has_secret(HOST));
    }

    fn sealing(byte: u8) -> SealingKey {
        let body = [byte; 4].map(|byte| char::from(b'a' + byte)).iter().collect::<String>().repeat(12);
        SealingKey::read(&body).unwrap()
    }

    #[test]
    fn sealed_keys_are_accepted_as_those_of_files_are() {
        let key = sealing(1);
        let seal = |secret: &str, kind, host| Some(SealedSecret::seal(&key, secret, kind, NQN, host));
        let psk = ConfiguredPsk::new(&[5; 32], None).unwrap();
        let mut config = subsystem(vec![HostKeyConfig {
            dhchap_secret_sealed: seal(&secret(1).reveal(), KeyKind::Secret, HOST),
            tls_key_sealed: seal(&psk.reveal(), KeyKind::TlsKey, HOST),
            ..HostKeyConfig::empty(HOST)
        }]);
        config.dhchap_ctrl_secret_sealed = seal(&secret(2).reveal(), KeyKind::ControllerSecret, "");
        let keys = HostKeys::read(&config, None, Some(&key)).unwrap();
        assert!(keys.has_secret(HOST) && !keys.is_locked(HOST));
        assert_eq!(accepted(&keys, 0), [secret(1)]);
        assert_eq!(keys.psks(HOST, Moment(0)), [psk]);
        let controller = |keys: &HostKeys| keys.terms(HOST, NQN, Moment(0)).unwrap().controller_secret;
        assert_eq!(controller(&keys), Some(secret(2)));
        let (written, tls) = keys.written(HOST);
        assert!(written.is_some() && tls.is_some());
        // What is the host's own goes first, and a new one of the subsystem is read where the host's entry stays.
        let mut other = config.clone();
        other.dhchap_ctrl_secret_sealed = seal(&secret(3).reveal(), KeyKind::ControllerSecret, "");
        let others = HostKeys::read(&other, Some((&config, &keys)), Some(&key)).unwrap();
        assert_eq!(controller(&others), Some(secret(3)));
        other.host_keys[0].dhchap_ctrl_secret_sealed =
            seal(&secret(4).reveal(), KeyKind::ControllerSecret, HOST);
        assert_eq!(controller(&HostKeys::read(&other, None, Some(&key)).unwrap()), Some(secret(4)));
    }

    #[test]
    fn a_sealed_file_fits_into_a_configuration_whatever_else_is_in_it() {
        let key = sealing(1);
        let long = |byte| Secret::new(&[byte; 64], Some(Hash::Sha512)).unwrap();
        let secrets: Vec<Secret> = (1..=SECRETS_PER_HOST_MAX as u8).map(long).collect();
        let lines: String = secrets
            .iter()
            .map(|secret| format!("# {}\n {}\n\n", "x".repeat(4096), *secret.reveal()))
            .collect();
        let sealed = SealedSecret::seal(&key, &lines, KeyKind::Secret, NQN, HOST);
        let text = serde_json::to_string(&sealed).unwrap();
        assert!(serde_json::from_str::<SealedSecret>(&text).is_ok(), "{} letters", text.len());
        let host = HostKeyConfig { dhchap_secret_sealed: Some(sealed), ..HostKeyConfig::empty(HOST) };
        let keys = HostKeys::read(&subsystem(vec![host]), None, Some(&key)).unwrap();
        assert_eq!(accepted(&keys, 0), secrets);
    }

    #[test]
    fn a_host_whose_key_cannot_be_opened_is_locked_out_and_no_other() {
        const OTHER: &str = "nqn.2026-01.org.example:other";
        let key = sealing(1);
        let seal =
            |text: &str, kind, nqn: &str, host: &str| Some(SealedSecret::seal(&key, text, kind, nqn, host));
        let text = secret(1).reveal();
        let locked = |sealed, key: Option<&SealingKey>| {
            let host = HostKeyConfig { dhchap_secret_sealed: sealed, ..HostKeyConfig::empty(HOST) };
            let folder = tempfile::tempdir().unwrap();
            let other = HostKeyConfig { host: OTHER.to_owned(), ..written(&folder, &text, 0o600) };
            let keys = HostKeys::read(&subsystem(vec![host, other]), None, key).unwrap();
            assert!(!keys.is_locked(OTHER) && keys.has_secret(OTHER));
            keys.is_locked(HOST)
        };
        let kind = KeyKind::Secret;
        assert!(!locked(seal(&text, kind, NQN, HOST), Some(&key)));
        assert!(locked(seal(&text, kind, NQN, HOST), None), "no key");
        assert!(locked(seal(&text, kind, NQN, HOST), Some(&sealing(2))), "another key");
        assert!(locked(seal(&text, kind, NQN, OTHER), Some(&key)), "another host's");
        assert!(locked(seal(&text, kind, "nqn.b", HOST), Some(&key)), "another subsystem's");
        assert!(locked(seal(&text, KeyKind::TlsKey, NQN, HOST), Some(&key)), "another kind");
        assert!(locked(seal("nonsense", kind, NQN, HOST), Some(&key)), "no secret");
    }
}
