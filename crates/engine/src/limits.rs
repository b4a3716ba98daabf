//! Every limit of the engine, with its reason. Relations between limits are asserted at compile time.
//! Policy that users set (sizes, addresses) is configuration and does not stand here.

/// Smallest buffer in bytes: a page, since O_DIRECT wants page-aligned memory anyway.
pub const BUFFER_LENGTH_MIN: usize = 4096;
/// Largest buffer in bytes, and so the most data of one command: 1 MiB keeps a slow link's queueing bounded.
pub const BUFFER_LENGTH_MAX: usize = 1 << 20;
/// Bytes of free buffers a reactor keeps for the next command, so that a burst's memory goes back to the system.
pub const POOL_KEPT_BYTES_MAX: usize = 64 << 20;
/// Bytes of those for which a reactor does not wake up to give them back: what sealing the answers to keep alives takes.
pub const POOL_IDLE_BYTES_MAX: usize = 64 << 10;
/// Bytes of buffers the commands of one connection may hold at a time: one that reaches it waits for its own commands.
pub const CONNECTION_BUFFER_BYTES_MAX: usize = 8 << 20;
/// The same of all connections of a host on one reactor. Beyond it, each may have a single command with a buffer.
pub const HOST_BUFFER_BYTES_MAX: usize = 64 * CONNECTION_BUFFER_BYTES_MAX;

/// Milliseconds for which a file or device is tried that another process has: the system may keep the files of a killed process
/// until its last requests have ended.
pub const LOCK_PATIENCE_MS: u64 = 1000;
/// The same where that process has a shared lock: udev and others have one for seconds, while they examine a device.
pub const SHARED_LOCK_PATIENCE_MS: u64 = 5000;

/// Maximum data transfer size as the exponent of 4 KiB pages (MDTS).
pub const TRANSFER_PAGES_EXPONENT: u8 = 8;
/// Bytes of one Write Zeroes that hosts keep to (WZSL): some milliseconds of memory. Longer ones, of other hosts, are done, too.
pub const WRITE_ZEROES_LENGTH_MAX: u64 = 32 << 20;
/// Bytes of one Verify (VSL), which are read from the storage for nothing: as much as one Write Zeroes.
pub const VERIFY_LENGTH_MAX: u64 = 32 << 20;
/// Source ranges of one Copy (MSRC, made 1's based).
pub const COPY_RANGES_MAX: u16 = 128;
/// Bytes of one source range of a Copy (MSSRL).
pub const COPY_RANGE_LENGTH_MAX: u64 = 4 << 20;
/// Bytes of one Copy (MCL): memory copies so much in some milliseconds, in pieces of `WORK_BYTES_PER_TURN`.
pub const COPY_LENGTH_MAX: u64 = 16 << 20;
/// Bytes of a range that a device gives back at a time, and of ranges that hosts send (DMRSL, by blocks of 512 bytes; SPDK's value).
pub const DEALLOCATE_LENGTH_MAX: u64 = 1 << 30;
/// Bytes that deallocating a range counts as in limits on bytes, at most: less is zeroed by writing it, more is given back.
pub const DEALLOCATE_COST_BYTES_MAX: u64 = 64 << 10;
/// Bytes that one Write Uncorrectable counts as in limits on bytes: a block, since all it writes is a note.
pub const UNCORRECTABLE_COST_BYTES: u64 = 4096;
/// Bytes of in-capsule data a host may send with an I/O command: four pages, as the Linux target offers.
pub const IN_CAPSULE_LENGTH_MAX: usize = 16 << 10;
/// Bytes of a peer's part of a TLS handshake: the longest ClientHello with its record headers is half of it, and nothing else
/// comes near.
pub const HANDSHAKE_BYTES_MAX: usize = 16 << 10;
/// Records of TLS after which a host of ours replaces the keys of a queue: half of those after which a target ends it.
pub const TLS_RENEW_AFTER_RECORDS: u64 = 1 << 23;
/// Bytes of records that a secure stream seals before it sends them, which it has only as long as they have not left: fifteen
/// full records, of some dozens of reads of 4 KiB.
pub const SEALED_SPACE_BYTES: usize = 256 << 10;
/// Bytes of in-capsule data with an admin command: fixed by the TCP transport specification (7.4.5).
pub const ADMIN_IN_CAPSULE_LENGTH_MAX: usize = 8 << 10;
/// Bytes one H2CData PDU may carry (MAXH2CDATA): a whole transfer, so that one R2T is one PDU. In a simulation it is so
/// small that hosts have to split what they send, as other targets make them do.
pub const DATA_TO_CONTROLLER_MAX: u32 =
    if cfg!(feature = "simulation") { 20 << 10 } else { BUFFER_LENGTH_MAX as u32 };

/// Entries of an I/O queue (MQES): eight times what Linux asks for by default.
pub const QUEUE_ENTRIES_MAX: u16 = 1024;
/// Entries of an admin queue. Linux asks for 32, but there are hosts that ask for more than 128.
pub const ADMIN_QUEUE_ENTRIES_MAX: u16 = 256;
/// A host may have this many times its queue's entries outstanding before the connection ends: what the Linux target
/// accepts, for hosts that count otherwise.
pub const QUEUE_OVERRUN_FACTOR: usize = 2;
/// I/O queues of one controller: as many as a host with 127 CPUs asks for.
pub const IO_QUEUES_MAX: u16 = 128;
/// Controllers of one target process, discovery controllers apart.
pub const CONTROLLERS_MAX: usize = 1024;
/// Controllers of one host, unless the operator sets another limit: four ports of 64 subsystems.
pub const CONTROLLERS_PER_HOST_MAX: usize = 256;
/// Controllers of hosts from one network together that are on no subsystem's list: where any host
/// may connect, one party can have any number of names, and must not take all places by them.
pub const CONTROLLERS_PER_NETWORK_MAX: usize = 512;
/// Controllers reserved for hosts on a subsystem's list: a known host that has lost its paths has
/// to get in again, however many strangers have come meanwhile.
pub const NAMED_HOSTS_RESERVE: usize = 128;
/// Controllers of them for hosts that prove their names, where some are configured: a party that knows four names has four quotas.
pub const PROVED_HOSTS_RESERVE: usize = 64;
/// Seconds for which events that come in floods may go on without a line in the log: a flood fills no disk, and a host that cannot
/// connect is found there.
pub const LOGGED_EVERY_S: u64 = 300;
/// I/O queues of one host, unless the operator says otherwise: as many as a reactor has connections, for 32 paths of 128 queues.
pub const QUEUES_PER_HOST_MAX: usize = 4096;
/// I/O queues of hosts from one network that are on no subsystem's list.
pub const QUEUES_PER_NETWORK_MAX: usize = 8192;
/// Fraction of the reactors' places for connections that is reserved for queues of hosts on a subsystem's list: one in this many.
pub const NAMED_QUEUES_SHARE: usize = 8;
/// The same for queues of hosts that prove their names, where such hosts are configured.
pub const PROVED_QUEUES_SHARE: usize = 16;
/// Discovery controllers, of which any stranger may have one: apart from all others, so that no crowd of them keeps a host from
/// its volumes. With more, the party with the most loses the one that has been silent for longest.
pub const DISCOVERY_CONTROLLERS_MAX: usize = 256;
/// Identifiers of controllers that are promised to hosts which have yet to authenticate. A gateway has some thousands in all; with
/// more, the oldest promise goes, of the network that has the most, and its host connects again.
pub const PROMISED_IDS_MAX: usize = 640;
/// Promised identifiers of hosts from one network, which then loses its own oldest one: all hosts behind one address come at once when a target
/// is back, and need some milliseconds each.
pub const PROMISED_IDS_PER_NETWORK_MAX: usize = 320;
/// Connections of one reactor: one host's 128 queues for each of 32 hosts.
pub const CONNECTIONS_PER_REACTOR_MAX: usize = 4096;
/// Connections of one reactor that have not become queues, which anybody can open: with more, the party with the most loses the
/// oldest. A host needs some milliseconds to become a queue, so that even ten thousand strangers a second leave it the time. All
/// queues of 16 controllers may come at once when a target is back, and have a handshake before them.
pub const HALF_OPEN_PER_REACTOR_MAX: usize = 2048;
/// The same with those that are still on their way to the reactor; what is beyond is closed where it is accepted.
pub const HALF_OPEN_ACCEPTED_MAX: usize = 2 * HALF_OPEN_PER_REACTOR_MAX;
/// Half-open connections that a reactor gives up when the process has no descriptor left.
pub const HALF_OPEN_DROPPED_AT_ONCE: usize = 16;
/// Paths of an initiator to one namespace.
pub const PATHS_MAX: usize = 32;
/// Commands that one thread of a volume has outstanding unless its user says otherwise; others wait. As many as a full queue
/// on each of several paths.
pub const VOLUME_COMMANDS_MAX: usize = 1024;
/// Commands of one request to a volume that are outstanding at a time: with the length of its pieces, it bounds what the
/// buffers of a request take.
pub const REQUEST_COMMANDS_MAX: usize = 32;
/// Asynchronous Event Requests outstanding per controller (AERL, made 1's based).
pub const ASYNC_EVENTS_MAX: usize = 4;
/// Abort commands outstanding per controller (ACL, made 1's based).
pub const ABORTS_MAX: u8 = 4;
/// Entries of a controller's error log (ELPE, made 1's based).
pub const ERROR_LOG_ENTRIES: usize = 64;
/// Statuses that one reactor counts by name on one namespace: a host that provokes more sees the rest counted together.
pub const STATUSES_COUNTED_MAX: usize = 16;
/// Namespaces that metrics report one by one: those of a full subsystem. One has some 6 KB of text at most.
pub const METRICS_NAMESPACES_MAX: usize = NAMESPACES_MAX as usize;
/// Namespaces among them with ANA states and durations: with all ten operations of each, some 30 MB of text.
pub const METRICS_DETAILED_MAX: usize = 1024;
/// Bytes from which on a piece of the text of metrics ends, behind the samples of a namespace.
pub const METRICS_PIECE_BYTES: usize = 64 << 10;
/// I/O queues of all controllers together that metrics report one by one, in equal shares of hosts: some 200 KB of text.
pub const METRICS_QUEUES_MAX: usize = 1024;
/// Paths of attached disks that their process's metrics report one by one: some 5 MB of text.
pub const METRICS_PATHS_MAX: usize = 256;
/// Slow commands that are kept with what their time was spent on: half a megabyte.
pub const SLOW_COMMANDS_KEPT: usize = 1024;
/// Slow commands that are kept of one second: keeping one takes a lock that all reactors share.
pub const SLOW_COMMANDS_A_SECOND: u32 = 64;
/// Identities that a state directory keeps for files and devices without one of their own: as many
/// namespaces as a subsystem can have, twice over, since those of files that are gone stay.
pub const IDENTITIES_KEPT_MAX: usize = 2 * NAMESPACES_MAX as usize;
/// Bytes of their file that are read: enough for that number of paths of the greatest length.
pub const IDENTITIES_FILE_BYTES_MAX: u64 = 64 << 20;
/// Secrets and TLS keys of hosts whose age is reported.
pub const HOST_KEYS_REPORTED_MAX: usize = 1024;
/// Namespaces of one subsystem, and its largest namespace identifier (NN, MNAN): as many as
/// ceph-nvmeof has in a group. A controller may have a table of them of its own, of some 100 KB.
pub const NAMESPACES_MAX: u32 = 4096;
/// Subsystems of one target.
pub const SUBSYSTEMS_MAX: usize = 1024;
/// Namespaces that one host may create in a subsystem by default: a small part, so that no host takes all identifiers.
pub const HOST_NAMESPACES: u32 = NAMESPACES_MAX / 64;
/// Hosts on one subsystem's list.
pub const HOSTS_MAX: usize = 1024;
/// Networks of one subsystem: as many as ports of a gateway that may be in one each.
pub const NETWORKS_MAX: usize = PORTS_MAX;
/// ANA groups of a subsystem (ANAGRPMAX): far more than gateways or failover domains. Each has a
/// state on each port, and a descriptor in the ANA log.
pub const ANA_GROUPS_MAX: u32 = 1024;
/// The longest a group of namespaces may be on its way from one ANA state to another, in seconds (ANATT): a state
/// changes at once here, and who lets hosts see the way itself has this time before they give the path up.
pub const ANA_TRANSITION_S_MAX: u8 = 10;
/// Cross-controller resets one controller may have in progress (CCRL): a host that has lost a whole port asks for one
/// controller after the other, and each request makes all reactors look through their commands.
pub const CROSS_RESETS_MAX: u8 = 4;
/// Entries of a controller's log of cross-controller resets, until its host removes them.
pub const CROSS_RESET_ENTRIES: usize = 64;
/// Command Quiesce Time of a subsystem by default (CQT), in milliseconds: after its host is lost, no command of a controller
/// takes effect later than that. Disks that are well keep it; one that recovers from an error may take 30 s, so that it is not a
/// safe value for several targets over one disk. Longer would hold up the writes of every host that loses a path.
pub const COMMAND_QUIESCE_MS: u16 = 2_000;
/// Margin of a measured Command Quiesce Time beyond twice the longest operation that was seen, in milliseconds.
pub const COMMAND_QUIESCE_MARGIN_MS: u16 = 500;
/// The longest measured Command Quiesce Time that is reported to hosts, in milliseconds: they wait for it with their writes,
/// and storage that takes longer has to be repaired.
pub const COMMAND_QUIESCE_AUTO_MS_MAX: u16 = 60_000;
/// Time without an operation that outlives the Command Quiesce Time, in milliseconds, after which the trouble is over and the
/// next one is logged again: a disk that is slow again and again is one trouble.
pub const LATE_EPISODE_QUIET_MS: u64 = 5_000;
/// The longest that writes of a namespace may be held back, in milliseconds: what is promised above has 16 bits.
pub const WRITE_DELAY_MS_MAX: u32 = 60_000;
/// Time that a write may take beyond the time it is held back, in milliseconds.
pub const WRITE_DELAY_MARGIN_MS: u32 = 500;
/// Time for which reopening a namespace waits for commands from before its failure, in
/// milliseconds: a disk answers sooner, and one that does not should not be used further.
pub const REOPEN_PATIENCE_MS: u64 = 5_000;
/// Requests of hosts that wait for the administration; a host whose request finds no room may ask again.
pub const HOST_REQUESTS_MAX: usize = 256;
/// Part of these, of reservation commands and of questions about blocks that one host may have waiting: one in this many.
pub const JOBS_SHARE_OF_HOST: usize = 8;
/// The same of all hosts from one network together that have not proved their names: a party may claim any number of them.
pub const JOBS_SHARE_OF_NETWORK: usize = 4;
/// Changes that one host may ask the administration for at once: each of its namespaces is created, attached, protected, deleted.
pub const HOST_CHANGES_AT_ONCE: u32 = 4 * HOST_NAMESPACES;
/// Time after which it may ask for one more, in milliseconds: a host that never ends writes some 40 MB a day into the audit log.
pub const HOST_CHANGE_INTERVAL_MS: u64 = 1_000;
/// Reservations that one host may change at once: it registers on all namespaces of a subsystem, and reserves them.
pub const HOST_RESERVATIONS_AT_ONCE: u32 = 2 * NAMESPACES_MAX;
/// Time after which it may change one more, in milliseconds: each is written to a disk, which has to do other work between.
pub const HOST_RESERVATION_INTERVAL_MS: u64 = 20;
/// Failed logins, and as many refused Connects, that wait to be entered into the account of failures; more are counted.
pub const REFUSED_HOSTS_MAX: usize = 256;
/// Reservation commands that wait for the reservation worker; a host whose command finds no room may send it again.
pub const RESERVATION_JOBS_MAX: usize = 1024;
/// Threads for reservation commands that wait for a cluster, each with one namespace at a time. All of them together need some 10
/// MB; commands on further namespaces wait for the first that is free, in turn, for one `--ceph-timeout` at most.
pub const RESERVATION_THREADS_MAX: usize = 256;
/// Reservation commands that may wait for clusters, each of some hundred bytes.
pub const RESERVATION_WAITING_MAX: usize = 16_384;
/// Commands of one host among them: as many as the reservation worker itself has waiting.
pub const RESERVATION_WAITING_SHARE_MAX: usize = 1024;
/// Reservation commands on one namespace that may wait for its cluster: as many as hosts that may be registered.
pub const RESERVATION_BACKLOG_MAX: usize = 255;
/// Commands of one host among them: more than it has on all paths while it waits for each, and few enough for others.
pub const RESERVATION_BACKLOG_SHARE_MAX: usize = 16;
/// Registrations of one name on a namespace, by whatever HOSTIDs: machines that were copied with their name have some.
pub const REGISTRANTS_PER_NAME_MAX: usize = 16;
/// Registrations on a namespace that are reserved for hosts that prove their names: a quarter.
pub const PROVED_REGISTRANTS_RESERVE: usize = 64;
/// Reservation notifications that wait for one host to read them: as many as their log page can count (NALP).
pub const RESERVATION_NOTICES_MAX: usize = 255;
/// Bytes of a namespace's reservations as they are kept, in a file or in an object of a cluster: a host's name has at most 223
/// bytes, which JSON may write as six each, the rest of a registrant is less than as much again, and 255 may be registered.
pub const RESERVATIONS_BYTES_MAX: u64 = 4096 + 255 * 2048;
/// Attempts at a reservation command whose namespace's object was changed by another claim of this
/// gateway's own: one that came late is followed by none.
pub const RESERVATION_TRIES_MAX: usize = 2;
/// Discovery services a target refers its hosts to.
pub const REFERRALS_MAX: usize = 64;
/// Ports of other gateways that hosts find through one: a few of each of `GATEWAYS_MAX`. The discovery log has as many entries
/// more for each subsystem, and a reactor counts them when a host reads it.
pub const OTHER_PORTS_MAX: usize = 256;
/// Secrets of one host that are accepted at a time: two while one takes the other's place, and some to spare.
pub const SECRETS_PER_HOST_MAX: usize = 8;
/// TLS keys that a host may have come with, by which its ClientHello is looked at. Those of one subsystem are the present ones
/// and the former ones; the discovery subsystem takes those of all subsystems. Each costs up to eight derivations, some 0.1 ms
/// together, which anybody can cause who knows the host's name.
pub const TLS_KEYS_PER_HELLO_MAX: usize = 4 * SECRETS_PER_HOST_MAX;
/// Time in which a host that has authenticated to get a TLS key may come back with it, in
/// milliseconds; as long, its connection in clear may take to end.
pub const GENERATED_KEY_WAIT_MS: u64 = 30_000;
/// Time for which such a key is accepted beside its successor, in milliseconds: a connection may be under way with it.
pub const GENERATED_KEY_OVERLAP_MS: u64 = 5_000;
/// Such keys of one host and subsystem that wait for it: one of each of its paths, and some to spare.
pub const GENERATED_KEYS_PER_HOST_MAX: usize = 2 * PATHS_MAX;
/// TLS keys that a host offers at a time: with the longest names they take half of the ClientHello that is read.
pub const TLS_KEYS_OFFERED_MAX: usize = 8;
/// Bytes of a file of secrets that are read.
pub const SECRET_FILE_BYTES_MAX: u64 = 64 << 10;
/// Letters of a sealed secret in a configuration: eight of the longest kind (`SECRETS_PER_HOST_MAX`) take 1,160.
pub const SEALED_SECRET_BYTES_MAX: usize = 2048;
/// Questions which blocks are allocated that wait for the file system; with more, hosts are asked to come again. Each host's admin
/// queue has its own limit.
pub const ALLOCATION_JOBS_MAX: usize = 1024;
/// Entries of one list of allocated blocks: two system calls each.
pub const LBA_STATUS_DESCRIPTORS_MAX: usize = 255;
/// Steps of authentication that wait to be computed; with more, the last one of the network with the most is given up: its host
/// comes again.
pub const AUTHENTICATION_JOBS_MAX: usize = 4096;
/// TLS handshakes of a target under way, of hosts that have shown a key: the library holds 70 KB for each, and others wait.
pub const TLS_HANDSHAKES_MAX: usize = 1024;
/// Further handshakes for hosts from networks that have few under way: a crowd from one network must not keep all others waiting.
pub const TLS_HANDSHAKES_RESERVE: usize = 256;
/// Handshakes under way of a network that has few.
pub const TLS_HANDSHAKES_FEW: usize = 16;
/// Time after which one may be given up for a host of a network that has fewer, in milliseconds: many round trips, and losses.
pub const TLS_HANDSHAKE_PATIENCE_MS: u64 = 2_000;
/// The same of one driver of an initiator: one of each queue of all paths, which is all that there can be.
pub const HOST_AUTHENTICATION_JOBS_MAX: usize = PATHS_MAX * IO_QUEUES_MAX as usize;
/// The longest that a host without a keep alive time-out may take to authenticate, in milliseconds (as Linux' target).
pub const AUTHENTICATION_TIMEOUT_MS: u64 = 120_000;
/// Time in which a host whose authentication has failed may fetch the reason, in milliseconds.
pub const AUTHENTICATION_FAILURE_LINGER_MS: u64 = 5_000;
/// Delay of the refusal of a wrong proof, in milliseconds; after each failure of the same network twice as long.
pub const AUTHENTICATION_DELAY_MS: u64 = 100;
/// The longest such delay, and never more than half of the time that the host has: hosts give a command up after a minute.
pub const AUTHENTICATION_DELAY_MS_MAX: u64 = 10_000;
/// Networks that are remembered to have failed; the one that did so longest ago is forgotten.
pub const AUTHENTICATION_OFFENDERS_MAX: usize = 4096;
/// Bytes of an Authentication Receive: Linux asks for 4 KiB.
pub const AUTHENTICATION_RECEIVE_BYTES_MAX: u32 = 64 << 10;
/// Listening addresses of one target.
pub const PORTS_MAX: usize = 64;

/// Subflows of an MPTCP connection that are reported one by one: twice as many as the kernel's own path manager makes.
pub const SUBFLOWS_REPORTED_MAX: usize = 16;

/// A connection that has not finished its handshake and Connect by then is closed: a stranger costs no slot for long.
pub const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// A terminated connection's last PDU may take this long to leave (TCP 3.5: the host has 30 s at most).
pub const LINGER_TIMEOUT_MS: u64 = 2_000;
/// Outstanding commands may take this long at shutdown.
pub const SHUTDOWN_TIMEOUT_MS: u64 = 10_000;
/// Time that hosts are asked to wait for a reset or a shutdown, in milliseconds (CAP.TO, RTD3E). It takes as long as the slowest
/// command that the storage has: a disk that recovers a sector may need 30 s, and so does an image whose cluster is silent
/// (`CEPH_OPERATION_TIMEOUT_MS`). A host that gives up before comes back while its old commands may still be carried out.
pub const CONTROLLER_QUIESCE_MS_MAX: u64 = 60_000;
/// The longest keep alive time-out that our host asks for, in milliseconds: a day; more would keep dead hosts for good. A
/// host that asks for more gets it, as one does that wants none at all, and is counted.
pub const KEEP_ALIVE_MS_USUAL: u32 = 24 * 3600 * 1000;
/// A discovery controller whose host wants no keep alive ends after so much silence in milliseconds: the two minutes
/// that the specification gives it (Base 3.1.3.3), so that hosts that ask once and stay leave nothing behind.
pub const DISCOVERY_IDLE_MS_MAX: u64 = 120_000;
/// Largest keep alive time-out of a discovery controller in milliseconds: hosts that stay connected for events say 30 s.
pub const DISCOVERY_KEEP_ALIVE_MS_MAX: u32 = 600_000;
/// Default of the Keep Alive Timer feature in milliseconds: the two minutes that transports with keep alive have (Base
/// 5.1.25.1.8). The timer itself begins with the value of Connect.
pub const KEEP_ALIVE_MS_DEFAULT: u32 = 120_000;
/// Granularity of the keep alive timer in units of 100 ms (KAS): 1 s.
pub const KEEP_ALIVE_GRANULARITY_100MS: u16 = 10;

/// The least that is received into: a record of TLS that has come whole, and the beginning of another.
pub const SCRATCH_LENGTH_MIN: usize = 32 << 10;
/// Bytes a reactor receives with one call, over all connections.
pub const RECEIVE_LENGTH: usize = 256 << 10;
/// Bytes of a data PDU from which on it is received straight to where it goes: a call for each
/// costs less than copying it. PDUs of simulations are short, and some have as many.
pub const LARGE_DATA_LENGTH_MIN: usize = if cfg!(feature = "simulation") { 2 << 10 } else { 32 << 10 };
/// Bytes received behind a large data PDU with the same call: the next header, or a hundred
/// commands. Data of the next large PDU among them is copied.
pub const RECEIVE_AHEAD_LENGTH: usize = if cfg!(feature = "simulation") { 1 << 10 } else { 8 << 10 };
/// Receive calls one connection gets before the others have their turn.
pub const RECEIVE_BUDGET: usize = 8;
/// Turns that connections which are not queues yet get in one round of a reactor: each costs some ten microseconds, and
/// thousands come at once after a restart, which the queues that are there must not notice.
pub const GREETINGS_PER_ROUND: usize = 4;
/// Bytes that a connection may have copied, compared or checked in one of its turns: some hundred microseconds, after which the
/// others of its reactor have theirs. A few bytes of command can ask for 16 MiB (`COPY_LENGTH_MAX`). Connections that have work left
/// share it in the rounds that follow, a `WORK_PIECE` each at least, so that a host gets no more of a reactor by more queues.
pub const WORK_BYTES_PER_TURN: u64 = 1 << 20;
/// The least that is worked on at a time, so that a turn's last bytes are not a piece of their own.
pub const WORK_PIECE: u64 = 64 << 10;
/// Bytes that are zeroed in the time in which one is copied: pages are given back, not written.
pub const ZEROED_BYTES_PER_WORK_BYTE: u64 = 4;
/// A peer whose first round trip took at most this, in microseconds, is near: on this machine, or almost. The loopback takes
/// 5 to 40, and is what was measured; a switch and two NICs take more, and may need the larger buffer when they are busy.
pub const NEAR_PATH_RTT_US_MAX: u32 = 20;
/// Bytes a socket to a near peer keeps until they are acknowledged; the kernel counts what keeping them costs, and doubles
/// this for it. A connection then carries at least 26 GB/s where a round trip takes as long as it may, and what it keeps
/// fits a processor's own cache. With half of it, 128 KiB reads and writes were a twentieth fewer, with more of it a tenth.
pub const NEAR_PATH_SEND_BUFFER_LENGTH: usize = 512 << 10;
/// Parts of one vectored send: far below the system's 1,024, enough for 64 reads.
pub const SEND_PARTS_MAX: usize = 128;
/// Bytes queued for sending at which a connection takes no more commands: its host does not read what it asked for.
pub const SEND_BYTES_MAX: usize = 4 << 20;
/// The same of a connection that is not a queue yet: refusals of its commands, of which a conforming host causes none. Some
/// thousand such connections of strangers who do not read keep less than a hundred megabytes.
pub const HALF_OPEN_SEND_BYTES_MAX: usize = 16 << 10;
/// Bytes queued for sending at which a connection sends before it works on through what it has received: the host takes
/// the first answers while the next are made. As many 4 KiB reads as one send takes: with half of them, sends took so much more
/// of the target's time that it did 5 % fewer reads, and a third fewer where bbr paced them.
pub const SEND_BATCH_BYTES: usize = 256 << 10;
/// A reader of a page of a memory namespace that a writer waits for lets the writer go first for this long, in microseconds: a
/// few send calls of those who read it meanwhile. Without it many readers of one page could keep a writer out.
pub const WRITERS_FIRST_US: u64 = 200;
/// Entries of a reactor's submission ring.
pub const RING_ENTRIES: u32 = 512;
/// Storage operations that wait at most to be submitted together while their reactor works on: enough to share the cost of a system
/// call, a tenth of each one's own, and few enough that the first is not held up for long (some microseconds each).
pub const STORES_WAITING_MAX: usize = 8;
/// Time a ring polls before it sleeps, at most, in microseconds: twice as long as a fast disk and the network to it take.
/// `--poll-us` sets it; at `POLL_USUAL_US` and below, windows do not follow the time that events take, and above this all
/// waits of that time are polled for.
pub const POLL_US_MAX: u64 = 200;
/// Time a ring polls at most where events come within half of it, or far too late to poll for; twice that in a trial of polling,
/// and nothing where polling has not paid.
pub const POLL_USUAL_US: u64 = 50;
/// Longest waits that are polled for from their beginning, in wake-ups of this machine: polling saves one, and takes the core for at
/// most this many times as long.
pub const POLL_WHOLE_WAKE_UPS: u64 = 3;
/// Longest waits with a timed sleep and polling at their end, in wake-ups of this machine: longer ones would become shorter by less
/// than an eighth.
pub const POLL_END_WAKE_UPS: u64 = 8;
/// Bytes of the largest storage operation that takes about as long as one of a block.
pub const POLL_SMALL_LENGTH_MAX: usize = 16 << 10;
/// Cost of a wake-up in microseconds, from its event until the thread runs, that a ring assumes at least: cores that never rest
/// take less.
pub const WAKE_UP_US_MIN: u64 = 5;
/// The same, at most: a thread that takes longer has waited for others on its core.
pub const WAKE_UP_US_MAX: u64 = 100;
/// Time a ring polls at most while storage has `STORES_BUSY` operations or more. Storage works on while the reactor sleeps, so that
/// a late wake-up costs no throughput, and what polling for longer takes of the processor buys nothing.
pub const POLL_BUSY_US_MAX: u64 = 15;
/// Operations with which storage is busy: with fewer it may be idle by the time the first answers bring new commands.
pub const STORES_BUSY: usize = 8;
/// Threads that do storage calls where io_uring is not available, for each reactor.
pub const STORAGE_THREADS: usize = 5;
/// Threads of these that one file or device may occupy: one that hangs leaves a thread to all others.
pub const STORAGE_THREADS_PER_FILE: usize = 4;
const _: () = assert!(STORAGE_THREADS_PER_FILE < STORAGE_THREADS);
/// The longest that connecting to a Ceph cluster may take, in milliseconds, and any request to its monitors after that.
pub const CEPH_CONNECT_TIMEOUT_MS: u64 = 10_000;
/// Time for which a target that starts waits for its images, in milliseconds, before it listens without those that are not
/// available: long enough for hundreds on a healthy cluster, and for a killed target's connections to be shut out; shorter
/// than a cluster needs to miss one whose connections are unknown, for which the other images must not wait.
pub const CEPH_OPENING_PATIENCE_MS: u64 = 5_000;
/// Delay of the next attempt after a connection to a Ceph cluster failed, in milliseconds.
pub const CEPH_RECONNECT_MS: u64 = 3_000;
/// A queue may have this many times its entries as slots, when the storage still has commands that were given up, each time up to
/// the whole queue: images go over to another connection at most that often within a command's time, and then the queue ends.
pub const GIVEN_UP_SLOTS_FACTOR: usize = 4;
/// A connection whose commands were too late is silent when it does not answer one more question within this time, in milliseconds:
/// a cluster that is only slow does, and hosts have waited for much longer by then.
pub const CEPH_SILENCE_MS: u64 = 3_000;
/// Another connection in place of a silent one has to be there in so long, in milliseconds, or the next is tried: the system
/// waits longer with each time it sends again, and what is new begins at once.
pub const CEPH_REPLACEMENT_TIMEOUT_MS: u64 = 3_000;
/// The least time from one such try to the next, in milliseconds, where the system refuses at once; and what the silent one has
/// in the end to be answered as well, when a cluster answers all again.
pub const CEPH_REPLACEMENT_INTERVAL_MS: u64 = 1_000;
/// Time for which a connection that must no longer be used stays on the cluster's blocklist, in seconds: a year, since a process
/// that was stopped may go on at any time after, with what it had begun there.
pub const CEPH_FENCE_S: u32 = 365 * 24 * 3600;
/// Connections that are put on a cluster's blocklist at a time: the monitors take all that have come as one change of their map.
pub const CEPH_FENCES_AT_ONCE: usize = 32;
/// Time for which the connections of a target that was killed stay on the cluster's blocklist, in seconds: an hour, as when
/// Ceph's library breaks a lock. Its process is gone with its sockets, so nothing more can come than what is still on its way.
pub const KILLED_TARGET_FENCE_S: u32 = 3600;
/// Connections to Ceph clusters that a target keeps the addresses of, those of killed ones included, and then the oldest go:
/// more than a machine has memory and threads for, and a file that is written within milliseconds.
pub const CEPH_CONNECTIONS_KEPT_MAX: usize = 4096;
/// Operations of a connection to a Ceph cluster that may be under way. Over it the library makes its caller wait, which
/// must not happen to a reactor: it is more than all queues of all hosts may have.
pub const CEPH_OPERATIONS_PENDING_MAX: u64 = 1 << 24;
/// Bytes of the same: each NVMe connection's own limit holds long before.
pub const CEPH_BYTES_PENDING_MAX: u64 = 1 << 40;
/// Threads on which a connection to a Ceph cluster takes its operations' ends, unless Ceph's configuration has another number
/// (`librados_thread_count`). Ceph's own two wake each other for nearly every operation, and take half again the time for it; a
/// target that needs more than one thread has more connections, each with one.
pub const CEPH_CONNECTION_THREADS: u32 = 1;
/// Pairs of one object in a Ceph cluster that are read: the cluster gives no more at a time (osd_max_omap_entries_per_request),
/// and what is read in two parts may be of two times.
pub const CEPH_PAIRS_MAX: u64 = 1024;
/// Gateways of a group: the number of ranges of `GATEWAY_CONTROLLERS` identifiers below those that are reserved.
pub const GATEWAYS_MAX: u16 = 31;
/// Controllers that a gateway of a group may give identifiers to: more than `CONTROLLERS_MAX`, so that one comes back as
/// late as possible.
pub const GATEWAY_CONTROLLERS: u16 = 2048;
/// Interval of a gateway's heartbeats, and of its looks at those of others, in milliseconds.
pub const GATEWAY_BEAT_MS: u64 = 500;
/// Time without heartbeats after which a gateway is given up by the others, in milliseconds, and gives up its groups itself. With
/// up to two beats until it is noticed, the blocklist and the locks, hosts are served again within 5 s.
pub const GATEWAY_LEASE_MS: u64 = 2_500;
/// Gap between two looks, in milliseconds, after which another gateway has to be silent for a whole lease again to be given up.
pub const GATEWAY_LOOK_GAP_MS_MAX: u64 = 1_500;
/// A gateway that was gone has to live for this long, in milliseconds, before its groups are given back: one that fails again
/// at once would take them with it.
pub const GATEWAY_RETURN_MS: u64 = 4_000;
/// An operation on the objects that gateways share may take so long, in milliseconds: what takes longer is tried again, and
/// a lease allows for two such.
pub const GATEWAY_OPERATION_TIMEOUT_MS: u64 = 1_000;
/// Operations on the objects that gateways share that have to be late in a row until a gateway makes another connection: the
/// system waits with sending again for about as long as a network was cut, and what is new begins at once.
pub const GATEWAY_LATE_MAX: usize = 3;
/// Time in which another connection has to be there, in milliseconds: each try begins the system's waits again.
pub const GATEWAY_CONNECT_TIMEOUT_MS: u64 = 3_000;
/// Attempts at a change of what gateways share when others come first: each fails only because
/// another's has succeeded, and there are no more than `GATEWAYS_MAX`.
pub const GATEWAY_CHANGE_TRIES: usize = 64;
/// Time for which a gateway that announces a change waits for answers, in milliseconds: others see it with their next beat.
pub const GATEWAY_NOTIFY_TIMEOUT_MS: u64 = 1_000;
/// Time for which a gateway whose lease has ended waits for what its storage has under way, in milliseconds. Then its hosts are
/// sent elsewhere, where by that time another gateway may serve them.
pub const GATEWAY_GIVE_UP_MS: u64 = 500;
/// Interval at which a gateway publishes the hosts that are at it, and reads what others publish, in milliseconds: to name a host
/// that has no path to one of them is not urgent, and the cluster has other work.
pub const GATEWAY_PRESENCE_MS: u64 = 5_000;
/// Hosts that a gateway publishes as present, by a number of 64 bits each: 20 KiB, which is written
/// when it changes. Of one that has more, the missing hosts are unknown.
pub const GATEWAY_HOSTS_REPORTED_MAX: usize = 1024;
/// Hosts that a gateway names because they have no path to another one.
pub const GATEWAY_UNREACHED_REPORTED_MAX: usize = 32;
/// Events of a group that a gateway keeps for later readers: a takeover of one load-balancing group is three, and a group of all
/// gateways that there may be is reported as a whole once when a gateway begins.
pub const GATEWAY_EVENTS_MAX: usize = 256;
/// Time without a path to a gateway after which a host is named, in milliseconds: Linux tries again
/// to connect every 10 s, and people connect to one address after the other.
pub const GATEWAY_UNREACHED_MS: u64 = 30_000;
/// Time for which a gateway that is to serve an image waits at a time until that is open, in
/// milliseconds. It decides nothing meanwhile, and has to be well within its lease.
pub const GATEWAY_OPENING_PATIENCE_MS: u64 = 500;
/// Time for which a gateway or target that gives images back waits for their cluster, in milliseconds: within a gateway's lease,
/// whose hosts have to learn that it serves no more when the cluster does not answer.
pub const CEPH_GIVE_BACK_PATIENCE_MS: u64 = 1_000;
/// Ports that a gateway publishes to the others: each gateway reads the records of all with every change of the group's state.
pub const GATEWAY_PORTS_REPORTED_MAX: usize = 16;
/// Connections for images that a gateway may have: all of them are put on the blocklist when it
/// dies, `CEPH_FENCES_AT_ONCE` at a time, and hosts wait for that. `IMAGES_PER_CLUSTER` images
/// share one, so that a subsystem full of images needs an eighth of it.
pub const GATEWAY_CONNECTIONS_MAX: usize = 1024;
/// Connections that a gateway may have closed until it puts them on the blocklist itself and forgets them: a next owner
/// has to shut out that many more, and one change of the cluster's map does for all.
pub const GATEWAY_CLOSED_MAX: usize = 32;
/// Time for which these stay on the blocklist, in seconds: they are closed, and what is left of
/// them in networks and OSDs is carried out or gone long before.
pub const GATEWAY_CLOSED_FENCE_S: u32 = 3600;
/// Resets of other gateways' controllers that a gateway answers at a time: a host asks for one per path that it has lost, and
/// of very many all others wait for as long as the lost gateway promised.
pub const GATEWAY_RESETS_MAX: usize = 1024;
/// Of these, resets of one host: as many as it may have controllers at the gateway that it has lost.
pub const GATEWAY_RESETS_PER_HOST_MAX: usize = CONTROLLERS_PER_HOST_MAX;
/// Resets that a gateway asks others for at a time: they are in each of its beats, some 200 bytes each.
pub const GATEWAY_RESETS_PASSED_MAX: usize = 64;
/// Time without hosts, in milliseconds, after which a gateway gives its groups to others that have
/// hosts. A host that has lost its connections comes back sooner than that when it can.
pub const GATEWAY_DESERTED_MS: u64 = 1_500;
/// Time without hosts, in milliseconds, after which it publishes that: two beats before it acts on
/// it, and no gateway gives it groups then.
pub const GATEWAY_DESERTED_REPORTED_MS: u64 = GATEWAY_DESERTED_MS - 2 * GATEWAY_BEAT_MS;
/// A host that has lost its way to a gateway waits so long for others to give that one up, in milliseconds: a lease, and what
/// fencing takes on a busy cluster. A gateway that lives then has only lost that host.
pub const GATEWAY_RESET_PATIENCE_MS: u64 = 10_000;
/// A gateway that ends gives its groups away in so long, in milliseconds; what is not done then the others do when its lease
/// has ended.
pub const GATEWAY_LEAVE_TIMEOUT_MS: u64 = 8_000;
/// The identifiers that controllers get (CNTLID; FFF0h and up are reserved, Base 5.1.13).
pub const CONTROLLER_IDS: std::ops::RangeInclusive<u16> = 1..=0xffef;
/// Images that share one connection to their cluster by default: ceph-nvmeof's number.
pub const IMAGES_PER_CLUSTER: usize = 32;
/// Time for which a command may wait for the cluster by default, in milliseconds: longer than the cluster needs to notice that
/// one of its members is gone, and no longer than the Linux kernel's host waits.
pub const CEPH_OPERATION_TIMEOUT_MS: u64 = 30_000;
/// Owners of an image's lock that are asked for: there is one, or, of a shared lock, a few.
pub const CEPH_LOCK_OWNERS_MAX: usize = 8;
/// Images of which one command may make snapshots at one moment: as many as can be made while writes are held.
pub const SNAPSHOT_IMAGES_MAX: usize = 256;
/// Longest time for which writes are held for that, in milliseconds: far below what hosts wait for a command.
pub const SNAPSHOT_HOLD_MS: u64 = 10_000;
/// Part of this time in which the other gateways of a group have to hold theirs, in milliseconds.
pub const SNAPSHOT_PAUSE_MS: u64 = 3_000;
/// Images that change hands at a time: each waits for its cluster, and the next owner of groups has seconds for hundreds.
pub const IMAGES_AT_A_TIME: usize = 16;
/// The longest that closing images may keep a target from ending, in milliseconds.
pub const CEPH_CLOSE_TIMEOUT_MS: u64 = 5_000;
/// Images that are closed at a time, a thread each: a new epoch closes all, and Ceph's library aborts where it gets no thread.
pub const CEPH_CLOSINGS_AT_ONCE: usize = 256;
/// Operations on a library's storage that a ring keeps to use again: as many as some full queues have.
pub const REMOTE_OPERATIONS_KEPT_MAX: usize = 4096;
/// Snapshots of an image that are reported: more than Ceph's own advice for one image.
pub const CEPH_SNAPSHOTS_MAX: usize = 4096;
/// Users of an image that are reported: gateways of a group, and an operator's `rbd` program.
pub const CEPH_WATCHERS_MAX: usize = 64;

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
    assert!(RECEIVE_AHEAD_LENGTH < LARGE_DATA_LENGTH_MIN, "most of a large payload is not copied");
    assert!(RECEIVE_LENGTH >= SCRATCH_LENGTH_MIN && SCRATCH_LENGTH_MIN > secure_channel::RECORD_BYTES_MAX);
    assert!(
        GATEWAYS_MAX as u32 * (GATEWAY_CONTROLLERS as u32) < 0xfff0,
        "identifiers from FFF0h on are reserved"
    );
    assert!(GATEWAY_CONTROLLERS as usize >= CONTROLLERS_MAX + DISCOVERY_CONTROLLERS_MAX + PROMISED_IDS_MAX);
    assert!(PROMISED_IDS_MAX >= 2 * PROMISED_IDS_PER_NETWORK_MAX, "no network takes more than half");
    assert!(PROMISED_IDS_PER_NETWORK_MAX >= CONTROLLERS_PER_HOST_MAX, "a host's paths may come at once");
    assert!(IDENTITIES_KEPT_MAX as u64 * (4096 + 64) < IDENTITIES_FILE_BYTES_MAX);
    assert!(GATEWAY_CONNECTIONS_MAX >= NAMESPACES_MAX as usize / IMAGES_PER_CLUSTER);
    assert!(
        16 + 32 * ANA_GROUPS_MAX as usize + 4 * NAMESPACES_MAX as usize <= BUFFER_LENGTH_MAX,
        "hosts read an ANA log in one command"
    );
    assert!(GATEWAY_LEASE_MS >= 2 * (GATEWAY_OPENING_PATIENCE_MS + GATEWAY_BEAT_MS));
    assert!(GATEWAY_LEASE_MS >= 2 * GATEWAY_OPERATION_TIMEOUT_MS + GATEWAY_BEAT_MS);
    assert!(GATEWAY_LOOK_GAP_MS_MAX >= 2 * GATEWAY_BEAT_MS && GATEWAY_LOOK_GAP_MS_MAX < GATEWAY_LEASE_MS);
    assert!(CROSS_RESET_ENTRIES <= nvme::log_page::CROSS_RESET_ENTRIES_MAX);
    assert!(2 * GATEWAY_RESETS_PER_HOST_MAX <= GATEWAY_RESETS_MAX, "a host leaves room to others");
    assert!(CROSS_RESETS_MAX as usize <= CROSS_RESET_ENTRIES);
    assert!(NAMED_HOSTS_RESERVE + CONTROLLERS_PER_HOST_MAX <= CONTROLLERS_PER_NETWORK_MAX);
    assert!(NAMED_HOSTS_RESERVE + CONTROLLERS_PER_NETWORK_MAX < CONTROLLERS_MAX);
    assert!(PROVED_HOSTS_RESERVE < NAMED_HOSTS_RESERVE && PROVED_QUEUES_SHARE > NAMED_QUEUES_SHARE);
    assert!(
        QUEUES_PER_HOST_MAX >= 32 * IO_QUEUES_MAX as usize && QUEUES_PER_NETWORK_MAX >= QUEUES_PER_HOST_MAX
    );
    assert!(CONTROLLER_QUIESCE_MS_MAX.is_multiple_of(500) && CONTROLLER_QUIESCE_MS_MAX / 500 <= 255);
    assert!(KEEP_ALIVE_MS_DEFAULT.is_multiple_of(KEEP_ALIVE_GRANULARITY_100MS as u32 * 100));
    assert!(CONTROLLER_QUIESCE_MS_MAX >= 2 * CEPH_OPERATION_TIMEOUT_MS);
    assert!(COMMAND_QUIESCE_MS <= COMMAND_QUIESCE_AUTO_MS_MAX);
    assert!(FREEZE_STALL_MS >= 2 * 200 && FREEZE_PATIENCE_MS >= 2 * FREEZE_STALL_MS);
    assert!(WRITE_DELAY_MS_MAX + WRITE_DELAY_MARGIN_MS <= u16::MAX as u32, "CQT has 16 bits");
};

/// Time for which a target that hands its hosts to another process waits for a host that sends and takes nothing of what it owes,
/// in milliseconds: the rest of a PDU, data that it was asked for, or data that it has asked for. All other hosts wait as long. A
/// host whose last segment was lost sends it again after its retransmission time-out, on Linux at least 200 ms: two of them fit.
pub const FREEZE_STALL_MS: u64 = 500;
/// Time for which it waits for hosts that send or take a little now and then, which are closed then, and for its storage, in
/// milliseconds: where that takes longer the target goes on, and nothing is handed over.
pub const FREEZE_PATIENCE_MS: u64 = 2000;
/// Time for which it tries to get its images' locks back when the new process is not to serve after all, in milliseconds. A
/// cluster that may not be asked to shut that one out notices within half a minute that it has ended.
pub const IMAGES_BACK_MS: u64 = 60_000;
