//! The system calls that a target makes, by what they are for, as traces of it show (strace -f), and what C libraries make
//! instead on other machines. A call that is missing here fails with EPERM.

use libc::c_long;

/// Condition on an argument of a call, by its position.
pub(super) enum Limit {
    OneOf(u8, &'static [u64]),
    /// The flag has to be set.
    With(u8, u64),
    /// The flag has to be clear.
    Without(u8, u64),
    /// The number of this process.
    ThisProcess(u8),
}

/// Memory. Making it executable is in `LIMITED`.
const MEMORY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    libc::SYS_mlock,
    libc::SYS_mremap,
    libc::SYS_munlock,
    libc::SYS_munmap,
];

/// Threads, and the processors that they run on. Starting one is in `LIMITED`.
const THREADS: &[c_long] = &[
    // Made to seem missing by a filter of its own.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
];

/// Signals. Sending them is in `LIMITED`.
const SIGNALS: &[c_long] = &[
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
];

/// Clocks and sleep.
const CLOCKS: &[c_long] = &[
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
];

/// Files, folders and disks, and what is known of them.
const FILES: &[c_long] = &[
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statx,
    libc::SYS_sync_file_range,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Rings of operations, and waiting for descriptors.
const WAITING: &[c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_ppoll,
];

/// Sockets. Making one is in `LIMITED`.
const NETWORK: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
];

/// The process itself: who it is, what it uses, and random numbers; and whether the next one of an upgrade lives.
const PROCESS: &[c_long] =
    &[libc::SYS_geteuid, libc::SYS_getrandom, libc::SYS_getuid, libc::SYS_pidfd_open, libc::SYS_uname];

/// Older names for the same, which other architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_stat,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// Calls of every target.
pub(super) const TARGET: &[&[c_long]] =
    &[MEMORY, THREADS, SIGNALS, CLOCKS, FILES, WAITING, NETWORK, PROCESS, OLDER];

/// Further calls of `attach`: look-ups of names, which are repeated when paths are connected again, standard output of the previous
/// process, connections that another process has heard, and the rights to make devices.
pub(super) const ATTACH: &[c_long] = &[
    libc::SYS_capget,
    libc::SYS_dup3,
    libc::SYS_getegid,
    libc::SYS_getgid,
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
];

/// The same, in part, for block devices: their caches are written back before they are removed.
pub(super) const BLOCK_DEVICES: &[(c_long, Limit)] = &[(libc::SYS_ioctl, Limit::OneOf(1, &[BLKFLSBUF]))];

/// Further calls of librados and librbd. Loading them and their plugins takes executable memory.
pub(super) const CEPH: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_capget,
    libc::SYS_close_range,
    libc::SYS_dup3,
    libc::SYS_fchdir,
    libc::SYS_fchownat,
    libc::SYS_fgetxattr,
    libc::SYS_get_mempolicy,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrusage,
    libc::SYS_ioprio_get,
    libc::SYS_ioprio_set,
    libc::SYS_linkat,
    libc::SYS_mincore,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_msync,
    libc::SYS_pselect6,
    libc::SYS_recvmmsg,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sendmmsg,
    libc::SYS_set_mempolicy,
    libc::SYS_setpriority,
    libc::SYS_statfs,
    libc::SYS_sysinfo,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_times,
    libc::SYS_truncate,
    libc::SYS_umask,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_create,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_eventfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getrlimit,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// Calls for running `ip`, in this process and in it.
pub(super) const PROGRAMS: &[c_long] = &[
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_chdir,
    libc::SYS_clone,
    libc::SYS_dup3,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_getegid,
    libc::SYS_getgid,
    libc::SYS_getpgid,
    libc::SYS_getppid,
    libc::SYS_getrusage,
    libc::SYS_kill,
    libc::SYS_linkat,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_pidfd_send_signal,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_sendmmsg,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_statfs,
    libc::SYS_sysinfo,
    libc::SYS_umask,
    libc::SYS_wait4,
    libc::SYS_waitid,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getpgrp,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getrlimit,
];

/// Calls of which a target makes only some.
pub(super) const LIMITED: &[(c_long, Limit)] = &[
    // A thread, not a process.
    (libc::SYS_clone, Limit::With(0, libc::CLONE_THREAD as u64)),
    // Terminals, sockets and disks: sizes and modes; names of interfaces, for mDNS.
    (
        libc::SYS_ioctl,
        Limit::OneOf(
            1,
            &[
                TCGETS,
                TIOCGWINSZ,
                TIOCOUTQ,
                FIONBIO,
                FIONREAD,
                FIOCLEX,
                BLKSSZGET,
                BLKGETSIZE64,
                SIOCGIFNAME,
                SIOCGIFINDEX,
            ],
        ),
    ),
    // Memory that is not executed: an intruder's code is not either.
    (libc::SYS_mmap, Limit::Without(2, libc::PROT_EXEC as u64)),
    (libc::SYS_mprotect, Limit::Without(2, libc::PROT_EXEC as u64)),
    (libc::SYS_prctl, Limit::OneOf(0, &[libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, PR_SET_VMA])),
    // Its own limits.
    (libc::SYS_prlimit64, Limit::OneOf(0, &[0])),
    (
        libc::SYS_socket,
        Limit::OneOf(
            0,
            &[libc::AF_UNIX as u64, libc::AF_INET as u64, libc::AF_INET6 as u64, libc::AF_NETLINK as u64],
        ),
    ),
    // Its own end: abort().
    (libc::SYS_tgkill, Limit::ThisProcess(0)),
];

/// Test for a terminal (asm-generic/ioctls.h); libc has these constants with another type for each
/// C library.
const TCGETS: u64 = 0x5401;
const TIOCOUTQ: u64 = 0x5411;
const TIOCGWINSZ: u64 = 0x5413;
const FIONREAD: u64 = 0x541b;
const FIONBIO: u64 = 0x5421;
const FIOCLEX: u64 = 0x5451;
/// Names and numbers of interfaces (linux/sockios.h).
const SIOCGIFNAME: u64 = 0x8910;
const SIOCGIFINDEX: u64 = 0x8933;
/// Bytes of a disk's sector (linux/fs.h).
const BLKSSZGET: u64 = 0x1268;
/// Writes a disk's cache back (linux/fs.h).
const BLKFLSBUF: u64 = 0x1261;
/// Bytes of a disk (linux/fs.h).
const BLKGETSIZE64: u64 = 0x8008_1272;
/// Names a range of memory, for /proc/PID/maps; glibc does since 2.38 (linux/prctl.h).
const PR_SET_VMA: u64 = 0x5356_4d41;
