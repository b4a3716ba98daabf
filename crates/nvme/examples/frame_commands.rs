//! Frames a command as a host does, and receives its bytes as a controller does, without a socket:
//! `cargo run -p selvedge-nvme --example frame_commands`.

use nvme::SubmissionEntry;
use nvme::tcp::{Chunk, DecodeError, Event, Initialize, PduType, Receiver, Role, Transmitter};

/// Opcode of Read.
const READ: u8 = 0x02;
/// Most bytes of data in a PDU to the controller.
const DATA_LENGTH_MAX: u32 = 128 << 10;

fn main() -> Result<(), DecodeError> {
    // Payloads would be of this type: the transmitter refers to them, and copies none.
    let mut transmitter = Transmitter::<Vec<u8>>::new(2);
    transmitter.initialize(&Initialize::new(PduType::InitializeRequest, 0, 0));
    transmitter.command(SubmissionEntry::new(READ, 1), None);
    let mut bytes = Vec::new();
    for chunk in transmitter.chunks() {
        match chunk {
            Chunk::Bytes(part) => bytes.extend_from_slice(part),
            Chunk::Payload { payload, start, end } => bytes.extend_from_slice(&payload[start..end]),
        }
    }
    println!("{} bytes", bytes.len());

    let mut receiver = Receiver::new(Role::Controller, DATA_LENGTH_MAX);
    let mut input = &bytes[..];
    while let Some(event) = receiver.next(&mut input)? {
        match event {
            Event::Initialize(_) => println!("the host opens the connection"),
            Event::Command { entry, data_length } => {
                let (opcode, nsid) = (entry.opcode, entry.nsid.get());
                println!("command {opcode:#04x} for namespace {nsid}, with {data_length} bytes of data");
            }
            other => println!("{other:?}"),
        }
    }
    Ok(())
}
