//! An NBD client as it is handed over to another process: data alone, as it is written and read.

use std::io;

use serde::{Deserialize, Serialize};

use crate::limits::HANDED_RECEIVED_INLINE_BYTES_MAX;
use crate::machine::{Descriptor, file_of};

/// Extension of the format: what was received from clients may be in files.
pub const RECEIVED_IN_FILES: &str = "received-in-files";

/// All clients of a server, between two of their requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedServer {
    /// The disks by their names, as clients' states refer to them.
    pub disks: Vec<HandedDisk>,
    /// The clients, in the order of their descriptors.
    pub clients: Vec<HandedClient>,
}

/// Properties of a disk that clients know, and that must not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedDisk {
    /// Name of the disk.
    pub name: String,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedClient {
    /// Address or name of the client, for the log.
    pub peer: String,
    /// Stage of the connection.
    pub stage: HandedStage,
    /// Bytes received and not processed. In the middle of a write they begin with that write's
    /// data.
    #[serde(with = "crate::hex_bytes")]
    pub received: Vec<u8>,
    /// Number of these bytes where they are in a file instead, whose descriptor is the last of the client's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub received_bytes: usize,
    /// Bytes that it has not been sent yet of the answers to what it has asked for. If there are some, they are in a file whose
    /// descriptor follows the socket.
    pub unsent_bytes: usize,
    /// TLS, if it uses that.
    pub stream: Option<HandedStream>,
}

impl HandedServer {
    /// Puts what was received from clients into files, whose descriptors are added to each client's: the data of a crowd that has
    /// begun to write makes a word longer than any may be. Only for a process that knows `RECEIVED_IN_FILES`.
    ///
    /// # Errors
    /// When the system gives no file.
    pub fn received_into_files(&mut self, descriptors: Vec<Descriptor>) -> io::Result<Vec<Descriptor>> {
        let (mut own, mut all) = (descriptors.into_iter(), Vec::new());
        for client in &mut self.clients {
            all.extend(own.by_ref().take(client.descriptors()));
            if client.received.len() > HANDED_RECEIVED_INLINE_BYTES_MAX {
                all.push(file_of(&client.received)?);
                client.received_bytes = client.received.len();
                client.received = Vec::new();
            }
        }
        all.extend(own);
        Ok(all)
    }
}

impl HandedClient {
    /// Number of its descriptors: the socket, and files.
    pub(crate) fn descriptors(&self) -> usize {
        1 + usize::from(self.unsent_bytes > 0) + usize::from(self.received_bytes > 0)
    }
}

const fn is_zero(bytes: &usize) -> bool {
    *bytes == 0
}

/// Stage of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandedStage {
    /// No disk is chosen yet.
    Handshake {
        /// The client's flags, once they have come.
        client_flags: Option<u32>,
        /// TLS has begun.
        is_secure: bool,
        /// The form of replies.
        headers: HandedHeaders,
        /// The disk whose block status the client has chosen to ask for.
        allocation_of: Option<usize>,
    },
    /// A disk is chosen.
    Transmission {
        /// Index of the disk.
        disk: usize,
        /// The form of replies.
        headers: HandedHeaders,
        /// True if the client may ask for the status of blocks.
        has_allocation: bool,
        /// Part of a request that is being received.
        incoming: HandedIncoming,
    },
}

/// The form of requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandedHeaders {
    /// Replies of one piece.
    Simple,
    /// Replies in chunks.
    Structured,
    /// Replies in chunks, and 64 bits for lengths.
    Extended,
}

/// Part of a request that is being received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandedIncoming {
    /// No request: a header comes next.
    Nothing,
    /// Data of a request that was refused.
    Refused {
        /// Bytes that are still to come.
        left: u32,
    },
    /// Data of a write.
    Write(HandedWrite),
}

/// A write of which not all data has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedWrite {
    /// By which its reply is known.
    pub cookie: u64,
    /// Offset on the disk.
    pub offset: u64,
    /// Bytes of it.
    pub length: u32,
    /// Bytes of it that are written already, from the first on.
    pub written: u32,
    /// Why it has failed already, as NBD's number.
    pub error: Option<u32>,
    /// True if it has to be durable before it is answered.
    pub is_durable: bool,
}

/// TLS between two records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedStream {
    /// The cipher suite, by its number in TLS.
    pub suite: u16,
    /// The key of each direction.
    pub sending: HandedKey,
    /// The same for what comes.
    pub receiving: HandedKey,
    /// Bytes of an incomplete record.
    #[serde(with = "crate::hex_bytes")]
    pub begun: Vec<u8>,
    /// Number of key changes by the client when it was last asked for one.
    pub asked: Option<u64>,
}

/// The key of one direction.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedKey {
    /// The traffic secret.
    #[serde(with = "crate::hex_bytes")]
    pub secret: Vec<u8>,
    /// Records that it was used for.
    pub records: u64,
    /// Number of key changes.
    pub updates: u64,
}

/// Without the secret.
impl std::fmt::Debug for HandedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HandedKey({} records, {} updates)", self.records, self.updates)
    }
}

impl Drop for HandedKey {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.secret);
    }
}
