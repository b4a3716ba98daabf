//! A namespace: a backend seen as blocks, with its identity. Every block number from a host passes the check here.
//! It starts no I/O.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};

use nvme::Status;
use uuid::Uuid;

use super::lateness::Lateness;
use super::uncorrectable::Uncorrectable;
use crate::backend::{Backend, BackendConfig, BackendError, Device};
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{self, Mutex};
use crate::target::config::{NamespaceConfig, Nguid, WriteProtection};
use crate::target::handed_target::{HandedNamespace, HandedNamespaceError, HandedReservations};
use crate::target::lock::lock;
use crate::target::qos::Shaper;
use crate::target::reservation::{
    Access, Hold, HostDigest, ImpossibleState, ReservationView, Reservations, SharedReservationError,
    SharedReservations,
};

/// A namespace that is open.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) nsid: u32,
    /// The name of its subsystem.
    pub(crate) nqn: String,
    pub(crate) backend: Arc<Backend>,
    pub(crate) uuid: [u8; 16],
    pub(crate) nguid: Nguid,
    block_shift: u32,
    blocks: AtomicU64,
    /// Set if another target may serve the same blocks, which knows nothing of what this one keeps in memory.
    is_shared: bool,
    /// Properties that need attention, checked first by the data path.
    flags: AtomicU8,
    protection: AtomicU8,
    pub(crate) shaper: Arc<Shaper>,
    pub(crate) lateness: Lateness,
    pub(crate) uncorrectable: Uncorrectable,
    /// Ranges that fused pairs, and writes of closed connections, have for themselves, with their tickets.
    claims: Mutex<Vec<(u64, ByteRange)>>,
    /// Registrations and the reservation. Only the reservation worker changes them.
    pub(crate) reservations: std::sync::Mutex<Reservations>,
    reservation_view: RwLock<Option<Arc<ReservationView>>>,
    /// Store of the reservations, if other gateways serve the namespace too: they are known while
    /// this gateway has the image.
    shared_reservations: Option<SharedReservations>,
}

/// Properties of a namespace that need attention, as bits.
pub(crate) mod flags {
    /// The namespace is write protected.
    pub(crate) const PROTECTED: u8 = 1 << 0;
    /// The namespace is reserved.
    pub(crate) const RESERVED: u8 = 1 << 1;
    /// The namespace has limits.
    pub(crate) const SHAPED: u8 = 1 << 2;
    /// Some of its blocks cannot be read.
    pub(crate) const UNCORRECTABLE: u8 = 1 << 3;
    /// A fused pair, or a write of a closed connection, works on it.
    pub(crate) const CLAIMED: u8 = 1 << 4;
    /// A sync has failed: the namespace is read-only until it is reopened.
    pub(crate) const FAILED: u8 = 1 << 5;
    /// Commands cannot be answered where they are decoded, and are looked at again when they have their data.
    pub(crate) const SLOW: u8 = SHAPED | UNCORRECTABLE | CLAIMED | FAILED;
}

/// A checked range of bytes within a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl ByteRange {
    /// True if both ranges have a byte in common.
    pub(crate) const fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.offset.saturating_add(other.length)
            && other.offset < self.offset.saturating_add(self.length)
    }
}

impl Namespace {
    /// A namespace on a backend that is open, which hosts know by this UUID.
    pub(crate) fn on(nqn: &str, config: &NamespaceConfig, uuid: Uuid, backend: Arc<Backend>) -> Self {
        let block_shift = config.block_size.trailing_zeros();
        let blocks = AtomicU64::new(backend.length() >> block_shift);
        let namespace = Self {
            nsid: config.nsid,
            nqn: nqn.to_owned(),
            backend,
            uuid: uuid.into_bytes(),
            nguid: config.nguid.unwrap_or_else(|| uuid.into()),
            block_shift,
            blocks,
            is_shared: config.shared_storage,
            flags: AtomicU8::new(0),
            protection: AtomicU8::new(0),
            shaper: Arc::new(Shaper::new(&config.qos)),
            lateness: Lateness::default(),
            uncorrectable: Uncorrectable::default(),
            claims: Mutex::new(Vec::new()),
            reservations: std::sync::Mutex::default(),
            reservation_view: RwLock::default(),
            shared_reservations: None,
        };
        namespace.configure(config);
        namespace.tell_of_torn_blocks(config.block_size);
        for remark in namespace.backend.remarks() {
            let place = namespace.backend.place();
            tracing::warn!("namespace {} of {nqn}: {place}: {remark}", namespace.nsid);
        }
        namespace
    }

    /// Says once if the storage does not keep the promise that every NVMe namespace makes.
    fn tell_of_torn_blocks(&self, block_size: u32) {
        if let Backend::Device(device) = &*self.backend
            && !self.backend.keeps_blocks_whole(block_size)
        {
            let place = self.backend.place();
            let (reason, remedy) = match device.whole_bytes() {
                0 => (format!("nothing is known of what {place} writes whole"), String::new()),
                bytes => (format!("{place} writes {bytes} bytes whole"), format!(", or block_size={bytes}")),
            };
            tracing::warn!(
                "namespace {nsid} of {nqn}: a power failure may leave a block of {block_size} bytes with parts of two writes, \
                 since {reason}; hosts are shown no atomic write guarantee. Where they rely on whole blocks, use a device with \
                 physical blocks of {block_size} bytes{remedy}",
                nsid = self.nsid,
                nqn = self.nqn,
            );
        }
    }

    /// Takes over what can be changed while it is used.
    pub(crate) fn configure(&self, config: &NamespaceConfig) {
        self.protection.store(config.write_protection as u8, Ordering::Relaxed);
        let is_protected = !config.write_protection.is_none() || self.backend.is_read_only();
        self.set_flag(flags::PROTECTED, is_protected);
        if self.shaper.config() != config.qos {
            self.shaper.update(&config.qos);
        }
        self.set_flag(flags::SHAPED, self.shaper.is_needed());
        self.set_flag(flags::FAILED, self.backend.failure().is_some());
        if let Backend::Device(device) = &*self.backend {
            device.set_write_delay_ms(config.write_delay_ms);
        }
    }

    /// Lets no write begin until this moment that is asked for from now on; 0 lets them go on.
    pub(crate) fn hold_writes(&self, until_ns: u64) {
        self.shaper.hold_writes(until_ns);
        // Commands look at the shaper where this says so.
        self.set_flag(flags::SHAPED, self.shaper.is_needed());
    }

    /// Properties that need attention now.
    pub(crate) fn flags(&self) -> u8 {
        // Acquire: who finds a claim gone comes after what its pair did.
        self.flags.load(Ordering::Acquire)
    }

    fn set_flag(&self, bit: u8, set: bool) {
        if set {
            self.flags.fetch_or(bit, Ordering::SeqCst);
        } else {
            self.flags.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// True if the namespace cannot be written, because it was protected or its backend is
    /// read-only.
    pub(crate) fn is_write_protected(&self) -> bool {
        self.flags() & flags::PROTECTED != 0
    }

    /// True if a sync has failed: the namespace is read-only until it is reopened.
    pub(crate) fn has_failed(&self) -> bool {
        self.flags() & flags::FAILED != 0
    }

    /// True if all syncs with numbers below `before` have ended. If not, their ends wake the
    /// caller's command.
    pub(crate) fn is_settled(&self, before: u64) -> bool {
        match &*self.backend {
            Backend::Device(device) => device.durability().is_none_or(|known| known.is_settled(before)),
            _ => true,
        }
    }

    /// Refuses writes from now on if its storage has failed to synchronize; whether it does so since this very moment.
    pub(crate) fn note_failure(&self) -> bool {
        let Some(failure) = self.backend.failure() else { return false };
        let before = self.flags.fetch_or(flags::FAILED, Ordering::SeqCst);
        let is_new = before & flags::FAILED == 0;
        if is_new {
            tracing::error!(
                "namespace {nsid} of {nqn}: {failure} on {place}; writes since the last successful Flush may be lost. It \
                 refuses writes and Flush from now on: check the storage, then run `selvedge namespace reopen {nqn} {nsid}`",
                nsid = self.nsid,
                nqn = self.nqn,
                place = self.backend.place(),
            );
        }
        is_new
    }

    /// Current write protection, as it was set.
    pub(crate) fn protection(&self) -> WriteProtection {
        let now = self.protection.load(Ordering::Relaxed);
        let all = [WriteProtection::On, WriteProtection::UntilRestart, WriteProtection::Permanent];
        all.into_iter().find(|known| *known as u8 == now).unwrap_or_default()
    }

    /// Claims `range` under `ticket` for a fused pair. Returns false if it overlaps an existing claim.
    pub(crate) fn claim(&self, ticket: u64, range: ByteRange) -> bool {
        let mut claims = sync::lock(&self.claims);
        if claims.iter().any(|(_, claimed)| claimed.overlaps(&range)) {
            return false;
        }
        claims.push((ticket, range));
        self.set_flag(flags::CLAIMED, true);
        true
    }

    /// Claims `range` under `ticket` for a write that has begun, even if it overlaps other claims.
    pub(crate) fn claim_beside_others(&self, ticket: u64, range: ByteRange) {
        let mut claims = sync::lock(&self.claims);
        claims.push((ticket, range));
        self.set_flag(flags::CLAIMED, true);
    }

    /// Gives the claim under `ticket` back.
    pub(crate) fn release(&self, ticket: u64) {
        let mut claims = sync::lock(&self.claims);
        claims.retain(|(of, _)| *of != ticket);
        self.set_flag(flags::CLAIMED, !claims.is_empty());
    }

    /// True if a part of `range` is claimed by a fused pair, or by a write of a closed connection.
    pub(crate) fn is_claimed(&self, range: &ByteRange) -> bool {
        self.flags() & flags::CLAIMED != 0
            && sync::lock(&self.claims).iter().any(|(_, claimed)| claimed.overlaps(range))
    }

    /// Marks blocks that cannot be read from now on.
    pub(crate) fn mark_uncorrectable(&self, range: ByteRange) -> Result<(), Status> {
        let (start, blocks) = self.blocks_of(range);
        self.uncorrectable.mark(start, blocks).map_err(|_| Status::CAPACITY_EXCEEDED)?;
        self.set_flag(flags::UNCORRECTABLE, true);
        Ok(())
    }

    /// Checks that the marks of blocks to be written can be cleared.
    pub(crate) fn check_clear_uncorrectable(&self, range: ByteRange) -> Result<(), Status> {
        if self.flags() & flags::UNCORRECTABLE == 0 {
            return Ok(());
        }
        let (start, blocks) = self.blocks_of(range);
        self.uncorrectable.check_clear(start, blocks).map_err(|_| Status::WRITE_FAULT)
    }

    /// Clears the marks of blocks that are written, and cannot fail to be.
    pub(crate) fn clear_uncorrectable(&self, range: ByteRange) -> Result<(), Status> {
        if self.flags() & flags::UNCORRECTABLE == 0 {
            return Ok(());
        }
        let (start, blocks) = self.blocks_of(range);
        self.uncorrectable.clear(start, blocks).map_err(|_| Status::WRITE_FAULT)
    }

    /// True if one of these blocks is marked as uncorrectable.
    pub(crate) fn is_uncorrectable(&self, range: ByteRange) -> bool {
        let (start, blocks) = self.blocks_of(range);
        self.flags() & flags::UNCORRECTABLE != 0 && self.uncorrectable.touches(start, blocks)
    }

    const fn blocks_of(&self, range: ByteRange) -> (u64, u64) {
        (range.offset >> self.block_shift, range.length >> self.block_shift)
    }

    /// True if another target may serve the same blocks: what is reserved here is not there, and a fused pair takes two steps.
    pub(crate) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// True if hosts are registered.
    pub(crate) fn has_registrants(&self) -> bool {
        !lock(&self.reservations).registrants().is_empty()
    }

    /// Lets commands go by another reservation from now on.
    pub(crate) fn publish_reservation(&self, view: Option<ReservationView>) {
        let is_reserved = view.is_some();
        *self.reservation_view.write().unwrap_or_else(PoisonError::into_inner) = view.map(Arc::new);
        self.set_flag(flags::RESERVED, is_reserved);
    }

    /// The same, with reservations that are kept beside its image, for all gateways that serve it in turn. It was `added` to what
    /// they serve by this number.
    pub(crate) fn sharing_reservations(mut self, added: u64) -> Self {
        self.shared_reservations = Some(SharedReservations::new(Uuid::from_bytes(self.uuid), added));
        self
    }

    /// With another number than before it was removed, and added again, without its reservations.
    pub(crate) fn was_added_by(&self, added: u64) {
        if let Some(shared) = &self.shared_reservations
            && shared.was_added_by(added)
        {
            self.go_by(Reservations::default());
        }
    }

    /// Store of the reservations, if other gateways serve the namespace too.
    pub(crate) const fn shared_reservations(&self) -> Option<&SharedReservations> {
        self.shared_reservations.as_ref()
    }

    /// Goes by the reservations that are kept beside its image, which is this gateway's.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn take_reservations(&self, hold: &mut Hold<'_>) -> Result<(), SharedReservationError> {
        let Backend::Device(Device::Rbd(image)) = &*self.backend else {
            return Err(SharedReservationError::NotHere);
        };
        let reservations = hold.take(image)?;
        self.go_by(reservations);
        Ok(())
    }

    /// Lets these reservations count from now on.
    pub(crate) fn go_by(&self, reservations: Reservations) {
        self.publish_reservation(reservations.view());
        *lock(&self.reservations) = reservations;
    }

    /// True if a reservation forbids the host this access.
    pub(crate) fn reservation_forbids(&self, host: HostDigest, access: Access) -> bool {
        let view = self.reservation_view.read().unwrap_or_else(PoisonError::into_inner);
        view.as_ref().is_some_and(|view| !view.gate(host).allows(access))
    }

    /// Makes it larger or smaller. What is beyond a smaller end is gone.
    pub(crate) fn resize(&self, to: &BackendConfig) -> Result<(), BackendError> {
        self.resize_by(to, |size| self.backend.resize(size, 1 << self.block_shift))
    }

    /// Takes a growth back. What its storage had before stays.
    pub(crate) fn shrink_back(&self, to: &BackendConfig) -> Result<(), BackendError> {
        self.resize_by(to, |size| self.backend.shrink_back(size, 1 << self.block_shift))
    }

    fn resize_by(
        &self,
        to: &BackendConfig,
        resize: impl FnOnce(Option<u64>) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let wanted = to.size().map(|bytes| bytes >> self.block_shift);
        if let Some(wanted) = wanted.filter(|wanted| *wanted < self.blocks()) {
            // In this order: the blocks become unreachable before they are removed.
            self.blocks.store(wanted, Ordering::Release);
        }
        let outcome = resize(wanted.map(|blocks| blocks << self.block_shift));
        self.blocks.store(self.backend.length() >> self.block_shift, Ordering::Release);
        outcome
    }

    /// Reservations for the new process, if there are some.
    pub(crate) fn handed_reservations(&self) -> Option<HandedReservations> {
        lock(&self.reservations).handed(Uuid::from_bytes(self.uuid))
    }

    /// Goes on with the reservations that it had in the old process.
    ///
    /// # Errors
    /// `ImpossibleState`, when they are none.
    pub(crate) fn go_on_with(&self, handed: HandedReservations) -> Result<(), ImpossibleState> {
        let reservations = Reservations::going_on(handed)?;
        // Those that are kept beside its image are read there, with all that the old process
        // did not learn of.
        if self.shared_reservations.is_none() {
            self.go_by(reservations);
        }
        Ok(())
    }

    /// State for the new process that only this process knows, if there is some.
    pub(crate) fn handed(&self) -> Option<HandedNamespace> {
        let (marks, failure) = (self.uncorrectable.marked(), self.backend.failure().cloned());
        let is_ordinary = marks.is_empty() && failure.is_none();
        (!is_ordinary).then(|| HandedNamespace { namespace: Uuid::from_bytes(self.uuid), marks, failure })
    }

    /// Is as it was in the old process.
    ///
    /// # Errors
    /// When it cannot have been so.
    pub(crate) fn go_on_as(&self, handed: HandedNamespace) -> Result<(), HandedNamespaceError> {
        for (start, blocks) in handed.marks {
            self.uncorrectable.mark(start, blocks).map_err(|_| HandedNamespaceError::Marks)?;
        }
        self.set_flag(flags::UNCORRECTABLE, !self.uncorrectable.is_empty());
        if let Some(failure) = handed.failure {
            let durability = match &*self.backend {
                Backend::Device(device) => device.durability(),
                Backend::Memory(_) | Backend::Null(_) => None,
            };
            durability.ok_or(HandedNamespaceError::Failure)?.fail(failure);
            self.note_failure();
        }
        Ok(())
    }

    /// Goes on as another namespace has been until now, whose blocks are the same and were opened before. The reservation worker must not
    /// change that one meanwhile.
    pub(crate) fn succeed(&self, former: &Self) {
        self.go_by(lock(&former.reservations).clone());
        self.uncorrectable.copy(&former.uncorrectable);
        self.set_flag(flags::UNCORRECTABLE, !self.uncorrectable.is_empty());
    }

    /// Cuts off what writes that were under way when it became smaller have put behind its end.
    pub(crate) fn trim(&self) -> Result<(), BackendError> {
        match &*self.backend {
            Backend::Device(device) => device.trim(),
            _ => Ok(()),
        }
    }

    /// Lets another gateway write to its blocks, or makes sure that only this target does.
    pub(crate) fn set_standby(&self, is_standby: bool) -> Result<(), BackendError> {
        let Some(shared) = &self.shared_reservations else { return self.backend.set_standby(is_standby) };
        let mut hold = shared.hold();
        if is_standby {
            // First: a reservation that is answered from now on would not be known to who has the image next. What commands
            // go by stays, for those that come late.
            hold.let_go();
            *lock(&self.reservations) = Reservations::default();
            return self.backend.set_standby(true);
        }
        self.backend.set_standby(false)?;
        if hold.is_taken() {
            return Ok(());
        }
        // With the image, which keeps other gateways from changing them; and before a host is
        // served, which could bypass them.
        self.take_reservations(&mut hold).map_err(|error| {
            if let Err(error) = self.backend.set_standby(true) {
                tracing::warn!(%error, nsid = self.nsid, "an image stays locked");
            }
            BackendError::Reservations(error.to_string())
        })
    }

    /// True if its file or device has grown, and it has not yet. This may wait for the file system.
    pub(crate) fn has_grown(&self) -> bool {
        self.backend.has_grown(1 << self.block_shift)
    }

    /// Looks whether the file or device has another size now; whether it had.
    pub(crate) fn rescan(&self) -> bool {
        let before = self.blocks();
        if self.backend.rescan(1 << self.block_shift).is_ok() {
            self.blocks.store(self.backend.length() >> self.block_shift, Ordering::Release);
        }
        self.blocks() != before
    }

    /// Blocks it has.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Bytes of a block as a power of two.
    pub(crate) const fn block_shift(&self) -> u32 {
        self.block_shift
    }

    /// The bytes of `blocks` blocks from `start` on, or `None` when they do not lie within the namespace.
    pub(crate) fn bytes(&self, start: u64, blocks: u64) -> Option<ByteRange> {
        let end = start.checked_add(blocks)?;
        (end <= self.blocks())
            .then(|| ByteRange { offset: start << self.block_shift, length: blocks << self.block_shift })
    }

    /// The bytes that it does not have.
    pub(crate) fn behind_end(&self) -> ByteRange {
        let offset = self.blocks() << self.block_shift;
        ByteRange { offset, length: u64::MAX - offset }
    }

    /// Checks that a range lies within the namespace, which may have become smaller since the last
    /// check.
    pub(crate) fn check_end(&self, range: ByteRange) -> Result<(), Status> {
        let (start, blocks) = self.blocks_of(range);
        self.bytes(start, blocks).map(drop).ok_or(Status::LBA_OUT_OF_RANGE.do_not_retry())
    }

    /// The same, with the status for a range that does not.
    pub(crate) fn range(&self, start: u64, blocks: u32) -> Result<ByteRange, Status> {
        self.bytes(start, u64::from(blocks)).ok_or(Status::LBA_OUT_OF_RANGE.do_not_retry())
    }
}

#[cfg(test)]
mod tests {
    use nvme::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReservationType};

    use super::*;
    use crate::backend::{Clusters, Opening};
    use crate::target::reservation::{Acquire, Register};

    fn open(config: &NamespaceConfig) -> Namespace {
        let clusters = Clusters::default();
        let backend = Backend::open(&config.backend, Opening::alone(config.block_size, &clusters));
        Namespace::on("nqn.2014-08.org.example:test", config, Uuid::nil(), Arc::new(backend.expect("opens")))
    }

    #[test]
    fn ranges_are_checked_without_overflow() {
        let backend = BackendConfig::Null { size: 1 << 20 };
        let config = NamespaceConfig::new(1, backend, 4096);
        let namespace = open(&config);
        assert_eq!(namespace.blocks(), 256);
        assert_eq!(namespace.bytes(255, 1), Some(ByteRange { offset: 255 << 12, length: 4096 }));
        for (start, blocks) in [(255, 2), (256, 1), (u64::MAX, 1), (u64::MAX - 1, 3), (1 << 52, 1)] {
            assert_eq!(namespace.bytes(start, blocks), None);
        }
    }

    #[test]
    fn a_namespace_that_goes_on_has_marks_and_reservations_of_the_former() {
        let config = NamespaceConfig::new(1, BackendConfig::Null { size: 1 << 20 }, 4096);
        let (former, new, other) = (open(&config), open(&config), open(&config));
        former.mark_uncorrectable(ByteRange { offset: 8192, length: 4096 }).expect("room");
        let host = ([1; 16], "nqn.2014-08.org.nvmexpress:host");
        let (action, kind) = (RegisterAction::Register, ReservationType::WriteExclusive);
        {
            let mut reservations = lock(&former.reservations);
            let persistence = PersistenceChange::NoChange;
            let (current_key, new_key) = (0, 7);
            let register = Register { action, ignore_existing_key: false, persistence, current_key, new_key };
            reservations.register(host.0, host.1, &register).expect("registers");
            let action = AcquireAction::Acquire;
            let acquire =
                Acquire { action, ignore_existing_key: false, kind, current_key: 7, preempt_key: 0 };
            reservations.acquire(HostDigest::of(host.1, &host.0), &acquire).expect("reserves");
        }
        new.succeed(&former);
        for (namespace, is_same) in [(&new, true), (&other, false)] {
            assert_eq!(namespace.is_uncorrectable(ByteRange { offset: 0, length: 12288 }), is_same);
            assert_eq!(
                namespace.reservation_forbids(HostDigest::of(host.1, &[2; 16]), Access::Write),
                is_same
            );
            assert!(!namespace.reservation_forbids(HostDigest::of(host.1, &host.0), Access::Write));
        }
    }

    #[test]
    fn a_resized_namespace_has_its_new_end_at_once() {
        let sized = |size| NamespaceConfig::new(1, BackendConfig::Memory { size }, 4096);
        let namespace = open(&sized(1 << 20));
        namespace.resize(&sized(2 << 20).backend).expect("grows");
        assert!(namespace.bytes(511, 1).is_some() && namespace.bytes(512, 1).is_none());
        namespace.resize(&sized(1 << 19).backend).expect("shrinks");
        assert!(namespace.bytes(127, 1).is_some() && namespace.bytes(128, 1).is_none());
    }

    #[cfg(not(feature = "simulation"))]
    #[test]
    fn a_file_keeps_what_it_has_behind_its_namespace_until_that_shrinks() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![7_u8; 4 << 20]).expect("it can be written");
        let sized = |size| {
            NamespaceConfig::new(1, BackendConfig::File { path: path.clone(), size: Some(size) }, 4096)
        };
        let namespace = open(&sized(1 << 20));
        let mut remarks = namespace.backend.remarks().iter();
        assert!(remarks.any(|remark| remark.contains("the first 1 MiB of 4 MiB")));
        let lengths = || (namespace.blocks() << 12, std::fs::metadata(&path).expect("it is there").len());
        for (size, present) in [(2 << 20, 4 << 20), (8 << 20, 8 << 20)] {
            namespace.resize(&sized(size).backend).expect("grows");
            namespace.trim().expect("nothing to cut off");
            assert_eq!(lengths(), (size, present));
            namespace.shrink_back(&sized(1 << 20).backend).expect("shrinks");
            assert_eq!(lengths(), (1 << 20, 4 << 20));
        }
        assert_eq!(std::fs::read(&path).expect("it can be read"), vec![7_u8; 4 << 20]);
        namespace.resize(&sized(1 << 19).backend).expect("shrinks");
        assert_eq!(lengths(), (1 << 19, 1 << 19));
    }
}
