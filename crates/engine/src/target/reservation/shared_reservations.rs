//! Reservations of a namespace that several gateways serve in turn, in an object beside its image.
//! A gateway that takes the image claims the object first and reads it then, after which no pending
//! change of the previous owner can take effect: each change relies on the claim. When an image is
//! taken, and how the reservations are used, is decided elsewhere.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::record::{RegistrantRecord, ReservationRecord, VERSION_OF_NAMES};
use super::state::Reservations;
use crate::backend::Rbd;
use crate::ceph::{CephError, Object, ObjectChange, Pairs, note_late_operation};
use crate::limits::RESERVATIONS_BYTES_MAX;
use crate::ring;
use crate::ring::lock::{Mutex, MutexGuard};

/// The newest version of the format, which is written where an older one does not do.
const VERSION: u32 = 2;
const _: () = assert!(VERSION == VERSION_OF_NAMES);
const PREFIX: &str = "selvedge.reservations.";
/// The key of the claim: a name that no other claim has.
const CLAIM_KEY: &str = "claim";
const STATE_KEY: &str = "state";

/// Why reservations cannot be kept in a cluster, or read back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SharedReservationError {
    /// The cluster.
    #[error(transparent)]
    Ceph(#[from] CephError),
    /// The object has changed in a way that this gateway does not know.
    #[error("object {object}: another gateway has claimed it")]
    Claimed {
        /// The object.
        object: String,
    },
    /// Another version of this program has written it.
    #[error(
        "object {object} has format {version}, and this program reads formats up to {VERSION}; use the program that wrote \
             it, or remove the object to start without its reservations"
    )]
    Version {
        /// The object.
        object: String,
        /// The version it says it has.
        version: u64,
    },
    /// The content is not valid.
    #[error(
        "object {object} is damaged: {reason}; restore it, or remove it to start without its reservations"
    )]
    Damaged {
        /// The object.
        object: String,
        /// Reason.
        reason: String,
    },
    /// The image is not this gateway's.
    #[error("another gateway has taken over the image")]
    NotHere,
}

/// The part of what is kept that every version has.
#[derive(Deserialize)]
struct KeptVersion {
    version: u64,
}

/// Content of the object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    namespace: Uuid,
    /// Number of the addition: distinguishes successive namespaces with this UUID.
    added: u64,
    persists: bool,
    generation: u32,
    registrants: Vec<RegistrantRecord>,
    reservation: Option<ReservationRecord>,
}

/// State of the object, as far as this gateway knows, while it has the image.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// The object does not exist. The first gateway to create it owns it.
    Absent,
    /// The object has this claim, and is as last read or written.
    Claimed(String),
    /// A change of it failed, and may have happened, or happen yet.
    Doubtful,
}

/// The object while the image is this gateway's.
#[derive(Debug)]
struct Taken {
    object: Object,
    known: Known,
}

/// Store of a namespace's reservations.
#[derive(Debug)]
pub(crate) struct SharedReservations {
    namespace: Uuid,
    added: AtomicU64,
    taken: Mutex<Option<Taken>>,
}

/// The right to change the reservations, as long as it is held. Giving the image back waits for it.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    of: &'a SharedReservations,
    taken: MutexGuard<'a, Option<Taken>>,
}

impl SharedReservations {
    /// Creates the store of the namespace that was added under the number `added`.
    pub(crate) const fn new(namespace: Uuid, added: u64) -> Self {
        Self { namespace, added: AtomicU64::new(added), taken: Mutex::new(None) }
    }

    /// Records the number of the namespace's addition. Returns true if it differs from the known
    /// one: stored reservations are then those of an earlier namespace.
    pub(crate) fn was_added_by(&self, added: u64) -> bool {
        if self.added.load(Ordering::Relaxed) == added {
            return false;
        }
        // No command may be under way that would keep what it has read before.
        let _hold = self.hold();
        self.added.store(added, Ordering::Relaxed);
        true
    }

    /// The right to change them.
    pub(crate) fn hold(&self) -> Hold<'_> {
        Hold { of: self, taken: self.taken.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Object to be removed after the namespace was, if this gateway owns it and no command is
    /// under way.
    pub(crate) fn abandon(&self) -> Option<Abandoned> {
        match self.taken.try_lock().ok()?.take()? {
            Taken { object, known: Known::Claimed(claim) } => Some(Abandoned { object, claim }),
            _ => None,
        }
    }

    fn name(&self) -> String {
        format!("{PREFIX}{}", self.namespace.hyphenated())
    }

    fn written(&self, state: &Reservations) -> Vec<u8> {
        let kept = Kept {
            version: state.version(),
            namespace: self.namespace,
            added: self.added.load(Ordering::Relaxed),
            persists: state.persists(),
            generation: state.generation(),
            registrants: state.registrant_records(),
            reservation: state.reservation_record(),
        };
        serde_json::to_vec(&kept).expect("plain data")
    }

    /// The reservations of these pairs: none, where they belong to a namespace that was removed.
    fn read(&self, pairs: &Pairs) -> Result<Reservations, SharedReservationError> {
        let damaged = |reason: String| SharedReservationError::Damaged { object: self.name(), reason };
        let bytes = pairs.get(STATE_KEY).ok_or_else(|| damaged("it has no state".to_owned()))?;
        if bytes.len() as u64 > RESERVATIONS_BYTES_MAX {
            return Err(damaged(format!("it has more than {RESERVATIONS_BYTES_MAX} bytes")));
        }
        // The version first: of a later one, nothing else needs to be understood.
        let KeptVersion { version } =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if !(1..=u64::from(VERSION)).contains(&version) {
            return Err(SharedReservationError::Version { object: self.name(), version });
        }
        let kept: Kept = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if kept.namespace != self.namespace {
            return Err(damaged(format!("it belongs to namespace {}", kept.namespace)));
        }
        if kept.added != self.added.load(Ordering::Relaxed) {
            return Ok(Reservations::default());
        }
        let Kept { version, generation, registrants, reservation, persists, .. } = kept;
        let restored = Reservations::recorded((version, generation), registrants, reservation, persists);
        restored.map_err(|error| damaged(error.to_string()))
    }
}

impl Hold<'_> {
    /// True if this gateway has the image, and with it the reservations.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.is_some()
    }

    /// True if the state of the object is unknown, and has to be read again.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.known == Known::Doubtful)
    }

    /// Claims and reads the reservations. No pending change of the previous owner, or of this
    /// gateway's own that failed, can take effect afterwards. This gateway must have the image: the
    /// previous owner can no longer send requests to the cluster then, or has stopped.
    ///
    /// # Errors
    /// When the cluster does not answer, or what is there cannot be read.
    pub(crate) fn take(&mut self, image: &Rbd) -> Result<Reservations, SharedReservationError> {
        if let Some(taken) = &mut *self.taken {
            taken.known = Known::Doubtful;
        }
        if !image.is_taken() {
            return Err(SharedReservationError::NotHere);
        }
        let object = image.object(&self.of.name())?;
        let (known, reservations) = self.claim(&object)?;
        *self.taken = Some(Taken { object, known });
        Ok(reservations)
    }

    fn claim(&self, object: &Object) -> Result<(Known, Reservations), SharedReservationError> {
        // Most namespaces have none. Without an object nothing of a former owner can come that was answered: it has it made
        // before, and a late one of those that were not answered is found by who makes it.
        if object.pairs("")?.is_none_or(|pairs| pairs.is_empty()) {
            return Ok((Known::Absent, Reservations::default()));
        }
        let claim = format!("{:016x}{:016x}", ring::random(), ring::random());
        let set = Pairs::from([(CLAIM_KEY.to_owned(), claim.clone().into_bytes())]);
        changed(object, &ObjectChange { set, ..ObjectChange::default() })?;
        // Only now: until the claim was there, what was read could change.
        let pairs = object.pairs("")?.unwrap_or_default();
        if pairs.get(CLAIM_KEY).map(Vec::as_slice) != Some(claim.as_bytes()) {
            return Err(SharedReservationError::Claimed { object: self.of.name() });
        }
        let reservations = self.of.read(&pairs)?;
        Ok((Known::Claimed(claim), reservations))
    }

    /// Keeps them: when it returns, the cluster has them.
    ///
    /// # Errors
    /// When another gateway has claimed the object, or the cluster does not answer: the object has to be read again then, since
    /// the change may still take effect until that is done.
    pub(crate) fn save(&mut self, state: &Reservations) -> Result<(), SharedReservationError> {
        let written = self.of.written(state);
        let Some(taken) = &mut *self.taken else { return Err(SharedReservationError::NotHere) };
        let mut change = ObjectChange::default();
        let claim = match std::mem::replace(&mut taken.known, Known::Doubtful) {
            Known::Doubtful => return Err(SharedReservationError::NotHere),
            Known::Absent => {
                change.exclusive = true;
                let claim = format!("{:016x}{:016x}", ring::random(), ring::random());
                change.set.insert(CLAIM_KEY.to_owned(), claim.clone().into_bytes());
                claim
            }
            Known::Claimed(claim) => {
                change.relies_on.insert(CLAIM_KEY.to_owned(), claim.clone().into_bytes());
                claim
            }
        };
        change.set.insert(STATE_KEY.to_owned(), written);
        if !changed(&taken.object, &change)? {
            return Err(SharedReservationError::Claimed { object: self.of.name() });
        }
        taken.known = Known::Claimed(claim);
        Ok(())
    }

    /// Leaves them to the next owner of the image.
    pub(crate) fn let_go(&mut self) {
        *self.taken = None;
    }
}

/// Makes a change of the object. One that takes too long may be carried out yet, as a write to the image: before the gateway
/// hands that over, it is shut out itself.
fn changed(object: &Object, change: &ObjectChange) -> Result<bool, CephError> {
    object.change(change).inspect_err(|error| {
        if error.is_late() {
            note_late_operation();
        }
    })
}

/// Object of a namespace that was removed.
#[derive(Debug)]
pub(crate) struct Abandoned {
    object: Object,
    claim: String,
}

impl Abandoned {
    /// Removes it. What another gateway has claimed since stays.
    ///
    /// # Errors
    /// When the cluster does not answer, or refuses.
    pub(crate) fn remove(self) -> Result<(), CephError> {
        let relies_on = Pairs::from([(CLAIM_KEY.to_owned(), self.claim.into_bytes())]);
        changed(&self.object, &ObjectChange { relies_on, deletes: true, ..ObjectChange::default() }).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use nvme::reservation::ReservationType;

    use super::super::host_digest::HostDigest;
    use super::super::state::{REGISTRANTS_MAX, Registrant, Reservation};
    use super::*;

    const NAMESPACE: Uuid = Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0);

    fn state(holder: Option<u8>, kind: ReservationType, persists: bool) -> Reservations {
        let name = |number: u8| format!("nqn.2014-08.org.nvmexpress:uuid:\"{number}\" ü");
        let registrant =
            |number: u8| Registrant::new([number; 16], name(number), u64::MAX - u64::from(number));
        let host = |number: u8| HostDigest::of(&name(number), &[number; 16]);
        let reservation = Some(Reservation { kind, holder: holder.map(host) });
        Reservations::restore(u32::MAX, (1..=3).map(registrant).collect(), reservation, persists)
            .expect("a possible state")
    }

    fn pairs(state: Vec<u8>) -> Pairs {
        Pairs::from([(STATE_KEY.to_owned(), state)])
    }

    #[test]
    fn what_is_kept_is_read_back_whether_or_not_it_persists_through_power_loss() {
        let shared = SharedReservations::new(NAMESPACE, 7);
        for kind in ReservationType::ALL {
            for persists in [false, true] {
                let kept = state((!kind.all_registrants()).then_some(2), kind, persists);
                assert_eq!(shared.read(&pairs(shared.written(&kept))).expect("readable"), kept);
            }
        }
    }

    #[test]
    fn as_many_registrants_as_are_allowed_fit() {
        // A name of the greatest length, each byte of which is written as six.
        let name = "\u{1}".repeat(223);
        let registrant =
            |number: usize| Registrant::new((number as u128).to_le_bytes(), name.clone(), u64::MAX);
        let registrants = (0..REGISTRANTS_MAX).map(registrant).collect();
        let kept = Reservations::restore(1, registrants, None, true).expect("a possible state");
        let shared = SharedReservations::new(NAMESPACE, u64::MAX);
        assert!(shared.read(&pairs(shared.written(&kept))).expect("readable") == kept);
    }

    #[test]
    fn a_namespace_that_was_removed_leaves_nothing_to_the_one_that_is_added_in_its_place() {
        let shared = SharedReservations::new(NAMESPACE, 7);
        let kept = pairs(shared.written(&state(Some(1), ReservationType::WriteExclusive, true)));
        assert!(!shared.was_added_by(7));
        assert!(shared.was_added_by(8));
        assert_eq!(shared.read(&kept).expect("readable"), Reservations::default());
    }

    #[test]
    fn damaged_state_is_refused_with_what_is_wrong() {
        let shared = SharedReservations::new(NAMESPACE, 7);
        let whole = shared.written(&state(Some(1), ReservationType::WriteExclusive, true));
        for length in 0..whole.len() {
            let error = shared.read(&pairs(whole[..length].to_vec())).expect_err("it is torn");
            assert!(matches!(error, SharedReservationError::Damaged { .. }), "{length}: {error}");
        }
        let text = String::from_utf8(whole).expect("text");
        let long = " ".repeat(RESERVATIONS_BYTES_MAX as usize);
        for (from, to, expected) in [
            ("\"version\":1", "\"version\":3", "has format 3"),
            ("\"kind\":1", "\"kind\":7", "no reservation type 7"),
            ("\"kind\":1", "\"kind\":5", "does not fit its type"),
            ("\"persists\":true", "\"persists\":true,\"x\":1", "unknown field"),
            ("12345678-9abc", "02345678-9abc", "it belongs to namespace 02345678"),
            ("\"version\":1", &format!("\"version\":{long}1"), "more than"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = shared.read(&pairs(text.replacen(from, to, 1).into_bytes())).expect_err(from);
            let error = error.to_string();
            assert!(error.contains(expected) && error.contains(&shared.name()), "{error}");
        }
        let error = shared.read(&Pairs::new()).expect_err("a claim alone");
        assert!(error.to_string().contains("has no state"), "{error}");
    }
}
