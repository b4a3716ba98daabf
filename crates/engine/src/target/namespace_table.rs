//! The namespaces that one host sees through one port, and a queue's handle on them.
//! A table never changes; when something does, hosts get another one.

use std::rc::Rc;
use std::sync::Arc;

use super::ana::AnaCell;
use super::namespace::Namespace;

/// A namespace as one host sees it.
#[derive(Clone, Debug)]
pub(super) struct Attachment {
    pub(super) namespace: Arc<Namespace>,
    /// Its ANA group, on the port the host came by.
    pub(super) group: u32,
    pub(super) access: Arc<AnaCell>,
}

/// The namespaces a host sees, by identifier: namespace n stands at n - 1.
#[derive(Debug, Default)]
pub(super) struct NamespaceTable(Vec<Option<Attachment>>);

impl NamespaceTable {
    pub(super) fn new(attachments: Vec<Attachment>) -> Self {
        let last = attachments.iter().map(|attachment| attachment.namespace.nsid as usize).max();
        let mut table = vec![None; last.unwrap_or(0)];
        for attachment in attachments {
            let at = attachment.namespace.nsid as usize - 1;
            table[at] = Some(attachment);
        }
        Self(table)
    }

    /// The namespace with this identifier, as the host sees it.
    pub(super) fn attachment(&self, nsid: u32) -> Option<&Attachment> {
        self.0.get((nsid as usize).checked_sub(1)?)?.as_ref()
    }

    /// The namespace with this identifier.
    pub(super) fn get(&self, nsid: u32) -> Option<&Namespace> {
        Some(&self.attachment(nsid)?.namespace)
    }

    /// All namespaces in the order of their identifiers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.attachments().map(|attachment| &*attachment.namespace)
    }

    /// The same, as the host sees them.
    pub(super) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.0.iter().flatten()
    }

    /// The identifiers under which the other table has something else.
    pub(super) fn differences(&self, other: &Self) -> Vec<u32> {
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
pub(super) struct NamespaceView(Arc<NamespaceTable>);

impl std::ops::Deref for NamespaceView {
    type Target = NamespaceTable;

    fn deref(&self) -> &NamespaceTable {
        &self.0
    }
}

/// The tables a queue works with: the one for new commands, and those that answers on their way still point into.
#[derive(Debug)]
pub(super) struct Views {
    current: Rc<NamespaceView>,
    number: u32,
    former: Vec<Former>,
}

#[derive(Debug)]
struct Former {
    view: Rc<NamespaceView>,
    number: u32,
    /// When the connection has sent so many bytes in all, nothing points into the table any more.
    until: u64,
}

impl Views {
    pub(super) fn new(table: Arc<NamespaceTable>) -> Self {
        Self { current: Rc::new(NamespaceView(table)), number: 0, former: Vec::new() }
    }

    /// The table for new commands.
    pub(super) const fn current(&self) -> &Rc<NamespaceView> {
        &self.current
    }

    /// The number of the table for new commands.
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    /// The table with this number, which is the current one or not yet released.
    pub(super) fn numbered(&self, number: u32) -> Option<&NamespaceView> {
        if number == self.number {
            return Some(&self.current);
        }
        self.former.iter().find(|former| former.number == number).map(|former| &*former.view)
    }

    /// Takes another table for new commands. The old one is kept until the connection has sent `until` bytes in all.
    pub(super) fn replace(&mut self, table: Arc<NamespaceTable>, until: u64) {
        if Arc::ptr_eq(&self.current.0, &table) {
            return;
        }
        let view = std::mem::replace(&mut self.current, Rc::new(NamespaceView(table)));
        self.former.push(Former { view, number: self.number, until });
        self.number = self.number.wrapping_add(1);
    }

    /// Whether there are former tables.
    pub(super) const fn has_former(&self) -> bool {
        !self.former.is_empty()
    }

    /// Releases the tables that nothing points into any more, now that `sent` bytes have left in all.
    pub(super) fn release(&mut self, sent: u64) {
        self.former.retain(|former| former.until > sent);
    }
}
