//! A controller: one association of a host with a subsystem, shared by its queues on whatever reactor they are.
//! A queue asks it one relaxed question per command; everything behind its lock belongs to admin commands.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use authentication::Authenticated;
use nvme::cross_reset::ControllerInstance;
use nvme::fabrics::{configuration, controller_status};
use nvme::features::value;
use nvme::log_page::{ErrorLogEntry, ReservationNotification, ReservationNotificationLog};
use nvme::{Status, SubmissionEntry};
use uuid::Uuid;
use zerocopy::little_endian::{U16, U32, U64};

use super::cross_resets::CrossResets;
use super::event::{Events, Notice};
use super::features::Features;
use super::guest::Guest;
use super::parameter_location::parameter_location;
use super::status::{AuthenticationStatus, ControllerStatus, Look, OpenQueue, QueueStatus};
use crate::limits::{DISCOVERY_IDLE_MS_MAX, ERROR_LOG_ENTRIES, IO_QUEUES_MAX};
use crate::ring::Moment;
use crate::target::lock::lock;
use crate::target::reservation::ReservationLog;
use crate::target::served::{GeneratedKey, Host, NamespaceTable, ReportedTime, Subsystem};
use crate::target::telemetry::QueueMeters;

/// A controller.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) id: u16,
    /// Instance, which distinguishes the controller from others with the same identifier.
    pub(crate) instance: ControllerInstance,
    pub(crate) subsystem: Arc<Subsystem>,
    pub(crate) host: Host,
    /// The port its host came by.
    pub(crate) port: u16,
    /// Host and network whose quotas the controller and its queues count against.
    pub(crate) guest: Guest,
    /// Parameters of the host's authentication, if it had to authenticate.
    pub(crate) proof: Option<Authenticated>,
    /// Set if its host has proved its name, by authentication or by the TLS key of the admin queue.
    pub(crate) is_proved: bool,
    /// The TLS key that has come out of its host's authentication, as long as it has not ended.
    pub(super) generated_key: Mutex<Option<Arc<GeneratedKey>>>,
    /// The namespaces its host sees.
    table: RwLock<Arc<NamespaceTable>>,
    ready: AtomicBool,
    ended: AtomicBool,
    /// Time at which any queue last received something, in the ring's nanoseconds.
    last_received: AtomicU64,
    keep_alive_ms: AtomicU64,
    pub(crate) meters: QueueMeters,
    pub(crate) quiesce: ReportedTime,
    state: Mutex<State>,
}

/// State that admin commands change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) configuration: u32,
    pub(crate) status: u32,
    /// A reset, or a shutdown, waits for the controller's last command.
    is_disabling: bool,
    is_shutting_down: bool,
    pub(crate) features: Features,
    /// Queues of the controller, the admin queue included, each with the serial number of its
    /// connection.
    pub(crate) queues: Vec<(u64, OpenQueue)>,
    pub(super) events: Events,
    /// Namespaces that are otherwise than the host may think; too many to name beyond a list's length.
    pub(super) changed_namespaces: BTreeSet<u32>,
    pub(super) reservation_log: ReservationLog,
    /// The resets of other controllers that it was asked for.
    pub(crate) cross_resets: CrossResets,
    errors: Vec<ErrorLogEntry>,
    error_count: u64,
}

/// Transition that completes when no command of a controller's I/O queues can still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quiesce {
    /// A reset (CC.EN from 1 to 0), which is complete when CSTS.RDY is 0.
    Disable,
    /// A shutdown (CC.SHN), which is complete when CSTS.SHST says so.
    ShutDown,
    /// Both in one.
    Both,
}

/// `status` with other bits of SHST.
const fn with_shutdown(status: u32, shutdown: u32) -> u32 {
    status & !controller_status::SHUTDOWN_MASK | shutdown
}

/// A keep alive may come this much late before the host counts as gone: the timer's granularity.
const KEEP_ALIVE_GRACE: Duration = Duration::from_secs(1);

impl Controller {
    pub(crate) fn new(
        instance: ControllerInstance,
        subsystem: Arc<Subsystem>,
        host: Host,
        (port, guest): (u16, Guest),
        (proof, is_proved): (Option<Authenticated>, bool),
        keep_alive_ms: u32,
        now: Moment,
    ) -> Self {
        let table = RwLock::new(subsystem.table_for(&host.nqn, port));
        let features = Features::new(subsystem.state().config.io_queues_max());
        Self {
            id: instance.controller_id,
            instance,
            subsystem,
            host,
            port,
            guest,
            proof,
            is_proved,
            generated_key: Mutex::default(),
            table,
            ready: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            last_received: AtomicU64::new(now.0),
            keep_alive_ms: AtomicU64::new(u64::from(keep_alive_ms)),
            meters: QueueMeters::default(),
            quiesce: ReportedTime::default(),
            state: Mutex::new(State {
                configuration: 0,
                status: 0,
                is_disabling: false,
                is_shutting_down: false,
                features,
                queues: Vec::new(),
                events: Events::default(),
                changed_namespaces: BTreeSet::new(),
                reservation_log: ReservationLog::default(),
                cross_resets: CrossResets::default(),
                errors: Vec::new(),
                error_count: 0,
            }),
        }
    }

    /// True if I/O commands are accepted: the controller is enabled, not shut down, and has not
    /// ended.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// True once the association has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the association; whether it was this call that did.
    pub(crate) fn end(&self) -> bool {
        let is_first = !self.ended.swap(true, Ordering::AcqRel);
        // Second: a queue that finds the controller not ready must find that it has ended, and not refuse commands as if it
        // were merely disabled.
        self.ready.store(false, Ordering::Release);
        if is_first {
            *lock(&self.generated_key) = None;
        }
        is_first
    }

    /// Lets this TLS key be accepted as long as the association lasts, instead of the one that it gives back.
    pub(crate) fn hold_key(&self, key: Arc<GeneratedKey>) -> Option<Arc<GeneratedKey>> {
        let mut held = lock(&self.generated_key);
        if self.has_ended() { None } else { held.replace(key) }
    }

    /// Time at which anything was last received from the host.
    pub(crate) fn last_received(&self) -> Moment {
        Moment(self.last_received.load(Ordering::Relaxed))
    }

    /// Records that something was received from the host at `moment`. Another reactor may have received something later.
    pub(crate) fn note_received(&self, moment: Moment) {
        self.last_received.fetch_max(moment.0, Ordering::Relaxed);
    }

    /// The keep alive time-out in milliseconds, 0 for none.
    pub(crate) fn keep_alive_ms(&self) -> u32 {
        self.keep_alive_ms.load(Ordering::Relaxed) as u32
    }

    /// Sets the keep alive time-out in milliseconds.
    pub(crate) fn set_keep_alive_ms(&self, keep_alive_ms: u32) {
        self.keep_alive_ms.store(u64::from(keep_alive_ms), Ordering::Relaxed);
    }

    /// Time at which the host's silence exceeds its keep alive time-out, or the idle limit of a
    /// discovery controller without one, if nothing is received until then. `None` without a limit.
    pub(crate) fn silent_at(&self) -> Option<Moment> {
        let timeout = Duration::from_millis(match self.keep_alive_ms() {
            0 if self.subsystem.is_discovery => DISCOVERY_IDLE_MS_MAX,
            keep_alive_ms => u64::from(keep_alive_ms),
        });
        (!timeout.is_zero()).then(|| self.last_received().after(timeout + KEEP_ALIVE_GRACE))
    }

    /// True if the host has been silent for longer than its limit.
    pub(crate) fn is_silent(&self, now: Moment) -> bool {
        self.silent_at().is_some_and(|moment| now >= moment)
    }

    /// State that admin commands change, locked.
    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Writes Controller Configuration: true if that is a reset (CC.EN from 1 to 0), also while an earlier one is under way; and
    /// the transition that it begins, if any, which closes the I/O queues and ends with their last command.
    pub(crate) fn configure(&self, value: u32) -> (bool, Option<Quiesce>) {
        let mut state = self.state();
        let old = std::mem::replace(&mut state.configuration, value);
        let was_enabled = old & configuration::ENABLE != 0;
        let enabled = value & configuration::ENABLE != 0;
        let is_reset = was_enabled && !enabled;
        let mut begun = None;
        // A host that enables the controller before a reset has ended gets it enabled when it has.
        if enabled && !was_enabled && !state.is_disabling {
            state.status = self.status_enabled(value);
        } else if is_reset && !state.is_disabling {
            // Not ready before the fence is raised: the queues begin nothing that it could miss.
            state.is_disabling = true;
            begun = Some(Quiesce::Disable);
        }
        let shutdown = configuration::SHUTDOWN_MASK;
        if value & shutdown != 0 && old & shutdown == 0 && !state.is_shutting_down {
            state.is_shutting_down = true;
            state.status = with_shutdown(state.status, controller_status::SHUTDOWN_OCCURRING);
            begun = Some(begun.map_or(Quiesce::ShutDown, |_| Quiesce::Both));
        } else if value & shutdown == 0 && !state.is_shutting_down {
            state.status = with_shutdown(state.status, 0);
        }
        self.update_ready(&state);
        (is_reset, begun)
    }

    /// No command of an I/O queue can still take effect: a reset is complete, and all but the identity is back where it
    /// began (Base 3.7.2).
    pub(crate) fn disabled(&self) {
        let features = Features::new(self.subsystem.state().config.io_queues_max());
        let mut state = self.state();
        state.is_disabling = false;
        let configuration = state.configuration;
        let enabled = configuration & configuration::ENABLE != 0;
        let shutdown = if state.is_shutting_down { controller_status::SHUTDOWN_OCCURRING } else { 0 };
        state.status = with_shutdown(if enabled { self.status_enabled(configuration) } else { 0 }, shutdown);
        state.features = features;
        state.events = Events::default();
        state.changed_namespaces.clear();
        state.reservation_log = ReservationLog::default();
        state.cross_resets.clear_log();
        self.update_ready(&state);
    }

    /// No command of an I/O queue can still take effect, and what they have written is durable; or `is_durable` says that it
    /// may not be, which no completion can tell the host (CSTS.CFS, Base 3.1.4.6).
    pub(crate) fn shut_down(&self, is_durable: bool) {
        let mut state = self.state();
        state.is_shutting_down = false;
        let asked = state.configuration & configuration::SHUTDOWN_MASK != 0;
        let shutdown = if asked { controller_status::SHUTDOWN_COMPLETE } else { 0 };
        state.status = with_shutdown(state.status, shutdown);
        if !is_durable {
            state.status |= controller_status::FATAL;
        }
        self.update_ready(&state);
    }

    pub(super) fn update_ready(&self, state: &State) {
        let status = state.status & (controller_status::READY | controller_status::SHUTDOWN_MASK);
        let is_ready = status == controller_status::READY && !state.is_disabling && !self.has_ended();
        self.ready.store(is_ready, Ordering::Release);
    }

    /// The status of an enabled controller with this configuration.
    fn status_enabled(&self, value: u32) -> u32 {
        if self.takes(value) { controller_status::READY } else { controller_status::FATAL }
    }

    /// True if the controller can run with this configuration.
    fn takes(&self, value: u32) -> bool {
        let field = |shift: u32, bits: u32| value >> shift & ((1 << bits) - 1);
        let command_set = field(configuration::COMMAND_SET_SHIFT, 3);
        let sizes = value & (0xff << 16);
        let expected = configuration::SUBMISSION_ENTRY_SIZE | configuration::COMPLETION_ENTRY_SIZE;
        field(configuration::PAGE_SIZE_SHIFT, 4) == 0
            && field(configuration::ARBITRATION_SHIFT, 3) == 0
            && (command_set == 0 || command_set == configuration::COMMAND_SET_ALL)
            && (self.subsystem.is_discovery || sizes == expected)
    }

    /// The namespaces its host sees.
    pub(crate) fn table(&self) -> Arc<NamespaceTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets its host see others.
    pub(crate) fn set_table(&self, table: Arc<NamespaceTable>) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// Records that something happened. Returns whether the host is to be notified now.
    pub(crate) fn raise(&self, notice: Notice) -> bool {
        let mut state = self.state();
        notice.is_wanted(state.features.async_events()) && state.events.raise(notice)
    }

    /// The next event to tell the host.
    pub(crate) fn next_event(&self) -> Option<u32> {
        self.state().events.next()
    }

    /// Records that the host reads the log page of a notice. Later occurrences are reported again.
    pub(crate) fn looked_at(&self, notice: Notice) {
        self.state().events.looked_at(notice);
    }

    /// Records namespaces that have changed since the host looked at them.
    pub(crate) fn note_changed_namespaces(&self, nsids: &BTreeSet<u32>) {
        self.state().changed_namespaces.extend(nsids);
    }

    /// The namespaces that changed since they were last asked for; `keep` leaves them to be asked for again.
    pub(crate) fn changed_namespaces(&self, keep: bool) -> BTreeSet<u32> {
        let mut state = self.state();
        if keep { state.changed_namespaces.clone() } else { std::mem::take(&mut state.changed_namespaces) }
    }

    /// Writes a reservation notification into the log, unless its host has masked it; whether there is one to report.
    pub(crate) fn note_reservation(&self, kind: ReservationNotification, nsid: u32) -> bool {
        let masked_by = match kind {
            ReservationNotification::Empty => return false,
            ReservationNotification::RegistrationPreempted => value::MASK_REGISTRATION_PREEMPTED,
            ReservationNotification::ReservationReleased => value::MASK_RESERVATION_RELEASED,
            ReservationNotification::ReservationPreempted => value::MASK_RESERVATION_PREEMPTED,
        };
        let mut state = self.state();
        let wanted = state.features.reservation_mask(nsid) & masked_by == 0;
        if wanted {
            state.reservation_log.push(kind, nsid);
        }
        wanted
    }

    /// The page of the reservation notification log that the host reads next.
    pub(crate) fn reservation_page(&self) -> ReservationNotificationLog {
        self.state().reservation_log.first()
    }

    /// The host has read the page with this count. Another one that waits is an event of its own.
    pub(crate) fn read_reservation_page(&self, page_count: u64) {
        let mut state = self.state();
        state.reservation_log.was_read(page_count);
        state.events.looked_at(Notice::Reservation);
        if !state.reservation_log.is_empty() {
            state.events.raise(Notice::Reservation);
        }
    }

    /// Takes the admin queue, whose connection has this serial number.
    pub(crate) fn add_admin_queue(&self, serial: u64, queue: OpenQueue) {
        self.state().queues.push((serial, queue));
    }

    /// Takes an I/O queue, whose connection has this serial number; whether it is one of those that were granted. One that is
    /// not is taken all the same, as long as a controller can have it. A limit that has become lower takes no queue away that was
    /// granted before, nor one that `is_former`: of a host that another process hands over.
    ///
    /// # Errors
    /// The status when the controller is not ready, cannot have the queue, or has it already.
    pub(crate) fn add_queue(&self, serial: u64, queue: OpenQueue, is_former: bool) -> Result<bool, Status> {
        let queues_max =
            if is_former { IO_QUEUES_MAX } else { self.subsystem.state().config.io_queues_max() };
        let mut state = self.state();
        let queue_id = queue.queue_id;
        if !self.is_ready() {
            return Err(Status::CONNECT_CONTROLLER_BUSY);
        }
        if queue_id > queues_max.max(state.features.io_queues()) {
            return Err(Status::CONNECT_INVALID_PARAMETERS.do_not_retry());
        }
        if state.queues.iter().any(|(_, known)| known.queue_id == queue_id) {
            // Not for good: the end of the connection that had it may be on its way to another reactor.
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        state.queues.push((serial, queue));
        Ok(queue_id <= state.features.io_queues())
    }

    /// Status for the API.
    pub(crate) fn status(&self) -> ControllerStatus {
        let looks: Vec<Look> = self.state().queues.iter().map(|(_, queue)| queue.look()).collect();
        let mut queues: Vec<QueueStatus> = looks.into_iter().map(Look::status).collect();
        queues.sort_unstable_by_key(|queue| queue.queue_id);
        ControllerStatus {
            cntlid: self.id,
            subsystem: self.subsystem.nqn.clone(),
            host_nqn: self.host.nqn.clone(),
            host_id: Uuid::from_bytes(self.host.id),
            port: self.port,
            ready: self.is_ready(),
            ending: self.has_ended(),
            keep_alive_ms: self.keep_alive_ms(),
            authentication: self.proof.map(AuthenticationStatus::from),
            queues,
        }
    }

    /// Records that the queue on the connection with this serial number has ended.
    pub(crate) fn remove_queue(&self, serial: u64) {
        self.state().queues.retain(|(of, _)| *of != serial);
    }

    /// Writes a failed command into the error log.
    pub(crate) fn log_error(&self, queue_id: u16, entry: &SubmissionEntry, status: Status) {
        let mut state = self.state();
        state.error_count += 1;
        let mut error = ErrorLogEntry::default();
        error.error_count = U64::new(state.error_count);
        error.queue_id = U16::new(queue_id);
        error.command_id = entry.command_id;
        error.status = U16::new(status.bits() << 1);
        error.parameter_location = U16::new(parameter_location(entry, status));
        error.lba = U64::new(if queue_id == 0 { 0 } else { entry.cdw10_11() });
        error.namespace_id = U32::new(entry.nsid.get());
        error.transport_type = 3;
        error.opcode = entry.opcode;
        error.version = 1;
        if state.errors.len() == ERROR_LOG_ENTRIES {
            state.errors.pop();
        }
        state.errors.insert(0, error);
    }
}

impl State {
    /// True if all queues of the controller use TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.queues.iter().all(|(_, queue)| queue.protection.is_some())
    }

    /// True if the admin queue of the controller uses TLS.
    pub(crate) fn has_secure_admin_queue(&self) -> bool {
        self.queues.iter().any(|(_, queue)| queue.queue_id == 0 && queue.protection.is_some())
    }

    /// True if the controller has an I/O queue.
    pub(crate) fn has_io_queues(&self) -> bool {
        self.queues.iter().any(|(_, queue)| queue.queue_id > 0)
    }

    /// The error log, newest entry first.
    pub(crate) fn errors(&self) -> &[ErrorLogEntry] {
        &self.errors
    }

    /// True while a reset or a shutdown waits for the last command.
    pub(super) const fn is_in_transition(&self) -> bool {
        self.is_disabling || self.is_shutting_down
    }

    /// Has the errors of the old process, newest first, and counts on from those.
    pub(super) fn set_errors(&mut self, count: u64, mut errors: Vec<ErrorLogEntry>) {
        errors.truncate(ERROR_LOG_ENTRIES);
        (self.error_count, self.errors) = (count, errors);
    }

    /// Errors since the controller was made.
    pub(crate) const fn error_count(&self) -> u64 {
        self.error_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::served::HostKeys;

    fn controller(subsystem: Subsystem, keep_alive_ms: u32) -> Controller {
        let host = Host::new("nqn.2026-01.io.selvedge:host".to_owned(), [1; 16]);
        let instance = ControllerInstance { controller_id: 1, uniquifier: 1, random_number: 1 };
        let network = crate::target::controller::Network::of([127, 0, 0, 1].into());
        let guest = Guest { nqn: host.nqn.clone(), network, is_named: false, is_proved: false };
        Controller::new(
            instance,
            Arc::new(subsystem),
            host,
            (1, guest),
            (None, false),
            keep_alive_ms,
            Moment(0),
        )
    }

    #[test]
    fn only_a_discovery_controller_ends_without_a_keep_alive() {
        let after = |ms| Moment(0).after(Duration::from_millis(ms));
        let discovery = || Subsystem::discovery("nqn.2026-01.io.selvedge:discovery");
        let silent = controller(discovery(), 0);
        assert!(!silent.is_silent(after(DISCOVERY_IDLE_MS_MAX)));
        assert!(silent.is_silent(after(DISCOVERY_IDLE_MS_MAX + 2000)));
        assert_eq!(silent.keep_alive_ms(), 0, "the host is shown the value that it has set");
        silent.note_received(after(DISCOVERY_IDLE_MS_MAX));
        assert!(!silent.is_silent(after(DISCOVERY_IDLE_MS_MAX + 2000)));
        assert!(!controller(discovery(), 300_000).is_silent(after(DISCOVERY_IDLE_MS_MAX + 2000)));
        let config =
            crate::target::config::SubsystemConfig::new("nqn.2026-01.io.selvedge:a", "A", "Selvedge");
        assert!(
            !controller(Subsystem::new(&config, std::collections::BTreeMap::new(), HostKeys::default()), 0)
                .is_silent(after(1 << 40))
        );
    }
}
