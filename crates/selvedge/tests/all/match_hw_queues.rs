//! The initiator's side of the tuner as people use it: queues matched to the NIC's, a number found by trying, and what
//! other programs learn of a run's queues while it lasts.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::serving::{NQN, Serving, json, stderr};
use prerequisite::{wait_for, wait_for_end};
use serde_json::Value;

/// Runs a bench against a target.
fn run(serving: &Serving, more: &str) -> Output {
    bench(serving, more).output().expect("the program runs")
}

fn bench(serving: &Serving, more: &str) -> Command {
    serving.bench(&more.split_whitespace().collect::<Vec<_>>())
}

/// CPUs that this process may use, which those it starts may too.
fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)
}

#[test]
fn queues_are_matched_and_workers_placed() {
    let serving = Serving::start("memory:16m");
    let report = json(&run(&serving, "--rw randread --numjobs 2 --runtime 1 --match-hw-queues -o json"));
    let matched = &report["match_hw_queues"][0];
    assert_eq!(matched["interface"], "lo");
    let limit = matched["limit"].as_u64().expect("a number");
    assert!(limit >= cpus() && report["queues"]["asked"] == limit.min(128), "{report}");
    assert!(matched["reason"].as_str().is_some_and(|reason| reason.contains("online CPU")), "{matched}");
    let queues = matched["queues"].as_array().expect("queues");
    assert_eq!(queues.len() as u64, limit.min(128));
    let connections = report["paths"][0]["connections"].as_array().expect("connections");
    for queue in queues {
        assert!(queue["cpu"].is_u64() && queue["receive_queue"].is_null(), "{queue}");
        let of = |connection: &&Value| connection["queue_id"] == queue["qid"];
        let connection = connections.iter().find(of).expect("each queue has a connection");
        let local = connection["stream"]["subflows"][0]["local"].as_str().expect("an address");
        assert_eq!(local, format!("127.0.0.1:{}", queue["port"]));
    }
    let one = json(&run(&serving, "--rw randread -i 1 --runtime 1 --match-hw-queues=on -o json"));
    assert_eq!(one["match_hw_queues"][0]["queues"].as_array().map(Vec::len), Some(1));
    let off = json(&run(&serving, "--rw randread --runtime 1 --match-hw-queues=off -o json"));
    assert!(off["match_hw_queues"].is_null() && off["auto_queues"].is_null());
    let text = run(&serving, "--rw randread --runtime 1 --match-hw-queues");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("over lo: up to") && text.contains("receive queue"), "{text}");
}

#[test]
fn a_number_of_queues_is_found_by_trying() {
    let serving = Serving::start("memory:16m");
    let output =
        run(&serving, "--rw randrw --iodepth 4 --numjobs 2 -i auto --auto-trial 1 --runtime 1 -o json");
    let report = json(&output);
    let auto = &report["auto_queues"];
    let trials = auto["trials"].as_array().expect("trials");
    assert!(trials.len() >= 3 && trials[0]["queues"] == trials[1]["queues"], "{auto}");
    let most = auto["most"].as_u64().expect("a number");
    assert!(trials.iter().all(|trial| trial["queues"].as_u64().is_some_and(|queues| queues <= most)));
    assert!(trials.iter().all(|trial| trial["iops"].as_f64() > Some(0.0)), "{auto}");
    assert_eq!(report["queues"]["granted"], auto["settled"]);
    assert!(report["match_hw_queues"].is_null());
    let content = stderr(&output);
    assert!(content.contains("-i auto: the trials write"), "{content}");
    let rule = auto["rules"][0].as_str().expect("a rule");
    assert!(
        rule.contains("by the rule") && rule.contains("the number of queues says nothing here"),
        "{rule}"
    );
    assert!(content.contains(&format!("-i auto: {rule}")), "{content}");
    assert_eq!(content.matches("µs of CPU a command").count(), trials.len(), "{content}");
    for refused in ["--rw randwrite --verify-state x", "--rw randwrite --verify"] {
        let output = run(&serving, &format!("{refused} -i auto"));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("-i auto cannot be used with"), "{}", stderr(&output));
    }
}

/// The file of a process, where this user's are.
fn queue_file(pid: u32, session: &std::path::Path) -> PathBuf {
    let root = rustix::process::geteuid().is_root();
    let folder = if root { PathBuf::from("/run/selvedge/queues") } else { session.join("selvedge/queues") };
    folder.join(format!("{pid}.json"))
}

#[test]
fn queues_are_published_to_other_programs_until_the_end() {
    let serving = Serving::start("memory:16m");
    let session = tempfile::tempdir().expect("a folder");
    let mut command = bench(&serving, "--rw randread --numjobs 2 -i 4 --runtime 60 -o json");
    command.env("XDG_RUNTIME_DIR", session.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program runs");
    let path = queue_file(child.id(), session.path());
    let content = wait_for("a file of queues", || {
        assert_eq!(child.try_wait().expect("it can be asked"), None, "no {}", path.display());
        std::fs::read_to_string(&path).ok()
    });
    let content: Value = serde_json::from_str(&content).expect("JSON");
    assert_eq!(content["pid"], child.id());
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
    let behind_name = stat.rsplit_once(')').expect("a name").1;
    assert_eq!(behind_name.split_whitespace().nth(19), Some(content["start_time"].to_string().as_str()));
    let queues = content["queues"].as_array().expect("queues");
    let mut ids: Vec<u64> = queues.iter().filter_map(|queue| queue["qid"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4]);
    for queue in queues {
        assert_eq!(
            (&queue["nqn"], &queue["peer"]),
            (&NQN.into(), &format!("127.0.0.1:{}", serving.port).into())
        );
        assert!(queue["controller"].as_str().is_some_and(|name| name.starts_with("cntlid ")), "{queue}");
        let thread = format!("/proc/{}/task/{}", child.id(), queue["thread"]);
        assert!(std::path::Path::new(&thread).exists(), "{thread}");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    wait_for_end(&mut child);
    assert!(!path.exists(), "{} is still there", path.display());
}
