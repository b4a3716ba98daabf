//! Every limit of the engine, with its reason. Relations between limits are asserted at compile time.
//! Policy that users set (sizes, addresses) is configuration and does not stand here.

/// Smallest buffer in bytes: a page, since O_DIRECT wants page-aligned memory anyway.
pub const BUFFER_LENGTH_MIN: usize = 4096;
/// Largest buffer in bytes, and so the most data of one command: 1 MiB keeps a slow link's queueing bounded.
pub const BUFFER_LENGTH_MAX: usize = 1 << 20;
/// Bytes of free buffers a reactor keeps for the next command, so that a burst's memory goes back to the system.
pub const POOL_KEPT_BYTES_MAX: usize = 64 << 20;
/// Bytes of buffers the commands of one connection may hold at a time. A connection that reaches it waits for its
/// own commands; there is no shared pool that one host could drain for all.
pub const CONNECTION_BUFFER_BYTES_MAX: usize = 8 << 20;

/// Maximum data transfer size as the exponent of 4 KiB pages (MDTS).
pub const TRANSFER_PAGES_EXPONENT: u8 = 8;
/// Bytes of one Write Zeroes (WZSL): 32 MiB of memory are zeroed in some milliseconds, which is as long as one command
/// may keep a reactor from the others.
pub const WRITE_ZEROES_LENGTH_MAX: u64 = 32 << 20;
/// Bytes of one Verify (VSL), which are read from the storage for nothing: as much as one Write Zeroes.
pub const VERIFY_LENGTH_MAX: u64 = 32 << 20;
/// Source ranges of one Copy (MSRC, made 1's based).
pub const COPY_RANGES_MAX: u16 = 128;
/// Bytes of one source range of a Copy (MSSRL).
pub const COPY_RANGE_LENGTH_MAX: u64 = 4 << 20;
/// Bytes of one Copy (MCL): memory copies so much in some milliseconds, and a reactor does nothing else meanwhile.
pub const COPY_LENGTH_MAX: u64 = 16 << 20;
/// Bytes of in-capsule data a host may send with an I/O command: four pages, as the Linux target offers.
pub const IN_CAPSULE_LENGTH_MAX: usize = 16 << 10;
/// Bytes of in-capsule data with an admin command: fixed by the TCP transport specification (7.4.5).
pub const ADMIN_IN_CAPSULE_LENGTH_MAX: usize = 8 << 10;
/// Bytes one H2CData PDU may carry (MAXH2CDATA): a whole transfer, so that one R2T is one PDU. In a simulation it is so
/// small that hosts have to split what they send, as other targets make them do.
pub const DATA_TO_CONTROLLER_MAX: u32 =
    if cfg!(feature = "simulation") { 20 << 10 } else { BUFFER_LENGTH_MAX as u32 };

/// Entries of an I/O queue (MQES): eight times what Linux asks for by default.
pub const QUEUE_ENTRIES_MAX: u16 = 1024;
/// Entries of an admin queue (Linux asks for 32).
pub const ADMIN_QUEUE_ENTRIES_MAX: u16 = 128;
/// I/O queues of one controller: as many as a host with 127 CPUs asks for.
pub const IO_QUEUES_MAX: u16 = 128;
/// Controllers of one target process.
pub const CONTROLLERS_MAX: usize = 1024;
/// Connections of one reactor: one host's 128 queues for each of 32 hosts.
pub const CONNECTIONS_PER_REACTOR_MAX: usize = 4096;
/// Paths of an initiator to one namespace.
pub const PATHS_MAX: usize = 32;
/// Asynchronous Event Requests outstanding per controller (AERL, made 1's based).
pub const ASYNC_EVENTS_MAX: usize = 4;
/// Abort commands outstanding per controller (ACL, made 1's based).
pub const ABORTS_MAX: u8 = 4;
/// Entries of a controller's error log (ELPE, made 1's based).
pub const ERROR_LOG_ENTRIES: usize = 64;
/// Statuses that one reactor counts by name on one namespace: a host that provokes more sees the rest counted together.
pub const STATUSES_COUNTED_MAX: usize = 16;
/// Namespaces that metrics tell of one by one: with all ten operations of each, some 30 MB of text.
pub const METRICS_NAMESPACES_MAX: usize = 1024;
/// Controllers, and I/O queues of all of them together, that metrics tell of one by one: some 200 KB of text.
pub const METRICS_QUEUES_MAX: usize = 1024;
/// Namespaces of one subsystem, and its largest namespace identifier (NN, MNAN).
pub const NAMESPACES_MAX: u32 = 1024;
/// Subsystems of one target.
pub const SUBSYSTEMS_MAX: usize = 1024;
/// Hosts on one subsystem's list.
pub const HOSTS_MAX: usize = 1024;
/// ANA groups of a subsystem (ANAGRPMAX): as many as namespaces, so that each may have its own.
pub const ANA_GROUPS_MAX: u32 = 1024;
/// The longest a group of namespaces may be on its way from one ANA state to another, in seconds (ANATT): a state
/// changes at once here, and who lets hosts see the way itself has this time before they give the path up.
pub const ANA_TRANSITION_S_MAX: u8 = 10;
/// Cross-controller resets one controller may have in progress (CCRL): a host that has lost a whole port asks for one
/// controller after the other, and each request makes all reactors look through their commands.
pub const CROSS_RESETS_MAX: u8 = 4;
/// Entries of a controller's log of cross-controller resets, until its host removes them.
pub const CROSS_RESET_ENTRIES: usize = 64;
/// What a subsystem promises where nobody says otherwise (CQT), in milliseconds: after its host is lost, no command of
/// a controller takes effect later than that. Disks that retry an error take about so long.
pub const COMMAND_QUIESCE_MS: u16 = 2_000;
/// The longest that writes of a namespace may be held back, in milliseconds: what is promised above has 16 bits.
pub const WRITE_DELAY_MS_MAX: u32 = 60_000;
/// What a write may take beyond the time it is held back, in milliseconds.
pub const WRITE_DELAY_MARGIN_MS: u32 = 500;
/// Requests of hosts that wait for the administration; a host whose request finds no room may ask again.
pub const HOST_REQUESTS_MAX: usize = 64;
/// Reservation commands that wait for the clerk; a host whose command finds no room may send it again.
pub const CLERK_JOBS_MAX: usize = 1024;
/// Reservation notifications that wait for one host to read them: as many as their log page can count (NALP).
pub const RESERVATION_NOTICES_MAX: usize = 255;
/// Discovery services a target refers its hosts to.
pub const REFERRALS_MAX: usize = 64;
/// Listening addresses of one target.
pub const PORTS_MAX: usize = 64;

/// Subflows of an MPTCP connection that are told of one by one: twice as many as the kernel's own path manager makes.
pub const SUBFLOWS_TOLD_MAX: usize = 16;

/// A connection that has not finished its handshake and Connect by then is closed: a stranger costs no slot for long.
pub const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// A terminated connection's last PDU may take this long to leave (TCP 3.5: the host has 30 s at most).
pub const LINGER_TIMEOUT_MS: u64 = 2_000;
/// Outstanding commands may take this long at shutdown.
pub const SHUTDOWN_TIMEOUT_MS: u64 = 10_000;
/// Largest keep alive time-out a controller takes in milliseconds: a day; more would keep dead hosts for good.
pub const KEEP_ALIVE_MS_MAX: u32 = 24 * 3600 * 1000;
/// A discovery controller whose host wants no keep alive ends after so much silence in milliseconds: the two minutes
/// that the specification gives it (Base 3.1.3.3), so that hosts that ask once and stay leave nothing behind.
pub const DISCOVERY_IDLE_MS_MAX: u64 = 120_000;
/// Granularity of the keep alive timer in units of 100 ms (KAS): 1 s.
pub const KEEP_ALIVE_GRANULARITY_100MS: u16 = 10;

/// Bytes a reactor receives with one call, over all connections.
pub const RECEIVE_LENGTH: usize = 256 << 10;
/// Receive calls one connection gets before the others have their turn.
pub const RECEIVE_BUDGET: usize = 8;
/// Turns that connections which are not queues yet get in one round of a reactor: each costs some ten microseconds, and
/// thousands come at once after a restart, which the queues that are there must not notice.
pub const GREETINGS_PER_ROUND: usize = 4;
/// Parts of one vectored send: far below the system's 1,024, enough for 64 reads.
pub const SEND_PARTS_MAX: usize = 128;
/// Bytes queued for sending at which a connection takes no more commands: its host does not read what it asked for.
pub const SEND_BYTES_MAX: usize = 4 << 20;
/// Bytes queued for sending at which a connection sends before it works on through what it has received: the host takes
/// the first answers while the next are made.
pub const SEND_BATCH_BYTES: usize = 128 << 10;
/// Entries of a reactor's submission ring.
pub const RING_ENTRIES: u32 = 512;
/// Time a reactor polls before it sleeps, at most, in microseconds; less where polling did not pay.
pub const POLL_US_MAX: u64 = 50;
/// Threads that do storage calls where io_uring is not to be had.
pub const STORAGE_THREADS: usize = 4;
/// Processors of a machine that are told apart: more than Linux can be built for on any architecture in use.
pub const CPUS_MAX: u32 = 8192;
/// Network interfaces that are looked at: a machine with more has containers, whose interfaces carry no storage.
pub const INTERFACES_MAX: usize = 1024;
/// Queues of a network interface that are looked at, in each direction.
pub const NIC_QUEUES_MAX: usize = 4096;
/// Entries of a network interface's table of receive side scaling; the largest known have 4,096.
pub const RSS_ENTRIES_MAX: usize = 1 << 16;
/// Bytes of a key of receive side scaling: 52 is the longest known.
pub const RSS_KEY_BYTES_MAX: usize = 256;
/// Rules for single flows of a network interface that are read.
pub const NTUPLE_RULES_MAX: usize = 1 << 16;
/// Source ports that are tried for one queue's connection: enough that one is free, few enough to try at once.
pub const SOURCE_PORTS_MAX: usize = 8;
/// Connections of this machine that are looked at for NVMe/TCP queues.
pub const FLOWS_MAX: usize = 1 << 16;
/// Bytes of a file of the system, or of a recording of one, that are read: /proc/interrupts of 1,024 processors has 12 MB.
pub const SYSTEM_FILE_BYTES_MAX: usize = 32 << 20;
/// Bytes of one answer of the kernel's over netlink: a hundred thousand sockets of some 400 bytes.
pub const NETLINK_BYTES_MAX: usize = 64 << 20;
/// The longest an answer of the kernel's over netlink may take, in milliseconds: a driver may ask its device's firmware
/// first, or stop and start its queues.
pub const NETLINK_TIMEOUT_MS: u64 = 30_000;

const _: () = {
    assert!(BUFFER_LENGTH_MIN.is_power_of_two() && BUFFER_LENGTH_MAX.is_power_of_two());
    assert!(BUFFER_LENGTH_MAX == BUFFER_LENGTH_MIN << TRANSFER_PAGES_EXPONENT);
    assert!(IN_CAPSULE_LENGTH_MAX <= BUFFER_LENGTH_MAX);
    assert!(WRITE_ZEROES_LENGTH_MAX.is_power_of_two(), "WZSL is a power of two of pages");
    assert!(IN_CAPSULE_LENGTH_MAX.is_multiple_of(16), "IOCCSZ counts 16 bytes");
    assert!(CONNECTION_BUFFER_BYTES_MAX >= 2 * BUFFER_LENGTH_MAX, "one transfer must never wait for itself");
    assert!(SEND_BYTES_MAX >= BUFFER_LENGTH_MAX, "a single answer must fit");
    assert!(SEND_PARTS_MAX * 4096 >= 2 * SEND_BATCH_BYTES, "a batch of 4 KiB reads must leave in one send");
    assert!(DATA_TO_CONTROLLER_MAX.is_multiple_of(4) && DATA_TO_CONTROLLER_MAX >= 4096);
    assert!(ADMIN_QUEUE_ENTRIES_MAX as usize > ASYNC_EVENTS_MAX + ABORTS_MAX as usize);
    assert!(RECEIVE_LENGTH >= IN_CAPSULE_LENGTH_MAX);
    assert!(CROSS_RESET_ENTRIES <= nvme::log_page::CROSS_RESET_ENTRIES_MAX);
    assert!(CROSS_RESETS_MAX as usize <= CROSS_RESET_ENTRIES);
    assert!(WRITE_DELAY_MS_MAX + WRITE_DELAY_MARGIN_MS <= u16::MAX as u32, "CQT has 16 bits");
};
