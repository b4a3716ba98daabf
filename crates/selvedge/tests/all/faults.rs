//! Faults on real processes with all that reports them: `selvedge doctor`, the findings of the target's console, and alerts by
//! the rules for Prometheus. Look-alikes are reported by none of them.

use std::collections::BTreeMap;
use std::process::Command;

use prerequisite::{available, run};
use serde_json::{Value, json};

use crate::doctor::{World, can_run, findings};
use crate::serving::{self, stderr};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus/selvedge.rules.yaml");

/// Doctor between two scrapes, after the first commands, and the console. `LOAD` may have made the first scrape.
const WATCH: &str = "
    if ! [ -e first ]; then
        for _ in $(seq 600); do
            if get metrics | grep -q '^selvedge_commands_total{.* [1-9]'; then break; fi
            sleep 0.05
        done
        scrape >first
    fi
    selvedge doctor -a 10.0.0.2 --control unix:control.sock -o json
    scrape >second
    get v1/findings >shown";

/// Alert that other tests can raise: on a busy machine TCP repeats a segment that was not lost, and one in a second of few
/// commands is many.
const OF_THE_MACHINE: &str = "SelvedgePathLossy";
/// Seconds between two scrapes of Prometheus.
const INTERVAL_S: f64 = 30.0;

/// Reports of doctor and console, and the scrapes around them.
struct Watched {
    doctor: Vec<Value>,
    console: Vec<Value>,
    first: String,
    second: String,
}

impl Watched {
    fn new(world: &World) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let output = World { doctor: WATCH, ..*world }.run(folder.path());
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        assert_eq!(output.status.code(), Some(0), "{}\n{}", stderr(&output), read("log"));
        let console: Value = serde_json::from_str(&read("shown")).expect("JSON");
        Self {
            doctor: findings(&serving::json(&output)),
            console: findings(&console),
            first: read("first"),
            second: read("second"),
        }
    }

    /// Asserts that these alerts are raised, each once, and no others, if counters of a new target grow for twenty minutes as
    /// they did between the scrapes.
    #[track_caller]
    fn raises(&self, alerts: &[&str]) {
        let sample = |alert: &&str| json!({ "labels": format!("{{alertname=\"{alert}\"}}"), "value": 1 });
        let expected: Vec<Value> = alerts.iter().map(sample).collect();
        let ignored = if alerts.contains(&OF_THE_MACHINE) { "" } else { OF_THE_MACHINE };
        // Those that were raised at some time.
        let raised = format!(
            "count by (alertname) (count_over_time(ALERTS{{alertstate=\"firing\",alertname!=\"{ignored}\"}}[30m]))"
        );
        let test = json!({ "rule_files": [RULES], "evaluation_interval": "30s", "tests": [{
            "interval": "30s",
            "input_series": self.series(),
            "promql_expr_test": [{ "expr": raised, "eval_time": "30m", "exp_samples": expected }],
        }] });
        let folder = tempfile::tempdir().expect("a folder");
        // JSON is YAML.
        let file = folder.path().join("test.yaml");
        std::fs::write(&file, test.to_string()).expect("it can be written");
        let output =
            Command::new("promtool").args(["test", "rules"]).arg(&file).output().expect("promtool runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", stderr(&output));
    }

    /// Series in the notation of `promtool`: nothing for ten minutes, then the values with their growth.
    fn series(&self) -> Vec<Value> {
        let (first, second) = (Scrape::of(&self.first), Scrape::of(&self.second));
        let seconds = second.at_s - first.at_s;
        assert!(seconds > 0.0 && second.samples.len() > 50, "{}", self.second);
        let series = second.samples.iter().map(|(&series, value)| {
            let (family, labels) = series.split_once('{').unwrap_or((series, "}"));
            let is_gauge = second.kinds.get(family) == Some(&"gauge");
            let before = first.samples.get(series).filter(|_| !is_gauge).unwrap_or(value);
            let step = (value - before) / seconds * INTERVAL_S;
            let name = format!("{family}{{job=\"selvedge\",instance=\"a\",{labels}");
            json!({ "series": name, "values": format!("_x20 {value}+{step}x40") })
        });
        series.collect()
    }
}

/// Time of a scrape, kinds of its metrics, and its samples by series.
#[derive(Default)]
struct Scrape<'a> {
    at_s: f64,
    kinds: BTreeMap<&'a str, &'a str>,
    samples: BTreeMap<&'a str, f64>,
}

impl<'a> Scrape<'a> {
    fn of(text: &'a str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines() {
            if let Some(at_s) = line.strip_prefix("# AT ") {
                scrape.at_s = at_s.parse().expect("seconds");
            } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|of| of.split_once(' '))
            {
                scrape.kinds.insert(name, kind);
            } else if !line.starts_with('#')
                && let Some((series, value)) = line.rsplit_once(' ')
            {
                scrape.samples.insert(series, value.parse().expect("a number"));
            }
        }
        scrape
    }
}

/// True if a target can be watched as consoles and Prometheus do.
fn can_watch() -> bool {
    ["curl", "promtool"].iter().all(|name| available(name, run(name, &["--version"])).is_some())
}

impl World {
    /// Asserts that doctor and console name this rule first, and that these alerts are raised and no others. Returns doctor's
    /// finding.
    #[track_caller]
    pub(crate) fn is_reported(&self, rule: &str, alerts: &[&str]) -> Value {
        if !can_watch() {
            return self.names_first(rule);
        }
        let watched = Watched::new(self);
        for found in [&watched.doctor, &watched.console] {
            assert_eq!(found.first().map(|first| &first["rule"]), Some(&rule.into()), "{found:#?}");
            let evidence = found[0]["evidence"].as_array();
            assert!(evidence.is_some_and(|evidence| !evidence.is_empty()), "{found:#?}");
        }
        watched.raises(alerts);
        watched.doctor[0].clone()
    }

    /// Asserts that nothing is reported.
    #[track_caller]
    fn is_well(&self) {
        if !can_watch() {
            assert_eq!(self.findings(), [] as [Value; 0]);
            return;
        }
        let watched = Watched::new(self);
        let Watched { doctor, console, .. } = &watched;
        assert!(doctor.is_empty() && console.is_empty(), "{doctor:#?} {console:#?}");
        watched.raises(&[]);
    }
}

/// Two namespaces, of which both are used.
const TWO: &str = "--namespace memory:64m --namespace memory:64m";

/// A target whose reactor is at its limit on any machine: it has one processor with its hosts, and gets what they leave, so that
/// commands always wait for it. The hosts are these commands, which begin with `$bench`.
macro_rules! overloaded {
    ($hosts:literal) => {
        World {
            target: TWO,
            load: concat!(
                "cpu=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/self/status)
                reactor=$(grep -lx reactor-0 /proc/$target/task/*/comm | cut -d/ -f5)
                chrt --idle --pid 0 $reactor
                taskset --cpu-list --pid $cpu $reactor
                bench='selvedge bench -a 10.0.0.2 -n '$NQN' --rw randread --poll-us 0 --runtime 60'
                bench=\"taskset --cpu-list $cpu $bench\"
                ",
                $hosts
            ),
            ..World::default()
        }
    };
}

#[test]
fn a_hot_namespace_is_reported() {
    if !can_run() {
        return;
    }
    let found = overloaded!("$bench --nsid 2 --rate_iops 50 & $bench --nr-io-queues 2 --iodepth 32")
        .is_reported("hot-namespace", &["SelvedgeNamespaceHot", "SelvedgeReactorBusy"]);
    assert!(found["cause"].as_str().is_some_and(|cause| cause.starts_with("namespace 1 ")), "{found}");
}

#[test]
fn a_busy_reactor_whose_namespaces_share_it_is_reported() {
    if !can_run() {
        return;
    }
    overloaded!("$bench --nsid 2 --iodepth 32 & $bench --iodepth 32")
        .is_reported("busy-reactor", &["SelvedgeReactorBusy"]);
}

#[test]
fn a_namespace_with_most_of_the_commands_is_well_on_a_target_with_room() {
    if !can_run() {
        return;
    }
    World {
        target: TWO,
        load: "bench='selvedge bench -a 10.0.0.2 -n '$NQN' --rw randread --runtime 60'
            $bench --nsid 2 --rate_iops 5 &
            $bench --nsid 1 --rate_iops 500",
        ..World::default()
    }
    .is_well();
}

/// A target whose storage takes this many microseconds longer for each Flush. Those of io_uring are not system calls, which alone
/// can be delayed.
macro_rules! flushing {
    ($late_us:literal) => {
        World {
            before: "mkdir disks && mount -t tmpfs tmpfs disks",
            target: "--namespace file:disks/disk,size=16m --engine epoll",
            load: concat!(
                "strace -qq -f -p $target -o /dev/null -e trace=fdatasync -e inject=fdatasync:delay_exit=",
                $late_us,
                " &
                for _ in $(seq 1200); do
                    if grep -q '^TracerPid:.*[1-9]' /proc/$target/status; then break; fi
                    sleep 0.02
                done
                selvedge bench -a 10.0.0.2 -n $NQN --rw randwrite --iodepth 2 --fsync 4 --rate_iops 100 \\
                    --destroy-data --runtime 60"
            ),
            ..World::default()
        }
    };
}

#[test]
fn a_late_flush_is_reported() {
    if !can_run() || available("strace", run("strace", &["-V"])).is_none() {
        return;
    }
    let found = flushing!("200000").is_reported("late-flush", &["SelvedgeFlushLate"]);
    assert_eq!(found["severity"], "slows", "{found}");
    flushing!("1000").is_well();
}

/// A machine with the counters of one whose hypervisor takes processors away, for this part of the remaining time. A test cannot
/// take them.
macro_rules! stolen {
    ($part:literal) => {
        World {
            before: "mkdir real && mount -t proc proc real
                cat real/stat >stat && mount --bind stat /proc/stat
                base=$(awk '$1 == \"cpu\" { for (i = 2; i <= 8; i++) all += $i; print all }' real/stat)",
            load: concat!(
                "while :; do
                    awk -v base=$base -v part=",
                $part,
                " '
                        $1 == \"cpu\" { for (i = 2; i <= 8; i++) all += $i; $9 = int((all - base) * part) }
                        { print }' real/stat | dd of=stat bs=1M iflag=fullblock conv=notrunc status=none
                    sleep 0.05
                done"
            ),
            ..World::default()
        }
    };
}

#[test]
fn stolen_time_is_named_unless_it_is_little() {
    if !can_run() {
        return;
    }
    let rules = |world: World| {
        let folder = tempfile::tempdir().expect("a folder");
        let report = serving::json(&world.run(folder.path()));
        let found = report["findings"].as_array().expect("a list").clone();
        found.into_iter().map(|finding| finding["rule"].clone()).collect::<Vec<Value>>()
    };
    let rules_of_a_victim = rules(stolen!("20"));
    assert_eq!(rules_of_a_victim.first(), Some(&"stolen-cpu".into()), "{rules_of_a_victim:?}");
    let rules_of_a_neighbour = rules(stolen!("0.02"));
    assert!(!rules_of_a_neighbour.contains(&"stolen-cpu".into()), "{rules_of_a_neighbour:?}");
}

#[test]
fn one_queue_of_a_card_with_two_is_well_while_its_worker_has_room() {
    if !can_run() {
        return;
    }
    World {
        before: "ip link del h0
            ip link add h0 numrxqueues 2 numtxqueues 2 type veth peer name t0 netns $other
            ip address add 10.0.0.1/24 dev h0
            there ip address add 10.0.0.2/24 dev t0
            ip link set h0 up
            there ip link set t0 up",
        ..World::default()
    }
    .is_well();
}

#[test]
fn a_slow_disk_is_reported() {
    if !can_run() {
        return;
    }
    World {
        before: "mkdir disks && mount -t tmpfs tmpfs disks",
        target: "--namespace file:disks/disk,size=16m,write_delay_ms=40",
        load: "selvedge bench -a 10.0.0.2 -n $NQN --rw randwrite --iodepth 2 --destroy-data --runtime 60",
        ..World::default()
    }
    .is_reported("slow-storage", &["SelvedgeStorageLatency"]);
}
