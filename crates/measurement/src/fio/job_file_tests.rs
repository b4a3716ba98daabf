//! Valid and invalid job files, and job files that are printed and read again.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::flags::bench::{Kind, SyncMode};
use crate::spec::extent::Extent;
use crate::spec::size::Size;

/// A file where no variable is set.
fn read(text: &str) -> Result<JobFile, Complaint> {
    JobFile::read(text, &|_| None)
}

/// A profile that people measure a home network with.
const HOME_NETWORK: &str = include_str!("home-network.fio");

#[test]
fn a_profile_as_people_publish_it_is_understood_whole() {
    let file = read(HOME_NETWORK).unwrap();
    assert!(file.unsupported.is_empty());
    assert_eq!(file.jobs.len(), 2);
    assert_eq!(file.groups().iter().map(|group| group.len()).collect::<Vec<_>>(), [1, 1]);
    for (job, name, kind) in
        [(&file.jobs[0], "rand-read", Kind::Randread), (&file.jobs[1], "rand-write", Kind::Randwrite)]
    {
        assert_eq!(job.name, name);
        let expected = JobOptions {
            stonewall: true,
            kind: Some(kind),
            bs: Some(Size(4096)),
            iodepth: Some(32),
            numjobs: Some(16),
            size: Some(Extent::Bytes(1 << 30)),
            runtime: Some(Duration::from_secs(60)),
            ..JobOptions::default()
        };
        assert_eq!(job.options, expected);
        assert_eq!(job.said["runtime"], Said { line: 9, text: "runtime=60".into() });
    }
    let [note] = &file.notes[..] else { panic!("one note: {:?}", file.notes) };
    for name in ["direct (line 7)", "directory", "filename", "group_reporting", "ioengine", "refill_buffers"]
    {
        assert!(note.contains(name), "{name} is not in {note}");
    }
}

#[test]
fn sections_comments_and_spaces_are_fios() {
    let text = "; a comment\n[global]\n  bs = 8k   # and another\nfilename=x\n[one] ; first\nrw=read\n\n[global]\n\
                iodepth=4\nioengine=libaio\n[two]\r\nrw=write\r\nname=renamed\nstonewall=1\n[three]\n";
    let file = read(text).unwrap();
    let names: Vec<&str> = file.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["one", "renamed", "three"]);
    assert_eq!(file.jobs[0].options.iodepth, None, "a later [global] is for later jobs");
    assert_eq!(file.jobs[1].options.iodepth, Some(4));
    assert!(file.jobs.iter().all(|job| job.options.bs == Some(Size(8192))));
    assert_eq!(file.groups().iter().map(|group| group.len()).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_section_whose_name_begins_with_global_is_no_job() {
    let file = read("[global_writes]\nrw=write\n[globals]\nbs=8k\n[one]\nname=global one\n").unwrap();
    let [job] = &file.jobs[..] else { panic!("one job: {:?}", file.jobs) };
    assert_eq!((job.name.as_str(), job.options.bs), ("global one", Some(Size(8192))));
    assert_eq!(read(&job.to_string()).unwrap().jobs[0].name, "global one", "it is a job where it is written");
}

#[test]
fn what_is_not_done_is_named_with_its_line() {
    let text = "[a]\nrw=randread\nbssplit=4k/50:8k/50\niodepth=8\n[b]\nrw=randrw\nrate_iops=100\n";
    let file = read(text).unwrap();
    let complaints: Vec<String> = file.unsupported.iter().map(ToString::to_string).collect();
    assert_eq!(complaints.len(), 2);
    assert!(complaints[0].starts_with("3: bssplit"), "{complaints:?}");
    assert!(complaints[1].starts_with("7: rate_iops of a mix"), "{complaints:?}");
    assert_eq!(file.jobs[1].options.rate_iops, None);
    assert!(
        file.notes.iter().any(|note| note.contains("line 4") && note.contains("psync")),
        "{:?}",
        file.notes
    );
    assert!(file.notes.iter().any(|note| note.contains("without filename")), "{:?}", file.notes);
}

#[test]
fn each_file_of_the_jobs_is_known_by_its_place_in_their_order() {
    let files = |text: &str| {
        let file = read(text).unwrap();
        let names: Vec<(String, usize)> = file.files.iter().map(|f| (f.name.clone(), f.line)).collect();
        (names, file.jobs.iter().map(|job| job.file).collect::<Vec<_>>())
    };
    let named =
        |names: &[(&str, usize)]| names.iter().map(|(name, line)| ((*name).to_owned(), *line)).collect();
    let two = "[a]\nfilename=/dev/nvme0n1\n[b]\nfilename=/dev/nvme1n1\n[c]\nfilename=/dev/nvme0n1\n";
    assert_eq!(files(two), (named(&[("/dev/nvme0n1", 2), ("/dev/nvme1n1", 4)]), vec![0, 1, 0]));
    let folders =
        "[global]\ndirectory=/a\n[a]\nfilename=x\n[b]\nfilename=x\ndirectory=/b/\n[c]\nfilename=x\n";
    assert_eq!(files(folders), (named(&[("/a/x", 4), ("/b/x", 6)]), vec![0, 1, 0]));
    // Files of the jobs' own, in one folder.
    assert_eq!(files("[a]\n[b]\n"), (named(&[("", 1)]), vec![0, 0]));
    assert_eq!(files("[global]\ndirectory=/a\n[a]\n[b]\n").1, [0, 0]);
    assert_eq!(files("[a]\nfilename=x\n[b]\nrw=read\n").1, [0, 1]);
}

#[test]
fn variables_and_what_places_processes_are_fios() {
    let variables = |name: &str| (name == "SIZE").then(|| "16m".to_owned());
    let text = "; ${NONE} in a comment\n[a${NONE}]\nsize=${SIZE} # ${NONE}\ncpus_allowed=0-3\nnice=-5\n";
    let file = JobFile::read(text, &variables).unwrap();
    assert_eq!(file.jobs[0].options.size, Some(Extent::Bytes(16 << 20)));
    assert_eq!(file.jobs[0].said["size"].text, "size=16m");
    let placed = "these place fio's own processes, and are passed over: cpus_allowed (line 4), nice (line 5)";
    assert_eq!(file.notes, [placed]);
    let missing = JobFile::read("[a]\nrw=read\nbs=${NONE}\n", &variables).unwrap_err();
    assert_eq!((missing.line, missing.what.as_str()), (3, "the environment has no variable `NONE`"));
}

#[test]
fn what_moves_no_data_in_fio_or_uses_several_files_is_no_job() {
    for (option, part) in [
        ("ioengine=ftruncate", "ioengine=ftruncate: it reads and writes no data"),
        ("ioengine=null", "transfers nothing"),
        ("ioengine=falloc", "allocates and frees"),
        ("ioengine=libiao", "no such engine"),
        ("create_only=1", "create_only=1: fio does none"),
        ("verify_only", "verify_only=1: fio does none"),
        ("filename=/dev/a:/dev/b", "2 files: write a section for each"),
        ("directory=/a:/b", "2 files"),
    ] {
        for text in [
            format!("[grow]\nrw=write\n{option}\n[look]\nrw=read\n"),
            format!("[look]\nrw=read\n[global]\n{option}\n[grow]\nrw=write\n[more]\nrw=write\n"),
        ] {
            let file = read(&text).unwrap();
            let [complaint] = &file.unsupported[..] else { panic!("{option}: {:?}", file.unsupported) };
            assert!(complaint.what.contains(part), "{option}: {complaint}");
            assert_eq!(
                file.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(),
                ["look"],
                "{option}"
            );
        }
    }
    let other = read("[a]\nioengine=rbd\n").unwrap();
    assert_eq!(
        (other.jobs.len(), other.unsupported.len()),
        (1, 1),
        "a storage of its own can be passed over"
    );
    let back = read("[global]\nioengine=null\ncreate_only=1\n[a]\nioengine=libaio\ncreate_only=0\n");
    assert_eq!(back.unwrap().unsupported, [], "a section has the last word");
    let waits = "[a]\nrw=read\n[b]\nstonewall\nioengine=null\n[c]\nrw=read\n";
    assert_eq!(read(waits).unwrap().groups().len(), 2, "the stonewall stays");
}

#[test]
fn what_no_program_can_read_is_refused_with_its_line() {
    for (text, line, part) in [
        ("", 1, "no job"),
        ("[global]\nbs=4k\n", 2, "no job"),
        ("[global]\nloops=2\n", 2, "no job"),
        ("rw=read\n[a]\n", 1, "before the first section"),
        ("[a\nrw=read", 1, "not a section"),
        ("[a] b\n", 1, "not a section"),
        ("[]\n", 1, "not a section"),
        ("[a]\nbs=huge\n", 2, "bs: `huge` is not a size"),
        ("[a]\n\nrw\n", 3, "rw"),
        ("[a]\n=4\n", 2, "name"),
        ("[a]\ninclude b.fio\n", 2, "included"),
    ] {
        let complaint = read(text).unwrap_err();
        assert_eq!(complaint.line, line, "{text:?}: {complaint}");
        assert!(complaint.what.contains(part), "{text:?}: {complaint}");
    }
    let many = "[job]\n".repeat(JOBS_MAX + 1);
    assert!(read(&many).unwrap_err().what.contains("more than"));
}

fn kinds() -> impl Strategy<Value = Kind> {
    use Kind::{Randread, Randrw, Randwrite, Read, Readwrite, Write};
    prop::sample::select(vec![Read, Write, Randread, Randwrite, Readwrite, Randrw])
}

fn extents(least: u8) -> impl Strategy<Value = Extent> {
    let bytes = (u64::from(least)..=u64::MAX).prop_map(Extent::Bytes);
    prop_oneof![bytes, (least..=100).prop_map(Extent::Percent)]
}

fn times() -> impl Strategy<Value = Duration> {
    (1..=u64::from(u32::MAX)).prop_map(Duration::from_micros)
}

prop_compose! {
    fn options()(
        (description, stonewall, startdelay) in
            (option::of("[a-z][a-z =\\[\\]]{0,20}[a-z]"), any::<bool>(), option::of(times())),
        (kind, rwmixread, bs) in (option::of(kinds()), option::of(0..=100_u8), option::of(any::<u64>())),
        (iodepth, numjobs) in (option::of(1..=65_536_u32), option::of(1..=1024_u32)),
        (size, offset, offset_increment) in
            (option::of(extents(1)), option::of(extents(0)), option::of(extents(1))),
        (runtime, ramp_time, time_based) in (option::of(times()), option::of(times()), any::<bool>()),
        (rate_iops, fsync) in (option::of(1..=1_000_000_000_u64), option::of(1..=u32::MAX)),
        sync in option::of(prop::sample::select(vec![SyncMode::None, SyncMode::Sync, SyncMode::Dsync])),
        (randseed, another_order, verify) in (option::of(any::<u64>()), any::<bool>(), any::<bool>()),
    ) -> JobOptions {
        let bs = bs.map(Size);
        // A rate of a mix is not supported, and would not come back.
        let is_mixed = matches!(kind, Some(Kind::Readwrite | Kind::Randrw));
        let rate_iops = rate_iops.filter(|_| !is_mixed);
        JobOptions {
            description, stonewall, startdelay, kind, rwmixread, bs, iodepth, numjobs, size, offset, offset_increment, runtime,
            time_based, ramp_time, rate_iops, fsync, sync, randseed, another_order, verify,
        }
    }
}

/// Lines that are nearly right, so that chance comes further than to the first character.
fn lines() -> impl Strategy<Value = String> {
    let names = [
        "rw",
        "bs",
        "size",
        "iodepth",
        "runtime",
        "verify",
        "stonewall",
        "rate_iops",
        "direct",
        "loops",
        "x",
    ];
    let option = (prop::sample::select(names.to_vec()), "[ ]?=?[ ]?", "[0-9]{0,20}[a-zA-Z%:,.\\-]{0,4}")
        .prop_map(|(name, equals, value)| format!("{name}{equals}{value}"));
    prop_oneof![
        6 => option,
        2 => "\\[(global|[a-z \\]]{0,3})\\]?",
        1 => "[#;].{0,8}",
        1 => ".{0,12}",
    ]
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,400}") {
        let _ = read(&text);
    }

    #[test]
    fn lines_that_are_nearly_right_are_read_or_refused_and_come_back(lines in vec(lines(), 0..20)) {
        let text = lines.join("\n");
        match read(&text) {
            Ok(file) => {
                let again = read(&file.to_string()).expect("what is printed can be read");
                let parts = |file: &JobFile| -> Vec<(String, JobOptions)> {
                    file.jobs.iter().map(|job| (job.name.clone(), job.options.clone())).collect()
                };
                prop_assert_eq!(parts(&again), parts(&file));
                prop_assert!(again.unsupported.is_empty());
                prop_assert_eq!(file.groups().concat().len(), file.jobs.len());
            }
            Err(complaint) => prop_assert!((1..=lines.len().max(1)).contains(&complaint.line)),
        }
    }

    #[test]
    fn a_job_comes_back_from_being_printed(name in "[^\\n;#]{1,12}", options in options()) {
        let name = name.trim().to_owned();
        prop_assume!(!name.is_empty());
        let job = Job { name, options, ..Job::default() };
        let file = read(&job.to_string()).expect("what is printed can be read");
        prop_assert_eq!(file.jobs.len(), 1);
        prop_assert_eq!(&file.jobs[0].name, &job.name);
        prop_assert_eq!(&file.jobs[0].options, &job.options);
        prop_assert!(file.unsupported.is_empty());
    }
}
