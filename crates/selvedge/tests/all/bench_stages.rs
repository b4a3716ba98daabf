//! A bench says where the time of its commands went: at a target that is slow, and at a queue that is too short.

use serde_json::Value;

use crate::serving::{Serving, json, stderr};

/// A target whose storage holds each write back, longer than anything else takes.
fn slow_target(folder: &tempfile::TempDir) -> Serving {
    let disk = folder.path().join("disk");
    Serving::start(&format!("file:{},size=4m,write_delay_ms=100", disk.display()))
}

const WORK: [&str; 9] =
    ["--rw", "randwrite", "--bs", "4k", "--iodepth", "8", "--runtime", "1", "--destroy-data"];

/// The stage that took most of the time. All of them together are all of it.
fn longest(stages: &Value) -> String {
    let stages = stages.as_object().expect("four stages");
    let share = |stage: &Value| stage["share_percent"].as_f64().expect("a share");
    let sum: f64 = stages.values().map(share).sum();
    assert!((sum - 100.0).abs() < 0.1, "{sum} %: {stages:?}");
    let longest = stages.iter().max_by(|(_, one), (_, other)| share(one).total_cmp(&share(other)));
    longest.expect("four stages").0.clone()
}

#[test]
fn a_bench_says_where_the_time_went() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = slow_target(&folder);
    let run = |more: &[&str]| {
        let output = target.bench(&[&WORK[..], more].concat()).output().expect("the program runs");
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let report = json(&run(&["-o", "json"]));
    assert_eq!(longest(&report["stages"]), "target", "{report}");
    assert_eq!(report["paths"][0]["stages"], report["stages"], "there is one path");
    let counted: u64 = report["stages"]["target"]["buckets"]
        .as_array()
        .map(|buckets| buckets.iter().filter_map(Value::as_u64).sum())
        .expect("buckets");
    assert_eq!(report["total"]["ios"], counted, "those that the figures count, and no others");
    let said = &report["target_stages"];
    let of = |name: &str| said[name].as_f64().expect("a time");
    assert!(of("storage_ns") > of("mean_ns") / 2.0, "{said}");
    // A queue of two entries holds one of the eight.
    let report = json(&run(&["-Q", "2", "-o", "json"]));
    assert_eq!(longest(&report["stages"]), "waiting", "{report}");
    let text = String::from_utf8(run(&[]).stdout).expect("text");
    assert!(text.contains("target and network") && text.contains("at the target itself: storage"), "{text}");
}

/// Target whose storage holds the first writes until long after the run.
#[test]
fn a_stall_at_the_end_of_a_run_is_in_its_latencies_and_its_duration() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    let target = Serving::start(&format!("file:{},size=4m,write_delay_ms=3000", disk.display()));
    let output = target.bench(&[&WORK[..], &["-o", "json"]].concat()).output().expect("the program runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&output);
    assert_eq!(report["write"]["ios"], 8, "{report}");
    let longest = report["write"]["lat_ns"]["max"].as_u64().expect("a latency");
    let seconds = report["elapsed_s"].as_f64().expect("a duration");
    assert!(longest >= 2_900_000_000 && seconds >= 2.9, "{longest} ns in {seconds} s");
}

/// The job of a kernel patch: its commands take longer to make than it runs.
#[test]
fn a_short_run_with_deep_queues_counts_what_is_done_and_not_its_own_making() {
    let target = Serving::start("memory:64m");
    let work = ["--rw", "randread", "--bs", "4k", "--iodepth", "10000", "--numjobs", "15", "--runtime", "1"];
    let output = target.bench(&[&work[..], &["-o", "json"]].concat()).output().expect("the program runs");
    let report = json(&output);
    let ios = report["read"]["ios"].as_u64().expect("a number");
    assert!(ios > 1000, "{ios} are what is left when the queues are filled while the clock runs");
}
