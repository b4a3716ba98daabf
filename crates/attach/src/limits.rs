//! Every limit of attached disks, with its reason.

/// Clients of one thread: as many as a machine has processors whose kernel gives each a connection, for some disks.
pub const CLIENTS_PER_THREAD_MAX: usize = 128;
/// Requests of one client that are not answered. The kernel's client has 128 per connection, others fewer.
pub const CLIENT_REQUESTS_MAX: usize = 256;
/// Commands of one client that a target has not answered: a quarter of what a thread may have, so that others find room.
pub const CLIENT_COMMANDS_MAX: usize = 256;
/// Commands that one thread has outstanding; requests wait for room.
pub const THREAD_COMMANDS_MAX: usize = 1024;
/// Commands of one request that are outstanding: one that trims a whole disk leaves room for the client's others.
pub const REQUEST_COMMANDS_MAX: usize = 32;
/// Bytes of buffers that one client holds, until its data has been written, or its replies are sent. One request of the
/// greatest length always fits.
pub const CLIENT_BUFFER_BYTES_MAX: usize = 64 << 20;
/// Bytes of data of one command: enough to keep a link busy, few enough that a large request uses all paths.
pub const PIECE_BYTES: u64 = 256 << 10;
/// Replies of one client that are not sent. One that does not read them is not served until it does.
pub const CLIENT_REPLIES_MAX: usize = 1024;
/// Bytes that a client's requests are received into: all that 32 writes of 4 KiB have.
pub const INPUT_BYTES: usize = 144 << 10;
/// Times that one client is received from before others have their turn.
pub const RECEIVES_PER_TURN: usize = 16;
/// Connections that are accepted before clients have their turn.
pub const ACCEPTS_PER_TURN: usize = 32;
/// How long requests that were received may take when a server ends, in milliseconds; where no path is left they would
/// keep it for as long as a path may come back.
pub const END_TIMEOUT_MS: u64 = 5_000;

const _: () = {
    assert!(CLIENT_COMMANDS_MAX < THREAD_COMMANDS_MAX);
    assert!(CLIENT_BUFFER_BYTES_MAX >= 2 * nbd::limits::PAYLOAD_BYTES_MAX as usize);
    assert!(INPUT_BYTES > 16 + nbd::limits::OPTION_BYTES_MAX && INPUT_BYTES > nbd::REQUEST_BYTES_MAX);
    assert!(PIECE_BYTES <= engine::limits::BUFFER_LENGTH_MAX as u64);
};
