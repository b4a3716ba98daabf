//! A controller: the association of this host with a subsystem, from Connect to shutdown, and what
//! it reports. Its admin queue lives on a thread of its own (`admin`); I/O queues are opened by the
//! threads that use them.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nvme::SubmissionEntry;
use nvme::command::admin_opcode;
use nvme::fabrics::{Capabilities, property};
use nvme::features::AsyncEvent;
use nvme::identify::bits::controller_type;
use nvme::identify::{Cns, IdentifyController, IdentifyRequest};
use nvme::log_page::{CommandStagesLog, LogPageId, LogPageRequest};
use zerocopy::FromBytes;

use super::admin::{AdminReply, AdminThread, Began};
use super::bring_up::{BringUp, page_length_min};
use super::deallocate_limits::DeallocateLimits;
use crate::initiator::{ConcatKey, ConnectOptions, InitiatorError, QueueOptions};
use crate::limits::{
    ASYNC_EVENTS_MAX, BUFFER_LENGTH_MAX, IN_CAPSULE_LENGTH_MAX, IO_QUEUES_MAX, QUEUE_ENTRIES_MAX,
};
use crate::ring::{EventCount, Moment};

/// A connected controller. Clones are the same controller; when the last is dropped it is shut down. All
/// methods may be called from any thread and wait for the controller's answer.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: ConnectOptions,
    /// The TLS key of all its queues that comes out of the authentication, if one does.
    concat: Option<Arc<ConcatKey>>,
    admin: AdminThread,
    id: u16,
    capabilities: Capabilities,
    version: u32,
    identify: Box<IdentifyController>,
    io_queues: u16,
    /// Bytes one Write Zeroes may clear, from the NVM command set's limits; `None` for no limit of its own.
    write_zeroes_length_max: Option<u64>,
    deallocate_limits: DeallocateLimits,
    shut_down: AtomicBool,
}

impl Controller {
    /// Connects to a subsystem and makes the controller ready: Connect, enable, Identify, number of queues,
    /// events.
    ///
    /// # Errors
    /// When the target cannot be reached, refuses, breaks the protocol or does not answer in time.
    pub fn connect(options: ConnectOptions) -> Result<Controller, InitiatorError> {
        Self::connect_with(options, None)
    }

    /// `connect`, with an event count that is notified for each event and when the admin queue has ended.
    pub(crate) fn connect_with(
        options: ConnectOptions,
        event_count: Option<Arc<EventCount>>,
    ) -> Result<Controller, InitiatorError> {
        let concat = options.concat_key();
        let (admin, id) = AdminThread::start(&options, concat.as_ref(), event_count)?;
        let bring_up = BringUp { admin: &admin, address: options.address };
        let capabilities = Capabilities(bring_up.property(property::CAPABILITIES, true)?);
        let version = bring_up.property(property::VERSION, false)? as u32;
        bring_up.enable(capabilities)?;
        let identify: Box<IdentifyController> =
            bring_up.identify(IdentifyRequest::new(Cns::CONTROLLER), 0)?;
        let is_io =
            !matches!(identify.controller_type, controller_type::DISCOVERY | controller_type::ADMINISTRATIVE);
        let io_queues = match NonZero::new(options.io_queues.min(IO_QUEUES_MAX)) {
            Some(asked) if is_io => bring_up.number_of_queues(asked)?,
            _ => 0,
        };
        bring_up.ask_for_events(identify.optional_async_events.get())?;
        let events = usize::from(identify.async_event_request_limit) + 1;
        admin.began(Began {
            events: events.min(ASYNC_EVENTS_MAX),
            keep_alive_ms: options.keep_alive_ms,
            takes_key_updates: identify.takes_key_updates(),
        });
        let (write_zeroes_length_max, deallocate_limits) =
            if is_io { bring_up.command_limits(capabilities)? } else { (None, DeallocateLimits::NONE) };
        Ok(Controller(Arc::new(Inner {
            options,
            concat,
            id,
            capabilities,
            version,
            identify,
            io_queues,
            write_zeroes_length_max,
            deallocate_limits,
            shut_down: AtomicBool::new(false),
            admin,
        })))
    }

    /// Options of the connection.
    pub fn options(&self) -> &ConnectOptions {
        &self.0.options
    }

    /// The target's address.
    pub fn address(&self) -> SocketAddr {
        self.0.options.address
    }

    /// Time since its last answered Keep Alive, if that is longer than its keep alive time-out.
    pub(crate) fn missed_keep_alive(&self, now: Moment) -> Option<Duration> {
        let timeout = Duration::from_millis(self.0.options.keep_alive_ms.into());
        self.0.admin.silence(now).filter(|silence| *silence > timeout)
    }

    /// Controller identifier (CNTLID).
    pub fn id(&self) -> u16 {
        self.0.id
    }

    /// Controller capabilities (CAP).
    pub fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    /// The version of the specification it follows (VS): major 31:16, minor 15:8, tertiary 7:0.
    pub fn version(&self) -> u32 {
        self.0.version
    }

    /// Identify Controller, as it was when connected.
    pub fn identify(&self) -> &IdentifyController {
        &self.0.identify
    }

    /// I/O queues that were granted; their identifiers are 1 to this number.
    pub fn io_queues(&self) -> u16 {
        self.0.io_queues
    }

    /// The most bytes one command may transfer: MDTS, and no more than `limits::BUFFER_LENGTH_MAX`.
    pub fn transfer_length_max(&self) -> usize {
        transfer_length(page_length_min(self.0.capabilities), self.0.identify.max_data_transfer_size)
    }

    /// The most bytes one Write Zeroes may clear (WZSL); `None` when only the block count limits it.
    pub fn write_zeroes_length_max(&self) -> Option<u64> {
        self.0.write_zeroes_length_max
    }

    /// Limits of Dataset Management (DMRSL, DMRL, DMSL).
    pub fn deallocate_limits(&self) -> DeallocateLimits {
        self.0.deallocate_limits
    }

    /// Options for I/O queue `queue_id`, on any thread.
    pub fn queue_options(&self, queue_id: u16) -> QueueOptions {
        let Inner { options, concat, capabilities, identify, .. } = &*self.0;
        // Zero is from a controller that does not say how many commands it takes (MAXCMD).
        let taken_max = Some(identify.max_outstanding_commands.get()).filter(|most| *most > 0);
        let entries_max = taken_max.unwrap_or(QUEUE_ENTRIES_MAX).min(QUEUE_ENTRIES_MAX);
        let entries_max = capabilities.queue_entries_max().min(u32::from(entries_max)) as u16;
        let capsule = u64::from(identify.io_command_capsule_size.get()) * 16;
        // Data that does not begin right behind the entry is not known to anybody's capsules.
        let has_offset = identify.in_capsule_data_offset.get() != 0;
        let room = if has_offset { 0 } else { capsule.saturating_sub(size_of::<SubmissionEntry>() as u64) };
        let place = usize::from(queue_id).checked_sub(1);
        let source_ports = place.and_then(|place| options.io_queue_ports.get(place));
        QueueOptions {
            queue_id,
            concat: concat.clone(),
            source_ports: source_ports.cloned().unwrap_or_default(),
            entries: options.queue_entries.clamp(2, entries_max.max(2)),
            controller_id: self.0.id,
            keep_alive_ms: 0,
            in_capsule_length: room.min(IN_CAPSULE_LENGTH_MAX as u64) as usize,
            takes_key_updates: identify.takes_key_updates(),
            disable_flow_control: options.disable_flow_control,
            ..options.admin_queue()
        }
    }

    /// Sends an admin command, with data to the controller or room for `receive_length` bytes from it. The
    /// status is whatever the controller says.
    ///
    /// # Errors
    /// When the connection is lost, or data in both directions or more than 1 MiB is asked for.
    pub fn admin(
        &self,
        entry: SubmissionEntry,
        send: Option<&[u8]>,
        receive_length: usize,
    ) -> Result<AdminReply, InitiatorError> {
        self.0.admin.command(entry, send, receive_length)
    }

    /// `length` bytes at `offset` of a log page, read in pieces when they are many. `nsid` is that of the
    /// namespace the page is about, or 0 for the controller, or `NSID_ALL`.
    ///
    /// # Errors
    /// When the connection is lost or the controller refuses.
    pub fn log_page(
        &self,
        id: LogPageId,
        nsid: u32,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>, InitiatorError> {
        self.read_log(id, nsid, offset, length, false)
    }

    /// `length` bytes of a log page from its beginning, with a log specific parameter (LSP); they are no more than one
    /// command transfers.
    pub(crate) fn read_log_with(
        &self,
        id: LogPageId,
        specific_parameter: u8,
        length: usize,
    ) -> Result<Vec<u8>, InitiatorError> {
        let length = length.min(self.transfer_length_max()) & !3;
        let mut request = LogPageRequest::new(id, 0, length as u64);
        request.specific_parameter = specific_parameter;
        Ok(self.admin(log_page_entry(&request, 0), None, length)?.success("Get Log Page")?.data)
    }

    /// Sends an admin command with room for this many bytes, and waits no longer than `timeout` for its end.
    pub(super) fn admin_reads_within(
        &self,
        entry: SubmissionEntry,
        receive_length: usize,
        timeout: Duration,
    ) -> Result<AdminReply, InitiatorError> {
        self.0.admin.command_within(entry, None, receive_length, timeout)
    }

    /// Sends an admin command without data, and waits no longer than `timeout` for its end.
    pub(crate) fn admin_within(
        &self,
        entry: SubmissionEntry,
        timeout: Duration,
    ) -> Result<AdminReply, InitiatorError> {
        self.0.admin.command_within(entry, None, 0, timeout)
    }

    /// Times of all hosts' commands on a namespace at the target, by stage; `None` if the target
    /// has no such page. Waits no longer than `timeout`.
    ///
    /// # Errors
    /// When the connection is lost, or the controller refuses or answers late.
    pub fn command_stages(
        &self,
        nsid: u32,
        timeout: Duration,
    ) -> Result<Option<CommandStagesLog>, InitiatorError> {
        // Other targets count unknown pages as errors, which an administrator may watch.
        if !self.identify().has_command_stages() {
            return Ok(None);
        }
        let length = size_of::<CommandStagesLog>();
        let request = LogPageRequest::new(LogPageId::COMMAND_STAGES, 0, length as u64);
        let reply = self.0.admin.command_within(log_page_entry(&request, nsid), None, length, timeout)?;
        let bytes = reply.success("Get Log Page")?.data;
        let log = CommandStagesLog::read_from_bytes(&bytes);
        Ok(log.ok().filter(|log| log.is_of(nsid)))
    }

    /// `log_page`, which with `retain_event` leaves the event that led here pending.
    pub(super) fn read_log(
        &self,
        id: LogPageId,
        nsid: u32,
        offset: u64,
        length: usize,
        retain_event: bool,
    ) -> Result<Vec<u8>, InitiatorError> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            // Pieces are whole dwords, as offsets have to be.
            let piece = (length - bytes.len()).min(self.transfer_length_max() & !3);
            let mut request = LogPageRequest::new(id, offset + bytes.len() as u64, piece as u64);
            // Only the last piece lets the event go, so that a change in between is not lost.
            request.retain_event = retain_event || bytes.len() + piece < length;
            let entry = log_page_entry(&request, nsid);
            let reply = self.admin(entry, None, piece.next_multiple_of(4))?.success("Get Log Page")?;
            bytes.extend_from_slice(&reply.data[..piece]);
        }
        Ok(bytes)
    }

    /// Asynchronous events since the last call, oldest first. An event of the same kind comes again only
    /// after its log page has been read.
    pub fn events(&self) -> Vec<AsyncEvent> {
        self.0.admin.take_events()
    }

    /// Checks that the admin queue still serves. A lost controller stays lost; open another.
    ///
    /// # Errors
    /// Why the connection ended.
    pub fn check(&self) -> Result<(), InitiatorError> {
        self.0.admin.check()
    }

    /// Shuts the controller down: normal shutdown, a bounded wait for its end, then the connection is closed.
    /// Other clones are of no use afterwards.
    ///
    /// # Errors
    /// When the controller did not do it properly; it is disconnected all the same.
    pub fn disconnect(&self) -> Result<(), InitiatorError> {
        self.0.disconnect().map(drop)
    }

    /// The same; whether the controller has said now that it is shut down, so that none of its commands goes on.
    pub(crate) fn shut_down(&self) -> bool {
        self.0.disconnect().unwrap_or_else(|error| {
            tracing::debug!(address = %self.address(), %error, "controller was not shut down properly");
            false
        })
    }

    /// Closes the connections without a word: the controller is taken for lost.
    pub(crate) fn abandon(&self) {
        self.0.shut_down.store(true, Ordering::Release);
        self.0.admin.stop();
    }

    /// Identify, read as `T`.
    pub(super) fn identify_as<T: FromBytes>(
        &self,
        request: IdentifyRequest,
        nsid: u32,
    ) -> Result<Box<T>, InitiatorError> {
        self.0.bring_up().identify(request, nsid)
    }

    /// Identify, with whatever status it ends; waits no longer than `timeout`.
    pub(crate) fn identify_bytes(
        &self,
        request: IdentifyRequest,
        nsid: u32,
        timeout: Duration,
    ) -> Result<AdminReply, InitiatorError> {
        self.0.bring_up().identify_bytes_within(request, nsid, timeout)
    }
}

impl Inner {
    fn bring_up(&self) -> BringUp<'_> {
        BringUp { admin: &self.admin, address: self.options.address }
    }

    /// Shuts the controller down; false if it is lost, or no longer connected.
    fn disconnect(&self) -> Result<bool, InitiatorError> {
        if self.shut_down.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        let is_there = self.admin.check().is_ok();
        let outcome = if is_there { self.bring_up().shut_down().map(|()| true) } else { Ok(false) };
        self.admin.stop();
        outcome
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.disconnect() {
            tracing::debug!(address = %self.options.address, %error, "controller was not shut down properly");
        }
    }
}

/// Bytes of `page << exponent`, where 0 stands for no limit, and no more than we transfer. An exponent that shifts the
/// page out of the number is as good as no limit: a length of nothing would never come to an end.
fn transfer_length(page: usize, exponent: u8) -> usize {
    let exponent = u32::from(exponent);
    let is_limit = exponent > 0 && exponent < page.leading_zeros();
    if is_limit { (page << exponent).min(BUFFER_LENGTH_MAX) } else { BUFFER_LENGTH_MAX }
}

fn log_page_entry(request: &LogPageRequest, nsid: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(admin_opcode::GET_LOG_PAGE, nsid);
    let [cdw10, cdw11, cdw12, cdw13, cdw14] = request.encode();
    entry.cdw10 = cdw10.into();
    entry.cdw11 = cdw11.into();
    entry.cdw12 = cdw12.into();
    entry.cdw13 = cdw13.into();
    entry.cdw14 = cdw14.into();
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_maximum_of_a_target_makes_transfers_of_nothing() {
        for page in [4096, 1 << 27] {
            for exponent in 0..=u8::MAX {
                let length = transfer_length(page, exponent);
                assert!((4096..=BUFFER_LENGTH_MAX).contains(&length), "{page} << {exponent} is {length}");
            }
        }
        assert_eq!(transfer_length(4096, 1), 8192);
        assert_eq!(transfer_length(4096, 52), BUFFER_LENGTH_MAX);
    }
}
