//! `selvedge host-nqn`: the names of this host.

use std::fmt;

use engine::initiator::HostIdentity;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::failure::Failure;
use crate::flags::look::HostNqnFlags;
use crate::report;

/// Prints them.
pub(super) fn run(flags: &HostNqnFlags) -> Result<(), Failure> {
    report::print_as(flags.output.output_format, &HostNames::of(HostIdentity::of_this_machine()))
}

/// Names of a host.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HostNames {
    /// NQN of the host.
    hostnqn: String,
    /// Identifier of the host, a UUID.
    hostid: String,
}

impl HostNames {
    fn of(identity: HostIdentity) -> Self {
        Self { hostnqn: identity.nqn, hostid: Uuid::from_bytes(identity.id).to_string() }
    }
}

impl fmt::Display for HostNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.hostnqn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_printed_alone() {
        let names = HostNames::of(HostIdentity::from_nqn("nqn.2026-01.org.example:host"));
        assert_eq!(names.to_string(), "nqn.2026-01.org.example:host\n");
        assert!(Uuid::parse_str(&names.hostid).is_ok());
    }
}
