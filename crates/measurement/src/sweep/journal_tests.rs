//! A sweep's file: what is kept is there again, whatever was cut off.

use std::fs;
use std::path::Path;

use super::*;
use crate::flags::sweep::SweepFlags;
use crate::sweep::sample;

fn header(arguments: &str) -> Header {
    let line = format!("-a 10.0.0.1 -n nqn.a --rw randread {arguments}");
    let plan = Plan::new(&SweepFlags::of(&line).unwrap()).unwrap();
    Header::new(plan, Vec::new(), sample::identity(), "2026-11-22T10:48:49Z".to_owned())
}

fn with_runs(folder: &Path) -> Journal {
    let mut journal = Journal::create(folder, header("--iodepth 1,2,4 --repeat 2")).unwrap();
    for planned in journal.header.plan.planned_runs().into_iter().take(4) {
        journal.keep(planned, sample::measurement(1000.0 + planned.point as f64, 50_000.0)).unwrap();
    }
    journal
}

#[test]
fn what_is_kept_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = with_runs(folder.path());
    let failed = journal.header.plan.planned_runs()[4];
    journal.keep_failure(failed, "the target said no").unwrap();
    let again = Journal::read(folder.path()).unwrap();
    assert_eq!(again.header, journal.header);
    assert_eq!(
        (again.runs.clone(), again.failures.clone()),
        (journal.runs.clone(), journal.failures.clone())
    );
    assert_eq!(again.failures(failed.point).collect::<Vec<_>>(), ["the target said no"]);
    // A second attempt takes the place of a failure.
    journal.keep(failed, sample::measurement(1.0, 1.0)).unwrap();
    let again = Journal::read(folder.path()).unwrap();
    assert!(again.has(failed) && again.failures.is_empty());
}

#[test]
fn a_sweep_is_cut_off_at_any_byte_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let whole = with_runs(folder.path());
    drop(whole);
    let bytes = fs::read(folder.path().join(NAME)).unwrap();
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
    let step = (bytes.len() - first) / 97 + 1;
    for length in (first..=bytes.len()).step_by(step).chain([bytes.len() - 1]) {
        let cut = tempfile::tempdir().unwrap();
        fs::write(cut.path().join(NAME), &bytes[..length]).unwrap();
        let mut journal = Journal::open(cut.path()).unwrap();
        let kept = lines(&bytes[..length]) - 1;
        assert_eq!(journal.count(), kept, "{length}");
        for planned in journal.header.plan.planned_runs() {
            if !journal.has(planned) {
                journal.keep(planned, sample::measurement(7.0, 7.0)).unwrap();
            }
        }
        assert_eq!(Journal::read(cut.path()).unwrap().count(), 6, "{length}");
    }
    for length in [0, 1, first - 1] {
        let cut = tempfile::tempdir().unwrap();
        fs::write(cut.path().join(NAME), &bytes[..length]).unwrap();
        assert!(Journal::open(cut.path()).unwrap_err().line().unwrap().contains("line 1"), "{length}");
    }
}

#[test]
fn what_is_wrong_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Journal::read(folder.path()), Err(Failure::Usage(what)) if what.contains("no sweep")));
    drop(with_runs(folder.path()));
    assert!(
        matches!(Journal::create(folder.path(), header("")), Err(Failure::Usage(what)) if what.contains("--resume"))
    );
    let path = folder.path().join(NAME);
    let text = fs::read_to_string(&path).unwrap();
    for (line, expected) in [
        ("{}\n", "line 6"),
        ("nonsense\n", "line 6"),
        ("{\"failure\":{\"visit\":{\"point\":99,\"repetition\":0},\"reason\":\"x\"}}\n", "does not have"),
    ] {
        fs::write(&path, format!("{text}{line}")).unwrap();
        let error = Journal::read(folder.path()).unwrap_err().line().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    fs::write(&path, text.replacen("\"format\":1", "\"format\":2", 1)).unwrap();
    assert!(Journal::read(folder.path()).unwrap_err().line().unwrap().contains("format is 2"));
}
