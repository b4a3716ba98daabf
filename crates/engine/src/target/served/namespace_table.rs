//! The namespaces that one host sees through one port, and a queue's handle on them: answers on their way and commands under
//! way hold on to the table they began with.
//! A table never changes; when something does, hosts get another one.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use nvme::Status;
use nvme::identify::NSID_ALL;
use nvme::log_page::AnaState;

use super::namespace::Namespace;
use crate::backend::{Backend, Memory, MemoryHolder};
use crate::target::config::GroupState;

/// The state of one ANA group on one port. The data path reads it with one relaxed load.
#[derive(Debug)]
pub(crate) struct AnaCell(AtomicU8);

impl AnaCell {
    pub(super) fn new(state: GroupState) -> Self {
        Self(AtomicU8::new(AnaState::from(state) as u8))
    }

    pub(super) fn set(&self, state: GroupState) {
        self.0.store(AnaState::from(state) as u8, Ordering::Relaxed);
    }

    /// Status that refuses a command, `None` if it is accepted.
    pub(crate) fn refusal(&self) -> Option<Status> {
        const TAKEN: [u8; 2] = [AnaState::Optimized as u8, AnaState::NonOptimized as u8];
        // Every command asks, and nearly each is taken: that needs no state to be decoded.
        if TAKEN.contains(&self.0.load(Ordering::Relaxed)) {
            return None;
        }
        match self.state() {
            AnaState::Optimized | AnaState::NonOptimized => None,
            AnaState::Inaccessible => Some(Status::ANA_INACCESSIBLE),
            AnaState::PersistentLoss => Some(Status::ANA_PERSISTENT_LOSS),
            AnaState::Change => Some(Status::ANA_TRANSITION),
        }
    }

    pub(crate) fn state(&self) -> AnaState {
        AnaState::from_wire(self.0.load(Ordering::Relaxed)).unwrap_or(AnaState::Change)
    }
}

/// A namespace as one host sees it.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    pub(crate) namespace: Arc<Namespace>,
    /// ANA group, on the port of the host.
    pub(crate) group: u32,
    pub(crate) access: Arc<AnaCell>,
}

/// The namespaces a host sees, by identifier: namespace n stands at n - 1.
#[derive(Debug, Default)]
pub(crate) struct NamespaceTable(Vec<Option<Attachment>>);

impl NamespaceTable {
    pub(crate) fn new(attachments: Vec<Attachment>) -> Self {
        let last = attachments.iter().map(|attachment| attachment.namespace.nsid as usize).max();
        let mut table = vec![None; last.unwrap_or(0)];
        for attachment in attachments {
            let at = attachment.namespace.nsid as usize - 1;
            table[at] = Some(attachment);
        }
        Self(table)
    }

    /// The namespace with this identifier, as the host sees it.
    pub(crate) fn attachment(&self, nsid: u32) -> Option<&Attachment> {
        self.0.get((nsid as usize).checked_sub(1)?)?.as_ref()
    }

    /// The namespace with this identifier.
    pub(crate) fn get(&self, nsid: u32) -> Option<&Namespace> {
        Some(&self.attachment(nsid)?.namespace)
    }

    /// Status that refuses a command on the namespace with this identifier, or on all of them (`NSID_ALL`), for the ANA
    /// state of a group; `None` if it is accepted.
    pub(crate) fn refusal(&self, nsid: u32) -> Option<Status> {
        let is_concerned = |attachment: &&Attachment| nsid == NSID_ALL || attachment.namespace.nsid == nsid;
        self.attachments().filter(is_concerned).find_map(|attachment| attachment.access.refusal())
    }

    /// All namespaces in the order of their identifiers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.attachments().map(|attachment| &*attachment.namespace)
    }

    /// The same, as the host sees them.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.0.iter().flatten()
    }

    /// A checksum of what log pages and Identify say of them, the same in each process of a target.
    pub(crate) fn checksum(&self) -> u32 {
        let mut bytes = Vec::new();
        for Attachment { namespace, group, access } in self.attachments() {
            bytes.extend(namespace.nsid.to_le_bytes());
            bytes.extend(namespace.uuid);
            bytes.extend(namespace.blocks().to_le_bytes());
            bytes.extend(namespace.block_shift().to_le_bytes());
            bytes.push(namespace.protection() as u8);
            bytes.extend(group.to_le_bytes());
            bytes.push(access.state() as u8);
        }
        nvme::tcp::digest::crc32c(&bytes)
    }

    /// The identifiers under which the other table has something else.
    pub(crate) fn differences(&self, other: &Self) -> Vec<u32> {
        let same = |a: &Attachment, b: &Attachment| {
            Arc::ptr_eq(&a.namespace, &b.namespace) && Arc::ptr_eq(&a.access, &b.access)
        };
        (1..=self.0.len().max(other.0.len()) as u32)
            .filter(|nsid| match (self.attachment(*nsid), other.attachment(*nsid)) {
                (Some(a), Some(b)) => !same(a, b),
                (None, None) => false,
                _ => true,
            })
            .collect()
    }
}

/// A table that a queue holds on to. It is counted by the queue's reactor alone, so that a command can keep it without
/// touching the counter that all reactors share.
#[derive(Debug)]
pub(crate) struct NamespaceView(Arc<NamespaceTable>);

impl NamespaceView {
    pub(crate) const fn new(table: Arc<NamespaceTable>) -> Self {
        Self(table)
    }

    /// True if the view is of this table.
    pub(crate) fn is_of(&self, table: &Arc<NamespaceTable>) -> bool {
        Arc::ptr_eq(&self.0, table)
    }
}

impl std::ops::Deref for NamespaceView {
    type Target = NamespaceTable;

    fn deref(&self) -> &NamespaceTable {
        &self.0
    }
}

/// Keeps a memory namespace in place while it is sent, or received into.
#[derive(Clone, Debug)]
pub(crate) struct HeldNamespace {
    view: Rc<NamespaceView>,
    nsid: u32,
}

impl HeldNamespace {
    /// The namespace with this identifier, which has to be one of memory.
    pub(crate) const fn new(view: Rc<NamespaceView>, nsid: u32) -> Self {
        Self { view, nsid }
    }
}

impl MemoryHolder for HeldNamespace {
    fn memory(&self) -> &Memory {
        match self.view.get(self.nsid).map(|namespace| &*namespace.backend) {
            Some(Backend::Memory(memory)) => memory,
            _ => unreachable!("memory is sent only of a memory namespace"),
        }
    }

    fn takes_data(&self) -> bool {
        // A reservation, a claim and uncorrectable blocks are looked at where a write is executed.
        self.view.get(self.nsid).is_some_and(|namespace| namespace.flags() == 0)
    }
}
