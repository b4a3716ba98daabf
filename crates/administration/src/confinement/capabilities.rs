//! The privileges of root's that a target keeps (capabilities(7)).

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::{Measure, Needs};

/// Capabilities of every target: services below 1024, and rings that older kernels count as locked
/// memory.
const ALWAYS: CapabilitySet = CapabilitySet::NET_BIND_SERVICE.union(CapabilitySet::IPC_LOCK);

/// Capabilities that root needs to open files of other users, and to create files for them.
const OF_ROOT: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::CHOWN);

/// Gives up all others, in all sets.
pub(super) fn reduce(needs: &Needs) -> Result<Measure, String> {
    let failed = |error: Errno| format!("capabilities cannot be given up: {error}");
    let now = capabilities(None).map_err(failed)?;
    let kept = now.permitted & wanted(needs, rustix::process::geteuid().is_root());
    // First: it takes a capability that goes with the others.
    let bound = bound(kept).map_err(failed)?;
    match clear_ambient_capability_set() {
        // A kernel without the set has nothing in it.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(failed(error)),
    }
    let sets = CapabilitySets {
        effective: now.effective & kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    // A service manager may have taken all away, and this call with it.
    if sets != now {
        set_capabilities(None, sets).map_err(failed)?;
    }
    let names: Vec<String> = kept.iter_names().map(|(name, _)| name.to_lowercase()).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(" ") };
    let bound = if bound { "" } else { "; the bounding set stays, which no program can use" };
    Ok(Measure::on(format!("kept: {names}{bound}")))
}

fn wanted(needs: &Needs, is_root: bool) -> CapabilitySet {
    let mut wanted = ALWAYS;
    wanted.set(OF_ROOT, is_root);
    wanted.set(CapabilitySet::NET_ADMIN, needs.network_settings);
    // The kernel's driver takes commands from it alone, except about devices of unprivileged users.
    wanted.set(CapabilitySet::SYS_ADMIN, needs.block_devices);
    wanted
}

/// Takes all but `kept` out of the bounding set; whether this process may.
fn bound(kept: CapabilitySet) -> Result<bool, Errno> {
    for (_, capability) in CapabilitySet::all().iter_names() {
        if kept.contains(capability) {
            continue;
        }
        let is_in = match capability_is_in_bounding_set(capability) {
            Ok(is_in) => is_in,
            // The kernel does not know it.
            Err(Errno::INVAL) => false,
            Err(error) => return Err(error),
        };
        match if is_in { remove_capability_from_bounding_set(capability) } else { Ok(()) } {
            Ok(()) => {}
            Err(Errno::PERM) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_keeps_what_opens_files_of_others() {
        let needs = Needs::default();
        assert_eq!(wanted(&needs, false), ALWAYS);
        assert_eq!(wanted(&needs, true), ALWAYS | OF_ROOT);
        let needs = Needs { network_settings: true, ..needs };
        assert_eq!(wanted(&needs, false), ALWAYS | CapabilitySet::NET_ADMIN);
        let needs = Needs { block_devices: true, ..Needs::default() };
        assert_eq!(wanted(&needs, true), ALWAYS | OF_ROOT | CapabilitySet::SYS_ADMIN);
    }
}
