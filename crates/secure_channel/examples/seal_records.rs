//! Seals data into a record of TLS 1.3 and opens it, without a connection:
//! `cargo run -p selvedge-secure-channel --example seal_records`. Real secrets come from a handshake.

use std::error::Error;

use secure_channel::{OVERHEAD_BYTES, Opened, Opener, Peer, RecordLimit, Sealer, Suite, TrafficSecret};

fn main() -> Result<(), Box<dyn Error>> {
    let suite = Suite::Aes128Gcm;
    let secret = TrafficSecret::new(suite, &vec![7; suite.hash().length()]);
    let secret = secret.ok_or("the secret has another length than the hash")?;
    let mut sealer = Sealer::new(&secret, RecordLimit::default());
    let mut opener = Opener::new(&secret, Peer::Host);

    let message = "a command";
    let mut record = vec![0; message.len() + OVERHEAD_BYTES];
    sealer.seal_from(message.as_bytes(), &mut record)?;
    println!("{} bytes of data in a record of {} bytes, by {suite}", message.len(), record.len());

    match opener.open(&mut record)? {
        Opened::Data { data, .. } => println!("opened: {}", String::from_utf8_lossy(&record[data])),
        other => println!("{other:?}"),
    }
    Ok(())
}
