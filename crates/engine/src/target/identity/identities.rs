//! Identities of this target's subsystems and namespaces as hosts see them: derived from the
//! machine and from the storage, and unique to this target, unless several targets are to serve the
//! same. Identities of backends are elsewhere.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use uuid::Uuid;

use super::kept::KeptIdentities;
use super::machine_id::{MachineId, common_serial, common_uuid, random_uuid};
use crate::backend::{Backend, BackendError, BackendIdentity};
use crate::target::TargetError;
use crate::target::config::{FabricConfig, NamespaceConfig, Nguid, SubsystemConfig};

/// The UUIDs of namespaces by their subsystems' names and their identifiers.
pub type NamespaceIdentities = BTreeMap<(String, u32), Uuid>;

/// Generator of identities.
#[derive(Debug)]
pub(crate) struct Identities {
    machine: MachineId,
    /// Store for identities that cannot be derived.
    kept: Option<KeptIdentities>,
}

impl Identities {
    /// By this machine, and with what is kept below this state directory.
    pub(crate) fn new(machine: Option<MachineId>, state_dir: Option<&Path>) -> Self {
        Self { machine: machine.unwrap_or_else(MachineId::random), kept: state_dir.map(KeptIdentities::of) }
    }

    /// The serial number of a subsystem for which none is configured.
    pub(crate) fn serial(&self, config: &SubsystemConfig) -> String {
        // Other targets are to serve it as well, and have to tell the same.
        if config.namespaces.iter().any(|namespace| namespace.shared_storage) {
            return common_serial(&config.nqn);
        }
        self.machine.serial(&config.nqn)
    }

    /// The UUID of a namespace on this backend.
    ///
    /// # Errors
    /// When other targets are to tell the same and nothing says what; and when what was kept cannot be read.
    pub(crate) fn namespace(
        &self,
        nqn: &str,
        config: &NamespaceConfig,
        backend: &Backend,
    ) -> Result<Uuid, TargetError> {
        if let Some(uuid) = config.uuid {
            return Ok(uuid);
        }
        let failed = |source| TargetError::Namespace { nqn: nqn.to_owned(), nsid: config.nsid, source };
        match backend.identity() {
            BackendIdentity::Fresh => Ok(random_uuid()),
            BackendIdentity::Everywhere(text) => Ok(common_uuid(text.kind(), &text.text())),
            BackendIdentity::OnMachine(text) if config.shared_storage => {
                Ok(common_uuid(text.kind(), &text.text()))
            }
            BackendIdentity::OnMachine(text) => Ok(self.machine.derive(text.kind(), &text.text())),
            BackendIdentity::Unknown(path) if config.shared_storage => {
                Err(failed(BackendError::Nameless { path }))
            }
            BackendIdentity::Unknown(path) => match &self.kept {
                Some(kept) => kept.place(&path).map_err(|source| failed(BackendError::Open { path, source })),
                None => {
                    tracing::warn!(
                        nqn, nsid = config.nsid, path = %path.display(),
                        "nothing tells this file or device from others: hosts see another disk after each start; give the \
                         namespace a uuid, or the target a state directory"
                    );
                    Ok(random_uuid())
                }
            },
        }
    }
}

impl MachineId {
    /// Machine identity stored in this state directory, if one was ever created. It takes
    /// precedence over the machine's own identifier, which was introduced later, to keep the disks
    /// that hosts know.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn kept_in(directory: &Path) -> io::Result<Option<Self>> {
        KeptIdentities::of(directory).machine()
    }

    /// Makes something that stands for the machine, and keeps it in this directory.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub fn make_in(directory: &Path) -> io::Result<Self> {
        KeptIdentities::of(directory).make_machine()
    }
}

impl FabricConfig {
    /// The same, where what it leaves open stays as it is `served`: the service of a port, the serial number of a subsystem, and
    /// the UUID of a namespace that has the same blocks.
    #[must_use]
    pub fn settled(mut self, served: &Self) -> Self {
        for port in self.ports.iter_mut().filter(|port| port.address.port() == 0) {
            let is_same = |open: &&crate::target::config::PortConfig| {
                open.id == port.id && open.address.fits(&port.address)
            };
            if let Some(open) = served.ports.iter().find(is_same) {
                port.address.set_port(open.address.port());
            }
        }
        self.recognized(served)
    }

    /// The same, where serial numbers, UUIDs and sizes of blocks that it leaves open stay those that were `served` for the same.
    #[must_use]
    pub fn recognized(mut self, served: &Self) -> Self {
        for subsystem in &mut self.subsystems {
            let Some(known) = served.subsystem(&subsystem.nqn) else { continue };
            if subsystem.serial.is_empty() {
                subsystem.serial.clone_from(&known.serial);
            }
            let known = known.by_nsid();
            for namespace in &mut subsystem.namespaces {
                let known = known.get(&namespace.nsid);
                let known = known.filter(|known| known.backend.is_same_place(&namespace.backend));
                if namespace.uuid.is_none() {
                    namespace.uuid = known.and_then(|known| known.uuid);
                }
                if namespace.block_size == 0 {
                    namespace.block_size = known.map_or(0, |known| known.block_size);
                }
            }
        }
        self
    }

    /// The same with the UUIDs that namespaces have in effect, where none is configured.
    #[must_use]
    pub fn with_identities(mut self, identities: &NamespaceIdentities) -> Self {
        for subsystem in &mut self.subsystems {
            for namespace in subsystem.namespaces.iter_mut().filter(|namespace| namespace.uuid.is_none()) {
                namespace.uuid = identities.get(&(subsystem.nqn.clone(), namespace.nsid)).copied();
            }
        }
        self
    }
}

/// Checks that no two namespaces of a subsystem are one to hosts.
pub(crate) fn check_distinct(
    nqn: &str,
    identities: impl Iterator<Item = (u32, Uuid, Nguid)>,
) -> Result<(), TargetError> {
    let (mut uuids, mut nguids) = (BTreeMap::new(), BTreeMap::new());
    for (nsid, uuid, nguid) in identities {
        if let Some(other) = uuids.insert(uuid, nsid) {
            return Err(TargetError::Config(format!(
                "subsystem {nqn}: namespaces {other} and {nsid} are both {uuid}, so that hosts would take them for one; give \
                 one of them a uuid, or serve something else"
            )));
        }
        if let Some(other) = nguids.insert(nguid, nsid) {
            return Err(TargetError::Config(format!(
                "subsystem {nqn}: namespaces {other} and {nsid} both have the NGUID {nguid}, so that hosts would take them \
                 for one; give one of them another nguid"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{BackendConfig, Clusters, Opening};

    const NQN: &str = "nqn.2026-01.io.selvedge:a";

    fn machine(number: u128) -> Identities {
        Identities::new(Some(MachineId::from_uuid(Uuid::from_u128(number))), None)
    }

    fn uuid(target: &Identities, config: &NamespaceConfig) -> Uuid {
        let clusters = Clusters::default();
        let opening = Opening { is_shared: config.shared_storage, ..Opening::alone(4096, &clusters) };
        let backend = Backend::open(&config.backend, opening).expect("opens");
        target.namespace(NQN, config, &backend).expect("has an identity")
    }

    fn file(folder: &tempfile::TempDir, name: &str) -> NamespaceConfig {
        let path = folder.path().join(name);
        // One that is made with the namespace would go with it, and the next would be another.
        let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        file.and_then(|file| file.set_len(1 << 20)).expect("a file");
        NamespaceConfig::new(1, BackendConfig::File { path, size: Some(1 << 20) }, 4096)
    }

    #[test]
    fn a_file_is_the_same_disk_on_its_machine_and_another_one_on_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = file(&folder, "disk");
        assert_eq!(uuid(&machine(1), &config), uuid(&machine(1), &config));
        assert_ne!(uuid(&machine(1), &config), uuid(&machine(2), &config));
        assert_ne!(uuid(&machine(1), &config), uuid(&machine(1), &file(&folder, "other")));
        let moved = NamespaceConfig { nsid: 2, ..config.clone() };
        assert_eq!(uuid(&machine(1), &config), uuid(&machine(1), &moved), "the blocks are what counts");
    }

    #[test]
    fn what_is_shared_is_the_same_on_all_machines() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = NamespaceConfig { shared_storage: true, ..file(&folder, "disk") };
        assert_eq!(uuid(&machine(1), &config), uuid(&machine(2), &config));
        let alone = NamespaceConfig { shared_storage: false, ..config.clone() };
        assert_ne!(uuid(&machine(1), &config), uuid(&machine(1), &alone));
        let [own, shared] =
            [alone, config].map(|config| SubsystemConfig::new(NQN, "", "").with(vec![config]));
        let serial = |number, subsystem: &SubsystemConfig| machine(number).serial(subsystem);
        assert_eq!(serial(1, &shared), serial(2, &shared));
        assert_ne!(serial(1, &own), serial(2, &own));
        assert_eq!(serial(1, &own), serial(1, &own));
    }

    #[test]
    fn memory_is_another_disk_each_time() {
        for backend in [BackendConfig::Memory { size: 4096 }, BackendConfig::Null { size: 4096 }] {
            let config = NamespaceConfig::new(1, backend, 4096);
            assert_ne!(uuid(&machine(1), &config), uuid(&machine(1), &config));
        }
    }

    #[test]
    fn a_uuid_that_is_said_wins() {
        let config = NamespaceConfig {
            uuid: Some(Uuid::from_u128(7)),
            ..NamespaceConfig::new(1, BackendConfig::Memory { size: 4096 }, 4096)
        };
        assert_eq!(uuid(&machine(1), &config), Uuid::from_u128(7));
    }

    #[test]
    fn what_a_configuration_leaves_open_stays_for_the_same_blocks() {
        let named = |uuid, path: &str| {
            let backend = BackendConfig::File { path: path.into(), size: None };
            NamespaceConfig { uuid, ..NamespaceConfig::new(1, backend, 4096) }
        };
        let fabric = |serial: &str, namespace| FabricConfig {
            subsystems: vec![SubsystemConfig::new(NQN, serial, "m").with(vec![namespace])],
            ..FabricConfig::default()
        };
        let known = fabric("S", named(Some(Uuid::from_u128(1)), "/a"));
        let outcome = |wanted: FabricConfig| {
            let subsystem = wanted.settled(&known).subsystems.remove(0);
            (subsystem.serial, subsystem.namespaces[0].uuid)
        };
        assert_eq!(outcome(fabric("", named(None, "/a"))), ("S".to_owned(), Some(Uuid::from_u128(1))));
        assert_eq!(outcome(fabric("T", named(None, "/b"))), ("T".to_owned(), None));
        let other = Some(Uuid::from_u128(2));
        assert_eq!(outcome(fabric("", named(other, "/a"))), ("S".to_owned(), other));
    }
}
