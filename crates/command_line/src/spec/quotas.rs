//! How much of a target one host may take, and one network, as far as the operator says: flags and a table of `target.toml`
//! in one. What the rules do is the engine's.

use engine::limits::{CONNECTIONS_PER_REACTOR_MAX, CONTROLLERS_MAX};
use engine::target::Quotas;
use serde::Deserialize;

const CONTROLLERS: u64 = CONTROLLERS_MAX as u64;
/// More queues than this no reactors have places for.
const QUEUES: u64 = 1024 * CONNECTIONS_PER_REACTOR_MAX as u64;

/// The quotas that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaSpec {
    /// Controllers that one host may have [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=CONTROLLERS))]
    pub(crate) controllers_per_host: Option<u64>,

    /// Controllers that hosts on no subsystem's list may have from one network, which is an IPv4 address or the /64 of an
    /// IPv6 address [default: 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=CONTROLLERS))]
    pub(crate) controllers_per_network: Option<u64>,

    /// I/O queues that one host may have [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=QUEUES))]
    pub queues_per_host: Option<u64>,

    /// I/O queues that hosts on no subsystem's list may have from one network [default: 8192]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=QUEUES))]
    pub(crate) queues_per_network: Option<u64>,

    /// Discovery controllers of all hosts together; beyond that, the one silent for longest ends [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=CONTROLLERS))]
    pub(crate) discovery_controllers: Option<u64>,
}

impl QuotaSpec {
    /// Quotas of `other`, and for those it lacks, these.
    pub fn with(self, other: Self) -> Self {
        Self {
            controllers_per_host: other.controllers_per_host.or(self.controllers_per_host),
            controllers_per_network: other.controllers_per_network.or(self.controllers_per_network),
            queues_per_host: other.queues_per_host.or(self.queues_per_host),
            queues_per_network: other.queues_per_network.or(self.queues_per_network),
            discovery_controllers: other.discovery_controllers.or(self.discovery_controllers),
        }
    }

    /// Checks what a file says.
    ///
    /// # Errors
    /// Which number is out of its bounds.
    pub fn check(&self) -> Result<(), String> {
        let all = [
            ("controllers_per_host", self.controllers_per_host, CONTROLLERS),
            ("controllers_per_network", self.controllers_per_network, CONTROLLERS),
            ("queues_per_host", self.queues_per_host, QUEUES),
            ("queues_per_network", self.queues_per_network, QUEUES),
            ("discovery_controllers", self.discovery_controllers, CONTROLLERS),
        ];
        let wrong = |(_, value, most): &(&str, Option<u64>, u64)| {
            value.is_some_and(|value| !(1..=*most).contains(&value))
        };
        match all.into_iter().find(wrong) {
            Some((name, value, most)) => {
                Err(format!("{name} = {} is out of bounds: write 1 to {most}", value.unwrap_or_default()))
            }
            None => Ok(()),
        }
    }

    /// The engine's form.
    pub fn to_engine(self) -> Quotas {
        let usual = Quotas::default();
        let or = |given: Option<u64>, usual: usize| given.map_or(usual, |count| count as usize);
        Quotas {
            controllers_per_host: or(self.controllers_per_host, usual.controllers_per_host),
            controllers_per_network: or(self.controllers_per_network, usual.controllers_per_network),
            queues_per_host: or(self.queues_per_host, usual.queues_per_host),
            queues_per_network: or(self.queues_per_network, usual.queues_per_network),
            discovery_controllers: or(self.discovery_controllers, usual.discovery_controllers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_the_rest_is_as_usual() {
        let file: QuotaSpec = toml::from_str("controllers_per_host = 5\nqueues_per_host = 6").unwrap();
        let flags = QuotaSpec { queues_per_host: Some(7), ..QuotaSpec::default() };
        let quotas = file.with(flags).to_engine();
        assert_eq!((quotas.controllers_per_host, quotas.queues_per_host), (5, 7));
        assert_eq!(quotas.discovery_controllers, Quotas::default().discovery_controllers);
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        for (text, said) in [
            ("controllers_per_host = 0", "controllers_per_host = 0 is out of bounds: write 1 to 1024"),
            (
                "discovery_controllers = 1025",
                "discovery_controllers = 1025 is out of bounds: write 1 to 1024",
            ),
        ] {
            let spec: QuotaSpec = toml::from_str(text).unwrap();
            assert_eq!(spec.check(), Err(said.to_owned()));
        }
        assert!(toml::from_str::<QuotaSpec>("controllers = 1").is_err());
    }
}
