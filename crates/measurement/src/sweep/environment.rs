//! Environment of a sweep: processor, system, network, relevant settings. The module only reads;
//! unreadable values are left out. The target's own data is added by the modules that connect to it.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use topology::{Machine, SocketState};

use crate::bench::matching::own_address;
use crate::report::document::FactGroup;

/// Settings of the system that decide how TCP carries storage traffic.
const SYSCTLS: [&str; 14] = [
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.netdev_budget",
    "net.core.default_qdisc",
    "net.core.somaxconn",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
    "net.mptcp.enabled",
    "vm.dirty_ratio",
];

/// Process identifier of the system's service manager.
const SERVICE_MANAGER: u32 = 1;

/// Time that all processors together have spent, since the system started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineTime {
    busy: u64,
    interrupts: u64,
    stolen: u64,
    all: u64,
}

/// Load of a machine's processors, as shares of their total time, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Busy {
    pub all: f64,
    /// In interrupts, and in what the kernel does right after them.
    pub(crate) interrupts: f64,
    /// Taken by a hypervisor for other machines.
    pub stolen: f64,
    /// Time of all processors together, in seconds.
    pub seconds: f64,
}

impl Busy {
    /// Share of the programs besides those whose processor time is `known`. The kernel's own threads are among them.
    pub fn foreign(&self, known: Duration) -> f64 {
        (self.all - self.interrupts - self.stolen - known.as_secs_f64() / self.seconds).max(0.0)
    }
}

/// This machine, and its way to the targets.
pub fn facts(targets: &[SocketAddr]) -> Vec<FactGroup> {
    let mut groups = vec![group("Initiator", machine())];
    for (number, target) in targets.iter().enumerate() {
        let title = if targets.len() == 1 { "Network".to_owned() } else { format!("Path {}", number + 1) };
        groups.push(group(&title, network(*target)));
    }
    groups.push(group("Settings of the initiator's system", settings()));
    groups
}

fn group(title: &str, facts: Vec<(String, String)>) -> FactGroup {
    FactGroup { title: title.to_owned(), facts }
}

fn fact(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn machine() -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    if let Some(model) = field(&cpuinfo, "model name") {
        facts.push(fact("processor", model));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    facts.push(fact("processors for this program", processors.to_string()));
    if field(&cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")) {
        facts.push(fact("virtual machine", "yes"));
    }
    if let Some(governor) = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        facts.push(fact("frequency governor", governor));
    }
    let memory = read("/proc/meminfo").and_then(|text| field(&text, "MemTotal"));
    if let Some(kib) = memory.and_then(|memory| memory.split(' ').next()?.parse::<u64>().ok()) {
        // Whole gibibytes: how much the kernel keeps for itself says nothing.
        facts.push(fact("memory", format!("{} GiB", kib.div_ceil(1 << 20))));
    }
    if let Some(release) = read("/proc/sys/kernel/osrelease") {
        facts.push(fact("kernel", release));
    }
    let release = read("/etc/os-release").unwrap_or_default();
    if let Some(name) = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")) {
        facts.push(fact("system", name.trim_matches('"')));
    }
    facts.push(fact("selvedge", env!("CARGO_PKG_VERSION")));
    facts
}

fn network(target: SocketAddr) -> Vec<(String, String)> {
    let mut facts = vec![fact("target's address", target.to_string())];
    let Some(own) = own_address(target) else { return facts };
    facts.push(fact("own address", own.to_string()));
    let interface = if is_here(target) { Some("lo".to_owned()) } else { interface_to(target.ip()) };
    let Some(interface) = interface.filter(|name| !name.contains('/')) else { return facts };
    let attribute = |name: &str| read(&format!("/sys/class/net/{interface}/{name}"));
    facts.push(fact("interface", interface.clone()));
    let driver = fs::read_link(format!("/sys/class/net/{interface}/device/driver")).ok();
    let driver = driver.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    for (name, value) in [
        ("driver", driver),
        ("speed", link_bits_per_second(&interface).map(|bits| format!("{} Gbit/s", bits as f64 / 1e9))),
        ("MTU", attribute("mtu")),
        ("NUMA node", attribute("device/numa_node").filter(|node| node != "-1")),
    ] {
        facts.extend(value.map(|value| fact(name, value)));
    }
    let queues = |kind: &str| {
        let entries = fs::read_dir(format!("/sys/class/net/{interface}/queues")).ok()?;
        Some(entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(kind)).count())
    };
    if let (Some(receive), Some(send)) = (queues("rx-"), queues("tx-")) {
        facts.push(fact("receive and send queues", format!("{receive} and {send}")));
    }
    facts
}

fn settings() -> Vec<(String, String)> {
    let value = |name: &str| read(&format!("/proc/sys/{}", name.replace('.', "/")));
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    SYSCTLS.iter().filter_map(|name| Some(fact(name, words(value(name)?)))).collect()
}

/// True if an address is this machine's own.
pub fn is_here(target: SocketAddr) -> bool {
    target.ip().is_loopback() || own_address(target) == Some(target.ip())
}

/// Process on this machine that listens on one of these addresses, where the system tells.
pub fn listener(addresses: &[SocketAddr]) -> Option<u32> {
    let sockets = Machine::live().sockets().ok()?.sockets;
    let mut listening = sockets.iter().filter(|socket| socket.state == SocketState::Listen);
    let serves = |local: SocketAddr| {
        let is_any = local.ip().is_unspecified();
        addresses
            .iter()
            .any(|address| address.port() == local.port() && (is_any || address.ip() == local.ip()))
    };
    // A service manager has the sockets of services that it starts open, too (selvedge.socket), and is the first that is found.
    let is_target = |pid: &u32| *pid != std::process::id() && *pid != SERVICE_MANAGER;
    listening.find(|socket| serves(socket.local))?.pid.filter(is_target)
}

/// The interface of the route to `target`, as `ip` tells it.
fn interface_to(target: IpAddr) -> Option<String> {
    let output = Command::new("ip").args(["-j", "route", "get", &target.to_string()]).output().ok()?;
    let routes: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(routes.get(0)?.get("dev")?.as_str()?.to_owned())
}

/// Bits a second of all links to `targets`, if each says. One that leads to several counts once.
pub fn links_to(targets: &[SocketAddr]) -> Option<u64> {
    let interface = |target: &SocketAddr| {
        if target.ip().is_loopback() { None } else { interface_to(target.ip()) }
    };
    let interfaces: Option<BTreeSet<String>> = targets.iter().map(interface).collect();
    interfaces?.iter().map(|interface| link_bits_per_second(interface)).sum()
}

fn link_bits_per_second(interface: &str) -> Option<u64> {
    // Virtual links say -1, or a number without meaning.
    let virtual_link = fs::metadata(format!("/sys/class/net/{interface}/device")).is_err();
    let megabits: i64 = read(&format!("/sys/class/net/{interface}/speed"))?.parse().ok()?;
    u64::try_from(megabits)
        .ok()
        .filter(|megabits| *megabits > 0 && !virtual_link)
        .map(|megabits| megabits * 1_000_000)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The first `name : value` line's value.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

impl MachineTime {
    /// Until now; nothing where the kernel does not say.
    pub fn now() -> Option<Self> {
        Self::of(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn of(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|tick| tick.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; what guests used is in user and nice (proc_stat(5)).
        let all: u64 = ticks.iter().take(8).sum();
        let idle = ticks.get(3)?.saturating_add(*ticks.get(4)?);
        let interrupts = ticks.get(5).unwrap_or(&0).saturating_add(*ticks.get(6).unwrap_or(&0));
        let stolen = *ticks.get(7).unwrap_or(&0);
        Some(Self { busy: all.saturating_sub(idle), interrupts, stolen, all })
    }

    /// Returns the load since this sample. Time stolen by a hypervisor counts as busy.
    pub fn busy_until(self, later: Self) -> Option<Busy> {
        let all = later.all.checked_sub(self.all).filter(|all| *all > 0)? as f64;
        let share = |of: fn(&Self) -> u64| of(&later).saturating_sub(of(&self)) as f64 / all;
        Some(Busy {
            all: share(|time| time.busy),
            interrupts: share(|time| time.interrupts),
            stolen: share(|time| time.stolen),
            seconds: all / rustix::param::clock_ticks_per_second() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_not_idle() {
        let before = MachineTime::of("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2\n").unwrap();
        let until = |text: &str| before.busy_until(MachineTime::of(text).unwrap()).unwrap();
        let busy = until("cpu  150 0 120 810 20 0 0 0 7 0\n");
        assert_eq!((busy.all, busy.interrupts, busy.stolen), (0.7, 0.0, 0.0));
        let busy = until("cpu  100 0 100 870 0 10 20 0 0 0\n");
        assert_eq!((busy.all, busy.interrupts, busy.stolen), (0.3, 0.3, 0.0));
        assert_eq!(before.busy_until(before), None);
        assert_eq!(MachineTime::of("intr 5"), None);
    }

    #[test]
    fn foreign_load_is_neither_known_programs_nor_interrupts_nor_stolen() {
        let before = MachineTime::of("cpu  0 0 0 0 0 0 0 0 0 0\n").unwrap();
        let busy =
            before.busy_until(MachineTime::of("cpu  400 0 200 100 0 50 50 200 0 0\n").unwrap()).unwrap();
        assert_eq!((busy.all, busy.interrupts, busy.stolen), (0.9, 0.1, 0.2));
        assert!((busy.foreign(Duration::ZERO) - 0.6).abs() < 1e-9);
        let half = Duration::from_secs_f64(busy.seconds / 2.0);
        assert!((busy.foreign(half) - 0.1).abs() < 1e-9);
        assert_eq!(busy.foreign(half * 2), 0.0, "ticks may count more than there is");
    }

    #[test]
    fn this_machine_says_who_it_is() {
        let groups = facts(&["127.0.0.1:4420".parse().unwrap()]);
        let of = |title: &str| &groups.iter().find(|group| group.title == title).unwrap().facts;
        assert!(of("Initiator").iter().any(|(name, _)| name == "kernel"));
        assert!(of("Network").contains(&fact("interface", "lo")));
        assert!(!of("Settings of the initiator's system").is_empty());
        assert!(groups.iter().flat_map(|group| &group.facts).all(|(_, value)| !value.contains('\n')));
        assert_eq!(links_to(&["127.0.0.1:4420".parse().unwrap()]), None);
    }
}
