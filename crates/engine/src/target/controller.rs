//! A controller: one association of a host with a subsystem, shared by its queues on whatever reactor they are.
//! A queue asks it one relaxed question per command; everything behind its lock belongs to admin commands.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nvme::fabrics::{configuration, controller_status};
use nvme::log_page::ErrorLogEntry;
use nvme::{Status, SubmissionEntry};
use zerocopy::little_endian::{U16, U32, U64};

use super::features::Features;
use super::subsystem::{Subsystem, lock};
use crate::limits::{ERROR_LOG_ENTRIES, IO_QUEUES_MAX};
use crate::ring::Moment;

/// Who uses a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) nqn: String,
    pub(super) id: [u8; 16],
}

/// A controller.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) id: u16,
    pub(super) subsystem: Arc<Subsystem>,
    pub(super) host: Host,
    ready: AtomicBool,
    ended: AtomicBool,
    /// When a command of any queue was last seen, in the ring's nanoseconds.
    heard: AtomicU64,
    keep_alive_ms: AtomicU64,
    state: Mutex<State>,
}

/// What admin commands change.
#[derive(Debug)]
pub(super) struct State {
    pub(super) configuration: u32,
    pub(super) status: u32,
    pub(super) features: Features,
    pub(super) queues: Vec<u16>,
    errors: Vec<ErrorLogEntry>,
    error_count: u64,
}

/// A keep alive may come this much late before the host counts as gone: the timer's granularity.
const KEEP_ALIVE_GRACE: Duration = Duration::from_secs(1);

impl Controller {
    pub(super) fn new(
        id: u16,
        subsystem: Arc<Subsystem>,
        host: Host,
        keep_alive_ms: u32,
        now: Moment,
    ) -> Self {
        Self {
            id,
            subsystem,
            host,
            ready: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            heard: AtomicU64::new(now.0),
            keep_alive_ms: AtomicU64::new(u64::from(keep_alive_ms)),
            state: Mutex::new(State {
                configuration: 0,
                status: 0,
                features: Features::default(),
                queues: Vec::new(),
                errors: Vec::new(),
                error_count: 0,
            }),
        }
    }

    /// Whether I/O commands are taken: enabled, not shut down, not ended.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Whether the association is over.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Ends the association; whether it was this call that did.
    pub(super) fn end(&self) -> bool {
        self.ready.store(false, Ordering::Relaxed);
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// Takes note that the host was heard of at `now`.
    pub(super) fn hear(&self, now: Moment) {
        self.heard.store(now.0, Ordering::Relaxed);
    }

    /// The keep alive time-out in milliseconds, 0 for none.
    pub(super) fn keep_alive_ms(&self) -> u32 {
        self.keep_alive_ms.load(Ordering::Relaxed) as u32
    }

    /// Sets the keep alive time-out in milliseconds.
    pub(super) fn set_keep_alive_ms(&self, keep_alive_ms: u32) {
        self.keep_alive_ms.store(u64::from(keep_alive_ms), Ordering::Relaxed);
    }

    /// Whether the host has been silent for longer than its keep alive time-out.
    pub(super) fn is_silent(&self, now: Moment) -> bool {
        let timeout = Duration::from_millis(u64::from(self.keep_alive_ms()));
        let heard = Moment(self.heard.load(Ordering::Relaxed));
        !timeout.is_zero() && now.since(heard) > timeout + KEEP_ALIVE_GRACE
    }

    /// What admin commands change.
    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Writes Controller Configuration; whether the I/O queues have to be closed.
    pub(super) fn configure(&self, value: u32) -> bool {
        let mut state = self.state();
        let old = std::mem::replace(&mut state.configuration, value);
        let was_enabled = old & configuration::ENABLE != 0;
        let enabled = value & configuration::ENABLE != 0;
        let mut close = false;
        if enabled && !was_enabled {
            state.status =
                if self.takes(value) { controller_status::READY } else { controller_status::FATAL };
        } else if !enabled && was_enabled {
            // A reset: all but the identity goes back to where it began (Base 3.7.2).
            state.status = 0;
            state.features = Features::default();
            close = true;
        }
        let shutdown = configuration::SHUTDOWN_MASK;
        if value & shutdown != 0 && old & shutdown == 0 {
            state.status |= controller_status::SHUTDOWN_COMPLETE;
        } else if value & shutdown == 0 {
            state.status &= !controller_status::SHUTDOWN_MASK;
        }
        let ready = state.status & (controller_status::READY | controller_status::SHUTDOWN_MASK);
        self.ready.store(ready == controller_status::READY && !self.has_ended(), Ordering::Relaxed);
        close
    }

    /// Whether the configuration is one this controller can run with.
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

    /// Takes I/O queue `queue_id`.
    ///
    /// # Errors
    /// The status when the controller is not ready, has not granted the queue, or has it already.
    pub(super) fn add_queue(&self, queue_id: u16) -> Result<(), Status> {
        let mut state = self.state();
        if !self.is_ready() {
            return Err(Status::CONNECT_CONTROLLER_BUSY);
        }
        if queue_id > state.features.io_queues().min(IO_QUEUES_MAX) {
            return Err(Status::CONNECT_INVALID_PARAMETERS.do_not_retry());
        }
        if state.queues.contains(&queue_id) {
            return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
        }
        state.queues.push(queue_id);
        Ok(())
    }

    /// Takes note that an I/O queue has ended.
    pub(super) fn remove_queue(&self, queue_id: u16) {
        self.state().queues.retain(|queue| *queue != queue_id);
    }

    /// Writes a failed command into the error log.
    pub(super) fn log_error(&self, queue_id: u16, entry: &SubmissionEntry, status: Status) {
        let mut state = self.state();
        state.error_count += 1;
        let mut error = ErrorLogEntry::default();
        error.error_count = U64::new(state.error_count);
        error.queue_id = U16::new(queue_id);
        error.command_id = entry.command_id;
        error.status = U16::new(status.bits() << 1);
        // Which byte was wrong is not known here (Base 5.1.12.1.2).
        error.parameter_location = U16::new(0xffff);
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
    /// The error log, newest entry first.
    pub(super) fn errors(&self) -> &[ErrorLogEntry] {
        &self.errors
    }

    /// Errors since the controller was made.
    pub(super) const fn error_count(&self) -> u64 {
        self.error_count
    }
}
