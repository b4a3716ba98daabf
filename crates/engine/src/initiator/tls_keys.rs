//! The TLS keys of a host, and which of them it offers a target by which identities.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use secure_channel::{
    ConfiguredPsk, Derivation, IdentityError, IdentityVersion, Names, RecordLimit, Suite, TlsPsk,
};

use crate::limits::{TLS_KEYS_OFFERED_MAX, TLS_RENEW_AFTER_RECORDS};

/// The keys by which this host makes TLS connections.
#[derive(Clone, Debug)]
pub struct TlsKeys {
    /// The keys, the preferred one first.
    pub keys: Vec<ConfiguredPsk>,
    /// Version of identities to offer; both if it is absent.
    pub identity: Option<IdentityVersion>,
    /// Key derivation of the target; if absent, the specification's, and another where both can be
    /// distinguished.
    pub derivation: Option<Derivation>,
    /// Cipher suite to offer; if absent, the one that other programs use with a key of its length.
    pub suite: Option<Suite>,
    /// Records after which keys are replaced, in either direction.
    pub renew_after: RecordLimit,
    /// Set if keys are replaced by KeyUpdates where the target is known to take them. Otherwise an
    /// I/O queue reconnects.
    pub by_key_updates: bool,
    /// Offer that the target takes, as its queues have found out.
    pub taken: TakenOffer,
}

/// Number of the offer that a target takes alone, from 1 on, where it did not take all of them
/// together; 0 where it did, or none was tried.
#[derive(Clone, Debug, Default)]
pub struct TakenOffer(Arc<AtomicUsize>);

impl TlsKeys {
    /// These keys, for whatever target.
    pub fn new(keys: Vec<ConfiguredPsk>) -> Self {
        let renew_after = Self::usual_renewal();
        Self {
            keys,
            identity: None,
            derivation: None,
            suite: None,
            renew_after,
            by_key_updates: true,
            taken: TakenOffer::default(),
        }
    }

    /// Usual limit of records before keys are replaced: before the target ends the queue for them.
    pub(super) fn usual_renewal() -> RecordLimit {
        RecordLimit::new(TLS_RENEW_AFTER_RECORDS).unwrap_or_default()
    }

    /// The PSKs to offer for these names, the preferred one first, each with an identity of its own: a library takes no two of
    /// one identity. A target takes the first identity that it knows, and fails where that has another key. So those of
    /// version 1 come first, which name their key: all of them, of both derivations. One of version 0 stands for whatever key
    /// the target has: it comes last, for targets that know no other (SPDK), and is the first key's.
    ///
    /// # Errors
    /// When there is none, since the names are too long.
    pub fn offers(&self, names: &Names) -> Result<Vec<TlsPsk>, IdentityError> {
        let (mut named, mut nameless) = (Vec::new(), Vec::new());
        let mut failed = None;
        for version in [IdentityVersion::One, IdentityVersion::Zero] {
            let offers = if version == IdentityVersion::One { &mut named } else { &mut nameless };
            if self.identity.is_some_and(|only| only != version) {
                continue;
            }
            for derivation in Derivation::ALL {
                if self.derivation.is_some_and(|only| only != derivation) {
                    continue;
                }
                for key in &self.keys {
                    match self.psk(key, names, derivation, version) {
                        Ok(psk) => add(psk, offers),
                        Err(error) => failed = Some(error),
                    }
                }
            }
        }
        // Those of version 0, one of each suite at most, stay in any case.
        named.truncate(TLS_KEYS_OFFERED_MAX - nameless.len());
        named.append(&mut nameless);
        match failed {
            Some(error) if named.is_empty() => Err(error),
            _ => Ok(named),
        }
    }

    /// Index of the offer that this target takes alone, if it looks at the first one only. Linux'
    /// target and SPDK do: they end the handshake where they do not know the first identity.
    pub(super) fn taken_alone(&self) -> Option<usize> {
        self.taken.0.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The target has taken this offer alone, or all of them together.
    pub(super) fn remember(&self, alone: Option<usize>) {
        self.taken.0.store(alone.map_or(0, |place| place + 1), Ordering::Relaxed);
    }

    fn psk(
        &self,
        key: &ConfiguredPsk,
        names: &Names,
        derivation: Derivation,
        version: IdentityVersion,
    ) -> Result<TlsPsk, IdentityError> {
        let suite = self.suite.unwrap_or_else(|| key.usual_suite());
        key.retained(names, derivation).tls_psk(names, suite, version)
    }
}

fn add(psk: TlsPsk, offers: &mut Vec<TlsPsk>) {
    if !offers.iter().any(|other| other.identity() == psk.identity()) {
        offers.push(psk);
    }
}

#[cfg(test)]
mod tests {
    use secure_channel::Hash;

    use super::*;

    fn names() -> Names {
        Names::new("nqn.host", "nqn.subsystem").unwrap()
    }

    fn offered(keys: &TlsKeys) -> Vec<(char, String, Suite)> {
        let kind = |psk: &TlsPsk| {
            let version = psk.identity().to_string().chars().nth(4).unwrap();
            (version, psk.derivation().to_string(), psk.suite())
        };
        keys.offers(&names()).unwrap().iter().map(kind).collect()
    }

    #[test]
    fn identities_that_name_their_key_are_offered_first() {
        let (short, long) = (Suite::Aes128Gcm, Suite::Aes256Gcm);
        let (standard, compat) = (|| "standard".to_owned(), || "compat".to_owned());
        let hashed = ConfiguredPsk::new(&[1; 32], Some(Hash::Sha256)).unwrap();
        let mut keys = TlsKeys::new(vec![hashed]);
        assert_eq!(
            offered(&keys),
            [('1', standard(), short), ('1', compat(), short), ('0', standard(), short)]
        );
        // Without a hash function both derivations have one identity.
        let plain = ConfiguredPsk::new(&[2; 48], None).unwrap();
        keys.keys = vec![plain.clone()];
        assert_eq!(offered(&keys), [('1', standard(), long), ('0', standard(), long)]);
        keys.derivation = Some(Derivation::Compat);
        assert_eq!(offered(&keys), [('1', compat(), long), ('0', compat(), long)]);
        keys.suite = Some(short);
        keys.identity = Some(IdentityVersion::Zero);
        assert_eq!(offered(&keys), [('0', compat(), short)]);
        let second = ConfiguredPsk::new(&[3; 48], None).unwrap();
        keys = TlsKeys::new(vec![plain.clone(), second]);
        assert_eq!(offered(&keys).iter().filter(|(version, ..)| *version == '0').count(), 1);
        let last = keys.offers(&names()).unwrap().pop().unwrap();
        let first = plain.retained(&names(), Derivation::Standard);
        assert_eq!(last, first.tls_psk(&names(), long, IdentityVersion::Zero).unwrap());
    }

    #[test]
    fn offers_are_bounded_and_no_two_have_one_identity() {
        let key = |byte| ConfiguredPsk::new(&[byte; 32], Some(Hash::Sha256)).unwrap();
        let offers = TlsKeys::new((1..=8).map(key).collect()).offers(&names()).unwrap();
        assert_eq!(offers.len(), TLS_KEYS_OFFERED_MAX);
        let mut identities: Vec<String> = offers.iter().map(|psk| psk.identity().to_string()).collect();
        assert!(identities.last().unwrap().starts_with("NVMe0R01 "));
        identities.sort_unstable();
        identities.dedup();
        assert_eq!(identities.len(), offers.len());
    }

    #[test]
    fn names_that_are_too_long_for_version_0_have_one_of_version_1() {
        let names = Names::new(&"h".repeat(200), &"s".repeat(200)).unwrap();
        let mut keys = TlsKeys::new(vec![ConfiguredPsk::new(&[1; 32], None).unwrap()]);
        assert_eq!(keys.offers(&names).unwrap().len(), 1);
        keys.identity = Some(IdentityVersion::Zero);
        assert!(matches!(keys.offers(&names), Err(IdentityError::TooLong(_))));
    }
}
