//! The TLS keys that have come out of hosts' authentications (secure channel concatenation). They are in memory alone: each is
//! accepted until its host is due back with it, and then for as long as an association uses it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use secure_channel::PskIdentity;

use crate::limits::{GENERATED_KEY_OVERLAP_MS, GENERATED_KEY_WAIT_MS, GENERATED_KEYS_PER_HOST_MAX};
use crate::ring::Moment;
use crate::target::lock::lock;
use crate::target::served::GeneratedKey;

/// The keys of all hosts.
#[derive(Debug, Default)]
pub(crate) struct GeneratedKeys(Mutex<Vec<Kept>>);

#[derive(Debug)]
struct Kept {
    key: Arc<GeneratedKey>,
    /// Until when it is accepted though no association uses it.
    until: Moment,
}

impl Kept {
    fn is_good(&self, now: Moment) -> bool {
        self.until > now || Arc::strong_count(&self.key) > 1
    }
}

impl GeneratedKeys {
    /// Keeps a key until its host comes back with it.
    pub(crate) fn keep(&self, key: &Arc<GeneratedKey>, now: Moment) {
        let mut kept = lock(&self.0);
        kept.retain(|kept| kept.is_good(now));
        let names = &key.psk.identity().names;
        let is_waiting =
            |kept: &Kept| kept.key.psk.identity().names == *names && Arc::strong_count(&kept.key) == 1;
        // The oldest goes: a host that authenticates over and over again is in its own way alone.
        if kept.iter().filter(|kept| is_waiting(kept)).count() >= GENERATED_KEYS_PER_HOST_MAX
            && let Some(oldest) = kept.iter().position(is_waiting)
        {
            kept.remove(oldest);
        }
        let until = now.after(Duration::from_millis(GENERATED_KEY_WAIT_MS));
        kept.push(Kept { key: key.clone(), until });
    }

    /// The key with this identity.
    pub(crate) fn find(&self, identity: &PskIdentity, now: Moment) -> Option<Arc<GeneratedKey>> {
        let mut kept = lock(&self.0);
        kept.retain(|kept| kept.is_good(now));
        kept.iter().find(|kept| kept.key.psk.identity() == identity).map(|kept| kept.key.clone())
    }

    /// It is an association's, and lasts as long.
    pub(crate) fn claim(&self, key: &Arc<GeneratedKey>) {
        self.set_end(key, Moment(0));
    }

    /// Another one has taken its place.
    pub(crate) fn retire(&self, key: &Arc<GeneratedKey>, now: Moment) {
        self.set_end(key, now.after(Duration::from_millis(GENERATED_KEY_OVERLAP_MS)));
    }

    fn set_end(&self, key: &Arc<GeneratedKey>, until: Moment) {
        let mut kept = lock(&self.0);
        let found = kept.iter_mut().find(|kept| Arc::ptr_eq(&kept.key, key));
        found.into_iter().for_each(|kept| kept.until = until);
    }
}

#[cfg(test)]
mod tests {
    use authentication::{Authenticated, Group, Hash};
    use secure_channel::{IdentityVersion, InputPsk, Names, Suite};

    use super::*;

    const WAIT: u64 = GENERATED_KEY_WAIT_MS * 1_000_000;

    fn key(host: &str, byte: u8) -> Arc<GeneratedKey> {
        let proof =
            Authenticated { hash: Hash::Sha256, group: Group::MlKem768, is_bidirectional: false, secret: 0 };
        let input = InputPsk::generated(vec![byte; 32].into());
        let names = Names::new(host, "nqn.subsystem").unwrap();
        let psk = input.tls_psk(&names, Suite::Aes128Gcm, IdentityVersion::One).unwrap();
        Arc::new(GeneratedKey { psk, proof })
    }

    #[test]
    fn a_key_is_there_until_its_host_is_due_and_as_long_as_an_association_uses_it() {
        let keys = GeneratedKeys::default();
        let identity = key("nqn.host", 1).psk.identity().clone();
        let is_there = |now| keys.find(&identity, Moment(now)).is_some();
        keys.keep(&key("nqn.host", 1), Moment(5));
        assert!(is_there(5) && is_there(WAIT + 4) && !is_there(WAIT + 5));
        assert!(!is_there(6), "what is forgotten does not come back");
        let used = key("nqn.host", 1);
        keys.keep(&used, Moment(5));
        keys.claim(&used);
        assert!(is_there(100 * WAIT));
        keys.retire(&used, Moment(7));
        drop(used);
        let end = 7 + GENERATED_KEY_OVERLAP_MS * 1_000_000;
        assert!(is_there(end - 1) && !is_there(end), "another one has taken its place");
        let used = key("nqn.host", 1);
        keys.keep(&used, Moment(5));
        keys.claim(&used);
        drop(used);
        assert!(!is_there(6), "its association has ended");
    }

    #[test]
    fn a_host_that_never_comes_back_has_few_keys_and_takes_nobody_elses() {
        let keys = GeneratedKeys::default();
        let is_there = |key: &GeneratedKey| keys.find(key.psk.identity(), Moment(1)).is_some();
        let used = key("nqn.host", 200);
        keys.keep(&used, Moment(0));
        keys.claim(&used);
        keys.keep(&key("nqn.other", 1), Moment(0));
        for byte in 0..GENERATED_KEYS_PER_HOST_MAX as u8 + 2 {
            keys.keep(&key("nqn.host", byte), Moment(0));
        }
        assert!(is_there(&key("nqn.other", 1)) && is_there(&used));
        assert!(!is_there(&key("nqn.host", 0)) && !is_there(&key("nqn.host", 1)));
        assert!(is_there(&key("nqn.host", 2)));
    }
}
