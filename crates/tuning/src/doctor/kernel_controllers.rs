//! Controllers of the kernel's initiator as sysfs has them, of a live machine or a recording: their states, and the path
//! policies of their subsystems.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use engine::address::HostAddress;
use topology::Machine;

const CLASS: &str = "sys/class/nvme";
const SUBSYSTEMS: &str = "sys/class/nvme-subsystem";
/// Controllers that are looked at: those of a hundred subsystems over ten paths each.
const CONTROLLERS_MAX: usize = 1024;
/// Namespaces of a controller whose ANA state is read.
const NAMESPACES_MAX: usize = 256;

/// A controller over TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelController {
    /// Name, such as `nvme0`.
    pub(crate) name: String,
    /// State, such as `live` or `connecting`.
    pub(crate) state: String,
    pub(crate) subsystem_nqn: String,
    pub(crate) target: Option<SocketAddr>,
    /// Local address, configured or chosen by the system.
    pub(crate) source: Option<IpAddr>,
    /// Seconds between two attempts to connect again.
    pub(crate) reconnect_delay_s: Option<u32>,
    /// True if its connections are encrypted.
    pub(crate) has_tls: bool,
    /// ANA state over this path by the number of the namespace's disk; empty where the target reports none.
    pub(crate) ana_states: BTreeMap<u32, String>,
}

/// A subsystem with the policy by which the kernel chooses among its paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathPolicy {
    /// Name, such as `nvme-subsys0`.
    pub(crate) name: String,
    pub(crate) nqn: String,
    /// `numa`, `round-robin` or `queue-depth`.
    pub(crate) policy: String,
}

/// The controllers, by number.
pub(super) fn controllers(machine: &Machine) -> Vec<KernelController> {
    let names = machine.list(CLASS).unwrap_or_default();
    let mut found: Vec<KernelController> =
        names.iter().take(CONTROLLERS_MAX).filter_map(|name| controller(machine, name)).collect();
    found.sort_by_key(|controller| {
        controller
            .name
            .trim_start_matches(|letter: char| !letter.is_ascii_digit())
            .parse()
            .unwrap_or(u32::MAX)
    });
    found
}

fn controller(machine: &Machine, name: &str) -> Option<KernelController> {
    let text = |file: &str| {
        let text = machine.read(&format!("{CLASS}/{name}/{file}")).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    if text("transport")? != "tcp" {
        return None;
    }
    let address = text("address").unwrap_or_default();
    let part = |wanted: &str| {
        let mut pairs = address.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| key.trim() == wanted).map(|(_, value)| value.trim())
    };
    let ip = |text: &str| Some(text.parse::<HostAddress>().ok()?.literal(0)?.ip().to_canonical());
    let target = part("traddr").and_then(ip).zip(part("trsvcid").and_then(|port| port.parse().ok()));
    Some(KernelController {
        name: name.to_owned(),
        state: text("state").unwrap_or_default(),
        subsystem_nqn: text("subsysnqn").unwrap_or_default(),
        target: target.map(|(ip, port)| SocketAddr::new(ip, port)),
        source: part("host_traddr").or_else(|| part("src_addr")).and_then(ip),
        reconnect_delay_s: text("reconnect_delay").and_then(|delay| delay.parse().ok()),
        has_tls: text("tls_key").is_some(),
        ana_states: ana_states(machine, name),
    })
}

/// ANA states of the disks of a path, such as `nvme0c1n2`, by their last number: all paths of a namespace share it.
fn ana_states(machine: &Machine, name: &str) -> BTreeMap<u32, String> {
    let folder = format!("{CLASS}/{name}");
    let names = machine.list(&folder).unwrap_or_default();
    let disks = names.iter().filter(|name| name.starts_with("nvme") && name.contains('c'));
    let state = |disk: &String| {
        let (_, number) = disk.rsplit_once('n')?;
        let state = machine.read(&format!("{folder}/{disk}/ana_state")).ok()?;
        Some((number.parse().ok()?, state.trim().to_owned()))
    };
    disks.take(NAMESPACES_MAX).filter_map(state).collect()
}

/// The subsystems' policies.
pub(super) fn policies(machine: &Machine) -> Vec<PathPolicy> {
    let names = machine.list(SUBSYSTEMS).unwrap_or_default();
    let policy = |name: &String| {
        let text = |file: &str| {
            machine.read(&format!("{SUBSYSTEMS}/{name}/{file}")).ok().map(|text| text.trim().to_owned())
        };
        Some(PathPolicy { name: name.clone(), nqn: text("subsysnqn")?, policy: text("iopolicy")? })
    };
    names.iter().take(CONTROLLERS_MAX).filter_map(policy).collect()
}

#[cfg(test)]
mod tests {
    use topology::Recording;

    use super::*;

    #[test]
    fn controllers_and_policies_are_read() {
        let mut recording = Recording::default();
        for (name, transport, address) in [
            ("nvme10", "tcp", "traddr=10.0.0.2,trsvcid=4420,host_traddr=10.0.0.1,src_addr=10.0.0.1\n"),
            ("nvme2", "tcp", "traddr=fe80::1%eth0,trsvcid=4420\n"),
            ("nvme0", "pcie", ""),
        ] {
            let file = |file: &str| format!("{CLASS}/{name}/{file}");
            recording.file(&file("transport"), &format!("{transport}\n"));
            recording.file(&file("address"), address);
            recording.file(&file("state"), "connecting\n");
            recording.file(&file("subsysnqn"), "nqn.a\n");
            recording.file(&file("reconnect_delay"), "10\n");
        }
        recording.file(&format!("{CLASS}/nvme10/nvme0c10n3/ana_state"), "non-optimized\n");
        recording.file(&format!("{SUBSYSTEMS}/nvme-subsys0/subsysnqn"), "nqn.a\n");
        recording.file(&format!("{SUBSYSTEMS}/nvme-subsys0/iopolicy"), "numa\n");
        let machine = Machine::of_recording("a", recording);
        let found = controllers(&machine);
        assert_eq!(found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["nvme2", "nvme10"]);
        assert_eq!(found[0].target, Some("[fe80::1]:4420".parse().unwrap()));
        assert_eq!((found[0].source, found[1].source), (None, Some("10.0.0.1".parse().unwrap())));
        assert_eq!((found[1].state.as_str(), found[1].reconnect_delay_s), ("connecting", Some(10)));
        assert!(!found[1].has_tls && found[0].ana_states.is_empty());
        assert_eq!(found[1].ana_states, BTreeMap::from([(3, "non-optimized".to_owned())]));
        let found = policies(&machine);
        assert_eq!((found[0].name.as_str(), found[0].policy.as_str()), ("nvme-subsys0", "numa"));
    }
}
