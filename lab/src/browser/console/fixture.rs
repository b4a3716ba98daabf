//! A made-up target with a thousand hosts, in the words of the control API: hostile names, a namespace that has failed, limits
//! that hold, a gateway that is silent. It keeps out how it is served.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Hosts, each with a controller and two queues.
pub(super) const HOSTS: usize = 1000;
pub(super) const DISKS: &str = "nqn.2026-01.org.example:disks";
/// A name that is markup.
pub(super) const MARKUP: &str = "nqn.2026-01.org.example:<b>backup</b>";
/// A name that is markup and turns the direction of text.
pub(super) const HOSTILE: &str = "nqn.2026-01.org.evil:<img src=x onerror=\"window.hurt=1\">\u{202e}gpj.exe";
/// Location whose name is markup.
const WEST: &str = "west<i>";
/// Bytes of the longest name that NVMe knows.
pub(super) const NAME_BYTES_MAX: usize = 223;

/// A name without a place to break a line.
pub(super) fn longest() -> String {
    let start = "nqn.2026-01.org.example:";
    format!("{start}{}", "w".repeat(NAME_BYTES_MAX - start.len()))
}

pub(super) fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn host(number: usize) -> String {
    match number {
        0 => HOSTILE.to_owned(),
        1 => longest(),
        _ => format!("nqn.2014-08.org.nvmexpress:uuid:{number:08x}-2fa1-11d2-883f-0016d3ccabcd"),
    }
}

/// Connected hosts: every second host by one of two ports.
pub(super) fn roster(version: &str) -> Value {
    let queue = |number: usize, id: usize| {
        json!({
            "queue_id": id, "reactor": number % 4, "peer": format!("10.0.{}.{}:{}", number / 250, number % 250, 40_000 + id),
            "rtt_us": 80 + number % 40, "retransmits": number % 3, "unsent_bytes": 0,
        })
    };
    let controllers: Vec<Value> = (0..HOSTS)
        .map(|number| {
            json!({
                "cntlid": number + 1, "subsystem": DISKS, "host_nqn": host(number), "port": 1 + number % 2, "ready": true,
                "ending": false, "queues": [queue(number, 0), queue(number, 1)],
            })
        })
        .collect();
    let namespace = |nqn: &str, nsid: u32, state: &str| {
        json!({
            "subsystem": nqn, "nsid": nsid, "state": state, "size_bytes": u64::from(nsid) << 40, "may_tear": false,
            "oldest_operation_ms": 0, "late_operations": 0,
        })
    };
    let subsystem = |nqn: &str| json!({ "nqn": nqn, "command_quiesce_ms": 2000, "command_quiesce": "fixed", "longest_operation_ms": 3 });
    json!({
        "version": version,
        "started_s": now_s() as u64 - 90_061,
        "ports": [
            { "id": 1, "address": "10.0.0.1:4420", "transport": "tcp" },
            { "id": 2, "address": "10.0.1.1:4420", "transport": "tcp" },
        ],
        "subsystems": [subsystem(DISKS), subsystem(MARKUP)],
        "namespaces": [
            namespace(DISKS, 1, "ready"), namespace(DISKS, 2, "ready"), namespace(DISKS, 3, "failed"),
            namespace(MARKUP, 1, "ready"),
        ],
        "namespaces_omitted": 4092,
        "controllers": controllers,
        "queues_omitted": 0,
        "quotas": {
            "controllers_per_host": 256, "controllers_per_network": 512, "queues_per_host": 4096, "queues_per_network": 8192,
            "discovery_controllers": 64,
        },
        "refusals": { "not_allowed": 12, "authentication": 0 },
    })
}

fn flow(iops: f64, mean_us: f64) -> Value {
    json!({
        "iops": iops, "bytes_per_s": iops * 4096.0, "mean_us": mean_us, "p50_us_max": 128, "p99_us_max": 1024,
        "stages_us": { "storage": mean_us * 0.7, "limits": mean_us * 0.2, "others": mean_us * 0.1 },
    })
}

/// A second. The numbers are another one's each time.
pub(super) fn tick(number: u64) -> Value {
    let more = (number % 7) as f64 * 10.0;
    let mut all = flow(81_000.0 + more, 212.5);
    all["buckets"] = json!([0, 0, 1, 5, 20, 16_000, 40_000, 20_000, 4_000, 900, 2]);
    all["stage_buckets"] = json!({
        "limits": [0, 0, 0, 0, 0, 0, 0, 0, 800], "storage": [0, 0, 1, 5, 20, 56_000, 20_000, 4_000],
    });
    let mut written = flow(12_000.0 + more, 412.5);
    written["buckets"] = json!([0, 0, 0, 1, 3, 2_000, 6_000, 3_500, 400, 90]);
    let mut held = flow(2000.0, 900.0);
    held["held_per_s"] = json!(800.0);
    let failed =
        "namespace 3 takes no writes, since its storage could not be synchronized (Input/output error)";
    let controllers: Vec<Value> = (0..HOSTS)
        .map(|host| {
            let queue = json!({ "queue_id": 1, "iops": (host as u64 + number) % 90, "depth": host % 4 });
            json!({ "cntlid": host + 1, "queues": [queue] })
        })
        .collect();
    json!({
        "time_s": now_s(),
        "interval_s": 1.0,
        "health": {
            "level": "critical",
            "line": format!("{failed}; and 1 more"),
            "findings": [
                { "level": "critical", "what": failed, "cure": "check the storage, then reopen it: selvedge namespace reopen",
                  "subsystem": DISKS, "nsid": 3 },
                { "level": "notice", "what": "namespace 2: its limits hold back 40 % of its commands",
                  "cure": "it is as configured; a higher limit: selvedge namespace set", "subsystem": DISKS, "nsid": 2 },
            ],
            "findings_omitted": 0,
        },
        "all": { "read": all, "write": written, "errors_per_s": 2.0 },
        "subsystems": [{
            "nqn": DISKS,
            "namespaces": [
                { "nsid": 1, "read": flow(60_000.0 + more, 200.0), "write": flow(12_000.0, 412.5) },
                { "nsid": 2, "read": held },
            ],
        }],
        "namespaces_omitted": 0,
        "controllers": controllers,
        "queues_omitted": 0,
        "reactors": [
            { "number": 0, "connections": 1000, "busy_percent": 35.2 + more / 100.0 },
            { "number": 1, "connections": 1000, "busy_percent": 12.0 },
        ],
    })
}

/// Findings of the rules of `doctor`, in their words: a hostile host, a limit, and costs.
pub(super) fn findings() -> Value {
    let not_reading = json!({
        "rule": "host-not-reading", "severity": "limits", "cost_percent": 0.0, "subject": HOSTILE,
        "cause": format!("{HOSTILE} does not read what this target sends it"),
        "evidence": [
            "queue 1 to 10.0.0.1:40001: 1.00 MiB wait, none acknowledged in 10.0 s, nothing sent again",
            "<b>controller 1</b>",
        ],
        "cure": "Look at the host: a process that is stopped or stuck. The target keeps the queue until its keep alive time is over.",
        "expected": "The host's commands go on, or its place is free.",
        "commands": ["selvedge connection list"],
    });
    let limit = json!({
        "rule": "namespace-limit", "severity": "limits", "cost_percent": 40.0, "subject": format!("namespace 2 of {DISKS}"),
        "cause": format!("A limit holds back the commands of namespace 2 of {DISKS}: iops 2.00 k"),
        "evidence": ["2.00 k IOPS, 8.19 MB/s; a command takes 900 µs on average, 40 % of it held by limits, 55 % at the storage"],
        "cure": "Raise the limit, if the host may have more.",
        "expected": "Commands spend 360 µs less at the target, as long as nothing else becomes the limit.",
        "commands": [format!("selvedge namespace set {DISKS} 2 --iops none --bw none")],
    });
    let old_key = json!({
        "rule": "old-tls-key", "severity": "may-cost", "cost_percent": 0.0, "subject": longest(),
        "cause": "1 host of this target with TLS by keys as nvme-cli before 2025 derives them",
        "evidence": [format!("derivation compat: 2 queues of {}", longest())],
        "cure": "Insert the key by `selvedge key identity --insert` on the host, or upgrade its nvme-cli, and connect again.",
        "expected": "Every target that follows the specification accepts the host; this one accepts both derivations.",
        "commands": [],
    });
    json!({
        "time_s": now_s() as u64, "interval_s": 10.0,
        "findings": [not_reading, limit, old_key],
        "not_looked_at": [
            { "what": "this machine's processors, interrupts, network cards and TCP settings", "reason": "selvedge doctor, on this machine" },
            { "what": "hosts: their queues, paths and processors", "reason": "selvedge doctor -a ADDRESS, on the host" },
        ],
    })
}

/// The end of an audit log, with a host that has a hostile name.
pub(super) fn audit() -> Value {
    json!({ "has_older": true, "records": [
        { "seq": 9, "time": "2026-11-26T05:31:02.114Z", "event": "refused_connect", "who": format!("host {HOSTILE}"), "from": "10.0.0.9:4711",
          "result": "it is on no list", "omitted": 3 },
        { "seq": 8, "time": "2026-11-26T05:31:01.001Z", "event": "change", "who": "token team-a", "from": "10.0.0.7:51012",
          "what": format!("PATCH /v1/subsystems/{DISKS}/namespaces/2"), "result": "done", "omitted": 0 },
    ] })
}

/// History of an hour, with five minutes without samples, three in which the storage was slow, and the first five
/// without histograms of stages.
pub(super) fn history() -> Value {
    let now = now_s() as u64;
    let flow = |commands: u64, is_slow: bool| {
        let mut buckets = vec![0; if is_slow { 4 } else { 0 }];
        buckets.extend([
            0,
            0,
            1,
            5,
            20,
            commands / 5,
            commands / 2,
            commands / 4,
            commands / 25,
            commands / 100,
            2,
        ]);
        let took_us = buckets.iter().sum::<u64>() * if is_slow { 1600 } else { 200 };
        let mut held = vec![0; 8];
        held.push(commands / 10);
        json!({
            "bytes": commands * 4096, "took_us": took_us, "buckets": buckets, "held": commands / 10,
            "stages_us": { "storage": took_us * 7 / 10, "limits": took_us / 5, "others": took_us / 10 },
            "stage_buckets": { "storage": buckets, "limits": held },
        })
    };
    let points: Vec<Value> = (0..720_u64)
        .filter(|step| !(200..260).contains(step))
        .map(|step| {
            let commands = 40_000 + step * 20;
            let mut point = json!({
                "time_s": now - (720 - step) * 5, "interval_s": 5.0, "read": flow(commands, (400..436).contains(&step)),
                "write": flow(commands / 6, false), "other": 0, "errors": 1,
            });
            if step < 60 {
                point["read"]["stage_buckets"] = json!({});
            }
            point
        })
        .collect();
    json!({ "step_s": 5, "points_max": 720, "points": points })
}

/// The configuration, as far as the console reads it.
pub(super) fn subsystems() -> Value {
    json!({ "subsystems": [
        { "nqn": DISKS, "model": "Selvedge", "allow_any_host": true, "hosts": [], "namespaces": [
            { "nsid": 1, "backend": { "rbd": { "pool": "rbd", "image": "a" } }, "ana_group": 1, "location": WEST },
            { "nsid": 2, "backend": { "file": { "path": "/srv/b.img" } }, "ana_group": 1, "qos": { "iops": 2000, "bytes": 209_715_200 } },
            { "nsid": 3, "backend": { "file": { "path": "/srv/c.img" } }, "ana_group": 2 },
        ] },
        { "nqn": MARKUP, "model": "Selvedge", "allow_any_host": false, "hosts": [], "namespaces": [
            { "nsid": 1, "backend": { "memory": { "size": 1_073_741_824 } }, "ana_group": 1 },
        ] },
    ] })
}

/// A group of two gateways at two locations, of which one is silent. Minutes ago the other took its images over and gave them
/// back.
pub(super) fn gateways() -> Value {
    let gateway = |name: &str, number: u16, location: &str, is_well: bool, address: &str| {
        json!({
            "name": name, "number": number, "location": location, "life": "alive", "is_well": is_well, "has_hosts": is_well, "ports": [number],
            "listeners": [{ "address": address, "service": 4420 }], "connections": number, "is_drained": !is_well,
        })
    };
    json!({
        "group": "rbd/group", "gateway": "a", "has_lease": true, "version": 17,
        "gateways": [gateway("a", 1, "east", true, "10.0.0.1"), gateway("b<i>", 2, WEST, false, "fd00::2")],
        "load_balancing_groups": [
            { "id": 1, "preferred": "a", "location": "east", "is_degraded": true, "owner": "a", "state": "serving",
              "namespaces": 2, "is_served_here": true },
            { "id": 2, "preferred": "b<i>", "location": WEST, "is_degraded": true, "owner": null, "state": "handing_over",
              "namespaces": 2, "is_served_here": false },
        ],
        "unreached_hosts": [
            { "host": HOSTILE, "subsystem": DISKS, "gateway": "b<i>", "load_balancing_group": 2, "connected_to": "a" },
        ],
        "events": events(),
    })
}

/// Preview of a change by which the second of them is to serve again.
pub(super) fn preview() -> Value {
    let word = "load-balancing group 2 (2 namespaces) goes back to gateway b<i>, if hosts are at it";
    json!({ "changes": [], "words": [word], "controllers_ending": 0 })
}

/// Events of that group's gateways.
fn events() -> Value {
    let now_ms = now_s() * 1000.0;
    let at = |ago_s: f64, what: &str, gateway: &str| json!({ "time_ms": (now_ms - ago_s * 1000.0) as u64, "what": what, "gateway": gateway });
    let moves = |ago_s: f64, group: u32, gateway: &str, state: &str| {
        let mut event = at(ago_s, "load_balancing_group_moves", gateway);
        event["load_balancing_group"] = group.into();
        event["state"] = state.into();
        event
    };
    let mut unowned = moves(20.0, 2, "", "handing_over");
    unowned.as_object_mut().expect("it is one").remove("gateway");
    json!([
        at(2000.0, "gateway_there", "a"),
        moves(2000.0, 1, "a", "serving"),
        moves(2000.0, 2, "b<i>", "serving"),
        at(900.0, "gateway_given_up", "b<i>"),
        moves(900.0, 2, "a", "fencing"),
        moves(897.2, 2, "a", "serving"),
        moves(300.0, 2, "b<i>", "handing_over"),
        moves(299.9, 2, "b<i>", "serving"),
        at(10.0, "gateway_drained", "b<i>"),
        unowned,
    ])
}
