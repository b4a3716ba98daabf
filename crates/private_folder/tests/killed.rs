//! A process that is killed while it puts files in others' places leaves one of them whole, and a
//! reader meanwhile sees nothing else. The test starts this program again as the process that is
//! killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use prerequisite::wait_until;
use private_folder::PrivateFolder;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The folder of the process that is to be killed.
const FOLDER: &str = "SELVEDGE_TEST_PRIVATE_FOLDER";
const ROUNDS: u64 = 30;
/// Bytes of a file: more than a write takes at once, so that a kill may come in between.
const LENGTH: usize = 3 << 20;

/// Not a test of its own: without a folder it does nothing.
#[test]
fn the_child() {
    let Some(path) = std::env::var_os(FOLDER) else { return };
    let folder = PrivateFolder::make(Path::new(&path)).unwrap();
    for number in 0u64.. {
        folder.replace("file", &content(number)).unwrap();
        println!("\nreplaced");
    }
}

/// A content of which each part says which one it is.
fn content(number: u64) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(LENGTH).collect()
}

fn assert_whole(folder: &PrivateFolder, when: &str) {
    let Some(found) = folder.read("file", u64::MAX).unwrap() else { return };
    let number = u64::from_le_bytes(found[..8].try_into().unwrap());
    assert!(found == content(number), "{when}: {} bytes, which begin as {number}", found.len());
}

/// Stops a process; it goes on where something does not hold then.
fn stands_still(child: &Child, holds: impl FnOnce() -> bool) -> bool {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped());
    let holds = holds();
    if !holds {
        kill_process(pid, Signal::CONT).unwrap();
    }
    holds
}

#[test]
fn a_process_that_is_killed_leaves_one_content_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::make(scratch.path()).unwrap();
    let mut left_behind = 0;
    let place = scratch.path().join("file.new");
    for round in 0..ROUNDS {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "the_child", "--nocapture"]).env(FOLDER, scratch.path());
        let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "replaced"), "it begins");
        let end = Instant::now() + Duration::from_micros(round * 419 % 12_000);
        while Instant::now() < end {
            assert_whole(&folder, "while it is replaced");
        }
        // Half of them come in the middle.
        if round % 2 == 1 {
            wait_until("it stands still in the middle", || stands_still(&child, || place.exists()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_whole(&folder, "after the kill");
        left_behind += u64::from(place.exists());
    }
    assert!(left_behind >= ROUNDS / 2, "{left_behind} kills came in the middle");
    folder.replace("file", b"the end").unwrap();
    let names: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
}
