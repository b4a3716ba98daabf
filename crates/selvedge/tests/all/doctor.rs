//! `selvedge doctor` in networks of its own with one real fault each, which it is to name first, and in the same networks
//! without one, in which it is to name nothing; and on recordings of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use prerequisite::missing;
use serde_json::Value;

use crate::serving::{json, stderr};

/// Two machines with a cable, a target on the other one, and a look at it. `BEFORE` is done first, `TARGET` are further
/// flags of the target, `LOAD` is done in the background while `DOCTOR` looks. All know the target's process as `$target`.
const WORLD: &str = r#"
set -e
cd "$FOLDER"
# That of this network, and a place for records of queues.
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
there() { nsenter --net=/proc/$other/ns/net "$@"; }
here() { readlink /proc/self/ns/net; }
get() { curl --silent --fail --noproxy '*' --unix-socket control.sock "http://localhost/$1"; }
scrape() { date '+# AT %s.%N' && get metrics; }
unshare --net sleep 600 &
other=$!
for _ in $(seq 1200); do
    if [ "$(readlink /proc/$other/ns/net)" != "$(here)" ]; then break; fi
    sleep 0.02
done
for side in here there; do
    if [ $side = here ]; then enter=; else enter=there; fi
    $enter ip link set lo up
    $enter sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
done
ip link add h0 type veth peer name t0 netns $other
ip address add 10.0.0.1/24 dev h0
there ip address add 10.0.0.2/24 dev t0
ip link set h0 up
there ip link set t0 up
eval "$BEFORE"
nsenter --net=/proc/$other/ns/net selvedge serve -a 10.0.0.2 --allow-any-host -n "$NQN" --control unix:control.sock --reactors 1 $TARGET \
    >served 2>log &
target=$!
for _ in $(seq 1200); do
    if grep -q '^administered' served; then break; fi
    sleep 0.05
done
if [ -n "$LOAD" ]; then
    eval "$LOAD" >loaded 2>&1 &
    # The first connections, and a second of their traffic.
    sleep 2
fi
eval "$DOCTOR"
"#;

const NQN: &str = "nqn.2026-01.org.example:disks";
/// Few commands: what is looked for is not how fast this machine is.
const CALM: &str = "selvedge bench -a 10.0.0.2 -n $NQN --rw randread --rate_iops 200 --runtime 60";
/// More than a limit lets pass.
const LIMITED: &str = "selvedge namespace set $NQN 1 --iops 50 --control unix:control.sock
    selvedge bench -a 10.0.0.2 -n $NQN --rw randread --iodepth 8 --runtime 60";
/// Without the target's own word, which the control socket would give.
const MEASURE: &str = "selvedge doctor -a 10.0.0.2 -n $NQN --measure -o json";
const LOOK: &str = "selvedge doctor -a 10.0.0.2 --control unix:control.sock -o json";

/// Rules about the machine rather than network or target; other tests can trigger them.
const OF_THE_MACHINE: [&str; 3] = ["cpu-starvation", "stolen-cpu", "long-way"];

/// A network with a fault.
pub(crate) struct World {
    pub(crate) before: &'static str,
    pub(crate) target: &'static str,
    pub(crate) load: &'static str,
    pub(crate) doctor: &'static str,
}

impl Default for World {
    fn default() -> Self {
        Self { before: "", target: "--namespace memory:64m", load: CALM, doctor: LOOK }
    }
}

impl World {
    pub(crate) fn run(&self, folder: &Path) -> Output {
        let bin = Path::new(env!("CARGO_BIN_EXE_selvedge")).parent().expect("it is in a folder");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut world = Command::new("unshare");
        let own = ["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc"];
        world.args(own).args(["--kill-child", "sh", "-c", WORLD]);
        world.env("FOLDER", folder).env("PATH", path).env("NQN", NQN).env_remove("XDG_RUNTIME_DIR");
        world.env("BEFORE", self.before).env("TARGET", self.target).env("LOAD", self.load);
        world.env("DOCTOR", self.doctor).stdin(Stdio::null()).output().expect("unshare runs")
    }

    /// Findings, without those about the machine.
    pub(crate) fn findings(&self) -> Vec<Value> {
        let folder = tempfile::tempdir().expect("a folder");
        let output = self.run(folder.path());
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert_eq!(output.status.code(), Some(0), "{}\n{log}", stderr(&output));
        findings(&json(&output))
    }

    /// Returns the first finding, which has to be of this rule.
    #[track_caller]
    pub(crate) fn names_first(&self, rule: &str) -> Value {
        let found = self.findings();
        assert_eq!(found.first().map(|first| &first["rule"]), Some(&rule.into()), "{found:#?}");
        let first = found[0].clone();
        assert!(first["evidence"].as_array().is_some_and(|evidence| !evidence.is_empty()), "{first}");
        first
    }
}

pub(crate) fn findings(report: &Value) -> Vec<Value> {
    let all = report["findings"].as_array().expect("a list");
    let is_here = |finding: &&Value| OF_THE_MACHINE.iter().any(|rule| finding["rule"] == *rule);
    all.iter().filter(|finding| !is_here(finding)).cloned().collect()
}

/// True if such networks can be made here.
pub(crate) fn can_run() -> bool {
    let tried = World {
        target: "--namespace memory:1m",
        load: "",
        doctor: "ip -j link show h0 && tc -V",
        ..World::default()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let is_made = tried.run(folder.path()).status.success();
    if !is_made {
        missing("no namespaces of its own can be made here, or there is no `ip` or `tc`");
    }
    is_made
}

#[test]
fn a_network_without_a_fault_has_none() {
    if !can_run() {
        return;
    }
    let idle = World { load: "", ..World::default() };
    let large =
        World { before: "ip link set h0 mtu 9000 && there ip link set t0 mtu 9000", ..World::default() };
    let queued = World { before: "tc qdisc add dev h0 root pfifo limit 1000", ..World::default() };
    let measured = World { load: "", doctor: MEASURE, ..World::default() };
    let all = [
        ("idle", idle),
        ("calm", World::default()),
        ("large", large),
        ("queued", queued),
        ("measured", measured),
    ];
    for (name, world) in all {
        assert_eq!(world.findings(), [] as [Value; 0], "{name}");
    }
}

#[test]
fn a_rate_on_the_way_out_is_named() {
    if !can_run() {
        return;
    }
    let found = World {
        before: "tc qdisc add dev h0 root tbf rate 20mbit burst 32k latency 50ms",
        load: "selvedge bench -a 10.0.0.2 -n $NQN --rw write --bs 64k --iodepth 8 --destroy-data --runtime 60",
        ..World::default()
    }
    .names_first("queueing-limit");
    assert_eq!((&found["severity"], &found["subject"]), (&"limits".into(), &"h0".into()), "{found}");
    assert!(
        found["cause"].as_str().is_some_and(|cause| cause.contains("tbf of h0 lets 2.50 MB/s pass")),
        "{found}"
    );
}

#[test]
fn strict_source_validation_is_named() {
    if !can_run() {
        return;
    }
    // Answers come in by another cable than the one that packets to the target leave by.
    let found = World {
        before: "
            ip link add h1 type veth peer name t1 netns $other
            ip address add 10.0.1.1/24 dev h1
            there ip address add 10.0.1.2/24 dev t1
            there ip address add 10.9.9.9/32 dev lo
            ip link set h1 up
            there ip link set t1 up
            ip route add 10.9.9.9 via 10.0.0.2
            there ip route add 10.0.0.1 via 10.0.1.1
            there sysctl -qw net.ipv4.conf.all.arp_announce=2
            sysctl -qw net.ipv4.conf.h1.rp_filter=1",
        target: "-a 10.9.9.9 --namespace memory:1m",
        load: "",
        doctor: "selvedge doctor -a 10.9.9.9 --control unix:control.sock -o json",
    }
    .names_first("strict-rp-filter");
    assert_eq!((&found["severity"], &found["subject"]), (&"outage".into(), &"h1".into()), "{found}");
}

#[test]
fn a_second_path_that_cannot_work_is_named() {
    if !can_run() {
        return;
    }
    // Two cables to one network, of which one has the route; each answers for its own address only.
    let found = World {
        before: "
            ip link add h1 type veth peer name t1 netns $other
            there ip address del 10.0.0.2/24 dev t0
            there ip link add br0 type bridge
            for port in t0 t1; do there ip link set $port master br0 up; done
            there ip address add 10.0.0.2/24 dev br0
            there ip link set br0 up
            ip address add 10.0.0.5/24 dev h1
            ip link set h1 up
            sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.h1.rp_filter=1
            sleep 1",
        ..World::default()
    }
    .names_first("strict-rp-filter");
    assert_eq!((&found["severity"], &found["subject"]), (&"may-cost".into(), &"h1".into()), "{found}");
}

#[test]
fn packets_of_another_size_are_named() {
    if !can_run() {
        return;
    }
    let by_route = World {
        before: "ip link set h0 mtu 9000 && ip route add 10.0.0.2 dev h0 mtu 1400",
        load: "",
        ..World::default()
    };
    let found = by_route.names_first("path-mtu");
    assert!(
        found["cause"].as_str().is_some_and(|cause| cause.contains("1400 bytes, and h0 has 9000")),
        "{found}"
    );
    let by_peer = World { before: "ip link set h0 mtu 9000", ..World::default() };
    let found = by_peer.names_first("path-mtu");
    assert!(found["cause"].as_str().is_some_and(|cause| cause.contains("takes segments of 1448")), "{found}");
}

#[test]
fn large_packets_that_vanish_are_named() {
    if !can_run() {
        return;
    }
    // The other end says that it takes large packets, and does not; what lies between drops them in silence. What one call
    // sends as one piece would pass.
    let found = World {
        before: "
            ip link del h0
            unshare --net sleep 600 &
            between=$!
            for _ in $(seq 1200); do
                if [ \"$(readlink /proc/$between/ns/net)\" != \"$(here)\" ]; then break; fi
                sleep 0.02
            done
            between() { nsenter --net=/proc/$between/ns/net \"$@\"; }
            ip link add h0 mtu 9000 gso_max_segs 1 type veth peer name m0 mtu 9000 netns $between
            between ip link add m1 mtu 9000 type veth peer name t0
            between ip link set t0 netns $other
            between ip link add br0 mtu 9000 type bridge
            for port in m0 m1 br0; do between ip link set $port up; done
            for port in m0 m1; do between ip link set $port master br0; done
            ip address add 10.0.0.1/24 dev h0
            there ip address add 10.0.0.2/24 dev t0
            ip link set h0 up
            there ip link set t0 up
            there ip route change 10.0.0.0/24 dev t0 advmss 8948",
        load: "selvedge bench -a 10.0.0.2 -n $NQN --rw write --bs 64k --iodepth 4 --destroy-data --runtime 60",
        ..World::default()
    }
    .names_first("path-mtu");
    assert_eq!((&found["severity"], &found["subject"]), (&"outage".into(), &"h0".into()), "{found}");
}

#[test]
fn a_limit_of_a_namespace_is_named() {
    if !can_run() {
        return;
    }
    let found =
        World { load: LIMITED, ..World::default() }.is_reported("namespace-limit", &["SelvedgeLimitReached"]);
    let command = format!("selvedge namespace set {NQN} 1 --iops none --control unix:control.sock");
    assert_eq!(found["commands"][0], command, "{found}");
}

#[test]
fn reads_that_are_measured_tell_where_their_time_goes() {
    if !can_run() {
        return;
    }
    let limited = "selvedge namespace set $NQN 1 --iops 50 --control unix:control.sock >/dev/null
        selvedge doctor -a 10.0.0.2 --measure -o json -- -q nqn.2026-01.org.example:host";
    let folder = tempfile::tempdir().expect("a folder");
    let output = World { load: "", doctor: limited, ..World::default() }.run(folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    let found = findings(&report);
    assert_eq!(found.first().map(|first| &first["rule"]), Some(&"slow-answers".into()), "{found:#?}");
    assert_eq!(found[0]["severity"], "limits", "{found:#?}");
    // The subsystem is the only one that the target shows.
    assert_eq!(report["measured"]["subnqn"], NQN);
    let runs = report["measured"]["runs"].as_array().expect("a list");
    let depths: Vec<&Value> = runs.iter().map(|run| &run["iodepth"]).collect();
    assert_eq!(depths, [1, 32], "{runs:#?}");
    for run in runs {
        assert!(run["iops"].as_f64().is_some_and(|iops| (1.0..200.0).contains(&iops)), "{run:#}");
        assert!(run["target_stages"]["limits_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{run:#}");
    }
}

#[test]
fn nothing_is_written_to_be_measured() {
    for (arguments, said) in [
        (&["-a", "127.0.0.1", "--measure", "--", "--rw", "randwrite"][..], "cannot be used multiple times"),
        (&["-a", "127.0.0.1", "--measure", "--", "job.fio"], "not a job file"),
        (&["-a", "127.0.0.1", "--measure", "--", "--no-such"], "--no-such"),
        (&["--measure"], "--traddr"),
        (&["-a", "127.0.0.1", "--", "--hdr-digest"], "--measure"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        let output = command.arg("doctor").args(arguments).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_target_that_is_not_there_is_named() {
    if !can_run() {
        return;
    }
    let closed = World { load: "", doctor: "selvedge doctor -a 10.0.0.2 -s 9 -o json", ..World::default() };
    let found = closed.names_first("unreachable");
    assert!(found["cause"].as_str().is_some_and(|cause| cause.contains("Connection refused")), "{found}");
    let no_way = World { load: "", doctor: "selvedge doctor -a 192.0.2.1 -o json", ..World::default() };
    assert!(
        no_way.names_first("unreachable")["cause"].as_str().is_some_and(|cause| cause.contains("no route"))
    );
    let absent = World { load: "", doctor: "selvedge doctor -a 10.0.0.77 -o json", ..World::default() };
    absent.names_first("unreachable");
}

#[test]
fn a_host_with_a_wrong_key_is_named() {
    if !can_run() {
        return;
    }
    let found = World {
        // Each failure delays the next attempt: they are counted from the first on.
        load: "scrape >first || true
            for key in right wrong; do selvedge key generate --output $key.key; done
            selvedge host set-key $NQN nqn.2026-01.org.example:host --dhchap-secret-file right.key \\
                --control unix:control.sock
            while :; do
                selvedge list -a 10.0.0.2 -n $NQN -q nqn.2026-01.org.example:host \\
                    --dhchap-secret-file wrong.key || sleep 0.1
            done",
        ..World::default()
    }
    .is_reported("refused-host", &["SelvedgeHostNotAuthenticated"]);
    assert!(found["cause"].as_str().is_some_and(|cause| cause.contains("another secret")), "{found}");
}

#[test]
fn a_host_that_does_not_read_is_named() {
    if !can_run() {
        return;
    }
    let found = World {
        // What waits does not fit into the buffers of the host's kernel.
        before: "sysctl -qw net.ipv4.tcp_rmem='4096 16384 65536'",
        load: "selvedge bench -a 10.0.0.2 -n $NQN --rw read --bs 128k --iodepth 64 --runtime 60 &
            bench=$!
            sleep 1
            kill -STOP $bench
            wait $bench",
        ..World::default()
    }
    .is_reported("host-not-reading", &["SelvedgeHostNotReading"]);
    assert_eq!(found["severity"], "limits", "{found}");
}

#[test]
fn a_full_disk_is_named() {
    if !can_run() {
        return;
    }
    let found = World {
        before: "mkdir full && mount -t tmpfs -o size=1m tmpfs full",
        target: "--namespace file:full/disk.img,size=64m",
        load: "while :; do
                selvedge bench -a 10.0.0.2 -n $NQN --rw write --bs 64k --destroy-data --runtime 5 || sleep 0.1
            done",
        ..World::default()
    }
    .is_reported("namespace-down", &["SelvedgeStorageFull"]);
    assert!(found["cause"].as_str().is_some_and(|cause| cause.contains("is full")), "{found}");
}

#[test]
fn a_path_that_loses_packets_is_named() {
    if !can_run() {
        return;
    }
    // A policer of the other end's: what is more than its rate is dropped.
    let found = World {
        before: "there tc qdisc add dev t0 root tbf rate 50mbit burst 16k limit 24k",
        load: "selvedge bench -a 10.0.0.2 -n $NQN --rw randread --bs 64k --iodepth 4 --runtime 60",
        ..World::default()
    }
    .is_reported("lossy-path", &["SelvedgePathLossy"]);
    assert!(found["cause"].as_str().is_some_and(|cause| cause.contains("had to be sent again")), "{found}");
}

#[test]
fn one_slower_link_of_two_is_named() {
    if !can_run() {
        return;
    }
    let found = World {
        before: "
            ip link add h1 type veth peer name t1 netns $other
            ip address add 10.0.1.1/24 dev h1
            there ip address add 10.0.1.2/24 dev t1
            ip link set h1 up
            there ip link set t1 up
            there tc qdisc add dev t1 root tbf rate 20mbit burst 32k latency 200ms",
        target: "-a 10.0.1.2 --namespace memory:64m",
        load: "selvedge bench -a 10.0.0.2 -a 10.0.1.2 -n $NQN --rw randread --iodepth 8 --iopolicy round-robin \\
            --runtime 60",
        ..World::default()
    }
    .is_reported("slower-path", &["SelvedgePathSlower"]);
    assert!(found["evidence"][0].as_str().is_some_and(|seen| seen.contains("10.0.1.1:")), "{found}");
}

#[test]
fn a_host_with_an_old_tls_key_is_named() {
    if !can_run() {
        return;
    }
    let host = "nqn.2026-01.org.example:host";
    let found = World {
        load: "selvedge key generate --tls --output tls.key
            selvedge host set-key $NQN nqn.2026-01.org.example:host --tls-key-file tls.key --control unix:control.sock
            selvedge bench -a 10.0.0.2 -n $NQN -q nqn.2026-01.org.example:host --tls-key-file tls.key --tls-compat \\
                --rw randread --rate_iops 200 --runtime 60",
        ..World::default()
    }
    .is_reported("old-tls-key", &["SelvedgeHostTlsOld"]);
    assert_eq!(found["subject"], host, "{found}");
}

/// Recordings of networks as above, the address of the target in each, and what is to be named first.
const RECORDED: [(&str, &str, Option<&str>); 7] = [
    // One queue of a card that has two, and a processor for its worker alone.
    ("busy-worker", "10.0.0.2", Some("busy-worker")),
    ("healthy", "10.0.0.2", None),
    ("namespace-limit", "10.0.0.2", Some("namespace-limit")),
    ("path-mtu", "10.0.0.2", Some("path-mtu")),
    ("queueing-limit", "10.0.0.2", Some("queueing-limit")),
    ("small-buffers", "10.0.0.2", Some("small-buffers")),
    ("strict-rp-filter", "10.9.9.9", Some("strict-rp-filter")),
];

fn recording(name: &str) -> PathBuf {
    format!("{}/fixtures/doctor/{name}.recording", env!("CARGO_MANIFEST_DIR")).into()
}

fn recorded_findings(file: &Path, address: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["doctor", "-a", address, "-o", "json", "--sysroot"]).arg(file);
    findings(&json(&command.stdin(Stdio::null()).output().expect("the program runs")))
}

#[test]
fn recorded_faults_are_named_on_any_machine() {
    for (name, address, rule) in RECORDED {
        let found = recorded_findings(&recording(name), address);
        let first = found.first().and_then(|finding| finding["rule"].as_str());
        assert_eq!(first, rule, "{name}: {found:#?}");
    }
}

#[test]
fn a_recorded_worker_is_busy_only_where_it_is_known_to_have_waited_little() {
    let recorded = std::fs::read_to_string(recording("busy-worker")).expect("it can be read");
    let file = tempfile::NamedTempFile::new().expect("a file");
    // Polling for most of the second, and a process that does not publish the time.
    for (from, to) in [(":73000000", ":773000000"), ("\"waited\":", "\"unknown\":")] {
        assert!(recorded.contains(from), "{from}");
        std::fs::write(file.path(), recorded.replace(from, to)).expect("it can be written");
        let found = recorded_findings(file.path(), "10.0.0.2");
        assert!(found.iter().all(|finding| finding["rule"] != "busy-worker"), "{to}: {found:#?}");
    }
}

#[test]
fn what_a_recording_does_not_have_is_not_a_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in topology::sample::NAMES {
        let machine = topology::sample::topology(name).expect("there is such a machine");
        let file = folder.path().join(name);
        std::fs::write(&file, topology::sample::recording(&machine).to_string()).expect("it can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["doctor", "-o", "json", "--sysroot"]).arg(&file);
        let report = json(&command.stdin(Stdio::null()).output().expect("the program runs"));
        let rules: Vec<&Value> =
            report["findings"].as_array().expect("a list").iter().map(|finding| &finding["rule"]).collect();
        // They are the tuner's, with queues that it would place otherwise, and nothing else was recorded.
        assert!(rules.iter().all(|rule| *rule == "queue-placement"), "{name}: {rules:?}");
        let unseen = report["not_looked_at"].as_array().expect("a list");
        assert!(
            unseen.iter().any(|what| what["what"] == "what happens within a second"),
            "{name}: {report:#}"
        );
    }
}

#[test]
fn a_recording_has_the_same_findings() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let world = World {
        before: "ip link set h0 mtu 9000",
        load: LIMITED,
        doctor:
            "selvedge doctor -a 10.0.0.2 --control unix:control.sock -o json --record machine --page page.html
            selvedge doctor -a 10.0.0.2 --sysroot machine -o json >again
            selvedge doctor -a 10.0.0.2 --sysroot machine >text",
        ..World::default()
    };
    let live = json(&world.run(folder.path()));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("it was written");
    let again: Value = serde_json::from_str(&read("again")).expect("JSON");
    assert_eq!(findings(&live).len(), 2, "{live:#}");
    assert_eq!(live["findings"], again["findings"]);
    let (text, page) = (read("text"), read("page.html"));
    for part in ["A limit holds back", "remedy", "selvedge namespace set", "h0 could send packets of 9000"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80 || line.starts_with("   command")), "{text}");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("A limit holds back"));
}

#[test]
fn an_earlier_report_says_what_is_mended() {
    if !can_run() {
        return;
    }
    let report = World {
        before: "ip link set h0 mtu 9000 && ip route add 10.0.0.2 dev h0 mtu 1400",
        load: "",
        doctor: "selvedge doctor -a 10.0.0.2 -o json >earlier
            ip route del 10.0.0.2 && ip link set h0 mtu 1500
            selvedge doctor -a 10.0.0.2 -o json --before earlier",
        ..World::default()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let report = json(&report.run(folder.path()));
    let rules = |of: &str| -> Vec<Value> {
        report["since"][of]
            .as_array()
            .expect("a list")
            .iter()
            .map(|finding| finding["rule"].clone())
            .filter(|rule| OF_THE_MACHINE.iter().all(|other| rule != other))
            .collect()
    };
    assert_eq!(rules("gone"), ["path-mtu"], "{report:#}");
    assert!(!rules("still").contains(&"path-mtu".into()));
}

#[test]
fn errors_in_flags_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("wrong.json");
    std::fs::write(&wrong, "{}").expect("it can be written");
    let wrong = wrong.to_str().expect("UTF-8");
    for (arguments, text) in [
        (&["doctor", "--sysroot", "missing"][..], "--sysroot missing"),
        (&["doctor", "--before", "missing"], "--before missing"),
        (&["doctor", "--before", wrong], "selvedge doctor -o json"),
        (&["doctor", "--sysroot", "/proc/self/status", "--control", "unix:a"], "cannot be used with"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        let output = command.args(arguments).stdin(Stdio::null()).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(text), "{arguments:?}: {}", stderr(&output));
    }
}
