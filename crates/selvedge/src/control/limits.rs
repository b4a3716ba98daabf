//! Every limit of the control API, with its reason. The limits of what is served are the engine's.

use std::time::Duration;

/// Bytes of a request's body: the largest configuration anybody writes by hand is far below, and a client cannot make
/// this process remember more.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;
/// Bytes of a request's head: a path has two names of 223 bytes at most, tripled where they are percent-encoded.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Connections at a time: tools and a metrics collector or two; more are closed at once, so that none of them takes
/// file descriptors from hosts.
pub(super) const CONNECTIONS_MAX: usize = 32;
/// Changes and questions under way at a time, each on a thread: one that opens a slow disk leaves room for others to
/// ask how things are.
pub(super) const THREADS_MAX: usize = 16;
/// Those of them that may take long, because they change something or ask a cluster; more wait without a thread, so that
/// whoever asks how things are always finds one.
pub(super) const SLOW_MAX: usize = 12;
/// Tasks under way at a time: each loads its cluster with all that it can take.
pub(super) const TASKS_RUNNING_MAX: usize = 8;
/// Tasks that are remembered, with those under way.
pub(super) const TASKS_KEPT_MAX: usize = 64;
/// A request waits so long for the task it has started, and then leaves it to itself.
pub(super) const TASK_PATIENCE: Duration = Duration::from_secs(45);
/// An operation of a cluster may take so long that is done for a request, which consists of a few.
pub(super) const CEPH_OPERATION_TIMEOUT_MS: u64 = 20_000;
/// An image that a removed namespace was on is no longer used: its closing takes this long at most, and other
/// gateways follow.
pub(super) const IMAGE_RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client has this long to send its request's head, from connecting on.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A client has this long to send its request's body: the largest one, over the slowest link worth having.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// One connection has one request, and ends after this at the latest, even if its client does not read: long enough for
/// a change that opens many files and waits for outstanding commands.
pub(super) const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);
/// Requests under way may take this long when the target is shut down.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of an access file: a few hundred entries.
pub(super) const ACCESS_FILE_BYTES_MAX: u64 = 256 << 10;
/// Connections of one network at a time, where they come by TCP: others find a place beside somebody who takes all it can.
pub(super) const CONNECTIONS_PER_NETWORK_MAX: usize = 16;
/// A client has this long to end its TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a file of certificates or a key: what a system trusts has a quarter of that.
pub(super) const PEM_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a line of the audit log.
pub(super) const AUDIT_LINE_BYTES_MAX: u64 = 256 << 10;
/// Bytes of a request, and of what it changed, that a line of the audit log has: larger ones are told by their size.
pub(super) const AUDIT_PART_BYTES_MAX: usize = 64 << 10;
/// Failed logins, refused Connects, and hosts and administrators that are refused something, each, that have a line of the audit
/// log in a minute: a crowd of them must not fill a disk.
pub(super) const REFUSED_PER_MINUTE_MAX: u32 = 60;
/// Bytes of a token file: nobody types more, and it might be the wrong file.
pub(super) const TOKEN_BYTES_MAX: u64 = 4096;
/// Characters of a token: fewer could be found by trying.
pub(super) const TOKEN_LENGTH_MIN: usize = 16;
/// Bytes of an answer a client of ours reads: a configuration at every limit of the engine.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A client of ours waits this long for an answer: longer than the other side takes for one.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(150);

const _: () = {
    assert!(CONNECTION_TIMEOUT.as_secs() > HEAD_TIMEOUT.as_secs() + BODY_TIMEOUT.as_secs());
    assert!(CONNECTIONS_PER_NETWORK_MAX < CONNECTIONS_MAX);
    assert!(AUDIT_LINE_BYTES_MAX as usize > 2 * AUDIT_PART_BYTES_MAX + 16_384, "a line has room for both");
    assert!(SLOW_MAX < THREADS_MAX, "a question finds a thread");
    assert!(CONNECTION_TIMEOUT.as_secs() > BODY_TIMEOUT.as_secs() + TASK_PATIENCE.as_secs());
    assert!(TASKS_KEPT_MAX > TASKS_RUNNING_MAX);
    assert!(ANSWER_TIMEOUT.as_secs() > CONNECTION_TIMEOUT.as_secs());
    assert!(HEAD_BYTES_MAX > 2 * 3 * nvme::discovery::NQN_BYTES_MAX + 8192, "hyper's buffer has a minimum");
};
