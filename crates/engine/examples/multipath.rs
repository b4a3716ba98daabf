//! Writes and reads back a block over several paths, again and again, and tells how the paths are. Take paths away while it
//! runs: it goes on over the others.
//!
//! ```text
//! cargo run -p selvedge-engine --example multipath -- NQN NSID ADDRESS:PORT ADDRESS:PORT...
//! ```
//!
//! It overwrites the first block of the namespace.

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use engine::initiator::Volume;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);
/// Duration of the run.
const DURATION: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(nqn), Some(nsid)) = (arguments.next(), arguments.next()) else {
        return Err("usage: multipath NQN NSID ADDRESS:PORT...".into());
    };
    let addresses = arguments.map(|address| address.parse()).collect::<Result<Vec<SocketAddr>, _>>()?;
    let volume = Volume::open(&addresses, &nqn, nsid.parse::<u32>()?)?;
    let (began, mut printed, mut count) = (Instant::now(), Instant::now(), 0_u64);
    let mut block = vec![0; volume.block_size() as usize];
    while began.elapsed() < DURATION {
        count += 1;
        block[..8].copy_from_slice(&count.to_le_bytes());
        // No error for a path that is lost: the write is sent over another one.
        volume.write_at(0, &block)?;
        let mut found = vec![0; block.len()];
        volume.read_at(0, &mut found)?;
        assert_eq!(found, block, "a block that was acknowledged is there");
        if printed.elapsed() >= INTERVAL {
            printed = Instant::now();
            let status = volume.status();
            let paths: Vec<_> =
                status.iter().map(|path| format!("{} {:?}", path.address, path.state)).collect();
            println!("{count} blocks; {}", paths.join(", "));
        }
    }
    Ok(())
}
