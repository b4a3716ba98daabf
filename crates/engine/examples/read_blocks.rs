//! Connects to an NVMe/TCP target from userspace, lists its namespaces and prints the first bytes of one.
//!
//! ```text
//! cargo run -p selvedge-engine --example read_blocks -- 127.0.0.1:4420 nqn.2014-08.org.example:disk [nsid]
//! ```
//!
//! It needs no root and no kernel driver. A program that knows the namespace needs the last step
//! only: open a volume, and read and write at byte offsets.

use std::error::Error;
use std::net::SocketAddr;

use engine::initiator::{ConnectOptions, Controller, Volume};
use nvme::identify::ascii;

/// Bytes that are printed.
const SHOWN: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(nqn)) = (arguments.next(), arguments.next()) else {
        return Err("usage: read_blocks ADDRESS:PORT NQN [NSID]".into());
    };
    let address: SocketAddr = address.parse()?;

    // A controller is an association with a subsystem. It is kept alive until it is dropped, and then shut
    // down.
    let controller = Controller::connect(ConnectOptions::new(address, &nqn))?;
    let model = ascii(&controller.identify().model_number);
    println!("{model} at {address}, controller {}, {} I/O queues", controller.id(), controller.io_queues());

    let namespaces = controller.namespaces()?;
    for namespace in &namespaces {
        let (blocks, block_size) = (namespace.blocks, namespace.block_size);
        println!("namespace {}: {blocks} blocks of {block_size} bytes", namespace.nsid);
    }
    let nsid = match arguments.next() {
        Some(nsid) => nsid.parse()?,
        None => namespaces.first().ok_or("the subsystem has no namespaces")?.nsid,
    };

    // Offsets and lengths are bytes, in whole blocks. A read of any length is split over all paths; here is one.
    let volume = Volume::open(&[address], &nqn, nsid)?;
    let mut block = vec![0; volume.block_size() as usize];
    volume.read_at(0, &mut block)?;
    for (row, bytes) in block[..SHOWN].chunks(16).enumerate() {
        let hexadecimal: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{:08x}  {}", row * 16, hexadecimal.join(" "));
    }
    Ok(())
}
