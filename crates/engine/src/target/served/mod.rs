//! What hosts find: subsystems, their namespaces, and what each host sees of them. No queue, no reactor.

mod ana;
mod generated_key;
mod host;
mod host_keys;
mod lateness;
mod namespace;
mod namespace_table;
pub(crate) mod quiesce_time;
mod subsystem;
mod uncorrectable;

pub(crate) use generated_key::GeneratedKey;
pub(crate) use host::Host;
pub(crate) use host_keys::HostKeys;
pub(crate) use namespace::{ByteRange, Namespace, flags};
pub(crate) use namespace_table::{Attachment, HeldNamespace, NamespaceTable, NamespaceView};
pub(crate) use quiesce_time::ReportedTime;
pub(crate) use subsystem::{Opened, Subsystem};
