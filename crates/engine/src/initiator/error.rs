//! Errors at the host's side, by whose fault: the world's, the target's refusal, bytes that no
//! conforming target sends, or our caller's. A command's status is data of its completion and no
//! error of a queue.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nvme::Status;
use nvme::fabrics::InvalidParameter;
use nvme::tcp::{DecodeError, FatalError, TransferError};
use secure_channel::RecordError;

use crate::observation::Observation;

/// Why the initiator could not do what it was asked to. Cheap to clone: a queue that broke tells all its
/// users.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitiatorError {
    /// No connection came about: refused, unreachable, or no such interface.
    #[error("cannot connect to {address}: {error} ({})", connect_hint(.error))]
    Connect {
        /// The target's address.
        address: SocketAddr,
        /// Error of the operating system.
        error: Arc<io::Error>,
    },
    /// The target did not do it in time.
    #[error("{address}: timed out after {} waiting for {what}", seconds(.after))]
    TimedOut {
        /// The target's address.
        address: SocketAddr,
        /// Event that was waited for.
        what: &'static str,
        /// Time waited.
        after: Duration,
    },
    /// The target refused the Fabrics Connect command.
    #[error(
        "{address} refuses queue {queue_id}: {} ({})",
        refusal(*.status, .field),
        refused_hint(*.status)
    )]
    Refused {
        /// The target's address.
        address: SocketAddr,
        /// The queue that was to be created; 0 is the admin queue, and with it the controller.
        queue_id: u16,
        /// The status of the Connect command.
        status: Status,
        /// The field that is wrong, where the target names one.
        field: Option<InvalidParameter>,
    },
    /// The target wants the host to authenticate (DH-HMAC-CHAP), and the host was given no secret.
    #[error(
        "{address} requires authentication: name the file of this host's secret with --dhchap-secret-file"
    )]
    AuthenticationRequired {
        /// The target's address.
        address: SocketAddr,
    },
    /// Authentication failed on one end.
    #[error("{address}: authentication failed: {why}")]
    AuthenticationFailed {
        /// The target's address.
        address: SocketAddr,
        /// Side at fault, and the reason.
        why: String,
    },
    /// There is no TLS between both ends.
    #[error("{address}: {why}")]
    TlsFailed {
        /// The target's address.
        address: SocketAddr,
        /// Side at fault, and the reason.
        why: String,
    },
    /// A record of the target's cannot be used.
    #[error("{address}: the TLS channel broke: {error}")]
    ChannelBroken {
        /// The target's address.
        address: SocketAddr,
        /// Fault of the record.
        error: RecordError,
    },
    /// The target sent bytes that no conforming target sends.
    #[error("{address}: protocol violation: {error}; closing the connection")]
    Protocol {
        /// The target's address.
        address: SocketAddr,
        /// Fault of the bytes.
        error: DecodeError,
    },
    /// The target sent something well-formed that it may not send.
    #[error("{address}: protocol violation: {misbehaviour}; closing the connection")]
    PeerMisbehaved {
        /// The target's address.
        address: SocketAddr,
        /// Rule that it broke.
        misbehaviour: PeerMisbehaved,
    },
    /// The target ended the connection because of something the host sent (C2HTermReq).
    #[error(
        "{address} ended the connection: {} (information {information:#x})",
        FatalError::name_of(*.error)
    )]
    Terminated {
        /// The target's address.
        address: SocketAddr,
        /// Fatal error status (FES).
        error: u16,
        /// Fatal error information (FEI).
        information: u32,
    },
    /// The path leads elsewhere than the others.
    #[error("the path {address} is refused: {reason} (paths have to lead to one namespace of one subsystem)")]
    PathRefused {
        /// The target's address.
        address: SocketAddr,
        /// Difference from the other paths.
        reason: String,
    },
    /// The path does not lead where the others do just now.
    #[error("path {address} cannot be used now: {reason}; retrying")]
    PathDoubtful {
        /// The target's address.
        address: SocketAddr,
        /// Difference from the other paths.
        reason: String,
    },
    /// No record can be kept of a controller, which a later process might need.
    #[error("{address} is not used: no record of its controller can be kept: {reason}; retrying")]
    NotKept {
        /// The target's address.
        address: SocketAddr,
        /// Why not.
        reason: String,
    },
    /// The target closed the connection.
    #[error("{address} closed the connection")]
    Closed {
        /// The target's address.
        address: SocketAddr,
    },
    /// The connection ended after the controller had heard no Keep Alive for longer than it waits for one.
    #[error(
        "{address}: the target gave this host up: its last answered Keep Alive was {:.1} s ago (time-out {}); was \
         this machine stopped, overloaded or cut off?",
        .silence.as_secs_f64(),
        seconds(.timeout)
    )]
    GivenUp {
        /// The target's address.
        address: SocketAddr,
        /// Time since the last Keep Alive that was answered.
        silence: Duration,
        /// The keep alive time-out.
        timeout: Duration,
    },
    /// The connection broke.
    #[error("the connection to {address} broke: {error}")]
    Broken {
        /// The target's address.
        address: SocketAddr,
        /// Error of the operating system.
        error: Arc<io::Error>,
    },
    /// The controller reports a fatal status (CSTS.CFS).
    #[error("the controller at {address} reports a fatal error (CSTS.CFS): it needs a reset")]
    ControllerFatal {
        /// The target's address.
        address: SocketAddr,
    },
    /// A command came back with a status other than success.
    #[error("{what} failed: {status}")]
    CommandFailed {
        /// Name of the command.
        what: &'static str,
        /// Status of the command.
        status: Status,
    },
    /// The data a command returned is invalid.
    #[error("the answer to {what} is invalid: {reason}")]
    BadAnswer {
        /// Name of the command.
        what: &'static str,
        /// Fault of its data.
        reason: String,
    },
    /// The connection was made, and ended or stayed silent before the handshake was over.
    #[error("{reason}; is that an NVMe/TCP port?")]
    NoHandshake {
        /// Error that ended the handshake.
        reason: Box<Self>,
    },
    /// The connection ended while this host authenticated, without a reason from the target.
    #[error("{reason} during authentication; some targets close the connection where the secret is wrong")]
    NotAuthenticated {
        /// Error that ended the connection.
        reason: Box<Self>,
    },
    /// The subsystem has no such namespace for this host.
    #[error("there is no namespace {nsid} at {address}; {}", those_there(.active))]
    NoNamespace {
        /// The target's address.
        address: SocketAddr,
        /// The namespace that was asked for.
        nsid: u32,
        /// Active namespaces; none if they could not be read either.
        active: Vec<u32>,
    },
    /// The target has nothing of this name.
    #[error("{address} has no {what}")]
    NotFound {
        /// The target's address.
        address: SocketAddr,
        /// Name that was looked for.
        what: String,
    },
    /// The operating system gave no ring or thread.
    #[error("{what}: {error}")]
    System {
        /// Operation that failed.
        what: &'static str,
        /// Error of the operating system.
        error: Arc<io::Error>,
    },
    /// The caller asked for something that is invalid.
    #[error("{0}")]
    ApiMisuse(String),
    /// The controller or queue was closed by this side.
    #[error("the connection to {address} was closed by this host")]
    Disconnected {
        /// The target's address.
        address: SocketAddr,
    },
}

/// Something a target may not do, well-formed as it is. The connection ends with a termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// A PDU names a command that is not outstanding: never sent, or completed before.
    #[error("target answered command {command_id:#06x}, which is not outstanding")]
    UnknownCommand {
        /// The command identifier.
        command_id: u16,
    },
    /// Data came for a command that does not read.
    #[error("target sent data for command {command_id:#06x}, which does not read")]
    DataNotAsked {
        /// The command identifier.
        command_id: u16,
    },
    /// Data came out of order, or more of it than was asked for.
    #[error("target sent data for command {command_id:#06x} that does not fit: {error}")]
    DataOutOfRange {
        /// The command identifier.
        command_id: u16,
        /// Mismatch of the transfer.
        error: TransferError,
    },
    /// A command was said to have succeeded before all its data had moved.
    #[error("target completed command {command_id:#06x} with {moved} of {length} bytes moved")]
    DataMissing {
        /// The command identifier.
        command_id: u16,
        /// Bytes that were moved.
        moved: u32,
        /// Bytes there are.
        length: u32,
    },
    /// A data PDU completes its command without being its last one.
    #[error("target set SUCCESS without LAST on data for command {command_id:#06x}")]
    SuccessWithoutLast {
        /// The command identifier.
        command_id: u16,
    },
    /// Data was asked for that the command does not send.
    #[error("target sent R2T for command {command_id:#06x}, which has no data to send")]
    ReadyToTransferNotExpected {
        /// The command identifier.
        command_id: u16,
    },
    /// Data was asked for out of order, or beyond the end.
    #[error(
        "target sent R2T for bytes {offset} to {offset}+{length} of command {command_id:#06x}: out of range or order"
    )]
    ReadyToTransferOutOfRange {
        /// The command identifier.
        command_id: u16,
        /// Offset asked for (R2TO).
        offset: u32,
        /// Length asked for (R2TL).
        length: u32,
    },
    /// More data was asked for before that of the last request had been sent (MAXR2T is 0).
    #[error(
        "target sent R2T for command {command_id:#06x} before the data of the last R2T was sent (MAXR2T is 0)"
    )]
    ReadyToTransferLimit {
        /// The command identifier.
        command_id: u16,
    },
    /// A PDU came before the handshake allows it.
    #[error("target sent a PDU out of turn")]
    OutOfTurn,
}

impl InitiatorError {
    /// Observation about the other end that follows from the end of a connection by this error, if
    /// any.
    pub(super) const fn observation(&self) -> Option<Observation> {
        match self {
            Self::Protocol { .. } | Self::PeerMisbehaved { .. } | Self::Terminated { .. } => {
                Some(Observation::ProtocolViolation)
            }
            Self::ChannelBroken { .. } => Some(Observation::ChannelBroken),
            Self::Closed { .. } | Self::Broken { .. } | Self::TimedOut { .. } | Self::GivenUp { .. } => {
                Some(Observation::ConnectionLost)
            }
            Self::NoHandshake { reason } | Self::NotAuthenticated { reason } => reason.observation(),
            _ => None,
        }
    }

    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error: Arc::new(error) }
    }

    /// The status, when the target refused or a command failed.
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Refused { status, .. } | Self::CommandFailed { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// Namespaces that are named one by one in a message.
const NAMED_MAX: usize = 16;

fn those_there(active: &[u32]) -> String {
    let named: Vec<String> = active.iter().take(NAMED_MAX).map(u32::to_string).collect();
    match (active.len(), active.len().saturating_sub(NAMED_MAX)) {
        (0, _) => "this host finds none there".to_owned(),
        (1, _) => format!("there is {}", named.join(", ")),
        (_, 0) => format!("there are {}", named.join(", ")),
        (_, more) => format!("there are {} and {more} more", named.join(", ")),
    }
}

fn connect_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "is a target listening there? check address and port",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "check routes and the host address"
        }
        io::ErrorKind::AddrNotAvailable => "the host address is not one of this machine",
        io::ErrorKind::TimedOut => "nothing answers there: check the address and firewalls",
        io::ErrorKind::PermissionDenied => "binding to an interface may need CAP_NET_RAW",
        _ => "check the address and the network",
    }
}

fn refused_hint(status: Status) -> &'static str {
    match status.without_flags() {
        Status::CONNECT_INVALID_HOST => "allow the host's NQN on the subsystem",
        Status::CONNECT_INVALID_PARAMETERS => "check the subsystem's NQN; `selvedge discover` lists them",
        Status::CONNECT_CONTROLLER_BUSY => "the target has no room for another controller; try again later",
        Status::INVALID_QUEUE_SIZE => "ask for smaller queues",
        Status::INVALID_QUEUE_ID => "ask for fewer queues",
        _ => "the target's log may say why",
    }
}

fn refusal(status: Status, field: &Option<InvalidParameter>) -> String {
    match field {
        // The status has a dozen reasons, of which this is the one.
        Some(InvalidParameter::SUBSYSTEM_NQN) => "subsystem NQN not known there".to_owned(),
        Some(field) => format!("{status}, {} not accepted", field.name()),
        None => status.to_string(),
    }
}

fn seconds(after: &Duration) -> String {
    if after.subsec_millis() == 0 {
        format!("{} s", after.as_secs())
    } else {
        format!("{} ms", after.as_millis())
    }
}
