//! Serves memory as a namespace over NVMe/TCP until its standard input ends.
//!
//! ```text
//! cargo run -p selvedge-engine --example serve_memory -- [ADDRESS:PORT]...
//! ```
//!
//! Each address is a port of the same subsystem, and so a path to the same namespace: try `multipath` with all of them.

use std::error::Error;
use std::net::SocketAddr;

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
use uuid::Uuid;

const NQN: &str = "nqn.2014-08.org.example:memory";
const SIZE: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for argument in std::env::args().skip(1) {
        addresses.push(argument.parse()?);
    }
    if addresses.is_empty() {
        // Two ports that the system chooses.
        addresses = vec![([127, 0, 0, 1], 0).into(); 2];
    }
    let mut namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: SIZE }, 4096);
    // Hosts know the namespace by it on all paths.
    namespace.uuid = Some(Uuid::new_v4());
    let target = Target::start(&TargetConfig {
        fabric: FabricConfig {
            ports: (1..).zip(addresses).map(|(id, address)| PortConfig::new(id, address)).collect(),
            subsystems: vec![SubsystemConfig::new(NQN, "1", "Selvedge").with(vec![namespace])],
            ..FabricConfig::default()
        },
        ..TargetConfig::default()
    })?;
    for address in target.ports() {
        println!("{NQN} is served at {address}");
    }
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    target.shutdown();
    Ok(())
}
