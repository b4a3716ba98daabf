//! Machines whose connection leaves by something else than a plain card, for the question of how many I/O queues make
//! sense there: eight processors each, and the kernel's initiator with a queue for each of them.

use super::shape::{Card, made};
use super::{controlled, eight};
use crate::{Interface, InterfaceKind, Topology};

/// The machines' names.
pub const STACKED: [&str; 10] =
    ["card", "sr-iov", "virtio-net", "bond", "vlan", "bridge", "macvlan", "tunnel", "veth", "loopback"];

/// The machine of this name. Its connection has the address 10.3.0.1.
pub fn stacked(name: &str) -> Option<Topology> {
    let nic = || card("eth0", 2, "mlx5_core", 4);
    let on = |kind, lower: &str, queues| Interface {
        lower: vec![lower.to_owned()],
        ..made("top0", 9, kind, queues)
    };
    let (interface, interfaces) = match name {
        "card" => ("eth0", vec![nic()]),
        "sr-iov" => ("eth0", vec![card("eth0", 2, "iavf", 2)]),
        "virtio-net" => ("eth0", vec![card("eth0", 2, "virtio_net", 4)]),
        "bond" => {
            let lower = vec!["eth0".to_owned(), "eth1".to_owned()];
            let bond = Interface { lower, ..made("top0", 9, InterfaceKind::Bond, 16) };
            ("top0", vec![nic(), card("eth1", 3, "mlx5_core", 6), bond])
        }
        "vlan" => ("top0", vec![nic(), on(InterfaceKind::Vlan, "eth0", 1)]),
        "bridge" => ("top0", vec![nic(), on(InterfaceKind::Bridge, "eth0", 1)]),
        "macvlan" => ("top0", vec![nic(), on(InterfaceKind::Virtual, "eth0", 1)]),
        "tunnel" => ("top0", vec![nic(), made("top0", 9, InterfaceKind::Tunnel, 1)]),
        "veth" => ("top0", vec![made("top0", 9, InterfaceKind::Veth, 2)]),
        "loopback" => ("lo", Vec::new()),
        _ => return None,
    };
    let interfaces = std::iter::once(super::loopback()).chain(interfaces).collect();
    Some(controlled(Topology { interfaces, ..eight(interface, 51) }))
}

/// A card with this number of queues, of twice as many possible.
fn card(name: &'static str, index: u32, driver: &'static str, queues: u32) -> Interface {
    let (bus_address, interrupt) = match index {
        2 => ("0000:5e:00.0", "eth0-TxRx-#"),
        _ => ("0000:5e:00.1", "eth1-TxRx-#"),
    };
    let card = Card {
        name,
        index,
        driver,
        bus_address,
        node: Some(0).filter(|_| driver != "virtio_net"),
        speed_mbps: Some(25_000),
        interrupt: if driver == "virtio_net" { "virtio2-input.#" } else { interrupt },
        irq_first: 40 + 10 * index,
        cpus: (0..queues).collect(),
        queues_max: 2 * queues,
        cpu_count: 8,
    };
    card.interface()
}
