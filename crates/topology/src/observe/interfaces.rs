//! Network interfaces with their queues, from sysfs and from ethtool's answers.

use std::collections::BTreeSet;
use std::io;

use super::ObserveError;
use super::interrupts::{Interrupts, Serves};
use super::reader::{Reader, numbered};
use crate::limits::{INTERFACES_MAX, NIC_QUEUES_MAX};
use crate::machine::EthtoolAnswers;
use crate::{CpuSet, Interface, InterfaceKind, ReceiveQueue, TransmitQueue};

const CLASS: &str = "sys/class/net";
/// The hardware type of the loopback (`ARPHRD_LOOPBACK`) and of Ethernet.
const LOOPBACK: u32 = 772;
const ETHERNET: u32 = 1;
/// Hardware types of tunnels: without a link layer (WireGuard, TUN), PPP, IP in IP (and in IPv6), SIT, GRE (over IPv6).
const TUNNELS: [u32; 7] = [65_534, 512, 768, 769, 776, 778, 823];
/// Device types of tunnels that look like Ethernet.
const ETHERNET_TUNNELS: [&str; 4] = ["vxlan", "geneve", "wireguard", "gtp"];
/// The flag of an interface that is up (`IFF_UP`).
const UP: u32 = 1;

/// Reads all, in order of index.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Interface>, ObserveError> {
    read_where(reader, |_| true)
}

/// Reads those with these names, and what they stand on.
pub(super) fn read_below(
    reader: &mut Reader<'_>,
    names: BTreeSet<String>,
) -> Result<Vec<Interface>, ObserveError> {
    let (mut wanted, mut new) = (BTreeSet::new(), Vec::from_iter(names));
    while let Some(name) = new.pop() {
        // They do not stand on one another in a circle, but a recording may say so.
        if !wanted.contains(&name) {
            new.extend(lower(reader, &name));
            wanted.insert(name);
        }
    }
    read_where(reader, |name| wanted.contains(name))
}

fn read_where(
    reader: &mut Reader<'_>,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Interface>, ObserveError> {
    let mut names = Vec::new();
    for name in reader.list(CLASS) {
        // Beside interfaces there are files there, such as bonding_masters.
        if let Some(index) = reader.value(&format!("{CLASS}/{name}/ifindex"), "a number")? {
            names.push((index, name));
        }
    }
    let mut interrupts = Interrupts::read(reader, names.iter().map(|(_, name)| name.clone()).collect())?;
    names.retain(|(_, name)| is_wanted(name));
    names.sort();
    if names.len() > INTERFACES_MAX {
        let reason = format!("there are {}, of which the first {INTERFACES_MAX} are looked at", names.len());
        reader.shortfall("network interfaces", &reason, false);
        names.truncate(INTERFACES_MAX);
    }
    let mut interfaces = Vec::new();
    for (index, name) in names {
        interfaces.push(interface(reader, &mut interrupts, index, name)?);
    }
    Ok(interfaces)
}

fn interface(
    reader: &mut Reader<'_>,
    interrupts: &mut Interrupts,
    index: u32,
    name: String,
) -> Result<Interface, ObserveError> {
    let answers = reader.machine.ethtool(&name)?;
    reader.refusals(&answers.refusals, |question| format!("ethtool {question} of {name}"));
    let path = |file: &str| format!("{CLASS}/{name}/{file}");
    let device = device(reader, &name);
    let lower = lower(reader, &name);
    let kind = kind(reader, &name, index, device.is_some(), &lower, &answers)?;
    let speed_mbps = optional(reader, &path("speed"), "a number of Mbit/s or -1")?;
    let node: Option<i32> = reader.value(&path("device/numa_node"), "a number of a node or -1")?;
    let driver = reader.link(&path("device/driver")).and_then(|link| last(&link));
    let mut interface = Interface {
        index,
        kind,
        is_up: is_up(reader, &name)?,
        mtu_bytes: reader.value(&path("mtu"), "a number of bytes")?.unwrap_or(0),
        speed_mbps: speed_mbps.and_then(|speed: i64| u32::try_from(speed).ok()).filter(|speed| *speed != 0),
        node: node.and_then(|node| u16::try_from(node).ok()),
        driver: driver.or(answers.driver.filter(|_| kind == InterfaceKind::Device)),
        bus_address: device.as_ref().and_then(|device| device.bus_address.clone()),
        channels: answers.channels,
        rss: answers.rss,
        ntuple: answers.ntuple,
        receive: receive_queues(reader, &name)?,
        transmit: transmit_queues(reader, &name)?,
        lower,
        name,
    };
    if let Some(device) = device {
        add_interrupts(reader, interrupts, &device, &mut interface)?;
    }
    Ok(interface)
}

/// Names of the interfaces that one stands on.
fn lower(reader: &Reader<'_>, name: &str) -> Vec<String> {
    let lower = reader.machine.list_where(&format!("{CLASS}/{name}"), |file| file.starts_with("lower_"));
    lower.iter().filter_map(|file| file.strip_prefix("lower_")).map(str::to_owned).collect()
}

fn is_up(reader: &mut Reader<'_>, name: &str) -> Result<bool, ObserveError> {
    let path = format!("{CLASS}/{name}/flags");
    let Some(text) = reader.text(&path) else { return Ok(false) };
    let flags = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let flags = flags.ok_or_else(|| reader.nonsense(&path, &text, "flags in hexadecimal, as in 0x1003"))?;
    // The kernel refuses to tell the carrier of one that is down.
    let carrier: Option<u32> = optional(reader, &format!("{CLASS}/{name}/carrier"), "0 or 1")?;
    Ok(flags & UP != 0 && carrier == Some(1))
}

/// A value of a file that a driver may refuse.
fn optional<T: std::str::FromStr>(
    reader: &mut Reader<'_>,
    path: &str,
    expected: &str,
) -> Result<Option<T>, ObserveError> {
    let Some(text) = reader.optional_text(path) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| reader.nonsense(path, &text, expected))
}

/// The device of an interface.
struct Device {
    /// Address on the bus.
    bus_address: Option<String>,
    /// Folders that may list its interrupts, the likeliest first.
    interrupts: Vec<String>,
}

/// Finds the device: by its link, else by where the interface itself stands (one that was moved to another network
/// namespace has no link).
fn device(reader: &mut Reader<'_>, name: &str) -> Option<Device> {
    let path = format!("{CLASS}/{name}/device");
    let link = reader.link(&path);
    let own = reader.link(&format!("{CLASS}/{name}"));
    let own = own.filter(|target| target.contains("/devices/") && !target.contains("/devices/virtual/"));
    if link.is_none() && own.is_none() && !reader.has_directory(&path) {
        return None;
    }
    let own_parent = own.as_deref().and_then(|target| target.split_once("/net/")).map(|(parent, _)| parent);
    let device = link.as_deref().or(own_parent).unwrap_or_default();
    let device_name = last(device);
    let mut interrupts = vec![format!("{path}/msi_irqs")];
    let mut bus_address = pci_address(own_parent.unwrap_or(device)).or_else(|| pci_address(device));
    if let Some(virtio) = device_name.as_deref().filter(|name| numbered(name, "virtio").is_some()) {
        // A virtio device stands on another, whose interrupts it has.
        let at = reader.link(&format!("sys/bus/virtio/devices/{virtio}"));
        bus_address = bus_address.or_else(|| at.as_deref().and_then(pci_address));
    }
    if let Some(address) = &bus_address {
        interrupts.push(format!("sys/bus/pci/devices/{address}/msi_irqs"));
    }
    Some(Device { bus_address: bus_address.or(device_name), interrupts })
}

/// The last part of a path that is an address on a PCI bus, as in `0000:3b:00.0`.
fn pci_address(path: &str) -> Option<String> {
    let is_address = |part: &&str| {
        let digits: Vec<&str> = part.split([':', '.']).collect();
        let lengths: Vec<usize> = digits.iter().map(|digits| digits.len()).collect();
        lengths.first().is_some_and(|domain| *domain >= 4)
            && lengths[1..] == [2, 2, 1]
            && digits.iter().all(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    path.split('/').rfind(is_address).map(str::to_owned)
}

/// The last part of a path.
fn last(path: &str) -> Option<String> {
    path.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

fn kind(
    reader: &mut Reader<'_>,
    name: &str,
    index: u32,
    has_device: bool,
    lower: &[String],
    answers: &EthtoolAnswers,
) -> Result<InterfaceKind, ObserveError> {
    let path = |file: &str| format!("{CLASS}/{name}/{file}");
    let hardware: Option<u32> = reader.value(&path("type"), "a number of a hardware type")?;
    if hardware == Some(LOOPBACK) {
        return Ok(InterfaceKind::Loopback);
    }
    let event = reader.text(&path("uevent")).unwrap_or_default();
    let device_type = event.lines().find_map(|line| line.strip_prefix("DEVTYPE="));
    let is_vlan = device_type == Some("vlan") || reader.text(&format!("proc/net/vlan/{name}")).is_some();
    if is_vlan {
        return Ok(InterfaceKind::Vlan);
    }
    if reader.has_directory(&path("bonding")) {
        return Ok(InterfaceKind::Bond);
    }
    if reader.has_directory(&path("bridge")) {
        return Ok(InterfaceKind::Bridge);
    }
    if has_device {
        return Ok(InterfaceKind::Device);
    }
    let is_tunnel = hardware.is_some_and(|hardware| TUNNELS.contains(&hardware));
    if is_tunnel || device_type.is_some_and(|name| ETHERNET_TUNNELS.contains(&name)) {
        return Ok(InterfaceKind::Tunnel);
    }
    let link: Option<u32> = reader.value(&path("iflink"), "an index of an interface")?;
    let is_paired = link.is_some_and(|link| link != 0 && link != index);
    let looks_so = is_paired && lower.is_empty() && hardware == Some(ETHERNET) && device_type.is_none();
    let is_veth = answers.driver.as_deref().map_or(looks_so, |driver| driver == "veth");
    Ok(if is_veth { InterfaceKind::Veth } else { InterfaceKind::Virtual })
}

/// Numbers of the queues of one direction, in order.
fn queue_numbers(reader: &mut Reader<'_>, name: &str, prefix: &str) -> Vec<u32> {
    let names = reader.list(&format!("{CLASS}/{name}/queues"));
    let mut numbers: Vec<u32> = names.iter().filter_map(|queue| numbered(queue, prefix)).collect();
    numbers.sort_unstable();
    if numbers.len() > NIC_QUEUES_MAX {
        let what = format!("queues {prefix} of {name}");
        let reason = format!("there are {}, of which {NIC_QUEUES_MAX} are looked at", numbers.len());
        reader.shortfall(&what, &reason, false);
        numbers.truncate(NIC_QUEUES_MAX);
    }
    numbers
}

fn receive_queues(reader: &mut Reader<'_>, name: &str) -> Result<Vec<ReceiveQueue>, ObserveError> {
    let mut queues = Vec::new();
    for index in queue_numbers(reader, name, "rx-") {
        let path = |file: &str| format!("{CLASS}/{name}/queues/rx-{index}/{file}");
        let rps = mask(reader, &path("rps_cpus"))?.unwrap_or_default();
        let rps_flows = optional(reader, &path("rps_flow_cnt"), "a number of flows")?.unwrap_or(0);
        queues.push(ReceiveQueue { index, interrupt: None, rps, rps_flows });
    }
    Ok(queues)
}

fn transmit_queues(reader: &mut Reader<'_>, name: &str) -> Result<Vec<TransmitQueue>, ObserveError> {
    let mut queues = Vec::new();
    for index in queue_numbers(reader, name, "tx-") {
        // The kernel refuses it for an interface with one queue.
        let xps = mask(reader, &format!("{CLASS}/{name}/queues/tx-{index}/xps_cpus"))?;
        queues.push(TransmitQueue { index, interrupt: None, xps });
    }
    Ok(queues)
}

fn mask(reader: &mut Reader<'_>, path: &str) -> Result<Option<CpuSet>, ObserveError> {
    let Some(text) = reader.optional_text(path) else { return Ok(None) };
    let parsed = CpuSet::parse_mask(&text);
    parsed.map(Some).map_err(|_| reader.nonsense(path, &text, "a mask of CPUs, as in ff,00000001"))
}

/// Gives the queues of an interface their interrupts.
fn add_interrupts(
    reader: &mut Reader<'_>,
    interrupts: &mut Interrupts,
    device: &Device,
    interface: &mut Interface,
) -> Result<(), ObserveError> {
    let Some(numbers) = interrupt_numbers(reader, device)? else {
        let what = format!("interrupts of {}", interface.name);
        reader.shortfall(&what, "its device lists none (msi_irqs)", false);
        return Ok(());
    };
    let found = interrupts.of_queues(reader, &interface.name, &numbers)?;
    for (serves, queue, interrupt) in found {
        if serves != Serves::Transmit {
            let receive = interface.receive.iter_mut().find(|receive| receive.index == queue);
            receive.into_iter().for_each(|receive| receive.interrupt = Some(interrupt.clone()));
        }
        if serves != Serves::Receive {
            let transmit = interface.transmit.iter_mut().find(|transmit| transmit.index == queue);
            transmit.into_iter().for_each(|transmit| transmit.interrupt = Some(interrupt.clone()));
        }
    }
    Ok(())
}

fn interrupt_numbers(reader: &mut Reader<'_>, device: &Device) -> Result<Option<Vec<u32>>, ObserveError> {
    for path in &device.interrupts {
        let names = match reader.machine.list(path) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => continue,
            _ => reader.list(path),
        };
        let mut numbers = Vec::new();
        for name in &names {
            let number = name.parse().map_err(|_| reader.nonsense(path, name, "a number of an interrupt"))?;
            numbers.push(number);
        }
        numbers.sort_unstable();
        return Ok(Some(numbers));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_on_the_bus_are_the_last_in_a_path() {
        let found = |path: &str| pci_address(path);
        assert_eq!(found("../../../0000:3b:00.0").as_deref(), Some("0000:3b:00.0"));
        let path = "../../devices/pci0000:00/0000:00:01.0/0000:00:03.0/virtio2";
        assert_eq!(found(path).as_deref(), Some("0000:00:03.0"));
        assert_eq!(found("../../devices/pci0000:00"), None);
        assert_eq!(found("../../1-1:1.0"), None);
        assert_eq!(last("../../../drivers/mlx5_core").as_deref(), Some("mlx5_core"));
    }
}
