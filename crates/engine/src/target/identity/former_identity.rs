//! The identities that targets gave before these followed from the machine and from what is served: what was kept by such a
//! target goes on under them, so that hosts find the disks they know.

use uuid::Uuid;

use crate::target::config::{FabricConfig, NamespaceConfig};

/// The name that every subsystem had for which none was given.
pub const FORMER_NQN: &str = "nqn.2026-01.io.selvedge:target";

/// Writes down which UUIDs the namespaces had that `applies` is true of, where none was configured.
pub fn write_down_former_uuids(fabric: &mut FabricConfig, applies: impl Fn(&NamespaceConfig) -> bool) {
    for subsystem in &mut fabric.subsystems {
        for namespace in &mut subsystem.namespaces {
            if namespace.uuid.is_none() && applies(namespace) {
                namespace.uuid = Some(uuid(&subsystem.nqn, namespace.nsid));
            }
        }
    }
}

fn uuid(nqn: &str, nsid: u32) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{nqn}#{nsid}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_they_were() {
        assert_eq!(uuid(FORMER_NQN, 1).to_string(), "dc53dc4c-60a8-5024-8feb-4fb24e814c00");
    }
}
