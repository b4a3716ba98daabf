//! Which machine this is, for the names and numbers that tell a target's disks from those of other targets, and the name of
//! its subsystem where none is given.

use std::env;
use std::path::{Path, PathBuf};

use engine::target::{MACHINE_ID_FILE, MachineId};
use nvme::discovery::Nqn;

use crate::failure::Failure;
use crate::spec::service::SERVICE_DEFAULT;

/// Names another file than the system's: for containers that share one, and for several targets in one test.
pub(crate) const MACHINE_ID_VARIABLE: &str = "SELVEDGE_MACHINE_ID_FILE";

/// This machine, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub id: MachineId,
    /// True if the identity is the same at the next start.
    pub(crate) is_lasting: bool,
}

impl Machine {
    /// This machine, as its state directory or the system knows it; where neither does, the directory does from now on.
    pub fn find(state_directory: Option<&Path>) -> Result<Self, Failure> {
        let kept = |path: &Path, error: std::io::Error| {
            Failure::failed(format!("the identities in {} cannot be kept: {error}", path.display()))
        };
        let lasting = |id| Ok(Self { id, is_lasting: true });
        if let Some(path) = state_directory
            && let Some(id) = MachineId::kept_in(path).map_err(|error| kept(path, error))?
        {
            return lasting(id);
        }
        if let Some(id) = Self::of_system()? {
            return lasting(id);
        }
        match state_directory {
            Some(path) => lasting(MachineId::make_in(path).map_err(|error| kept(path, error))?),
            None => Ok(Self { id: MachineId::random(), is_lasting: false }),
        }
    }

    fn of_system() -> Result<Option<MachineId>, Failure> {
        let chosen = env::var_os(MACHINE_ID_VARIABLE).map(PathBuf::from);
        let path = chosen.as_deref().unwrap_or(Path::new(MACHINE_ID_FILE));
        match (MachineId::read(path), &chosen) {
            (Ok(Some(id)), _) => Ok(Some(id)),
            (Ok(None), None) => Ok(None),
            (Ok(None), Some(_)) => Err(Failure::usage(format!(
                "{MACHINE_ID_VARIABLE} names {}, which holds no machine ID",
                path.display()
            ))),
            (Err(error), _) => Err(Failure::failed(format!("{} cannot be read: {error}", path.display()))),
        }
    }

    /// Warns if hosts cannot recognize this machine after a restart.
    pub fn warn(&self) {
        if !self.is_lasting {
            tracing::warn!(
                "this machine has no {MACHINE_ID_FILE}: names, serial numbers and UUIDs that are not given are others after each \
                 start; add --state-dir DIR to keep them"
            );
        }
    }

    /// The name of a subsystem for which none is given, at a target on this port. Two targets on one machine have two names.
    pub fn nqn(&self, service: u16) -> Nqn {
        let target = match service {
            SERVICE_DEFAULT => String::new(),
            // Which port it will be is not known yet, and is another one the next time.
            0 => format!(":{}", &MachineId::random().to_string()[..4]),
            service => format!(":{service}"),
        };
        self.name(&target)
    }

    /// The name of the demonstration's subsystem.
    pub fn demo_nqn(&self) -> Nqn {
        self.name(":demo")
    }

    fn name(&self, rest: &str) -> Nqn {
        Nqn::new(&format!("nqn.2026-01.io.selvedge:{}{rest}", self.id)).expect("a valid name")
    }
}

#[cfg(test)]
impl Machine {
    /// Identity for tests.
    pub(crate) fn of_test() -> Self {
        Self { id: MachineId::from_uuid(uuid::Uuid::from_u128(1)), is_lasting: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_of_a_machine_has_its_own_name() {
        let machine = Machine::of_test();
        let first = machine.nqn(4420);
        assert_eq!(first.as_str(), "nqn.2026-01.io.selvedge:veq2-0qhg-8xda");
        assert_eq!(machine.nqn(4421).as_str(), format!("{first}:4421"));
        assert_eq!(machine.nqn(4421), machine.nqn(4421));
        assert_ne!(machine.nqn(0), machine.nqn(0));
        assert_eq!(machine.demo_nqn().as_str(), format!("{first}:demo"));
    }

    #[test]
    fn what_a_state_directory_knows_wins() {
        let folder = tempfile::tempdir().unwrap();
        let made = MachineId::make_in(folder.path()).unwrap();
        assert_eq!(Machine::find(Some(folder.path())), Ok(Machine { id: made, is_lasting: true }));
    }
}
