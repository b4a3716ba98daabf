//! NVMe/TCP as two state machines and the PDUs between them (TCP Transport Specification 1.1).
//! It moves no bytes itself: an owner reads the socket into `Receiver` and writes what `Transmitter` holds.

mod decode_error;
pub mod digest;
mod handshake;
mod pdu;
mod receive;
mod transfer;
mod transmit;

pub use decode_error::DecodeError;
pub use handshake::{Digests, Negotiated, negotiate, settle};
pub use pdu::{
    CapsuleCommand, CapsuleResponse, CommonHeader, DataPdu, FatalError, Initialize, PduType, ReadyToTransfer,
    Terminate, flags,
};
pub use receive::{Event, Receiver, Role};
pub use transfer::{Transfer, TransferError};
pub use transmit::{Chunk, Transmitter};
