//! The TLS keys that have come out of hosts' authentications (secure channel concatenation). They are in memory alone: each is
//! accepted until its host is due back with it, and then for as long as an association uses it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use secure_channel::{Derivation, Origin, PskIdentity, TlsPsk};

use crate::limits::{GENERATED_KEY_OVERLAP_MS, GENERATED_KEY_WAIT_MS, GENERATED_KEYS_PER_HOST_MAX};
use crate::ring::Moment;
use crate::target::handed_target::{HandedGeneratedKey, HandedProof, HandedSecret};
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

    /// Keys for the new process.
    pub(crate) fn handed(&self, now: Moment) -> Vec<HandedGeneratedKey> {
        let mut kept = lock(&self.0);
        kept.retain(|kept| kept.is_good(now));
        let handed = |kept: &Kept| HandedGeneratedKey {
            identity: kept.key.psk.identity().to_string(),
            secret: HandedSecret::new(kept.key.psk.reveal()),
            proof: HandedProof::of(&kept.key.proof),
            remaining_ms: kept.until.0.saturating_sub(now.0) / 1_000_000,
        };
        kept.iter().map(handed).collect()
    }

    /// Accepts those of the old process, too. Controllers that use some claim them before
    /// their time is over. What is not such a key is left out: its host authenticates again.
    pub(crate) fn go_on(&self, handed: &[HandedGeneratedKey], now: Moment) {
        let mut kept = lock(&self.0);
        kept.retain(|kept| kept.is_good(now));
        for of in handed {
            let Some(key) = key(of).map(Arc::new) else { continue };
            // A while for those that associations use, which come right behind and claim them.
            let is_used = of.remaining_ms == 0;
            let ms = if is_used { GENERATED_KEY_OVERLAP_MS } else { of.remaining_ms };
            let until = now.after(Duration::from_millis(ms.min(GENERATED_KEY_WAIT_MS)));
            kept.retain(|kept| kept.key.psk.identity() != key.psk.identity());
            kept.push(Kept { key, until });
        }
    }

    /// Marks a key as used by an association: it remains valid as long as that lasts.
    pub(crate) fn claim(&self, key: &Arc<GeneratedKey>) {
        self.set_end(key, Moment(0));
    }

    /// Marks a key as replaced: it remains valid for a while.
    pub(crate) fn retire(&self, key: &Arc<GeneratedKey>, now: Moment) {
        self.set_end(key, now.after(Duration::from_millis(GENERATED_KEY_OVERLAP_MS)));
    }

    fn set_end(&self, key: &Arc<GeneratedKey>, until: Moment) {
        let mut kept = lock(&self.0);
        let found = kept.iter_mut().find(|kept| Arc::ptr_eq(&kept.key, key));
        found.into_iter().for_each(|kept| kept.until = until);
    }
}

/// A key of the old process, if it is one.
fn key(handed: &HandedGeneratedKey) -> Option<GeneratedKey> {
    let identity: PskIdentity = handed.identity.parse().ok()?;
    let proof = handed.proof.proof().filter(|_| identity.origin == Origin::Generated)?;
    let psk = TlsPsk::restored(identity, handed.secret.expose(), Derivation::Standard)?;
    Some(GeneratedKey { psk, proof })
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
    fn the_next_process_accepts_what_this_one_does_and_no_longer() {
        let (keys, next) = (GeneratedKeys::default(), GeneratedKeys::default());
        let (used, waiting) = (key("nqn.host", 1), key("nqn.other", 2));
        for key in [&used, &waiting] {
            keys.keep(key, Moment(0));
        }
        keys.claim(&used);
        drop(waiting);
        let mut handed = keys.handed(Moment(WAIT / 3));
        assert_eq!(handed.len(), 2);
        let mut damaged = handed[1].clone();
        damaged.secret = HandedSecret::new(&[1; 31]);
        let mut configured = handed[1].clone();
        configured.identity = configured.identity.replacen("G01", "R01", 1);
        handed.extend([damaged, configured]);
        next.go_on(&handed, Moment(0));
        let found = |key: &GeneratedKey, now| next.find(key.psk.identity(), Moment(now));
        let again = found(&used, 1).expect("it is there");
        assert!(again.psk == used.psk && again.proof == used.proof);
        next.claim(&again);
        let other = key("nqn.other", 2);
        assert!(found(&other, 2 * WAIT / 3 - 1).is_some() && found(&other, 2 * WAIT / 3).is_none());
        assert!(found(&used, 9 * WAIT).is_some());
        drop(again);
        assert!(found(&used, 9 * WAIT).is_none(), "its association has ended");
    }

    #[test]
    fn a_host_that_never_comes_back_has_few_keys_and_takes_none_of_other_hosts() {
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
