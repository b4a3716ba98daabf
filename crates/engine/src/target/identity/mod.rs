//! What namespaces are known by: UUIDs that stay, from the machine, the file or what was kept.

mod former_identity;
pub(crate) mod identities;
mod kept;
mod machine_id;

pub use former_identity::{FORMER_NQN, write_down_former_uuids};
pub(crate) use identities::Identities;
pub use identities::NamespaceIdentities;
pub use machine_id::{MACHINE_ID_FILE, MachineId};
