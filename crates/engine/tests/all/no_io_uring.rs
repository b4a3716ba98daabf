//! A container's usual seccomp profile refuses io_uring: a target started there takes epoll by itself, and serves.

use crate::raw_host::{Kind, SPACES, TestTarget, pattern};
use engine::ring::{Engine, Ring, RingOptions};

/// The system call by which a ring is made, the same number on all architectures.
const IO_URING_SETUP: u32 = 425;

/// Refuses `io_uring_setup` to the calling thread, and to all it starts, as container runtimes do.
#[allow(unsafe_code)]
fn forbid_io_uring() {
    let instruction = |code: u32, jump_if: u8, jump_else: u8, value: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_if,
        jf: jump_else,
        k: value,
    };
    // Load the number of the system call; if it is the one, fail with EPERM; else go on.
    let program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, IO_URING_SETUP),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: both calls read their arguments only, and the program outlives them; they change what this thread may ask
    // of the kernel, and no memory.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) != 0
    };
    assert!(!refused, "seccomp: {}", std::io::Error::last_os_error());
}

#[test]
fn a_target_without_io_uring_serves_by_epoll() {
    // A thread of its own: what is forbidden stays forbidden.
    let tried = std::thread::spawn(|| {
        forbid_io_uring();
        let options = |engine| RingOptions { engine, poll_us_max: 0 };
        assert!(Ring::new(options(Engine::IoUring)).is_err(), "it is forbidden");
        let ring = Ring::new(options(Engine::Automatic)).expect("epoll is always there");
        assert_eq!(ring.engine_name(), "epoll");

        let (_target, _host, mut queue) = TestTarget::with_queue(Engine::Automatic);
        for space in SPACES {
            let data = pattern(64 << 10, 1);
            assert!(queue.write(space, 0, &data, false).status.is_success());
            let reply = queue.read(space, 0, (64 << 10) / space.block);
            assert!(reply.status.is_success());
            assert!(space.kind == Kind::Null || reply.data == data, "what was written is read");
        }
    });
    tried.join().expect("served without io_uring");
}
