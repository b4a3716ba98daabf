//! Every limit of the control API, with its reason. The limits of what is served are the engine's.

use std::time::Duration;

/// Bytes of a request's body: a configuration of a subsystem with all the namespaces that it may
/// have takes some 1.5 MB where each is an image, and a client cannot make this process remember
/// more.
pub(super) const BODY_BYTES_MAX: usize = 4 << 20;
/// Bytes of a call of ceph-nvmeof's service: the longest has two names and two keys.
pub(super) const CALL_BYTES_MAX: usize = 64 << 10;
/// Attempts of a call whose basis other calls change meanwhile: one of them succeeds each time, and one connection makes 16 at a
/// time.
pub(super) const CALL_ATTEMPTS_MAX: usize = 16;
/// Calls at a time by one connection: a program that administers makes one after the other.
pub(super) const CALLS_PER_CONNECTION_MAX: u32 = 16;
/// A client of that service that is silent is asked this often whether it is there, and has this long to say so: a program
/// that is gone must not keep its permit for a connection.
pub(super) const CALLER_PING_INTERVAL: Duration = Duration::from_secs(30);
pub(super) const CALLER_PING_TIMEOUT: Duration = Duration::from_secs(20);
/// A client of that service that makes no call for this long is disconnected, and connects again when it makes one: longer than
/// any call takes.
pub(super) const CALLER_IDLE_MAX: Duration = Duration::from_secs(600);
/// Bytes of a request's head: a path has two names of 223 bytes at most, tripled where they are percent-encoded.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Connections at a time: tools and a metrics collector or two. With more, the oldest that has not identified itself is closed, or
/// the one that comes, so that none of them takes file descriptors from hosts.
pub(super) const CONNECTIONS_MAX: usize = 32;
/// Connections beyond, of root and the target's own user: the operator can always look.
pub(super) const CONNECTIONS_KEPT: usize = 8;
/// Changes and questions under way at a time, each on a thread: one that opens a slow disk leaves room for others to
/// ask how things are.
pub(super) const THREADS_MAX: usize = 16;
/// Concurrent requests that may take long, because they change something or ask a cluster; more of
/// them wait without a thread, which leaves threads for quick ones.
pub(super) const SLOW_MAX: usize = 12;
/// Of these, requests of callers below the role `admin`, and below `operate`: an administrator need not wait for others.
pub(super) const SLOW_BELOW_ADMIN_MAX: usize = 9;
pub(super) const SLOW_BELOW_OPERATE_MAX: usize = 6;
/// Users of the machine whose names are looked up at a time: a directory service that is silent holds a thread for each.
pub(super) const LOOK_UPS_MAX: usize = 2;
/// Tasks under way at a time: each loads its cluster with all that it can take.
pub(super) const TASKS_RUNNING_MAX: usize = 12;
/// Of these, those for callers that have no other: who has tasks of hours is not in the way of a short one.
pub(super) const TASKS_RESERVE: usize = 4;
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
/// Duration of a connection, which has one request, even if its client does not read: long enough
/// for a change that opens many files and waits for outstanding commands.
pub(super) const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval of looks for their end.
pub(super) const SHUTDOWN_LOOK: Duration = Duration::from_millis(10);
/// Requests under way may take this long when the target is shut down.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for metrics of attached disks, which change nothing: a silent client must not keep the process of detached disks.
pub(super) const HOST_METRICS_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);
/// Bytes of an access file: a few hundred entries.
pub(super) const ACCESS_FILE_BYTES_MAX: u64 = 256 << 10;
/// Connections at a time of one user of the machine, or of one network: others get a permit beside a party that takes all it
/// can.
pub(super) const CONNECTIONS_PER_PARTY_MAX: usize = 16;
/// Bytes of responses that clients of one party have not read, and of all parties but operators. A
/// party may have one response that is larger. Beside two parties that read nothing of smaller ones
/// there is room for the largest.
pub(super) const UNREAD_BYTES_PER_PARTY_MAX: usize = 32 << 20;
pub(super) const UNREAD_BYTES_MAX: usize = 128 << 20;
/// The same of a listener for metrics alone, which may be open to all. The numbers of a scrape are
/// held, and not its text: some MB, and 48 MiB at every limit of the engine.
pub(super) const METRICS_UNREAD_BYTES_PER_PARTY_MAX: usize = 8 << 20;
pub(super) const METRICS_UNREAD_BYTES_MAX: usize = 64 << 20;
/// Duration of a connection there: Prometheus ends a scrape within its interval, by default a minute.
pub(super) const METRICS_CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a response that is given in any case: a refusal takes hardly less, and would hide another
/// one.
pub(super) const UNREAD_BYTES_FREE: u64 = 16 << 10;
/// A client has this long to end its TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a file of certificates or a key: what a system trusts has a quarter of that.
pub(super) const PEM_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a line of the audit log.
pub(super) const AUDIT_LINE_BYTES_MAX: u64 = 256 << 10;
/// Bytes of the audit log's end that are read for an answer, and records in it: as many as a reader
/// needs.
pub(super) const AUDIT_TAIL_BYTES_MAX: u64 = 1 << 20;
pub(super) const AUDIT_TAIL_RECORDS_MAX: usize = 200;
/// Bytes of a request, and of its changes, on a line of the audit log; larger ones are replaced by
/// their size.
pub(super) const AUDIT_PART_BYTES_MAX: usize = 64 << 10;
/// Bytes of the method and path on it, and of a reason: the longest path has two names, percent-encoded. A caller without a token
/// chooses the path, sixty times a minute.
pub(super) const AUDIT_TEXT_BYTES_MAX: usize = 2048;
/// Failed logins, refused Connects, and hosts and administrators that are refused something, each, that have a line of the audit
/// log in a minute: a crowd of them must not fill a disk.
pub(super) const REFUSED_PER_MINUTE_MAX: u32 = 60;
/// The longest delay of the refusal of a wrong token: it holds a permit for a connection as long.
pub(super) const REFUSAL_DELAY_MAX: Duration = Duration::from_secs(2);
/// Bytes of a token file: no token is as long, and a longer file is probably the wrong one.
pub(super) const TOKEN_BYTES_MAX: u64 = 4096;
/// Characters of a token: fewer could be found by trying.
pub(super) const TOKEN_LENGTH_MIN: usize = 16;
/// Live viewers at a time. Each has a connection as long as it looks, and half of one network's
/// connections are left for requests.
pub(super) const VIEWERS_MAX: usize = 8;
/// Events that wait for one viewer; one that does not read misses others. All viewers share the bytes of an event.
pub(super) const VIEWER_EVENTS_MAX: usize = 4;
/// A viewer looks this long and then asks again: by then a token that has expired or was revoked is refused.
pub(super) const VIEW_DURATION: Duration = Duration::from_secs(60);
/// Interval between two events of a live viewer.
pub(super) const LIVE_TICK: Duration = Duration::from_secs(1);
/// Duration of a step of the history: the steps of an hour fit side by side on a screen.
pub(super) const LIVE_HISTORY_STEP: Duration = Duration::from_secs(5);
/// Steps that are kept: an hour, of 0.5 KiB each.
pub(super) const HISTORY_POINTS_MAX: usize = 720;
/// Bytes of one history's histograms of stages, 96 for each step: two or three stages with the
/// usual buckets, of reads and writes. Where there are more, the oldest steps lose theirs.
pub(super) const HISTORY_STAGES_BYTES_MAX: usize = 96 * HISTORY_POINTS_MAX;
/// Namespaces that have a history of their own: all of them together take 12 MiB at most.
pub(super) const HISTORY_NAMESPACES_MAX: usize = 32;
/// Time after the last viewer at which sampling ends: as long as the history is kept.
pub(super) const LIVE_LINGER: Duration = Duration::from_secs(3600);
/// Namespaces of one event, the busiest: some 600 bytes each.
pub(super) const LIVE_NAMESPACES_MAX: usize = 256;
/// Namespaces and queues that viewers get one by one: some 500 KB and 300 KB.
pub(super) const ROSTER_NAMESPACES_MAX: usize = 1024;
pub(super) const ROSTER_QUEUES_MAX: usize = 2048;
/// Interval at which the rules of `doctor` judge the target for viewers: they read all of its
/// metrics.
pub(super) const FINDINGS_INTERVAL: Duration = Duration::from_secs(10);
/// Two looks that are closer say little about what happens, and less than a second of a tick may be left of one.
pub(super) const LOOK_AGE_MIN: Duration = Duration::from_millis(900);
/// Age of a look at which it no longer describes the present.
pub(super) const LOOK_AGE_MAX: Duration = Duration::from_secs(60);
/// Sweeps that are kept, in all and of one caller: two weeks of nightly ones, and room for others
/// beside a caller with as many. All of them together take 8 MiB at most.
pub(super) const SWEEPS_MAX: usize = 32;
pub(super) const SWEEPS_PER_CALLER_MAX: usize = 14;
/// Points of a published sweep, and bytes of all of it: 1 KiB a point, of which most take a third.
pub(super) const SWEEP_POINTS_MAX: usize = 256;
pub(super) const SWEEP_BYTES_MAX: usize = 256 << 10;
/// Bytes of a text in it: three lines of a terminal.
pub(super) const SWEEP_TEXT_BYTES_MAX: usize = 256;
/// Bytes of a sweep's name: as many as an NQN may have.
pub(super) const SWEEP_NAME_BYTES_MAX: usize = nvme::discovery::NQN_BYTES_MAX;
/// A sweep that runs says something within this time, in seconds: no measurement takes a day.
pub(super) const SWEEP_QUIET_MAX_S: f64 = 86_400.0;
/// Interval between two looks at the machine's packet paths, on request; longer if a look takes
/// long.
pub(super) const PATHS_INTERVAL: Duration = Duration::from_secs(10);
pub(super) const PATHS_AGE_MAX: Duration = Duration::from_secs(60);
/// Connections whose packet paths are listed one by one: some 1.5 MB.
pub(super) const PATHS_SHOWN_MAX: usize = ROSTER_QUEUES_MAX;
/// Findings about a target's health: more would not be read, and they are sent each second.
pub(super) const FINDINGS_MAX: usize = 32;
/// Bytes of an answer a client of ours reads: a configuration at every limit of the engine.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A client of ours waits this long for an answer: longer than the other side takes for one.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(150);
/// The same for the new process of a target that is handed over to listen: it does as soon as it serves hosts.
pub(super) const NEW_PROCESS_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of a client's requests meanwhile.
pub(super) const NEW_PROCESS_INTERVAL: Duration = Duration::from_millis(50);

const _: () = {
    assert!(CONNECTION_TIMEOUT.as_secs() > HEAD_TIMEOUT.as_secs() + BODY_TIMEOUT.as_secs());
    assert!(CONNECTIONS_PER_PARTY_MAX < CONNECTIONS_MAX);
    assert!(2 * UNREAD_BYTES_PER_PARTY_MAX + ANSWER_BYTES_MAX <= UNREAD_BYTES_MAX);
    assert!(2 * METRICS_UNREAD_BYTES_PER_PARTY_MAX + (48 << 20) <= METRICS_UNREAD_BYTES_MAX);
    assert!(2 * METRICS_UNREAD_BYTES_MAX <= UNREAD_BYTES_MAX);
    assert!(METRICS_CONNECTION_TIMEOUT.as_secs() > HEAD_TIMEOUT.as_secs() + BODY_TIMEOUT.as_secs());
    assert!(AUDIT_LINE_BYTES_MAX as usize > 2 * AUDIT_PART_BYTES_MAX + 16_384, "a line has room for both");
    assert!(AUDIT_TEXT_BYTES_MAX > 2 * 3 * nvme::discovery::NQN_BYTES_MAX, "a path is recorded whole");
    assert!(AUDIT_TAIL_BYTES_MAX > 2 * AUDIT_LINE_BYTES_MAX, "the longest line is returned whole");
    assert!(SLOW_MAX + LOOK_UPS_MAX < THREADS_MAX, "a question finds a thread");
    assert!(SLOW_BELOW_OPERATE_MAX < SLOW_BELOW_ADMIN_MAX && SLOW_BELOW_ADMIN_MAX < SLOW_MAX);
    assert!(CONNECTION_TIMEOUT.as_secs() > BODY_TIMEOUT.as_secs() + TASK_PATIENCE.as_secs());
    assert!(TASKS_KEPT_MAX > TASKS_RUNNING_MAX && TASKS_RUNNING_MAX > TASKS_RESERVE);
    assert!(CALLER_IDLE_MAX.as_secs() > 2 * CONNECTION_TIMEOUT.as_secs(), "no call is cut off");
    assert!(VIEW_DURATION.as_secs() < CONNECTION_TIMEOUT.as_secs(), "a viewer's time ends in order");
    assert!(2 * VIEWERS_MAX <= CONNECTIONS_PER_PARTY_MAX, "requests get a permit beside viewers");
    assert!(LIVE_LINGER.as_secs() == LIVE_HISTORY_STEP.as_secs() * HISTORY_POINTS_MAX as u64);
    assert!(
        2 * FINDINGS_INTERVAL.as_secs() < LOOK_AGE_MAX.as_secs(),
        "a look is compared with the one before"
    );
    assert!(2 * SWEEPS_PER_CALLER_MAX < SWEEPS_MAX, "two callers do not take all places");
    assert!(SWEEP_BYTES_MAX >= SWEEP_POINTS_MAX * 1024 && SWEEP_BYTES_MAX < BODY_BYTES_MAX);
    assert!(ANSWER_TIMEOUT.as_secs() > CONNECTION_TIMEOUT.as_secs());
    assert!(HEAD_BYTES_MAX > 2 * 3 * nvme::discovery::NQN_BYTES_MAX + 8192, "hyper's buffer has a minimum");
};
