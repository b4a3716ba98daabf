//! The host side of NVMe/TCP: queues, controllers and namespaces of a target, used from userspace without
//! root. It keeps out how a workload is made.
//!
//! # Reading blocks
//!
//! A [`Volume`] is a namespace as bytes. Its methods wait until they are done, and may be called from any thread:
//!
//! ```
//! # use engine::backend::BackendConfig;
//! # use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
//! # let nqn = "nqn.2014-08.org.example:disk";
//! # let mut memory = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
//! # memory.uuid = Some(uuid::Uuid::from_u128(7));
//! # let ports = (1..=2).map(|id| PortConfig::new(id, ([127, 0, 0, 1], 0).into())).collect();
//! # let subsystems = vec![SubsystemConfig::new(nqn, "serial", "model").with(vec![memory])];
//! # let fabric = FabricConfig { ports, subsystems, ..FabricConfig::default() };
//! # let target = Target::start(&TargetConfig { fabric, ..TargetConfig::default() })?;
//! use engine::initiator::Volume;
//!
//! # let address = target.ports()[0];
//! let volume = Volume::open(&[address], nqn, 1)?;
//! let mut block = vec![0; volume.block_size() as usize];
//! volume.read_at(0, &mut block)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`AsyncVolume`] is the same for tasks of any executor. Both copy, and each request wakes a thread of the volume and is
//! woken by it. Who wants the least processor time per request begins tasks on that thread, and hands over buffers:
//!
//! ```
//! # use engine::backend::BackendConfig;
//! # use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
//! # let nqn = "nqn.2014-08.org.example:disk";
//! # let mut memory = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
//! # memory.uuid = Some(uuid::Uuid::from_u128(7));
//! # let ports = vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())];
//! # let subsystems = vec![SubsystemConfig::new(nqn, "serial", "model").with(vec![memory])];
//! # let fabric = FabricConfig { ports, subsystems, ..FabricConfig::default() };
//! # let target = Target::start(&TargetConfig { fabric, ..TargetConfig::default() })?;
//! use engine::initiator::{InitiatorError, Volume};
//! use engine::ring::Buffer;
//!
//! let volume = Volume::open(&target.ports(), nqn, 1)?;
//! let zeroes = volume.spawn(|volume| async move {
//!     let (mut buffer, mut zeroes) = (Buffer::zeroed(4096), 0);
//!     for offset in (0..volume.size_bytes()).step_by(4096) {
//!         buffer = volume.read(offset, buffer).await?;
//!         zeroes += u64::from(buffer.iter().all(|byte| *byte == 0));
//!     }
//!     Ok::<_, InitiatorError>(zeroes)
//! });
//! assert_eq!(zeroes.wait()??, 256);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Several paths
//!
//! Given several addresses, a volume uses all of them. When one is lost, what was on its way there is sent over another as
//! soon as this can do no harm, and the lost one is connected again when it is back. Here one port of a target is closed:
//!
//! ```
//! # use engine::backend::BackendConfig;
//! # use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
//! # let nqn = "nqn.2014-08.org.example:disk";
//! # let mut memory = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
//! # memory.uuid = Some(uuid::Uuid::from_u128(7));
//! # let ports = (1..=2).map(|id| PortConfig::new(id, ([127, 0, 0, 1], 0).into())).collect();
//! # let subsystems = vec![SubsystemConfig::new(nqn, "serial", "model").with(vec![memory])];
//! # let fabric = FabricConfig { ports, subsystems, ..FabricConfig::default() };
//! # let target = Target::start(&TargetConfig { fabric, ..TargetConfig::default() })?;
//! use engine::initiator::{PathState, Volume};
//!
//! let volume = Volume::open(&target.ports(), nqn, 1)?;
//! volume.write_at(0, b"before ".repeat(1024)[..4096].as_ref())?;
//!
//! let mut config = target.config();
//! config.ports.remove(0);
//! target.apply(&config)?;
//!
//! let after = b"after".repeat(1024)[..4096].to_vec();
//! volume.write_at(0, &after)?;
//! assert!(volume.compare(0, &after)?);
//! assert_eq!(volume.status()[1].state, PathState::Live);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layers, each usable on its own
//!
//! - [`Volume`] reads and writes at byte offsets over all paths, from any thread; [`AsyncVolume`] from any task;
//!   [`LocalVolume`] from tasks on a thread of the volume, at the cost of the bare queues.
//! - [`Driver`] is the loop round queues, on a thread of the caller's: nothing is allocated per command.
//! - [`Paths`] and [`PathQueues`] are several controllers of a subsystem as ways to one namespace.
//! - [`Controller`] is an association with a subsystem: admin commands, keep alive, events.
//! - [`Queue`] is one connection on the caller's own ring.

mod authentication_worker;
mod concat_key;
mod controller;
mod driver;
mod error;
mod host;
mod options;
mod path;
mod queue;
mod tls_keys;
mod volume;

pub use concat_key::ConcatKey;
pub use controller::{AdminReply, Controller, DeallocateLimits, DiscoveryRecords, Extent, NamespaceInfo};
pub use driver::{CommandQueues, Driver};
pub use error::{InitiatorError, PeerMisbehaved};
pub use host::HostIdentity;
pub use options::{ConnectOptions, HostSecrets, QueueOptions};
#[cfg(any(test, feature = "simulation"))]
pub use path::EwmaKnobs;
pub use path::{
    ConnectionReport, ControllerFiles, ControllerRecord, ControllerRecordStore, Found, FoundContent,
    IoPolicy, KeptControllers, PathOptions, PathQueues, PathShare, PathState, PathStatus, Paths, RecordError,
    Stage, StageLatencies, UnknownPolicy,
};
pub use queue::{Completion, Data, Ended, Lost, Queue, QueueState, Request, Timing};
pub use tls_keys::{TakenOffer, TlsKeys};
pub use volume::{AsyncVolume, LocalTask, LocalVolume, NamespaceName, Volume, VolumeOptions, VolumeTask};
