//! The status field of a completion: a value that travels to the host, never a Rust error.
//! It does not know which command it answers.

use core::fmt;

/// Status code type, status code and the flags "more" and "do not retry", as they stand in bits 31:17 of
/// completion dword 3 (SF, Base 4.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u16);

const DO_NOT_RETRY: u16 = 1 << 14;
const MORE: u16 = 1 << 13;
const CODE_MASK: u16 = 0x7ff;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $kind:literal, $code:literal, $text:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status(($kind << 8) | $code);)*

            /// The specification's name of the status, or `None` for a code that is not known here. Some
            /// codes mean one thing for Connect and another for I/O; without the command, both names are
            /// given.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 & CODE_MASK {
                    $(v if v == ($kind << 8) | $code => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    /// The command completed without error.
    SUCCESS = 0, 0x00, "Successful Completion";
    /// The opcode is not supported.
    INVALID_OPCODE = 0, 0x01, "Invalid Command Opcode";
    /// A reserved or unsupported value in a defined field.
    INVALID_FIELD = 0, 0x02, "Invalid Field in Command";
    /// The command identifier is in use already.
    COMMAND_ID_CONFLICT = 0, 0x03, "Command ID Conflict";
    /// The data could not be transferred.
    DATA_TRANSFER_ERROR = 0, 0x04, "Data Transfer Error";
    /// Aborted because power was lost.
    ABORTED_POWER_LOSS = 0, 0x05, "Commands Aborted due to Power Loss Notification";
    /// The controller failed inside.
    INTERNAL_ERROR = 0, 0x06, "Internal Error";
    /// Aborted as an Abort command asked.
    ABORT_REQUESTED = 0, 0x07, "Command Abort Requested";
    /// Aborted because the submission queue was deleted.
    ABORTED_QUEUE_DELETED = 0, 0x08, "Command Aborted due to SQ Deletion";
    /// Aborted because the other command of its fused operation failed.
    ABORTED_FAILED_FUSED = 0, 0x09, "Command Aborted due to Failed Fused Command";
    /// Aborted because the other command of its fused operation is not there.
    ABORTED_MISSING_FUSED = 0, 0x0a, "Command Aborted due to Missing Fused Command";
    /// The namespace or its format is not valid.
    INVALID_NAMESPACE = 0, 0x0b, "Invalid Namespace or Format";
    /// Commands came in an order that is not allowed.
    COMMAND_SEQUENCE_ERROR = 0, 0x0c, "Command Sequence Error";
    /// An SGL segment descriptor is invalid.
    INVALID_SGL_SEGMENT = 0, 0x0d, "Invalid SGL Segment Descriptor";
    /// The number of SGL descriptors is invalid.
    INVALID_SGL_COUNT = 0, 0x0e, "Invalid Number of SGL Descriptors";
    /// The length of an SGL descriptor does not fit the command.
    DATA_SGL_LENGTH_INVALID = 0, 0x0f, "Data SGL Length Invalid";
    /// The type of an SGL descriptor is not supported.
    SGL_TYPE_INVALID = 0, 0x11, "SGL Descriptor Type Invalid";
    /// The length of a fused operation passes the atomic compare and write unit.
    ATOMIC_WRITE_UNIT_EXCEEDED = 0, 0x14, "Atomic Write Unit Exceeded";
    /// The operation is denied.
    OPERATION_DENIED = 0, 0x15, "Operation Denied";
    /// The offset of an SGL descriptor is invalid.
    SGL_OFFSET_INVALID = 0, 0x16, "SGL Offset Invalid";
    /// The host identifier is in use with another format.
    HOST_ID_INCONSISTENT = 0, 0x18, "Host Identifier Inconsistent Format";
    /// The keep alive timer ran out.
    KEEP_ALIVE_EXPIRED = 0, 0x19, "Keep Alive Timer Expired";
    /// The keep alive time-out value is invalid.
    KEEP_ALIVE_INVALID = 0, 0x1a, "Keep Alive Timeout Invalid";
    /// Aborted by a preempt-and-abort of a reservation.
    ABORTED_PREEMPT = 0, 0x1b, "Command Aborted due to Preempt and Abort";
    /// The last sanitize operation failed, and nothing else is allowed before one succeeds.
    SANITIZE_FAILED = 0, 0x1c, "Sanitize Failed";
    /// A sanitize operation is in progress.
    SANITIZE_IN_PROGRESS = 0, 0x1d, "Sanitize In Progress";
    /// The namespace is write protected.
    WRITE_PROTECTED = 0, 0x20, "Namespace is Write Protected";
    /// The command was interrupted and may be retried.
    COMMAND_INTERRUPTED = 0, 0x21, "Command Interrupted";
    /// A passing error of the transport, such as a data digest mismatch.
    TRANSIENT_TRANSPORT_ERROR = 0, 0x22, "Transient Transport Error";
    /// The command or feature is locked down.
    PROHIBITED_BY_LOCKDOWN = 0, 0x23, "Command Prohibited by Command and Feature Lockdown";
    /// The media that the Admin command needs are not ready.
    ADMIN_MEDIA_NOT_READY = 0, 0x24, "Admin Command Media Not Ready";
    /// The command needs a host identifier, and the host gave none.
    HOST_ID_NOT_INITIALIZED = 0, 0x27, "Host Identifier Not Initialized";
    /// A block lies outside of the namespace.
    LBA_OUT_OF_RANGE = 0, 0x80, "LBA Out of Range";
    /// The capacity of the namespace is used up.
    CAPACITY_EXCEEDED = 0, 0x81, "Capacity Exceeded";
    /// The namespace is not ready.
    NAMESPACE_NOT_READY = 0, 0x82, "Namespace Not Ready";
    /// The access conflicts with a reservation.
    RESERVATION_CONFLICT = 0, 0x83, "Reservation Conflict";
    /// The namespace is being formatted.
    FORMAT_IN_PROGRESS = 0, 0x84, "Format In Progress";
    /// The completion queue identifier is invalid.
    COMPLETION_QUEUE_INVALID = 1, 0x00, "Completion Queue Invalid";
    /// The queue identifier is invalid.
    INVALID_QUEUE_ID = 1, 0x01, "Invalid Queue Identifier";
    /// The queue size is invalid.
    INVALID_QUEUE_SIZE = 1, 0x02, "Invalid Queue Size";
    /// More aborts are outstanding than the controller takes.
    ABORT_LIMIT_EXCEEDED = 1, 0x03, "Abort Command Limit Exceeded";
    /// More asynchronous event requests are outstanding than the controller takes.
    ASYNC_EVENT_LIMIT_EXCEEDED = 1, 0x05, "Asynchronous Event Request Limit Exceeded";
    /// The firmware slot is invalid.
    INVALID_FIRMWARE_SLOT = 1, 0x06, "Invalid Firmware Slot";
    /// The log page is not supported or not valid here.
    INVALID_LOG_PAGE = 1, 0x09, "Invalid Log Page";
    /// The LBA format is not supported.
    INVALID_FORMAT = 1, 0x0a, "Invalid Format";
    /// The feature's value cannot be saved.
    FEATURE_NOT_SAVEABLE = 1, 0x0d, "Feature Identifier Not Saveable";
    /// The feature cannot be changed.
    FEATURE_NOT_CHANGEABLE = 1, 0x0e, "Feature Not Changeable";
    /// The feature is not namespace specific.
    FEATURE_NOT_NAMESPACE_SPECIFIC = 1, 0x0f, "Feature Not Namespace Specific";
    /// Ranges overlap.
    OVERLAPPING_RANGE = 1, 0x14, "Overlapping Range";
    /// There is not enough capacity for the namespace; the error log tells how much is free.
    NAMESPACE_INSUFFICIENT_CAPACITY = 1, 0x15, "Namespace Insufficient Capacity";
    /// All the namespaces there can be exist already.
    NAMESPACE_ID_UNAVAILABLE = 1, 0x16, "Namespace Identifier Unavailable";
    /// A controller has the namespace attached already.
    NAMESPACE_ALREADY_ATTACHED = 1, 0x18, "Namespace Already Attached";
    /// The namespace is private, and another controller has it attached.
    NAMESPACE_IS_PRIVATE = 1, 0x19, "Namespace Is Private";
    /// A controller does not have the namespace attached.
    NAMESPACE_NOT_ATTACHED = 1, 0x1a, "Namespace Not Attached";
    /// The capacity must be the size: there is no thin provisioning.
    THIN_PROVISIONING_NOT_SUPPORTED = 1, 0x1b, "Thin Provisioning Not Supported";
    /// The controller list names a controller that does not exist, or is none.
    CONTROLLER_LIST_INVALID = 1, 0x1c, "Controller List Invalid";
    /// A device self-test is in progress.
    SELF_TEST_IN_PROGRESS = 1, 0x1d, "Device Self-test In Progress";
    /// The controller identifier is invalid.
    INVALID_CONTROLLER_ID = 1, 0x1f, "Invalid Controller Identifier";
    /// The ANA group identifier is not supported.
    ANA_GROUP_ID_INVALID = 1, 0x24, "ANA Group Identifier Invalid";
    /// The namespace cannot be attached because of its ANA state.
    ANA_ATTACH_FAILED = 1, 0x25, "ANA Attach Failed";
    /// There is not enough capacity.
    INSUFFICIENT_CAPACITY = 1, 0x26, "Insufficient Capacity";
    /// The controller, or all together, would have more namespaces attached than they may.
    NAMESPACE_ATTACHMENT_LIMIT_EXCEEDED = 1, 0x27, "Namespace Attachment Limit Exceeded";
    /// The I/O command set is not supported.
    COMMAND_SET_NOT_SUPPORTED = 1, 0x29, "I/O Command Set Not Supported";
    /// The I/O command set is supported, but not enabled.
    COMMAND_SET_NOT_ENABLED = 1, 0x2a, "I/O Command Set Not Enabled";
    /// The I/O command set is not valid here.
    INVALID_COMMAND_SET = 1, 0x2c, "Invalid I/O Command Set";
    /// Every identifier of the kind is in use.
    ID_UNAVAILABLE = 1, 0x2d, "Identifier Unavailable";
    /// The same controller is being reset on behalf of another one already.
    CROSS_CONTROLLER_RESET_IN_PROGRESS = 1, 0x3f, "Cross-Controller Reset in Progress";
    /// The log of cross-controller resets has no room for another one.
    CROSS_CONTROLLER_RESET_LOG_FULL = 1, 0x40, "Cross-Controller Reset Log Page Full";
    /// More cross-controller resets are in progress than the controller takes.
    CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED = 1, 0x41, "Cross-Controller Reset Limit Exceeded";
    /// Attributes conflict.
    CONFLICTING_ATTRIBUTES = 1, 0x80, "Connect Incompatible Format or Conflicting Attributes";
    /// The write hits a read-only range.
    WRITE_TO_READ_ONLY = 1, 0x82, "Connect Invalid Parameters or Attempted Write to Read Only Range";
    /// More than one command's size limit was passed.
    COMMAND_SIZE_LIMIT_EXCEEDED = 1, 0x83, "Connect Restart Discovery or Command Size Limit Exceeded";
    /// The Connect command's record format is not supported (NVMe-oF: Connect Incompatible Format).
    CONNECT_INCOMPATIBLE_FORMAT = 1, 0x80, "Connect Incompatible Format or Conflicting Attributes";
    /// The controller is in use by another host.
    CONNECT_CONTROLLER_BUSY = 1, 0x81, "Connect Controller Busy";
    /// A parameter of the Connect command is invalid; the result tells its offset.
    CONNECT_INVALID_PARAMETERS = 1, 0x82, "Connect Invalid Parameters or Attempted Write to Read Only Range";
    /// Discovery has to be started again.
    CONNECT_RESTART_DISCOVERY = 1, 0x83, "Connect Restart Discovery or Command Size Limit Exceeded";
    /// The host is not allowed to use the subsystem.
    CONNECT_INVALID_HOST = 1, 0x84, "Connect Invalid Host";
    /// The command is not valid for this type of queue.
    INVALID_QUEUE_TYPE = 1, 0x85, "Invalid Queue Type or Incompatible Namespace or Format";
    /// The source and the destination of a copy have formats that do not go together.
    INCOMPATIBLE_NAMESPACE = 1, 0x85, "Invalid Queue Type or Incompatible Namespace or Format";
    /// The copy would not be a fast one, and the host wants no other.
    FAST_COPY_NOT_POSSIBLE = 1, 0x86, "Fast Copy Not Possible";
    /// Source ranges overlap the destination, or one another.
    OVERLAPPING_IO_RANGE = 1, 0x87, "Overlapping I/O Range";
    /// The discovery log changed while it was read.
    DISCOVER_RESTART = 1, 0x90, "Discover Restart";
    /// Authentication is required first.
    AUTHENTICATION_REQUIRED = 1, 0x91, "Authentication Required";
    /// The medium did not take the write.
    WRITE_FAULT = 2, 0x80, "Write Fault";
    /// The data could not be read back.
    UNRECOVERED_READ_ERROR = 2, 0x81, "Unrecovered Read Error";
    /// The guard of a block does not match its data.
    GUARD_CHECK_ERROR = 2, 0x82, "End-to-end Guard Check Error";
    /// The application tag of a block is not the one expected.
    APPLICATION_TAG_CHECK_ERROR = 2, 0x83, "End-to-end Application Tag Check Error";
    /// The reference tag of a block is not the one expected.
    REFERENCE_TAG_CHECK_ERROR = 2, 0x84, "End-to-end Reference Tag Check Error";
    /// The compare found a difference.
    COMPARE_FAILURE = 2, 0x85, "Compare Failure";
    /// Access is denied.
    ACCESS_DENIED = 2, 0x86, "Access Denied";
    /// The block was deallocated or never written.
    DEALLOCATED_BLOCK = 2, 0x87, "Deallocated or Unwritten Logical Block";
    /// The controller's path failed inside.
    INTERNAL_PATH_ERROR = 3, 0x00, "Internal Path Error";
    /// The ANA state is persistent loss.
    ANA_PERSISTENT_LOSS = 3, 0x01, "Asymmetric Access Persistent Loss";
    /// The ANA state is inaccessible.
    ANA_INACCESSIBLE = 3, 0x02, "Asymmetric Access Inaccessible";
    /// The ANA state is changing.
    ANA_TRANSITION = 3, 0x03, "Asymmetric Access Transition";
    /// The controller found its path to the namespace broken.
    CONTROLLER_PATH_ERROR = 3, 0x60, "Controller Pathing Error";
    /// The host found its path to the controller broken.
    HOST_PATH_ERROR = 3, 0x70, "Host Pathing Error";
    /// The host gave the command up.
    HOST_ABORTED = 3, 0x71, "Command Aborted By Host";
}

impl Status {
    /// A status from the 15 bits of the status field.
    pub const fn from_bits(bits: u16) -> Status {
        Status(bits & 0x7fff)
    }

    /// A status from its type (SCT) and code (SC).
    pub const fn new(kind: u8, code: u8) -> Status {
        Status(((kind as u16 & 7) << 8) | code as u16)
    }

    /// The 15 bits of the status field.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Status code type (SCT).
    pub const fn kind(self) -> u8 {
        (self.0 >> 8) as u8 & 7
    }

    /// Status code (SC).
    pub const fn code(self) -> u8 {
        self.0 as u8
    }

    /// True if the command succeeded.
    pub const fn is_success(self) -> bool {
        self.0 & CODE_MASK == 0
    }

    /// The same status with "do not retry" (DNR) set: sending the same command again cannot succeed.
    #[must_use]
    pub const fn do_not_retry(self) -> Status {
        Status(self.0 | DO_NOT_RETRY)
    }

    /// True if "do not retry" (DNR) is set.
    pub const fn is_do_not_retry(self) -> bool {
        self.0 & DO_NOT_RETRY != 0
    }

    /// The same status with "more" (M) set: the error log holds more about it.
    #[must_use]
    pub const fn more(self) -> Status {
        Status(self.0 | MORE)
    }

    /// Type and code alone, without the flags: what two statuses are compared by.
    #[must_use]
    pub const fn without_flags(self) -> Status {
        Status(self.0 & CODE_MASK)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({:x}/{:02x}h)", self.kind(), self.code()),
            None => write!(f, "status type {:x} code {:02x}h", self.kind(), self.code()),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({self}{})", if self.is_do_not_retry() { ", do not retry" } else { "" })
    }
}
