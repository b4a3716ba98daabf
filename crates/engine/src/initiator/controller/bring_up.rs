//! The steps that make a controller ready and shut it down: properties, Identify, features (Base 3.5.1, 3.6).
//! Their order is `Controller::connect`'s.

use std::net::SocketAddr;
use std::num::NonZero;
use std::time::Duration;

use nvme::SubmissionEntry;
use nvme::command::admin_opcode;
use nvme::fabrics::{Capabilities, PropertyAccess, configuration, controller_status, property};
use nvme::features::{AsyncEventConfig, FeatureId, NumberOfQueues, SetFeatures};
use nvme::identify::{Cns, CommandSet, IDENTIFY_BYTES, IdentifyControllerNvm, IdentifyRequest};
use zerocopy::FromBytes;

use super::admin::{AdminReply, AdminThread};
use super::deallocate_limits::DeallocateLimits;
use crate::initiator::InitiatorError;
use crate::limits::{BUFFER_LENGTH_MIN, SHUTDOWN_TIMEOUT_MS};
use crate::ring::{self, thread};

/// The notices that are asked for, where the controller has them (OAES).
const EVENTS: u32 = AsyncEventConfig::NAMESPACE_ATTRIBUTE
    | AsyncEventConfig::FIRMWARE_ACTIVATION
    | AsyncEventConfig::ANA_CHANGE
    | AsyncEventConfig::CROSS_CONTROLLER_RESET
    | AsyncEventConfig::DISCOVERY_LOG_CHANGE;

/// Time between two looks at the controller's status: first, and at most.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(100);
/// A controller gets this long to become ready even if it says that it takes no time (CAP.TO).
const READY_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The way to a controller that may not be ready yet.
pub(super) struct BringUp<'a> {
    pub(super) admin: &'a AdminThread,
    pub(super) address: SocketAddr,
}

impl BringUp<'_> {
    /// The value of a property.
    pub(super) fn property(&self, offset: u32, wide: bool) -> Result<u64, InitiatorError> {
        self.property_within(offset, wide, Duration::MAX)
    }

    fn property_within(&self, offset: u32, wide: bool, timeout: Duration) -> Result<u64, InitiatorError> {
        let entry = PropertyAccess { offset, wide, value: 0 }.encode_get();
        let reply = self.admin.command_within(entry, None, 0, timeout)?.success("Property Get")?;
        Ok(if wide { reply.result } else { reply.result & 0xffff_ffff })
    }

    fn set_configuration(&self, value: u32, timeout: Duration) -> Result<(), InitiatorError> {
        let access = PropertyAccess { offset: property::CONFIGURATION, wide: false, value: u64::from(value) };
        self.admin.command_within(access.encode_set(), None, 0, timeout)?.success("Property Set")?;
        Ok(())
    }

    /// Enables the controller, after disabling it if it was enabled, and waits until it is ready.
    pub(super) fn enable(&self, capabilities: Capabilities) -> Result<(), InitiatorError> {
        let timeout =
            Duration::from_millis(u64::from(capabilities.ready_timeout_ms())).max(READY_TIMEOUT_MIN);
        let before = self.property(property::CONFIGURATION, false)? as u32;
        if before & configuration::ENABLE != 0 {
            self.set_configuration(before & !configuration::ENABLE, Duration::MAX)?;
            let what = "the controller's end of being ready (CSTS.RDY)";
            self.await_status(controller_status::READY, 0, timeout, what)?;
        }
        let sets = if capabilities.selects_command_sets() { configuration::COMMAND_SET_ALL } else { 0 };
        let value = configuration::ENABLE
            | sets << configuration::COMMAND_SET_SHIFT
            | configuration::SUBMISSION_ENTRY_SIZE
            | configuration::COMPLETION_ENTRY_SIZE;
        self.set_configuration(value, Duration::MAX)?;
        let ready = controller_status::READY;
        self.await_status(ready, ready, timeout, "the controller's becoming ready (CSTS.RDY)")
    }

    /// Waits until the bits of `mask` in the controller's status are `value`.
    fn await_status(
        &self,
        mask: u32,
        value: u32,
        timeout: Duration,
        what: &'static str,
    ) -> Result<(), InitiatorError> {
        let address = self.address;
        let began = ring::now();
        let mut interval = LOOK_INTERVAL;
        loop {
            let left = timeout.saturating_sub(ring::now().since(began)).max(READY_TIMEOUT_MIN);
            let status = self.property_within(property::STATUS, false, left)? as u32;
            // A controller that is gone reads as all ones.
            if status == u32::MAX || status & controller_status::FATAL != 0 {
                return Err(InitiatorError::ControllerFatal { address });
            }
            if status & mask == value {
                return Ok(());
            }
            if ring::now().since(began) >= timeout {
                return Err(InitiatorError::TimedOut { address, what, after: timeout });
            }
            thread::sleep(interval);
            interval = (interval * 2).min(LOOK_INTERVAL_MAX);
        }
    }

    /// Identify, read as `T`.
    pub(super) fn identify<T: FromBytes>(
        &self,
        request: IdentifyRequest,
        nsid: u32,
    ) -> Result<Box<T>, InitiatorError> {
        let reply = self.identify_bytes(request, nsid)?.success("Identify")?;
        let data = T::read_from_bytes(&reply.data).map_err(|_| InitiatorError::BadAnswer {
            what: "Identify",
            reason: format!("it has {} bytes", reply.data.len()),
        })?;
        Ok(Box::new(data))
    }

    pub(super) fn identify_bytes(
        &self,
        request: IdentifyRequest,
        nsid: u32,
    ) -> Result<AdminReply, InitiatorError> {
        self.identify_bytes_within(request, nsid, Duration::MAX)
    }

    /// The same, waiting no longer than `timeout`.
    pub(super) fn identify_bytes_within(
        &self,
        request: IdentifyRequest,
        nsid: u32,
        timeout: Duration,
    ) -> Result<AdminReply, InitiatorError> {
        let mut entry = SubmissionEntry::new(admin_opcode::IDENTIFY, nsid);
        let (cdw10, cdw11, cdw14) = request.encode();
        entry.cdw10 = cdw10.into();
        entry.cdw11 = cdw11.into();
        entry.cdw14 = cdw14.into();
        self.admin.command_within(entry, None, IDENTIFY_BYTES, timeout)
    }

    fn set_feature(&self, id: FeatureId, value: u32) -> Result<AdminReply, InitiatorError> {
        let (cdw10, cdw11, cdw14) = SetFeatures { id, save: false, value, uuid_index: 0 }.encode();
        let mut entry = SubmissionEntry::new(admin_opcode::SET_FEATURES, 0);
        entry.cdw10 = cdw10.into();
        entry.cdw11 = cdw11.into();
        entry.cdw14 = cdw14.into();
        self.admin.command(entry, None, 0)
    }

    /// Asks for `asked` I/O queues, and tells how many there may be.
    pub(super) fn number_of_queues(&self, asked: NonZero<u16>) -> Result<u16, InitiatorError> {
        let value = NumberOfQueues::pairs(asked).encode();
        let reply = self.set_feature(FeatureId::NUMBER_OF_QUEUES, value)?;
        let reply = reply.success("Set Features (Number of Queues)")?;
        let granted = NumberOfQueues::decode(reply.result as u32).map_err(|error| {
            InitiatorError::BadAnswer { what: "Set Features (Number of Queues)", reason: error.to_string() }
        })?;
        Ok(asked.min(granted.submission).min(granted.completion).get())
    }

    /// Asks for the notices that the controller has. It can be lived without.
    pub(super) fn ask_for_events(&self, supported: u32) -> Result<(), InitiatorError> {
        if supported & EVENTS == 0 {
            return Ok(());
        }
        let reply = self.set_feature(FeatureId::ASYNC_EVENT_CONFIG, supported & EVENTS)?;
        if !reply.status.is_success() {
            tracing::warn!(address = %self.address, status = %reply.status, "no asynchronous events");
        }
        Ok(())
    }

    /// The most bytes of one Write Zeroes (WZSL), and the limits of Dataset Management, from Identify Controller of the NVM
    /// command set. Older controllers have no such thing.
    pub(super) fn command_limits(
        &self,
        capabilities: Capabilities,
    ) -> Result<(Option<u64>, DeallocateLimits), InitiatorError> {
        let mut request = IdentifyRequest::new(Cns::COMMAND_SET_CONTROLLER);
        request.command_set = CommandSet::NVM;
        let reply = self.identify_bytes(request, 0)?;
        let limits =
            IdentifyControllerNvm::read_from_bytes(&reply.data).ok().filter(|_| reply.status.is_success());
        let Some(limits) = limits else { return Ok((None, DeallocateLimits::NONE)) };
        let exponent = u32::from(limits.write_zeroes_size_limit);
        let page = page_length_min(capabilities) as u64;
        let zeroes =
            if exponent == 0 { None } else { page.checked_shl(exponent).filter(|length| *length >= page) };
        Ok((zeroes, DeallocateLimits::of(&limits)))
    }

    /// Shuts the controller down in the normal way, and waits until it says that it is done.
    pub(super) fn shut_down(&self) -> Result<(), InitiatorError> {
        let timeout = Duration::from_millis(SHUTDOWN_TIMEOUT_MS);
        let before = self.property_within(property::CONFIGURATION, false, timeout)? as u32;
        let value = before & !configuration::SHUTDOWN_MASK | configuration::SHUTDOWN_NORMAL;
        self.set_configuration(value, timeout)?;
        let (mask, complete) = (controller_status::SHUTDOWN_MASK, controller_status::SHUTDOWN_COMPLETE);
        self.await_status(mask, complete, timeout, "the controller's shutdown (CSTS.SHST)")
    }
}

/// The smallest memory page of a controller in bytes (CAP.MPSMIN), the unit of its transfer sizes.
pub(super) const fn page_length_min(capabilities: Capabilities) -> usize {
    BUFFER_LENGTH_MIN << ((capabilities.0 >> 48) & 0xf)
}
