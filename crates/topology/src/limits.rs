//! How much of a machine is looked at, and for how long: each limit with its reason.

/// Processors of a machine that are distinguished: more than Linux can be built for on any
/// architecture in use.
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
/// Queues that a process's record of its own may have: those of a hundred controllers with 128 I/O queues each, as many as a
/// host with 127 processors asks for.
pub const RECORDED_QUEUES_MAX: usize = 100 * 128;
/// Records of the kernel's log that are read: the largest buffer in use has 16 MiB of records of 256 bytes.
pub const KERNEL_LOG_RECORDS_MAX: usize = 1 << 16;
/// Bytes of a record of the kernel's log, which is never longer.
pub const KERNEL_RECORD_BYTES_MAX: usize = 8192;
/// Queueing disciplines that are read: one for each transmit queue of a few large cards.
pub const QUEUEINGS_MAX: usize = 1 << 14;
/// Addresses of this machine that are read: a machine with more has containers, whose addresses carry no storage.
pub const ADDRESSES_MAX: usize = 1 << 14;
