//! fio's job files and fio's JSON as people use them: profiles run as they are, what cannot be had is named and nothing
//! runs, and what is printed has fio's names.

use std::process::Output;

use crate::serving::{Serving, json, stderr};
use serde_json::Value;

/// A profile that people measure a home network with, as it was published.
const HOME_NETWORK: &str = include_str!("../../../measurement/src/fio/home-network.fio");

/// A target and a folder for job files.
struct Testbed {
    serving: Serving,
    folder: tempfile::TempDir,
}

impl Testbed {
    fn new(namespace: &str) -> Self {
        Self { serving: Serving::start(namespace), folder: tempfile::tempdir().expect("a folder") }
    }

    fn bench(&self, more: &[&str]) -> Output {
        self.serving.bench(more).output().expect("the program runs")
    }

    fn run(&self, text: &str, more: &[&str]) -> Output {
        let path = self.folder.path().join("job.fio");
        std::fs::write(&path, text).expect("the folder takes a file");
        self.bench(&[&[path.to_str().expect("a path of UTF-8")], more].concat())
    }
}

#[test]
fn a_published_profile_runs_as_it_is() {
    let testbed = Testbed::new("null:2g");
    let output = testbed.run(HOME_NETWORK, &["--runtime", "1", "--output-format=fio-json"]);
    let report = json(&output);
    let jobs = report["jobs"].as_array().expect("jobs");
    let names: Vec<&Value> = jobs.iter().map(|job| &job["jobname"]).collect();
    assert_eq!(names, ["rand-read", "rand-write"]);
    for (job, busy, idle) in [(&jobs[0], "read", "write"), (&jobs[1], "write", "read")] {
        let ios = job[busy]["total_ios"].as_u64().expect("a number");
        assert!(ios > 0 && job[busy]["clat_ns"]["percentile"]["99.900000"].as_u64() > Some(0));
        assert_eq!(job[busy]["io_bytes"], ios * 4096);
        assert_eq!(job[idle]["total_ios"], 0);
        assert_eq!((&job["error"], &job["job options"]["numjobs"]), (&0.into(), &"16".into()));
    }
    assert_eq!((&jobs[0]["groupid"], &jobs[1]["groupid"]), (&0.into(), &1.into()));
    let message = stderr(&output);
    assert!(message.contains("job.fio:9: --runtime on the command line wins over runtime=60"), "{message}");
    assert!(message.contains("ioengine (line 3)") && message.contains("direct (line 7)"), "{message}");
}

#[test]
fn jobs_run_together_or_in_turn_and_each_does_all_of_its_size() {
    let testbed = Testbed::new("memory:16m");
    let text = "[global]\nfilename=x\nioengine=libaio\niodepth=4\nbs=4k\nsize=1m\n[a]\nrw=randwrite\nverify=crc32c\n\
                [b]\nrw=write\noffset=4m\nnumjobs=2\nfsync=64\nstartdelay=10ms\n[c]\nstonewall\nrw=randread\n\
                verify=crc32c\nruntime=60\n";
    let report = json(&testbed.run(text, &["-o", "json"]));
    let jobs = report["jobs"].as_array().expect("jobs");
    let groups: Vec<(&Value, &Value)> = jobs.iter().map(|job| (&job["name"], &job["group"])).collect();
    assert_eq!(groups, [(&"a".into(), &0.into()), (&"b".into(), &0.into()), (&"c".into(), &1.into())]);
    assert_eq!(jobs[0]["verify"]["blocks_read_back"], 256);
    assert_eq!(jobs[1]["write"]["ios"], 512, "each of two jobs writes all of the size");
    assert!(jobs[1]["flush"]["ios"].as_u64() > Some(0));
    // What the first one stamped, the third one knows; it is done long before its time is over.
    assert_eq!((&jobs[2]["read"]["ios"], &jobs[2]["verify"]["reads_checked"]), (&256.into(), &256.into()));

    // After a ramp, which is not part of it, all of the size is done.
    let report = json(&testbed.run("[a]\nrw=read\nsize=1m\nramp_time=50ms\n", &["-o", "json"]));
    assert_eq!(report["jobs"][0]["read"]["ios"], 256);
}

#[test]
fn what_cannot_be_had_is_named_and_nothing_runs() {
    let testbed = Testbed::new("memory:16m");
    let text = "[a]\nrw=write\nsize=1m\nbssplit=4k/50:8k/50\nstonewall\n";
    let output = testbed.run(text, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let message = stderr(&output);
    assert!(message.contains("job.fio:4: bssplit") && message.contains("--ignore-unsupported"), "{message}");
    let report = json(&testbed.run(text, &["--ignore-unsupported", "-o", "json"]));
    assert_eq!(report["jobs"][0]["write"]["ios"], 256);
    assert!(report["notes"][0].as_str().is_some_and(|note| note.contains("job.fio:4: bssplit")));

    // What was written is not overwritten unasked.
    let again = testbed.run("[a]\nrw=read\nsize=4k\n[b]\nstonewall\nrw=write\nsize=1m\n", &["-o", "json"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        again.stdout.is_empty() && stderr(&again).contains("this job file overwrites 1 MiB"),
        "{}",
        stderr(&again)
    );

    for (text, part) in [
        ("[a]\nrw=read\n[b]\nstonewall\nrw=read\nsize=1g\n", "[b] the namespace has 16 MiB"),
        ("[a]\nrw=write\nverify=crc32c\n[b]\nrw=randwrite\n", "put stonewall between them"),
        ("[a]\nrw=read\nbs=2m\n", "job.fio:1: [a] --bs 2 MiB is over the limit"),
        ("[a]\nrw=read\nbs=\n", "job.fio:3:"),
        ("bs=4k\n", "job.fio:1:"),
    ] {
        let output = testbed.run(text, &["-o", "json"]);
        assert_eq!(output.status.code(), Some(2), "{text}: {}", stderr(&output));
        assert!(output.stdout.is_empty() && stderr(&output).contains(part), "{text}: {}", stderr(&output));
    }
    let output = testbed.bench(&["no-such-file.fio"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no-such-file.fio cannot be read"), "{}", stderr(&output));
}

#[test]
fn each_file_of_a_job_file_is_a_namespace() {
    let serving = Serving::start_with("memory:16m", &["--namespace", "memory:16m"]);
    let testbed = Testbed { serving, folder: tempfile::tempdir().expect("a folder") };
    let text = "[global]\nioengine=libaio\nrw=write\nsize=1m\n[first]\nfilename=/dev/nvme0n1\nbs=4k\n\
                [second]\nfilename=/dev/nvme1n1\nbs=16k\nverify=crc32c\n";
    for nsid in [&[][..], &["--ignore-unsupported"], &["--nsid", "1,2,1"]] {
        let output = testbed.run(text, &[&["-o", "json", "--destroy-data"], nsid].concat());
        assert_eq!(output.status.code(), Some(2), "{nsid:?}");
        assert!(stderr(&output).contains("2 files (/dev/nvme0n1, /dev/nvme1n1)"), "{}", stderr(&output));
    }
    let report = json(&testbed.run(text, &["-o", "json", "--nsid", "1,2"]));
    let on = |at: usize| report["jobs"][at]["options"]["nsid"].as_u64();
    assert_eq!((on(0), on(1)), (Some(1), Some(2)));
    // Each was written alone: what the second one stamped is at the second namespace.
    let look = "[look]\nrw=read\nsize=1m\nbs=16k\nverify=crc32c\n";
    assert_eq!(
        json(&testbed.run(look, &["-o", "json", "--nsid", "2"]))["jobs"][0]["verify"]["reads_checked"],
        64
    );
    assert_ne!(testbed.run(look, &["-o", "json", "--nsid", "1"]).status.code(), Some(0));
    // Both on one namespace only by name; and then what one verifies is safe from the other.
    let spoilt = testbed.run(text, &["-o", "json", "--destroy-data", "--nsid", "2,2"]);
    assert!(stderr(&spoilt).contains("put stonewall between them"), "{}", stderr(&spoilt));
    let workload = testbed.bench(&["--rw", "read", "--nsid", "1,2"]);
    assert!(stderr(&workload).contains("only a job file uses several"), "{}", stderr(&workload));
}

#[test]
fn an_engine_that_writes_no_data_writes_none() {
    let testbed = Testbed::new("memory:16m");
    let text = "[grow]\nioengine=ftruncate\nfilename=x\nrw=write\nsize=8m\nbs=64k\n";
    for more in [&[][..], &["--ignore-unsupported"]] {
        let output = testbed.run(text, &[&["--destroy-data"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(stderr(&output).contains("job.fio:2: ioengine=ftruncate: it reads and writes no data"));
    }
    let both = format!("{text}[look]\nioengine=libaio\nrw=read\nsize=8m\nbs=64k\n");
    let report = json(&testbed.run(&both, &["--ignore-unsupported", "-o", "json"]));
    let jobs = report["jobs"].as_array().expect("jobs");
    assert_eq!((jobs.len(), &jobs[0]["name"]), (1, &"look".into()));
    // Nothing is there that would have to be destroyed.
    let write = testbed.run("[w]\nrw=write\nsize=8m\nbs=64k\n", &["-o", "json"]);
    assert_eq!(write.status.code(), Some(0), "{}", stderr(&write));
}

#[test]
fn everyday_options_are_what_they_are_in_fio() {
    let testbed = Testbed::new("memory:64m");
    let ios = |text: &str| {
        let report = json(&testbed.run(text, &["-o", "json", "--destroy-data"]));
        let job = &report["jobs"][0];
        ["read", "write"].iter().filter_map(|side| job[*side]["ios"].as_u64()).sum::<u64>()
    };
    assert_eq!(ios("[a]\nrw=read\nbs=64k\nsize=50%\n"), 512);
    assert_eq!(ios("[a]\nrw=read\nbs=1Mi\nsize=16m\n"), 16);
    assert_eq!(ios("[a]\nrw=randrw\nbs=4k,4k\nsize=1m\n"), 256);
    assert_eq!(ios("[a]\nrw=randread\nbsrange=4k-4k\nsize=1m\nnice=5\n"), 256);
    let four = "[a]\nrw=write\nbs=64k\nnumjobs=4\nsize=8m\noffset_increment=8m\nverify=crc32c\n";
    assert_eq!(ios(four), 512);
    // Each of the four wrote its own part, and verifies it alone.
    let look = json(&testbed.run("[l]\nrw=read\nbs=64k\nsize=32m\nverify=crc32c\n", &["-o", "json"]));
    assert_eq!(look["jobs"][0]["verify"]["reads_checked"], 512);
    let path = testbed.folder.path().join("job.fio");
    std::fs::write(&path, "[a]\nrw=read\nsize=${JOB_SIZE}\n").expect("the folder takes a file");
    let mut bench = testbed.serving.bench(&[path.to_str().expect("a path of UTF-8"), "-o", "json"]);
    let report = json(&bench.env("JOB_SIZE", "1m").output().expect("the program runs"));
    assert_eq!(report["jobs"][0]["read"]["ios"], 256);
    let unset = bench.env_remove("JOB_SIZE").output().expect("the program runs");
    assert!(
        stderr(&unset).contains("job.fio:3: the environment has no variable `JOB_SIZE`"),
        "{}",
        stderr(&unset)
    );
}

#[test]
fn a_command_line_of_fio_runs_as_it_is() {
    let testbed = Testbed::new("memory:16m");
    let result = testbed.folder.path().join("result.json");
    let output = format!("--output={}", result.display());
    let line = "--name=x --group_reporting --direct=1 --ioengine=libaio --filename=/dev/nvme0n1 --time_based=1 \
                --size=100% --thread --rw=randread --bs=4k,4k --runtime=1 --output-format=fio-json";
    let words: Vec<&str> = line.split_whitespace().chain([output.as_str()]).collect();
    let done = testbed.bench(&words);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(done.stdout.is_empty(), "it is in the file");
    let text = std::fs::read_to_string(&result).expect("it was made");
    let report: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(report["jobs"][0]["jobname"], "x");
    assert!(stderr(&done).contains("options without effect over NVMe/TCP: "), "{}", stderr(&done));
    for (option, part) in [
        ("--ioengine=null", "--ioengine: it reads and writes no data"),
        ("--loops=3", "--loops=3 is not supported"),
        ("--filename=/dev/a:/dev/b", "2 files"),
        ("--no_such_option=3", "unexpected argument"),
    ] {
        let refused = testbed.bench(&["--rw", "write", "--size", "4k", option]);
        assert_eq!(refused.status.code(), Some(2), "{option}");
        assert!(stderr(&refused).contains(part), "{option}: {}", stderr(&refused));
    }
}

#[test]
fn a_workload_of_flags_is_printed_in_fios_form() {
    let testbed = Testbed::new("memory:16m");
    let more = ["--rw", "randrw", "--size", "4m", "--iodepth", "8", "--fsync", "32", "-o", "fio-json"];
    let report = json(&testbed.bench(&more));
    let job = &report["jobs"][0];
    let ios = |side: &str| job[side]["total_ios"].as_u64().expect("a number");
    assert_eq!(ios("read") + ios("write"), 1024);
    assert!(ios("sync") > 0 && ios("trim") == 0);
    let output = testbed.bench(&["--verify-only", "--verify-state", "x", "-o", "fio-json"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
