//! What `serve` needs of the machine, from its flags and from what it is to serve; it gives up the rest.

use engine::target::{FabricConfig, TargetConfig};
use engine::transport::congestion;

use crate::confinement::{self, Confinement, Needs};
use crate::failure::Failure;
use crate::flags::serve::ServeFlags;

/// Gives up what a target with these flags and this configuration does not need. No thread may run yet.
pub(super) fn confine(flags: &ServeFlags, target: &TargetConfig) -> Result<Confinement, Failure> {
    let wishes = flags.confinement.wishes().map_err(Failure::usage)?;
    confinement::confine(wishes, &needs(flags, target))
}

fn needs(flags: &ServeFlags, target: &TargetConfig) -> Needs {
    Needs { network_settings: flags.configure_mptcp || has_privileged_congestion(&target.fabric) }
}

/// Whether a port has a congestion control that not every process may choose. The kernel loads those that it lacks for root
/// alone, and has done so afterwards.
fn has_privileged_congestion(fabric: &FabricConfig) -> bool {
    let named = fabric.ports.iter().filter_map(|port| port.congestion.as_deref());
    named.filter(|name| *name != congestion::SYSTEM).any(|name| {
        let names = if name == congestion::AUTO { ["bbr", "cubic"].as_slice() } else { &[name] };
        names.iter().any(|name| congestion::check(name).is_ok() && !congestion::is_allowed(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_sets_the_network_may() {
        let needs = |flags| needs(&ServeFlags::of(flags), &TargetConfig::default()).network_settings;
        assert_eq!((needs(""), needs("--configure-mptcp")), (false, true));
    }
}
