//! Rights of an administrator: a role, and its limits.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::allowed_storage::AllowedStorage;
use crate::spec::role::Role;

/// Stands for every subsystem.
const EVERY: &str = "*";

/// A role, and what it is limited to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    pub role: Role,
    /// NQNs of the subsystems that an operator may change; `*` is every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subsystems: Vec<String>,
    /// The files, devices and images that may be named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<AllowedStorage>,
}

impl Rights {
    /// All rights.
    pub const fn admin() -> Self {
        Self { role: Role::Admin, subsystems: Vec::new(), storage: None }
    }

    /// Refuses rights without effect, or with an unexpected one.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.role, self.subsystems.is_empty()) {
            (Role::Operate, true) => Err(format!(
                "an operator needs `subsystems`, a list of the NQNs that it may change, or [\"{EVERY}\"]"
            )),
            (Role::Operate, false) | (_, true) => Ok(()),
            (role, false) => Err(format!("`subsystems` limits the role operate, and this one has {role}")),
        }
    }

    /// Refuses an action that needs a higher role, or another subsystem. `subsystem` is the
    /// subsystem of the action, if it has one.
    pub(in crate::control) fn allow(&self, needed: Role, subsystem: Option<&str>) -> Result<(), String> {
        if self.role < needed {
            return Err(format!("it takes the role {needed}, and this is {}", self.role));
        }
        if self.role == Role::Operate && needed == Role::Operate {
            let subsystem = subsystem.unwrap_or_default();
            if !self.subsystems.iter().any(|known| known == EVERY || known == subsystem) {
                return Err(format!("it may not change {subsystem}, but {}", self.subsystems.join(", ")));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.role)?;
        if self.subsystems.is_empty() { Ok(()) } else { write!(f, " of {}", self.subsystems.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(role: Role, subsystems: &[&str]) -> Rights {
        Rights { role, subsystems: subsystems.iter().map(|&nqn| nqn.to_owned()).collect(), storage: None }
    }

    #[test]
    fn a_role_may_do_what_lesser_ones_may() {
        let roles = [Role::Metrics, Role::Read, Role::Operate, Role::Admin];
        for (has, role) in roles.into_iter().enumerate() {
            for (needs, needed) in roles.into_iter().enumerate() {
                let allowed = rights(role, &["*"]).allow(needed, Some("nqn.a")).is_ok();
                assert_eq!(allowed, has >= needs, "{role} {needed}");
            }
        }
    }

    #[test]
    fn an_operator_has_its_subsystems_and_no_other() {
        let operator = rights(Role::Operate, &["nqn.a", "nqn.b"]);
        operator.check().unwrap();
        assert!(operator.allow(Role::Operate, Some("nqn.b")).is_ok());
        for other in [Some("nqn.c"), Some("nqn."), Some("*"), None] {
            assert!(operator.allow(Role::Operate, other).is_err(), "{other:?}");
        }
        assert!(operator.allow(Role::Read, Some("nqn.c")).is_ok(), "it sees the others");
        assert!(
            rights(Role::Operate, &[]).check().is_err() && rights(Role::Read, &["nqn.a"]).check().is_err()
        );
    }
}
