//! What is served, as data: what administrators write, and what of it hosts may change.

mod change;
mod check;
mod command_quiesce;
mod directives;
mod error;
mod fabric;
mod forgotten;
mod former_text;
mod host_key;
mod known_host;
mod names;
mod network_mask;
mod nguid;
mod quiesce_check;
mod rights;
mod sealed_secret;
mod tls_rule;
mod tls_use;
mod visibility;
mod write_protection;
mod written;

pub use change::Change;
pub(crate) use change::namespaces_of;
pub use command_quiesce::CommandQuiesce;
pub use directives::{Directives, OtherPort};
pub(crate) use directives::{RESERVATIONS, STANDBY};
pub use error::SettingError;
pub use fabric::{
    AnaGroupConfig, FabricConfig, GroupState, NO_PORT, NamespaceConfig, PortConfig, QosConfig,
    ReferralConfig, StorageConfig, SubsystemConfig, free_nsid, free_port,
};
pub use former_text::FormerText;
pub use host_key::HostKeyConfig;
pub use known_host::KnownHost;
pub use network_mask::NetworkMask;
pub use nguid::Nguid;
pub(crate) use quiesce_check::check_quiesce_bound;
pub use rights::{Denial, NamespaceOwned};
pub(crate) use sealed_secret::KeySource;
pub use sealed_secret::{KeyKind, SealedSecret};
pub use tls_use::TlsUse;
pub use visibility::Visibility;
pub use write_protection::WriteProtection;
pub use written::{
    BLOCK_SIZE_DEFAULT, MODEL_DEFAULT, check_block_size, check_congestion, check_serial, check_subsystem_nqn,
    parse_uuid, parse_write_delay,
};
