//! Reservations of one namespace (Base 8.1.22): its registrants, its holder, and the hosts that may
//! read and write. Only a state machine: its caller sends notices, aborts commands and keeps the
//! state.

use nvme::Status;
use nvme::command::io_opcode;
use nvme::log_page::ReservationNotification;
use nvme::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReleaseAction, ReservationType};

use super::host_digest::{HostDigest, HostId};
use super::impossible_state::ImpossibleState;
use crate::limits::{PROVED_REGISTRANTS_RESERVE, REGISTRANTS_PER_NAME_MAX};

/// Hosts registered with one namespace: more than any cluster shares one among, and few enough for the data
/// path to find one of them in eight comparisons, and for a report of 16 KiB.
pub(crate) const REGISTRANTS_MAX: usize = 255;

const _: () = assert!(REGISTRANTS_PER_NAME_MAX + PROVED_REGISTRANTS_RESERVE < REGISTRANTS_MAX);

/// A host that is registered. Another NQN with the same HOSTID is another host, with a registration of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registrant {
    pub(crate) host_id: HostId,
    pub(crate) host_nqn: String,
    /// Digest of both.
    pub(super) host: HostDigest,
    /// Reservation key (RKEY), never 0.
    pub(crate) key: u64,
}

impl Registrant {
    pub(crate) fn new(host_id: HostId, host_nqn: String, key: u64) -> Self {
        Self { host: HostDigest::of(&host_nqn, &host_id), host_id, host_nqn, key }
    }
}

/// A reservation that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) kind: ReservationType,
    /// The one holder, or `None` where every registrant is one.
    pub(crate) holder: Option<HostDigest>,
}

impl Reservation {
    fn new(kind: ReservationType, host: HostDigest) -> Self {
        Self { kind, holder: (!kind.all_registrants()).then_some(host) }
    }
}

/// Parameters of a Reservation Register command (Base 7.6).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub(crate) action: RegisterAction,
    pub(crate) ignore_existing_key: bool,
    pub(crate) persistence: PersistenceChange,
    pub(crate) current_key: u64,
    pub(crate) new_key: u64,
}

/// Parameters of a Reservation Acquire command (Base 7.5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acquire {
    pub(crate) action: AcquireAction,
    pub(crate) ignore_existing_key: bool,
    pub(crate) kind: ReservationType,
    pub(crate) current_key: u64,
    pub(crate) preempt_key: u64,
}

/// Parameters of a Reservation Release command (Base 7.7).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub(crate) action: ReleaseAction,
    pub(crate) ignore_existing_key: bool,
    /// The type that is released. Clear does not look at it, so it may be none there.
    pub(crate) kind: Option<ReservationType>,
    pub(crate) current_key: u64,
}

/// Consequences of a command that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Notifications to other hosts. The host that sent the command is never among them.
    pub(crate) notices: Vec<(HostDigest, ReservationNotification)>,
    /// Hosts whose commands on this namespace are aborted before the command completes. The host
    /// that sent it keeps its own.
    pub(crate) aborts: Vec<HostDigest>,
    /// True if the state has changed, and has to be stored and its view published.
    pub(crate) changed: bool,
}

/// Access of a command to a namespace for reservations (Base 8.1.22, command behavior in the
/// presence of a reservation). A host that may write may read, so Copy within one namespace is a
/// write; from another one, it reads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The read command group.
    Read,
    /// The write command group. Namespace Management and Namespace Attachment are in it.
    Write,
}

impl Access {
    /// Access of the I/O command with this opcode. `None` for commands that never conflict here;
    /// the reservation commands are among them, since they have rules of their own.
    pub(crate) const fn of_io(opcode: u8) -> Option<Self> {
        match opcode {
            io_opcode::READ | io_opcode::COMPARE | io_opcode::VERIFY => Some(Self::Read),
            io_opcode::WRITE
            | io_opcode::WRITE_ZEROES
            | io_opcode::WRITE_UNCORRECTABLE
            | io_opcode::DATASET_MANAGEMENT
            | io_opcode::COPY
            | io_opcode::FLUSH => Some(Self::Write),
            _ => None,
        }
    }
}

/// Registrations and the reservation of one namespace.
///
/// A command either fails and changes nothing, or succeeds as a whole. It is cheap to clone, so that a caller
/// who has to keep the state can try a command on a clone, keep that, and put it in place only then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reservations {
    generation: u32,
    registrants: Vec<Registrant>,
    reservation: Option<Reservation>,
    persists: bool,
}

impl Reservations {
    /// The state that was kept before.
    ///
    /// # Errors
    /// `ImpossibleState`, which no sequence of commands could have led to.
    pub(crate) fn restore(
        generation: u32,
        registrants: Vec<Registrant>,
        reservation: Option<Reservation>,
        persists: bool,
    ) -> Result<Self, ImpossibleState> {
        if registrants.len() > REGISTRANTS_MAX {
            return Err(ImpossibleState::Registrants);
        }
        if registrants.iter().any(|registrant| registrant.key == 0) {
            return Err(ImpossibleState::ZeroKey);
        }
        let twice =
            |(at, one): (usize, &Registrant)| registrants[..at].iter().any(|other| other.host == one.host);
        if registrants.iter().enumerate().any(twice) {
            return Err(ImpossibleState::RegisteredTwice);
        }
        if let Some(Reservation { kind, holder }) = reservation {
            let is_registered =
                |host: HostDigest| registrants.iter().any(|registrant| registrant.host == host);
            match holder {
                _ if holder.is_none() != kind.all_registrants() => {
                    return Err(ImpossibleState::HolderOfType);
                }
                Some(holder) if !is_registered(holder) => return Err(ImpossibleState::UnknownHolder),
                None if registrants.is_empty() => return Err(ImpossibleState::NoHolder),
                _ => {}
            }
        }
        Ok(Self { generation, registrants, reservation, persists })
    }

    /// Number of changes of registrations (GEN); wraps.
    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    /// The reservation, if one is held.
    pub(crate) const fn reservation(&self) -> Option<Reservation> {
        self.reservation
    }

    /// True if registrations and reservation persist through power loss (PTPL).
    pub(crate) const fn persists(&self) -> bool {
        self.persists
    }

    /// Registrants in the order of their registration.
    pub(crate) fn registrants(&self) -> &[Registrant] {
        &self.registrants
    }

    /// Registrants as a Reservation Report has them (Base 7.8): one entry for each controller of a
    /// registrant, of which `controller_ids` returns the present ones.
    pub(crate) fn reported(
        &self,
        controller_ids: impl Fn(HostDigest) -> Vec<u16>,
    ) -> Vec<nvme::reservation::Registrant> {
        let mut reported = Vec::with_capacity(self.registrants.len());
        for registrant in &self.registrants {
            let mut controller_ids = controller_ids(registrant.host);
            if controller_ids.is_empty() {
                controller_ids.push(nvme::reservation::Registrant::NO_CONTROLLER);
            }
            reported.extend(controller_ids.into_iter().map(|controller_id| nvme::reservation::Registrant {
                controller_id,
                holds: self.holds(registrant.host),
                host_id: registrant.host_id,
                key: registrant.key,
            }));
        }
        reported
    }

    /// True if the host holds the reservation, alone or with all registrants.
    pub(crate) fn holds(&self, host: HostDigest) -> bool {
        self.reservation.is_some_and(|reservation| match reservation.holder {
            Some(holder) => holder == host,
            None => self.is_registered(host),
        })
    }

    /// True if the host is registered.
    pub(crate) fn is_registered(&self, host: HostDigest) -> bool {
        self.registrant(host).is_some()
    }

    /// True if the reservation forbids the host this access; the data path uses a `ReservationView`
    /// instead.
    #[cfg(test)]
    pub(crate) fn conflicts(&self, host: HostDigest, access: Access) -> bool {
        let Some(Reservation { kind, .. }) = self.reservation else { return false };
        let may_use = if admits_registrants(kind) { self.is_registered(host) } else { self.holds(host) };
        !may_use && (access == Access::Write || !kind.is_write_exclusive())
    }

    /// View for the data path, `None` without a reservation.
    pub(crate) fn view(&self) -> Option<ReservationView> {
        let Reservation { kind, holder } = self.reservation?;
        let mut users: Vec<HostDigest> = match holder {
            Some(holder) if !admits_registrants(kind) => vec![holder],
            _ => self.registrants.iter().map(|registrant| registrant.host).collect(),
        };
        users.sort_unstable();
        Some(ReservationView { excludes_readers: !kind.is_write_exclusive(), users: users.into() })
    }

    /// Sets whether the state outlives a loss of power, as the Reservation Persistence feature does .
    /// Whether that is a change.
    pub(crate) fn set_persists(&mut self, persists: bool) -> bool {
        std::mem::replace(&mut self.persists, persists) != persists
    }

    /// Executes a Reservation Register command (Base 7.6). A caller that cannot keep anything refuses a
    /// command that turns persistence on beforehand.
    ///
    /// # Errors
    /// Reservation Conflict for a key or a host that does not fit, Invalid Field for the key 0, Internal
    /// Error when `REGISTRANTS_MAX` hosts are registered.
    pub(crate) fn register(
        &mut self,
        host_id: HostId,
        host_nqn: &str,
        command: &Register,
    ) -> Result<Outcome, Status> {
        let mut outcome = Outcome { changed: true, ..Outcome::default() };
        let host = HostDigest::of(host_nqn, &host_id);
        let registered = self.registrant(host).map(|registrant| registrant.key);
        let key_fits = |key: u64| command.ignore_existing_key || key == command.current_key;
        match command.action {
            RegisterAction::Register | RegisterAction::Replace if command.new_key == 0 => {
                return Err(Status::INVALID_FIELD.do_not_retry());
            }
            RegisterAction::Register => match registered {
                None => self.add(host_id, host_nqn, command.new_key)?,
                // To register once more with the same key is not an error, so that a host may repeat itself.
                Some(key) if key == command.new_key => {}
                Some(_) => return Err(conflict()),
            },
            RegisterAction::Replace => match registered {
                Some(key) if key_fits(key) => self.replace_key(host, command.new_key),
                // Without regard to the key means without regard to whether there was one.
                None if command.ignore_existing_key => self.add(host_id, host_nqn, command.new_key)?,
                _ => return Err(conflict()),
            },
            RegisterAction::Unregister => {
                if !registered.is_some_and(key_fits) {
                    return Err(conflict());
                }
                // Where only the holder could use the namespace, no other registrant was waiting to
                // learn of it by registering.
                if self.remove(host).is_some_and(admits_registrants) {
                    self.tell_others(host, ReservationNotification::ReservationReleased, &mut outcome);
                }
            }
        }
        match command.persistence {
            PersistenceChange::NoChange => {}
            PersistenceChange::ClearOnPowerLoss => self.persists = false,
            PersistenceChange::PersistThroughPowerLoss => self.persists = true,
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(outcome)
    }

    /// Checks that a command may register this host, if it would. HOSTIDs are claims, of which a name may make a few; and names
    /// without proof leave room to those that are proved: a host that finds none could not even preempt.
    ///
    /// # Errors
    /// Internal Error, as where no more hosts can be registered.
    pub(crate) fn check_room(
        &self,
        (host_id, host_nqn): (&HostId, &str),
        is_proved: bool,
        action: RegisterAction,
    ) -> Result<(), Status> {
        let is_added = matches!(action, RegisterAction::Register | RegisterAction::Replace)
            && !self.is_registered(HostDigest::of(host_nqn, host_id));
        let of_name = self.registrants.iter().filter(|registrant| registrant.host_nqn == host_nqn).count();
        let most = if is_proved { REGISTRANTS_MAX } else { REGISTRANTS_MAX - PROVED_REGISTRANTS_RESERVE };
        if is_added && (of_name >= REGISTRANTS_PER_NAME_MAX || self.registrants.len() >= most) {
            return Err(Status::INTERNAL_ERROR);
        }
        Ok(())
    }

    /// Executes a Reservation Acquire command (Base 7.5).
    ///
    /// # Errors
    /// Reservation Conflict for a host that is not registered, a key that does not fit, or a reservation of
    /// another holder or type; Invalid Field where the existing key would be ignored, or the key 0 is to be
    /// preempted.
    pub(crate) fn acquire(&mut self, host: HostDigest, command: &Acquire) -> Result<Outcome, Status> {
        self.check_key(host, command.ignore_existing_key, command.current_key)?;
        match command.action {
            AcquireAction::Acquire => self.take(host, command.kind),
            AcquireAction::Preempt => self.preempt(host, command.kind, command.preempt_key),
            AcquireAction::PreemptAndAbort => {
                let mut outcome = self.preempt(host, command.kind, command.preempt_key)?;
                let preempted = outcome
                    .notices
                    .iter()
                    .filter(|(_, notice)| *notice == ReservationNotification::RegistrationPreempted);
                outcome.aborts = preempted.map(|(victim, _)| *victim).collect();
                Ok(outcome)
            }
        }
    }

    /// Executes a Reservation Release command (Base 7.7).
    ///
    /// # Errors
    /// Reservation Conflict for a host that is not registered or a key that does not fit; Invalid Field where
    /// the existing key would be ignored, or the reservation has another type.
    pub(crate) fn release(&mut self, host: HostDigest, command: &Release) -> Result<Outcome, Status> {
        self.check_key(host, command.ignore_existing_key, command.current_key)?;
        let mut outcome = Outcome::default();
        match command.action {
            ReleaseAction::Release => {
                // A host that lost the reservation meanwhile has what it wants, so that is not an error.
                let Some(held) = self.reservation.filter(|_| self.holds(host)) else {
                    return Ok(outcome);
                };
                if command.kind != Some(held.kind) {
                    return Err(Status::INVALID_FIELD.do_not_retry());
                }
                self.reservation = None;
                if admits_registrants(held.kind) {
                    self.tell_others(host, ReservationNotification::ReservationReleased, &mut outcome);
                }
            }
            ReleaseAction::Clear => {
                self.tell_others(host, ReservationNotification::ReservationPreempted, &mut outcome);
                self.registrants.clear();
                self.reservation = None;
                self.generation = self.generation.wrapping_add(1);
            }
        }
        outcome.changed = true;
        Ok(outcome)
    }

    /// Registrants whose NQN `is_meant`, off by the administration's order: registrations end, and the reservation with its
    /// last holder. Hosts that lose theirs, and registrants that may use the namespace again, get notices.
    pub(crate) fn drop_hosts(&mut self, is_meant: impl Fn(&str) -> bool) -> Outcome {
        let dropped: Vec<HostDigest> = self
            .registrants
            .iter()
            .filter(|registrant| is_meant(&registrant.host_nqn))
            .map(|registrant| registrant.host)
            .collect();
        let mut outcome = Outcome { changed: !dropped.is_empty(), ..Outcome::default() };
        let mut released = None;
        for host in &dropped {
            released = self.remove(*host).or(released);
            outcome.notices.push((*host, ReservationNotification::RegistrationPreempted));
        }
        if released.is_some_and(admits_registrants) {
            let left = self.registrants.iter();
            let notice = ReservationNotification::ReservationReleased;
            outcome.notices.extend(left.map(|registrant| (registrant.host, notice)));
        }
        if outcome.changed {
            self.generation = self.generation.wrapping_add(1);
        }
        outcome
    }

    fn take(&mut self, host: HostDigest, kind: ReservationType) -> Result<Outcome, Status> {
        match self.reservation {
            None => {
                self.reservation = Some(Reservation::new(kind, host));
                Ok(Outcome { changed: true, ..Outcome::default() })
            }
            Some(held) if held.kind == kind && self.holds(host) => Ok(Outcome::default()),
            Some(_) => Err(conflict()),
        }
    }

    /// Takes registrations away, and with the holder's the reservation over (Base 8.1.22).
    fn preempt(&mut self, host: HostDigest, kind: ReservationType, key: u64) -> Result<Outcome, Status> {
        let takes_over = match self.reservation {
            None => false,
            Some(Reservation { holder: None, .. }) => key == 0,
            Some(Reservation { holder: Some(_), .. }) if key == 0 => {
                return Err(Status::INVALID_FIELD.do_not_retry());
            }
            Some(Reservation { holder: Some(holder), .. }) => {
                self.registrant(holder).is_some_and(|registrant| registrant.key == key)
            }
        };
        // A host that takes over keeps its own registration, whatever its key. Otherwise it may preempt
        // itself.
        let is_preempted = |registrant: &Registrant| {
            (registrant.key == key || key == 0) && !(takes_over && registrant.host == host)
        };
        let preempted: Vec<HostDigest> = self
            .registrants
            .iter()
            .filter(|registrant| is_preempted(registrant))
            .map(|registrant| registrant.host)
            .collect();
        if !takes_over && (preempted.is_empty() || key == 0) {
            return Err(conflict());
        }
        let before = self.reservation;
        for victim in &preempted {
            self.remove(*victim);
        }
        let mut outcome = Outcome { changed: true, ..Outcome::default() };
        let others = preempted.iter().filter(|victim| **victim != host);
        outcome
            .notices
            .extend(others.map(|victim| (*victim, ReservationNotification::RegistrationPreempted)));
        if takes_over {
            self.reservation = Some(Reservation::new(kind, host));
            if before.is_some_and(|before| before.kind != kind) {
                self.tell_others(host, ReservationNotification::ReservationReleased, &mut outcome);
            }
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(outcome)
    }

    fn registrant(&self, host: HostDigest) -> Option<&Registrant> {
        self.registrants.iter().find(|registrant| registrant.host == host)
    }

    fn check_key(&self, host: HostDigest, ignore_existing_key: bool, key: u64) -> Result<(), Status> {
        if ignore_existing_key {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        match self.registrant(host) {
            Some(registrant) if registrant.key == key => Ok(()),
            _ => Err(conflict()),
        }
    }

    fn add(&mut self, host_id: HostId, host_nqn: &str, key: u64) -> Result<(), Status> {
        if self.registrants.len() >= REGISTRANTS_MAX {
            return Err(Status::INTERNAL_ERROR);
        }
        self.registrants.push(Registrant::new(host_id, host_nqn.to_owned(), key));
        Ok(())
    }

    fn replace_key(&mut self, host: HostDigest, key: u64) {
        for registrant in self.registrants.iter_mut().filter(|registrant| registrant.host == host) {
            registrant.key = key;
        }
    }

    /// Takes a registrant off, and with the last one who held it the reservation, whose type that is.
    fn remove(&mut self, host: HostDigest) -> Option<ReservationType> {
        self.registrants.retain(|registrant| registrant.host != host);
        let released = self.reservation.filter(|reservation| match reservation.holder {
            Some(holder) => holder == host,
            None => self.registrants.is_empty(),
        })?;
        self.reservation = None;
        Some(released.kind)
    }

    fn tell_others(&self, host: HostDigest, notice: ReservationNotification, outcome: &mut Outcome) {
        let others = self.registrants.iter().filter(|registrant| registrant.host != host);
        outcome.notices.extend(others.map(|registrant| (registrant.host, notice)));
    }
}

/// Hosts that may use a reserved namespace: an immutable excerpt for the data path, which shares it
/// and uses it only while there is a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReservationView {
    excludes_readers: bool,
    /// Hosts with full access, sorted.
    users: Box<[HostDigest]>,
}

/// Access of one host to a reserved namespace. A queue has one host, so it may keep this until
/// another view is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) allows_read: bool,
    pub(crate) allows_write: bool,
}

impl Gate {
    /// Access of every host to a namespace without a reservation.
    #[cfg(test)]
    pub(crate) const OPEN: Self = Self { allows_read: true, allows_write: true };

    /// True if the gate admits this access.
    pub(crate) const fn allows(self, access: Access) -> bool {
        match access {
            Access::Read => self.allows_read,
            Access::Write => self.allows_write,
        }
    }
}

impl ReservationView {
    /// True if the host may read.
    pub(crate) fn allows_read(&self, host: HostDigest) -> bool {
        !self.excludes_readers || self.allows_write(host)
    }

    /// True if the host may write.
    pub(crate) fn allows_write(&self, host: HostDigest) -> bool {
        self.users.binary_search(&host).is_ok()
    }

    /// Both, to be kept by a queue of this host.
    pub(crate) fn gate(&self, host: HostDigest) -> Gate {
        Gate { allows_read: self.allows_read(host), allows_write: self.allows_write(host) }
    }
}

/// Sending the same command again cannot help, since only another command can end the conflict.
const fn conflict() -> Status {
    Status::RESERVATION_CONFLICT.do_not_retry()
}

/// True if every registrant may use the namespace like the holder.
const fn admits_registrants(kind: ReservationType) -> bool {
    kind.registrants_only() || kind.all_registrants()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
