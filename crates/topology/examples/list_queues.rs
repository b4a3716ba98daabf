//! Lists the network interfaces of this machine with their queues, and connections of NVMe/TCP queues:
//! `cargo run -p selvedge-topology --example list_queues`. Nothing is changed; without root some facts are missing.

use std::error::Error;

use topology::{Machine, observe};

fn main() -> Result<(), Box<dyn Error>> {
    let topology = observe(&Machine::live())?;
    for interface in &topology.interfaces {
        println!("{}: {} receive queues", interface.name, interface.receive.len());
    }
    for flow in &topology.flows {
        println!("{}: {} to {}", flow.controller, flow.local, flow.peer);
    }
    for shortfall in &topology.shortfalls {
        println!("not seen: {}: {}", shortfall.what, shortfall.reason);
    }
    Ok(())
}
