//! Commands Namespace Management and Namespace Attachment. Which namespaces and controllers there
//! are is not known here; the data that a Create sends is an [`IdentifyNamespace`].
//!
//! [`IdentifyNamespace`]: crate::identify::IdentifyNamespace

use zerocopy::little_endian::U32;

use crate::command::admin_opcode;
use crate::identify::CommandSet;
use crate::{Status, SubmissionEntry};

const SELECT_MASK: u32 = 0xf;
const COMMAND_SET_SHIFT: u32 = 24;

/// Action of a Namespace Management command (SEL in CDW10 bits 3:0, Base 5.1.21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NamespaceManagement {
    /// Create a namespace from the Identify Namespace data structure that the command sends; its NSID is
    /// the completion's first dword (SEL 0h).
    Create {
        /// I/O command set of the new namespace (CSI, CDW11 bits 31:24).
        command_set: CommandSet,
    },
    /// Delete the namespace that the command names, or all of them for NSID FFFFFFFFh (SEL 1h).
    Delete,
}

impl NamespaceManagement {
    /// Reads the parameters; reserved bits are ignored.
    ///
    /// # Errors
    /// The status for a reserved value of SEL.
    pub const fn decode(entry: &SubmissionEntry) -> Result<Self, Status> {
        match entry.cdw10.get() & SELECT_MASK {
            0 => {
                let command_set = CommandSet((entry.cdw11.get() >> COMMAND_SET_SHIFT) as u8);
                Ok(Self::Create { command_set })
            }
            1 => Ok(Self::Delete),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    /// Encodes the command; a Create has NSID 0. The data descriptor and the command identifier are left to
    /// the queue.
    pub fn encode(&self, nsid: u32) -> SubmissionEntry {
        let mut entry = SubmissionEntry::new(admin_opcode::NAMESPACE_MANAGEMENT, nsid);
        match *self {
            Self::Create { command_set } => {
                entry.cdw11 = U32::new(u32::from(command_set.0) << COMMAND_SET_SHIFT);
            }
            Self::Delete => entry.cdw10 = U32::new(1),
        }
        entry
    }

    /// True if the host sends data with this command.
    pub const fn sends_data(&self) -> bool {
        matches!(self, Self::Create { .. })
    }
}

/// Action of a Namespace Attachment command on the controllers of the list that it sends (SEL in
/// CDW10 bits 3:0, Base 5.1.20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NamespaceAttachment {
    /// Attach the namespace to them (SEL 0h).
    Attach = 0,
    /// Detach the namespace from them (SEL 1h).
    Detach = 1,
}

impl NamespaceAttachment {
    /// Reads the parameters; reserved bits are ignored.
    ///
    /// # Errors
    /// The status for a reserved value of SEL.
    pub const fn decode(entry: &SubmissionEntry) -> Result<Self, Status> {
        match entry.cdw10.get() & SELECT_MASK {
            0 => Ok(Self::Attach),
            1 => Ok(Self::Detach),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    /// Encodes the command for namespace `nsid`; the descriptor of the controller list and the command
    /// identifier are left to the queue.
    pub fn encode(&self, nsid: u32) -> SubmissionEntry {
        let mut entry = SubmissionEntry::new(admin_opcode::NAMESPACE_ATTACHMENT, nsid);
        entry.cdw10 = U32::new(*self as u32);
        entry
    }
}
