//! Every limit of attached disks, with its reason.

/// Clients of one thread: as many as a machine has processors whose kernel gives each a connection, for some disks. A process with
/// few descriptors has fewer. Of the clients of all threads the next two are the same parts.
pub const CLIENTS_PER_THREAD_MAX: usize = 128;
/// Clients, of every 128 of all threads together, that are for users and networks with few of them: one that has all others, with
/// disks that they have selected, does not keep the next one out.
pub const CLIENTS_RESERVE: usize = 32;
/// Clients of a user or network, of every 128, up to which it may have another one of the reserve, which is thus for four of them at
/// least: a machine has a connection for each of some processors.
pub const CLIENTS_OF_RESERVE_MAX: usize = 8;
/// Requests of one client that are not answered. The kernel's client has 128 per connection, others fewer.
pub const CLIENT_REQUESTS_MAX: usize = 256;
/// Commands of one client that a target has not answered: a quarter of what a thread may have, so that others find room.
pub const CLIENT_COMMANDS_MAX: usize = 256;
/// Requests of one client for the state of blocks that are not answered. One thread asks the controllers for all clients, one
/// question after the other: a client that asks for many waits itself.
pub const CLIENT_EXTENTS_MAX: usize = 8;
/// Commands that one thread has outstanding; requests wait for room.
pub const THREAD_COMMANDS_MAX: usize = 1024;
/// Lists of buffers that a thread keeps for further requests: as many as have commands outstanding. Those of more requests, up to
/// 4 KiB each, are freed with them.
pub const SPARE_LISTS_MAX: usize = THREAD_COMMANDS_MAX;
/// Commands of one request that are outstanding: one that trims a whole disk leaves room for the client's others.
pub const REQUEST_COMMANDS_MAX: usize = 32;
/// Bytes of buffers that one client holds, until its data has been written, or its replies are sent. One request of the
/// greatest length always fits.
pub const CLIENT_BUFFER_BYTES_MAX: usize = 64 << 20;
/// Bytes of buffers that all clients of a server hold, a share of it for each thread: some that read no replies leave room to
/// others, and the process does not grow with their number. A piece that a client has alone is not counted against it.
pub const BUFFER_BYTES_MAX: usize = 512 << 20;
/// The least share of a thread: half of it, which first requests of one party may have, has room for two of the greatest length
/// whose buffers are twice as large.
pub const THREAD_BUFFER_BYTES_MIN: usize = 256 << 20;
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
/// Pause when the system has no descriptor or memory for another connection, in milliseconds: those that wait are not announced
/// again, and whichever part of the process gives a descriptor back does not know of them.
pub const ACCEPT_PAUSE_MS: u64 = 100;
/// Time after which the system asks the machine of a silent client by TCP whether the connection exists, in seconds, the
/// interval at which it asks again, and the questions without an answer after which the connection is closed. One whose machine
/// has lost its power would stay for as long as the process. The sum is 15 minutes, for which TCP also sends replies again.
pub const CLIENT_SILENCE_S: u64 = 300;
/// Interval of the questions, in seconds.
pub const CLIENT_QUESTION_S: u64 = 60;
/// Number of the questions.
pub const CLIENT_QUESTIONS: u32 = 10;
/// Time for the TLS handshake of a client, in milliseconds: some round trips and some public-key
/// work, of which a busy machine has many at a time. It holds more memory than a client that is
/// silent.
pub const TLS_HANDSHAKE_TIMEOUT_MS: u64 = 10_000;
/// Time for requests that were received when a server ends, in milliseconds; without a path they
/// would last as long as a path may take to come back.
pub const END_TIMEOUT_MS: u64 = 5_000;
/// Time for a client that has chosen no disk to ask for one when a server ends, in milliseconds: an option comes a round trip
/// after the greeting, and its answer is the place for the reason. The end waits as long for a silent one.
pub const END_HANDSHAKE_MS: u64 = 250;
/// Time for outstanding requests to end when disks are handed over to another process, in
/// milliseconds. Their users wait meanwhile: if a storage takes longer, this process serves on.
pub const HAND_OVER_TIMEOUT_MS: u64 = 2_000;
/// Time for a client to read its replies when it is handed over, in milliseconds: replies left
/// after that are handed over with it.
pub const HAND_OVER_STALL_MS: u64 = 100;
/// Time for a client that reads none of its replies, and so has requests that cannot be served, to begin to when it is handed
/// over, in milliseconds. Its connection does not survive the hand-over, which it would block; nor does one whose unread replies
/// have the buffers that other clients' requests wait for.
pub const HAND_OVER_UNREAD_MS: u64 = 1_000;
/// The same for a client that reads its replies slowly, and has the buffers that others wait for: those are answered afterwards,
/// before the hand-over's time is over.
pub const HAND_OVER_SLOW_MS: u64 = 1_500;
/// Time for a TLS handshake to complete when its client is handed over, in milliseconds: some round
/// trips. Others wait meanwhile, and one that takes longer has to reconnect.
pub const HAND_OVER_HANDSHAKE_MS: u64 = 500;
/// Bytes of answers that go on with a client which is handed over: all that one holds buffers for, and what stands before each.
pub const HANDED_UNSENT_BYTES_MAX: usize = CLIENT_BUFFER_BYTES_MAX + CLIENT_REPLIES_MAX * 1024;
/// Bytes received from a client that are handed over in the word about all clients, which has a limit. Small requests need no
/// file; the data of begun writes goes into one for each client.
pub const HANDED_RECEIVED_INLINE_BYTES_MAX: usize = 4096;
/// Requests of one queue of a block device: as many as an I/O queue may have entries. Each may hold `PIECE_BYTES`.
pub const DEVICE_DEPTH_MAX: u16 = 1024;
/// Time for the kernel to read the partitions of a new block device, in milliseconds, before those
/// reads fail.
pub const DEVICE_START_TIMEOUT_MS: u64 = 30_000;
/// Time for the kernel to see that the process of a block device is gone, in milliseconds. Where
/// all tags of a queue were under way, it looks once in 30 s.
pub const RECOVERY_TIMEOUT_MS: u64 = 90_000;
/// Time for which a request to a user's block device may wait for a path, in milliseconds. The
/// kernel kills the process when one has no answer after 30 s, and a path may be missed for some
/// seconds before it is known to be lost.
pub const USER_REQUEST_TIMEOUT_MS: u64 = 10_000;
/// Time for which a request to a user's block device may wait in all, in milliseconds: a write also waits for a lost controller
/// to quiesce while there is another path.
pub const USER_REQUEST_WAIT_MS: u64 = 20_000;
/// Time for the file of a new block device to appear, in milliseconds.
pub const NODE_TIMEOUT_MS: u64 = 5_000;

/// Virtqueues of one vhost-user front end: QEMU asks for one for each processor of its guest, and starts no guest that gets
/// fewer.
pub const VRINGS_MAX: usize = 64;
/// Entries of one virtqueue, which is the most that QEMU gives one.
pub const VRING_ENTRIES_MAX: u16 = 1024;
/// Sockets for vhost-user front ends, one for each namespace.
pub const FRONT_ENDS_MAX: usize = 64;
/// Segments of data of one virtio request. With one of its header and one of its status they fit a virtqueue of 128 entries.
pub const SEGMENTS_MAX: usize = 126;
/// Bytes of data of one virtio request: all segments of a driver that respects the limits in the
/// configuration space.
pub const VRING_REQUEST_BYTES_MAX: u64 = SEGMENTS_MAX as u64 * PIECE_BYTES;
/// Requests that are taken from one virtqueue before others have their turn.
pub const REQUESTS_PER_TURN: usize = 256;
/// Commands that a target has not answered, of requests of one virtqueue.
pub const VRING_COMMANDS_MAX: usize = 256;
/// Bytes of buffers for the data of commands of one virtqueue; data waits in the guest's memory until there is one.
pub const VRING_BUFFER_BYTES_MAX: usize = 8 << 20;
/// Bytes of buffers that all virtqueues of a server hold, a share of it for each thread: some front ends with many virtqueues
/// leave room to others, and the process does not grow with their number. A piece that a virtqueue has alone is not counted
/// against it.
pub const VRINGS_BUFFER_BYTES_MAX: usize = 512 << 20;
/// The least share of a thread: the eighth of it that a virtqueue alone may have is all that one may have.
pub const VRINGS_THREAD_BUFFER_BYTES_MIN: usize = 64 << 20;
/// Commands of front ends that a thread executes before virtqueues have their turn: one front end begins all of its virtqueues at
/// once, and one that changes its memory or notifications all the time leaves others their turn.
pub const VRING_ORDERS_PER_TURN: usize = VRINGS_MAX;
/// Ranges of one discard.
pub const DISCARD_RANGES_MAX: usize = 32;
/// Interval at which the size of a disk is compared with the size that its front end knows, in
/// milliseconds: a guest sees another size within two seconds.
pub const SIZE_NOTICE_INTERVAL_MS: u64 = 500;
/// Parts of its memory that one front end shares: as many as vhost-user's messages can name by ADD_MEM_REG in QEMU.
pub const MEMORY_REGIONS_MAX: usize = 509;
/// Mappings of one socket's front ends: all regions and the in-flight region, once more while they are replaced.
pub const MAPPINGS_PER_SOCKET_MAX: usize = 2 * (MEMORY_REGIONS_MAX + 1);
/// Mappings of front ends' memory in a process, of which each socket has an equal share: half of those that Linux gives a process
/// by default (vm.max_map_count), as threads and buffers need some too.
pub const WATCHED_MAPPINGS_MAX: usize = 32_768;
/// Time for the rest of a vhost-user message, and for a front end to read its replies so that it can be answered, in milliseconds.
/// Monitors send a message by one system call.
pub const MESSAGE_TIMEOUT_MS: u64 = 5_000;
/// Controllers of one namespace that a process keeps record of for the next one: those of all its paths, and those that are
/// lost and not at rest. A path that is lost again and again waits for some to come to rest.
pub const CONTROLLERS_KEPT_MAX: usize = 1024;
/// Bytes of the file of these records: each has two names of at most 223 bytes, of which JSON may make six times as many.
pub const CONTROLLERS_FILE_BYTES_MAX: u64 = 4 << 20;

const _: () = {
    assert!(WATCHED_MAPPINGS_MAX / FRONT_ENDS_MAX >= MEMORY_REGIONS_MAX);
    assert!(VRING_COMMANDS_MAX < THREAD_COMMANDS_MAX);
    assert!(VRING_BUFFER_BYTES_MAX >= engine::limits::BUFFER_LENGTH_MAX);
    assert!(VRINGS_THREAD_BUFFER_BYTES_MIN >= 8 * VRING_BUFFER_BYTES_MAX);
    assert!(VRINGS_THREAD_BUFFER_BYTES_MIN <= VRINGS_BUFFER_BYTES_MAX);
    assert!(DISCARD_RANGES_MAX * 16 <= 4096);
    assert!(4 * CLIENTS_OF_RESERVE_MAX <= CLIENTS_RESERVE && 2 * CLIENTS_RESERVE < CLIENTS_PER_THREAD_MAX);
    assert!(CLIENT_COMMANDS_MAX < THREAD_COMMANDS_MAX);
    assert!(THREAD_BUFFER_BYTES_MIN >= 8 * nbd::limits::PAYLOAD_BYTES_MAX as usize);
    assert!(HAND_OVER_UNREAD_MS < HAND_OVER_SLOW_MS && HAND_OVER_STALL_MS < HAND_OVER_UNREAD_MS);
    assert!(HAND_OVER_SLOW_MS < HAND_OVER_TIMEOUT_MS);
    assert!(CLIENT_BUFFER_BYTES_MAX >= 2 * nbd::limits::PAYLOAD_BYTES_MAX as usize);
    assert!(INPUT_BYTES > 16 + nbd::limits::OPTION_BYTES_MAX + 2 * secure_channel::RECORD_BYTES_MAX);
    assert!(INPUT_BYTES <= engine::limits::RECEIVE_LENGTH);
    assert!(INPUT_BYTES > 16 + nbd::limits::OPTION_BYTES_MAX && INPUT_BYTES > nbd::REQUEST_BYTES_MAX);
    assert!(PIECE_BYTES <= engine::limits::BUFFER_LENGTH_MAX as u64);
};
